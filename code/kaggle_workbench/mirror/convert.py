"""A record as MongoDB keeps it, and back, without loss.

Dates become dates and whole numbers 64 bit integers, so that Compass sorts and charts them. `data` becomes a list, and
"." "%" and a leading "$" in names are written in percent form: MongoDB takes dots in names for paths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kaggle_workbench.masking import INT64
from kaggle_workbench.records.document import checked, digest, utc

# Fields beyond the record's own.
ADDED = ("_id", "epochs", "digest", "seen")
_DATES = {
    ("created",),
    ("updated",),
    ("submission", "sent"),
    ("checkpoint", "written"),
    ("checkpoint", "best", "written"),
    ("steps", "started"),
    ("steps", "ended"),
}


def to_document(record: Mapping[str, Any], *, full: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A record as MongoDB keeps it.

    Args:
        record: The record.
        full: The record before it was cut; what is told of it (epochs, digest) is told of the whole.
    """
    whole = full or record
    document = {name: _to(value, (name,)) for name, value in record.items() if name not in ("uid", "data", "seen")}
    document["data"] = [
        {"file": name, **(_to(facts, ("data",)) if isinstance(facts, Mapping) else {"value": _to(facts, ("data",))})}
        for name, facts in (record.get("data") or {}).items()
    ]
    added = {"epochs": len(whole.get("history") or ()), "digest": digest(whole), "seen": datetime.now(UTC)}
    return {"_id": record["uid"], **document, **{name: _to(value, ()) for name, value in added.items()}}


def to_record(document: Mapping[str, Any]) -> dict[str, Any]:
    """The record a document was made of; with `seen`, when its run was last heard of.

    Raises:
        ValueError: It is no record, or one of a newer version.
    """
    record = {name: _from(value) for name, value in document.items() if name not in (*ADDED, "data")}
    record["uid"] = str(document["_id"])
    record["data"] = {}
    for entry in document.get("data") or ():
        facts = _from(entry)
        if not isinstance(facts, dict) or not isinstance(facts.get("file"), str):
            raise ValueError("not a run record")
        name = facts.pop("file")
        record["data"][name] = facts["value"] if facts.keys() == {"value"} else facts
    record = checked(record)
    record["seen"] = _from(document.get("seen"))
    return record


def date(text: Any) -> Any:
    """A record's time as a date; what is not written in a record's form stays a text, so that nothing is lost."""
    if not isinstance(text, str) or utc(text) != text:
        return text
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text


def _to(value: Any, path: tuple[str, ...]) -> Any:
    from bson.int64 import Int64

    if isinstance(value, Mapping):
        return {_name(str(name)): _to(item, (*path, str(name))) for name, item in value.items()}
    if isinstance(value, list):
        return [_to(item, path) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return Int64(value) if -INT64 <= value < INT64 else str(value)
    if isinstance(value, str):
        # Half a pair of surrogates, as a damaged file name may hold, is no text to MongoDB.
        text = value.encode("utf-8", "replace").decode()
        return date(text) if path in _DATES else text
    return value


def _from(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_original(str(name)): _from(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_from(item) for item in value]
    if isinstance(value, datetime):
        return utc(value.isoformat())
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool):
        return value
    return str(value)


def _name(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    if not any(sign in text for sign in "%.$\0"):
        return text
    text = text.replace("%", "%25").replace(".", "%2E").replace("\0", "%00")
    return f"%24{text[1:]}" if text.startswith("$") else text


def _original(text: str) -> str:
    if "%" not in text:
        return text
    for form, sign in (("%24", "$"), ("%00", "\0"), ("%2E", "."), ("%25", "%")):
        text = text.replace(form, sign)
    return text
