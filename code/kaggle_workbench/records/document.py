"""A record as a document: its form, what makes it whole, and how one of schema 1 is read."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.masking import INT64
from kaggle_workbench.records.shape import fault

SCHEMA = 2
RECORD_FILE = "record.json"
STATUSES = ("running", "paused", "done", "failed", "died", "damaged")
# What schema 2 added.
_NEW_IN_STEP = ("peak_gpu_memory_bytes", "mean_gpu_utilisation", "seed")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def new(run_id: str, competition: str, source: str, parent: str | None) -> dict[str, Any]:
    """The record of a run in which nothing has happened yet."""
    import uuid

    moment = now()
    return {
        "schema": SCHEMA,
        "uid": uuid.uuid4().hex,
        "id": run_id,
        "revision": 0,
        "status": "running",
        "competition": competition,
        "source": source,
        "created": moment,
        "updated": moment,
        "parent": parent,
        **dict.fromkeys(("metric", "cv", "lb", "submission", "checkpoint")),
        "history": [],
        "data": {},
        "pictures": [],
        "steps": [],
    }


def parse(content: bytes | str, run_id: str | None = None) -> dict[str, Any]:
    """A record from its JSON, as one of the present schema.

    Args:
        content: The file's content.
        run_id: Name of the run's folder, which is the run's name whatever the document says.

    Numbers that are not finite, which an edit by hand may have left there, are None, and whole numbers of more than
    64 bits are texts, as they are in a database.

    Raises:
        ValueError: It is no record, or one of a newer schema.
    """
    document = json.loads(content, parse_float=_finite, parse_int=_whole, parse_constant=lambda _: None)
    if b"\\ud" in (content if isinstance(content, bytes) else content.encode("utf-8", "replace")):
        document = _texts(document)
    return checked(document, run_id)


def checked(document: Any, run_id: str | None = None) -> dict[str, Any]:
    """A document as a record of the present schema (see `parse`)."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise ValueError(f"written by a newer version, schema {schema}")
    odd = fault(document)
    if odd is not None:
        raise ValueError(f"not a whole run record: {odd} does not fit")
    if document["schema"] < SCHEMA or not isinstance(document.get("uid"), str):
        _upgrade(document)
    document["data"] = document.get("data") or {}
    document.setdefault("revision", 0)
    document.setdefault("updated", document["created"])
    if run_id is not None:
        document["id"] = run_id
    return dict(document)


def uid_of(document: Mapping[str, Any]) -> str:
    """The uid of a record that has none: made of its name and start, so that every reader finds the same."""
    known = json.dumps([document["id"], document["created"], document.get("competition"), document.get("source")])
    return hashlib.sha256(known.encode()).hexdigest()[:32]


def digest(document: Mapping[str, Any]) -> str:
    """What a record says, as 64 hexadecimal digits: equal on every machine, whatever the run's name there."""
    told = {name: value for name, value in document.items() if name not in ("id", "seen")}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def age(document: Mapping[str, Any]) -> tuple[int, str]:
    """Of two copies of a record the one with the higher age is the newer."""
    return int(document.get("revision") or 0), str(document.get("updated") or "")


def is_name(text: Any) -> bool:
    """Whether a text can be the name of a run, and so of a folder."""
    return isinstance(text, str) and bool(_NAME.fullmatch(text))


def tidy(document: dict[str, Any]) -> None:
    """Bring what the stages wrote into the schema's form: folds are named, times are UTC."""
    if isinstance(document.get("cv"), dict):
        document["cv"].setdefault("folds", None)
    for name, key in (("submission", "sent"), ("checkpoint", "written")):
        fact = document.get(name)
        if isinstance(fact, dict) and isinstance(fact.get(key), str):
            fact[key] = utc(fact[key])


def trained_at(document: Mapping[str, Any]) -> str:
    """When the run's training ended, in UTC; "" when none was finished."""
    return max(
        (step["ended"] or "" for step in document["steps"] if step["stage"] == "train" and step["status"] == "done"),
        default="",
    )


def error_facts(error: BaseException) -> dict[str, Any]:
    """An error as a record keeps it."""
    kind = type(error).__name__
    if isinstance(error, WorkbenchError):
        return {"kind": kind, "message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    return {"kind": kind, "message": text[:2000], "hint": "", "exit_code": 1}


def now() -> str:
    """The time, UTC, in the form records use."""
    return _text(datetime.now(UTC))


def utc(text: str) -> str:
    """A time in the form records use; one without a zone is taken for UTC, what is no time stays as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return _text(moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC))


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _whole(text: str) -> int | str:
    # Any number of 18 digits fits.
    return int(text) if len(text) < 19 or (len(text) < 21 and -INT64 <= int(text) < INT64) else text


def _texts(value: Any) -> Any:
    """Half a pair of surrogates, as a damaged file name may hold, can be neither printed nor sent."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_texts(name): _texts(item) for name, item in value.items()}
    return [_texts(item) for item in value] if isinstance(value, list) else value


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _upgrade(document: dict[str, Any]) -> None:
    document.update(schema=SCHEMA, uid=uid_of(document))
    document.setdefault("checkpoint", None)
    if isinstance(document.get("cv"), dict):
        document["cv"].setdefault("folds", None)
    for step in document["steps"]:
        for name in _NEW_IN_STEP:
            step.setdefault(name, None)
        if step["seed"] is None:
            step["seed"] = step["parameters"].get("SEED")
