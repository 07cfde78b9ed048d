"""Pictures in files: which row of a table has which file, and reading them to one size."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.show import plural

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp")
# Larger pictures are made so small for the baseline.
MOST_SIDE = 64
# Rows whose file must be found for a column to be one of files.
LOOKED_AT = 200


@dataclass(frozen=True)
class Images:
    """Which picture file belongs to which row.

    Attributes:
        train: A file for each row of the training table.
        test: A file for each row of the test table.
        column: Column of the tables that names the files; "" when folders do.
        side: Width and height in pixels to which they are read.
    """

    train: tuple[Path, ...]
    test: tuple[Path, ...]
    column: str
    side: int


def find_images(
    folder: Path, train: pd.DataFrame | None, test: pd.DataFrame | None, ids: Sequence[str], id: str
) -> tuple[Images, pd.DataFrame, pd.DataFrame] | None:
    """Find the picture files of a competition.

    Args:
        folder: Its data.
        train: Training table, if there is one; else folders named by class are looked for.
        test: Test table, if there is one.
        ids: The sample submission's ids, in order.
        id: Name of its id column.

    Returns:
        The files, and the tables they belong to (made from files and folders where there was none); None when the
        rows are no pictures.
    """
    import pandas as pd

    files = _files(folder)
    if not files:
        return None
    if train is None:
        train_files = _in_classes(folder, files)
        if not train_files:
            return None
        column = ""
        # Two classes may have files of one name.
        names = [f"{path.parent.name}/{path.name}" for path in train_files]
        train = pd.DataFrame({"file": names, "class": [path.parent.name for path in train_files]})
    else:
        column = _column(train, _named(files, "train"))
        if not column:
            return None
        train_files = _of(train[column], _named(files, "train"), column)
    by_name = _named(files, "test")
    if test is None:
        # The test rows are the files that the sample submission names.
        test = pd.DataFrame({id or "file": list(ids)})
        test_files = _of(test.iloc[:, 0], by_name, str(test.columns[0]))
    else:
        where = column if column in test.columns else _column(test, by_name)
        test_files = _of(test[where], by_name, where) if where else ()
    return Images(train_files, test_files, column, _side(train_files)), train, test


def read_images(files: Sequence[Path], side: int) -> Any:
    """Pictures as numbers: (files, side, side, 3), red, green and blue from 0 to 255 as uint8.

    Raises:
        WorkError: A file is no picture that can be read.
    """
    import numpy as np
    from PIL import Image, UnidentifiedImageError

    found = np.empty((len(files), side, side, 3), "uint8")
    for place, file in enumerate(files):
        try:
            with Image.open(file) as image:
                # Lets a large JPEG be read at a fraction of its size.
                image.draft("RGB", (side, side))
                found[place] = np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR))
        except (OSError, UnidentifiedImageError, ValueError) as error:
            raise WorkError(
                f"{file} is no picture that can be read: {error}.", hint="Fetch the data again: ./kwb run data."
            ) from None
    return found


def _files(folder: Path) -> list[Path]:
    found = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(here, name) for name in sorted(names) if name.lower().endswith(SUFFIXES)]
    return found


def _named(files: Sequence[Path], which: str) -> Mapping[str, Path]:
    """Files by name and by name without ending; those in a folder named so come first."""
    inside = re.compile(rf"(^|[_\-]){which}(ing)?($|[_\-])", re.IGNORECASE)
    other = re.compile(rf"(^|[_\-]){'test' if which == 'train' else 'train'}", re.IGNORECASE)
    known: dict[str, Path] = {}
    order = sorted(files, key=lambda path: (_below(path, other), not _below(path, inside)))
    for path in order:
        for key in (path.name, path.stem):
            known.setdefault(key, path)
    return known


def _below(path: Path, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(part) for part in path.parent.parts[-3:])


def _column(table: pd.DataFrame, known: Mapping[str, Path]) -> str:
    """The column whose values name files; "" when none does."""
    for name in table.columns:
        column = table[name]
        if column.dtype.kind == "f" or not len(column):
            continue
        values = [Path(str(value)).name for value in column.head(LOOKED_AT)]
        if column.head(LOOKED_AT).nunique() >= min(len(values), 2) and all(value in known for value in values):
            return str(name)
    return ""


def _of(column: Any, known: Mapping[str, Path], name: str) -> tuple[Path, ...]:
    found = [known.get(Path(str(value)).name) for value in column]
    missing = [value for value, path in zip(column, found, strict=True) if path is None]
    if missing:
        raise UsageError(
            f"{plural(len(missing), 'row')} of the column {name!r} name no picture file, such as {missing[0]!r}.",
            hint="Fetch the data again (./kwb run data); they may be incomplete.",
        )
    return tuple(path for path in found if path is not None)


def _in_classes(folder: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    """Files that lie as train/<class>/<file>; none when they do not."""
    found = tuple(path for path in files if "train" in [part.lower() for part in path.relative_to(folder).parts[:-2]])
    return found if len({path.parent.name for path in found}) > 1 else ()


def _side(files: Sequence[Path]) -> int:
    from PIL import Image

    largest = 0
    for path in files[:20]:
        try:
            with Image.open(path) as image:
                largest = max(largest, *image.size)
        except OSError:
            continue
    return min(MOST_SIDE, largest) if largest else MOST_SIDE
