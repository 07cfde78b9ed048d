"""Columns that tell the time: dates as text, with the day or the month first, and plain numbers."""

from __future__ import annotations

import re
from typing import Any

from kaggle_workbench.competition.reading.text import is_text

# A date, perhaps with a time of day.
DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T]\d{1,2}:\d{2}.*)?\s*")
_SHORT = r"^\s*(\d{1,2})[-/.](\d{1,2})[-/.]\d{2,4}"
_LOOKED_AT = 200


def is_date(column: Any) -> bool:
    """Whether a column of pandas holds dates."""
    if column.dtype.kind == "M":
        return True
    if not is_text(column):
        return False
    seen = column.dropna().head(_LOOKED_AT)
    return bool(len(seen)) and all(DATE.fullmatch(str(value)) for value in seen)


def parse_dates(column: Any, *others: Any) -> Any:
    """A column of dates as moments in UTC; NaT for what is none.

    Args:
        column: Text, or moments.
        others: The same column of other tables: they help to tell whether the day or the month comes first.
    """
    import pandas as pd

    if column.dtype.kind == "M":
        return pd.to_datetime(column, errors="coerce", utc=True)
    first = is_day_first(column, *others)
    return pd.to_datetime(column, format="mixed", errors="coerce", utc=True, dayfirst=first)


def is_day_first(*columns: Any) -> bool:
    """Whether 3/4/2024 is the third of April here: some row has a first number over 12, and none a second one.

    Without such a row the month comes first, as in most of Kaggle's files.
    """
    larger = [False, False]
    for column in columns:
        if not is_text(column):
            continue
        parts = column.dropna().astype(str).str.extract(_SHORT).astype("float64")
        larger = [seen or bool((parts[place] > 12).any()) for place, seen in enumerate(larger)]
    return larger[0] and not larger[1]


def moments(column: Any, *others: Any) -> Any:
    """A column of dates, or of numbers that tell the time, as numbers (seconds for dates); None when it is neither.

    Args:
        column: As it was read.
        others: The same column of other tables (see `parse_dates`).
    """
    if column.dtype.kind in "iuf":
        return column
    if not is_date(column):
        return None
    parsed = parse_dates(column, *others)
    per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[parsed.dt.unit]
    return parsed.astype("int64").where(parsed.notna()) / per_second
