"""Tables put right before they are read for meaning: answers from a second file, a header that comes again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kaggle_workbench.competition.reading.text import is_text
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.show import plural

if TYPE_CHECKING:
    import pandas as pd


def require_whole(table: pd.DataFrame, path: Path) -> None:
    """Make sure that a table is one table.

    Raises:
        WorkError: Its header comes again among the rows (files put together), or a name stands in it twice.
    """
    texts = [name for name in table.columns if is_text(table[name])]
    if len(texts) == len(table.columns) and len(table):
        again = (table[texts[0]] == texts[0]).to_numpy()
        for name in texts[1:]:
            again = again & (table[name] == name).to_numpy()
        if again.any():
            line = int(again.argmax()) + 2
            raise WorkError(
                f"{path}, line {line}: the header comes again"
                f" ({plural(int(again.sum()), 'time')} in all); the columns cannot be read as what they are.",
                hint="Remove these lines, then run this again.",
            )
    twice = [
        name
        for name in table.columns
        if "." in str(name) and str(name).rpartition(".")[2].isdigit() and str(name).rpartition(".")[0] in table.columns
    ]
    if twice and _stands_twice(path, str(twice[0]).rpartition(".")[0]):
        raise WorkError(
            f"{path}: the header has the column {str(twice[0]).rpartition('.')[0]!r} more than once.",
            hint="Rename or remove one of them, then run this again.",
        )


def _stands_twice(path: Path, name: str) -> bool:
    from kaggle_workbench.competition.csvfiles import look
    from kaggle_workbench.competition.sample import open_rows

    with open_rows(path, look(path)) as rows:
        return rows.header.count(name) > 1


def join_labels(train: pd.DataFrame, file: Path | None, labels: pd.DataFrame, labels_file: Path) -> pd.DataFrame:
    """Training rows with their answers from a second file.

    Args:
        train: The rows.
        file: Their file, for messages.
        labels: The answers, with a column that names the row.
        labels_file: Their file.

    Raises:
        UsageError: No column joins the two.
    """
    extra = [name for name in labels.columns if name not in train.columns]
    if not extra:
        return train
    keys = [name for name in labels.columns if name in train.columns and labels[name].is_unique]
    if not keys:
        raise UsageError(
            f"{labels_file.name} seems to hold the answers to {file.name if file else 'the training rows'}, and no "
            "column joins them.",
            hint="Join them yourself, or say that one table holds all: TRAIN_FILE=NAME in variables.env.",
        )
    key = keys[0]
    if is_text(train[key]) != is_text(labels[key]):
        # "007" in one file and 7 in the other: compared as they are written.
        train, labels = (table.assign(**{key: table[key].astype(str)}) for table in (train, labels))
    joined = train.merge(labels[[key, *extra]], on=key, how="left")
    if not joined[extra].notna().any(axis=None):
        raise UsageError(
            f"No {key} of {file.name if file else 'the training rows'} stands in {labels_file.name}, so no row has an "
            "answer.",
            hint="Join them yourself, or say that one table holds all: TRAIN_FILE=NAME in variables.env.",
        )
    return joined
