"""A run's record as the head of its report: what a person asks first, from a document that may lack any of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeGuard

from kaggle_workbench.files import human_bytes
from kaggle_workbench.settings import SETTINGS
from kaggle_workbench.show import plural
from kaggle_workbench.summaries import computes, reached, span

# Said elsewhere on the page.
_SAID = ("COMPETITION", "SOURCE", "RUN_ID")


@dataclass(frozen=True)
class Score:
    """A number that counts.

    Attributes:
        label: What it is.
        value: As shown.
        note: Small print below it.
    """

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One execution of a stage: what ran where and when, and how it ended."""

    stage: str
    status: str
    place: str
    computes: str
    started: str
    took: str
    memory: str
    error: str = ""
    hint: str = ""


def scores(record: Mapping[str, Any]) -> list[Score]:
    """CV, leaderboard, rank, and how far they are apart."""
    cv, lb = _dict(record.get("cv")), _dict(record.get("lb"))
    own, public, private = _number(cv.get("score")), _number(lb.get("public")), _number(lb.get("private"))
    found = []
    if own is not None:
        how = [
            str(cv["method"]) if cv.get("method") else "",
            plural(cv["rows"], "row") if _whole(cv.get("rows")) else "",
        ]
        metric = str(cv.get("metric") or record.get("metric") or "")
        found.append(Score(f"CV {metric}".strip(), _score(own), ", ".join(filter(None, how))))
    for name, value in (("public", public), ("private", private)):
        if value is not None:
            # As in `kwb runs`: CV minus leaderboard.
            apart = "" if own is None else f"gap {own - value:+.4f}"
            found.append(Score(f"LB {name}", _score(value), apart))
    if _whole(lb.get("rank")):
        entries = f"of {lb['entries']:,}" if _whole(lb.get("entries")) else ""
        found.append(Score("rank", f"{lb['rank']:,}", entries))
    return found


def facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Facts by name; what is not known is left out."""
    sent, checkpoint = _dict(record.get("submission")), _dict(record.get("checkpoint"))
    steps = _steps(record)
    folds = [_score(value) for value in _list(_dict(record.get("cv")).get("folds")) if _number(value) is not None]
    epochs = len(_list(record.get("history")))
    told = {
        "competition": _joined(record.get("competition"), record.get("source")),
        "begun": _moment(record.get("created")),
        "took": _took(sum(_number(step.get("wall_s")) or 0 for step in steps)),
        "epochs": f"{epochs:,}" if epochs else "",
        "CV of each fold": ", ".join(folds),
        "submission": _joined(sent.get("ref"), sent.get("message"), _moment(sent.get("sent"))),
        "checkpoint": _checkpoint(checkpoint),
        "parent": str(record.get("parent") or ""),
        "commit": _newest(steps, "git", _commit),
        "image": _newest(steps, "image", _image),
        "versions": _newest(steps, "versions", _versions),
    }
    return {name: text for name, text in told.items() if text}


def rows(record: Mapping[str, Any]) -> list[Row]:
    """One line for each execution of a stage."""
    return [_row(step) for step in _steps(record)]


def changed(record: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Parameters that differ from the defaults: name, value, default; the notebook's own have none."""
    found: dict[str, tuple[str, str, str]] = {}
    for step in _steps(record):
        for name, value in _dict(step.get("parameters")).items():
            default = SETTINGS[name][1] if name in SETTINGS else None
            if name not in _SAID and value is not None and value != default:
                shown = (
                    "" if default is None and name not in SETTINGS else "not set" if default is None else str(default)
                )
                # The last execution says what the result came from.
                found[name] = (str(name), str(value), shown)
    return sorted(found.values())


def _row(step: Mapping[str, Any]) -> Row:
    device, error = _dict(step.get("device")), _dict(step.get("error"))
    peak, gpu_peak = _number(step.get("peak_memory_bytes")), _number(step.get("peak_gpu_memory_bytes"))
    memory = [human_bytes(peak) if peak else "", f"{human_bytes(gpu_peak)} GPU" if gpu_peak else ""]
    wall, cpu = _number(step.get("wall_s")), _number(step.get("cpu_s"))
    took = [span(wall) if wall is not None else "not ended", f"{span(cpu)} CPU time" if cpu is not None else ""]
    return Row(
        stage=str(step.get("stage") or "?"),
        status=str(step.get("status") or "?"),
        place=str(step.get("place") or ""),
        computes=computes(device) if device else "",
        started=_moment(step.get("started")).removesuffix(" UTC"),
        took=", ".join(filter(None, took)),
        memory=", ".join(filter(None, memory)),
        error=str(error.get("message") or ""),
        hint=str(error.get("hint") or ""),
    )


def _checkpoint(checkpoint: Mapping[str, Any]) -> str:
    return _joined(reached(checkpoint), _moment(checkpoint.get("written")))


def _commit(git: Any) -> str:
    commit = str(_dict(git).get("commit") or "")[:12]
    return commit + (" (changed since)" if _dict(git).get("dirty") else "") if commit else ""


def _image(image: Any) -> str:
    if not isinstance(image, dict):
        return str(image)
    name = str(image.get("image") or "")
    tag = str(image.get("tag") or "")
    full = f"{name}:{tag}" if name and tag and not name.endswith(f":{tag}") else name or tag
    outside = "the project's lock; this ran outside of it" if image.get("inside") is False and full else ""
    return _joined(full, image.get("digest"), outside)


def _versions(versions: Any) -> str:
    return ", ".join(f"{name} {version}" for name, version in _dict(versions).items())


def _newest(steps: list[Mapping[str, Any]], name: str, told: Any) -> str:
    # The training is what a result came from; the other stages stand in for it.
    for step in sorted(steps, key=lambda step: step.get("stage") == "train", reverse=True):
        text = str(told(step[name])) if step.get(name) else ""
        if text:
            return text
    return ""


def _steps(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [step for step in _list(record.get("steps")) if isinstance(step, dict)]


def _took(seconds: float) -> str:
    return span(seconds) if seconds else ""


def _moment(value: Any) -> str:
    try:
        return f"{datetime.fromisoformat(str(value)).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):
        return ""


def _score(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"


def _joined(*parts: Any) -> str:
    return " · ".join(str(part) for part in parts if part not in (None, ""))


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value == value else None


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
