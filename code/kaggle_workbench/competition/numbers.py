"""Tables of whole numbers, read in pieces straight into the smallest type that holds them.

A table of pixels takes eight bytes a value in a general reader and one here, and never more than a
piece of it is text. What is not plain (quotes, floats, missing values, leading zeros in an id) is
left to `tables`.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kaggle_workbench.competition.csvfiles import DAMAGE, Look, open_text, separator

if TYPE_CHECKING:
    import pandas as pd

    from kaggle_workbench.competition.copies import Draft

T = TypeVar("T")

# From so many numbered columns of whole numbers on, a table holds measurements of one kind, such as pixels.
WIDE_COLUMNS = 64
SMALL_TYPES = ("uint8", "int16", "uint16", "int32")
PIECE_ROWS = 1024
HEAD_ROWS = 100
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,8})")


@dataclass(frozen=True)
class Form:
    """What a wide table of whole numbers looks like, by its first lines.

    Attributes:
        names: All columns.
        first: Position of the first of the many columns that are numbered ("pixel0", "pixel1", ...).
        others: Matches the start of a line when the columns before that one hold plain whole numbers.
        separator: Between two cells.
    """

    names: tuple[str, ...]
    first: int
    others: re.Pattern[str]
    separator: str


def form(lines: list[str], between: str) -> Form | None:
    """The form of a table by its header and first rows, or None when it is no wide table of whole numbers.

    Args:
        lines: Header and at least one row, with their line ends.
        between: Separator between two cells.
    """
    rows = [line.rstrip("\r\n").split(between) for line in lines]
    names, rows = tuple(rows[0]), rows[1:]
    if len(set(names)) != len(names) or '"' in lines[0] or not rows or not all(names):
        return None
    if not all(len(row) == len(names) and all(map(_NUMBER.fullmatch, row)) for row in rows):
        return None
    numbered = tuple(bool(re.search(r"\d$", name)) for name in names)
    first = numbered.index(True) if any(numbered) else len(names)
    # The others must stand first: then a look at the start of each line tells whether one has leading zeros.
    if sum(numbered) < WIDE_COLUMNS or not all(numbered[first:]):
        return None
    others = re.compile((_NUMBER.pattern + re.escape(between)) * first)
    return Form(names, first, others, between)


def read(path: Path, seen: Look) -> pd.DataFrame | None:
    """Read a table of whole numbers into memory; None when it is no such table.

    Args:
        path: The file.
        seen: What it is.

    Returns:
        The table: its numbered columns in the smallest type that holds them, the others int64.
    """
    import numpy as np
    import pandas as pd

    def collect(table: Form, found: Iterator[Any]) -> pd.DataFrame:
        values = np.concatenate(list(found))
        many = pd.DataFrame(values[:, table.first :], columns=list(table.names[table.first :]), copy=False)
        others = pd.DataFrame(values[:, : table.first].astype("int64"), columns=list(table.names[: table.first]))
        return pd.concat([others, many], axis=1) if table.first else many

    return _in_smallest_type(path, seen, collect)


def keep(path: Path, seen: Look, draft: Draft) -> list[str] | None:
    """Read a table of whole numbers into the draft of a copy, piece by piece; None when it is no such table.

    Args:
        path: The file.
        seen: What it is.
        draft: Gets a block for the columns before the numbered ones, and one for those.

    Returns:
        The names of all columns.
    """
    import numpy as np

    def collect(table: Form, found: Iterator[Any]) -> list[str]:
        draft.forget()
        places = list(range(len(table.names)))
        with draft.block(places[: table.first]) as others, draft.block(places[table.first :]) as many:
            for piece in found:
                others(piece[:, : table.first].astype("int64"))
                many(np.ascontiguousarray(piece[:, table.first :]))
        return list(table.names)

    try:
        names = _in_smallest_type(path, seen, collect)
    except OSError:
        # No room for the copy; the table itself may still be read.
        names = None
    if names is None:
        draft.forget()
    return names


def _in_smallest_type(path: Path, seen: Look, collect: Callable[[Form, Iterator[Any]], T]) -> T | None:
    if not seen.encoding.startswith("utf-8"):
        return None
    with open_text(path, seen) as text:
        lines = list(itertools.islice(text, HEAD_ROWS))
    table = form(lines, separator(lines[0])) if lines else None
    if table is None:
        return None
    for kind in SMALL_TYPES:
        try:
            return collect(table, pieces(path, seen, table, kind))
        except (WrongFormError, *DAMAGE):
            return None
        except ValueError:
            continue
    return None


class WrongFormError(ValueError):
    """A row that is not of the table's form, whatever the type."""


def pieces(path: Path, seen: Look, table: Form, kind: str) -> Iterator[Any]:
    """The rows of a table, piece by piece.

    Args:
        path: The file.
        seen: What it is.
        table: Its form.
        kind: NumPy type of the values.

    Yields:
        Arrays (rows, columns) of `kind`, at most `PIECE_ROWS` rows each.

    Raises:
        WrongFormError: A row is not of that form.
        ValueError: A value does not fit `kind`.
    """
    matches: Callable[[str], Any] = table.others.match
    with open_text(path, seen) as text:
        next(text, "")
        while lines := list(itertools.islice(text, PIECE_ROWS)):
            lines = [line for line in lines if line.strip()]
            if not lines:
                continue
            if not all(map(matches, lines)):
                raise WrongFormError("a row that does not begin like the others")
            try:
                yield _parse(lines, table, kind)
            except ValueError:
                if kind != SMALL_TYPES[-1]:
                    _parse_or_wrong(lines, table)
                    raise
                raise WrongFormError("a value that is no whole number") from None


def _parse(lines: list[str], table: Form, kind: str) -> Any:
    import numpy as np

    with warnings.catch_warnings():
        # Else "1.0" is read as 1, with a warning only.
        warnings.simplefilter("error")
        try:
            piece = np.loadtxt(lines, kind, delimiter=table.separator, comments=None, ndmin=2)
        except (OverflowError, Warning) as error:
            raise ValueError(str(error)) from None
    if piece.shape[1] != len(table.names):
        raise WrongFormError("a row with another number of cells")
    return piece


def _parse_or_wrong(lines: list[str], table: Form) -> None:
    try:
        _parse(lines, table, SMALL_TYPES[-1])
    except ValueError:
        raise WrongFormError("a value that is no whole number") from None
