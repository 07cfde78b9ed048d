"""Hosted competitions: folders with competition.json, files.zip, solution.csv.gz and references/.

docs/arena.md describes the files. Whatever a folder holds, only files.zip and its members are ever
served; the solution and the reference submissions are read for scoring alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
import threading
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import UsageError, WorkbenchError
from kaggle_workbench.metrics import Metric, metric

SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SETTINGS_FILE = "competition.json"
FILES = "files.zip"
SOLUTION = "solution.csv.gz"


@dataclass(frozen=True)
class DataFile:
    """One file that participants get: name inside the archive ("/" between folders) and size in bytes."""

    name: str
    size: int


@dataclass(frozen=True)
class Reference:
    """A reference entry of the leaderboard: its name, how it was made, its submission file."""

    name: str
    method: str
    file: Path


@dataclass(frozen=True)
class Competition:
    """One hosted competition as its competition.json describes it.

    Attributes:
        slug: Name of the folder, and of the competition.
        deadline: After it, submissions are refused; None: never.
        date: When the data were made; the Last-Modified of every file and the date of the references.
        rules_required: Whether a participant must accept the rules before files and submissions.
        reveal_private: Whether private scores are shown before the deadline.
        gone: Answered with 404, as the service does with competitions that were taken down.
        wrap_bytes: A single file over this size is delivered as `name.zip`, as the service does.
        edition: Changes when the solution changes; scores of different editions never mix.
    """

    slug: str
    folder: Path
    title: str
    description: str
    category: str
    reward: str
    metric: Metric
    deadline: datetime | None
    date: datetime
    max_daily_submissions: int
    max_submission_bytes: int
    rules: str
    rules_required: bool
    notebooks_only: bool
    submissions_disabled: bool
    reveal_private: bool
    gone: bool
    wrap_bytes: int
    licence: str
    references: tuple[Reference, ...]
    files: tuple[DataFile, ...]
    edition: str

    @property
    def archive(self) -> Path:
        """The zip that participants download."""
        return self.folder / FILES

    @property
    def solution(self) -> Path:
        """The true answers; never served."""
        return self.folder / SOLUTION

    def over(self, now: datetime) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and now > self.deadline

    def file(self, name: str) -> DataFile | None:
        """The data file of that exact name."""
        return next((file for file in self.files if file.name == name), None)


class Hosting:
    """The competitions found in some folders, read anew when their files change.

    Args:
        folders: Each is a competition's folder or holds some; a later one wins over an earlier one
            with a competition of the same slug.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[object, Competition | WorkbenchError]] = {}

    def all(self) -> dict[str, Competition]:
        """Every sound competition by slug."""
        found = (self._read(folder) for folder in self._candidates())
        return {each.slug: each for each in found if isinstance(each, Competition)}

    def find(self, slug: str) -> Competition | None:
        """The competition of that slug."""
        if not SLUG.fullmatch(slug):
            return None
        named = [folder for folder in self._candidates() if folder.name == slug]
        found = [each for each in map(self._read, named) if isinstance(each, Competition)]
        return found[-1] if found else None

    def faults(self) -> list[str]:
        """Why folders with a competition.json are not hosted."""
        return [str(each) for each in map(self._read, self._candidates()) if isinstance(each, WorkbenchError)]

    def _candidates(self) -> list[Path]:
        found: list[Path] = []
        for folder in self._folders:
            if (folder / SETTINGS_FILE).is_file():
                found.append(folder)
            elif folder.is_dir():
                found += sorted(each for each in folder.iterdir() if (each / SETTINGS_FILE).is_file())
        return found

    def _read(self, folder: Path) -> Competition | WorkbenchError:
        state = tuple(_state(folder / name) for name in (SETTINGS_FILE, FILES, SOLUTION))
        with self._lock:
            held = self._known.get(folder)
            if held is None or held[0] != state:
                result: Competition | WorkbenchError
                try:
                    result = load(folder)
                except WorkbenchError as error:
                    result = error
                held = self._known[folder] = (state, result)
        return held[1]


def load(folder: Path) -> Competition:
    """Read one competition's folder.

    Raises:
        UsageError: Something is missing or does not fit; the message names the file.
    """
    where = folder / SETTINGS_FILE
    try:
        document = json.loads(where.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{where} cannot be read: {error}.", hint="docs/arena.md shows what it holds.") from None
    if not isinstance(document, dict):
        raise UsageError(f"{where} must hold a JSON object.", hint="docs/arena.md shows what it holds.")
    if not SLUG.fullmatch(folder.name):
        raise UsageError(
            f"The folder {folder} cannot name a competition.",
            hint="A slug has small letters, digits and single hyphens, such as digit-recognizer.",
        )
    take = _Fields(where, document)
    rules = take.object("rules")
    deadline = take.text("deadline", "")
    return Competition(
        slug=folder.name,
        folder=folder,
        title=take.text("title"),
        description=take.text("description", ""),
        category=take.text("category", "Practice"),
        reward=take.text("reward", "Knowledge"),
        metric=metric(take.text("metric")),
        deadline=take.moment("deadline") if deadline else None,
        date=take.moment("date"),
        max_daily_submissions=take.number("max_daily_submissions", 5),
        max_submission_bytes=take.number("max_submission_bytes", 50_000_000),
        rules=rules.text("text", ""),
        rules_required=rules.flag("acceptance_required"),
        notebooks_only=take.flag("notebooks_only"),
        submissions_disabled=take.flag("submissions_disabled"),
        reveal_private=take.flag("reveal_private"),
        gone=take.flag("gone"),
        wrap_bytes=take.number("wrap_bytes", 10_000_000),
        licence=take.text("licence", ""),
        references=_references(folder, take),
        files=_members(_own(folder, FILES)),
        edition=hashlib.sha256(_own(folder, SOLUTION).read_bytes()).hexdigest()[:16],
    )


class _Fields:
    def __init__(self, where: Path, document: Mapping[str, Any]) -> None:
        self.where = where
        self.document = document

    def _value(self, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.document.get(name, default)
        if value is None or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = getattr(kind, "__name__", kind)
            raise UsageError(
                f"{self.where}: {name!r} is {value!r}; it must be a {wanted}.",
                hint="docs/arena.md shows what it holds.",
            )
        return value

    def text(self, name: str, default: str | None = None) -> str:
        return str(self._value(name, str, default))

    def number(self, name: str, default: int) -> int:
        return int(self._value(name, int, default))

    def flag(self, name: str) -> bool:
        return bool(self._value(name, bool, default=False))

    def list(self, name: str) -> Sequence[Any]:
        return list(self._value(name, list, []))

    def object(self, name: str) -> _Fields:
        return _Fields(self.where, self._value(name, dict, {}))

    def moment(self, name: str) -> datetime:
        text = self.text(name)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(
                f"{self.where}: {name!r} is {text!r}, which is no moment.", hint="Write it as 2030-01-01T00:00:00Z."
            ) from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _references(folder: Path, take: _Fields) -> tuple[Reference, ...]:
    found = []
    for each in take.list("references"):
        entry = _Fields(take.where, each if isinstance(each, dict) else {})
        found.append(Reference(entry.text("name"), entry.text("method", ""), _own(folder, entry.text("file"))))
    return tuple(found)


def _own(folder: Path, name: str) -> Path:
    """A file of the competition; a link that leads out of its folder is refused."""
    path = folder / name
    if not path.is_file():
        raise UsageError(f"{path} is missing.", hint="docs/arena.md lists the files of a hosted competition.")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{path} leads out of the competition's folder.", hint="Put the file itself there.")
    return path


def _members(archive: Path) -> tuple[DataFile, ...]:
    try:
        with zipfile.ZipFile(archive) as content:
            infos = [info for info in content.infolist() if not info.is_dir()]
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{archive} is not a sound zip archive: {error}.", hint="Host it again: ./kwb arena add FOLDER --replace."
        ) from None
    for info in infos:
        parts = info.filename.split("/")
        odd = "\\" in info.filename or not info.filename.isprintable() or any(part in ("", ".", "..") for part in parts)
        if odd or stat.S_ISLNK(info.external_attr >> 16):
            raise UsageError(
                f"{archive} holds {info.filename!r}, which is not a plain file inside the archive.",
                hint="Pack plain files with relative names, without links.",
            )
    return tuple(sorted((DataFile(info.filename, info.file_size) for info in infos), key=lambda file: file.name))


def _state(path: Path) -> object:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
