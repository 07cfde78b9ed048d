"""Going on with a run: which one, with which parameters, and what is left to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaggle_workbench import provenance, records, show
from kaggle_workbench.errors import MissingError, UsageError, WorkError
from kaggle_workbench.records import Run
from kaggle_workbench.settings import Settings, load_settings
from kaggle_workbench.stages import parameters, stored

# What decides a training's result; the rest (GPUs, folders, limits) is the place's.
CARRIED = ("SEED", "EPOCHS", "BATCH_SIZE", "RECIPE", "PRECISION", "KERAS_BACKEND")


def find(given: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The settings for going on with a run: its name, competition and source, unless they were given.

    Args:
        given: Settings by name, as of the command line.
        text: The run's name, or an unambiguous beginning of it; here or in the store.

    Raises:
        UsageError: No such run, several, or RUN_ID is given as well.
        MissingError: It is not here, and the store does not answer.
    """
    if given.get("RUN_ID"):
        raise UsageError("--resume and RUN_ID both name a run.", hint="Leave one of them out.")
    settings = load_settings(given)
    run_id = stored.locate(settings, text)
    look(settings, run_id, checkpoints=True)
    record = Run.open(settings.output_dir, run_id).read()
    own = {"COMPETITION": record["competition"], "SOURCE": record["source"]}
    if given.get("COMPETITION") not in (None, own["COMPETITION"]):
        raise UsageError(
            f"Run {run_id} belongs to {own['COMPETITION']} ({own['SOURCE']}), not to {given['COMPETITION']}.",
            hint="Leave --competition out, or resume another run.",
        )
    return {**own, **given, "RUN_ID": run_id}


def look(settings: Settings, run_id: str, *, checkpoints: bool) -> None:
    """Bring the run from the store when it is newer there; a store that does not answer is said, not waited for."""
    store = stored.store_of(settings, limit_s=stored.LOOK_S)
    if store is None:
        return
    try:
        stored.bring(settings, store, run_id, checkpoints=checkpoints)
    except MissingError as error:
        if not is_here(settings, run_id):
            show.warn(f"{error.message} Whether it holds run {run_id} is not known.")
        else:
            show.warn(f"{error.message} Going on with the copy of run {run_id} that is here.")


def is_here(settings: Settings, run_id: str) -> bool:
    """Whether the run's folder holds a record."""
    return (settings.output_dir / "runs" / run_id / records.RECORD_FILE).is_file()


def goes_on(record: Mapping[str, Any], folder: Path) -> bool:
    """Whether a training in this run takes up an earlier one: there was one, and it left checkpoints."""
    trained = any(step["stage"] == "train" for step in record["steps"])
    checkpoints = folder / stored.CHECKPOINTS
    return trained and checkpoints.is_dir() and any(not path.name.startswith(".") for path in checkpoints.iterdir())


def carried(settings: Settings, given: Mapping[str, Any], run: Run) -> tuple[dict[str, Any], list[str]]:
    """The parameters that a run is trained with once more: those of its record, unless others are given.

    Args:
        settings: Settings in force without the record.
        given: What was given on the command line or in the notebook, by name.
        run: The run.

    Returns:
        Settings by name to lay over, and a sentence for each difference; nothing when it was never trained.
    """
    record = run.read()
    trained = [step for step in record["steps"] if step["stage"] == "train"]
    # Also those of a training that was stopped before its first checkpoint, but not of one that was refused.
    step = ([step for step in trained if not _was_refused(step, record)] or trained or [{}])[-1]
    known = {name: value for name, value in step.get("parameters", {}).items() if value is not None}
    taken: dict[str, Any] = {}
    said = []
    for name in CARRIED:
        if name not in known:
            continue
        now, before = getattr(settings, name.lower()), known[name]
        if given.get(name) is None:
            taken[name] = before
            if now != before and name in settings.origins:
                said.append(f"{name} is {before}, as in the run so far, not {now} ({settings.origins[name]}).")
        elif now != before:
            said.append(f"{name} is {now} now; the run so far had {before}.")
    return taken, said


def carried_own(own: Mapping[str, Any], run: Run, notebook: Path) -> tuple[dict[str, Any], list[str]]:
    """The notebook's own parameters that a run is trained with once more: those of its record, unless given.

    Args:
        own: What was given, by name.
        run: The run.
        notebook: The training's notebook; what it does not declare any more is left out.

    Returns:
        Parameters by name to lay over, and a sentence for each that differs.
    """
    known = parameters.of_record(run.read(), notebook)
    taken = {name: value for name, value in known.items() if name not in own}
    said = [
        f"{name} is {own[name]} now; the run so far had {before}."
        for name, before in known.items()
        if name in own and own[name] != before
    ]
    return taken, said


def _was_refused(step: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether a training ended with wrong use (the parameters of another training, say) and no checkpoint."""
    written = (record["checkpoint"] or {}).get("written") or ""
    return (step["error"] or {}).get("kind") == UsageError.__name__ and (step["started"] or "") > written


def left_to_do(record: Mapping[str, Any]) -> list[str]:
    """Which stages of a run are not done: training, then the submission."""
    done = {step["stage"] for step in record["steps"] if step["status"] == "done"}
    if not records.trained_at(record):
        return ["train", "submit"]
    return [] if "submit" in done else ["submit"]


def settle(run: Run, name: str) -> None:
    """Close steps that ended without a word; refuse a run whose training is at work.

    Raises:
        UsageError: Another process trains this run.
    """
    for step in run.read()["steps"]:
        if step["status"] != "running" or step["process"].get("pid") == os.getpid():
            continue
        alive = provenance.is_gone(step["process"]) is False
        if alive and name == step["stage"] == "train":
            raise UsageError(
                f"Run {run.id} is being trained by another process already (process {step['process'].get('pid')}).",
                hint="Wait for its end or stop it, or train under another RUN_ID.",
            )
        if not alive:
            message = "This step ended without a last word: its process or its session was ended."
            run.settle(WorkError(message, hint="Run the stage again; a training goes on with --resume."))
            return
