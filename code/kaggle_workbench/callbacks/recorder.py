"""Each epoch into the run's record."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import keras

from kaggle_workbench.batches import Batches
from kaggle_workbench.errors import WorkError
from kaggle_workbench.records import Run


class Recorder(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes each epoch into the run's record, and stops a training whose loss is no number.

    Args:
        run: The run.
        batches: Its training data; told which epoch begins, so that their order is that epoch's.
    """

    def __init__(self, run: Run, batches: Batches | None = None) -> None:
        super().__init__()
        self.run, self.batches = run, batches
        self.history: list[dict[str, Any]] | None = None

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        if self.history is None:
            # A training that is taken up in the middle keeps the epochs before.
            self.history = [entry for entry in self.run.read()["history"] if entry["epoch"] <= epoch]
        self.started = time.perf_counter()
        if self.batches is not None:
            self.batches.start_epoch(epoch)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras.

        Raises:
            WorkError: The loss is no number any more.
        """
        seconds = time.perf_counter() - self.started
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        self.history = [*(self.history or ()), {"epoch": epoch + 1, "seconds": round(seconds, 3), **numbers}]
        self.run.update(history=self.history)
        if not math.isfinite(numbers.get("loss", 0.0)):
            raise WorkError(
                f"The training broke down in epoch {epoch + 1}: its loss is no number any more.",
                hint="Lower the learning rate, and look for missing values in the data.",
            )
