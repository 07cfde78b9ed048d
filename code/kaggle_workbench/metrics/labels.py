"""Metrics of labels: classes are compared, never calculated with (but for the weighted kappa's ranks)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics.metric import Score, pair

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
    true, guess = pair(solution, submission)
    right = true == guess
    return float(right.mean() if right.ndim == 1 else right.all(axis=1).mean())


def balanced_accuracy(solution: ArrayLike, submission: ArrayLike) -> float:
    """Mean over the classes of the share of their rows that are right (scikit-learn's `balanced_accuracy_score`)."""
    from sklearn.metrics import recall_score

    # Recall averaged over the classes of the solution: the same number, without its warning on unseen classes.
    true, guess = pair(solution, submission, columns=1)
    import numpy as np

    return float(recall_score(true, guess, labels=np.unique(true), average="macro", zero_division=0))


def f1_binary(solution: ArrayLike, submission: ArrayLike) -> float:
    """F1 of the positive class: 2 true positives / (2 true positives + false positives + false negatives).

    The positive class is 1 (True), or of two texts the one that sorts last ("no", "yes").

    Raises:
        UsageError: More than two classes.
    """
    import numpy as np
    from sklearn.metrics import f1_score

    true, guess = pair(solution, submission)
    if true.ndim == 2:
        # Marks in several columns: all of them taken together.
        true, guess = true.ravel(), guess.ravel()
    classes = np.unique(np.concatenate([true, guess]))
    if len(classes) > 2:
        raise UsageError(
            f"F1 of one class takes two classes; there are {len(classes)}.",
            hint="For more use f1_macro, f1_micro or f1_weighted.",
        )
    if classes.dtype.kind in "OSU":
        positive: Any = classes[-1]
    else:
        unknown = [value for value in classes.tolist() if value not in (0, 1)]
        if unknown:
            raise UsageError(f"F1 of one class takes 0 and 1; there is {unknown[0]}.")
        positive = 1
    return float(f1_score(true == positive, guess == positive, zero_division=0))


def _f1(average: str) -> Score:
    def score(solution: ArrayLike, submission: ArrayLike) -> float:
        from sklearn.metrics import f1_score

        return float(f1_score(*_classes(solution, submission), average=average, zero_division=0))

    score.__doc__ = f"F1 of each class, {average} average (scikit-learn's `f1_score`)."
    return score


f1_macro, f1_micro, f1_weighted = map(_f1, ("macro", "micro", "weighted"))


def mcc(solution: ArrayLike, submission: ArrayLike) -> float:
    """Matthews correlation coefficient, from -1 to 1 (scikit-learn's `matthews_corrcoef`)."""
    import numpy as np
    from sklearn.metrics import matthews_corrcoef

    true, guess = pair(solution, submission, columns=1)
    # With one class in either nothing is correlated, as scikit-learn has it, too (with a warning).
    return float(matthews_corrcoef(true, guess)) if min(len(np.unique(true)), len(np.unique(guess))) > 1 else 0.0


def kappa(solution: ArrayLike, submission: ArrayLike, *, weights: str | None = None) -> float:
    """Cohen's kappa: agreement beyond chance, 1 when all are right (scikit-learn's `cohen_kappa_score`).

    Args:
        solution: True classes; whole numbers when weighted.
        submission: Predicted classes.
        weights: "quadratic": an error counts by the square of its distance.

    Raises:
        UsageError: Weighted, and the classes are no numbers.
    """
    import numpy as np
    from sklearn.metrics import cohen_kappa_score

    true, guess = pair(solution, submission, columns=1)
    if weights is None:
        if len(np.unique(np.concatenate([true, guess]))) == 1:
            return 1.0
        return float(cohen_kappa_score(true, guess))
    if true.dtype.kind in "OSU":
        raise UsageError("The weighted kappa needs classes that are whole numbers, not text.")
    for name, values in (("solution", true), ("submission", guess)):
        if (values != np.round(values)).any():
            raise UsageError(f"The weighted kappa needs whole numbers; the {name} has others.", hint="Round them.")
    true, guess = true.astype("int64"), guess.astype("int64")
    low, high = min(true.min(), guess.min()), max(true.max(), guess.max())
    if low == high:
        return 1.0
    if high - low > 10_000:
        raise UsageError(f"The weighted kappa takes few classes; these go from {low} to {high}.")
    # Every whole number between is a class, else the distances would shrink.
    return float(cohen_kappa_score(true, guess, labels=list(range(low, high + 1)), weights=weights))


quadratic_weighted_kappa = partial(kappa, weights="quadratic")


def hamming(solution: ArrayLike, submission: ArrayLike) -> float:
    """Share of cells that are wrong, over all columns; 0 is best."""
    true, guess = pair(solution, submission)
    return float((true != guess).mean())


def _classes(solution: ArrayLike, submission: ArrayLike) -> tuple[Any, Any]:
    """One column of classes, or several columns of marks (0 and 1), each of which is a class of its own."""
    import numpy as np

    true, guess = pair(solution, submission)
    if true.ndim == 2 and true.shape[1] == 1:
        true, guess = true[:, 0], guess[:, 0]
    if true.ndim == 2 and set(np.unique([true, guess]).tolist()) - {0, 1}:
        raise UsageError("With several columns, F1 takes marks: 0 or 1 in each.")
    if true.dtype.kind == "f" and (true == np.round(true)).all() and (guess == np.round(guess)).all():
        return true.astype("int64"), guess.astype("int64")
    return true, guess
