"""What to doubt in a competition's data before training on them: one finding per question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.competition.problem import Problem
from kaggle_workbench.show import plural

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 3
# A largest class this many times the smallest is worth a look at the metric and the split.
UNEVEN = 1.5
_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class Doubt:
    """One question and what the data answer; `ok` when there is nothing to think about."""

    question: str
    finding: str
    ok: bool


def find_doubts(problem: Problem) -> tuple[Doubt, ...]:
    """Look for what spoils a training: missing values, doubled rows, contradictions, leaks, empty columns.

    Args:
        problem: The competition's tables.
    """
    doubts = [_missing(problem)]
    rows = _rows(problem)
    if rows is not None:
        train_rows, test_rows = rows
        doubts.append(_doubled(train_rows))
        if problem.classes:
            doubts.append(_contradicting(train_rows, problem.labels))
        doubts.append(_shared(train_rows, test_rows))
    if problem.classes:
        doubts.append(_uneven(problem))
    if problem.features:
        doubts.append(_constant(problem.train[list(problem.features)], pictures=bool(problem.side)))
    return tuple(doubts)


def _rows(problem: Problem) -> tuple[list[int], list[int]] | None:
    """A hash of what each row shows, of the training and the test rows; None when they show nothing to compare."""
    if problem.images is not None:
        return _files(problem.images.train), _files(problem.images.test)
    shown = problem.features or tuple(
        str(name)
        for name in problem.test.columns
        if name in problem.train.columns and name not in (problem.id, *problem.targets)
        if not problem.dropped.get(str(name), "").startswith("an id")
    )
    if not shown:
        return None
    return _hashes(problem.train[list(shown)]), _hashes(problem.test[list(shown)])


def _files(files: Sequence[Path]) -> list[int]:
    """A hash of each file's size and beginning; pictures that differ do so there, after packing."""
    found = []
    for path in files:
        with path.open("rb") as file:
            found.append(hash((path.stat().st_size, file.read(_FILE_BYTES))))
    return found


def _missing(problem: Problem) -> Doubt:
    tables = {"train": problem.train, "test": problem.test}
    parts = []
    for name, table in tables.items():
        counts = table.isna().sum()
        columns = counts[counts > 0].sort_values(ascending=False)
        if len(columns):
            most = ", ".join(f"{column} {count:,}" for column, count in columns.head(SHOWN).items())
            parts.append(
                f"{name}: {plural(int(counts.sum()), 'cell')} ({most}{', ...' if len(columns) > SHOWN else ''})"
            )
    return Doubt("Missing values", "; ".join(parts) or "none", not parts)


def _doubled(train_rows: list[int]) -> Doubt:
    extra = len(train_rows) - len(set(train_rows))
    finding = f"{plural(extra, 'training row')} equal to another one" if extra else "none"
    return Doubt("Equal rows", finding, not extra)


def _contradicting(train_rows: list[int], labels: Any) -> Doubt:
    answers = defaultdict(set)
    for row, label in zip(train_rows, labels.tolist(), strict=True):
        answers[row].add(label)
    count = sum(len(found) > 1 for found in answers.values())
    finding = f"{plural(count, 'row')} with more than one answer" if count else "none"
    return Doubt("Equal rows, different answers", finding, not count)


def _shared(train_rows: list[int], test_rows: list[int]) -> Doubt:
    known = set(train_rows)
    count = sum(row in known for row in test_rows)
    finding = f"{plural(count, 'test row')} also in the training data" if count else "none"
    return Doubt("Test rows seen in training", finding, not count)


def _uneven(problem: Problem) -> Doubt:
    counts = problem.train[problem.target].value_counts()
    if len(counts) < 2:
        return Doubt("Classes of uneven size", "there is only one class", ok=False)
    ratio = counts.iloc[0] / counts.iloc[-1]
    finding = f"largest ({counts.index[0]}) {ratio:.1f} times the smallest ({counts.index[-1]})"
    return Doubt("Classes of uneven size", finding if ratio > UNEVEN else "none", bool(ratio <= UNEVEN))


def _constant(train: pd.DataFrame, *, pictures: bool) -> Doubt:
    count = int((train.nunique(dropna=False) <= 1).sum())
    what = "pixel that is" if pictures and count == 1 else "pixels that are" if pictures else "column(s)"
    finding = f"{count:,} {what} the same in every training row" if count else "none"
    # Edges that are always black are how pictures are, not a fault.
    return Doubt("Columns that say nothing", finding, not count or pictures)


def _hashes(table: pd.DataFrame) -> list[int]:
    kinds = set(map(str, table.dtypes))
    if len(kinds) == 1 and kinds <= {"uint8", "int16", "uint16", "int32", "int64", "float64"}:
        return [hash(row.tobytes()) for row in table.to_numpy()]
    from pandas.util import hash_pandas_object

    return [int(value) for value in hash_pandas_object(table.astype(str), index=False)]
