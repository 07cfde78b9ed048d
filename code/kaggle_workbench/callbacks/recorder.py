"""Each epoch into the run's record."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import keras

from kaggle_workbench.errors import WorkError
from kaggle_workbench.records import Run


class Recorder(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes each epoch into the run's record, and stops a training whose loss is no number.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.history: list[dict[str, Any]] | None = None
        self.spent = 0.0
        self.started: float | None = None

    def get_state(self) -> dict[str, Any]:
        """For a checkpoint: the epochs so far, and the seconds the one at hand has taken."""
        spent = self.spent + (time.perf_counter() - self.started if self.started is not None else 0.0)
        return {"history": self.history or [], "spent": spent}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """From a checkpoint; the record gets its epochs back at once."""
        self.history, self.spent = list(state["history"]), float(state["spent"])
        self.run.update(history=self.history)

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        self.history, self.spent, self.started = None, 0.0, None

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        if self.history is None:
            # A training that is taken up in the middle keeps the epochs before.
            self.history = [entry for entry in self.run.read()["history"] if entry["epoch"] <= epoch]
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras.

        Raises:
            WorkError: The loss is no number any more.
        """
        seconds = self.get_state()["spent"]
        self.spent, self.started = 0.0, None
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        self.history = [*(self.history or ()), {"epoch": epoch + 1, "seconds": round(seconds, 3), **numbers}]
        self.run.update(history=self.history)
        if not math.isfinite(numbers.get("loss", 0.0)):
            raise WorkError(
                f"The training broke down in epoch {epoch + 1}: its loss is no number any more.",
                hint="Lower the learning rate, and look for missing values in the data.",
            )
