"""TensorFlow's iterators over data, without a wait at the end of each epoch.

`tf.data` tunes itself by a thread of its own in every iterator, which sleeps ever longer: 10 ms, 20 ms, and so on to a
minute. An iterator that is deleted tells that thread to end, but TensorFlow (seen in 2.21) sets the mark that the
thread looks at only after it has woken it. When the thread is faster, it sleeps once more, and the training with it:
on 2 cores, an epoch of 21 s took 41 s more often than not (docs/performance.md). What Keras feeds has nothing to tune:
it reads arrays from memory.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

_MARK = "_kwb_plain"


def end_at_once() -> None:
    """From now on, iterators of `tf.data` datasets in this process are made without that thread."""
    import tensorflow as tf

    iterate = tf.data.Dataset.__iter__
    if getattr(iterate, _MARK, False):
        return
    options = tf.data.Options()
    options.autotune.enabled = False

    @wraps(iterate)
    def plain(dataset: Any) -> Any:
        return iterate(dataset.with_options(options))

    setattr(plain, _MARK, True)
    tf.data.Dataset.__iter__ = plain
