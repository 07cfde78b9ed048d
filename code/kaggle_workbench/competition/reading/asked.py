"""What a competition asks for: kind of answer, metric, and what a submission's cells hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaggle_workbench import metrics
from kaggle_workbench.competition.reading.overrides import Overrides
from kaggle_workbench.competition.reading.text import is_text
from kaggle_workbench.competition.sample import Sample
from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

# More different answers than this are amounts, or names, not classes to learn.
MOST_CLASSES = 1000
# Whole numbers with at most so many different values may be classes.
FEW = 30
# Text of which more than this part of the rows has another one names no classes.
MOST_TEXTS = 0.5
# What is measured in place of a metric that is not known, by what is asked for.
STAND_INS = {
    ("labels", "one"): "accuracy",
    ("probabilities", "one"): "log_loss",
    ("probabilities", "many"): "mean_columnwise_log_loss",
    ("values", "one"): "rmse",
    ("values", "many"): "mean_columnwise_rmse",
}


@dataclass
class Asked:
    """What is asked for.

    Attributes:
        task: "binary", "classes", "regression", "several", or "" when it is not plain.
        wants: What a submission's cells hold: "labels", "probabilities", "values" or "ranking" (labels, the likeliest
            first, separated by spaces).
        metric: What cross-validation measures.
        stands_in: Whether the competition's own metric is not known, and this one is measured in its place.
        doubts: Sentences about guesses that may be wrong.
    """

    task: str = ""
    wants: str = "labels"
    metric: Metric | None = None
    stands_in: bool = False
    doubts: list[str] = field(default_factory=list)


def find_asked(
    train: pd.DataFrame,
    targets: Sequence[str],
    sample: Sample | None,
    title: str,
    overrides: Overrides,
    *,
    by_class: bool,
) -> Asked:
    """Tell what is asked for.

    Args:
        train: Training table.
        targets: Columns to predict.
        sample: The sample submission.
        title: The metric as Kaggle names it; "" when it is not known.
        overrides: What the user said.
        by_class: Whether a submission has a column for each class.

    Raises:
        UsageError: METRIC is none that is known.
    """
    found = Asked(metric=_metric(title, overrides))
    if not targets:
        return found
    columns = [train[name] for name in targets]
    if found.metric is not None and found.metric.values == "mask":
        found.doubts.append("Masks are asked for (run-length text), which have no baseline here.")
        return found
    if overrides.problem is not None:
        _require_possible(overrides.problem, columns)
    found.task = overrides.problem or _task(columns, sample, found, by_class=by_class)
    if not found.task:
        return found
    found.wants = _wants(found, columns, sample, by_class=by_class)
    if found.metric is not None and not _fits(found):
        found.doubts.append(
            f"The metric {found.metric.title} does not fit what is asked for ({found.wants}); cross-validation "
            "measures another one. PROBLEM, TARGET or METRIC in variables.env say it better."
        )
        found.metric, title = None, ""
    elif found.wants in ("values", "labels") and (reason := _cannot_score(found, columns)):
        found.doubts.append(
            f"{found.metric.title if found.metric is not None else 'The metric'} cannot score these answers: {reason} "
            "METRIC in variables.env sets another."
        )
        found.metric, title = None, ""
        found.task = overrides.problem or _task(columns, sample, found, by_class=by_class)
        found.wants = _wants(found, columns, sample, by_class=by_class)
    if found.metric is None:
        many = "many" if found.task == "several" or len(targets) > 1 else "one"
        wants = "labels" if found.wants == "ranking" else found.wants
        name = STAND_INS.get((wants, many), "accuracy")
        found.metric, found.stands_in = metrics.metric(name), True
        why = f"The metric {title!r} is not known here" if title else "The competition's metric is not known"
        if title or not found.doubts:
            found.doubts.append(f"{why}; {found.metric.title} stands in for it. METRIC in variables.env sets another.")
    return found


def _require_possible(problem: str, columns: Sequence[Any]) -> None:
    """Refuse a PROBLEM that the answers contradict."""
    names = ", ".join(repr(str(column.name)) for column in columns)
    text = next((column for column in columns if is_text(column)), None)
    why = ""
    if problem == "several" and len(columns) < 2:
        why = f"one column is to be predicted: {names}"
    elif problem != "several" and len(columns) > 1:
        why = f"{len(columns)} columns are to be predicted: {names}"
    elif problem == "regression" and text is not None:
        why = f"{str(text.name)!r} holds text, such as {_example(text)}"
    elif problem == "binary" and columns[0].nunique() > 2:
        why = f"{names} holds {columns[0].nunique():,} different answers"
    elif problem == "classes" and columns[0].nunique() > MOST_CLASSES:
        why = f"{names} holds {columns[0].nunique():,} different answers; at most {MOST_CLASSES:,} can be classes"
    if why:
        raise UsageError(
            f"PROBLEM is {problem}, and {why}.",
            hint="Correct PROBLEM or TARGET in variables.env, or take PROBLEM out: then it is read from the files.",
        )


def _metric(title: str, overrides: Overrides) -> Metric | None:
    if overrides.metric is None:
        return metrics.find(title) if title else None
    known = metrics.find(overrides.metric)
    if known is None:
        names = ", ".join(sorted(metrics.METRICS))
        raise UsageError(f"METRIC is {overrides.metric!r}, which is not known here.", hint=f"Known: {names}.")
    return known


def _task(columns: Sequence[Any], sample: Sample | None, found: Asked, *, by_class: bool) -> str:
    task = _question(columns, sample, found, by_class=by_class)
    if task == "classes" and columns[0].nunique() > MOST_CLASSES:
        count = f"{columns[0].nunique():,} different answers"
        found.doubts.append(f"{str(columns[0].name)!r} has {count}: too many to be learnt as classes.")
        return ""
    return task


def _question(columns: Sequence[Any], sample: Sample | None, found: Asked, *, by_class: bool) -> str:
    if len(columns) > 1:
        text = next((column for column in columns if is_text(column)), None)
        if text is None:
            return "several"
        found.doubts.append(
            f"{len(columns)} columns are to be predicted, and {str(text.name)!r} holds text, such as {_example(text)}."
        )
        return ""
    column = columns[0]
    distinct = column.nunique()
    if by_class:
        return "binary" if distinct == 2 else "classes"
    if is_text(column) and distinct > max(FEW, MOST_TEXTS * len(column)):
        found.doubts.append(
            f"The answers in {str(column.name)!r} are text, and most rows have another one, such as "
            f"{_example(column)}: they are neither classes nor amounts."
        )
        return ""
    if is_text(column) or column.dtype.kind == "b":
        return "binary" if distinct == 2 else "classes"
    if found.metric is not None:
        if found.metric.values == "number":
            return "regression"
        return "binary" if distinct == 2 else "classes"
    if distinct == 2:
        return "binary"
    whole = (column.dropna() % 1 == 0).all()
    if not whole:
        return "regression"
    if sample is not None and len(sample.targets) == 1 and sample.targets[0].kind == "number":
        return "regression"
    few = distinct <= FEW and distinct <= max(2, 0.1 * len(column))
    found.doubts.append(
        f"The answers are {distinct:,} different whole numbers; they are taken for "
        f"{'classes' if few else 'amounts'}. PROBLEM={'regression' if few else 'classes'} in variables.env says else."
    )
    return "classes" if few else "regression"


def _example(column: Any) -> str:
    return repr(str(next(iter(column.dropna()), ""))[:40])


def _wants(found: Asked, columns: Sequence[Any], sample: Sample | None, *, by_class: bool) -> str:
    if found.task == "regression":
        return "values"
    if by_class:
        return "probabilities"
    values = found.metric.values if found.metric is not None else ""
    if found.task == "several":
        binary = all(set(column.dropna().unique().tolist()) <= {0, 1} for column in columns)
        if binary and values in ("", "probability", "label"):
            fractions = sample is not None and any(column.kind == "number" for column in sample.targets)
            return "probabilities" if values == "probability" or (not values and fractions) else "labels"
        return "values"
    target = sample.targets[0] if sample is not None and len(sample.targets) == 1 else None
    if values == "probability":
        # A sample of labels says that labels are asked for, whatever the metric's name.
        return "labels" if target is not None and target.kind == "text" else "probabilities"
    if values == "ranking":
        return "ranking"
    if values == "label":
        return "labels"
    if values == "number":
        # Classes that are numbers, scored by how far off they are.
        return "probabilities" if found.task == "binary" and _marks(columns[0]) else "labels"
    return "probabilities" if target is not None and target.kind == "number" and found.task == "binary" else "labels"


def _marks(column: Any) -> bool:
    return not is_text(column) and set(column.dropna().unique().tolist()) <= {0, 1}


def _cannot_score(found: Asked, columns: Sequence[Any]) -> str:
    """Why the metric refuses the training rows' own answers; "" when it takes them."""
    import pandas as pd

    known = pd.concat(list(columns), axis=1).dropna()
    if found.metric is None or not len(known):
        return ""
    truth = known.to_numpy()[:, 0] if len(columns) == 1 else known.to_numpy()
    try:
        found.metric.score(truth, truth)
    except UsageError as error:
        return error.message
    return ""


def _fits(found: Asked) -> bool:
    values = found.metric.values if found.metric is not None else ""
    fitting = {
        "labels": ("label", "number"),
        "probabilities": ("probability", "number"),
        "values": ("number",),
        "ranking": ("ranking",),
    }
    return values in fitting[found.wants]
