"""Progress of a training where a person looks: a line per epoch, a bar while an epoch runs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import keras

from kaggle_workbench import show

REFRESH_S = 0.5
BAR_CELLS = 24
# A long training's table must not push the rest of the notebook away.
SHOWN_EPOCHS = 30


class Progress(keras.callbacks.Callback):  # type: ignore[misc]
    """A line per epoch; while a person looks on, also how far the epoch is.

    In a notebook one output is rewritten in place; executed by `kwb run` or in a script, lines are printed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = show.in_notebook() and not os.environ.get("KWB_EXECUTED")
        self.lines: list[str] = []
        self.is_shown = False

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        self.epochs, self.steps = int(self.params["epochs"]), int(self.params["steps"] or 0)
        self.done = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        self.epoch = epoch
        self.first: int | None = None
        self.started = self.shown = time.perf_counter()

    def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras. Not at the batch's end: asking for its numbers would make a GPU wait each time."""
        now = time.perf_counter()
        if self.first is None:
            # Not 0 when the epoch was begun before a stop.
            self.first = batch
        if self.live and now - self.shown > REFRESH_S:
            self.shown = now
            self._show(self._bar(batch, now - self.started))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        seconds = time.perf_counter() - self.started
        names = [name for name in logs or {} if name != "learning_rate"]
        if not self.lines:
            self._say("  epoch" + "".join(f"  {_title(name):>{_width(name)}}" for name in names) + "      time")
        values = "".join(f"  {logs[name]:{_width(name)}.4f}" for name in names) if logs else ""
        self._say(f"{epoch + 1:3d}/{self.epochs:<3d}{values}  {seconds:6.1f} s")
        self.done += 1

    def _say(self, line: str) -> None:
        self.lines.append(line)
        if self.live:
            self._show()
        else:
            print(line, flush=True)

    def _bar(self, batch: int, seconds: float) -> str:
        if not self.steps or not batch:
            return f"{self.epoch + 1:3d}/{self.epochs:<3d}  step {batch}"
        filled = round(BAR_CELLS * batch / self.steps)
        each_s = seconds / max(1, batch - (self.first or 0))
        left_s = each_s * (self.steps - batch + self.steps * (self.epochs - self.epoch - 1))
        bar = "■" * filled + "□" * (BAR_CELLS - filled)
        return (
            f"{self.epoch + 1:3d}/{self.epochs:<3d}  {bar}  step {batch} of {self.steps}, {_span(left_s)} left in all"
        )

    def _show(self, bar: str = "") -> None:
        head, epochs = self.lines[:1], self.lines[1:]
        if len(epochs) > SHOWN_EPOCHS:
            epochs = [f"  ... {len(epochs) - SHOWN_EPOCHS} epochs before", *epochs[-SHOWN_EPOCHS:]]
        content = {"text/plain": "\n".join([*head, *epochs, *([bar] if bar else [])])}
        show.output(content, id=f"progress-{id(self)}", update=self.is_shown)
        self.is_shown = True


def _title(name: str) -> str:
    return f"dev {name[4:]}" if name.startswith("val_") else name


def _width(name: str) -> int:
    return max(12, len(_title(name)))


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
