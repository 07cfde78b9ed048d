"""What kind of problem a competition is, read from its files: target, ids, classes, pictures."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.competition.sample import find_sample, read_sample
from kaggle_workbench.competition.tables import read_table
from kaggle_workbench.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

# Smaller squares of numbers are hardly pictures.
LEAST_SIDE = 4
# More different answers than this are amounts, not classes.
MOST_CLASSES = 1000


@dataclass(frozen=True)
class Problem:
    """A competition's tables and what they ask for.

    Attributes:
        name: Slug.
        folder: Where the files are.
        train: Training table.
        test: Test table.
        sample_file: The sample submission; None when there is none.
        id: Name of the id column in a submission.
        target: Name of the column to predict in the training table; None when it is not plain.
        features: Names of the columns that both tables have, without the id.
        side: Width and height of a picture in pixels when each row is one square picture; else 0.
    """

    name: str
    folder: Path
    train: pd.DataFrame
    test: pd.DataFrame
    sample_file: Path | None
    id: str
    target: str | None
    features: tuple[str, ...]
    side: int

    @property
    def labels(self) -> Any:
        """The training rows' answers, (rows,), as the training table holds them."""
        if self.target is None:
            raise UsageError(f"Which column of {self.name} is to be predicted is not plain from its files.")
        return self.train[self.target].to_numpy()

    @property
    def classes(self) -> tuple[Any, ...]:
        """The different answers, sorted; empty when there are too many to be classes, or none is known."""
        if self.target is None:
            return ()
        found = self.train[self.target].dropna().unique()
        return tuple(sorted(found.tolist())) if len(found) <= MOST_CLASSES else ()

    def pictures(self, table: str = "train") -> Any:
        """Each row as a picture: (rows, side, side), grey levels 0 to 255 as uint8.

        Args:
            table: "train" or "test".

        Raises:
            UsageError: The rows are no pictures.
        """
        if not self.side:
            raise UsageError(f"The rows of {self.name} are no pictures.")
        rows = (self.train if table == "train" else self.test)[list(self.features)]
        return rows.to_numpy().astype("uint8").reshape(-1, self.side, self.side)


def read_problem(name: str, folder: Path, *, home: Path | None = None) -> Problem:
    """Read a competition's tables.

    Args:
        name: Slug, for messages.
        folder: Where its files are.
        home: Folder for binary copies of large tables; None: none are kept.

    Raises:
        UsageError: It has no training or no test table.
        WorkError: A table is damaged.
    """
    train_file, test_file = _table(name, folder, "train"), _table(name, folder, "test")
    train, test = read_table(train_file, home=home), read_table(test_file, home=home)
    sample_file = find_sample(folder)
    wanted = read_sample(sample_file) if sample_file is not None else None
    id = wanted.id if wanted is not None else ""
    only_train = [column for column in train.columns if column not in test.columns and column != id]
    target = only_train[0] if len(only_train) == 1 else None
    if target is None and wanted is not None and len(wanted.targets) == 1:
        by_name = {column.lower(): column for column in only_train}
        target = by_name.get(wanted.targets[0].name.lower())
    features = tuple(column for column in test.columns if column in train.columns and column != id)
    return Problem(name, folder, train, test, sample_file, id, target, features, _side(train, test, features))


def _table(name: str, folder: Path, which: str) -> Path:
    found = [folder / f"{which}.csv{packing}" for packing in ("", ".gz", ".zip")]
    path = next((file for file in found if file.is_file()), None)
    if path is None:
        raise UsageError(
            f"{name} has no {which}.csv, so its files cannot be read as one table of training rows.",
            hint=f"Read them with your own code; they are in {folder}.",
        )
    return path


def _side(train: pd.DataFrame, test: pd.DataFrame, features: tuple[str, ...]) -> int:
    side = math.isqrt(len(features))
    if side < LEAST_SIDE or side * side != len(features):
        return 0
    # One kind of measurement, numbered, a byte's worth each: that is a picture written as a row.
    if len({re.sub(r"\d+", "", name) for name in features}) != 1:
        return 0
    return side if all(_is_grey(table[list(features)]) for table in (train, test)) else 0


def _is_grey(table: pd.DataFrame) -> bool:
    if not all(kind.kind in "iu" for kind in table.dtypes):
        return False
    values = table.to_numpy()
    return bool(values.size and values.min() >= 0 and values.max() <= 255)
