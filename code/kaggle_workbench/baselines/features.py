"""A table's columns as numbers: for trees (codes and gaps as they are), and for networks (scaled, without gaps)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaggle_workbench.competition.reading.dates import is_date, parse_dates
from kaggle_workbench.competition.reading.text import is_text
from kaggle_workbench.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

# As many as scikit-learn's gradient boosting takes; rarer values of a column count as unknown.
MOST_CATEGORIES = 254
# A network gets a column of its own for at most so many values of one column.
MOST_COLUMNS_EACH = 32
# What a network sees of both tables together takes at most so many bytes.
MOST_BYTES = 300_000_000
# With more rows than this it gets half precision: three digits tell a scaled number as well, in half the memory.
MANY_ROWS = 500_000
# A number further out than this many spreads tells a network no more.
FAR = 5.0
PARTS_OF_DATES = ("year", "month", "day", "day_of_week", "hour")


@dataclass
class _Column:
    """One column of numbers, of both tables: float32, NaN where unknown."""

    name: str
    train: Any
    test: Any
    categories: int = 0


class Features:
    """A table's columns as numbers.

    What is learnt from the values (categories, scales) is learnt from the training rows alone; answers are not used.

    Args:
        train: Training table.
        test: Test table.
        names: Columns to use.
        time: Column that tells the time, if any; its dates become a number that grows.

    Attributes:
        columns: Names of the resulting columns.
        categorical: For each of them, whether it holds codes of categories.

    Raises:
        UsageError: Nothing is left to learn from.
    """

    def __init__(
        self, train: pd.DataFrame, test: pd.DataFrame, names: Sequence[str], *, time: str | None = None
    ) -> None:
        self._rows = {"train": len(train), "test": len(test)}
        self._kind = "float16" if len(train) > MANY_ROWS else "float32"
        self._made: list[_Column] = []
        for name in names:
            self._made += _numbers_of(name, train[name], test[name])
        if not self._made:
            raise UsageError(
                "No column is left to learn from.",
                hint="See 01-data for what each column is for; DROP_COLUMNS and TARGET in variables.env change it.",
            )
        self.columns = tuple(column.name for column in self._made)
        self.categorical = tuple(column.categories > 0 for column in self._made)

    def for_trees(self, table: str = "train") -> Any:
        """(rows, columns) as float32: codes of categories from 0, NaN where unknown.

        Args:
            table: "train" or "test".
        """
        import numpy as np

        found = np.empty((self._rows[table], len(self._made)), "float32")
        for place, column in enumerate(self._made):
            found[:, place] = getattr(column, table)
        return found

    def for_network(self, table: str = "train") -> Any:
        """(rows, columns): scaled numbers, a mark for each gap and for each common category.

        As float32; as float16 with more than `MANY_ROWS` training rows.

        Args:
            table: "train" or "test".
        """
        import numpy as np

        plan = self._plan()
        found = np.zeros((self._rows[table], sum(width for _, _, width in plan)), self._kind)
        start = 0
        for column, what, width in plan:
            values = getattr(column, table)
            if what == "number":
                found[:, start] = _scaled(values, column.train)
            elif what == "gap":
                found[:, start] = np.isnan(values)
            else:
                for code in range(width):
                    found[:, start + code] = values == code
            start += width
        return found

    def _plan(self) -> list[tuple[_Column, str, int]]:
        """What the network gets, most telling first, as far as memory goes."""
        import numpy as np

        numbers = [(column, "number", 1) for column in self._made if not column.categories]
        gaps = [
            (column, "gap", 1)
            for column in self._made
            if not column.categories and 0 < np.isnan(column.train).mean() < 1
        ]
        marks = [
            (column, "mark", min(column.categories, MOST_COLUMNS_EACH)) for column in self._made if column.categories
        ]
        left = max(1, MOST_BYTES // (np.dtype(self._kind).itemsize * max(1, sum(self._rows.values()))))
        plan = []
        for each in [*numbers, *marks, *gaps]:
            if each[2] <= left:
                plan.append(each)
                left -= each[2]
        return plan


def _scaled(values: Any, train: Any) -> Any:
    """Around 0 with spread 1; long tails are drawn in, gaps become the middle."""
    import numpy as np

    known = train[np.isfinite(train)]
    if not len(known):
        return np.zeros(len(values), "float32")
    middle = np.median(known)
    low, high = np.quantile(known, [0.1, 0.9])
    # Two fifths of a normal distribution's 10 to 90 % range are one standard deviation (2.563 of them).
    spread = (high - low) / 2.563 or known.std() or 1.0
    scaled = (np.where(np.isfinite(values), values, middle) - middle) / spread
    # Beyond two spreads the logarithm: what is ten times as far should not weigh ten times as much.
    far = np.abs(scaled) > 2
    drawn = np.sign(scaled) * (2 + np.log1p(np.maximum(np.abs(scaled) - 2, 0)))
    return np.clip(np.where(far, drawn, scaled), -FAR, FAR).astype("float32")


def _numbers_of(name: str, train: pd.Series[Any], test: pd.Series[Any]) -> list[_Column]:
    if is_date(train):
        return _dates(name, train, test)
    if is_text(train) or is_text(test):
        numeric = _as_numbers(train, test)
        if numeric is None:
            return [_categories(name, train, test)]
        train, test = numeric
    return [_Column(name, _float32(train), _float32(test))]


def _as_numbers(train: pd.Series[Any], test: pd.Series[Any]) -> tuple[Any, Any] | None:
    """Both as numbers, when nearly all of their text is (a few "?" or "n/a" between numbers)."""
    import pandas as pd

    found = []
    for column in (train, test):
        parsed = pd.to_numeric(column, errors="coerce")
        if parsed.notna().sum() < 0.95 * column.notna().sum() or not parsed.notna().any():
            return None
        found.append(parsed)
    # Text with leading zeros is a code, not an amount.
    if any(is_text(column) and column.astype(str).str.match(r"0\d").any() for column in (train, test)):
        return None
    return found[0], found[1]


def _categories(name: str, train: pd.Series[Any], test: pd.Series[Any]) -> _Column:
    import pandas as pd

    texts = [column.where(column.isna(), column.astype(str)) for column in (train, test)]
    common = texts[0].value_counts().index[:MOST_CATEGORIES]
    codes = [pd.Index(common).get_indexer(pd.Index(text)).astype("float32") for text in texts]
    for each in codes:
        each[each < 0] = float("nan")
    return _Column(name, codes[0], codes[1], len(common))


def _dates(name: str, train: pd.Series[Any], test: pd.Series[Any]) -> list[_Column]:
    moments = [parse_dates(train, test), parse_dates(test, train)]
    start = moments[0].min()
    days = [((moment - start).dt.total_seconds() / 86400).to_numpy(dtype="float32") for moment in moments]
    made = [_Column(f"{name}: days", days[0], days[1])]
    for part in PARTS_OF_DATES:
        values = [getattr(moment.dt, part).to_numpy(dtype="float32", na_value=float("nan")) for moment in moments]
        if len(set(values[0][values[0] == values[0]].tolist())) > 1:
            made.append(_Column(f"{name}: {part}", values[0], values[1]))
    return made


def _float32(column: pd.Series[Any]) -> Any:
    import numpy as np

    if column.dtype.kind == "M":
        column = column.astype("int64")
    values = column.to_numpy(dtype="float64", na_value=np.nan)
    # Infinite is no amount to learn from, and neither is what float32 cannot hold.
    return np.where(np.abs(values) < 3e38, values, np.nan).astype("float32")
