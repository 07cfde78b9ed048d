"""From which checkpoint a training goes on, and how it is put back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from kaggle_workbench import show
from kaggle_workbench.callbacks import rng, state
from kaggle_workbench.callbacks.remember import Memory
from kaggle_workbench.checkpoints import Checkpoint, CheckpointFolder
from kaggle_workbench.checkpoints.differences import compare
from kaggle_workbench.checkpoints.values import pack, unpack
from kaggle_workbench.errors import UsageError


def choose(
    run_id: str, folder: CheckpointFolder, told: Mapping[str, Any], *, force: bool, try_again: bool
) -> Checkpoint | None:
    """The newest checkpoint, if it is of this training; None when there is none.

    Args:
        run_id: The run, for messages.
        folder: Its checkpoints.
        told: This training's fingerprint.
        force: Go on from a checkpoint of another training.
        try_again: Put that one away instead: the person has begun it in this notebook, and changed something since.

    Raises:
        UsageError: The checkpoint is of another training.
    """
    found = folder.newest()
    if found is None:
        if folder.names():
            show.warn(f"Run {run_id} has no whole checkpoint: the training begins anew.")
        # They would take the place of new ones, which have lower numbers.
        folder.remove_after((-1, 0))
        return None
    comparison = compare(found.head["fingerprint"], told)
    if comparison.differences and try_again and not force:
        show.note(f"Changed since the training before: {comparison.sentence()}. It begins anew.")
        folder.remove_after((-1, 0))
        return None
    if comparison.differences and not force:
        raise UsageError(
            f"Run {run_id} has a checkpoint ({found.words()}) of another training: {comparison.sentence()}.",
            hint="For a new training take another RUN_ID (or none). To go on from that checkpoint all the same: "
            f"FORCE_RESUME=true, or `./kwb run train --resume {run_id} --force`.",
        )
    if comparison.differences:
        show.warn(f"Going on from a checkpoint of another training, as asked: {comparison.sentence()}.")
    elif comparison.notes:
        show.note(
            f"Since the checkpoint of run {run_id} has changed: {'; '.join(comparison.notes)}. The training goes on; "
            "its numbers may differ a little from those of one that was not stopped."
        )
    return found


def put_back(
    model: Any, found: Checkpoint, example: Any, memory: Memory, kept: Sequence[keras.callbacks.History]
) -> bool:
    """Put back what a checkpoint holds.

    Args:
        model: Compiled; its weights are made when it has none.
        found: The checkpoint.
        example: A batch of the training data, or None.
        memory: The training's callbacks.
        kept: Keras' own histories among them.

    Returns:
        False: its weights do not fit, and nothing was put back.
    """
    state.build(model, example)
    misfits = state.misfits(model, found.arrays)
    if state.NEEDED in misfits:
        show.warn(f"The checkpoint's weights do not fit ({misfits[state.NEEDED]}): the training begins anew.")
        return False
    state.restore(model, found.arrays, state.NEEDED)
    if "optimizer" in misfits:
        show.warn(f"The optimizer's state does not fit ({misfits['optimizer']}): the optimizer begins anew.")
    else:
        state.restore(model, found.arrays, "optimizer")
    memory.restore(found.head["callbacks"], found.arrays)
    for history, content in zip(kept, found.head["history"], strict=False):
        told = unpack(content, found.arrays)
        history.epoch, history.history = told["epoch"], told["history"]
    # Last: building and the callbacks may have drawn from them.
    rng.restore(found.head["rng"], found.arrays)
    return True


def histories(kept: Sequence[keras.callbacks.History]) -> list[Any]:
    """What Keras' own histories hold, as JSON."""
    arrays: dict[str, Any] = {}
    plain = [
        {
            "epoch": [int(epoch) for epoch in one.epoch],
            "history": {k: list(map(_number, v)) for k, v in one.history.items()},
        }
        for one in kept
    ]
    return [pack(one, arrays, "history") for one in plain]


def sentence(run_id: str, found: Checkpoint, epochs: int, *, over: bool) -> str:
    """What a person should know when a training goes on."""
    written = str(found.head["written"])[:16].replace("T", " ")
    where = f"checkpoint of {written} UTC"
    if not over:
        in_all = f"{epochs} in all; " if epochs < sys.maxsize else ""
        return f"Run {run_id} goes on after {found.words()} ({in_all}{where})."
    how = f"{found.epoch} epochs are trained"
    if found.head.get("stopped"):
        how = f"the training was ended by a callback after epoch {found.epoch}"
    return f"Run {run_id} is trained already: {how} ({where}). Its weights are put back, nothing is trained again."


def is_better_upwards(model: Any, monitor: str) -> bool:
    """Whether more of a number is better, as its metric says; of a loss never."""
    name = monitor.removeprefix("val_")
    for metric in model.metrics:
        for one in getattr(metric, "metrics", [metric]):
            if one.name == name and getattr(one, "_direction", None):
                return bool(one._direction == "up")
    return "acc" in name or "auc" in name.lower()


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float | str) else float(value)
