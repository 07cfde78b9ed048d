"""What the user says about a competition, in place of what would be guessed from its files."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaggle_workbench.errors import UsageError

if TYPE_CHECKING:
    from kaggle_workbench.settings import Settings

# Value of a setting that says: there is none, whatever it looks like.
NONE = "none"


@dataclass(frozen=True)
class Overrides:
    """Settings that replace guesses; None or empty means: guess.

    Attributes:
        target: Columns of the training table to predict.
        id: Column that names the rows in a submission.
        problem: "binary", "classes", "regression" or "several".
        rows: How the rows are given: "table", "pixels" or "images".
        metric: Name or Kaggle's title of a metric.
        group: Column whose rows must not be split between training and test; "none" for none.
        time: Column by which the split goes from past to future; "none" for none.
        drop: Columns not to learn from.
        train: Name of the file with the training rows.
        test: Name of the file with the test rows.
    """

    target: tuple[str, ...] = ()
    id: str | None = None
    problem: str | None = None
    rows: str | None = None
    metric: str | None = None
    group: str | None = None
    time: str | None = None
    drop: tuple[str, ...] = ()
    train: str | None = None
    test: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> Overrides:
        """What the settings in force say."""
        return cls(
            target=settings.target,
            id=settings.id_column,
            problem=settings.problem,
            rows=settings.row_kind,
            metric=settings.metric,
            group=settings.group_column,
            time=settings.time_column,
            drop=settings.drop_columns,
            train=settings.train_file,
            test=settings.test_file,
        )


def require_column(name: str, setting: str, columns: Sequence[str], table: str) -> None:
    """Make sure that a column the user named is there.

    Args:
        name: The column.
        setting: The setting that named it.
        columns: Those there are.
        table: What they are of, for the message.

    Raises:
        UsageError: It is not; the message has the most alike.
    """
    if name in columns:
        return
    names = {str(each).lower(): str(each) for each in columns}
    near = difflib.get_close_matches(name.lower(), list(names), 1, 0.7)
    close = names[near[0]] if near else ""
    shown = ", ".join(map(str, columns[:20])) + (", ..." if len(columns) > 20 else "")
    raise UsageError(
        f"{setting} is {name!r}, and {table} has no such column." + (f" Did you mean {close!r}?" if close else ""),
        hint=f"Its columns: {shown}.",
    )
