"""What each column is for: which cannot be learnt from, which ties rows together, which tells the time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaggle_workbench.competition.reading.dates import is_date, moments
from kaggle_workbench.competition.reading.overrides import NONE, Overrides, require_column
from kaggle_workbench.competition.reading.text import is_text
from kaggle_workbench.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

ID_NAME = re.compile(
    r"(^|[_\- .])(id|ids|pid|uid|uuid|guid|index|idx|row|key|rownumber|order|number|no)$", re.IGNORECASE
)
CAMEL_ID = re.compile(r"[a-z](Id|ID|Index|Key)$")
TIME_NAME = re.compile(r"date|time|year|month|week|day|period|epoch|(^|_)t$", re.IGNORECASE)
# Rows that show what a column is; more would tell nothing else.
LOOKED_AT = 2000
# With fewer different values in the test rows, that none of them is in training may be chance.
LEAST_GROUPS = 5
# So many rows of one value on average make it a group.
LEAST_ROWS = 1.5


@dataclass
class Columns:
    """What the columns of a competition's tables are for.

    Attributes:
        dropped: Columns not to learn from, each with the reason.
        group: Column whose values the training and the test rows do not share, so that a random split lies.
        time: Column by which the test rows come after the training rows.
        doubts: Sentences about guesses that may be wrong.
    """

    dropped: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    time: str | None = None
    doubts: list[str] = field(default_factory=list)


def read_columns(
    train: pd.DataFrame,
    test: pd.DataFrame,
    features: Sequence[str],
    targets: Sequence[str],
    overrides: Overrides,
    *,
    classes: bool,
) -> Columns:
    """Tell what the columns that both tables have are for.

    Args:
        train: Training table.
        test: Test table.
        features: Columns of both, without the id.
        targets: Columns to predict.
        overrides: What the user said.
        classes: Whether the answers are classes, not amounts.

    Raises:
        UsageError: A column the user named is not there, or is the answer.
    """
    found = Columns()
    for name in overrides.drop:
        require_column(name, "DROP_COLUMNS", list(train.columns), "the training table")
        found.dropped[name] = "DROP_COLUMNS says so"
    answers = [train[name] for name in targets]
    for name in features:
        if name not in found.dropped and (reason := _useless(train[name], answers, classes=classes)):
            found.dropped[name] = reason
    left = [name for name in features if name not in found.dropped]
    found.time = _chosen(overrides.time, "TIME_COLUMN", train, targets) or _time(train, test, left, overrides, found)
    found.group = _chosen(overrides.group, "GROUP_COLUMN", train, targets) or _group(
        train, test, left, overrides, found
    )
    if found.group is not None:
        found.dropped.setdefault(found.group, "names groups of rows that the test rows do not share")
    return found


def is_free_text(column: Any) -> bool:
    """Whether a text column holds sentences or names, not a choice among a few."""
    seen = column.dropna()
    if not is_text(column) or not len(seen):
        return False
    return bool(seen.nunique() > max(20, 0.5 * len(seen)))


def _useless(train: pd.Series[Any], answers: Sequence[Any], *, classes: bool) -> str:
    """Why a column is not to be learnt from; "" when it is."""
    count = train.nunique(dropna=False)
    if count <= 1:
        return "the same in every training row" if len(train) and train.notna().any() else "empty"
    if train.isna().all():
        return "empty"
    if count == len(train) and len(train) > 10 and _is_id(train):
        return "an id: every row has another value"
    for answer in answers:
        if _is_copy(train, answer, classes=classes):
            return f"a copy of the answer {answer.name}"
    if is_date(train):
        return ""
    if is_free_text(train):
        return "free text: nearly every row has another one"
    return ""


def _is_id(column: pd.Series[Any]) -> bool:
    name = str(column.name)
    if is_text(column):
        # Text that is different in every row and has no spaces between words is a name of the row.
        return not is_date(column) and not column.head(LOOKED_AT).astype(str).str.contains(r"\s", regex=True).any()
    if column.dtype.kind not in "iu":
        return False
    consecutive = int(column.max()) - int(column.min()) == len(column) - 1
    return consecutive or bool(ID_NAME.search(name) or CAMEL_ID.search(name))


def _is_copy(column: pd.Series[Any], answer: Any, *, classes: bool) -> bool:
    """Whether a column tells the answer of every row that has one: the same values, or the same under other names."""
    both = column.notna() & answer.notna()
    if both.sum() < 10 or both.sum() < 0.5 * len(column):
        return False
    some = both[both].index[:LOOKED_AT]
    # First a few rows: nearly every column is no copy.
    return _tells(column.loc[some], answer.loc[some], classes=classes) and _tells(
        column[both], answer[both], classes=classes
    )


def _tells(column: Any, answer: Any, *, classes: bool) -> bool:
    import numpy as np

    distinct = answer.nunique()
    if distinct < 2:
        return False
    if not classes and column.dtype.kind in "iuf" and answer.dtype.kind in "iuf":
        # The same order of all rows: the answer itself, doubled, or its logarithm.
        if column.nunique() < 0.9 * distinct:
            return False
        order = np.argsort(answer.to_numpy(), kind="stable")
        steps, truth = np.diff(column.to_numpy(dtype=float)[order]), np.diff(answer.to_numpy(dtype=float)[order])
        along = (np.sign(steps) == np.sign(truth)).mean()
        return bool(along > 0.999 or (np.sign(steps) == -np.sign(truth)).mean() > 0.999)
    if column.nunique() != distinct:
        return False
    import pandas as pd

    pairs = pd.DataFrame({"a": column.to_numpy(), "b": answer.to_numpy()}).drop_duplicates()
    return bool(len(pairs) == distinct)


def _chosen(given: str | None, setting: str, train: pd.DataFrame, targets: Sequence[str]) -> str | None:
    if given is None or given.lower() == NONE:
        return None
    require_column(given, setting, list(train.columns), "the training table")
    if given in targets:
        raise UsageError(
            f"{setting} is {given!r}, which is what is to be predicted.",
            hint=f"Correct {setting} or TARGET in variables.env; {setting}=none says that there is none.",
        )
    return given


def _time(
    train: pd.DataFrame, test: pd.DataFrame, names: Sequence[str], overrides: Overrides, found: Columns
) -> str | None:
    """The column in which every test row comes after every training row."""
    if overrides.time is not None or not len(test):
        return None
    for name in names:
        if not (TIME_NAME.search(name) or is_date(train[name])):
            continue
        before, after = moments(train[name], test[name]), moments(test[name], train[name])
        if before is None or after is None or not len(after.dropna()) or not len(before.dropna()):
            continue
        if before.nunique() > 1 and before.max() <= after.min() and before.min() < after.max():
            found.doubts.append(
                f"Every test row lies after the training rows in {name!r}, so the split goes from past to future. "
                "TIME_COLUMN=none in variables.env splits at random."
            )
            return name
    return None


def _group(
    train: pd.DataFrame, test: pd.DataFrame, names: Sequence[str], overrides: Overrides, found: Columns
) -> str | None:
    """The column whose values repeat within each table and are never shared by both."""
    if overrides.group is not None or found.time is not None or not len(test):
        return None
    for name in names:
        column, other = train[name], test[name]
        if column.dtype.kind == "f" or is_date(column):
            continue
        here, there = column.nunique(), other.nunique()
        if here < LEAST_GROUPS or there < LEAST_GROUPS or len(column) < LEAST_ROWS * here:
            continue
        if not set(column.dropna().unique()) & set(other.dropna().unique()):
            found.doubts.append(
                f"Training and test rows share no value of {name!r}, so rows of one value stay together in the split. "
                "GROUP_COLUMN=none in variables.env splits at random."
            )
            return name
    return None


def listed(mapping: Mapping[str, str], limit: int = 8) -> str:
    """Columns with their reasons, for people."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in mapping.items():
        by_reason.setdefault(reason, []).append(name)
    parts = []
    for reason, names in by_reason.items():
        more = f" and {len(names) - limit} more" if len(names) > limit else ""
        parts.append(f"{', '.join(names[:limit])}{more} ({reason})")
    return "; ".join(parts)
