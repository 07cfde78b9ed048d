"""`open_stage`: what a notebook opens first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kaggle_workbench import devices, envfiles, mirror, records
from kaggle_workbench.competition.connect import source_kind
from kaggle_workbench.errors import UsageError
from kaggle_workbench.masking import hidden
from kaggle_workbench.records import Run
from kaggle_workbench.settings import SETTINGS, Settings, load_settings
from kaggle_workbench.stages import parameters as notebook_parameters
from kaggle_workbench.stages import resume as going_on
from kaggle_workbench.stages import stored
from kaggle_workbench.stages.data import DataStage
from kaggle_workbench.stages.stage import Stage, executed
from kaggle_workbench.stages.stored import trained_last
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
    given = {key: value for key, value in parameters.items() if key not in own and value is not None}
    # What it was executed with, also where the notebook does not hand it over.
    own = {**notebook_parameters.from_environment(), **own}
    settings = load_settings(given)
    for key, value in settings.extra.items():
        os.environ.setdefault(key, value)
    kind = source_kind(settings)
    store = stored.store_of(settings)
    mirror.start(settings)
    run = _run(name, settings, kind)
    said: list[str] = []
    goes_on = name == "train" and going_on.goes_on(run.read(), run.folder)
    if name == "train":
        taken, said = going_on.carried(settings, given, run)
        settings = load_settings({**given, **taken})
    devices.prepare(settings)
    going_on.settle(run, name)
    stage = STAGES[name](settings, run, kind, own, store=store, goes_on=goes_on)
    stage.notes += said
    watch(stage)
    try:
        stage.begin()
    except BaseException as error:
        stage.step.end(error)
        stage.close()
        raise
    if name == "train":
        _say_limits(stage)
    return stage


def _say_limits(stage: Stage) -> None:
    """What ends this session and where checkpoints go: on the card, and in the log where there is no card."""
    sentences = [stage.deadline.sentence()]
    if stage.store is not None:
        sentences.append(f"Checkpoints and results also go to {stage.store.address}.")
    sentences = [sentence for sentence in sentences if sentence]
    stage.notes += sentences
    if executed():
        for sentence in sentences:
            print(sentence)


def _run(name: str, settings: Settings, kind: str) -> Run:
    hide = hidden(settings)
    output, slug = settings.output_dir, settings.competition
    # `kwb run` has looked into the store already.
    if settings.run_id and settings.store and not executed():
        going_on.look(settings, settings.run_id, checkpoints=name == "train")
    if settings.run_id and going_on.is_here(settings, settings.run_id):
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
    if settings.run_id:
        raise UsageError(
            f"There is no run {settings.run_id!r}, so there is nothing to submit.",
            hint="Run 02-train to its end first.",
        )
    return Run.open(output, trained_last(settings, kind), hide=hide)


def _is_misspelt(name: str) -> bool:
    return envfiles.closest(name, list(SETTINGS)) is not None
