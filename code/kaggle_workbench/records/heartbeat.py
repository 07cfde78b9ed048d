"""Whether a run that says "running" still runs: its process, or its heartbeat."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench import provenance
from kaggle_workbench.records.document import now

HEARTBEAT_FILE = ".heartbeat"
HEARTBEAT_S = 30
SILENT_S = 300


class Heartbeat:
    """Writes the time into the run's folder every half minute, until it is stopped.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / HEARTBEAT_FILE
        self._quiet = threading.Event()
        self._beat()
        threading.Thread(target=self._keep_beating, name=f"heartbeat {folder.name}", daemon=True).start()

    def stop(self) -> None:
        """No more beats; the file goes."""
        self._quiet.set()
        self._file.unlink(missing_ok=True)

    def _beat(self) -> None:
        try:
            self._file.write_text(now(), encoding="ascii")
        except OSError:
            # A disk that is full for a moment must not end the training; the next beat tries again.
            return

    def _keep_beating(self) -> None:
        while not self._quiet.wait(HEARTBEAT_S):
            self._beat()


def true_status(document: Mapping[str, Any], folder: Path | None) -> str:
    """The record's status, or "died" when it says running and its process is gone or silent.

    Args:
        document: The record.
        folder: The run's folder, with its heartbeat; None when there is none here (a record read from MongoDB, which
            tells by `seen` when it was last heard of).
    """
    status = str(document["status"])
    if status != "running":
        return status
    steps = document["steps"]
    gone = provenance.is_gone(steps[-1]["process"]) if steps else None
    if gone is None:
        gone = _silence_s(document, folder) > SILENT_S
    return "died" if gone else status


def _silence_s(document: Mapping[str, Any], folder: Path | None) -> float:
    last = str(document.get("seen") or "")
    if folder is not None:
        try:
            last = (folder / HEARTBEAT_FILE).read_text(encoding="ascii")
        except OSError:
            last = ""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(last or document["updated"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return math.inf
