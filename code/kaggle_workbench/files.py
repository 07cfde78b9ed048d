"""Files that are whole or absent: atomic writes, hashes, locks, sizes for people."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import MissingError

CHUNK_BYTES = 1 << 20


def write_atomic(path: Path, content: bytes | str, *, mode: int | None = None) -> None:
    """Write a file so that a reader, a crash or a full disk never meets half of it.

    Args:
        path: Target; its folder is made when missing.
        content: Whole content; text is written as UTF-8.
        mode: Permission bits, such as 0o600; by default those of a plain new file.

    Raises:
        MissingError: The disk is full.
    """
    data = content.encode() if isinstance(content, str) else content
    make_folder(path.parent)
    with disk_errors(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode if mode is not None else 0o666 & ~_umask())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there.

    Raises:
        MissingError: The disk is full, or a folder above is read-only or no folder.
    """
    with disk_errors(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None


def write_json(path: Path, document: Any, *, mode: int | None = None) -> None:
    """Write `document` as readable JSON, atomically (see `write_atomic`)."""
    write_atomic(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", mode=mode)


def sha256(path: Path) -> str:
    """SHA-256 of a file's content, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(path: Path, *, what: str, timeout_s: float = 3600) -> Iterator[None]:
    """Hold a lock between processes, saying so when another one holds it.

    Args:
        path: Lock file, made when missing and left in place.
        what: What is guarded, for the message ("the download of titanic").
        timeout_s: Longest wait in seconds.

    Raises:
        MissingError: Another process still holds the lock after `timeout_s`.
    """
    from filelock import FileLock, Timeout

    from kaggle_workbench.show import note

    make_folder(path.parent)
    lock = FileLock(path)
    try:
        try:
            lock.acquire(timeout=0.2)
        except Timeout:
            note(f"Another process holds {what}; waiting for it (at most {timeout_s / 60:.0f} min).")
            lock.acquire(timeout=timeout_s)
    except Timeout:
        raise MissingError(
            f"Another process still holds {what} after {timeout_s / 60:.0f} minutes ({path}).",
            hint="End that process, then try again; the lock goes with it.",
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def disk_errors(path: Path, *, deed: str = "written") -> Iterator[None]:
    """Turn "disk full", "read-only" and "not a folder" from the system into a `MissingError` naming `path`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise MissingError(
                f"The disk is full: {path} could not be written.",
                hint=f"Free some space on the disk that holds {path.parent}, then run the same command again.",
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR):
            raise MissingError(
                f"{path} cannot be {deed}: {error.strerror}.",
                hint=f"Make {path.parent} a folder that this user can read and write, or choose another one.",
            ) from error
        raise


def human_bytes(count: float) -> str:
    """A size for people, in powers of 1000: `human_bytes(5_200_000) == "5.2 MB"`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _umask() -> int:
    # The only way to read the mask is to set it; single-threaded enough, since it is put back at once.
    mask = os.umask(0)
    os.umask(mask)
    return mask
