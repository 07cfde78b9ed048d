"""Records that come from elsewhere: put into a folder of this machine, never over a newer one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from kaggle_workbench.errors import WorkError
from kaggle_workbench.files import locked, make_folder, write_json
from kaggle_workbench.masking import plain
from kaggle_workbench.records.document import RECORD_FILE, age, digest, is_name, parse
from kaggle_workbench.records.heartbeat import HEARTBEAT_FILE, true_status

Outcome = Literal["new", "newer", "kept", "running", "damaged"]


def receive(output_dir: Path, document: Mapping[str, Any], folder: Path | None) -> tuple[str, Outcome]:
    """Write a record that another machine has made.

    Args:
        output_dir: Folder that holds `runs/`.
        document: The record; `seen` in it is when its run was last heard of.
        folder: The folder of the same run here; None when this machine does not have it.

    Returns:
        The run's name here, and what was done: "new" (a folder was made), "newer" (the record here was replaced),
        "kept" (the one here is as new), "running" or "damaged" (left alone).
    """
    outcome: Outcome = "newer"
    if folder is None:
        folder, outcome = _free_folder(output_dir / "runs", document), "new"
    record = plain({name: value for name, value in document.items() if name != "seen"}, {})
    record["id"] = folder.name
    with locked(folder / ".lock", what=f"the record of {folder.name}", timeout_s=60):
        if outcome == "newer":
            try:
                here = parse((folder / RECORD_FILE).read_bytes(), folder.name)
            except (OSError, ValueError):
                return folder.name, "damaged"
            if true_status(here, folder) == "running":
                # Its process counts on what it has written.
                return folder.name, "running"
            if age(here) > age(record) or digest(here) == digest(record):
                return folder.name, "kept"
            if here["revision"] == record["revision"]:
                # Two machines went on from the same record: one of the two stands, and none is lost.
                write_json(folder / f"record.{digest(here)[:8]}.json", here)
        write_json(folder / RECORD_FILE, record)
        if record["status"] == "running" and document.get("seen"):
            (folder / HEARTBEAT_FILE).write_text(str(document["seen"]), encoding="ascii")
        else:
            (folder / HEARTBEAT_FILE).unlink(missing_ok=True)
    return folder.name, outcome


def _free_folder(runs: Path, document: Mapping[str, Any]) -> Path:
    make_folder(runs)
    # A name from elsewhere is taken only when it is one: it must not lead out of the folder.
    name = document["id"] if is_name(document["id"]) else str(document["uid"])
    if not is_name(name):
        raise WorkError(f"A record named {name[:80]!r} cannot be kept here.", hint="Delete it from the database.")
    for number in range(1, 1000):
        folder = runs / (name if number == 1 else f"{name[:75]}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise WorkError(f"No free name for a run {name} in {runs}.", hint="Rename or delete some of them.")
