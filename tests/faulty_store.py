"""Stores that misbehave, as fsspec file systems of their own: `faulty://...` and `hanging://...`.

`faulty` is in memory and fails every other write; `hanging` never answers. Both are known to fsspec in processes
that have `install(folder)`'s folder on PYTHONPATH, as a plugin is.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any, ClassVar

from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem


class Faulty(MemoryFileSystem):
    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    down: ClassVar[bool] = False
    _count = itertools.count()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.replace("faulty://", "memory://"))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        if self.down or next(self._count) % 2 == 0:
            raise OSError("503 slow down, key=hunter2secret")
        super().pipe_file(path, value, mode=mode)


class Hanging(MemoryFileSystem):
    protocol = "hanging"

    def __getattribute__(self, name: str) -> Any:
        if name in ("pipe_file", "cat_file", "find", "info", "makedirs", "ls"):
            return lambda *_, **__: threading.Event().wait()
        return super().__getattribute__(name)


class Remote(LocalFileSystem):
    """A folder under a name of its own, so that it counts as a server whose files are renamed: `remote:///folder`."""

    protocol = "remote"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return LocalFileSystem._strip_protocol(path.replace("remote://", "file://"))

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        if Path(path2).exists():
            raise FileExistsError(path2)
        Path(path1).rename(path2)


def install(folder: Path) -> Path:
    """Make `folder` one that tells fsspec of these file systems; it and tests/ go on PYTHONPATH."""
    about = folder / "faulty_store-0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-store\nVersion: 0\n")
    (about / "entry_points.txt").write_text(
        "[fsspec.specs]\nfaulty = faulty_store:Faulty\nhanging = faulty_store:Hanging\nremote = faulty_store:Remote\n"
    )
    return folder
