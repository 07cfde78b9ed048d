"""Binary copies of tables: read once as text, later mapped into memory within milliseconds.

A copy lies in our own hidden folder of INPUT_DIR, never among the raw files, and belongs to one
state of its source, told by size, time and SHA-256. It is checked (CRC-32) each time it is read;
one that is damaged, or whose source has changed, is made anew. Without room or permission to write
there is none, and nothing else changes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.files import sha256, write_json

if TYPE_CHECKING:
    import pandas as pd

HEAD_FILE = "head.json"
VERSION = 1
# A smaller table is read as fast from its text.
LEAST_BYTES = 1_000_000
# A draft that nothing was added to for so long belongs to no living process.
LEFT_BEHIND_S = 24 * 3600.0


def read_copy(source: Path, home: Path) -> pd.DataFrame | None:
    """The table that `source` holds, from its copy; None when there is none that is whole and of this state.

    Args:
        source: The raw file.
        home: Folder of the copies.
    """
    folder = home / source.name
    try:
        head = json.loads((folder / HEAD_FILE).read_bytes())
        if head["version"] != VERSION or not _is_of(head, source, folder):
            return None
        return _table(folder, head)
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Draft:
    """A copy being made: blocks are added, then `save` puts it in its place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blocks: list[dict[str, Any]] = []
        self._files = 0

    @contextmanager
    def block(self, columns: list[int], *, form: str = "numbers") -> Iterator[Callable[[Any], None]]:
        """A block of columns of one type; call what you get with arrays of rows, one after the other.

        Args:
            columns: Positions of the columns.
            form: "numbers", or "bytes" and "ends" for the two halves of a text column.
        """
        name, crc, rows, kind = f"{self._files}.bin", 0, 0, ""
        self._files += 1
        with (self.folder / name).open("wb") as file:

            def take(array: Any) -> None:
                nonlocal crc, rows, kind
                data = memoryview(array.reshape(-1)).cast("B") if array.size else b""
                file.write(data)
                crc, rows, kind = zlib.crc32(data, crc), rows + len(array), str(array.dtype)

            yield take
        self.blocks.append({"columns": columns, "form": form, "file": name, "rows": rows, "dtype": kind, "crc32": crc})

    def forget(self) -> None:
        """Begin anew."""
        self.blocks.clear()


@contextmanager
def drafted(source: Path, home: Path) -> Iterator[Draft | None]:
    """Make a copy of `source`: fill the draft inside the block, then call `save`; None where none can be kept."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        _sweep(source, home)
        folder = Path(tempfile.mkdtemp(prefix=f".{source.name}.", dir=home))
    except OSError:
        yield None
        return
    try:
        yield Draft(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def save(draft: Draft, source: Path, home: Path, state: Mapping[str, Any], names: list[str]) -> bool:
    """Put a finished draft in its place; whether that was possible.

    Args:
        draft: The draft.
        source: The raw file.
        home: Folder of the copies.
        state: `state_of(source)` from before it was read; a file that changed meanwhile gets no copy.
        names: Names of all columns.
    """
    if _stat(source) != {name: state[name] for name in ("size", "mtime_ns")}:
        return False
    head = {"version": VERSION, "source": dict(state), "names": names, "blocks": draft.blocks}
    target = home / source.name
    try:
        write_json(draft.folder / HEAD_FILE, head)
        # A temporary folder is its owner's alone; a copy is as open as the folder it lies in.
        draft.folder.chmod(home.stat().st_mode & 0o777)
        _remove(target)
        draft.folder.rename(target)
    except OSError:
        # Another process was faster, or the disk is full: its copy or none is as good.
        return False
    return True


def state_of(source: Path) -> dict[str, Any]:
    """Size in bytes, time of the last change in ns, and SHA-256 of a file."""
    return {**_stat(source), "sha256": sha256(source)}


def add_frame(draft: Draft, table: pd.DataFrame) -> bool:
    """Add all columns of a table to a draft; False when it holds what a copy cannot hold exactly."""
    import numpy as np

    by_kind: dict[str, list[int]] = {}
    for position, kind in enumerate(table.dtypes):
        by_kind.setdefault(str(kind), []).append(position)
    for kind, columns in by_kind.items():
        if kind in ("str", "string"):
            for column in columns:
                _add_text(draft, column, table.iloc[:, column])
        elif isinstance(table.dtypes.iloc[columns[0]], np.dtype) and table.dtypes.iloc[columns[0]].kind in "biuf":
            with draft.block(columns) as take:
                take(np.ascontiguousarray(table.iloc[:, columns].to_numpy()))
        else:
            return False
    return True


def _add_text(draft: Draft, column: int, values: Any) -> None:
    import numpy as np

    encoded = [None if value is None or value != value else str(value).encode() for value in values]
    ends = np.cumsum([len(value or b"") for value in encoded], dtype=np.int64)
    # A missing text is marked by the complement of its end.
    ends = np.where([value is None for value in encoded], ~ends, ends) if len(ends) else ends
    with draft.block([column], form="bytes") as take:
        take(np.frombuffer(b"".join(value or b"" for value in encoded), np.uint8))
    with draft.block([column], form="ends") as take:
        take(ends)


def _table(folder: Path, head: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    parts: dict[int, pd.DataFrame] = {}
    texts: dict[int, Any] = {}
    for block in head["blocks"]:
        array, columns = _array(folder, block), block["columns"]
        if block["form"] == "bytes":
            texts[columns[0]] = array
        elif block["form"] == "ends":
            values = pd.Series(_texts(texts[columns[0]], array), dtype="str")
            parts[columns[0]] = pd.DataFrame({columns[0]: values})
        elif columns:
            parts[columns[0]] = pd.DataFrame(array, columns=columns, copy=False)
    table = (
        pd.concat([parts[first] for first in sorted(parts)], axis=1) if len(parts) > 1 else next(iter(parts.values()))
    )
    if list(table.columns) != sorted(table.columns):
        table = table[sorted(table.columns)]
    table.columns = pd.Index(head["names"])
    return table


def _array(folder: Path, block: Mapping[str, Any]) -> Any:
    import numpy as np

    file, kind = folder / block["file"], np.dtype(block["dtype"] or "uint8")
    width = len(block["columns"]) if block["form"] == "numbers" else 1
    shape = (block["rows"], width) if block["form"] == "numbers" else (block["rows"],)
    if file.stat().st_size != block["rows"] * width * kind.itemsize:
        raise ValueError("a file of another size")
    if not block["rows"] * width:
        return np.empty(shape, kind)
    # Writes go into memory only, so that a table from a copy can be changed like any other.
    array = np.memmap(file, kind, mode="c", shape=shape)
    if zlib.crc32(array.reshape(-1).view(np.uint8).data) != block["crc32"]:
        raise ValueError("a damaged file")
    return array


def _texts(data: Any, ends: Any) -> list[str | None]:
    raw, found, start = data.tobytes(), [], 0
    for end in ends.tolist():
        stop = end if end >= 0 else ~end
        found.append(raw[start:stop].decode() if end >= 0 else None)
        start = stop
    return found


def _is_of(head: Mapping[str, Any], source: Path, folder: Path) -> bool:
    now, then = _stat(source), head["source"]
    if now["size"] != then["size"]:
        return False
    if now["mtime_ns"] == then["mtime_ns"]:
        return True
    if sha256(source) != then["sha256"]:
        return False
    # Touched, copied or unpacked again, and still the same: noted, so that it is not hashed each time.
    with suppress(OSError):
        write_json(folder / HEAD_FILE, {**head, "source": {**then, **now}})
    return True


def _stat(source: Path) -> dict[str, int]:
    found = source.stat()
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}


def _remove(folder: Path) -> None:
    """Take a copy away in one step, so that nobody meets half of it."""
    if not folder.exists():
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    try:
        folder.replace(old)
    finally:
        # Also when another process took the copy away first: its place for it must not stay behind.
        shutil.rmtree(old, ignore_errors=True)


def _sweep(source: Path, home: Path) -> None:
    """Remove what processes that were killed left behind."""
    for folder in home.glob(f".{source.name}.*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > LEFT_BEHIND_S:
                shutil.rmtree(folder, ignore_errors=True)
