"""Pictures written as rows of a table, one column a pixel."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# Smaller squares of numbers are hardly pictures.
LEAST_SIDE = 4


def side_of(train: pd.DataFrame, test: pd.DataFrame | None, features: Sequence[str], *, said: bool = False) -> int:
    """Width and height in pixels when each row is one square grey picture; else 0.

    Args:
        train: Training table.
        test: Test table.
        features: The columns that may be pixels.
        said: Whether the user says that they are: then their names, and how few they are, tell nothing.
    """
    side = math.isqrt(len(features))
    if side * side != len(features) or not features or (side < LEAST_SIDE and not said):
        return 0
    # One kind of measurement, numbered, a byte's worth each: that is a picture written as a row.
    if not said and len({re.sub(r"\d+", "", str(name)) for name in features}) != 1:
        return 0
    tables = [table for table in (train, test) if table is not None and len(table)]
    return side if tables and all(_is_grey(table[list(features)]) for table in tables) else 0


def _is_grey(table: pd.DataFrame) -> bool:
    if not all(kind.kind in "iu" for kind in table.dtypes):
        return False
    values = table.to_numpy()
    return bool(values.size and values.min() >= 0 and values.max() <= 255)
