"""Metrics of amounts. With several target columns, "columnwise" ones average the columns' scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics.metric import Score, numbers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def mse(solution: ArrayLike, submission: ArrayLike) -> float:
    """Mean squared error over all cells (scikit-learn's `mean_squared_error`)."""
    from sklearn.metrics import mean_squared_error

    return float(mean_squared_error(*numbers(solution, submission)))


def rmse(solution: ArrayLike, submission: ArrayLike) -> float:
    """Square root of the mean squared error over all cells."""
    return float(mse(solution, submission) ** 0.5)


def rmsle(solution: ArrayLike, submission: ArrayLike) -> float:
    """Square root of the mean squared difference of log(1 + value), over all cells.

    Raises:
        UsageError: A value below 0: its logarithm is not taken.
    """
    import numpy as np

    true, guess = numbers(solution, submission)
    for name, values in (("solution", true), ("submission", guess)):
        if (values < 0).any():
            raise UsageError(
                f"The {name} holds {int((values < 0).sum()):,} values below 0 (the lowest is {values.min():g}); "
                "a logarithmic error takes none.",
                hint="Predict at least 0: numpy.maximum(predictions, 0).",
            )
    return rmse(np.log1p(true), np.log1p(guess))


def mae(solution: ArrayLike, submission: ArrayLike) -> float:
    """Mean absolute error over all cells (scikit-learn's `mean_absolute_error`)."""
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(*numbers(solution, submission)))


def medae(solution: ArrayLike, submission: ArrayLike) -> float:
    """Median absolute error (scikit-learn's `median_absolute_error`)."""
    from sklearn.metrics import median_absolute_error

    return float(median_absolute_error(*numbers(solution, submission)))


def mape(solution: ArrayLike, submission: ArrayLike) -> float:
    """Mean of |error| / |true value|: 0.1 is ten per cent (scikit-learn's `mean_absolute_percentage_error`).

    Raises:
        UsageError: A true value is 0.
    """
    from sklearn.metrics import mean_absolute_percentage_error

    true, guess = numbers(solution, submission)
    if (true == 0).any():
        raise UsageError(f"{int((true == 0).sum())} true values are 0; an error in per cent of them has no meaning.")
    return float(mean_absolute_percentage_error(true, guess))


def smape(solution: ArrayLike, submission: ArrayLike) -> float:
    """Symmetric mean absolute percentage error, 0 to 200: 100 * mean of |error| / ((|true| + |predicted|) / 2).

    Where both are 0 the error is 0, as Kaggle's competitions define it.
    """
    import numpy as np

    true, guess = numbers(solution, submission)
    half = (np.abs(true) + np.abs(guess)) / 2
    part = np.divide(np.abs(true - guess), half, out=np.zeros_like(half), where=half > 0)
    return float(100 * part.mean())


def r2(solution: ArrayLike, submission: ArrayLike) -> float:
    """Coefficient of determination, 1 at best; several columns are averaged (scikit-learn's `r2_score`).

    Raises:
        UsageError: Fewer than two rows.
    """
    from sklearn.metrics import r2_score

    true, guess = numbers(solution, submission)
    if len(true) < 2:
        raise UsageError("R2 needs at least two rows.")
    return float(r2_score(true, guess))


def pearson(solution: ArrayLike, submission: ArrayLike) -> float:
    """Pearson's correlation, from -1 to 1; 0 when a column is constant. Several columns are averaged."""
    import numpy as np

    def one(true: Any, guess: Any) -> float:
        if np.ptp(true) == 0 or np.ptp(guess) == 0:
            return 0.0
        return float(np.corrcoef(true, guess)[0, 1])

    return _columnwise(one)(solution, submission)


def spearman(solution: ArrayLike, submission: ArrayLike) -> float:
    """Spearman's rank correlation: Pearson's of the ranks, equal values sharing a rank. Columns are averaged."""

    def one(true: Any, guess: Any) -> float:
        from scipy.stats import rankdata

        return pearson(rankdata(true), rankdata(guess))

    return _columnwise(one)(solution, submission)


def _columnwise(score: Callable[[Any, Any], float]) -> Score:
    def averaged(solution: ArrayLike, submission: ArrayLike) -> float:
        true, guess = numbers(solution, submission)
        if true.ndim == 1:
            return score(true, guess)
        return float(sum(score(true[:, place], guess[:, place]) for place in range(true.shape[1])) / true.shape[1])

    averaged.__doc__ = f"Mean over the columns of: {score.__doc__}"
    return averaged


mean_columnwise_rmse = _columnwise(rmse)
mean_columnwise_rmsle = _columnwise(rmsle)
