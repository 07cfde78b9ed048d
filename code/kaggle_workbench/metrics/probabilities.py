"""Metrics of probabilities and of scores that put rows in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics.metric import numbers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# Kaggle keeps predictions this far from 0 and 1.
CLOSEST = 1e-15


def auc(solution: ArrayLike, submission: ArrayLike) -> float:
    """Area under the receiver operating characteristic curve (scikit-learn's `roc_auc_score`).

    Args:
        solution: 0 or 1, (rows,); or marks of several classes, (rows, classes), each scored alone and averaged.
        submission: Scores of any scale, higher for 1.

    Raises:
        UsageError: The solution holds other values, or only one of the two.
    """
    from sklearn.metrics import roc_auc_score

    true, guess = numbers(solution, submission)
    if true.ndim == 1:
        true, guess = true[:, None], guess[:, None]
    _require_marks(true)
    for place in range(true.shape[1]):
        if len(set(true[:, place].tolist())) < 2:
            which = f"Column {place + 1} of the solution" if true.shape[1] > 1 else "The solution"
            raise UsageError(f"{which} holds only {true[0, place]:g}; the area under the curve needs both 0 and 1.")
    scores = [roc_auc_score(true[:, place], guess[:, place]) for place in range(true.shape[1])]
    return float(sum(scores) / len(scores))


def gini(solution: ArrayLike, submission: ArrayLike) -> float:
    """Normalised Gini coefficient of a yes-or-no answer: 2 AUC - 1."""
    return 2 * auc(solution, submission) - 1


def log_loss(solution: ArrayLike, submission: ArrayLike) -> float:
    """Mean of -log(probability given to what is true), natural logarithm.

    Args:
        solution: 0 or 1, (rows,); or one-hot, (rows, classes): exactly one 1 in each row.
        submission: Probability of 1, (rows,); or of each class, (rows, classes), divided by their sum first, as
            Kaggle does. All are kept 1e-15 away from 0 and 1.

    Raises:
        UsageError: Not from 0 to 1; a row of a one-hot solution with none or several.
    """
    import numpy as np

    true, guess = _probabilities(solution, submission)
    if true.ndim == 2 and true.shape[1] == 1:
        true, guess = true[:, 0], guess[:, 0]
    if true.ndim == 1:
        return _binary(true, guess)
    if (true.sum(axis=1) != 1).any():
        raise UsageError(
            "The solution has rows with none or several true classes.",
            hint="For several yes-or-no columns use mean_columnwise_log_loss.",
        )
    sums = guess.sum(axis=1, keepdims=True)
    if (sums == 0).any():
        raise UsageError(f"{int((sums == 0).sum()):,} rows give every class the probability 0.")
    shares = np.clip(guess / sums, CLOSEST, 1 - CLOSEST)
    return float(-np.log((shares * true).sum(axis=1)).mean())


def mean_columnwise_log_loss(solution: ArrayLike, submission: ArrayLike) -> float:
    """Mean over yes-or-no columns of their log loss.

    Raises:
        UsageError: Not from 0 to 1.
    """
    true, guess = _probabilities(solution, submission)
    if true.ndim == 1:
        return _binary(true, guess)
    return float(sum(_binary(true[:, place], guess[:, place]) for place in range(true.shape[1])) / true.shape[1])


def balanced_log_loss(solution: ArrayLike, submission: ArrayLike) -> float:
    """Mean over the two answers of the mean log loss of their rows: both count the same, however rare.

    Raises:
        UsageError: Not from 0 to 1, or only one of the two answers is there.
    """
    true, guess = _probabilities(solution, submission)
    if true.ndim == 2:
        true, guess = true[:, -1], guess[:, -1]
    if not 0 < true.mean() < 1:
        raise UsageError("The solution holds only one of the two answers; balancing needs both.")
    return (_binary(true[true == 0], guess[true == 0]) + _binary(true[true == 1], guess[true == 1])) / 2


def brier(solution: ArrayLike, submission: ArrayLike) -> float:
    """Mean squared difference of probability and answer (Brier score); for several classes summed over them."""
    true, guess = _probabilities(solution, submission)
    squares = (true - guess) ** 2
    return float(squares.mean() if squares.ndim == 1 else squares.sum(axis=1).mean())


def average_precision(solution: ArrayLike, submission: ArrayLike) -> float:
    """Area under precision over recall, by steps (scikit-learn's `average_precision_score`); columns are averaged."""
    from sklearn.metrics import average_precision_score

    true, guess = numbers(solution, submission)
    _require_marks(true)
    if not true.any():
        raise UsageError("The solution has no positive row; average precision needs one.")
    return float(average_precision_score(true, guess))


def _binary(true: Any, guess: Any) -> float:
    import numpy as np

    guess = np.clip(guess, CLOSEST, 1 - CLOSEST)
    return float(-(true * np.log(guess) + (1 - true) * np.log(1 - guess)).mean())


def _probabilities(solution: ArrayLike, submission: ArrayLike) -> tuple[Any, Any]:
    true, guess = numbers(solution, submission)
    _require_marks(true)
    outside = (guess < 0) | (guess > 1)
    if outside.any():
        raise UsageError(
            f"{int(outside.sum()):,} probabilities are outside 0 to 1 (such as {guess[outside].ravel()[0]:g}).",
            hint="Predict probabilities, not labels or scores.",
        )
    return true, guess


def _require_marks(true: Any) -> None:
    others = sorted(set(true.ravel().tolist()) - {0.0, 1.0})
    if others:
        raise UsageError(f"The solution must hold 0 and 1; it has {others[0]:g}.")
