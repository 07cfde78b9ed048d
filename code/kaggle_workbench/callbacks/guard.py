"""A watch over the GPU while it trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import keras

from kaggle_workbench.devices import Decision, GpuLostError, GpuWatch


class _Step(Protocol):
    def update(self, **fields: Any) -> None:
        """Into the record of this step."""


class DeviceGuard(keras.callbacks.Callback):  # type: ignore[misc]
    """Checks at the beginning of each epoch that the GPU is still there; writes memory and utilisation.

    A lost GPU ends the training with the checkpoint of the epoch before standing, so that it goes on elsewhere.

    Args:
        step: The step of the run whose record gets `peak_gpu_memory_bytes` and `mean_gpu_utilisation`.
        decision: What computes; on the CPU nothing is done.
        run_id: The run, for the message that says how to go on.
    """

    def __init__(self, step: _Step | None, decision: Decision | None, run_id: str = "") -> None:
        super().__init__()
        self.step, self.run_id = step, run_id
        self.watch = GpuWatch(decision) if decision is not None and decision.kind == "gpu" else None

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        if self.watch is not None:
            self.watch.start()

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras.

        Raises:
            GpuLostError: A GPU is gone; names it, the epoch, and how to go on.
        """
        if self.watch is None:
            return
        try:
            self.watch.check()
        except GpuLostError as error:
            self._write()
            raise GpuLostError(
                f"Before epoch {epoch + 1}: {error.message}",
                hint=f"{error.hint}\nGo on with: ./kwb run train --resume {self.run_id or 'RUN'}",
            ) from error

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras; each epoch, so that a training that is stopped has them too."""
        self._write()

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        if self.watch is not None:
            seen = self.watch.stop()
            if self.step is not None:
                self.step.update(**seen)

    def _write(self) -> None:
        if self.watch is not None and self.step is not None:
            self.step.update(**self.watch.seen())
