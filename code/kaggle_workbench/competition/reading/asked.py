"""What a competition asks for: kind of answer, metric, and what a submission's cells hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaggle_workbench import metrics
from kaggle_workbench.competition.reading.columns import is_text
from kaggle_workbench.competition.reading.overrides import Overrides
from kaggle_workbench.competition.sample import Sample
from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

# More different answers than this are amounts, or names, not classes to learn.
MOST_CLASSES = 1000
# Whole numbers with at most so many different values may be classes.
FEW = 30
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
    found.task = overrides.problem or _task(columns, sample, found, by_class=by_class)
    found.wants = _wants(found, columns, sample, by_class=by_class)
    if found.metric is not None and not _fits(found):
        found.doubts.append(
            f"The metric {found.metric.title} does not fit what is asked for ({found.wants}); cross-validation "
            "measures another one. PROBLEM, TARGET or METRIC in variables.env say it better."
        )
        found.metric, title = None, ""
    elif found.wants == "values" and (reason := _cannot_score(found, columns)):
        found.doubts.append(f"The metric cannot score these answers: {reason} METRIC in variables.env sets another.")
        found.metric, title = None, ""
    if found.metric is None:
        many = "many" if found.task == "several" or len(targets) > 1 else "one"
        wants = "labels" if found.wants == "ranking" else found.wants
        name = STAND_INS.get((wants, many), "accuracy")
        found.metric, found.stands_in = metrics.metric(name), True
        why = f"The metric {title!r} is not known here" if title else "The competition's metric is not known"
        if title or not found.doubts:
            found.doubts.append(f"{why}; {found.metric.title} stands in for it. METRIC in variables.env sets another.")
    return found


def _metric(title: str, overrides: Overrides) -> Metric | None:
    if overrides.metric is None:
        return metrics.find(title) if title else None
    known = metrics.find(overrides.metric)
    if known is None:
        names = ", ".join(sorted(metrics.METRICS))
        raise UsageError(f"METRIC is {overrides.metric!r}, which is not known here.", hint=f"Known: {names}.")
    return known


def _task(columns: Sequence[Any], sample: Sample | None, found: Asked, *, by_class: bool) -> str:
    if len(columns) > 1:
        return "several"
    column = columns[0]
    distinct = column.nunique()
    if by_class:
        return "binary" if distinct == 2 else "classes"
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
    if values == "probability":
        return "probabilities"
    if values == "ranking":
        return "ranking"
    if values == "label":
        return "labels"
    if values == "number":
        return "values"
    target = sample.targets[0] if sample is not None and len(sample.targets) == 1 else None
    return "probabilities" if target is not None and target.kind == "number" and found.task == "binary" else "labels"


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
        "labels": ("label",),
        "probabilities": ("probability", "number"),
        "values": ("number",),
        "ranking": ("ranking",),
    }
    return values in fitting[found.wants]
