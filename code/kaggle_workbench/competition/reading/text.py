"""Text columns: whether a column holds text, and words that pandas takes for missing values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.show import plural

if TYPE_CHECKING:
    import pandas as pd

# pandas reads these as missing. As an answer each may be a class of its own: no disorder, North America.
WORDS = ("None", "NA", "N/A", "n/a", "null", "NULL")


def is_text(column: Any) -> bool:
    """Whether a column holds text rather than numbers, truth values or moments."""
    from pandas.api import types

    return bool(types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype))


def restore_words(table: pd.DataFrame, names: list[str], path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Text answers with the words that were read as missing, such as "None".

    Args:
        table: As it was read from `path`, all rows.
        names: Its columns of answers.
        path: Its file.

    Returns:
        The table, and a sentence for each column that such words were put back into.
    """
    from kaggle_workbench.competition.tables import read_texts

    doubts = []
    for name in names:
        column = table[name]
        if not is_text(column) or not column.isna().any() or column.isna().all():
            continue
        written = read_texts(path, name).str.strip()
        written.index = column.index
        found = column.isna() & written.isin(WORDS)
        if found.any():
            table = table.assign(**{name: column.astype(object).where(~found, written)})
            words = ", ".join(repr(word) for word in sorted(set(written[found])))
            doubts.append(
                f"{plural(int(found.sum()), 'row')} of {name!r} read {words}: taken for an answer like the others, not "
                "for a missing one. If it is none, take these rows out of the file."
            )
    return table, doubts
