"""The ids of a submission against the sample's: missing, unknown, doubled, changed on the way."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable

from kaggle_workbench.competition.report import SHOWN, Fault, Findings, shown
from kaggle_workbench.competition.sample import Row, Sample
from kaggle_workbench.show import plural


class IdCheck:
    """Compares ids as text, exactly as both files write them, so that no digit of a long id is lost.

    Args:
        sample: The sample submission.
        place: Column of the ids in the file, or None when the file has none.
    """

    def __init__(self, sample: Sample, place: int | None) -> None:
        self._sample = sample
        self._place = place if sample.id else None
        self._lines = array("Q", bytes(8 * sample.rows))
        self._unknown: dict[str, int] = {}
        self._found = Findings()
        self._last = -1
        self._ordered = True

    def add(self, block: list[Row]) -> None:
        """Take in a block of rows."""
        if self._place is None:
            return
        place, positions, lines = self._place, self._sample.positions, self._lines
        last, ordered = self._last, self._ordered
        for line, row in block:
            if place >= len(row):
                continue
            name = row[place]
            position = positions.get(name)
            if position is None:
                first = self._unknown.setdefault(name, line)
            else:
                first = lines[position]
                if not first:
                    first = lines[position] = line
                    ordered = ordered and position > last
                    last = position
            if first != line:
                wanted = self._found.wants("doubled ids")
                self._found.add("doubled ids", f"line {line}: {shown(name)}, first in line {first}" if wanted else "")
        self._last, self._ordered = last, ordered

    def result(self, *, whole: bool) -> tuple[list[Fault], list[Fault]]:
        """Faults and warnings.

        Args:
            whole: The file was read to its end; only then is an id that did not come missing.
        """
        if not self._sample.id:
            message = "No column of the sample is unique, so the ids could not be compared."
            return [], [Fault("ids unchecked", message, fix="Compare the rows with the sample yourself.")]
        if self._place is None:
            return [], []
        faults: list[Fault] = []
        missing = {name: None for name, place in self._sample.positions.items() if not self._lines[place]}
        unknown = dict(self._unknown)
        if unknown:
            faults += self._changed(missing, unknown)
        if unknown:
            places = tuple(f"line {line}: {shown(name)}" for name, line in list(unknown.items())[:SHOWN])
            message = f"{plural(len(unknown), 'id')} that the sample does not have."
            faults.append(Fault("extra ids", message, places, self._hint(missing, unknown), len(unknown)))
        if missing and whole:
            places = tuple(
                f"sample row {self._sample.positions[name] + 1}: {shown(name)}" for name in list(missing)[:SHOWN]
            )
            message = f"{plural(len(missing), 'id')} of the sample missing."
            fix = "Predict every row of the test data; do not drop rows with missing values."
            faults.append(Fault("missing ids", message, places, fix, len(missing)))
        if count := self._found.count("doubled ids"):
            message = f"{plural(count, 'row')} with an id that came before."
            faults.append(self._found.fault("doubled ids", message, "Keep one row for each id."))
        if faults or self._ordered:
            return faults, []
        message = "The rows stand in another order than the sample's. Kaggle matches them by id, so this does no harm."
        return faults, [Fault("row order", message, fix=f"Sort them as the sample's {self._sample.id}, to be safe.")]

    def _changed(self, missing: dict[str, None], unknown: dict[str, int]) -> list[Fault]:
        """Ids that are there, but written differently; they are taken out of both lists."""
        faults: list[Fault] = []
        for what, fix, form in _FORMS:
            wanted: dict[str, str] = {}
            for name in missing:
                if (key := form(name)) is not None:
                    wanted[key] = name
            matched: list[tuple[str, str]] = []
            for name in unknown:
                key = form(name)
                if key is not None and key in wanted:
                    matched.append((name, wanted[key]))
            if not matched:
                continue
            places = tuple(
                f"line {unknown[name]}: {shown(name)} instead of {shown(true)}" for name, true in matched[:SHOWN]
            )
            message = f"{what}: {plural(len(matched), 'id')}."
            faults.append(Fault("changed ids", message, places, fix.format(id=self._sample.id), len(matched)))
            keys = {form(name) for name, _ in matched}
            for name, _ in matched:
                del unknown[name]
            for name in [name for name in missing if form(name) in keys]:
                del missing[name]
        return faults

    def _hint(self, missing: dict[str, None], unknown: dict[str, int]) -> str:
        if len(unknown) == self._sample.rows:
            return "No id fits: is this file from another competition, or the ids of the training data?"
        if len(missing) == len(unknown) == 1 and all(name.isdigit() for name in (*missing, *unknown)):
            first = next(iter(self._sample.positions))
            return f"The ids seem to be shifted by one: the sample begins with {first}. Take the ids from the sample."
        return "Take the ids from the sample submission or the test data, row by row."


def _stripped(name: str) -> str | None:
    return name.strip()


def _lowered(name: str) -> str | None:
    return name.strip().lower()


def _without_point(name: str) -> str | None:
    match = re.fullmatch(r"(-?\d+)(\.0*)?", name.strip())
    return match[1] if match else None


def _without_zeros(name: str) -> str | None:
    whole = _without_point(name)
    return None if whole is None else whole.lstrip("0") or "0"


def _rounded(name: str) -> str | None:
    # Up to 2**53 a float holds every whole number; so only longer ids, or ids with an exponent, can have been rounded.
    text = name.strip()
    if not re.fullmatch(r"-?\d{16,}(\.0*)?|-?\d(\.\d+)?[eE]\+?\d+", text):
        return None
    return repr(float(text))


_FORMS: tuple[tuple[str, str, Callable[[str], str | None]], ...] = (
    ("Ids with spaces around", "Strip the ids.", _stripped),
    (
        "Ids written as decimal numbers, such as 1.0",
        "The column {id} became float, mostly by missing values in a merge: read and write it as int64 or text.",
        _without_point,
    ),
    (
        "Ids with other leading zeros than the sample's",
        "Read the column {id} as text: read_csv(..., dtype={{'{id}': str}}).",
        _without_zeros,
    ),
    (
        "Ids rounded by a conversion to float",
        "A float holds only 15 to 16 digits: read the column {id} as text or int64, and never through float.",
        _rounded,
    ),
    ("Ids in other upper and lower case", "Write the ids exactly as in the sample.", _lowered),
)
