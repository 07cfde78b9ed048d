"""The table of a study: one row for each trial, whatever became of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaggle_workbench.files import write_atomic, write_json
from kaggle_workbench.records import RECORD_FILE, Run
from kaggle_workbench.tuning.study import ERROR, PARAMETERS, RUN, TABLE, VARIANT, Study

STATES: Mapping[str, str] = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "not done"}


def rows(study: Study, runs: Path) -> list[dict[str, Any]]:
    """One row for each trial.

    Args:
        study: The study.
        runs: Folder of the runs.
    """
    return [_row(trial, runs) for trial in study.trials()]


def write(study: Study, runs: Path) -> list[dict[str, Any]]:
    """Write table.csv and table.json into the study's folder, and give the rows."""
    made = rows(study, runs)
    write_json(study.folder / f"{TABLE}.json", made)
    flat = [{**{k: v for k, v in row.items() if k != PARAMETERS}, **row[PARAMETERS]} for row in made]
    names = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in flat)
    write_atomic(study.folder / f"{TABLE}.csv", text.getvalue())
    return made


def shown(made: list[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """The rows as people read them."""
    return [
        {
            "trial": row["trial"],
            "status": row["status"],
            **row[PARAMETERS],
            f"CV {metric}": row["value"],
            "train": row["train"],
            "epochs": row["epochs"],
            "error": row["error"],
        }
        for row in made
    ]


def verdict(made: list[dict[str, Any]], metric: str, *, greater_is_better: bool) -> str:
    """Which trial was the best, in one sentence; and that all were alike, when they were."""
    done = [row for row in made if row["value"] is not None]
    if not done:
        return "No trial has a score."
    best = (max if greater_is_better else min)(done, key=lambda row: row["value"])
    values = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in best[PARAMETERS].items()
    )
    if len(done) > 1 and len({row["value"] for row in done}) == 1:
        return (
            f"All {len(done)} trials have the CV {metric} {best['value']:.5f}: what was varied does not touch the "
            "model that did best in each (see ./kwb runs show RUN)."
        )
    return f"Best: trial {best['trial']} ({values}), CV {metric} {best['value']:.5f}, run {best['run']}"


def _row(trial: Any, runs: Path) -> dict[str, Any]:
    attributes = trial.user_attrs
    run_id = attributes.get(RUN)
    record = Run(runs / run_id).read() if run_id and (runs / run_id / RECORD_FILE).is_file() else {}
    history = record.get("history") or []
    last = history[-1] if history else {}
    score = "accuracy" if "accuracy" in last else "loss"
    return {
        "trial": trial.number,
        "run": run_id,
        "status": STATES[trial.state.name],
        "by": "variant" if VARIANT in attributes else "sampled",
        PARAMETERS: dict(attributes.get(PARAMETERS) or {}),
        "value": trial.value if trial.state.name == "COMPLETE" else None,
        "train": last.get(score),
        "dev": last.get(f"val_{score}"),
        "epochs": len(history),
        "seconds": round(sum(entry.get("seconds") or 0 for entry in history), 1),
        "error": attributes.get(ERROR) or None,
    }


def _cell(value: Any) -> Any:
    # A text that a spreadsheet would take for a formula.
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@")) else value
