"""All runs of a folder. Plain reading: ten thousand records need no index."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kaggle_workbench.files import disk_errors
from kaggle_workbench.records.document import RECORD_FILE, parse
from kaggle_workbench.records.heartbeat import true_status


def list_runs(output_dir: Path, *, competition: str | None = None, source: str | None = None) -> list[dict[str, Any]]:
    """All records, newest first, each with its true status ("died", "damaged").

    Args:
        output_dir: Folder that holds `runs/`.
        competition: Only runs of this one.
        source: Only "practice" or only "kaggle" runs.
    """
    found = each_run(output_dir, competition=competition, source=source)
    return sorted(found, key=lambda document: (document["created"], document["id"]), reverse=True)


def each_run(
    output_dir: Path, *, competition: str | None = None, source: str | None = None
) -> Iterator[dict[str, Any]]:
    """The same in no order, one at a time, for those who need not hold them all (see `list_runs`)."""
    for folder, document in each_record(output_dir):
        if document is None:
            document = {"status": "damaged", "created": "", "steps": []}
        # A run goes by its folder's name, whatever it was called where it comes from.
        document["id"] = os.path.basename(folder)  # noqa: PTH119
        if competition not in (None, document.get("competition")) or source not in (None, document.get("source")):
            continue
        if document["status"] == "running":
            document["status"] = true_status(document, Path(folder))
        yield document


def each_record(output_dir: Path) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Each run's folder and its record as it is written; None for one that is damaged."""
    try:
        with disk_errors(output_dir / "runs", deed="read"):
            entries = list(os.scandir(output_dir / "runs"))
    except FileNotFoundError:
        return
    for entry in entries:
        try:
            # Not through Path: with thousands of runs its overhead is seen.
            with open(f"{entry.path}/{RECORD_FILE}", "rb") as file:  # noqa: PTH123
                yield entry.path, parse(file.read())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, RecursionError):
            yield entry.path, None
