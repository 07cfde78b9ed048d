"""One record told in full: what ran where and when, with what, and what came of it."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.files import human_bytes
from kaggle_workbench.summaries.row import computes, number, reached, span, summary, told

# Of a long training the beginning and the end are shown.
FIRST, LAST = 5, 25
WIDTH = 100


def details(record: Mapping[str, Any]) -> str:
    """A record as text.

    Args:
        record: In full, with its true status.
    """
    facts = summary(record)
    lines = [f"Run {record['id']}: {record['status']}"]
    sent, gap = record.get("submission"), facts["gap"]
    table = {
        "competition": f"{record.get('competition')} ({record.get('source')})",
        "begun": _moment(record["created"]),
        "took": facts["took"],
        "parent": record.get("parent"),
        "CV": record.get("cv") and _cv(record["cv"]),
        "leaderboard": record.get("lb") and _leaderboard(record["lb"]),
        "gap": None if gap is None else f"{gap:.5f} (CV minus public)",
        "submission": sent
        and f"{sent.get('ref')} ({sent.get('file')}, {sent.get('message')!r}, {_moment(sent.get('sent'))})",
        "checkpoint": record.get("checkpoint") and _checkpoint(record["checkpoint"]),
        "pictures": ", ".join(picture["file"] for picture in record.get("pictures") or ()),
        "go on with": _how_to_go_on(record),
        "uid": record.get("uid"),
        "note": record.get("cut"),
    }
    lines += [line for name, value in table.items() if value for line in _wrapped(name, str(value), "  ")]
    before: Mapping[str, Any] = {}
    for step in record["steps"]:
        lines += ["", *_step(step, before)]
        before = step
    if record.get("history"):
        lines += ["", *_epochs(record["history"])]
    return "\n".join(map(show.one_line, lines))


def _cv(cv: Mapping[str, Any]) -> str:
    score, rows, folds = number(cv.get("score")), cv.get("rows"), cv.get("folds") or ()
    facts = [str(cv.get("method") or ""), show.plural(rows, "row") if isinstance(rows, int) else ""]
    if folds:
        spread = f", spread {statistics.stdev(folds):.5f}" if len(folds) > 1 else ""
        facts.append(f"by fold: {', '.join(f'{fold:.5f}' for fold in folds)}{spread}")
    shown = "-" if score is None else f"{score:.5f}"
    return f"{cv.get('metric') or 'score'} {shown} ({', '.join(filter(None, facts))})"


def _leaderboard(lb: Mapping[str, Any]) -> str:
    parts = [f"{name} {lb[name]:.5f}" for name in ("public", "private") if lb.get(name) is not None]
    if lb.get("rank"):
        parts.append(f"rank {lb['rank']:,} of {lb.get('entries') or 0:,}")
    return ", ".join(parts)


def _checkpoint(checkpoint: Mapping[str, Any]) -> str:
    text = reached(checkpoint) or "somewhere"
    if checkpoint.get("written"):
        text += f", written {_moment(checkpoint['written'])}"
    if checkpoint.get("file"):
        text += f", {checkpoint['file']}"
    best = checkpoint.get("best")
    if isinstance(best, Mapping) and best.get("epoch") is not None:
        text += f"; best: epoch {best['epoch']}"
    return text


def _how_to_go_on(record: Mapping[str, Any]) -> str | None:
    if record["status"] not in ("paused", "died", "failed") or not record["steps"]:
        return None
    unfinished = record["steps"][-1]["stage"] == "train"
    if record["status"] == "paused" or (unfinished and record.get("checkpoint")):
        return f"./kwb run train --resume {record['id']}"
    return None


def _step(step: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    device, git, error, image = step.get("device"), step.get("git"), step.get("error"), step.get("image")
    given = {name: value for name, value in step["parameters"].items() if value not in (None, "")}
    table = {
        "device": device and computes(device),
        "parameters": _list("=", given, before.get("parameters") == step["parameters"]),
        "CPU time": span(step["cpu_s"]) if step.get("cpu_s") is not None else None,
        "peak memory": human_bytes(step["peak_memory_bytes"]) if step.get("peak_memory_bytes") else None,
        "GPU memory": human_bytes(step["peak_gpu_memory_bytes"]) if step.get("peak_gpu_memory_bytes") else None,
        "GPU in use": None
        if step.get("mean_gpu_utilisation") is None
        else f"{step['mean_gpu_utilisation']:.0f} % on average",
        "commit": git and str(git.get("commit"))[:12] + (" (changed since)" if git.get("dirty") else ""),
        "image": _image(image) if isinstance(image, Mapping) else image,
        "versions": _list(" ", step["versions"], before.get("versions") == step["versions"]),
        "paused" if step["status"] == "paused" else "error": error and f"{error['kind']}: {error['message']}",
        "hint": error and " ".join(str(error.get("hint") or "").split()),
    }
    took = span(step["wall_s"]) if step.get("wall_s") is not None else "not ended"
    head = f"  {step['stage']}: {step['status']} on {step.get('place')}, {took}"
    return [head, *(line for name, value in table.items() if value for line in _wrapped(name, str(value)))]


def _moment(text: Any) -> str:
    return f"{str(text)[:16].replace('T', ' ')} UTC"


def _list(between: str, facts: Mapping[str, Any], is_known: bool) -> str:  # noqa: FBT001
    if is_known and facts:
        return "as above"
    return ", ".join(f"{name}{between}{value}" for name, value in facts.items())


def _wrapped(name: str, value: str, indent: str = "    ") -> list[str]:
    first = f"{indent}{name.ljust(12)} "
    return textwrap.wrap(
        value,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _image(image: Mapping[str, Any]) -> str | None:
    # Outside it, the lock says nothing of what computed.
    if not image.get("inside"):
        return None
    name = ":".join(str(image[part]) for part in ("image", "tag") if image.get(part))
    known = [
        str(image["digest"])[:19] if image.get("digest") else "",
        f"commit {image['commit'][:12]}" if image.get("commit") else "",
    ]
    return ", ".join(filter(None, [name, *known]))


def _epochs(history: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [name for name in history[0] if name != "learning_rate"]
    names += [name for name in history[-1] if name not in names and name != "learning_rate"]
    rows = [{told(name): _rounded(name, entry.get(name)) for name in names} for entry in history]
    lines, left_out = show.table(rows).splitlines(), len(rows) - FIRST - LAST
    if left_out <= 1:
        return lines
    return [*lines[: 2 + FIRST], f"  ... {left_out:,} epochs", *lines[-LAST:]]


def _rounded(name: str, value: Any) -> Any:
    """Seconds to a tenth, as wide as their head."""
    return f"{value:7.1f}" if name == "seconds" and isinstance(value, int | float) else value
