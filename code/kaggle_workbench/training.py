"""What 02-train needs to fit a network: seeded batches and the run's callbacks.

Importing this module does not import Keras, so that a notebook may do so before it has decided
what computes; the classes come when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kaggle_workbench.batches import Batches
    from kaggle_workbench.callbacks.checkpointer import Checkpointer
    from kaggle_workbench.callbacks.progress import Progress
    from kaggle_workbench.callbacks.recorder import Recorder
    from kaggle_workbench.records import Run

__all__ = ["Batches", "Checkpointer", "Progress", "Recorder", "callbacks", "fold_callbacks"]

_WHERE = {
    "Batches": "batches",
    "Checkpointer": "callbacks.checkpointer",
    "Progress": "callbacks.progress",
    "Recorder": "callbacks.recorder",
}


class HasRun(Protocol):
    """Anything with a run; a stage, most often."""

    run: Run


def callbacks(stage: HasRun, batches: Batches | None = None, *, monitor: str = "val_loss") -> list[Any]:
    """The callbacks of a stage's run, for `model.fit(..., callbacks=callbacks(stage, batches), verbose=0)`.

    Callbacks of your own may stand beside them: `callbacks=[*callbacks(stage, batches), EarlyStopping(...)]`.

    Args:
        stage: As `open_stage` gave it.
        batches: The training data, so that their order follows the epoch's number.
        monitor: The number that says which epoch was the best; its checkpoint is kept.

    Returns:
        Keras callbacks: checkpoints, each epoch into the record, and progress.
    """
    from kaggle_workbench.callbacks.boards import ScalarLog
    from kaggle_workbench.callbacks.checkpointer import Checkpointer
    from kaggle_workbench.callbacks.guard import DeviceGuard
    from kaggle_workbench.callbacks.progress import Progress
    from kaggle_workbench.callbacks.recorder import Recorder

    uploader = getattr(stage, "uploader", None)
    checkpointer = Checkpointer(
        stage.run,
        batches,
        getattr(stage, "settings", None),
        deadline=getattr(stage, "deadline", None),
        pause=getattr(stage, "pause", None),
        upload=None if uploader is None else lambda path, name: uploader.put(name, path),
        store=getattr(getattr(uploader, "store", None), "address", None),
        monitor=monitor,
    )
    made: list[Any] = [checkpointer, Recorder(stage.run), ScalarLog(stage.run.folder)]
    made.append(DeviceGuard(getattr(stage, "step", None), getattr(stage, "device", None), stage.run.id))
    made.append(Progress())
    return made


def fold_callbacks(stage: Any, fold: int) -> list[Any]:
    """The callbacks for one more fold of a cross-validation, for `model.fit(..., verbose=0)`.

    A fold is done again when it is stopped; its checkpoints would be those of another model than the first fold's.

    Args:
        stage: As `open_stage` gave it.
        fold: The fold's number, from 0.

    Returns:
        Keras callbacks: a stop when it is asked for, a watch over the GPU, progress.
    """
    from kaggle_workbench.callbacks.fold import FoldProgress, FoldStop
    from kaggle_workbench.callbacks.guard import DeviceGuard

    guard = DeviceGuard(getattr(stage, "step", None), getattr(stage, "device", None), stage.run.id)
    return [FoldStop(stage), guard, FoldProgress(fold, len(stage.folds))]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"kaggle_workbench.{_WHERE[name]}"), name)
