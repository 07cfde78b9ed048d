"""The demo: the whole loop on the practice digits, ending in one readable verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.errors import WorkError
from kaggle_workbench.stages.execute import run_stages

# Over 99 % of the hidden rows in a quarter of a minute; 02-train's own defaults are for accuracy on Kaggle's data.
DEMO = {"COMPETITION": "digit-recognizer", "SOURCE": "practice", "RECIPE": "fast", "EPOCHS": 8}


def demo() -> dict[str, Any]:
    """Run data, train and submit on the practice digits; no account, no GPU, no Docker.

    Returns:
        The run's record.

    Raises:
        WorkError: The run ended without a score.
    """
    show.note(f"Demo: practice digits, {DEMO['EPOCHS']} epochs of the fast recipe instead of 20 of the reference one.")
    run = run_stages(overrides=DEMO)
    if run is None:
        raise WorkError("The demo did not run.", hint="Run it again: ./kwb demo.")
    record = run.read()
    if not record["lb"] or not record["cv"]:
        raise WorkError("The demo ended without a score.", hint=f"Look into {run.folder}.")
    print(verdict(record, run.folder))
    return record


def verdict(record: dict[str, Any], folder: Path) -> str:
    """The lines a run ends with: CV, public and private score, rank, folder."""
    cv, lb = record["cv"], record["lb"]
    lines = [
        f"CV accuracy     {cv['score']:.4f}   ({cv['method']}, {show.plural(cv['rows'], 'row')})",
        f"public score    {lb['public']:.4f}",
    ]
    if lb.get("private") is not None:
        lines.append(f"private score   {lb['private']:.4f}")
    if lb.get("rank"):
        lines.append(f"rank            {lb['rank']} of {lb['entries']}")
    return "\n".join([*lines, f"run             {folder}"])
