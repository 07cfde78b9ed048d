"""Training data in batches whose order is a function of seed and epoch, and of nothing else.

Reached through `training`, since a Keras class needs Keras at import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from kaggle_workbench.devices.distribution import replicas
from kaggle_workbench.errors import UsageError

Augment = Callable[[Any, np.random.Generator], Any]


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches for `model.fit`, shuffled anew in each epoch.

    The order inside Keras' own shuffling cannot be told or restored. Here epoch `e` of seed `s` has one order on
    every machine, so that a run can be repeated, or taken up in the middle.

    Args:
        inputs: What the network sees, (rows, ...).
        targets: What it should answer, (rows, ...).
        batch_size: Rows in a batch; the last one may have fewer.
        seed: Start of all randomness.
        augment: Called with a batch of inputs (a copy) and a NumPy random generator that depends only on seed,
            epoch and batch; returns the inputs to train on.

    Raises:
        UsageError: No rows, or not as many targets as inputs.
    """

    def __init__(
        self, inputs: Any, targets: Any, batch_size: int = 64, *, seed: int = 0, augment: Augment | None = None
    ) -> None:
        super().__init__()
        if len(inputs) != len(targets) or not len(inputs):
            raise UsageError(
                f"There are {len(inputs):,} inputs and {len(targets):,} targets.",
                hint="Batches need the same number of both, and at least one.",
            )
        self.inputs, self.targets = inputs, targets
        self.batch_size, self.seed, self.augment = batch_size, seed, augment
        self._next_epoch = 0
        self._done = (0, 0)
        # Several GPUs share each batch evenly: an epoch leaves out the rows that remain, others each time.
        self._rows = max(1, len(inputs) - len(inputs) % replicas())
        self.start_epoch(0)

    def __len__(self) -> int:
        """Batches in a whole epoch."""
        return -(-self._rows // self.batch_size)

    @property
    def num_batches(self) -> int:
        """Batches that the epoch at hand still has; asked by Keras when it begins to read them."""
        return len(self) - self._now[2]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Batch `index` of the epoch at hand, counted from its first one that is not done yet."""
        epoch, order, done = self._now
        index += done
        rows = order[index * self.batch_size : (index + 1) * self.batch_size]
        inputs = self.inputs[rows]
        if self.augment is not None:
            inputs = self.augment(inputs, np.random.default_rng([self.seed, epoch, index, 1]))
        return inputs, self.targets[rows]

    def on_epoch_begin(self) -> None:
        """Called by Keras: take the next epoch's order."""
        self._shuffle(self._next_epoch)
        self._next_epoch += 1

    def start_epoch(self, epoch: int) -> None:
        """Make `epoch` (from 0) the next one; told by the run's callback, which knows it also after a resume."""
        self._next_epoch = epoch
        self._shuffle(epoch)

    def go_on_from(self, epoch: int, step: int = 0) -> None:
        """Leave out the first `step` batches of `epoch`: they were done before the training was stopped."""
        self._done = (epoch, step)
        self.start_epoch(epoch)

    def _shuffle(self, epoch: int) -> None:
        done = self._done[1] if epoch == self._done[0] else 0
        # Set in one piece: Keras reads batches ahead in another thread.
        self._now = epoch, np.random.default_rng([self.seed, epoch]).permutation(len(self.inputs))[: self._rows], done
