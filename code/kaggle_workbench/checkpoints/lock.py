"""One training of a run at a time."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import disk_errors, make_folder

LOCK_FILE = ".training.lock"
# What this process holds, by folder. A training that broke off in a notebook leaves its lock here, and the next
# one in the same process takes it over.
_held: dict[Path, TrainingLock] = {}


class TrainingLock:
    """Held while a run trains; the system lets go of it when the process ends, however it ends.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock

        self.folder = folder.resolve()
        self.file = self.folder / LOCK_FILE
        self._lock = FileLock(self.file)

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            UsageError: Another process trains this run.
            MissingError: The folder cannot be written.
        """
        from filelock import Timeout

        release(self.folder)
        make_folder(self.folder)
        try:
            with disk_errors(self.file):
                self._lock.acquire(timeout=0)
        except Timeout:
            raise UsageError(
                f"Run {self.folder.name} is being trained by another process already{self._holder()}.",
                hint="Wait for its end, or train under another RUN_ID.",
            ) from None
        _held[self.folder] = self
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        # The lock file itself stays empty: on Windows' file systems a locked file cannot be read.
        self._note().write_text(json.dumps({"process": os.getpid(), "since": now}), encoding="ascii")

    def release(self) -> None:
        """Let go; fine to call more than once."""
        if _held.get(self.folder) is self:
            del _held[self.folder]
            self._note().unlink(missing_ok=True)
        self._lock.release()

    def _note(self) -> Path:
        return self.file.with_suffix(".json")

    def _holder(self) -> str:
        try:
            told = json.loads(self._note().read_text(encoding="ascii"))
            return f" (process {told['process']}, since {told['since']})"
        except (OSError, ValueError, KeyError):
            return ""


def release(folder: Path) -> None:
    """Let go of a run's lock if this process holds it; for a training that broke off."""
    held = _held.get(folder.resolve())
    if held is not None:
        held.release()
