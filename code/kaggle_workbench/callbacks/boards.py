"""The curves of a training as TensorBoard event files, so that runs can be laid over each other.

Below `<run>/tensorboard/` stand `train` and `dev`; both name a metric alike (`loss`), so that TensorBoard draws them
into one picture. The step is the number of the epoch, from 1 as in the record. All names begin with `epoch/`, since
TensorBoard makes a section of its own for every other beginning.

The files are a copy of the record. Each start of a training writes them anew up to the epoch that begins, so that a
training that is taken up again, here or in another place, shows every epoch once.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import keras

from kaggle_workbench import show
from kaggle_workbench.callbacks import eventfiles
from kaggle_workbench.files import make_folder, write_atomic

FOLDER = "tensorboard"
TRAIN, DEV = "train", "dev"
RATE, SECONDS = "learning_rate", "seconds"
PREFIX = "epoch/"


class Line(NamedTuple):
    """Which curve: `train` or `dev`, and the metric's name."""

    part: str
    tag: str


# Of each epoch (from 1): when it was written, in seconds since 1970, and its numbers.
Epochs = dict[int, tuple[float, dict[Line, float]]]


class ScalarLog(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes each epoch's numbers, the learning rate and the seconds for TensorBoard; it never stops a training.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        # Epoch -> learning rate; the one number here that the record does not hold.
        self.rates: dict[int, float] = {}
        # Seconds that the epoch at hand took before the training was stopped in it, and when it went on.
        self.spent = 0.0
        self.started: float | None = None
        self._files: dict[str, BinaryIO] = {}
        self._begun = False
        self._said = False

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint keeps: in another place the event files are not there."""
        spent = self.spent + (time.perf_counter() - self.started if self.started is not None else 0.0)
        return {"rates": [[epoch, rate] for epoch, rate in self.rates.items() if math.isfinite(rate)], "spent": spent}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Put back what a checkpoint kept."""
        self.rates = {int(epoch): float(rate) for epoch, rate in state["rates"]}
        self.spent = float(state.get("spent", 0.0))

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        self._close()
        self.spent, self.started = 0.0, None

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras. The first one is where a training that is taken up again goes on."""
        self.started = time.perf_counter()
        if not self._begun:
            self._safely(lambda: self._begin(epoch))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        self.rates[epoch + 1] = numbers.setdefault(RATE, self._rate())
        numbers[SECONDS] = self.get_state()["spent"]
        self.spent, self.started = 0.0, None
        self._safely(lambda: self._add(epoch, numbers))

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Called by Keras."""
        self._close()

    def _begin(self, epoch: int) -> None:
        """Write the epochs before `epoch` (counted from 0) into new files, then take the old ones away."""
        self._close()
        folder = self.folder / FOLDER
        old = eventfiles.files(folder)
        known = _merged(_read_record(self.folder), _read_files(old), epoch) if epoch else {}
        for number, (_, numbers) in known.items():
            if math.isfinite(self.rates.get(number, math.nan)):
                numbers.setdefault(Line(TRAIN, RATE), self.rates[number])
        name = eventfiles.new_name(old, time.time())
        self._paths = {part: folder / part / name for part in (TRAIN, DEV)}
        for part, path in self._paths.items():
            content = b"".join(_written(number, at, numbers, part) for number, (at, numbers) in sorted(known.items()))
            if content:
                write_atomic(path, eventfiles.head(time.time()) + content)
        for file in old:
            file.unlink(missing_ok=True)
        self._begun = True

    def _add(self, epoch: int, numbers: Mapping[str, float]) -> None:
        if not self._begun:
            # It did not work before: the disk was full, say. Now it may.
            self._begin(epoch)
        lines = _lines(numbers)
        for part in {line.part for line in lines}:
            file = self._file(part)
            file.write(_written(epoch + 1, time.time(), lines, part))
            file.flush()

    def _file(self, part: str) -> BinaryIO:
        if part not in self._files:
            path = self._paths[part]
            make_folder(path.parent)
            self._files[part] = path.open("ab")
            if not path.stat().st_size:
                self._files[part].write(eventfiles.head(time.time()))
        return self._files[part]

    def _rate(self) -> float:
        """The optimizer's learning rate now; not a number when it tells none."""
        try:
            return float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        except (AttributeError, TypeError, ValueError):
            return math.nan

    def _close(self) -> None:
        self._begun = False
        files, self._files = self._files, {}
        for file in files.values():
            try:
                file.close()
            except OSError:
                continue

    def _safely(self, work: Callable[[], None]) -> None:
        try:
            work()
        # Whatever it is (a full disk, a package too old): the training is worth more than its curves.
        except Exception as error:
            # What is half written stays behind; the next epoch begins new files.
            self._close()
            if not self._said:
                self._said = True
                show.warn(
                    f"TensorBoard's files cannot be written; training goes on, and the record is whole. ({error})"
                )


def _lines(numbers: Mapping[str, float]) -> dict[Line, float]:
    """Keras' names as curves: `val_loss` is `loss` of `dev`. What is not finite cannot be drawn."""
    named = {
        Line(DEV, name[4:]) if name.startswith("val_") else Line(TRAIN, name): value for name, value in numbers.items()
    }
    return {line: value for line, value in named.items() if math.isfinite(value)}


def _merged(record: Epochs, files: Epochs, epoch: int) -> Epochs:
    """What is known of the epochs up to `epoch`; files know times and learning rates, the record which epochs count."""
    if not record:
        return {number: known for number, known in files.items() if number <= epoch}
    return {
        number: files[number] if number in files and _agree(files[number][1], known[1]) else known
        for number, known in record.items()
        if number <= epoch
    }


def _agree(files: Mapping[Line, float], record: Mapping[Line, float]) -> bool:
    # Event files hold 32-bit numbers; the record's seconds were measured by another clock.
    return all(
        line in files and math.isclose(files[line], value, rel_tol=1e-5)
        for line, value in record.items()
        if line.tag != SECONDS
    )


def _read_record(folder: Path) -> Epochs:
    """The record's epochs, as if they had been trained without a break until now."""
    try:
        history = json.loads((folder / "record.json").read_bytes())["history"]
        found: Epochs = {}
        at = time.time()
        for entry in reversed(history):
            numbers = {name: float(value) for name, value in entry.items() if value is not None}
            number, seconds = int(numbers.pop("epoch")), numbers.pop("seconds", 0.0)
            found[number] = (at, _lines({**numbers, SECONDS: seconds}))
            at -= seconds
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}
    return found


def _read_files(files: list[Path]) -> Epochs:
    found: Epochs = {}
    for file in files:
        for event in eventfiles.read(file):
            numbers = found.setdefault(event.step, (event.at, {}))[1]
            numbers.update(
                {Line(file.parent.name, tag.removeprefix(PREFIX)): value for tag, value in event.numbers.items()}
            )
    return found


def _written(number: int, at: float, numbers: Mapping[Line, float], part: str) -> bytes:
    own = {PREFIX + line.tag: value for line, value in numbers.items() if line.part == part}
    return eventfiles.written(eventfiles.Event(number, at, own)) if own else b""
