"""The lines a run ends with: scores, rank, folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaggle_workbench import show


def verdict(record: Mapping[str, Any], folder: Path) -> str:
    """CV, public and private score, rank, and the run's folder, as far as there are any; a line each.

    Args:
        record: The run's record.
        folder: The run's folder.
    """
    cv, lb = record["cv"] or {}, record["lb"] or {}
    lines = []
    if cv.get("score") is not None:
        by = f" by {cv['model']}" if cv.get("model") not in (None, "network") else ""
        how = f"{cv['method']}, {show.plural(cv['rows'], 'row')}{by}"
        lines.append((f"CV {cv['metric']}", f"{cv['score']:.4f}   ({how})"))
    for name in ("public", "private"):
        if lb.get(name) is not None:
            lines.append((f"{name} score", f"{lb[name]:.4f}"))
    if lb.get("rank"):
        lines.append(("rank", f"{lb['rank']} of {lb['entries']}"))
    lines.append(("run", str(folder)))
    width = max(13, *(len(name) for name, _ in lines)) + 3
    return "\n".join(f"{name:<{width}}{value}" for name, value in lines)
