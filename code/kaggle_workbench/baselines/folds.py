"""Which rows are held back: a hold-out or folds, honest about classes, groups and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kaggle_workbench.baselines.data import Data
from kaggle_workbench.competition.reading.dates import moments
from kaggle_workbench.errors import UsageError
from kaggle_workbench.show import plural

TABLE_FOLDS = 5
HELD_BACK = 0.1
LEAST_ROWS = 4
# Amounts are split so that each fold has as many small and large ones.
BINS = 10

Fold = tuple[Any, Any]


@dataclass(frozen=True)
class Folds:
    """Pairs of row numbers: to train on, and held back.

    Attributes:
        pairs: (train_rows, dev_rows) for each fold.
        method: In words, for the record and the reader.
    """

    pairs: tuple[Fold, ...]
    method: str

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> Fold:
        return self.pairs[number]


def make_folds(data: Data, *, seed: int, count: int | None = None) -> Folds:
    """Split the training rows.

    Args:
        data: The competition; its `group` keeps rows together, its `time` splits from past to future.
        seed: Start of the randomness.
        count: How many folds; by default five for tables, and a tenth held back once for pictures.

    Raises:
        UsageError: Too few rows or groups for so many folds.
    """
    import numpy as np

    if len(data.train) < LEAST_ROWS:
        raise UsageError(
            f"{data.name} has {plural(len(data.train), 'training row')}, too few to hold some back.",
            hint="Is it the right file? TRAIN_FILE in variables.env names another; or fetch the data again.",
        )
    if count is None and data.kind != "table" and not data.group and not data.time:
        return _hold_out(data, seed)
    count = count or TABLE_FOLDS
    rows = np.arange(len(data.train))
    if len(rows) < 2 * count:
        raise UsageError(
            f"{plural(len(rows), 'training row')} are too few for {count} folds.",
            hint="Set FOLDS to a smaller number in variables.env.",
        )
    if data.time:
        return _by_time(data, count)
    if data.group:
        return _by_group(data, count, seed)
    return _shuffled(data, count, seed)


def _hold_out(data: Data, seed: int) -> Folds:
    import numpy as np
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(data.train))
    if data.answers.kind != "classes":
        train_rows, dev_rows = train_test_split(rows, test_size=HELD_BACK, random_state=seed)
        return Folds(((train_rows, dev_rows),), "hold-out")
    labels = data.answers.values
    single = np.bincount(labels)[labels] == 1  # the only row of its class: to learn from
    several = rows[~single]
    classes = len(np.unique(labels[several]))
    # With fewer rows held back than classes not each of them can be among them.
    alike = labels[several] if min(np.ceil(len(several) * HELD_BACK), len(several) * 0.9) >= classes else None
    train_rows, dev_rows = train_test_split(several, test_size=HELD_BACK, stratify=alike, random_state=seed)
    return Folds(((np.append(train_rows, rows[single]), dev_rows),), "hold-out")


def _shuffled(data: Data, count: int, seed: int) -> Folds:
    import numpy as np
    from sklearn.model_selection import KFold, StratifiedKFold

    rows, strata = np.arange(len(data.train)), _strata(data)
    if strata is None:
        pairs = list(KFold(count, shuffle=True, random_state=seed).split(rows))
        return Folds(tuple(pairs), f"{count} folds")
    # A class with fewer rows than folds cannot be in each of them; its rows are shared out as they come.
    strata = np.where(np.bincount(strata)[strata] >= count, strata, strata.max() + 1)
    if np.bincount(strata)[-1] < count:
        rare = np.flatnonzero(strata == strata.max())
        common = np.flatnonzero(strata != strata.max())
        split = StratifiedKFold(count, shuffle=True, random_state=seed).split(common, strata[common])
        pairs = [(np.append(common[train], rare), common[dev]) for train, dev in split]
        return Folds(tuple(pairs), f"{count} folds, each class alike")
    pairs = list(StratifiedKFold(count, shuffle=True, random_state=seed).split(rows, strata))
    alike = "each class alike" if data.answers.kind == "classes" else "small and large alike"
    return Folds(tuple(pairs), f"{count} folds, {alike}")


def _strata(data: Data) -> Any:
    """A number for each row such that folds should have as many of each; None when there is none."""
    import numpy as np

    values: Any = data.answers.values
    if data.answers.kind == "classes":
        return values
    if values.shape[1] > 1 or len(values) < 20 * BINS:
        return None
    edges = np.quantile(values[:, 0], np.linspace(0, 1, BINS + 1)[1:-1])
    return np.searchsorted(edges, values[:, 0])


def _by_group(data: Data, count: int, seed: int) -> Folds:
    import numpy as np
    import pandas as pd
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    # A row without a group is one of its own.
    codes = pd.factorize(data.train[data.group])[0]
    codes = np.where(codes < 0, codes.max() + 1 + np.arange(len(codes)), codes)
    groups = len(np.unique(codes))
    if groups < count:
        raise UsageError(
            f"The column {data.group!r} has {plural(groups, 'group')}, too few for {count} folds.",
            hint="Set FOLDS to a smaller number, or GROUP_COLUMN=none, in variables.env.",
        )
    rows, strata = np.arange(len(codes)), _strata(data)
    if strata is not None and np.bincount(strata).min() >= count:
        pairs = list(StratifiedGroupKFold(count, shuffle=True, random_state=seed).split(rows, strata, codes))
    else:
        # Its shuffling is newer than the scikit-learn of some images; groups are balanced by their sizes anyway.
        pairs = list(GroupKFold(count).split(rows, groups=codes))
    return Folds(tuple(pairs), f"{count} folds by {data.group}")


def _by_time(data: Data, count: int) -> Folds:
    import numpy as np

    others = [data.test[data.time]] if data.time in data.test.columns else []
    when = moments(data.train[data.time], *others)
    if when is None:
        raise UsageError(
            f"The column {data.time!r} holds neither dates nor numbers, so it cannot tell the time.",
            hint="Correct TIME_COLUMN in variables.env, or set it to none.",
        )
    when = when.to_numpy(dtype="float64", na_value=np.nan)
    order = np.argsort(when, kind="stable")
    # Rows of one moment stay together, and the first part is never held back.
    edges = [int(edge) for edge in np.linspace(0, len(order), count + 2)[1:-1]]
    starts = sorted({int(np.searchsorted(when[order], when[order][edge], side="left")) for edge in edges} - {0})
    if not starts:
        raise UsageError(
            f"The column {data.time!r} has too few different moments to split by.",
            hint="Set TIME_COLUMN=none in variables.env to split at random.",
        )
    ends = [*starts[1:], len(order)]
    pairs = tuple((order[:start], order[start:end]) for start, end in zip(starts, ends, strict=True))
    return Folds(pairs, f"{len(pairs)} folds from past to future by {data.time}")
