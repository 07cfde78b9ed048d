"""The sample submission: what a file must look like, read exactly as it stands in the file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kaggle_workbench.competition.csvfiles import DAMAGE, Look, look, open_text, separator
from kaggle_workbench.errors import WorkError

BLOCK_ROWS = 20_000
FIELD_BYTES = 1 << 28
DISTINCT = 1000
INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
SAMPLE_NAME = re.compile(
    r"(sample|example|gender|baseline).*sub|sub.*(sample|example|format).*\.csv(\.gz|\.zip)?$", re.IGNORECASE
)
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)

Row = tuple[int, list[str]]


class BrokenRowError(Exception):
    """The text cannot be read on from `line`: a quote that is never closed, or damaged packing."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


class Rows:
    """The rows of one CSV text, in blocks, each with the number of its line.

    Attributes:
        separator: As used; found from the header unless given.
        header: Cells of the first line that is not blank, and `header_line` its number.
        odd_lines: Numbers of lines with bytes that are not UTF-8.
        blank_lines: Numbers of blank lines that stand before the last row.
    """

    def __init__(self, text: Iterator[str], wanted: Sequence[str] = ()) -> None:
        self.odd_lines: list[int] = []
        self.blank_lines: list[int] = []
        self.header: list[str] = []
        self.header_line = 0
        self.header_text = ""
        for line in self._watched(text):
            self.header_line, self.header_text = self.header_line + 1, line
            if line.strip():
                break
        # A comma wins whenever the wanted names are found with it, whatever else the names contain.
        by_comma = next(csv.reader([self.header_text]), [])
        self.separator = "," if wanted and set(wanted) <= set(by_comma) else separator(self.header_text)
        self.header = next(csv.reader([self.header_text], delimiter=self.separator), [])
        self._reader = csv.reader(self._watched(text, self.header_line), delimiter=self.separator, strict=True)

    def blocks(self, *, with_header: bool = False) -> Iterator[list[Row]]:
        """Blocks of (line number, cells); blank lines are left out.

        Args:
            with_header: The first line is a row too.

        Raises:
            BrokenRowError: From here on the text cannot be read.
        """
        if with_header:
            yield [(self.header_line, self.header)]
        line = self.header_line
        blanks: list[int] = []
        while True:
            block: list[Row] = []
            got = 0
            broken: BrokenRowError | None = None
            try:
                for row in islice(self._reader, BLOCK_ROWS):
                    got += 1
                    if row:
                        block.append((line + 1, row))
                        self.blank_lines += blanks
                        blanks = []
                    else:
                        blanks.append(line + 1)
                    line = self.header_line + self._reader.line_num
            except csv.Error as error:
                reason = "a quote opens here and is never closed" if "unexpected end" in str(error) else str(error)
                broken = BrokenRowError(line + 1, reason)
            except DAMAGE as error:
                broken = BrokenRowError(line + 1, f"the packed file is damaged ({error})")
            if block:
                yield block
            if broken:
                raise broken
            if not got:
                return

    def _watched(self, text: Iterator[str], before: int = 0) -> Iterator[str]:
        for number, line in enumerate(text, before + 1):
            if not line.isascii() and any("\udc80" <= letter <= "\udcff" for letter in line):
                self.odd_lines.append(number)
            yield line


@contextmanager
def open_rows(path: Path, seen: Look, wanted: Sequence[str] = ()) -> Iterator[Rows]:
    """Open a table for reading row by row (see `Rows`)."""
    # The csv module's limit for one cell is small for segmentation masks; it is a process-wide setting, so put it back.
    limit = csv.field_size_limit(FIELD_BYTES)
    try:
        with open_text(path, seen) as text:
            yield Rows(text, wanted)
    finally:
        csv.field_size_limit(limit)


@dataclass(frozen=True)
class Column:
    """One column to predict, as the sample submission shows it.

    Attributes:
        name: As in the header.
        kind: "integer", "number" or "text".
        blank: The sample itself has empty cells here.
        values: The distinct texts, or None when there are more than a thousand.
        low: Smallest number (infinity for text).
        high: Largest number.
    """

    name: str
    kind: str
    blank: bool
    values: frozenset[str] | None
    low: float = math.inf
    high: float = -math.inf


@dataclass(frozen=True)
class Sample:
    """A sample submission.

    Attributes:
        path: The file.
        columns: Header, in order.
        id: Name of the column of ids; "" when no column is unique.
        positions: Place of each id in the sample, counted from 0.
        rows: Number of rows.
        targets: The columns to predict.
        sums_to_one: Every row's targets are probabilities that sum to 1.
    """

    path: Path
    columns: tuple[str, ...]
    id: str
    positions: dict[str, int]
    rows: int
    targets: tuple[Column, ...]
    sums_to_one: bool


def find_sample(folder: Path) -> Path | None:
    """The sample submission among a competition's files; None when there is none.

    Kaggle's hosts call it sample_submission.csv, sampleSubmission.csv, gender_submission.csv and the like.
    """
    # First without the folders below, which may hold a million pictures.
    for paths in (folder.glob("*.csv*"), folder.rglob("*.csv*")):
        found = [path for path in paths if SAMPLE_NAME.search(path.name) and path.is_file()]
        if found:
            usual = "sample_submission.csv"
            return min(found, key=lambda path: (path.name != usual, len(path.parts), len(path.name), path.name))
    return None


def read_sample(path: Path) -> Sample:
    """Read a sample submission.

    Raises:
        WorkError: It is missing, damaged or no table.
    """
    hint = "Fetch the competition's data again (`./kwb run data`), then repeat this command."
    if not path.is_file():
        raise WorkError(f"There is no sample submission at {path}.", hint=hint)
    seen = look(path)
    if seen.problem:
        raise WorkError(f"The sample submission {path} is {seen.problem}.", hint=hint)
    try:
        with open_rows(path, seen) as rows:
            columns = tuple(rows.header)
        # Kaggle's rule is one id column, by custom the first; some hosts put it elsewhere.
        found = ((index, _positions(path, seen, index)) for index in range(min(len(columns), 5)))
        key, positions = next(((index, known) for index, known in found if known is not None), (-1, {}))
        targets, count, sums_to_one = _targets(path, seen, key)
    except BrokenRowError as error:
        raise WorkError(f"The sample submission {path}, line {error.line}: {error.reason}.", hint=hint) from None
    return Sample(path, columns, columns[key] if positions else "", positions, count, targets, sums_to_one)


def numbers(cells: Sequence[str]) -> list[float] | None:
    """All cells as numbers, or None when one of them is none (empty, text, NaN, infinite)."""
    try:
        parsed = list(map(float, cells))
    except ValueError:
        return None
    # float() also takes "1_000", "nan" and digits of other scripts, which a scorer does not.
    joined = "".join(cells)
    return parsed if joined.isascii() and "_" not in joined and all(map(math.isfinite, parsed)) else None


def _positions(path: Path, seen: Look, index: int) -> dict[str, int] | None:
    """Place of each text of one column, or None when the column is no key."""
    known: dict[str, int] = {}
    count = 0
    with open_rows(path, seen) as rows:
        for block in rows.blocks():
            known.update((row[index], count + place) for place, (_, row) in enumerate(block) if index < len(row))
            count += len(block)
            if len(known) != count:
                return None
    return known if count else None


def _targets(path: Path, seen: Look, key: int) -> tuple[tuple[Column, ...], int, bool]:
    """The columns besides the key, the number of rows, and whether the rows are probabilities that sum to 1."""
    count = 0
    worst = 0.0
    with open_rows(path, seen) as rows:
        width = len(rows.header)
        profiles = [_Profile(name) for index, name in enumerate(rows.header) if index != key]
        for block in rows.blocks():
            for line, row in block:
                if len(row) != width:
                    raise BrokenRowError(line, f"{len(row)} cells where the header has {width}")
            cells = [
                values for index, values in enumerate(zip(*(row for _, row in block), strict=True)) if index != key
            ]
            for profile, values in zip(profiles, cells, strict=True):
                profile.add(values)
            count += len(block)
            sums = map(sum, zip(*(profile.last for profile in profiles if profile.last is not None), strict=True))
            worst = max(worst, max((abs(total - 1) for total in sums), default=1.0))
    targets = tuple(profile.done() for profile in profiles)
    likely = len(targets) > 1 and count > 0 and worst <= 0.01
    within = all(c.kind != "text" and not c.blank and c.low >= 0 and c.high <= 1 for c in targets)
    return targets, count, likely and within


class _Profile:
    """What one column of the sample holds, gathered block by block."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = "integer"
        self.blank = False
        self.values: set[str] | None = set()
        self.low, self.high = math.inf, -math.inf
        self.last: list[float] | None = None

    def add(self, cells: Sequence[str]) -> None:
        distinct = set(cells)
        if "" in distinct:
            self.blank = True
            distinct.discard("")
        if self.values is not None:
            self.values |= distinct
            if len(self.values) > DISTINCT:
                self.values = None
        self.last = numbers(cells) if not self.blank else None
        parsed = self.last if self.last is not None else numbers(list(distinct))
        if parsed is None:
            self.kind = "text"
        elif parsed:
            self.low, self.high = min(self.low, min(parsed)), max(self.high, max(parsed))
            if self.kind == "integer" and not all(map(INTEGER.fullmatch, distinct)):
                self.kind = "number"

    def done(self) -> Column:
        empty = self.values is not None and not self.values
        values = frozenset(self.values) if self.values is not None else None
        return Column(self.name, "text" if empty else self.kind, self.blank, values, self.low, self.high)
