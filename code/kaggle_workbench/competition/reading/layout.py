"""Which of a competition's files are the training table, the test table and the sample submission."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kaggle_workbench.competition.reading.overrides import Overrides
from kaggle_workbench.competition.sample import SAMPLE_NAME
from kaggle_workbench.errors import UsageError

TABLE = re.compile(r"\.(csv|tsv)(\.gz|\.zip)?$", re.IGNORECASE)
ANSWERS = re.compile(r"label|target|answer|outcome|solution|(^|[_-])y($|[_-])", re.IGNORECASE)
SHOWN = 12


@dataclass(frozen=True)
class Layout:
    """Where a competition's tables lie.

    Attributes:
        train: Training rows; None when there is no table of them.
        labels: Their answers, when they stand in a file of their own.
        test: Test rows; None when there is no table of them.
        others: Tables that are none of these.
    """

    train: Path | None
    labels: Path | None
    test: Path | None
    others: tuple[Path, ...]


def find_layout(name: str, folder: Path, overrides: Overrides) -> Layout:
    """Find a competition's tables by their names.

    Args:
        name: Slug, for messages.
        folder: Where the files are.
        overrides: Names the user gave.

    Raises:
        UsageError: A file the user named is not there, or it is not plain which of several is meant.
    """
    tables = _tables(folder)
    train, labels = _train(name, folder, tables, overrides)
    test = _named(folder, tables, overrides.test, "TEST_FILE") or _plain(name, tables, "test", "TEST_FILE")
    used = {train, labels, test}
    return Layout(train, labels, test, tuple(path for path in tables if path not in used))


def _train(name: str, folder: Path, tables: Sequence[Path], overrides: Overrides) -> tuple[Path | None, Path | None]:
    given = _named(folder, tables, overrides.train, "TRAIN_FILE")
    answers = [path for path in _alike(tables, "train") if ANSWERS.search(_stem(path))]
    if given is not None:
        return given, None
    exact = [path for path in tables if _stem(path) == "train"]
    if exact:
        # A second file of answers beside train.csv: joined only when train.csv itself has none.
        return _shallowest(exact), answers[0] if len(answers) == 1 else None
    rows = [path for path in _alike(tables, "train") if path not in answers]
    if not rows and len(answers) == 1:
        # Only ids and answers: the rows themselves are pictures or the like.
        return answers[0], None
    if len(answers) > 1 and len(rows) == 1:
        answers = []
    return _one(name, rows, "training", "TRAIN_FILE"), answers[0] if len(answers) == 1 else None


def _plain(name: str, tables: Sequence[Path], which: str, setting: str) -> Path | None:
    exact = [path for path in tables if _stem(path) == which]
    return _shallowest(exact) if exact else _one(name, _alike(tables, which), which, setting)


def _one(name: str, found: Sequence[Path], which: str, setting: str) -> Path | None:
    if len(found) > 1:
        raise UsageError(
            f"{name} has {len(found)} files that may hold the {which} rows: {_shown(found)}.",
            hint=f"Say which one: {setting}={found[0].name} in variables.env.",
        )
    return found[0] if found else None


def _named(folder: Path, tables: Sequence[Path], given: str | None, setting: str) -> Path | None:
    if given is None:
        return None
    for path in tables:
        if given in (path.name, str(path.relative_to(folder)), path.relative_to(folder).as_posix()):
            return path
    raise UsageError(
        f"{setting} is {given!r}, and there is no such table in {folder}.",
        hint=f"The tables there: {_shown(tables) or 'none'}.",
    )


def _tables(folder: Path) -> list[Path]:
    """Tables at the top and one folder below, without sample submissions; those at the top first."""
    found = [path for pattern in ("*", "*/*") for path in sorted(folder.glob(pattern))]
    return [
        path
        for path in found
        if (TABLE.search(path.name) or path.name in ("train.zip", "test.zip"))
        and path.is_file()
        and not path.name.startswith(".")
        and not SAMPLE_NAME.search(path.name)
    ]


def _alike(tables: Sequence[Path], which: str) -> list[Path]:
    begins = re.compile(rf"^{which}(ing)?([_\-. ]|$)", re.IGNORECASE)
    ends = re.compile(rf"[_\-. ]{which}(ing)?$", re.IGNORECASE)
    found = [path for path in tables if begins.search(_stem(path))]
    return found or [path for path in tables if ends.search(_stem(path))]


def _shallowest(paths: Sequence[Path]) -> Path:
    return min(paths, key=lambda path: (len(path.parts), len(path.name), path.name))


def _stem(path: Path) -> str:
    stem = TABLE.sub("", path.name)
    return (stem[:-4] if stem.lower().endswith(".zip") else stem).lower()


def _shown(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths[:SHOWN]) + (", ..." if len(paths) > SHOWN else "")
