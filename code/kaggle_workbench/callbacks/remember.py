"""What the callbacks of a training hold between two steps, such as the patience that early stopping has left."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import threading
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from kaggle_workbench import show
from kaggle_workbench.callbacks.state import copied
from kaggle_workbench.checkpoints.values import Arrays, NotPlainError, pack, unpack

# Set by Keras anew in each training.
_NOT_STATE = ("params", "_model", "model", "validation_data")
# What is no data of a training: it is there again when the callback is made again.
_TOOLS = (
    type,
    types.ModuleType,
    io.IOBase,
    logging.Logger,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Thread,
    threading.Event,
    keras.layers.Layer,
    keras.optimizers.Optimizer,
    keras.losses.Loss,
    keras.callbacks.Callback,
    keras.utils.PyDataset,
)
_OURS = "kaggle_workbench."


@dataclass
class Held:
    """What one callback holds.

    Attributes:
        name: Class, and which one of that class.
        parts: By attribute: content as JSON can hold it, and its arrays.
        operations: By attribute: which of Keras' or NumPy's functions it holds.
        whole: What its own `get_state` gave, in one part; then there are no others.
    """

    name: str
    parts: dict[str, tuple[Any, Arrays]] = field(default_factory=dict)
    operations: dict[str, str] = field(default_factory=dict)
    whole: tuple[Any, Arrays] | None = None


class Memory:
    """Keeps what callbacks hold, and puts it back.

    A callback with `get_state()` and `set_state(state)` decides itself. Of any other one the attributes are kept
    that have changed since the training began; so a patience that a person has raised meanwhile stays raised.

    Args:
        callbacks: All callbacks of a training, after each one's `on_train_begin`.
    """

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self.callbacks = {name: callback for name, callback in _named(callbacks) if _has_state(callback)}
        self._lost: set[str] = set()
        self._initial = {held.name: _digests(held) for held in self.look(quiet=True)}

    def look(self, *, quiet: bool = False) -> list[Held]:
        """Copies of what they hold now; what cannot be kept is said once, by name."""
        found = []
        for name, callback in self.callbacks.items():
            held = Held(name)
            if _decides(callback):
                arrays: Arrays = {}
                try:
                    held.whole = pack(callback.get_state(), arrays, f"callbacks/{name}", extra=_plain), arrays
                except NotPlainError as error:
                    self._say_lost(f"What {name}.get_state() gives", error, quiet=quiet)
                    continue
            else:
                self._attributes(held, callback, quiet=quiet)
            found.append(held)
        return found

    def reduce(self, found: Sequence[Held], arrays: Arrays) -> dict[str, Any]:
        """What of it goes into a checkpoint, as JSON; arrays go to `arrays`. May run in another thread."""
        head: dict[str, Any] = {}
        for held in found:
            if held.whole is not None:
                head[held.name] = {"state": held.whole[0]}
                arrays.update(held.whole[1])
                continue
            initial, now = self._initial.get(held.name, {}), _digests(held)
            changed = [name for name in now if now[name] != initial.get(name)]
            kept = {}
            for name in changed:
                if name in held.parts:
                    kept[name] = held.parts[name][0]
                    arrays.update(held.parts[name][1])
            operations = {name: held.operations[name] for name in changed if name in held.operations}
            head[held.name] = {"attributes": kept, "operations": operations, "initial": initial}
        return head

    def restore(self, head: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Put back what a checkpoint holds; callbacks that are not here any more are named."""
        known = dict(arrays)
        for name, content in head.items():
            callback = self.callbacks.get(name)
            if callback is None:
                show.note(f"The checkpoint also holds the state of {name}; it is not among the callbacks any more.")
            elif "state" in content:
                if _decides(callback):
                    callback.set_state(unpack(content["state"], known))
            else:
                for attribute, operation in content["operations"].items():
                    setattr(callback, attribute, _operation_named(operation))
                for attribute, value in content["attributes"].items():
                    _put(callback, attribute, unpack(value, known))
                # Counted from the first start of all, so that what has changed once is kept for good.
                self._initial[name] = {**self._initial.get(name, {}), **content["initial"]}

    def _attributes(self, held: Held, callback: Any, *, quiet: bool) -> None:
        for attribute, value in vars(callback).items():
            if attribute in _NOT_STATE or isinstance(value, _TOOLS) or type(value).__module__.startswith(_OURS):
                continue
            if callable(value):
                operation = _operation(value)
                if operation:
                    held.operations[attribute] = operation
                continue
            arrays: Arrays = {}
            try:
                packed = pack(value, arrays, f"callbacks/{held.name}/{attribute}", extra=_plain)
            except NotPlainError as error:
                # Keras' own hold files and writers besides, which they open anew.
                quiet = quiet or type(callback).__module__.startswith("keras.")
                self._say_lost(f"{held.name}.{attribute}", error, quiet=quiet)
                continue
            held.parts[attribute] = packed, arrays

    def _say_lost(self, name: str, error: Exception, *, quiet: bool) -> None:
        if quiet or name in self._lost:
            return
        self._lost.add(name)
        show.note(
            f"{name} cannot be kept in a checkpoint ({error}). When it matters after a stop, give that callback "
            "get_state() and set_state(state)."
        )


def _named(callbacks: Sequence[Any]) -> list[tuple[str, Any]]:
    """Each with its class' name; a second one of a class is "EarlyStopping 2"."""
    counts: dict[str, int] = {}
    found = []
    for callback in callbacks:
        kind = type(callback).__qualname__.rpartition(".")[2]
        counts[kind] = counts.get(kind, 0) + 1
        found.append((kind if counts[kind] == 1 else f"{kind} {counts[kind]}", callback))
    return found


def _has_state(callback: Any) -> bool:
    # Keras' History is kept by itself; our own callbacks say what of them is state.
    if isinstance(callback, keras.callbacks.History | keras.callbacks.ProgbarLogger):
        return False
    return _decides(callback) or not type(callback).__module__.startswith(_OURS)


def _decides(callback: Any) -> bool:
    return callable(getattr(callback, "get_state", None)) and callable(getattr(callback, "set_state", None))


def _digests(held: Held) -> dict[str, str]:
    found = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in held.operations.items()}
    for name, (content, arrays) in held.parts.items():
        sha = hashlib.sha256(json.dumps(content).encode())
        for array in arrays.values():
            sha.update(f"{array.dtype.str} {array.shape}".encode())
            sha.update(array.tobytes())
        found[name] = sha.hexdigest()[:16]
    return found


def _plain(value: Any) -> Any:
    """Tensors and variables of the backend as arrays."""
    if isinstance(value, keras.Variable):
        return copied(value)
    if keras.ops.is_tensor(value):
        return np.array(keras.ops.convert_to_numpy(value))
    raise NotPlainError(type(value).__qualname__)


def _put(callback: Any, attribute: str, value: Any) -> None:
    live = getattr(callback, attribute, None)
    if isinstance(live, keras.Variable):
        live.assign(value)
    elif live is not None and keras.ops.is_tensor(live):
        setattr(callback, attribute, keras.ops.convert_to_tensor(value, live.dtype))
    else:
        setattr(callback, attribute, value)


def _operation(function: Any) -> str:
    """How early stopping and its like compare: "ops.less" or "np.less"; empty for any other function."""
    name = getattr(function, "__name__", "")
    if getattr(keras.ops, name or "_", None) is function:
        return f"ops.{name}"
    return f"np.{name}" if isinstance(function, np.ufunc) else ""


def _operation_named(name: str) -> Any:
    room, _, word = name.partition(".")
    return getattr(keras.ops if room == "ops" else np, word)
