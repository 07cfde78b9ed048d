"""A training that can be stopped at any moment, and goes on from its last checkpoint as if it had not been.

Two callbacks do it: `Checkpointer` is called first, and puts `_Last` at the end of Keras' list. What a checkpoint holds
is taken when all other callbacks have done their part, and put back when all of them have begun.
"""

from __future__ import annotations

import math
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import keras

from kaggle_workbench import show
from kaggle_workbench.batches import Batches
from kaggle_workbench.callbacks import resume, rng, state
from kaggle_workbench.callbacks.fingerprint import fingerprint
from kaggle_workbench.callbacks.fitting import Fit
from kaggle_workbench.callbacks.remember import Held, Memory
from kaggle_workbench.checkpoints import BackgroundWriter, Checkpoint, CheckpointFolder, TrainingLock
from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.records import Run
from kaggle_workbench.settings import Settings

FOLDER = "checkpoints"
KEEP = 3
DEFAULT_MINUTES = 10.0
# How many trainings a run has seen to their end in this process: a second `fit` is another one, with its own series.
_done: weakref.WeakKeyDictionary[Run, int] = weakref.WeakKeyDictionary()
# Which of them were begun from nothing in this process: a person may change the network and try again.
_begun: weakref.WeakKeyDictionary[Run, set[int]] = weakref.WeakKeyDictionary()

Logs = Mapping[str, float] | None


class Checkpointer(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes checkpoints of a run's training, and goes on from the newest one.

    A checkpoint is written at the end of each epoch, every `CHECKPOINT_MINUTES` within one, and when the session's end
    or a person asks for a pause; then the training stops with `PausedError`. Within an epoch that works with
    `Batches` only: the order of other data cannot be put back, so their training goes on at an epoch's beginning.

    Args:
        run: The run.
        batches: Its training data.
        settings: For `checkpoint_minutes` and `force_resume`.
        deadline: Tells with `due(needed_s)` whether the session ends.
        pause: Tells with `asked()` what asks for a stop; entered and left with the training.
        upload: Called with each file and its name in a store, `<run>/checkpoints/<file>`.
        store: Where `upload` leads, for people.
        monitor: The number that says which epoch was the best; without it among an epoch's numbers, "loss".
    """

    def __init__(
        self,
        run: Run,
        batches: Batches | None = None,
        settings: Settings | None = None,
        *,
        deadline: Any = None,
        pause: Any = None,
        upload: Callable[[Path, str], None] | None = None,
        store: str | None = None,
        monitor: str = "val_loss",
    ) -> None:
        super().__init__()
        self.run, self.batches, self.settings, self.monitor = run, batches, settings, monitor
        self.deadline, self.pause, self.upload, self.store = deadline, pause, upload, store
        self.writer = BackgroundWriter()
        self._said: set[str] = set()

    # --- Beginning ---

    def on_train_begin(self, logs: Logs = None) -> None:
        """Called by Keras.

        Raises:
            UsageError: Another process trains this run, or its checkpoint is of another training.
        """
        self.lock = TrainingLock(self.run.folder)
        self.lock.acquire()
        try:
            self._begin()
        except BaseException:
            self._leave()
            raise

    def _begin(self) -> None:
        self.fit = Fit.find(self)
        self.data = self._seeded_data()
        number = _done.get(self.run, 0) + 1
        folder = self.run.folder / FOLDER
        self.folder = CheckpointFolder(folder, series=number, keep=KEEP, upload=self._uploader())
        self.folder.clean()
        if self.data is not None:
            self.data.go_on_from(0)
        self.told = fingerprint(self.model, self.fit, self.data)
        # Not needed any more, and large.
        self.fit.arguments = {}
        self.interval_s = self._interval()
        self.found = resume.choose(
            self.run.id,
            self.folder,
            self.told,
            force=bool(getattr(self.settings, "force_resume", False)),
            try_again=number in _begun.get(self.run, ()),
        )
        if self.found is None:
            _begun.setdefault(self.run, set()).add(number)
        self.best: dict[str, Any] | None = None
        self.epoch, self.step, self.offset = 0, 0, 0
        self.written = self.checked = time.monotonic()
        self.checks = 0
        self.longest_gap_s = self.capture_s = 0.0
        if self.pause is not None:
            self.pause.__enter__()
        if self.fit.callbacks is None:
            show.note("The other callbacks of this training cannot be found; their state is not in its checkpoints.")
            self.begun([])
        else:
            self.fit.callbacks.callbacks.append(_Last(self))

    def begun(self, callbacks: list[Any]) -> None:
        """Called when all callbacks have begun: put back what the checkpoint holds."""
        self.memory = Memory([one for one in callbacks if not isinstance(one, Checkpointer | _Last)])
        self.histories = [one for one in callbacks if isinstance(one, keras.callbacks.History)]
        if self.found is None:
            return
        epochs = self._epochs()
        example = self.data[0] if self.data is not None else None
        if not resume.put_back(self.model, self.found, example, self.memory, self.histories):
            self.folder.remove_after((-1, 0))
            self.found = None
            return
        if self.data is not None and self.found.step >= len(self.data):
            # Forced, with fewer batches than before: that epoch is begun again.
            self.found.step = 0
        self.best = self.found.head.get("best")
        self.folder.remove_after(self.found.place)
        over = bool(self.found.head.get("stopped")) or self.found.epoch >= epochs
        show.note(resume.sentence(self.run.id, self.found, epochs, over=over))
        self.model._initial_epoch = max(epochs, self.found.epoch) if over else self.found.epoch
        if self.data is not None and not over:
            self.data.go_on_from(*self.found.place)

    # --- Epochs and steps ---

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Called by Keras."""
        # Read by Keras once, before the first epoch; left standing it would hold for every later fit.
        self._model._initial_epoch = None
        self.epoch, self.step, self.offset = epoch, 0, 0
        self.checked = time.monotonic()
        found = self.found
        if found is not None and found.epoch != epoch:
            self._say_once(
                f"The training begins with epoch {epoch + 1} from a checkpoint of {found.words()}: its loop does not "
                "ask model._initial_epoch, as model.fit does. Begin it there yourself."
            )
        if self.data is None:
            self.found = None
            return
        self.data.start_epoch(epoch)
        steps = self.data.num_batches
        self.offset = self.fit.begin_epoch(len(self.data), len(self.data) - steps)
        if found is not None and found.step and found.epoch == epoch:
            self.step = found.step
            # After Keras' own reset, which comes before this call.
            if "metrics" not in state.misfits(self.model, found.arrays):
                state.restore(self.model, found.arrays, "metrics")
        else:
            # Its arrays are as large as the model.
            self.found = None

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Called by Keras. Not at the batch's end: asking for its numbers would make a GPU wait each time."""
        self.step = batch + self.offset
        now = self._note_gap()
        if self.found is not None:
            # Reading the first batch may have drawn from them; when the checkpoint was taken, it was read already.
            rng.restore(self.found.head["rng"], self.found.arrays)
            self.found = None
        why = self._why_stop()
        if why:
            self._stop(why)
        if self.data is not None and self.step and now - self.written > self.interval_s:
            self.save(self.epoch, self.step)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Called by Keras; used only where no `_Last` could be put behind the others."""
        if self.fit.callbacks is None:
            self.end_epoch(epoch, logs)

    def on_train_end(self, logs: Logs = None) -> None:
        """Called by Keras; as `on_epoch_end`."""
        if self.fit.callbacks is None:
            self.end()

    def end_epoch(self, epoch: int, logs: Logs = None) -> None:
        """Called when all callbacks have ended an epoch."""
        self._note_gap()
        self.epoch, self.step = epoch + 1, 0
        self.save(epoch + 1, 0, dict(logs or {}))
        why = None if self._is_over(epoch + 1) else self._why_stop()
        if why:
            self._stop(why)

    def end(self) -> None:
        """Called when all callbacks have ended the training."""
        self._surface()
        self.found = None
        self.model._initial_epoch = None
        if self.data is not None:
            self.data.go_on_from(0)
        _done[self.run] = _done.get(self.run, 0) + 1
        self._leave()

    # --- Writing ---

    def save(self, epoch: int, step: int, logs: Mapping[str, Any] | None = None) -> None:
        """Take a checkpoint now; it is written while the training goes on.

        Args:
            epoch: Epochs done.
            step: Steps done after those.
            logs: The numbers of the epoch that has just ended, if one has.
        """
        self._surface()
        began = time.perf_counter()
        arrays = state.capture(self.model)
        loss = (logs or {}).get("loss", 0.0)
        if not (math.isfinite(loss) and state.is_finite(self.model, arrays)):
            self._say_once("The network's weights are no numbers any more: no checkpoint is written of that.")
            return
        if not step:
            # Keras begins each epoch with new sums.
            arrays = {name: array for name, array in arrays.items() if not name.startswith("metrics/")}
        checkpoint = Checkpoint(epoch, step, finished=self._is_over(epoch) and not step, arrays=arrays)
        self._note_best(checkpoint, logs)
        checkpoint.head = {
            "run": self.run.id,
            "written": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "stopped": bool(getattr(self._model, "stop_training", False)) and not step,
            "epochs": self._epochs(),
            "best": self.best,
            "history": resume.histories(self.histories),
            "rng": rng.capture(arrays),
            "fingerprint": self.told,
        }
        held = self.memory.look()
        self.written = time.monotonic()
        self.capture_s = max(self.capture_s, time.perf_counter() - began)
        self.writer.submit(lambda: self._write(checkpoint, held))

    def _write(self, checkpoint: Checkpoint, held: list[Held]) -> None:
        checkpoint.head["callbacks"] = self.memory.reduce(held, checkpoint.arrays)
        try:
            path, digest = self.folder.write(checkpoint)
        except WorkbenchError as error:
            raise _NotWrittenError(
                f"The checkpoint of {checkpoint.words()} was not written: {error.message}"
            ) from error
        # As the record tells all paths: from the run's folder.
        entry = {
            "epoch": checkpoint.epoch,
            "step": checkpoint.step,
            "file": path.relative_to(self.run.folder).as_posix(),
            "sha256": digest,
            "written": checkpoint.head["written"],
            "best": checkpoint.head["best"],
        }
        self.run.update(checkpoint=entry)

    def _note_best(self, checkpoint: Checkpoint, logs: Mapping[str, Any] | None) -> None:
        if not logs:
            return
        monitor = self.monitor if self.monitor in logs else "loss"
        value = logs.get(monitor)
        if value is None or not math.isfinite(value):
            return
        before = self.best if self.best is not None and self.best["monitor"] == monitor else None
        up = resume.is_better_upwards(self._model, monitor)
        if before is None or (value > before["value"] if up else value < before["value"]):
            name = self.folder.file_name(checkpoint)
            self.best = {"monitor": monitor, "value": float(value), "epoch": checkpoint.epoch, "file": name}

    def _surface(self) -> None:
        """Wait for the checkpoint that is being written; what went wrong is said, and the training goes on."""
        try:
            self.writer.wait()
        except (WorkbenchError, OSError) as error:
            # A training without checkpoints is worth more than none; the next one may succeed.
            what = error.message if isinstance(error, WorkbenchError) else str(error)
            newest = next(iter(self.folder.names()), "none")
            self._say_once(f"{what} The training goes on; the newest checkpoint is {newest}.")

    # --- Stopping ---

    def _why_stop(self) -> str | None:
        asked = self.pause.asked() if self.pause is not None else None
        if asked:
            return f"{asked}."
        if self.deadline is not None and self.deadline.due(self._needed_s()):
            return "The session ends soon."
        return None

    def _note_gap(self) -> float:
        """Note the time between two looks at the clock, but for the first step, which makes its code first."""
        now = time.monotonic()
        self.checks += 1
        if self.checks > 2:
            self.longest_gap_s = max(self.longest_gap_s, now - self.checked)
        self.checked = now
        return now

    def _needed_s(self) -> float:
        return 2 * (self.capture_s + self.writer.longest_s) + self.longest_gap_s

    def _stop(self, why: str) -> NoReturn:
        """Write a last checkpoint, and end the training.

        Raises:
            PausedError: Always.
        """
        from kaggle_workbench.deadline import paused

        if self.step and self.data is not None:
            self.save(self.epoch, self.step)
        self._surface()
        newest = self.folder.newest()
        epochs = self._epochs()
        in_all = f" ({epochs} in all)" if epochs < sys.maxsize else ""
        saved = f"saved after {newest.words()}{in_all}" if newest else "before its first checkpoint"
        self._leave()
        raise paused(self.run.id, f"{why} The training is paused, {saved}.", store=self.store)

    def _leave(self) -> None:
        self.lock.release()
        if self.pause is not None:
            # Raises when a stop was asked for and no one has looked.
            self.pause.__exit__(None, None, None)

    # --- Small things ---

    def _seeded_data(self) -> Batches | None:
        """The training data, if their order is known."""
        if self.fit.batches is None:
            return self.batches
        given = self.fit.arguments.get("x")
        if not isinstance(given, Batches):
            show.note(
                "The training data are not training.Batches: their order within an epoch cannot be put back. "
                "Checkpoints are written at the end of each epoch."
            )
            return None
        if getattr(self.fit.batches, "steps_per_epoch", None):
            show.note(
                "With steps_per_epoch the order of Batches is not that of their seed: leave it out. "
                "Checkpoints are written at the end of each epoch."
            )
            return None
        if not self.fit.leave_order_alone():
            show.note("This Keras shuffles the batches once more; model.fit(..., shuffle=False) keeps their order.")
        return given

    def _uploader(self) -> Callable[[Path, str], None] | None:
        upload = self.upload
        return None if upload is None else lambda path, name: upload(path, f"{self.run.id}/{FOLDER}/{name}")

    def _epochs(self) -> int:
        """How many epochs are asked for; a loop of one's own may not tell."""
        return int((self.params or {}).get("epochs") or sys.maxsize)

    def _interval(self) -> float:
        """Longest time between two checkpoints, in seconds."""
        if self.settings is None:
            return 60 * DEFAULT_MINUTES
        from kaggle_workbench.deadline import checkpoint_minutes

        return 60 * checkpoint_minutes(self.settings)

    def _is_over(self, epoch: int) -> bool:
        return bool(getattr(self._model, "stop_training", False)) or epoch >= self._epochs()

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            show.warn(text)


class _NotWrittenError(WorkbenchError):
    """A checkpoint that could not be written."""


class _Last(keras.callbacks.Callback):  # type: ignore[misc]
    """Called after all other callbacks, for a `Checkpointer`."""

    def __init__(self, first: Checkpointer) -> None:
        super().__init__()
        self.first = first

    def on_train_begin(self, logs: Logs = None) -> None:
        """Called by Keras."""
        listed = self.first.fit.callbacks
        others = [one for one in listed.callbacks if one is not self.first and not isinstance(one, _Last)]
        # A new list: Keras walks through the old one now. First the one that looks between two steps, before the
        # others have begun the next; last this one.
        listed.callbacks = [self.first, *others, self]
        try:
            self.first.begun(others)
        except BaseException:
            self.first._leave()
            raise

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Called by Keras."""
        self.first.end_epoch(epoch, logs)

    def on_train_end(self, logs: Logs = None) -> None:
        """Called by Keras."""
        self.first.end()
