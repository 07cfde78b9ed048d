"""The checkpoints of one training: the newest few, the best one, and which of them is whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.checkpoints import checkpoint as files
from kaggle_workbench.checkpoints.checkpoint import Checkpoint, DamagedError
from kaggle_workbench.files import disk_errors

SUFFIX = ".ckpt"
_NAME = re.compile(r"(?:fit-(\d+)-)?epoch-(\d+)(?:-step-(\d+))?\.ckpt")

Upload = Callable[[Path, str], None]


class CheckpointFolder:
    """A folder of checkpoints; one process writes to it at a time (see `TrainingLock`), any may read.

    The files are named after what they hold: `epoch-0003.ckpt` after three epochs, `epoch-0003-step-000120.ckpt`
    120 steps later. The head of each says which one was the best so far. A run that trains more than once (folds, or
    a second `fit` with other layers) has a series of them for each; those of the second begin with `fit-2-`.

    Args:
        folder: Made by the first `write`.
        series: Which training of the run, from 1.
        keep: How many of the newest are kept; the best one is kept besides.
        upload: Called with each file that was written and its name below `folder`.
    """

    def __init__(self, folder: Path, *, series: int = 1, keep: int = 3, upload: Upload | None = None) -> None:
        self.folder, self.series, self.keep, self.upload = folder, series, keep, upload
        self._best = ""
        self._said: set[str] = set()

    def names(self) -> list[str]:
        """Names of this series' checkpoints, the newest first.

        Raises:
            MissingError: The folder may not be read.
        """
        try:
            with disk_errors(self.folder, deed="read"):
                entries = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        except FileNotFoundError:
            return []
        return sorted((name for name in entries if _series(name) == self.series), key=_place, reverse=True)

    def file_name(self, checkpoint: Checkpoint) -> str:
        """The name a checkpoint's file has here."""
        series = f"fit-{self.series}-" if self.series > 1 else ""
        step = f"-step-{checkpoint.step:06d}" if checkpoint.step else ""
        return f"{series}epoch-{checkpoint.epoch:04d}{step}{SUFFIX}"

    def write(self, checkpoint: Checkpoint) -> tuple[Path, str]:
        """Write a checkpoint, then take away what is neither new nor best.

        Returns:
            The file and its SHA-256.

        Raises:
            MissingError: The disk is full, or the folder read-only.
        """
        path = self.folder / self.file_name(checkpoint)
        digest = files.write(path, checkpoint)
        best = checkpoint.head.get("best") or {}
        self._best = str(best.get("file", ""))
        for name in self.names()[self.keep :]:
            if name not in (self._best, path.name):
                (self.folder / name).unlink(missing_ok=True)
        if self.upload is not None:
            self.upload(path, path.name)
        return path, digest

    def newest(self) -> Checkpoint | None:
        """The newest whole checkpoint; of each damaged one before it a warning. None when there is none."""
        for name in self.names():
            found = self._read(name)
            if found is not None:
                return found
        return None

    def best(self) -> Checkpoint | None:
        """The checkpoint with the best value, as the newest one says; None when there is none."""
        newest = self.newest()
        best = (newest.head.get("best") or {}) if newest else {}
        return self._read(str(best["file"])) if best.get("file") in self.names() else None

    def clean(self) -> None:
        """Take away what killed writers have left; only while no one else writes."""
        for path in files.temporary_files(self.folder, SUFFIX):
            path.unlink(missing_ok=True)

    def remove_after(self, place: tuple[int, int]) -> None:
        """Take away checkpoints that stand after `place` (epoch, step): a training goes on from before them."""
        for name in self.names():
            if _place(name) > place:
                (self.folder / name).unlink(missing_ok=True)

    def _read(self, name: str) -> Checkpoint | None:
        try:
            return files.read(self.folder / name)
        except FileNotFoundError:
            return None
        except DamagedError as error:
            if name not in self._said:
                self._said.add(name)
                show.warn(f"{error.message} It is left out; an earlier checkpoint is looked for.")
            return None


def _series(name: str) -> int:
    match = _NAME.fullmatch(name)
    return int(match[1] or 1) if match else 0


def _place(name: str) -> tuple[int, int]:
    match: Any = _NAME.fullmatch(name)
    return int(match[2]), int(match[3] or 0)
