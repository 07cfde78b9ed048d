"""Pictures in files: which row of a table has which file, and reading them to one size."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
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
MOST_FOUND = 0.9
# A column of files has another one in at least this part of the rows.
MOST_SHARED = 0.5


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
        known = _Index(files, "train")
        column = _column(train, known)
        if not column:
            return None
        train_files = _of(train[column], known, column)
    by_name = _Index(files, "test")
    if test is None:
        # The test rows are the files that the sample submission names.
        test = pd.DataFrame({id or "file": list(ids)})
        test_files = _of(test.iloc[:, 0], by_name, str(test.columns[0]))
    else:
        where = column if column in test.columns else _column(test, by_name)
        if not where and len(test):
            raise UsageError(
                f"The column {column!r} of the training table names picture files; no column of the test table does.",
                hint="Set ROW_KIND=table in variables.env to learn from the tables alone.",
            )
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
                found[place] = np.asarray(_levels(image).resize((side, side), Image.Resampling.BILINEAR))
        except (OSError, UnidentifiedImageError, ValueError) as error:
            raise WorkError(
                f"{file} is no picture that can be read: {error}.", hint="Fetch the data again: ./kwb run data."
            ) from None
    return found


def _levels(image: Any) -> Any:
    """A picture in red, green and blue from 0 to 255; deeper grey levels are scaled, not cut off."""
    import numpy as np
    from PIL import Image

    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        values = np.nan_to_num(np.asarray(image).astype("float64"))
        largest = values.max(initial=0)
        top = 255 if largest <= 255 else 65535 if largest <= 65535 else largest
        return Image.fromarray(np.clip(values / top * 255, 0, 255).astype("uint8")).convert("RGB")
    return image.convert("RGB")


def _files(folder: Path) -> list[Path]:
    found = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(here, name) for name in sorted(names) if name.lower().endswith(SUFFIXES)]
    return found


class _Index:
    """Picture files by what a table may call them: a name, with or without ending and folders.

    Args:
        files: All picture files.
        which: "train" or "test": of several files with one name those in a folder named so are meant.
    """

    def __init__(self, files: Sequence[Path], which: str) -> None:
        inside = re.compile(rf"(^|[_\-]){which}(ing)?($|[_\-])", re.IGNORECASE)
        other = re.compile(rf"(^|[_\-]){'test' if which == 'train' else 'train'}", re.IGNORECASE)
        self._named: dict[str, list[tuple[tuple[bool, bool], Path]]] = {}
        for path in files:
            rank = (_below(path, other), not _below(path, inside))
            for key in {path.name, path.stem}:
                self._named.setdefault(key, []).append((rank, path))

    def find(self, value: Any) -> tuple[Path, ...]:
        """The files that a table's value may mean: none, one, or several that nothing tells apart."""
        *folders, name = re.split(r"[/\\]+", str(value))
        found = self._named.get(name, [])
        if len(found) < 2:
            return tuple(path for _, path in found)
        # As many of the value's folders as a file lies in; then the file in the better place.
        order = [(-_shared(path, folders), rank) for rank, path in found]
        return tuple(path for (_, path), each in zip(found, order, strict=True) if each == min(order))


def _shared(path: Path, folders: Sequence[str]) -> int:
    """How many folders a path shares with those given, counted from the file upwards."""
    count = 0
    for ours, theirs in zip(reversed(path.parent.parts), reversed(folders), strict=False):
        if ours != theirs:
            break
        count += 1
    return count


def _below(path: Path, pattern: re.Pattern[str]) -> bool:
    return any(pattern.search(part) for part in path.parent.parts[-3:])


def _column(table: pd.DataFrame, known: _Index) -> str:
    """The column whose values name files; "" when none does."""
    for name in table.columns:
        column = table[name].head(LOOKED_AT)
        # A few classes, numbered, may have the names of a few files by chance.
        if column.dtype.kind == "f" or not len(column) or column.nunique() < min(2, len(column)):
            continue
        if column.nunique() < MOST_SHARED * len(column):
            continue
        # One that is missing is named as such later.
        if sum(bool(known.find(value)) for value in column) >= MOST_FOUND * len(column):
            return str(name)
    return ""


def _of(column: Any, known: _Index, name: str) -> tuple[Path, ...]:
    found = [known.find(value) for value in column]
    missing = [value for value, paths in zip(column, found, strict=True) if not paths]
    if missing:
        raise UsageError(
            f"{plural(len(missing), 'row')} of the column {name!r} name no picture file, such as {missing[0]!r}.",
            hint="Fetch the data again (./kwb run data); they may be incomplete.",
        )
    several = [paths for paths in found if len(paths) > 1]
    if several:
        first, second = several[0][:2]
        raise UsageError(
            f"{plural(len(several), 'row')} of the column {name!r} may mean more than one picture file, such as "
            f"{first.parent.name}/{first.name} and {second.parent.name}/{second.name}.",
            hint="Read them with your own code, or set ROW_KIND=table in variables.env to learn from the table alone.",
        )
    return tuple(paths[0] for paths in found)


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
