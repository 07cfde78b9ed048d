"""Run records for people: one line of a listing, and one record told in full."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.files import human_bytes

# The columns of the table; the JSON listing holds all of `summary`.
COLUMNS = ("run", "status", "stages", "competition", "source", "epochs", "CV", "public", "private", "took")


def summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as one line of a listing.

    Args:
        record: As `records.list_runs` gives it; a damaged one has little more than its name.
    """
    steps = record["steps"]
    cv, lb = record.get("cv") or {}, record.get("lb") or {}
    device = next((step["device"] for step in reversed(steps) if step.get("device")), None)
    seconds = sum(step.get("wall_s") or 0 for step in steps)
    return {
        "run": record["id"],
        "status": record["status"],
        "stages": "+".join(dict.fromkeys(step["stage"] for step in steps)),
        "competition": record.get("competition"),
        "source": record.get("source"),
        "epochs": len(record.get("history") or ()) or None,
        "metric": record.get("metric"),
        "CV": cv.get("score"),
        "public": lb.get("public"),
        "private": lb.get("private"),
        "rank": lb.get("rank"),
        "device": device and device["kind"],
        "took": span(seconds),
        "seconds": round(seconds, 1),
        "created": record["created"],
        "error": next((step["error"]["message"] for step in reversed(steps) if step.get("error")), None),
    }


def details(record: Mapping[str, Any]) -> str:
    """A record as text: what ran where and when, with what, and what came of it."""
    facts = summary(record)
    lines = [f"Run {record['id']}: {record['status']}"]
    cv, lb, sent = record.get("cv"), record.get("lb"), record.get("submission")
    told = {
        "competition": f"{record.get('competition')} ({record.get('source')})",
        "begun": f"{record['created'][:16].replace('T', ' ')} UTC",
        "took": facts["took"],
        "parent": record.get("parent"),
        "CV": cv and f"{cv['metric']} {cv['score']:.5f} ({cv['method']}, {show.plural(cv['rows'], 'row')})",
        "leaderboard": lb and _leaderboard(lb),
        "submission": sent and f"{sent['ref']} ({sent['file']}, {sent['message']!r}, {str(sent['sent'])[:16]})",
        "pictures": ", ".join(picture["file"] for picture in record.get("pictures") or ()),
    }
    lines += [f"  {name.ljust(12)} {value}" for name, value in told.items() if value]
    for step in record["steps"]:
        lines += ["", *_step(step)]
    if record.get("history"):
        names = [name for name in record["history"][0] if name != "learning_rate"]
        lines += ["", show.table(record["history"], names)]
    return "\n".join(lines)


def span(seconds: float) -> str:
    """A length of time for people: `span(95) == "1 min 35 s"`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _leaderboard(lb: Mapping[str, Any]) -> str:
    parts = [f"{name} {lb[name]:.5f}" for name in ("public", "private") if lb.get(name) is not None]
    if lb.get("rank"):
        parts.append(f"rank {lb['rank']:,} of {lb.get('entries') or 0:,}")
    return ", ".join(parts)


def _step(step: Mapping[str, Any]) -> list[str]:
    device, git, error = step.get("device"), step.get("git"), step.get("error")
    peak = step.get("peak_memory_bytes")
    took = span(step["wall_s"]) if step.get("wall_s") is not None else "not ended"
    given = ", ".join(f"{name}={value}" for name, value in step["parameters"].items() if value not in (None, ""))
    versions = ", ".join(f"{name} {version}" for name, version in step["versions"].items())
    told = {
        "device": device and f"{device['kind']} x {device['count']}: {device['reason']}",
        "parameters": given,
        "CPU time": span(step["cpu_s"]) if step.get("cpu_s") is not None else None,
        "peak memory": human_bytes(peak) if peak else None,
        "commit": git and git["commit"][:12] + (" (changed since)" if git["dirty"] else ""),
        "image": step.get("image"),
        "versions": versions,
        "error": error and f"{error['kind']}: {error['message']}",
    }
    head = f"  {step['stage']}: {step['status']} on {step.get('place')}, {took}"
    return [head, *(f"    {name.ljust(12)} {value}" for name, value in told.items() if value)]
