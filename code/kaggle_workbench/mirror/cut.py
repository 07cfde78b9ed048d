"""Records that are longer than MongoDB allows: cut, with a note of what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaggle_workbench.mirror.convert import to_document

# MongoDB's limit is 16 MiB; some room for what a server adds.
LIMIT_BYTES = 16 * 1024 * 1024 - 64 * 1024
_TEXTS = (10_000, 1_000, 200)
_CORE = ("schema", "uid", "id", "revision", "status", "competition", "source", "created", "updated", "parent", "metric")


def fitting(record: Mapping[str, Any], limit: int = LIMIT_BYTES) -> dict[str, Any]:
    """The record as a document that MongoDB takes.

    Longest first: epochs are thinned (every second, every fourth, ...; the first and the last stay), then texts
    shortened, then everything but the core is left out. `cut` says what; the file in the run's folder stays whole.

    Args:
        record: The record.
        limit: Bytes that a document may have.
    """
    document = to_document(record)
    if size(document) <= limit:
        return document
    for shorter in _shorter(record):
        document = to_document(shorter, full=record)
        if size(document) <= limit:
            return document
    return document


def size(document: Mapping[str, Any]) -> int:
    """Bytes of a document as MongoDB keeps it."""
    import bson

    return len(bson.encode(document))


def _shorter(record: Mapping[str, Any]) -> Any:
    history, step = record.get("history") or [], 2
    thinned, notes = dict(record), ""
    while len(history) // step > 50:
        kept = [entry for number, entry in enumerate(history) if number % step == 0 or number == len(history) - 1]
        notes = f"{len(kept):,} of {len(history):,} epochs"
        thinned = {**record, "history": kept}
        yield {**thinned, "cut": f"Too long for MongoDB; kept: {notes}."}
        step *= 2
    for most in _TEXTS:
        note = "; ".join(filter(None, (notes, f"the first {most:,} signs of each text")))
        yield {**_with_texts(thinned, most), "cut": f"Too long for MongoDB; kept: {note}."}
    core = {name: _with_texts(record.get(name), 200) for name in _CORE}
    for name in ("cv", "lb"):
        fact = record.get(name) or {}
        core[name] = {key: value for key, value in fact.items() if isinstance(value, int | float)} or None
    yield {
        **core,
        "history": [],
        "data": {},
        "pictures": [],
        "steps": [],
        "cut": "Too long for MongoDB; kept: name, times and scores.",
    }


def _with_texts(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}..."
    if isinstance(value, Mapping):
        return {name[:most]: _with_texts(item, most) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_texts(item, most) for item in value]
    return value
