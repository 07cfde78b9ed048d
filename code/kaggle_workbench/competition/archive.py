"""Unpacking an archive that came from outside: nothing leaves the folder, nothing grows without bound."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kaggle_workbench.errors import WorkError
from kaggle_workbench.files import CHUNK_BYTES, disk_errors, human_bytes

OnBytes = Callable[[int], None]


class BrokenArchiveError(WorkError):
    """The archive is truncated or damaged; another copy of it may be sound."""


class UnsafeArchiveError(WorkError):
    """The archive holds what must not be unpacked; another copy of it would be no better."""


@dataclass(frozen=True)
class DataFile:
    """One file of a competition: name below its folder ("/" between folders), size in bytes, SHA-256.

    The hash is "" where it was not worth computing (large files that somebody else put there).
    """

    name: str
    size: int
    sha256: str


def content_bytes(archive: Path) -> int:
    """Size of the content by the archive's own directory.

    Raises:
        BrokenArchiveError: It has no sound directory.
    """
    with _opened(archive) as content:
        return sum(info.file_size for info in content.infolist())


def unpack(
    archive: Path,
    folder: Path,
    *,
    limit_bytes: int,
    listed: Collection[str] = (),
    on_bytes: OnBytes | None = None,
) -> list[DataFile]:
    """Unpack into an empty folder, hashing on the way.

    Names that lead out of the folder, absolute names, links, devices, encrypted files and two files of
    one name (by the rules of the disk's file system) are refused before or at the first of them. A single
    big file that Kaggle has wrapped as `name.zip` comes out as `name`.

    Args:
        archive: The zip file.
        folder: Folder to unpack into; made when missing.
        limit_bytes: Most bytes of content in all.
        listed: The competition's own file names: a `name.zip` among them is left as it is.
        on_bytes: Called with the number of bytes just written.

    Returns:
        The files, by name.

    Raises:
        BrokenArchiveError: Truncated or damaged.
        UnsafeArchiveError: See above.
        MissingError: The disk is full.
    """
    with _opened(archive) as content:
        members = [(_name(info, archive), info) for info in content.infolist() if not info.is_dir()]
        budget = limit_bytes - sum(info.file_size for _, info in members)
        _refuse_bomb(archive, limit_bytes - budget, limit_bytes)
        names = {name for name, _ in members}
        files = []
        for name, info in members:
            file = _write(content, info, folder, name, archive, on_bytes)
            inner = name.removesuffix(".zip")
            if inner != name and inner not in names and name not in listed and _wraps(folder / name):
                file = unwrap(folder / name, inner, folder, limit_bytes=budget, on_bytes=on_bytes)
                budget -= file.size
            files.append(file)
    return sorted(files, key=lambda file: file.name)


def unwrap(archive: Path, name: str, folder: Path, *, limit_bytes: int, on_bytes: OnBytes | None = None) -> DataFile:
    """Replace an archive that wraps a single file by that file, as `name` below `folder`."""
    with _opened(archive) as content:
        info = content.infolist()[0]
        _name(info, archive)
        _refuse_bomb(archive, info.file_size, limit_bytes)
        file = _write(content, info, folder, name, archive, on_bytes)
    archive.unlink()
    return file


def is_wrapped(path: Path, name: str) -> bool:
    """Whether `path` is an archive that holds the file called `name` and nothing else."""
    return path.name == f"{PurePosixPath(name).name}.zip" and _wraps(path)


def _wraps(path: Path) -> bool:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as content:
        return [info.filename for info in content.infolist()] == [path.name.removesuffix(".zip")]
    return False


def _opened(archive: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(archive)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise BrokenArchiveError(f"{archive.name} is no sound zip archive: {error}.") from None


def _name(info: zipfile.ZipInfo, archive: Path) -> str:
    """The member's name, clean and relative."""
    raw = info.orig_filename
    kind = stat.S_IFMT(info.external_attr >> 16)
    parts = [part for part in raw.replace("\\", "/").split("/") if part not in ("", ".")]
    fault = ""
    if raw.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", raw):
        fault = "an absolute name"
    elif ".." in parts or not parts:
        fault = "a name that leads out of the folder"
    elif any(ord(letter) < 32 for letter in raw):
        fault = "a name with control characters"
    elif kind not in (0, stat.S_IFREG):
        fault = "a link or a device"
    elif info.flag_bits & 1:
        fault = "an encrypted file"
    if fault:
        raise UnsafeArchiveError(
            f"{archive.name} is not unpacked: it holds {raw!r}, {fault}.",
            hint="Nothing was changed. Make the archive anew if it is your own; else tell the competition's host.",
        )
    return "/".join(parts)


def _refuse_bomb(archive: Path, size: int, limit_bytes: int) -> None:
    if size > limit_bytes:
        raise UnsafeArchiveError(
            f"{archive.name} is not unpacked: its content would take {human_bytes(size)}, "
            f"far more than the competition's list of files allows ({human_bytes(limit_bytes)}).",
            hint="Nothing was changed. Tell the competition's host.",
        )


def _write(
    content: zipfile.ZipFile, info: zipfile.ZipInfo, folder: Path, name: str, archive: Path, on_bytes: OnBytes | None
) -> DataFile:
    target = folder / name
    digest = hashlib.sha256()
    with disk_errors(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            # "x": a second file of the same name is found by the file system's own rules (upper and lower case).
            with content.open(info) as source, target.open("xb") as out:
                while block := source.read(CHUNK_BYTES):
                    out.write(block)
                    digest.update(block)
                    if on_bytes is not None:
                        on_bytes(len(block))
                out.flush()
                os.fsync(out.fileno())
        except (FileExistsError, NotADirectoryError):
            raise UnsafeArchiveError(
                f"{archive.name} is not unpacked: it holds two files of the name {name!r} "
                "(this disk may not tell capital letters from small ones).",
                hint="Set INPUT_DIR to a folder on another disk, or tell the competition's host.",
            ) from None
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise BrokenArchiveError(f"{archive.name} is damaged at {name}: {error}.") from None
    return DataFile(name, target.stat().st_size, digest.hexdigest())
