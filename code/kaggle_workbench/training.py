"""What 02-train needs to fit a network: seeded batches and the run's callbacks.

Importing this module does not import Keras, so that a notebook may do so before it has decided
what computes; the classes come when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kaggle_workbench.batches import Batches
    from kaggle_workbench.callbacks.progress import Progress
    from kaggle_workbench.callbacks.recorder import Recorder
    from kaggle_workbench.records import Run

__all__ = ["Batches", "Progress", "Recorder", "callbacks"]

_WHERE = {"Batches": "batches", "Progress": "callbacks.progress", "Recorder": "callbacks.recorder"}


class HasRun(Protocol):
    """Anything with a run; a stage, most often."""

    run: Run


def callbacks(stage: HasRun, batches: Batches | None = None) -> list[Any]:
    """The callbacks of a stage's run, for `model.fit(..., callbacks=callbacks(stage, batches), verbose=0)`.

    Args:
        stage: As `open_stage` gave it.
        batches: The training data, so that their order follows the epoch's number.

    Returns:
        Keras callbacks: each epoch into the record, and progress.
    """
    from kaggle_workbench.callbacks.progress import Progress
    from kaggle_workbench.callbacks.recorder import Recorder

    made: list[Any] = [Recorder(stage.run, batches)]
    # Here, in this order: boards.ScalarLog, guard.DeviceGuard.
    made.append(Progress())
    return made


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"kaggle_workbench.{_WHERE[name]}"), name)
