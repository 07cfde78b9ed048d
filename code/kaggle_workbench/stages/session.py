"""`open_stage`: what a notebook opens first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kaggle_workbench import devices, envfiles, records
from kaggle_workbench.competition.connect import source_kind
from kaggle_workbench.errors import UsageError
from kaggle_workbench.masking import hidden
from kaggle_workbench.records import Run
from kaggle_workbench.settings import SETTINGS, Settings, load_settings
from kaggle_workbench.stages.data import DataStage
from kaggle_workbench.stages.stage import Stage
from kaggle_workbench.stages.submit import SubmitStage
from kaggle_workbench.stages.train import TrainStage
from kaggle_workbench.stages.watch import watch

STAGES: Mapping[str, type[Stage]] = {"data": DataStage, "train": TrainStage, "submit": SubmitStage}


def open_stage(name: str, **parameters: Any) -> Any:
    """Begin a stage: settings, run, source and, for training, the device.

    Args:
        name: "data", "train" or "submit".
        parameters: The notebook's parameters by name. A setting's value wins unless it is None; names that are
            no settings are the notebook's own and go into the record as they are.

    Returns:
        The stage; as a cell's last value it shows a card.

    Raises:
        UsageError: A wrong setting; or nothing trained that could be submitted.
        MissingError: Something outside is missing; for training, only what it cannot do without.
    """
    if name not in STAGES:
        raise UsageError(f"There is no stage {name!r}.", hint=f"The stages are: {', '.join(STAGES)}.")
    own = {key: value for key, value in parameters.items() if key not in SETTINGS and not _is_misspelt(key)}
    settings = load_settings({key: value for key, value in parameters.items() if key not in own})
    for key, value in settings.extra.items():
        os.environ.setdefault(key, value)
    devices.prepare(settings)
    kind = source_kind(settings)
    stage = STAGES[name](settings, _run(name, settings, kind), kind, own)
    watch(stage)
    try:
        stage.begin()
    except BaseException as error:
        stage.step.end(error)
        stage.close()
        raise
    return stage


def _run(name: str, settings: Settings, kind: str) -> Run:
    hide = hidden(settings)
    output, slug = settings.output_dir, settings.competition
    if settings.run_id and (output / "runs" / settings.run_id / records.RECORD_FILE).is_file():
        run = Run.open(output, settings.run_id, hide=hide)
        record = run.read()
        if (record["competition"], record["source"]) != (slug, kind):
            raise UsageError(
                f"Run {run.id} belongs to {record['competition']} ({record['source']}), not to {slug} ({kind}).",
                hint="Choose another RUN_ID, or leave it out.",
            )
        if name == "submit" and not records.trained_at(record):
            raise UsageError(f"Run {run.id} has no finished training.", hint="Run 02-train to its end first.")
        return run
    if name != "submit":
        return Run.create(output, stage=name, competition=slug, source=kind, run_id=settings.run_id, hide=hide)
    newest = Run.newest(output, competition=slug, source=kind, trained=True, hide=hide)
    if newest is None or settings.run_id:
        what = (
            f"There is no run {settings.run_id!r}" if settings.run_id else f"No run of {slug} ({kind}) is trained yet"
        )
        raise UsageError(f"{what}, so there is nothing to submit.", hint="Run 02-train to its end first.")
    return newest


def _is_misspelt(name: str) -> bool:
    return envfiles.closest(name, list(SETTINGS)) is not None
