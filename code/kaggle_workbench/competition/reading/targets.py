"""Which columns are to be predicted, and which names the rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaggle_workbench.competition.reading.overrides import Overrides, require_column
from kaggle_workbench.competition.sample import Sample
from kaggle_workbench.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

USUAL = ("target", "label", "labels", "class", "y", "answer", "outcome", "response")
PLAIN = re.compile(r"[^a-z0-9]+")


@dataclass
class Targets:
    """What is to be predicted.

    Attributes:
        columns: Of the training table; empty when it is not plain.
        id: Column that names the rows in a submission; "" when there is none.
        by_class: For each column of the submission, the class whose probability it takes; empty when the columns
            are the targets themselves.
        doubts: Sentences about guesses that may be wrong.
    """

    columns: tuple[str, ...] = ()
    id: str = ""
    by_class: tuple[Any, ...] = ()
    doubts: list[str] = field(default_factory=list)


def find_targets(train: pd.DataFrame, test: pd.DataFrame, sample: Sample | None, overrides: Overrides) -> Targets:
    """Find the columns to predict and the id.

    Args:
        train: Training table.
        test: Test table.
        sample: The sample submission; None when there is none.
        overrides: What the user said.

    Raises:
        UsageError: A column the user named is not there.
    """
    found = Targets(id=_id(train, test, sample, overrides))
    only_train = [name for name in train.columns if name not in test.columns and name != found.id]
    wanted = [column.name for column in sample.targets if column.name != found.id] if sample is not None else []
    if sample is not None and not found.id and len(wanted) > 1:
        # Without a unique column, those that the test rows have too name the rows.
        wanted = [name for name in wanted if name not in test.columns]
        found.doubts.append(
            "No column of the sample submission has another value in each row, so what names a row is not plain: "
            "the form of a submission is left to you."
        )
    if overrides.target:
        for name in overrides.target:
            require_column(name, "TARGET", list(train.columns), "the training table")
        found.columns = overrides.target
    else:
        found.columns = _guessed(train, test, wanted, only_train, found)
    if len(found.columns) == 1 and len(wanted) > 1:
        found.by_class = _classes_of(train[found.columns[0]], wanted)
        if not found.by_class:
            found.doubts.append(
                f"The sample submission asks for {len(wanted)} columns ({', '.join(wanted[:5])}, ...), and they are "
                f"neither columns of the training table nor the classes of {found.columns[0]!r}."
            )
            if not overrides.target:
                found.columns = ()
    shared = [name for name in found.columns if name in test.columns and test[name].notna().any()]
    if shared:
        found.doubts.append(f"The test table holds values of {shared[0]!r}, the answer; they are not used.")
    return found


def no_target(name: str, train: pd.DataFrame, test: pd.DataFrame, doubts: Sequence[str]) -> UsageError:
    """The error of a stage that needs to know what is to be predicted."""
    only = [str(column) for column in train.columns if column not in test.columns]
    shown = only or [str(column) for column in train.columns]
    listed = ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")
    return UsageError(
        " ".join([f"Which column of {name} is to be predicted is not plain from its files.", *doubts]),
        hint=f"Say it: TARGET=NAME in variables.env (several: TARGET=A,B). It may be one of: {listed}.",
    )


def _id(train: pd.DataFrame, test: pd.DataFrame, sample: Sample | None, overrides: Overrides) -> str:
    if overrides.id is not None:
        columns = [*(sample.columns if sample is not None else ()), *map(str, test.columns)]
        require_column(overrides.id, "ID_COLUMN", columns, "neither the sample submission nor the test table")
        return overrides.id
    if sample is not None:
        return sample.id
    for name in test.columns:
        if name in train.columns and re.search(r"(^|[_\W])id$|Id$|ID$", str(name)) and test[name].is_unique:
            return str(name)
    return ""


def _guessed(
    train: pd.DataFrame, test: pd.DataFrame, wanted: Sequence[str], only_train: Sequence[str], found: Targets
) -> tuple[str, ...]:
    by_name = {PLAIN.sub("", str(name).lower()): str(name) for name in train.columns if name != found.id}
    named = [
        name if name in train.columns else by_name.get(PLAIN.sub("", name.lower()))
        for name in wanted
        if name != found.id
    ]
    if named and all(named):
        return tuple(str(name) for name in named)
    if len(only_train) == 1:
        return (str(only_train[0]),)
    usual = [str(name) for name in only_train if str(name).lower() in USUAL]
    if len(usual) == 1:
        found.doubts.append(f"{usual[0]!r} is taken for the answer because of its name; else set TARGET.")
        return (usual[0],)
    if len(wanted) == 1 and only_train:
        near = difflib.get_close_matches(wanted[0].lower(), [str(name).lower() for name in only_train], 2, 0.7)
        if len(near) == 1:
            name = next(str(each) for each in only_train if str(each).lower() == near[0])
            found.doubts.append(f"{name!r} is taken for the answer, which a submission calls {wanted[0]!r}.")
            return (name,)
    if len(wanted) > 1:
        # One column for each class, of which a single column of the training table tells the right one.
        telling = [str(name) for name in only_train if _classes_of(train[name], wanted)]
        if len(telling) == 1:
            return (telling[0],)
    return ()


def _classes_of(column: Any, wanted: Sequence[str]) -> tuple[Any, ...]:
    """The class that each column of a submission stands for, or nothing when they are no classes of this column."""
    if column.nunique() > 2 * len(wanted) + 2:
        return ()
    values = column.dropna().unique().tolist()
    if len(values) < 2 or len(values) > len(wanted):
        return ()
    by_text: dict[str, Any] = {}
    for value in values:
        by_text[_plain(value)] = value
    plain = [_plain(name) for name in wanted]
    for names in (plain, _without_common(plain)):
        fits = set(by_text) <= set(names) and len(set(names)) == len(names)
        # A class that was never seen has the kind of the others, or the columns are none of theirs.
        if fits and (not _numbers(values) or all(name.lstrip("-").isdigit() for name in names)):
            # A class that the training rows never show has a column too, and no value.
            whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
            return tuple(by_text.get(name, int(name) if whole and name.isdigit() else name) for name in names)
    return ()


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _without_common(names: Sequence[str]) -> list[str]:
    """Names without the beginning that all of them share: "class1", "class2" are 1 and 2."""
    shortest = min(map(len, names))
    start = next((place for place in range(shortest) if len({name[place] for name in names}) > 1), shortest)
    # A class whose own digits are part of what is shared ("class10", "class11") keeps them.
    while start and names[0][start - 1].isdigit():
        start -= 1
    return [name[start:] for name in names]


def _plain(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return PLAIN.sub("", str(value).lower())
