"""What kind of problem a competition is, read from its files: what is given, what is asked, how it is scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.competition.reading.asked import Asked, find_asked
from kaggle_workbench.competition.reading.columns import Columns, is_free_text, read_columns
from kaggle_workbench.competition.reading.images import Images, find_images, read_images
from kaggle_workbench.competition.reading.layout import Layout, find_layout
from kaggle_workbench.competition.reading.overrides import Overrides
from kaggle_workbench.competition.reading.pixels import side_of
from kaggle_workbench.competition.reading.targets import Targets, find_targets, no_target
from kaggle_workbench.competition.reading.text import restore_words
from kaggle_workbench.competition.reading.whole import join_labels, require_whole
from kaggle_workbench.competition.sample import Sample, find_sample, read_sample
from kaggle_workbench.competition.tables import read_table
from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics import Metric
from kaggle_workbench.show import plural

if TYPE_CHECKING:
    import pandas as pd

# How the rows are given, in words.
KINDS: Mapping[str, str] = {
    "pixels": "pictures, one a row of the table",
    "images": "pictures in files",
    "table": "rows of a table",
    "text": "text",
    "other": "neither tables nor pictures that are known here",
}


@dataclass(frozen=True)
class Problem:
    """A competition's tables and what they ask for.

    Attributes:
        name: Slug.
        folder: Where the files are.
        train: Training table; rows without an answer are left out.
        test: Test table.
        sample_file: The sample submission; None when there is none.
        id: Name of the id column in a submission; "" when there is none.
        targets: Columns of the training table to predict; empty when they are not plain.
        features: Columns to learn from, which both tables have.
        kind: How the rows are given: "pixels", "images", "table", "text" or "other" (see `KINDS`).
        task: "binary", "classes", "regression", "several", or "" when it is not plain.
        wants: What a submission's cells hold: "labels", "probabilities", "values" or "ranking".
        metric: What cross-validation measures; None when nothing is to be predicted.
        stands_in: Whether the competition's own metric is not known, and `metric` is measured in its place.
        by_class: For each column of a submission, the class whose probability it takes; else empty.
        group: Column whose rows must not be split between training and test.
        time: Column by which the split goes from past to future.
        dropped: Columns that are not learnt from, each with the reason.
        doubts: Sentences about guesses that may be wrong, and how to say it better.
        side: Width and height of a picture in pixels when the rows are pictures; else 0.
        images: Picture files of the rows, when they are pictures in files.
    """

    name: str
    folder: Path
    train: pd.DataFrame
    test: pd.DataFrame
    sample_file: Path | None
    id: str
    targets: tuple[str, ...]
    features: tuple[str, ...]
    kind: str
    task: str = ""
    wants: str = "labels"
    metric: Metric | None = None
    stands_in: bool = False
    by_class: tuple[Any, ...] = ()
    group: str | None = None
    time: str | None = None
    dropped: Mapping[str, str] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    side: int = 0
    images: Images | None = None

    @property
    def target(self) -> str | None:
        """The column to predict; None when there are several, or it is not plain."""
        return self.targets[0] if len(self.targets) == 1 else None

    @property
    def labels(self) -> Any:
        """The training rows' answers as the training table holds them: (rows,), or (rows, targets) for several.

        Raises:
            UsageError: What is to be predicted is not plain.
        """
        if not self.targets:
            raise no_target(self.name, self.train, self.test, self.doubts)
        return self.train[self.target if self.target is not None else list(self.targets)].to_numpy()

    @property
    def classes(self) -> tuple[Any, ...]:
        """The different answers, sorted; empty when the answers are no classes."""
        if self.target is None or self.task not in ("binary", "classes"):
            return ()
        found = self.train[self.target].dropna().unique().tolist()
        return tuple(sorted({*found, *self.by_class}, key=_sortable))

    def pictures(self, table: str = "train") -> Any:
        """Each row as a picture, grey or colour levels from 0 to 255 as uint8.

        Args:
            table: "train" or "test".

        Returns:
            (rows, side, side), or (rows, side, side, 3) when the pictures are files.

        Raises:
            UsageError: The rows are no pictures.
        """
        if self.images is not None:
            files = self.images.train if table == "train" else self.images.test
            return read_images(files, self.images.side)
        if not self.side:
            raise UsageError(
                f"The rows of {self.name} are no pictures.", hint="If they are, say it: ROW_KIND in variables.env."
            )
        rows = (self.train if table == "train" else self.test)[list(self.features)]
        return rows.to_numpy().astype("uint8").reshape(-1, self.side, self.side)


def read_problem(
    name: str, folder: Path, *, home: Path | None = None, metric: str = "", overrides: Overrides | None = None
) -> Problem:
    """Read a competition's files.

    Args:
        name: Slug, for messages.
        folder: Where its files are.
        home: Folder for binary copies of large tables; None: none are kept.
        metric: The metric as Kaggle names it; "" when it is not known.
        overrides: What the user said; by default everything is guessed.

    Raises:
        UsageError: It has no training or test rows that can be read; or a column the user named is not there.
        WorkError: A file is damaged.
    """
    overrides = overrides or Overrides()
    layout = find_layout(name, folder, overrides)
    sample_file = find_sample(folder)
    sample = read_sample(sample_file) if sample_file is not None else None
    train = _read(layout.train, home)
    if train is not None and not len(train):
        raise UsageError(
            f"{layout.train} has a header and no rows: there is nothing to learn from.",
            hint="Fetch the data again: ./kwb run data; or name another file: TRAIN_FILE=NAME in variables.env.",
        )
    words: list[str] = []
    own = list(train.columns) if train is not None else []
    if train is not None and layout.labels is not None:
        labels = read_table(layout.labels, home=home)
        labels, words = restore_words(labels, [name for name in labels.columns if name not in own], layout.labels)
        train = join_labels(train, layout.train, labels, layout.labels)
    test = _read(layout.test, home)
    images = None
    few = train is None or test is None or len(train.columns) + len(test.columns) < 20
    if overrides.rows == "images" or (few and overrides.rows is None):
        ids = list(sample.positions) if sample is not None else []
        found = find_images(folder, train, test, ids, sample.id if sample is not None else "")
        if found is not None:
            images, train, test = found
        elif overrides.rows == "images":
            raise UsageError(
                f"ROW_KIND is images, and no column of {name}'s tables names the picture files in its folder.",
                hint="Correct ROW_KIND in variables.env, or take it out; the files are in " + str(folder) + ".",
            )
    if train is None or test is None:
        raise _no_tables(name, folder, layout, "train" if train is None else "test")
    targets = find_targets(train, test, sample, overrides)
    if layout.train is not None and images is None:
        train, more = restore_words(train, [name for name in targets.columns if name in own], layout.train)
        words += more
    asked = find_asked(train, targets.columns, sample, metric, overrides, by_class=bool(targets.by_class))
    train, doubts = _with_answers(train, targets, images)
    if images is not None and len(images.train) != len(train):
        images = replace(images, train=tuple(images.train[row] for row in train.index))
    doubts += _of_the_sample(sample, test)
    problem = Problem(
        name=name,
        folder=folder,
        train=train,
        test=test,
        sample_file=sample_file,
        id=targets.id,
        targets=targets.columns,
        features=(),
        kind="other",
        task=asked.task,
        wants=asked.wants,
        metric=asked.metric,
        stands_in=asked.stands_in,
        by_class=targets.by_class,
        images=images,
        doubts=(*targets.doubts, *words, *asked.doubts, *doubts),
    )
    return _with_columns(problem, overrides, asked, targets)


def with_columns(problem: Problem, train: pd.DataFrame, test: pd.DataFrame) -> Problem:
    """The same problem with columns that a person made; those that were taken out are not learnt from.

    Args:
        problem: As it was read.
        train: Its training table with more columns.
        test: Its test table with the same ones.

    Raises:
        UsageError: A column was added to or taken out of one of them only, rows were lost or added, or a picture's
            columns changed.
    """
    if len(train) != len(problem.train) or len(test) != len(problem.test):
        raise UsageError(
            f"After your change there are {len(train):,} training and {len(test):,} test rows, where there were "
            f"{len(problem.train):,} and {len(problem.test):,}.",
            hint="Add and change columns; leave the rows and their order as they are.",
        )
    new = [name for name in train.columns if name not in problem.train.columns]
    alone = [name for name in new if name not in test.columns]
    if alone:
        raise UsageError(
            f"The new column {alone[0]!r} is in the training table only.",
            hint="Make it from columns that both tables have; the answers of the test rows are not known.",
        )
    lost = _taken_out(problem, train, test)
    if problem.kind in ("pixels", "images"):
        # What is learnt from is the pictures: columns beside them are the user's own business.
        return replace(problem, train=train, test=test)
    added = (str(name) for name in new if name not in problem.targets)
    features = (*(name for name in problem.features if name not in lost), *added)
    # Where no column could be learnt from (text alone), these can.
    kind = "table" if features and problem.task else problem.kind
    return replace(problem, train=train, test=test, features=features, kind=kind)


def _taken_out(problem: Problem, train: pd.DataFrame, test: pd.DataFrame) -> set[str]:
    """The features that a person took out of both tables.

    Raises:
        UsageError: One that is needed was taken out.
    """
    needed = [name for name in (*problem.targets, problem.group, problem.time) if name and name not in train.columns]
    needed += [problem.id] if problem.id in problem.test.columns and problem.id not in test.columns else []
    if needed:
        raise UsageError(
            f"Your change takes out the column {needed[0]!r}, which is needed.",
            hint="Leave it in: answers and ids are not learnt from; GROUP_COLUMN and TIME_COLUMN can be none.",
        )
    out = {name for name in problem.features if name not in train.columns or name not in test.columns}
    half = [name for name in problem.features if (name in train.columns) != (name in test.columns)]
    if half or (out and problem.kind == "pixels"):
        name = half[0] if half else min(out)
        raise UsageError(
            f"Your change takes out the column {name!r}{', from one of the two tables' if half else ', a pixel'}.",
            hint="Take a column out of both tables, or name it in DROP_COLUMNS."
            if half
            else "Change pictures in preprocess, or set ROW_KIND=table to learn from single columns.",
        )
    return out


def _read(path: Path | None, home: Path | None) -> pd.DataFrame | None:
    if path is None:
        return None
    table = read_table(path, home=home)
    require_whole(table, path)
    return table


def _with_answers(train: pd.DataFrame, targets: Targets, images: Images | None) -> tuple[pd.DataFrame, list[str]]:
    """The training rows whose answer is known, with whole answers as whole numbers."""
    if not targets.columns:
        return train, []
    doubts = []
    missing = train[list(targets.columns)].isna().any(axis=1)
    if missing.any():
        train = train[~missing]
        if images is None:
            train = train.reset_index(drop=True)
        doubts.append(f"{plural(int(missing.sum()), 'training row')} without an answer: left out.")
        if not len(train):
            raise UsageError(
                f"No training row has an answer in {', '.join(targets.columns)}.",
                hint="Say which column is to be predicted: TARGET=NAME in variables.env.",
            )
        for name in targets.columns:
            if train[name].dtype.kind == "f" and (train[name] % 1 == 0).all():
                # Beside missing values whole numbers were read as floats: 1.0 is class 1.
                train = train.assign(**{name: train[name].astype("int64")})
    return train, doubts


def _of_the_sample(sample: Sample | None, test: pd.DataFrame) -> list[str]:
    if not len(test):
        return [
            "The test table has no rows: this may be a code competition, whose test rows Kaggle keeps to itself. "
            "A model can be trained here; the submission is made by a notebook there."
        ]
    if sample is None:
        return [
            "There is no sample submission, so the form of a submission is not known. "
            "With ID_COLUMN and TARGET in variables.env one is written as these two columns."
        ]
    if sample.rows != len(test):
        return [
            f"The sample submission has {plural(sample.rows, 'row')} and the test table {len(test):,}: a prediction is "
            "not one row of the test table, so the form of a submission is left to you."
        ]
    return []


def _with_columns(problem: Problem, overrides: Overrides, asked: Asked, targets: Targets) -> Problem:
    """The problem with what its columns are for."""
    train, test = problem.train, problem.test
    shared = [str(name) for name in test.columns if name in train.columns]
    features = tuple(name for name in shared if name != targets.id and name not in targets.columns)
    if problem.images is not None:
        kind = "images" if asked.task else "other"
        return replace(problem, features=(), kind=kind, side=problem.images.side)
    if overrides.rows == "pixels" or (overrides.rows is None and not overrides.drop):
        pixels = tuple(name for name in features if name not in overrides.drop)
        side = side_of(train, test, pixels, said=overrides.rows is not None)
        if side:
            return replace(problem, features=pixels, kind="pixels", side=side)
        if overrides.rows == "pixels":
            raise UsageError(
                f"ROW_KIND is pixels, and the {len(pixels):,} columns to learn from are no square of whole numbers "
                "from 0 to 255.",
                hint="Leave other columns out by DROP_COLUMNS, or correct ROW_KIND; both in variables.env.",
            )
    classes = asked.task in ("binary", "classes")
    found: Columns = read_columns(train, test, features, targets.columns, overrides, classes=classes)
    kept = tuple(name for name in features if name not in found.dropped)
    texts = [name for name in features if "free text" in found.dropped.get(name, "")]
    kind = "table" if kept else "text" if texts and is_free_text(train[texts[0]]) else "other"
    if problem.targets and not asked.task:
        kind = "other"
    return replace(
        problem,
        features=kept,
        kind=kind,
        group=found.group,
        time=found.time,
        dropped=found.dropped,
        doubts=(*problem.doubts, *found.doubts),
    )


def _no_tables(name: str, folder: Path, layout: Layout, which: str) -> UsageError:
    setting = f"{which.upper()}_FILE"
    others = ", ".join(path.name for path in layout.others[:12])
    seen = f"Its tables: {others}. Say which one it is: {setting}=NAME in variables.env." if others else ""
    endings = Counter(path.suffix.lower() for path in folder.rglob("*") if path.is_file() and path.suffix)
    kinds = ", ".join(f"{count:,} {ending}" for ending, count in endings.most_common(5))
    held = f" It holds files of these kinds: {kinds}." if kinds else ""
    return UsageError(
        f"{name} has no {which}.csv, so its files cannot be read as one table of {which} rows.{held}",
        hint=seen or f"Read them with your own code; they are in {folder}.",
    )


def _sortable(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value
