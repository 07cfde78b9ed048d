"""Competition metrics, shared by cross-validation and the arena.

A registry: a metric is one entry of `METRICS`. Its `score` takes what the competition calls the
solution and the submission, in the same order of rows, and gives one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kaggle_workbench.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

Score = Callable[["ArrayLike", "ArrayLike"], float]


@dataclass(frozen=True)
class Metric:
    """One competition metric.

    Attributes:
        name: As written in competition.json.
        title: As Kaggle shows it.
        greater_is_better: Whether a higher score wins.
        values: What a column holds: "label" (a class: compared, never calculated with) or "number".
        score: (solution, submission) -> score. Both of one shape: (rows,) or (rows, targets).
    """

    name: str
    title: str
    greater_is_better: bool
    values: Literal["label", "number"]
    score: Score


def metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        UsageError: There is none; the hint lists those there are.
    """
    if name not in METRICS:
        raise UsageError(f"There is no metric {name!r}.", hint="Known metrics: " + ", ".join(sorted(METRICS)) + ".")
    return METRICS[name]


def accuracy(solution: ArrayLike, submission: ArrayLike) -> float:
    """Share of rows whose class is right, from 0 to 1.

    The definition is scikit-learn's `accuracy_score`: with several target columns, a row counts
    only when all of them are right.

    Args:
        solution: True classes, (rows,) or (rows, targets); numbers or text.
        submission: Predicted classes of the same shape.

    Raises:
        UsageError: Shapes differ, there are no rows, or a number is missing (NaN).
    """
    true, guess = _pair(solution, submission)
    right = true == guess
    return float(right.mean() if right.ndim == 1 else right.all(axis=1).mean())


def _pair(solution: ArrayLike, submission: ArrayLike) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    # numpy is imported on use: the arena starts without it.
    import numpy as np

    true, guess = np.asarray(solution), np.asarray(submission)
    if true.shape != guess.shape:
        raise UsageError(f"The solution has shape {true.shape} and the submission {guess.shape}; they must be equal.")
    if true.ndim not in (1, 2) or true.size == 0:
        raise UsageError(f"A score needs at least one row of one or more columns; the shape is {true.shape}.")
    for name, values in (("solution", true), ("submission", guess)):
        if values.dtype.kind in "fc" and np.isnan(values).any():
            raise UsageError(f"The {name} holds {int(np.isnan(values).sum())} missing values (NaN).")
    if (true.dtype.kind in "OSU") != (guess.dtype.kind in "OSU"):
        raise UsageError(f"The solution's classes are {true.dtype} and the submission's {guess.dtype}; one is text.")
    return true, guess


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("accuracy", "Categorization Accuracy", greater_is_better=True, values="label", score=accuracy),
}
