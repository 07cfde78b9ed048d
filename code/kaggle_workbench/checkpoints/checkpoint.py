"""One checkpoint as one file: a JSON head, arrays, and a checksum over all of it.

The file, version 1, numbers little-endian:

    8 bytes      "KWBCKPT" and a line feed
    4 bytes      version of this layout
    8 bytes      length of the head in bytes
    head         JSON (UTF-8): what the `Checkpoint` says, and for each array its dtype, shape, offset and size
    arrays       C order, each at a multiple of 64 bytes from the file's beginning
    32 bytes     SHA-256 of everything before

Nothing in it is code: a checkpoint from elsewhere can be read without running what it holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.files import disk_errors, make_folder

VERSION = 1
MAGIC = b"KWBCKPT\n"
_LAYOUT = struct.Struct("<8sIQ")
_ALIGNMENT = 64
_DIGEST_BYTES = 32


class DamagedError(WorkError):
    """A file that is no whole checkpoint."""


@dataclass
class Checkpoint:
    """The state of a training between two steps.

    Attributes:
        epoch: Epochs done.
        step: Steps done in the epoch after those; 0 between two epochs.
        finished: Whether the training ended here by itself: all epochs done, or stopped by a callback.
        head: All that is not an array: history, best, fingerprint, callbacks, rng, written, versions.
        arrays: By name: weights, optimizer, metrics, what callbacks hold.
    """

    epoch: int
    step: int = 0
    finished: bool = False
    head: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, int]:
        """Where in the training it stands, to be compared."""
        return self.epoch, self.step

    def words(self) -> str:
        """Where it stands, for people: "epoch 3" or "step 120 of epoch 4"."""
        return f"step {self.step:,} of epoch {self.epoch + 1}" if self.step else f"epoch {self.epoch}"


def write(path: Path, checkpoint: Checkpoint) -> str:
    """Write a checkpoint so that the file is whole or absent.

    Args:
        path: The file; its folder is made when missing.
        checkpoint: Its arrays must not change meanwhile.

    Returns:
        SHA-256 of the file, as 64 hexadecimal digits.

    Raises:
        MissingError: The disk is full, or the folder read-only.
        ValueError: An array of Python objects, or a head that JSON cannot hold.
    """
    arrays = {name: _plain(name, array) for name, array in checkpoint.arrays.items()}
    make_folder(path.parent)
    with disk_errors(path):
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{time.monotonic_ns()}")
        try:
            with temporary.open("xb") as file:
                digest = _stream(file, checkpoint, arrays)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return digest


def read(path: Path) -> Checkpoint:
    """Read a checkpoint and prove that it is whole.

    Raises:
        DamagedError: Cut off, changed, or another kind of file.
        UsageError: Written by a newer version of the workbench.
        MissingError: The file may not be read.
    """
    with disk_errors(path, deed="read"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < _LAYOUT.size + _DIGEST_BYTES:
            raise DamagedError(f"{path} is cut off: it has {size} bytes.")
        # One buffer for all arrays: they are views into it.
        content = np.fromfile(file, np.uint8)
    body = content.data[: size - _DIGEST_BYTES]
    magic, version, length = _LAYOUT.unpack(body[: _LAYOUT.size])
    if magic != MAGIC:
        raise DamagedError(f"{path} is no checkpoint.")
    if hashlib.sha256(body).digest() != content[size - _DIGEST_BYTES :].tobytes():
        raise DamagedError(f"{path} is damaged: its checksum does not fit its content.")
    if version > VERSION:
        raise UsageError(
            f"{path} was written by a newer version of the workbench (layout {version}, here {VERSION}).",
            hint="Bring this copy of the workbench up to date (git pull), then run the same command again.",
        )
    try:
        head = json.loads(bytes(body[_LAYOUT.size : _LAYOUT.size + length]))
        arrays = dict(_views(content[: size - _DIGEST_BYTES], head.pop("arrays")))
        epoch, step, finished = int(head.pop("epoch")), int(head.pop("step")), bool(head.pop("finished"))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} is no checkpoint of this kind ({error}).") from error
    return Checkpoint(epoch, step, finished, head, arrays)


def _stream(file: BinaryIO, checkpoint: Checkpoint, arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    sha = hashlib.sha256()

    def put(data: bytes | memoryview) -> None:
        sha.update(data)
        file.write(data)

    facts: dict[str, dict[str, Any]] = {}
    offset = 0
    for name, array in arrays.items():
        facts[name] = {"dtype": array.dtype.str, "shape": array.shape, "offset": offset, "size": array.nbytes}
        offset += array.nbytes + -array.nbytes % _ALIGNMENT
    said = {"epoch": checkpoint.epoch, "step": checkpoint.step, "finished": checkpoint.finished}
    # Offsets count from the arrays' beginning, so that the head's own length does not change them.
    head = json.dumps({**checkpoint.head, **said, "arrays": facts}, ensure_ascii=False, sort_keys=True).encode()
    head += b" " * (-(_LAYOUT.size + len(head)) % _ALIGNMENT)
    put(_LAYOUT.pack(MAGIC, VERSION, len(head)))
    put(head)
    for array in arrays.values():
        put(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
        put(b"\0" * (-array.nbytes % _ALIGNMENT))
    digest = sha.digest()
    put(digest)
    return sha.hexdigest()


def _plain(name: str, array: Any) -> np.ndarray[Any, Any]:
    found = np.asarray(array, order="C")
    if found.dtype.kind not in "biufcSU":
        raise ValueError(f"An array of {found.dtype} cannot stand in a checkpoint ({name}).")
    return found.astype(found.dtype.newbyteorder("<"), copy=False)


def _views(
    content: np.ndarray[Any, Any], facts: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    _, _, length = _LAYOUT.unpack(content[: _LAYOUT.size].tobytes())
    start = _LAYOUT.size + length
    for name, fact in facts.items():
        first = start + fact["offset"]
        raw = content[first : first + fact["size"]]
        yield name, raw.view(np.dtype(fact["dtype"])).reshape(fact["shape"])


def temporary_files(folder: Path, suffix: str) -> Iterator[Path]:
    """What killed writers have left behind in a folder."""
    with contextlib.suppress(OSError):
        yield from (path for path in folder.iterdir() if path.name.startswith(".") and f"{suffix}." in path.name)
