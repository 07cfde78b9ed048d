"""What a metric is, and what all of them ask of their arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kaggle_workbench.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

HINT = "docs/metrics.md says what each metric takes; METRIC in variables.env sets another."
Score = Callable[["ArrayLike", "ArrayLike"], float]
Values = Literal["label", "number", "probability", "ranking", "mask"]


@dataclass(frozen=True)
class Metric:
    """One competition metric.

    Attributes:
        name: As written in competition.json and METRIC.
        title: As Kaggle shows it.
        greater_is_better: Whether a higher score wins.
        values: What a submission's cells hold: "label" (a class: compared, never calculated with), "number",
            "probability", "ranking" (labels separated by spaces, the likeliest first) or "mask" (run-length text).
        score: (solution, submission) -> score. Both of one shape: (rows,) or (rows, targets).
        also: Other names by which Kaggle shows it.
    """

    name: str
    title: str
    greater_is_better: bool
    values: Values
    score: Score
    also: tuple[str, ...] = ()


def hinted(score: Score) -> Score:
    """The same score, whose refusals say what to do."""

    @functools.wraps(score)
    def wrapped(solution: ArrayLike, submission: ArrayLike) -> float:
        try:
            return score(solution, submission)
        except UsageError as error:
            raise UsageError(error.message, hint=error.hint or HINT) from None

    return wrapped


def pair(solution: ArrayLike, submission: ArrayLike, *, columns: int | None = None) -> tuple[Any, Any]:
    """Both as arrays that can be compared.

    Args:
        solution: True values, (rows,) or (rows, targets).
        submission: Predicted values of the same shape.
        columns: How many columns there must be; 1 also takes (rows, 1), and gives (rows,).

    Raises:
        UsageError: Shapes differ, there are no rows, a number is missing (NaN), or one is text and the other not.
    """
    # numpy is imported on use: the arena starts without it.
    import numpy as np

    true, guess = np.asarray(solution), np.asarray(submission)
    if true.shape != guess.shape:
        raise UsageError(f"The solution has shape {true.shape} and the submission {guess.shape}; they must be equal.")
    if true.ndim not in (1, 2) or true.size == 0:
        raise UsageError(f"A score needs at least one row of one or more columns; the shape is {true.shape}.")
    if columns == 1 and true.ndim == 2:
        if true.shape[1] != 1:
            raise UsageError(f"This metric takes one column; there are {true.shape[1]}.")
        true, guess = true[:, 0], guess[:, 0]
    for name, values in (("solution", true), ("submission", guess)):
        if values.dtype.kind in "fc" and np.isnan(values).any():
            raise UsageError(f"The {name} holds {int(np.isnan(values).sum())} missing values (NaN).")
    if (true.dtype.kind in "OSU") != (guess.dtype.kind in "OSU"):
        raise UsageError(f"The solution's classes are {true.dtype} and the submission's {guess.dtype}; one is text.")
    return true, guess


def numbers(solution: ArrayLike, submission: ArrayLike, *, columns: int | None = None) -> tuple[Any, Any]:
    """Both as float64, (rows,) or (rows, targets).

    Raises:
        UsageError: As `pair`; or a value is no finite number.
    """
    import numpy as np

    true, guess = pair(solution, submission, columns=columns)
    try:
        true, guess = true.astype("float64"), guess.astype("float64")
    except (TypeError, ValueError) as error:
        raise UsageError(f"This metric calculates with numbers: {error}.") from None
    for name, values in (("solution", true), ("submission", guess)):
        if not np.isfinite(values).all():
            raise UsageError(f"The {name} holds values that are no finite numbers.")
    return true, guess
