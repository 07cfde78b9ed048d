"""A store: files by name at any fsspec address, each whole or absent, each call with a time limit."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.files import make_folder
from kaggle_workbench.stores.address import folder_of, masked, scheme, secrets_in
from kaggle_workbench.stores.limits import Limiter

Result = TypeVar("Result")
LIMIT_S = 30.0
# Bytes get more time: a slow line is not a store that hangs.
SLOWEST_BYTES_PER_S = 200_000
# Larger files are sent in pieces.
IN_MEMORY_BYTES = 32_000_000
TEMP_PREFIX = ".kwb-"
TEMP_OLD_S = 3600
# There an object appears whole, with its last byte, or not at all.
ONE_PUT = frozenset(["s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "r2", "memory"])
# What is not in the base installation, by address: package, and the project's extra for it.
EXTRAS = {"s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "gcs": ("gcsfs", "gs")}


class NotStoredError(MissingError):
    """The store answers, and holds no file of that name."""


@dataclass(frozen=True)
class Entry:
    """One file in a store: its name, size in bytes, and when it was written (None: the store does not say)."""

    name: str
    size: int
    modified: datetime | None


def open_store(address: str, *, base: Path | None = None, limit_s: float = LIMIT_S) -> Store:
    r"""Open a store; nothing is asked of it yet.

    Args:
        address: A folder (also `D:\store` under WSL, `~/store`, or relative to `base`) or any fsspec URL.
        base: Folder that relative ones start from; the project's, for a setting.
        limit_s: Time limit of a call in seconds; sizes add to it.

    Raises:
        UsageError: An address no store can have.
        MissingError: The Python package for this kind of address is missing.
    """
    import fsspec

    shown = masked(address)
    folder = folder_of(address, base)
    if folder is not None:
        folder = folder.absolute()
        return Store(fsspec.filesystem("file"), folder.as_posix(), str(folder), folder=folder, limit_s=limit_s)
    kind = scheme(address)
    secrets = secrets_in(address)
    try:
        system, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        package, extra = EXTRAS.get(kind, (_package(str(error)), ""))
        more = f" (the extra {extra!r} of this project)" if extra else ""
        raise MissingError(
            f"The store {shown} needs the Python package {package}{more}, which is not installed.",
            hint=f"Install it where ./kwb runs: .venv/bin/python -m pip install {package}\n"
            f"For the container, add a line {package} to requirements.txt.",
        ) from None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"STORE is {shown}, which is no address of a store: {_without(secrets, str(error))}",
            hint="Write a folder, or an address such as s3://bucket/folder or gs://bucket/folder.",
        ) from None
    except Exception as error:
        raise MissingError(
            f"The store {shown} cannot be opened: {_without(secrets, _reason(error))}.",
            hint="Correct STORE, or take it out of the settings.",
        ) from None
    return Store(system, root, shown, folder=None, limit_s=limit_s, kind=kind, secrets=secrets)


class Store:
    """Files by name. Made by `open_store`.

    Names are relative and have forward slashes: `<run>/checkpoints/x`. Errors are `MissingError`, with the store's
    address; what is secret in it is masked.

    Attributes:
        address: As it may be shown.
        folder: The folder, when it is one on this machine.
    """

    def __init__(
        self,
        system: Any,
        root: str,
        address: str,
        *,
        folder: Path | None,
        limit_s: float,
        kind: str = "file",
        secrets: list[str] | None = None,
    ) -> None:
        self.address, self.folder = address, folder
        self._system, self._root = system, root.rstrip("/")
        self._kind, self._limit_s, self._secrets = kind, limit_s, secrets or []
        self._limiter = Limiter()

    def __repr__(self) -> str:
        return f"Store({self.address})"

    def put(self, name: str, content: Path | bytes) -> None:
        """Write a file: whole, or not at all where the store allows that.

        Raises:
            MissingError: It could not be written; what was there before is still there.
            FileNotFoundError: `content` is a path without a file.
        """
        if isinstance(content, Path):
            size = content.stat().st_size
            if self.folder is None and size <= IN_MEMORY_BYTES:
                content = content.read_bytes()
        else:
            size = len(content)
        data = content
        self._call("write", name, lambda given_up: self._put(name, data, given_up), size)

    def get(self, name: str) -> bytes:
        """A file's content.

        Raises:
            NotStoredError: There is no such file.
            MissingError: The store does not answer, or refuses.
        """
        return self._call("read", name, lambda _: bytes(self._system.cat_file(self._path(name))))

    def fetch(self, name: str, path: Path) -> None:
        """Copy a file to `path` on this machine, whole or not at all.

        Raises:
            NotStoredError: There is no such file.
            MissingError: The store does not answer or refuses, or this machine's disk is full.
        """
        make_folder(path.parent)
        size = self._call("read", name, lambda _: int(self._system.info(self._path(name)).get("size") or 0))

        def copy(given_up: threading.Event) -> None:
            with _beside(path) as temporary:
                self._system.get_file(self._path(name), str(temporary))
                if not given_up.is_set():
                    temporary.replace(path)

        self._call("read", name, copy, size)

    def entries(self, prefix: str = "", *, depth: int | None = None) -> list[Entry]:
        """The files below `prefix` ("" for all), by name.

        Args:
            prefix: A folder's name, as in `<run>/checkpoints`.
            depth: How many levels deep; None for all.

        Raises:
            MissingError: The store does not answer, or refuses.
        """
        start = self._path(prefix) if prefix else self._root

        def look(_: threading.Event) -> list[Entry]:
            self._system.invalidate_cache()
            found = self._system.find(start, maxdepth=depth, detail=True)
            entries = [
                Entry(path[len(self._root) :].lstrip("/"), int(facts.get("size") or 0), _modified(facts))
                for path, facts in found.items()
            ]
            return sorted((entry for entry in entries if _is_plain(entry.name)), key=lambda entry: entry.name)

        try:
            return self._call("list", prefix or "its files", look)
        except NotStoredError:
            return []

    def names(self, prefix: str = "") -> list[str]:
        """The names of all files below `prefix` (see `entries`)."""
        return [entry.name for entry in self.entries(prefix)]

    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is fine.

        Raises:
            MissingError: The store does not answer, or refuses.
        """
        with contextlib.suppress(NotStoredError):
            self._call("delete", name, lambda _: self._system.rm_file(self._path(name)))

    # --- Inside ---

    def _path(self, name: str) -> str:
        if not _is_plain(name):
            raise UsageError(f"{name!r} is no name for a file in a store.", hint="Names are relative: run/file.")
        return f"{self._root}/{name}"

    def _put(self, name: str, content: Path | bytes, given_up: threading.Event) -> None:
        path = self._path(name)
        if self.folder is not None:
            _put_in_folder(self.folder, Path(path), content, given_up)
            return
        if self._kind in ONE_PUT:
            self._send(content, path)
            return
        parent, _, last = path.rpartition("/")
        temporary = f"{parent}/{TEMP_PREFIX}{os.getpid()}-{threading.get_ident()}-{last}"
        with contextlib.suppress(NotImplementedError):
            self._system.makedirs(parent, exist_ok=True)
        try:
            self._send(content, temporary)
            if given_up.is_set():
                raise TimeoutError("too late")
            try:
                self._system.mv(temporary, path)
            except FileExistsError:
                self._system.rm_file(path)
                self._system.mv(temporary, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._system.rm_file(temporary)
            raise

    def _send(self, content: Path | bytes, path: str) -> None:
        if isinstance(content, Path):
            # In pieces; what was opened stays the same file when a newer one takes its name.
            self._system.put_file(str(content), path)
        else:
            self._system.pipe_file(path, content)

    def _call(self, deed: str, name: str, work: Callable[[threading.Event], Result], size: int = 0) -> Result:
        limit_s = self._limit_s + size / SLOWEST_BYTES_PER_S
        try:
            return self._limiter.call(work, limit_s)
        except UsageError:
            raise
        except Exception as error:
            if isinstance(error, FileNotFoundError) and deed != "write":
                raise NotStoredError(f"The store {self.address} holds no {name}.") from error
            reason = "no space is left there" if _is_full(error) else _without(self._secrets, _reason(error))
            raise MissingError(
                f"The store {self.address} could not {deed} {name}: {reason}.",
                hint="Look whether it is there and may be written, and whether STORE names it right.",
            ) from error


def _put_in_folder(root: Path, path: Path, content: Path | bytes, given_up: threading.Event) -> None:
    _make_shared(path.parent, root)
    with _beside(path) as temporary:
        with temporary.open("wb") as file:
            if isinstance(content, Path):
                with content.open("rb") as source:
                    while block := source.read(1 << 20):
                        file.write(block)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if given_up.is_set():
            raise TimeoutError("too late")
        temporary.replace(path)
    _sweep(path.parent)


def _make_shared(folder: Path, root: Path) -> None:
    """Make folders below `root` with its permissions: a store that others may write stays so further down."""
    root.mkdir(parents=True, exist_ok=True)
    mode = root.stat().st_mode & 0o2777
    inside = folder.relative_to(root).parts
    for count in range(1, len(inside) + 1):
        each = root.joinpath(*inside[:count])
        try:
            each.mkdir()
        except FileExistsError:
            continue
        with contextlib.suppress(PermissionError):
            each.chmod(mode)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A temporary file in `path`'s folder, with a new file's permissions; gone at the end unless it was renamed."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=TEMP_PREFIX)
    temporary = Path(name)
    try:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        os.close(handle)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Delete what a killed process left behind here, when it is old enough to be no one's."""
    for left in folder.glob(f"{TEMP_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > TEMP_OLD_S:
                left.unlink()


def _is_plain(name: str) -> bool:
    """Whether a name is relative, goes nowhere up, and is no temporary file."""
    parts = name.split("/")
    return bool(name) and "\\" not in name and not any(not part or part.startswith(".") for part in parts)


def _is_full(error: BaseException) -> bool:
    import errno

    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _reason(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{text or type(error).__name__}".strip().splitlines()[0].rstrip(".")[:300]


def _without(secrets: list[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return masked(text)


def _package(text: str) -> str:
    match = re.search(r"[Ii]nstall ['\"`]?([A-Za-z0-9_.\-]+)", text)
    return match.group(1) if match else "for it"


def _modified(facts: dict[str, Any]) -> datetime | None:
    for key in ("mtime", "LastModified", "last_modified", "updated", "modified", "created"):
        value = facts.get(key)
        if isinstance(value, str):
            with contextlib.suppress(ValueError):
                value = datetime.fromisoformat(value)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
    return None
