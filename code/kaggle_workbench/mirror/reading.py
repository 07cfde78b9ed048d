"""Reading records from MongoDB, in the form `records` gives those of a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kaggle_workbench import records, show
from kaggle_workbench.errors import UsageError
from kaggle_workbench.mirror.address import require
from kaggle_workbench.mirror.convert import to_record
from kaggle_workbench.mirror.server import opened
from kaggle_workbench.settings import Settings

if TYPE_CHECKING:
    from kaggle_workbench.mirror.server import Runs

# What a listing does not show; with a server far away it is most of the time.
LEFT_OUT = {"history": 0, "data": 0, "pictures": 0, "steps.versions": 0, "steps.parameters": 0, "steps.image": 0}


def list_runs(settings: Settings, *, competition: str | None = None, source: str | None = None) -> list[dict[str, Any]]:
    """All records, newest first, each with its true status; as `records.list_runs`, but for what no listing shows.

    Args:
        settings: Settings in force.
        competition: Only runs of this one.
        source: Only "practice" or only "kaggle" runs.

    Returns:
        Records without history (`epochs` is its length), data, pictures, versions and parameters.

    Raises:
        MissingError: MONGODB_URI is not set, or the server cannot be reached or refuses.
    """
    wanted = {name: value for name, value in (("competition", competition), ("source", source)) if value}
    found = []
    with opened(require(settings)) as runs:
        for document in runs.find(wanted, LEFT_OUT):
            found.append(_told(document))
    return sorted(found, key=lambda record: (record["created"], record["id"]), reverse=True)


def find_run(settings: Settings, name: str) -> dict[str, Any]:
    """One record in full, by the run's name, an unambiguous beginning of it, or its uid.

    Raises:
        UsageError: No such run, or several.
        MissingError: See `list_runs`.
    """
    where = require(settings)
    with opened(where) as runs:
        for wanted in ({"_id": name}, {"id": name}, {"id": {"$regex": f"^{re.escape(name)}"}}):
            heads = list(runs.find(wanted, {"id": 1}).limit(50))
            if len(heads) > 1:
                known = ", ".join(sorted(f"{head['id']} ({head['_id'][:8]})" for head in heads)[-5:])
                raise UsageError(
                    f"{name!r} could be {len(heads)} runs: {known}.", hint="Write more of the name, or the whole uid."
                )
            if heads:
                return _whole(runs, heads[0]["_id"])
    raise UsageError(f"There is no run {name!r} in {where}.", hint="`./kwb runs --from mongodb` lists the runs.")


def _whole(runs: Runs, uid: str) -> dict[str, Any]:
    record = _told(runs.find_one({"_id": uid}) or {"_id": uid})
    if record["status"] == "damaged":
        raise UsageError(f"The document {uid} is no run record.", hint="Delete it, then run ./kwb runs sync.")
    return record


def _told(document: Mapping[str, Any]) -> dict[str, Any]:
    steps = document.get("steps")
    if isinstance(steps, list):
        document = {**document, "steps": [_with_form(step) for step in steps]}
    try:
        record = to_record(document)
    except (ValueError, TypeError, KeyError, AttributeError):
        name = str(document.get("id") or document["_id"])
        return {"id": name, "uid": str(document["_id"]), "status": "damaged", "created": "", "steps": []}
    record["status"] = records.true_status(record, None)
    record["epochs"] = document.get("epochs")
    if document.get("cut"):
        show.note(f"{record['id']}: {document['cut']}")
    return record


def _with_form(step: Any) -> Any:
    # What a listing leaves out of the steps, their form still needs.
    return {"versions": {}, "parameters": {}, **step} if isinstance(step, Mapping) else step
