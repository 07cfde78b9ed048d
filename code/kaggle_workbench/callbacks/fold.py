"""One fold of a cross-validation: progress in one line, and a stop between steps when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from kaggle_workbench import show
from kaggle_workbench.callbacks.progress import Progress
from kaggle_workbench.deadline import paused


class FoldProgress(Progress):
    """While a person looks on, where a fold is; nothing stays, since its score is printed at its end."""

    def __init__(self, fold: int, of: int) -> None:
        super().__init__()
        self.name = f"fold {fold + 1}/{of}"

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        if self.live:
            values = "".join(f"  {name} {logs[name]:.4f}" for name in logs if name != "learning_rate") if logs else ""
            self._show(f"epoch {epoch + 1}/{self.epochs}{values}")

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        if self.live and self.is_shown:
            show.output({"text/plain": ""}, id=f"progress-{id(self)}", update=True)

    def _show(self, bar: str = "") -> None:
        show.output({"text/plain": f"{self.name}  {bar.strip()}"}, id=f"progress-{id(self)}", update=self.is_shown)
        self.is_shown = True


class FoldStop(keras.callbacks.Callback):  # type: ignore[misc]
    """Stops a fold when a person or the end of the session asks for it; folds that are done are kept.

    Args:
        stage: The stage, with its run, pause and deadline.
    """

    def __init__(self, stage: Any) -> None:
        super().__init__()
        self.run, self.pause, self.deadline = stage.run, stage.pause, stage.deadline

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras: from here on signals ask."""
        self.pause.__enter__()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras.

        Raises:
            PausedError: A stop was asked for.
        """
        asked = self.pause.asked()
        if asked or self.deadline.due():
            self.pause.release()
            why = f"{asked}." if asked else "The session ends soon."
            raise paused(self.run.id, f"{why} The training is paused; the folds so far are kept.")

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        self.pause.__exit__(None, None, None)
