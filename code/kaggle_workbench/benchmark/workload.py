"""The published workload: 28x28 digits, the reference CNN, 20 epochs at batch 64.

The rows are those of Kaggle's Digit Recognizer: 42,000, a tenth held back. Where Kaggle's own files
are not here, the practice digits that ship with the project are repeated to as many rows: the
arithmetic is the same and so is the time; only the accuracy is of fewer different pictures.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from kaggle_workbench.competition.folders import find_data
from kaggle_workbench.errors import MissingError, UsageError, WorkError
from kaggle_workbench.settings import Settings

SLUG = "digit-recognizer"
SIDE = 28
CLASSES = 10
TRAIN_FILE = "train.csv"
PRACTICE_ZIP = Path("data") / "practice" / SLUG / "files.zip"


@dataclass(frozen=True)
class Workload:
    """How much is computed.

    Attributes:
        train_rows: Pictures trained on in an epoch.
        dev_rows: Pictures the network is tried on after each epoch.
        epochs: Passes over the training pictures.
        batch_size: Pictures in a step.
        seed: Start of the split and of the weights.
    """

    train_rows: int = 37_800
    dev_rows: int = 4_200
    epochs: int = 20
    batch_size: int = 64
    seed: int = 0

    @property
    def is_published(self) -> bool:
        """Whether it is the whole workload, whose time stands beside the published ones."""
        return self == Workload()

    @property
    def steps(self) -> int:
        """Steps in an epoch; the last one may have fewer pictures."""
        return -(-self.train_rows // self.batch_size)

    def to_dict(self) -> dict[str, int]:
        """All fields as plain values."""
        return asdict(self)


def other_workload(*, epochs: int | None = None, rows: int | None = None) -> Workload:
    """The published workload, or one of other size, for tests and for checking a projection.

    Args:
        epochs: Other number of epochs.
        rows: Other number of training rows; a ninth as many are held back.

    Raises:
        UsageError: A size below 1, or too few rows for two steps.
    """
    workload = Workload()
    if epochs is not None:
        workload = replace(workload, epochs=epochs)
    if rows is not None:
        workload = replace(workload, train_rows=rows, dev_rows=max(1, rows // 9))
    if workload.epochs < 1 or workload.train_rows <= workload.batch_size:
        raise UsageError(
            "There is nothing to measure in that size.",
            hint=f"Take at least 1 epoch and more than {workload.batch_size} rows.",
        )
    return workload


@dataclass(frozen=True)
class Source:
    """Where the pictures come from.

    Attributes:
        kind: "kaggle" or "practice".
        file: A `train.csv`, or the zip archive that holds it.
    """

    kind: str
    file: Path

    @property
    def title(self) -> str:
        """For people and for the result; never a path."""
        return "Kaggle's Digit Recognizer" if self.kind == "kaggle" else "practice digits"


@dataclass(frozen=True)
class Digits:
    """Pictures and labels, ready for the network.

    Attributes:
        train: Scaled pictures (rows, 28, 28, 1) as float32, and their classes (rows,).
        dev: The same for the rows held back.
        different_train: How many of the training pictures are different rows of the source.
        different_dev: The same for the rows held back.
    """

    train: tuple[Any, Any]
    dev: tuple[Any, Any]
    different_train: int
    different_dev: int


def find_digits(settings: Settings) -> Source:
    """Kaggle's files when they lie in an input folder, else the practice digits of the project.

    Raises:
        MissingError: Neither is here.
    """
    try:
        folder = find_data(replace(settings, competition=SLUG), "kaggle", expected=[TRAIN_FILE])
        return Source("kaggle", folder / TRAIN_FILE)
    except MissingError:
        pass
    practice = settings.root / PRACTICE_ZIP if settings.root else None
    if practice is not None and practice.is_file():
        return Source("practice", practice)
    raise MissingError(
        f"There are no digits to train on: no {SLUG} below {settings.input_dir}"
        + (f", and no {practice}." if practice else ", and no project with practice digits."),
        hint=f"Fetch Kaggle's files (./kwb run data --competition {SLUG}), or run this in a copy of the repository.",
    )


def load_digits(source: Source, workload: Workload) -> Digits:
    """Read, split and scale the pictures as 02-train does: a tenth held back, of each class, by the seed.

    Raises:
        WorkError: The file does not hold digits of 28x28 pixels with a label.
    """
    import numpy as np
    from sklearn.model_selection import train_test_split

    table = _read(source.file)
    labels, pictures = table[:, 0].astype("int64"), table[:, 1:].reshape(-1, SIDE, SIDE)
    train, dev = train_test_split(np.arange(len(labels)), test_size=0.1, stratify=labels, random_state=workload.seed)
    mean, spread = pictures[train].mean(), pictures[train].std()

    def take(rows: Any, count: int) -> tuple[Any, Any]:
        # Repeats the rows in their order, or takes the first ones.
        rows = np.resize(rows, count)
        scaled = pictures[rows].astype("float32")
        # In place: what this takes at its peak should not be what the training takes.
        scaled -= np.float32(mean)
        scaled /= np.float32(spread)
        return scaled[..., np.newaxis], labels[rows]

    return Digits(
        take(train, workload.train_rows),
        take(dev, workload.dev_rows),
        min(len(train), workload.train_rows),
        min(len(dev), workload.dev_rows),
    )


def _read(file: Path) -> Any:
    import numpy as np

    expected = ["label", *(f"pixel{n}" for n in range(SIDE * SIDE))]
    with _opened(file) as stream:
        head = stream.readline().decode("utf-8", "replace").strip().replace('"', "").split(",")
        if head != expected:
            raise WorkError(
                f"{file} does not hold digits: its columns are not label, pixel0 to pixel{SIDE * SIDE - 1}.",
                hint=f"Move it away or fetch it again: ./kwb run data --competition {SLUG}",
            )
        try:
            table = np.loadtxt(stream, delimiter=",", dtype=np.uint8)
        except (ValueError, OverflowError) as error:
            raise WorkError(
                f"{file} is damaged: {error}.", hint=f"Fetch it again: ./kwb run data --competition {SLUG}"
            ) from None
    if table.ndim != 2 or table[:, 0].max(initial=0) >= CLASSES:
        raise WorkError(
            f"{file} does not hold digits: there is no table of rows with labels 0 to {CLASSES - 1}.",
            hint=f"Fetch it again: ./kwb run data --competition {SLUG}",
        )
    return table


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    if file.suffix != ".zip":
        with file.open("rb") as stream:
            yield stream
        return
    try:
        with zipfile.ZipFile(file) as archive, archive.open(TRAIN_FILE) as stream:
            yield stream
    except (zipfile.BadZipFile, KeyError) as error:
        raise WorkError(f"{file} is damaged: {error}.", hint="Restore it: git checkout data/practice") from None
