"""What a training is made of, as short texts to compare: data and code."""

from __future__ import annotations

import functools
import hashlib
import platform
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Arrays up to this size are hashed whole: a tenth of a second or so.
_WHOLE_BYTES = 256 << 20
_PIECES = 256
_PIECE_BYTES = 1 << 20
_MOST_DEEP = 6


def of_data(data: Any) -> Any:
    """Type, shape and a hash of an array; of larger ones (256 MB) of 256 pieces spread over it and of its sum.

    Args:
        data: An array, or dicts and sequences of arrays; of anything else only the kind is told.
    """
    if isinstance(data, Mapping):
        return {str(name): of_data(part) for name, part in data.items()}
    if isinstance(data, list | tuple) and len(data) < 100 and any(hasattr(part, "shape") for part in data):
        return [of_data(part) for part in data]
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if not isinstance(data, np.ndarray) and hasattr(data, "to_numpy") and hasattr(data, "shape"):
        data = data.to_numpy()
    if not isinstance(data, np.ndarray):
        facts = [type(data).__qualname__]
        for name in ("shape", "dtype"):
            facts += [str(getattr(data, name))] if hasattr(data, name) else []
        return {"kind": " ".join(facts)}
    shown = {"kind": str(data.dtype), "shape": list(data.shape)}
    if data.dtype.kind == "O":
        return {**shown, "sha256": hashlib.sha256(repr(data.tolist()).encode()).hexdigest()}
    return {**shown, "sha256": _hash(data)}


def of_table(table: pd.DataFrame, columns: Sequence[str]) -> dict[str, Any]:
    """Names, number of rows and a hash of all values of some columns of a table of pandas."""
    import pandas as pd

    sha = hashlib.sha256()
    for name in columns:
        # Column by column: a copy of one is held at a time.
        sha.update(f"{name} {table[name].dtype}\n".encode())
        sha.update(np.ascontiguousarray(pd.util.hash_pandas_object(table[name], index=False).to_numpy()).tobytes())
    return {"columns": list(columns), "rows": len(table), "sha256": sha.hexdigest()}


def _hash(array: np.ndarray[Any, Any]) -> str:
    sha = hashlib.sha256()
    if array.nbytes <= _WHOLE_BYTES:
        sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"")
        return sha.hexdigest()
    # Rows, not bytes: an array may lie in a file, or be a view without a copy of its own.
    row_bytes = max(1, array.nbytes // len(array))
    rows = max(1, _PIECE_BYTES // row_bytes)
    for start in np.linspace(0, max(0, len(array) - rows), _PIECES).astype(int):
        sha.update(np.ascontiguousarray(array[start : start + rows]).reshape(-1).view(np.uint8).data)
    sha.update(repr(np.asarray(array.sum(dtype="float64" if array.dtype.kind == "f" else None)).item()).encode())
    return sha.hexdigest()


def of_code(function: Any) -> dict[str, Any] | None:
    """What a function does, as hashes: its bytecode and constants, and the values it takes from outside.

    Comments, line numbers, its docstring and the file it stands in do not count. Bytecode of different Python
    versions cannot be compared, so the version is told too.

    Args:
        function: A function, a method, a `functools.partial`, an object that can be called, or a list of these; None
            for none.
    """
    if function is None:
        return None
    code, values = hashlib.sha256(), hashlib.sha256()
    _Walk(code, values).add(function)
    python = ".".join(platform.python_version_tuple()[:2])
    return {"code": code.hexdigest(), "values": values.hexdigest(), "python": python}


def of_source(file: Path) -> dict[str, Any]:
    """What a source file holds, as `of_code` tells it; the same on every version of Python."""
    return {"code": hashlib.sha256(file.read_bytes()).hexdigest(), "values": "", "python": ""}


class _Walk:
    """Follows a function into what it calls and uses, as far as that is the user's own."""

    def __init__(self, code: Any, values: Any) -> None:
        self.code, self.values = code, values
        self.seen: set[int] = set()

    def add(self, value: Any, deep: int = 0) -> None:
        """Add a function or a value."""
        if deep > _MOST_DEEP or id(value) in self.seen:
            self.values.update(b"again")
            return
        if isinstance(value, types.FunctionType):
            self.seen.add(id(value))
            self._function(value, deep)
        elif isinstance(value, types.MethodType):
            self.add(value.__func__, deep + 1)
            self.add(value.__self__, deep + 1)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords):
                self.add(part, deep + 1)
        elif isinstance(value, Mapping):
            for name, part in value.items():
                self.values.update(repr(name).encode())
                self.add(part, deep + 1)
        elif isinstance(value, list | tuple):
            self.values.update(f"{type(value).__name__} {len(value)}".encode())
            for part in value:
                self.add(part, deep + 1)
        elif isinstance(value, set | frozenset):
            self.values.update(repr(sorted(map(repr, value))).encode())
        elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
            self.values.update(repr(value).encode())
        elif isinstance(value, np.ndarray | np.generic):
            self.values.update(repr(of_data(np.asarray(value))).encode())
        elif isinstance(value, types.ModuleType | type) or _is_library(value):
            self.values.update(str(getattr(value, "__qualname__", None) or getattr(value, "__name__", "")).encode())
        else:
            self.seen.add(id(value))
            self._object(value, deep)

    def _function(self, function: types.FunctionType, deep: int) -> None:
        if _is_library(function):
            self.values.update(f"{function.__module__}.{function.__qualname__}".encode())
            return
        self._bytecode(function.__code__, function.__doc__)
        self.add(function.__defaults__, deep + 1)
        self.add(function.__kwdefaults__, deep + 1)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents, deep + 1)
            except ValueError:
                self.values.update(b"empty cell")
        for name in _names(function.__code__):
            if name in function.__globals__:
                self.values.update(name.encode())
                self.add(function.__globals__[name], deep + 1)

    def _object(self, value: Any, deep: int) -> None:
        self.values.update(type(value).__qualname__.encode())
        called = getattr(type(value), "__call__", None)  # noqa: B004
        if isinstance(called, types.FunctionType):
            self.add(called, deep + 1)
        # Attributes that are data; others (an open file, a lock) have addresses, which differ in each process.
        for name, part in sorted(vars(value).items()) if hasattr(value, "__dict__") else ():
            plain = (bool, int, float, str, list, tuple, dict, np.ndarray, types.FunctionType)
            if isinstance(part, plain):
                self.values.update(name.encode())
                self.add(part, deep + 1)

    def _bytecode(self, code: types.CodeType, docstring: str | None = None) -> None:
        self.code.update(code.co_code)
        self.code.update(repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount)).encode())
        for number, constant in enumerate(code.co_consts):
            if isinstance(constant, types.CodeType):
                self._bytecode(constant)
            elif isinstance(constant, frozenset):
                self.code.update(repr(sorted(map(repr, constant))).encode())
            elif number or docstring is None or constant != docstring:
                self.code.update(repr(constant).encode())


def _names(code: types.CodeType) -> list[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names


def _is_library(value: Any) -> bool:
    """Whether this comes from an installed package, whose version is told elsewhere."""
    code = getattr(value, "__code__", None)
    if code is not None:
        file = code.co_filename
    elif isinstance(value, types.BuiltinFunctionType | np.ufunc) or not hasattr(value, "__dict__"):
        return True
    else:
        file = getattr(sys.modules.get(type(value).__module__), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file or file.startswith("<frozen")
