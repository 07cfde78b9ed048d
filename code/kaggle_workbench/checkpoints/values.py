"""Plain Python values as JSON and arrays, without pickle."""

from __future__ import annotations

import collections
import datetime
import math
import pathlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]
_MARK = "$"
_MOST_DEEP = 20


class NotPlainError(TypeError):
    """A value that is not data: a lock, an open file, an object of a class of one's own."""


def pack(value: Any, arrays: Arrays, name: str, *, extra: Callable[[Any], Any] | None = None, deep: int = 0) -> Any:
    """A value as JSON can hold it; arrays inside go to `arrays`.

    Args:
        value: None, bool, numbers, text, bytes, lists, tuples, sets, dicts, deques, arrays, paths, dates, and the
            state of Python's and NumPy's random generators, in any depth.
        arrays: Gets a copy of each array, under a name that begins with `name`.
        name: Where in the checkpoint this stands.
        extra: Asked for values of other kinds; gives one of these kinds, or raises NotPlainError.
        deep: How deep this one stands; a value that holds itself is refused.

    Raises:
        NotPlainError: A value of another kind.
    """

    def inner(part: Any, key: Any) -> Any:
        return pack(part, arrays, f"{name}/{key}", extra=extra, deep=deep + 1)

    def marked(kind: str, content: Any) -> dict[str, Any]:
        return {_MARK: kind, "is": content}

    if deep > _MOST_DEEP:
        raise NotPlainError("it holds itself, or is nested too deep")
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else marked("float", repr(value))
    if kind in (list, tuple):
        items = [inner(part, number) for number, part in enumerate(value)]
        return items if kind is list else marked("tuple", items)
    if kind in (dict, collections.OrderedDict, collections.Counter):
        pairs = [[inner(key, f"{number}k"), inner(part, number)] for number, (key, part) in enumerate(value.items())]
        return marked(kind.__name__, pairs)
    if kind in (set, frozenset):
        return marked(kind.__name__, [inner(part, number) for number, part in enumerate(sorted(value, key=repr))])
    if kind is collections.deque:
        return marked("deque", [[inner(part, number) for number, part in enumerate(value)], value.maxlen])
    if kind is complex:
        return marked("complex", [repr(value.real), repr(value.imag)])
    if kind is bytes:
        return marked("bytes", value.hex())
    if isinstance(value, np.generic | np.ndarray):
        array = numeric(np.array(value))
        arrays[name] = array
        return marked("array" if isinstance(value, np.ndarray) else "scalar", name)
    if isinstance(value, pathlib.PurePath):
        return marked("path", str(value))
    if kind in (datetime.datetime, datetime.date):
        return marked(kind.__name__, value.isoformat())
    if kind is datetime.timedelta:
        return marked("timedelta", [value.days, value.seconds, value.microseconds])
    if kind is random.Random:
        return marked("random", inner(value.getstate(), "state"))
    if isinstance(value, np.random.Generator):
        state = value.bit_generator.state
        return marked("generator", [state["bit_generator"], inner(state, "state")])
    if extra is not None:
        return pack(extra(value), arrays, name, deep=deep + 1)
    raise NotPlainError(kind.__qualname__)


def unpack(content: Any, arrays: Arrays) -> Any:
    """The value that `pack` made `content` of.

    Raises:
        ValueError: Content that `pack` does not make.
    """

    def inner(part: Any) -> Any:
        return unpack(part, arrays)

    if isinstance(content, list):
        return [inner(part) for part in content]
    if not isinstance(content, dict):
        return content
    kind, value = content[_MARK], content["is"]
    makers: dict[str, Callable[[], Any]] = {
        "float": lambda: float(value),
        "tuple": lambda: tuple(map(inner, value)),
        "dict": lambda: {inner(key): inner(part) for key, part in value},
        "OrderedDict": lambda: collections.OrderedDict((inner(key), inner(part)) for key, part in value),
        "Counter": lambda: collections.Counter({inner(key): inner(part) for key, part in value}),
        "set": lambda: set(map(inner, value)),
        "frozenset": lambda: frozenset(map(inner, value)),
        "deque": lambda: collections.deque(map(inner, value[0]), maxlen=value[1]),
        "complex": lambda: complex(*map(float, value)),
        "bytes": lambda: bytes.fromhex(value),
        # A copy: what is read from a file in one piece may not be changed in parts.
        "array": lambda: np.array(arrays[value]),
        "scalar": lambda: arrays[value][()],
        "path": lambda: pathlib.Path(value),
        "datetime": lambda: datetime.datetime.fromisoformat(value),
        "date": lambda: datetime.date.fromisoformat(value),
        "timedelta": lambda: datetime.timedelta(*value),
        "random": lambda: _random(inner(value)),
        "generator": lambda: _generator(value[0], inner(value[1])),
    }
    if kind not in makers:
        raise ValueError(f"a value of unknown kind {kind!r}")
    return makers[kind]()


def numeric(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of a kind that NumPy knows by itself; small floats of other makers (bfloat16) as float32, exactly."""
    if array.dtype.kind in "biufcSU" and (array.dtype.isbuiltin or array.dtype.kind in "SU"):
        return array
    if array.dtype.kind == "O" or array.dtype.names is not None or array.dtype.itemsize > 2:
        raise NotPlainError(f"an array of {array.dtype}")
    return array.astype(np.float32)


def _random(state: Any) -> random.Random:
    made = random.Random()
    made.setstate(state)
    return made


def _generator(name: str, state: Any) -> np.random.Generator:
    kind = getattr(np.random, name, None)
    if not isinstance(kind, type) or not issubclass(kind, np.random.BitGenerator):
        raise ValueError(f"a random generator of unknown kind {name!r}")
    made = kind()
    made.state = state
    return np.random.Generator(made)
