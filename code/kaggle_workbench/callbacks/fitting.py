"""The `model.fit` that calls a callback: its other callbacks, its data, its loop over batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import keras


class Fit:
    """What a callback can learn of the `model.fit` it runs in.

    Keras tells a callback neither of the others nor of the data; both stand in the frames that call it. Where they
    cannot be found (a training loop of one's own), the attributes are None.

    Attributes:
        callbacks: Keras' list of all callbacks of this training.
        arguments: The arguments of `fit` by name: `x`, `y`, `validation_data`, `class_weight`, ...
        batches: Keras' loop over the batches of an epoch.
    """

    def __init__(self) -> None:
        self.callbacks: Any = None
        self.arguments: dict[str, Any] = {}
        self.batches: Any = None

    @classmethod
    def find(cls, callback: Any) -> Fit:
        """The training that has just called `callback`."""
        fit = cls()
        for frame in _frames():
            if fit.callbacks is None:
                owner = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
                if isinstance(owner, keras.callbacks.CallbackList) and any(one is callback for one in owner.callbacks):
                    fit.callbacks = owner
            elif "epoch_iterator" in frame.f_code.co_varnames and frame.f_locals.get("callbacks") is fit.callbacks:
                names = ("x", "y", "sample_weight", "class_weight", "validation_data", "steps_per_epoch")
                fit.arguments = {name: frame.f_locals.get(name) for name in names}
                fit.batches = frame.f_locals.get("epoch_iterator")
                break
        return fit

    @property
    def others(self) -> list[Any]:
        """All callbacks of this training; none where they cannot be found."""
        return list(self.callbacks.callbacks) if self.callbacks is not None else []

    def leave_order_alone(self) -> bool:
        """Keep Keras from shuffling batches that are shuffled already; by default it does, from a generator of its own.

        Returns:
            False where its loop could not be reached.
        """
        adapter: Any = getattr(self.batches, "data_adapter", None)
        if not hasattr(adapter, "shuffle"):
            return False
        adapter.shuffle = False
        if getattr(adapter, "enqueuer", None) is not None:
            adapter.enqueuer.shuffle = False
        return True

    def begin_epoch(self, steps: int, done: int) -> int:
        """Make the epoch that begins one of `steps` batches of which `done` are done already.

        The data must leave these out themselves. Returns what is to be added to the batches' numbers as Keras tells
        them: 0, or `done` where its loop could not be reached.
        """
        loop = self.batches
        if loop is None or not hasattr(loop, "_num_batches") or not hasattr(loop, "_enumerate_iterator"):
            return done
        loop._num_batches = steps - done
        loop.__dict__.pop("_enumerate_iterator", None)
        if done:
            plain = loop._enumerate_iterator

            def numbered() -> Iterator[tuple[Any, ...]]:
                # The first and the last number of some steps; in older versions of Keras the first one only.
                for *numbers, iterator in plain():
                    yield *(number + done for number in numbers), iterator

            loop._enumerate_iterator = numbered
        return 0


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
