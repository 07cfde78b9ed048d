"""Metrics of lists in one cell: labels separated by spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics.metric import Score, pair

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def map_at(places: int) -> Score:
    """Mean average precision of the first `places` labels of each row.

    For one row: sum over its hits of (hits so far / place), over the smaller of `places` and the number of true labels.
    A label that was named before does not count again. The definition is Kaggle's ("MAP@K").
    """

    def score(solution: ArrayLike, submission: ArrayLike) -> float:
        rows = _lists(solution, submission)
        return sum(_average_precision(true, guess[:places], places) for true, guess in rows) / len(rows)

    score.__doc__ = f"Mean average precision of the first {places} labels of each row."
    return score


def mean_f_score(solution: ArrayLike, submission: ArrayLike) -> float:
    """F1 of each row's set of labels, averaged over the rows; two empty sets agree (1)."""
    total = 0.0
    rows = _lists(solution, submission)
    for true, guess in rows:
        real, said = set(true), set(guess)
        total += 2 * len(real & said) / (len(real) + len(said)) if real or said else 1.0
    return total / len(rows)


def _average_precision(true: list[str], guess: list[str], places: int) -> float:
    real = set(true)
    if not real:
        return 0.0
    hits = 0
    total = 0.0
    for place, label in enumerate(guess, 1):
        if label in real and label not in guess[: place - 1]:
            hits += 1
            total += hits / place
    return total / min(len(real), places)


def _lists(solution: ArrayLike, submission: ArrayLike) -> list[tuple[list[str], list[str]]]:
    import numpy as np

    true, guess = (np.asarray(values) for values in (solution, submission))
    # One label a row may be a number; in a list it is a word like any other.
    true, guess = pair(true.astype(str), guess.astype(str), columns=1)
    return [(_words(one), _words(other)) for one, other in zip(true.tolist(), guess.tolist(), strict=True)]


def _words(cell: Any) -> list[str]:
    if str(cell).lower() == "nan":
        raise UsageError("A row holds no list (NaN).")
    # "7.0" and "7" are one label: a column of whole numbers with gaps is read as floats.
    return [word[:-2] if word.endswith(".0") and word[:-2].isdigit() else word for word in str(cell).split()]
