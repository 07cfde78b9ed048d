"""Tables as people want them: one function that reads a competition's CSV files exactly and sparingly.

pandas is asked for what it does well. What it would spoil is put right: ids with leading zeros stay
text, 64-bit whole numbers beside missing values stay exact, and wide tables of small whole numbers
(pixels) take one byte a value instead of eight.
"""

from __future__ import annotations

import difflib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kaggle_workbench.competition import copies, numbers
from kaggle_workbench.competition.csvfiles import DAMAGE, Look, look, open_bytes, open_text, separator
from kaggle_workbench.competition.numbers import SMALL_TYPES, WIDE_COLUMNS
from kaggle_workbench.competition.sample import BrokenRowError, open_rows
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.show import warn

if TYPE_CHECKING:
    import pandas as pd

HEAD_ROWS = 1000
# Up to here a float holds every whole number.
EXACT_FLOAT = 2**53
_SCAN_BYTES = 1 << 24


def read_table(
    path: Path, *, columns: Sequence[str] | None = None, rows: int | None = None, home: Path | None = None
) -> pd.DataFrame:
    """Read a CSV file, plain, `.gz` or `.zip` with one member.

    The separator (comma, semicolon, tab, bar) is taken from the header; the encoding is UTF-8 or what a byte
    order mark says, else Latin-1, which is said aloud.

    Args:
        path: The file.
        columns: Only these columns; by default all.
        rows: Only so many rows from the top; by default all.
        home: Folder for a binary copy (see `copies`), from which a whole table is read the next time.

    Returns:
        The table. Text columns hold `str`; whole numbers are int64 (Int64 where values are missing and a float
        would not be exact), except in a wide table: there all numbered columns of whole numbers have the
        smallest type that holds them, such as uint8 for pixels.

    Raises:
        UsageError: No such file or column.
        WorkError: The file is damaged or no table; the message names the line.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {what}.", hint="Give the path of a CSV file.")
    whole = columns is None and rows is None
    keeps = home if whole and path.stat().st_size >= copies.LEAST_BYTES else None
    if keeps is not None and (copied := copies.read_copy(path, keeps)) is not None:
        return copied
    seen = look(path)
    if seen.problem:
        raise WorkError(f"{path} cannot be read as a table: it is {seen.problem}.", hint=_hint(seen.problem))
    if keeps is not None:
        return _read_and_keep(path, seen, keeps)
    table = numbers.read(path, seen) if whole else None
    return table if table is not None else _read(path, seen, columns, rows)


def read_texts(path: Path, column: str) -> pd.Series[Any]:
    """One column of a table as it is written: every cell as text, "" where it is empty.

    Raises:
        UsageError: No such file or column.
        WorkError: The file is damaged or no table.
    """
    seen = look(path)
    reader = _Reader(path, seen, [column], None)
    for encoding in ("utf-8", "latin-1"):
        try:
            return reader.texts(column, encoding)
        except UnicodeDecodeError:
            continue
    raise WorkError(f"{path} cannot be read as text.", hint=_hint(""))


def _read_and_keep(path: Path, seen: Look, home: Path) -> pd.DataFrame:
    with ThreadPoolExecutor(1) as background, copies.drafted(path, home) as draft:
        if draft is not None:
            state = background.submit(copies.state_of, path)
            names = numbers.keep(path, seen, draft)
            if names is not None and copies.save(draft, path, home, state.result(), names):
                copied = copies.read_copy(path, home)
                if copied is not None:
                    return copied
        table = _read(path, seen, None, None)
        if draft is not None and copies.add_frame(draft, table):
            copies.save(draft, path, home, state.result(), [str(name) for name in table.columns])
        return table


def _read(path: Path, seen: Look, columns: Sequence[str] | None, rows: int | None) -> pd.DataFrame:
    reader = _Reader(path, seen, columns, rows)
    try:
        return reader.read("utf-8")
    except UnicodeDecodeError as error:
        warn(f"{path.name} is not UTF-8 ({error.reason}); it is read as Latin-1. Look at its text columns.")
        return reader.read("latin-1")


class _Reader:
    def __init__(self, path: Path, seen: Look, columns: Sequence[str] | None, rows: int | None) -> None:
        self.path = path
        self.seen = seen
        self.rows = rows
        with open_text(path, seen) as text:
            first, second = next(text, ""), next(text, "")
        self.separator = separator(first)
        self.options: dict[str, Any] = {"sep": self.separator, "nrows": rows}
        if first.count(self.separator) < second.count(self.separator) and second.rstrip("\r\n").endswith(
            self.separator
        ):
            # Each row ends in a separator; pandas would take the first column for row names.
            self.options["index_col"] = False
        if columns is not None:
            self._require(columns, first)
            self.options["usecols"] = list(columns)

    def read(self, encoding: str) -> pd.DataFrame:
        self.options["encoding"] = encoding
        head = self._pandas(dtype=str, nrows=min(HEAD_ROWS, self.rows or HEAD_ROWS), keep_default_na=False)
        kept = {name: str for name in head.columns if head[name].str.match(r"0\d").any()}
        if self.separator == ";" and _has_decimal_comma(head):
            self.options["decimal"] = ","
        table = self._wide(head, kept)
        if table is None:
            table = self._pandas(dtype=kept, low_memory=False)
        wide = {name for name, kind in table.dtypes.items() if str(kind) in SMALL_TYPES}
        exact: dict[Any, Any] = {}
        for name, kind in table.dtypes.items():
            column = table[name]
            if kind == "float64" and (column.abs().max() >= EXACT_FLOAT) and (column.dropna() % 1 == 0).all():
                exact[name] = "Int64"
            elif str(kind) == "object" and isinstance(next(iter(column.dropna()), None), int):
                exact[name] = str
        whole = [name for name, kind in table.dtypes.items() if kind == "int64" and name not in wide]
        if whole and self._has_leading_zeros():
            texts = self._pandas(dtype=str, usecols=whole)
            exact |= {name: str for name in whole if texts[name].str.match(r"0\d").any()}
        for name, kind in exact.items():
            text = self._pandas(dtype=str, usecols=[name])[name]
            # With a point or an exponent it is a float after all; beyond 64 bits text alone is exact.
            if not text.dropna().str.fullmatch(r"[+-]?\d+").all():
                continue
            large = kind == "Int64" and table[name].abs().max() >= 2**63
            table[name] = text if kind is str or large else self._pandas(dtype={name: kind}, usecols=[name])[name]
        return table

    def texts(self, column: str, encoding: str) -> pd.Series[Any]:
        self.options["encoding"] = encoding
        return self._pandas(dtype=str, usecols=[column], keep_default_na=False)[column]

    def _wide(self, head: pd.DataFrame, kept: dict[Any, Any]) -> pd.DataFrame | None:
        """Read a wide table of small whole numbers in the smallest type; None when it is none."""
        numbered = [
            name
            for name in head.columns
            if re.search(r"\d$", str(name)) and len(head) and head[name].str.fullmatch(r"-?(0|[1-9]\d{0,8})").all()
        ]
        if len(numbered) < WIDE_COLUMNS:
            return None
        for kind in SMALL_TYPES:
            try:
                with warnings.catch_warnings():
                    # Another column that mixes numbers and text between blocks; it is then read in one piece.
                    warnings.simplefilter("error")
                    return self._pandas(dtype={**dict.fromkeys(numbered, kind), **kept})
            except (ValueError, OverflowError, Warning) as error:
                if isinstance(error, UnicodeDecodeError):
                    raise
        return None

    def _pandas(self, **options: Any) -> pd.DataFrame:
        import pandas as pd

        try:
            with warnings.catch_warnings(), self._stream() as stream:
                warnings.filterwarnings("ignore", message="Length of header")
                table: pd.DataFrame = pd.read_csv(stream, **{**self.options, **options})
                return table
        except (pd.errors.ParserError, pd.errors.EmptyDataError, *DAMAGE) as error:
            raise WorkError(f"{self.path}{self._fault(error)}", hint=_hint("")) from None

    @contextmanager
    def _stream(self) -> Iterator[IO[bytes]]:
        """The file's bytes, in UTF-8 unless the encoding is not known."""
        if self.seen.encoding in ("utf-8", "utf-8-sig"):
            with open_bytes(self.path, self.seen) as stream:
                yield stream
            return
        with open_text(self.path, self.seen) as text:
            yield io.BytesIO(text.read().encode())

    def _has_leading_zeros(self) -> bool:
        """Whether any cell of the file begins with a zero before another digit."""
        import numpy as np

        ends = np.frombuffer(f'{self.separator}\n\r"'.encode(), np.uint8)
        with self._stream() as stream:
            tail = b"\n"
            while chunk := stream.read(_SCAN_BYTES):
                data = np.frombuffer(tail + chunk, np.uint8)
                before, zero, after = data[:-2], data[1:-1], data[2:]
                places = np.flatnonzero((zero == ord("0")) & (after >= ord("0")) & (after <= ord("9")))
                if np.isin(before[places], ends).any():
                    return True
                tail = chunk[-2:]
        return False

    def _require(self, columns: Sequence[str], header: str) -> None:
        import csv

        names = next(csv.reader([header.lstrip("\ufeff")], delimiter=self.separator), [])
        for name in columns:
            if name not in names:
                close = difflib.get_close_matches(name, names, 1)
                raise UsageError(
                    f"{self.path.name} has no column {name!r}." + (f" Did you mean {close[0]!r}?" if close else ""),
                    hint="Its columns: " + ", ".join(names[:20]) + (", ..." if len(names) > 20 else ""),
                )

    def _fault(self, error: Exception) -> str:
        """What is wrong and in which line, found by reading row by row."""
        try:
            with open_rows(self.path, self.seen) as table:
                if not table.header:
                    return " holds no table: there is no header."
                for block in table.blocks():
                    for line, row in block:
                        if len(row) > len(table.header):
                            return f", line {line}: {len(row)} cells where the header has {len(table.header)}."
        except BrokenRowError as broken:
            return f", line {broken.line}: {broken.reason}."
        return f" cannot be read: {error}"


def _has_decimal_comma(head: pd.DataFrame) -> bool:
    def any_like(pattern: str) -> bool:
        return any(head[name].str.fullmatch(pattern).any() for name in head.columns)

    return any_like(r"-?\d+,\d+") and not any_like(r"-?\d+\.\d+")


def _hint(problem: str) -> str:
    if "Parquet" in problem or "Excel" in problem or "Feather" in problem:
        return "Read it with pandas itself (read_parquet, read_excel, read_feather)."
    return "If it was downloaded, fetch it again: ./kwb run data. If it is yours, write it anew."
