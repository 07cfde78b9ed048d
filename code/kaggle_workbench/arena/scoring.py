"""Scoring: reads a submission file, says what is wrong with it, scores its public and private part.

Faults are told in words a competitor can act on, each with the first rows it concerns.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from kaggle_workbench.arena.competitions import Competition
from kaggle_workbench.errors import UsageError, WorkError

EXAMPLES = 3
# Rows read beyond twice the solution's: enough to tell what is wrong, without holding a file of millions.
SPARE_ROWS = 1000
MISSING = {"", "nan", "na", "n/a", "null", "none", "<na>"}


@dataclass(frozen=True)
class Scores:
    """Public and private score; None where the solution has no rows of that part."""

    public: float | None
    private: float | None


@dataclass(frozen=True)
class Solution:
    """The true answers: id column, target columns, rows by id in file order, and which are public."""

    id_column: str
    targets: tuple[str, ...]
    answers: dict[str, tuple[str, ...]]
    public: tuple[bool, ...]

    @property
    def numeric(self) -> bool:
        """Whether every true answer is a number, so that "7" and "7.0" are the same class."""
        return all(_number(value) is not None for row in self.answers.values() for value in row)


class BadSubmissionError(Exception):
    """A submission that cannot be scored; the text lists all faults found, a line each."""


def score(competition: Competition, file: Path) -> Scores:
    """Score a submission.

    Args:
        competition: Holds the solution, the metric and the size limit.
        file: CSV, alone or in a .gz or .zip; recognised by its content.

    Raises:
        BadSubmissionError: It cannot be scored.
        WorkError: The hosted solution is faulty.
    """
    solution = read_solution(competition)
    rows = _rows(file, competition.max_submission_bytes, 2 * len(solution.answers) + SPARE_ROWS)
    kind = competition.metric.values
    # A list of labels or a mask is text, also when it happens to be one number.
    numeric = kind in ("number", "probability") or (kind == "label" and solution.numeric)
    values = _check(rows, solution, numeric=numeric, may_be_empty=kind == "mask")
    answers = solution.answers
    try:
        true = [_typed(answers[id], numeric) for id in answers]
        guess = [_typed(values[id], numeric) for id in answers]
        parts = []
        for part in (True, False):
            chosen = [i for i, public in enumerate(solution.public) if public is part]
            parts.append(
                competition.metric.score([true[i] for i in chosen], [guess[i] for i in chosen]) if chosen else None
            )
    except UsageError as error:
        raise BadSubmissionError(error.message) from None
    return Scores(*parts)


def read_solution(competition: Competition) -> Solution:
    """The competition's true answers (kept in memory while the file stays as it is).

    Raises:
        WorkError: The file is not a solution: id, targets and Usage (Public or Private).
    """
    return _solution(competition.solution, competition.edition)


@lru_cache(maxsize=8)
def _solution(path: Path, edition: str) -> Solution:
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
            header, *rows = list(csv.reader(file))
    except (OSError, ValueError, EOFError, zlib.error, csv.Error) as error:
        raise WorkError(
            f"The solution {path} cannot be read: {error}.", hint="Host it again: ./kwb arena add FOLDER --replace."
        ) from None
    if len(header) < 3 or header[-1] != "Usage" or any(len(row) != len(header) for row in rows):
        raise WorkError(
            f"The solution {path} has the columns {', '.join(header)}.",
            hint="It needs an id column, one or more target columns, and Usage (Public or Private) as the last.",
        )
    usages = {row[-1] for row in rows}
    answers = {row[0]: tuple(row[1:-1]) for row in rows}
    if not rows or usages - {"Public", "Private"} or len(answers) != len(rows):
        raise WorkError(
            f"The solution {path} has no rows, an id twice, or a Usage other than Public and Private.",
            hint="./kwb arena add FOLDER --solution FILE --replace checks a solution and says which row it is.",
        )
    return Solution(header[0], tuple(header[1:-1]), answers, tuple(row[-1] == "Public" for row in rows))


def _rows(file: Path, most: int, most_rows: int) -> list[list[str]]:
    """All rows of the CSV, header first; refused when over `most` bytes unpacked or `most_rows` rows."""
    try:
        data = _unpacked(file, most)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise BadSubmissionError(f"The archive cannot be unpacked: {error}.") from None
    if not data.strip():
        raise BadSubmissionError("The file is empty.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSubmissionError(f"The file is not UTF-8 text (byte {error.start}). Save it as CSV in UTF-8.") from None
    if "\0" in text:
        raise BadSubmissionError("The file holds null bytes; it is not a CSV.")
    try:
        filled = (row for row in csv.reader(io.StringIO(text, newline="")) if row)
        rows = list(islice(filled, most_rows + 1))
    except csv.Error as error:
        raise BadSubmissionError(f"The file is not a CSV: {error}.") from None
    if not rows:
        raise BadSubmissionError("The file is empty.")
    if len(rows) > most_rows:
        raise BadSubmissionError(f"There are over {most_rows - 1:,} rows; the sample submission has far fewer.")
    return [[cell.strip() for cell in row] for row in rows]


def _unpacked(file: Path, most: int) -> bytes:
    with file.open("rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as content:
                data = content.read(most + 1)
        elif magic == b"PK\x03\x04":
            with zipfile.ZipFile(raw) as archive:
                names = [info for info in archive.infolist() if not info.is_dir()]
                if len(names) != 1:
                    raise BadSubmissionError(f"The zip holds {len(names)} files; it must hold one CSV.")
                with archive.open(names[0]) as member:
                    data = member.read(most + 1)
        else:
            data = raw.read(most + 1)
    if len(data) > most:
        raise BadSubmissionError(f"The file is over the limit of {most:,} bytes.")
    return data


def _check(
    rows: list[list[str]], solution: Solution, *, numeric: bool, may_be_empty: bool
) -> dict[str, tuple[str, ...]]:
    header, body = rows[0], rows[1:]
    wanted = [solution.id_column, *solution.targets]
    if sorted(header) != sorted(wanted):
        missing = [name for name in wanted if name not in header]
        extra = [name for name in header if name not in wanted]
        words = [f"missing: {', '.join(missing)}"] if missing else []
        words += [f"not expected: {', '.join(repr(name[:40]) for name in extra[:5])}"] if extra else []
        words += [] if words else ["a column stands twice"]
        raise BadSubmissionError(f"The columns must be {', '.join(wanted)} ({'; '.join(words)}).")
    faults: list[str] = []
    uneven = [f"line {line}" for line, row in enumerate(body, 2) if len(row) != len(header)]
    _tell(faults, uneven, "have another number of columns than the header")
    place = [header.index(name) for name in wanted]
    values: dict[str, tuple[str, ...]] = {}
    doubled: list[str] = []
    for row in body:
        if len(row) == len(header):
            id, *cells = (row[i] for i in place)
            if id in values:
                doubled.append(id[:40])
            values[id] = tuple(cells)
    if len(body) != len(solution.answers):
        faults.append(f"There are {len(body):,} rows; the solution has {len(solution.answers):,}.")
    _tell(faults, doubled, f"{solution.id_column}s stand more than once")
    _tell(faults, [id for id in solution.answers if id not in values], f"{solution.id_column}s are missing")
    unknown = [id[:40] for id in values if id not in solution.answers]
    _tell(faults, unknown, f"{solution.id_column}s are not in the test set")
    known = {id: cells for id, cells in values.items() if id in solution.answers}
    # A class may be called "None"; then that word is a value.
    blank = MISSING - {value.lower() for row in solution.answers.values() for value in row}
    # "Nothing here" is a mask, too.
    empty = [id for id, cells in known.items() if not may_be_empty and any(cell.lower() in blank for cell in cells)]
    _tell(faults, empty, f"rows have no value (by {solution.id_column})")
    if numeric:
        wrong = [
            f"{id} ({cell[:20]!r})"
            for id, cells in known.items()
            for cell in cells
            if cell.lower() not in blank and _number(cell) is None
        ]
        _tell(faults, wrong, f"rows hold a value that is not a number (by {solution.id_column})")
    if faults:
        raise BadSubmissionError("\n".join(faults))
    return values


def _tell(faults: list[str], found: Sequence[str], what: str) -> None:
    if found:
        shown = ", ".join(found[:EXAMPLES]) + (", ..." if len(found) > EXAMPLES else "")
        faults.append(f"{len(found):,} {what}: {shown}.")


def _typed(cells: tuple[str, ...], numeric: bool) -> list[float] | list[str]:  # noqa: FBT001 - private, one caller
    return [float(cell) for cell in cells] if numeric else list(cells)


def _number(cell: str) -> float | None:
    """A finite number, or None; Python's own "1_000" is not one."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if "_" not in cell and math.isfinite(value) else None
