"""What comes back from another machine: verified, and joined with the run here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kaggle_workbench import records, show
from kaggle_workbench.errors import WorkError
from kaggle_workbench.files import sha256
from kaggle_workbench.records import RECORD_FILE
from kaggle_workbench.remote.arrival import RESULT_FILE
from kaggle_workbench.settings import Settings
from kaggle_workbench.stages import stored
from kaggle_workbench.stores import open_store


def verified(work: Path, run: str, url: str) -> dict[str, Any] | None:
    """What a session left, file by file against the hashes that the run itself wrote.

    Args:
        work: Folder of what was fetched.
        run: The run's name.
        url: Where a person can look.

    Returns:
        The result, with the status of the run's own record; None when there is none.

    Raises:
        WorkError: A file is damaged or missing, or it is another run's.
    """
    own = work / f"kwb-result-{run}.json"
    file = own if own.is_file() else work / RESULT_FILE
    if not file.is_file():
        return None
    result: dict[str, Any] = json.loads(file.read_bytes())
    if result["run"] != run:
        raise WorkError(f"What the session left belongs to run {result['run']}, not to {run}.", hint=f"See {url}.")
    if result["status"] == "nothing":
        return None
    try:
        record = records.parse((work / "runs" / run / RECORD_FILE).read_bytes(), run)
    except (OSError, ValueError) as error:
        raise WorkError(
            f"The record of run {run} came back damaged or not at all ({error}).", hint=f"See {url}."
        ) from None
    if record["uid"] != result["uid"]:
        raise WorkError(f"What came back is another run of the name {run}.", hint=f"See {url}.")
    damaged = [
        name
        for name, digest in result["files"].items()
        if not (work / "runs" / run / name).is_file() or sha256(work / "runs" / run / name) != digest
    ]
    if damaged:
        raise WorkError(
            f"{show.plural(len(damaged), 'file')} of run {run} came back damaged or not at all: "
            f"{', '.join(damaged[:3])}.",
            hint=f"Call ./kwb pull {run} again; the files are at {url}/output.",
        )
    # What the run says of itself counts; the result's word is as old as its last cell.
    return {**result, "status": (record["steps"] or [{"status": "nothing"}])[-1]["status"]}


def join(settings: Settings, work: Path, run: str) -> None:
    """Join what came back with the run here: it is taken as a store, and whichever copy goes on from the other wins."""
    store = open_store(str(work / "runs"), base=work)
    stored.bring(settings, store, run, checkpoints=True, origin="what came back")
