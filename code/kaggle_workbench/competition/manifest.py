"""What was downloaded: names, sizes, times and hashes, so that a whole copy is known and a damaged one found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from kaggle_workbench.competition.archive import DataFile
from kaggle_workbench.files import sha256, write_json
from kaggle_workbench.kaggle_api import RemoteFile

SCHEMA = 1
# Up to this size, a copy is hashed anew every time it is asked for.
HASH_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Manifest:
    """A finished download.

    Attributes:
        listed: The server's list at that time; another list means that the competition was updated.
        files: The files as unpacked.
        times: Their modification times in nanoseconds, in the same order.
        date: When it was finished (ISO, UTC).
    """

    listed: tuple[RemoteFile, ...]
    files: tuple[DataFile, ...]
    times: tuple[int, ...]
    date: str

    def damaged(self, folder: Path) -> list[str]:
        """Names of files that are missing or not as they were downloaded."""
        hash_all = sum(file.size for file in self.files) <= HASH_BYTES
        return [
            file.name
            for file, time_ns in zip(self.files, self.times, strict=True)
            if not _same(folder / file.name, file, time_ns, hash_all=hash_all)
        ]

    def hash_of(self, name: str) -> str:
        """SHA-256 of a file, "" when it is not among them."""
        return next((file.sha256 for file in self.files if file.name == name), "")


def write(path: Path, folder: Path, *, listed: Sequence[RemoteFile], files: Sequence[DataFile]) -> Manifest:
    """Record a finished download, atomically."""
    times = tuple((folder / file.name).stat().st_mtime_ns for file in files)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = Manifest(tuple(listed), tuple(files), times, date)
    document = {
        "schema": SCHEMA,
        "date": date,
        "listed": [asdict(file) for file in listed],
        "files": [asdict(file) | {"mtime_ns": time_ns} for file, time_ns in zip(files, times, strict=True)],
    }
    write_json(path, document)
    return manifest


def read(path: Path) -> Manifest | None:
    """The manifest there, or None when there is none that can be read (then the copy is checked otherwise)."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            return None
        return Manifest(
            listed=tuple(RemoteFile(**file) for file in document["listed"]),
            files=tuple(DataFile(file["name"], file["size"], file["sha256"]) for file in document["files"]),
            times=tuple(file["mtime_ns"] for file in document["files"]),
            date=document["date"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _same(path: Path, file: DataFile, time_ns: int, *, hash_all: bool) -> bool:
    try:
        facts = path.stat()
        if facts.st_size != file.size:
            return False
        return (facts.st_mtime_ns == time_ns and not hash_all) or sha256(path) == file.sha256
    except OSError:
        return False
