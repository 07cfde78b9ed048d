"""A run on its way to Kaggle: record and checkpoints as a private dataset, flat, with every file's hash."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from pathlib import Path

from kaggle_workbench.files import human_bytes, sha256, write_json
from kaggle_workbench.kaggle_api import Client, datasets
from kaggle_workbench.records import RECORD_FILE
from kaggle_workbench.remote.arrival import TRAVEL_FILE
from kaggle_workbench.show import note

CHECKPOINTS = "checkpoints"
# The service's limit is 50.
MOST_NAME = 40


def name(owner: str, run: str) -> str:
    """The dataset of a run, always the same: "owner/kwb-run-..."."""
    plain = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")[: MOST_NAME - 15]
    return f"{owner}/kwb-run-{plain}-{hashlib.sha256(run.encode()).hexdigest()[:6]}"


def files(folder: Path) -> list[Path]:
    """What travels of a run's folder: the record, what it needs to go on, and no outputs."""
    found = [folder / RECORD_FILE, *sorted((folder / CHECKPOINTS).glob("*"))]
    return [path for path in found if path.is_file() and not path.name.startswith(".")]


def size(folder: Path) -> int:
    """Bytes that would travel."""
    return sum(path.stat().st_size for path in files(folder))


def send(client: Client, ref: str, folder: Path, *, limit_s: float = datasets.READY_S, poll_s: float = 5.0) -> None:
    """Send a run's folder, and wait until it can be attached.

    Args:
        client: The connection.
        ref: The dataset, see `name`.
        folder: The run's folder.
        limit_s: How long to wait for its processing.
        poll_s: How often to ask.

    Raises:
        KaggleError: The service refused it, or it does not become ready.
    """
    with tempfile.TemporaryDirectory(prefix="kwb-") as work:
        listed = {}
        for number, path in enumerate(files(folder)):
            inside = path.relative_to(folder).as_posix()
            # Subfolders are left out or packed on the way; names of our own keep every file a file.
            copied = Path(work) / f"{number:03d}.part"
            shutil.copyfile(path, copied)
            listed[inside] = {"file": copied.name, "sha256": sha256(copied)}
        write_json(Path(work) / TRAVEL_FILE, {"run": folder.name, "files": listed})
        note(f"Sending the run so far as the private dataset {ref} ({human_bytes(size(folder))}) ...")
        datasets.send(client, ref, Path(work), f"run {folder.name}")
    datasets.wait_ready(client, ref, limit_s=limit_s, poll_s=poll_s)
