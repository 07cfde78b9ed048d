"""What makes a document a whole record: the kinds of its fields, so that no reader meets a surprise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Kinds = Mapping[str, Any]

_NUMBER = (int, float)
# Larger ones are no sizes, times or scores, and break whoever calculates with them.
_MOST = 1 << 63
# What readers rely on; a document without it is "damaged", so that it cannot bring down a listing.
SHAPE: Mapping[str, type] = {"schema": int, "id": str, "status": str, "created": str, "steps": list}
STEP_SHAPE: Mapping[str, type] = {
    "stage": str,
    "status": str,
    "process": dict,
    "parameters": dict,
    "versions": dict,
}
# What may be missing or null, but is of this kind where it is there.
_FIELDS: Kinds = {
    **dict.fromkeys(("uid", "updated", "competition", "source", "parent", "metric"), str),
    **dict.fromkeys(("cv", "lb", "submission", "checkpoint", "data"), dict),
    **dict.fromkeys(("history", "pictures"), list),
    "revision": int,
}
_STEP_FIELDS: Kinds = {
    **dict.fromkeys(("place", "started", "ended"), str),
    **dict.fromkeys(("device", "git", "error"), dict),
    **dict.fromkeys(("wall_s", "cpu_s", "peak_memory_bytes", "peak_gpu_memory_bytes"), _NUMBER),
    "mean_gpu_utilisation": _NUMBER,
    # Schema 1 had a name here.
    "image": (dict, str),
}
_FACTS: Mapping[str, Kinds] = {
    "cv": {"metric": str, "score": _NUMBER, "method": str, "rows": _NUMBER, "folds": list},
    "lb": dict.fromkeys(("public", "private", "rank", "entries"), _NUMBER),
    "submission": {"file": str, "sent": str},
    "checkpoint": {"epoch": _NUMBER, "step": _NUMBER, "file": str, "written": str},
}
_ERROR_SHAPE: Mapping[str, type] = {"kind": str, "message": str}


def fault(document: Any) -> str | None:
    """The first field that does not fit, by its name; None when the document is a whole record."""
    if not isinstance(document, dict):
        return "the document"
    found = _lacks(document, SHAPE) or _odd(document, _FIELDS)
    if found:
        return found
    for name, kinds in _FACTS.items():
        found = _odd(document.get(name) or {}, kinds)
        if found:
            return f"{name}.{found}"
    folds = (document.get("cv") or {}).get("folds") or ()
    if not all(isinstance(fold, _NUMBER) and -_MOST < fold < _MOST for fold in folds):
        return "cv.folds"
    for name in ("history", "pictures"):
        if not all(isinstance(entry, dict) for entry in document.get(name) or ()):
            return name
    if not all(isinstance(picture.get("file"), str) for picture in document.get("pictures") or ()):
        return "pictures.file"
    return next((f"steps.{found}" for step in document["steps"] if (found := _step_fault(step))), None)


def _step_fault(step: Any) -> str | None:
    if not isinstance(step, dict):
        return "step"
    error = step.get("error")
    return _lacks(step, STEP_SHAPE) or _odd(step, _STEP_FIELDS) or (_lacks(error, _ERROR_SHAPE) if error else None)


def _lacks(value: Mapping[str, Any], kinds: Kinds) -> str | None:
    return next((name for name, kind in kinds.items() if not isinstance(value.get(name), kind)), None)


def _odd(value: Mapping[str, Any], kinds: Kinds) -> str | None:
    for name, kind in kinds.items():
        item = value.get(name)
        if item is not None and (not isinstance(item, kind) or (kind in (int, _NUMBER) and not -_MOST < item < _MOST)):
            return name
    return None
