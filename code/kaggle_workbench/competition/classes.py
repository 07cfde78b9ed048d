"""The labels that a prediction may take, read from the training data where they are plain to see."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from kaggle_workbench.competition.csvfiles import DAMAGE, look, open_text, separator
from kaggle_workbench.competition.sample import INTEGER, Column, Sample, read_sample

MOST_NUMBERS = 100
MOST_NAMES = 10_000
LABELS = re.compile(
    r"accuracy|categori[sz]ation|\bf[1-9β]\b|f-?score|f-?beta|kappa|matthews|\bmcc\b|hamming", re.IGNORECASE
)


def known_classes(folder: Path, sample: Path, *, metric: str | None = None) -> frozenset[str] | None:
    """The training data's labels, when the competition asks for one label a row.

    Args:
        folder: The competition's data.
        sample: Its sample submission.
        metric: The metric as Kaggle names it. When it is known, it decides whether labels are asked for; otherwise
            the data must show it, and what could also be a probability (0 and 1, with a sample of only zeros)
            or a quantity (many different whole numbers) is left open.

    Returns:
        The labels as the training data write them, or None when they are not known.
    """
    if metric is not None and not LABELS.search(metric):
        return None
    wanted = read_sample(sample)
    if len(wanted.targets) != 1 or wanted.targets[0].kind == "number":
        return None
    target = wanted.targets[0]
    for path in sorted(folder.glob("train*.csv*")):
        try:
            labels = _distinct(path, target, _test_columns(folder))
        except (OSError, csv.Error, *DAMAGE):
            continue
        if labels is not None:
            return labels if _plain(labels, target, wanted, certain=metric is not None) else None
    return None


def _plain(labels: frozenset[str], target: Column, wanted: Sample, *, certain: bool) -> bool:
    if not labels or target.values is None or not target.values <= labels:
        return False
    if target.kind == "text":
        return True
    if certain or len(target.values) > 1:
        return all(map(INTEGER.fullmatch, labels))
    return len(labels) > 2 and all(map(INTEGER.fullmatch, labels))


def _test_columns(folder: Path) -> frozenset[str]:
    """Names in the test data's header; empty when there is none."""
    for path in sorted(folder.glob("test*.csv*")):
        seen = look(path)
        if not seen.problem:
            with open_text(path, seen) as text:
                return frozenset(_header(next(text, ""))[0])
    return frozenset()


def _distinct(path: Path, target: Column, test_columns: frozenset[str]) -> frozenset[str] | None:
    """Distinct values of the column to predict, or None when it is not there or has too many values."""
    seen = look(path)
    if seen.problem:
        return None
    most = MOST_NAMES if target.kind == "text" else MOST_NUMBERS
    labels: set[str] = set()
    with open_text(path, seen) as text:
        names, mark = _header(next(text, ""))
        place = _place(target.name, names, test_columns)
        if place is None:
            return None
        for value in _cells(text, mark, place):
            labels.add(value)
            if len(labels) > most:
                return None
    labels.discard("")
    return frozenset(labels)


def _header(line: str) -> tuple[list[str], str]:
    mark = separator(line)
    return next(csv.reader([line], delimiter=mark), []), mark


def _place(name: str, names: list[str], test_columns: frozenset[str]) -> int | None:
    """Where the training data hold what the sample calls `name` ("Label" there may be "label" here)."""
    if name in names:
        return names.index(name)
    alike = [index for index, other in enumerate(names) if other.lower() == name.lower()]
    if not alike and test_columns:
        # What only the training data have is the answer.
        alike = [index for index, other in enumerate(names) if other not in test_columns]
    return alike[0] if len(alike) == 1 else None


def _cells(text: Iterator[str], mark: str, place: int) -> Iterator[str]:
    """One column's cells; a wide line without quotes is split no further than needed."""
    for line in text:
        if '"' in line:
            # From the first quote on a cell may span lines, so the rest is left to the csv module.
            yield from (row[place] for row in csv.reader(_again(line, text), delimiter=mark) if place < len(row))
            return
        cells = line.rstrip("\r\n").split(mark, place + 1)
        if place < len(cells) and line.strip():
            yield cells[place]


def _again(line: str, rest: Iterator[str]) -> Iterator[str]:
    yield line
    yield from rest
