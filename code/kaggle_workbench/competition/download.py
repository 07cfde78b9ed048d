"""Downloading a competition's files: whole or not at all, once, and noticed when they change."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from kaggle_workbench.competition import manifest as manifests
from kaggle_workbench.competition.archive import (
    BrokenArchiveError,
    DataFile,
    UnsafeArchiveError,
    content_bytes,
    is_wrapped,
    unpack,
    unwrap,
)
from kaggle_workbench.competition.connect import Source
from kaggle_workbench.competition.fetch import Attempt, fetch, free_bytes, require_space
from kaggle_workbench.competition.folders import (
    candidates,
    data_folder,
    holds,
    unpack_folder,
    visible_files,
    work_folder,
)
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.files import disk_errors, human_bytes, locked, sha256
from kaggle_workbench.kaggle_api import KaggleError, RemoteFile
from kaggle_workbench.kaggle_api.errors import DeniedError, GoneError
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import note, plural, progress, warn

# A page of the list is a call; of a competition with more files than this, the list is not read to its end.
MOST_LISTED = 2000
# Up to this many damaged files are fetched one by one; more are faster in the archive.
FEW_FILES = 5
# The list's sizes are not promised to be exact; a bomb is larger by another order.
GENEROUS = 10
SPARE_BYTES = 64_000_000


@dataclass(frozen=True)
class DataFiles:
    """A competition's files on this disk.

    Attributes:
        folder: The folder that holds them (and possibly the user's own files besides).
        files: The competition's files, by name.
        fetched: Whether anything was downloaded just now.
    """

    folder: Path
    files: tuple[DataFile, ...]
    fetched: bool


def download(settings: Settings, source: Source, *, roots: Sequence[Path] | None = None) -> DataFiles:
    """Have the competition's files on this disk, fetching what is missing.

    A whole copy is recognised and not fetched again, wherever it lies (see `folders.candidates`); damaged
    files are found by their hash and fetched anew, and so is everything when the competition was updated.
    An interrupted download goes on where it stopped. When the server cannot be asked, a whole copy is used
    as it is, and that is said.

    Args:
        settings: Settings in force.
        source: An open connection.
        roots: Input folders to look in; see `folders.candidates`.

    Raises:
        KaggleError: The server refuses or cannot be reached, and there is no whole copy.
        MissingError: Not enough room on the disk.
        WorkError: What the server delivers is broken or unsafe.
    """
    job = _Job(settings, source, roots)
    found = job.find()
    if found is None:
        job.make_room()
        with locked(job.work.with_suffix(".lock"), what=f"the download of {settings.competition}"):
            # Another process may have brought it meanwhile.
            found = job.find() or job.bring()
    return found


class _Job:
    def __init__(self, settings: Settings, source: Source, roots: Sequence[Path] | None) -> None:
        self.slug = settings.competition
        self.source = source
        self.input_dir = settings.input_dir
        self.client = source.client
        self.folder = data_folder(settings, source.kind)
        self.work = work_folder(settings, source.kind)
        self.unpacked = unpack_folder(settings, source.kind)
        self.manifest_path = self.work.with_suffix(".json")
        self.places = candidates(settings, source.kind, roots=roots)
        self.said: set[str] = set()

    @cached_property
    def listing(self) -> tuple[RemoteFile, ...] | KaggleError:
        """The server's list of files, or why there is none; asked for once."""
        try:
            return tuple(self.client.files(self.slug, limit=MOST_LISTED))
        except KaggleError as error:
            return error

    @property
    def listed(self) -> tuple[RemoteFile, ...]:
        return () if isinstance(self.listing, KaggleError) else self.listing

    def find(self) -> DataFiles | None:
        """A whole copy that is here already."""
        manifest = manifests.read(self.manifest_path)
        if manifest is not None and not self._outdated(manifest) and not self._damaged(manifest):
            if isinstance(self.listing, KaggleError):
                self._say(f"Using the copy of {manifest.date[:10]}: {self.listing.message}")
            return DataFiles(self.folder, manifest.files, fetched=False)
        return self._find_elsewhere(manifest)

    def make_room(self) -> None:
        """Make our hidden folder; the first thing that is written."""
        with disk_errors(self.work.parent):
            try:
                self.work.parent.mkdir(parents=True, exist_ok=True)
            except (NotADirectoryError, FileExistsError):
                raise UsageError(
                    f"{self.input_dir} is not a folder, so nothing can be downloaded into it.",
                    hint="Set INPUT_DIR to a folder, or move away what is there.",
                ) from None

    def bring(self) -> DataFiles:
        """Fetch what is missing."""
        if isinstance(self.listing, KaggleError):
            raise self.listing
        manifest = manifests.read(self.manifest_path)
        if manifest is not None and not self._outdated(manifest):
            bad = self._damaged(manifest)
            if len(bad) <= FEW_FILES and self._mend(manifest, bad):
                return self._finish(manifest.files)
        return self._finish(self._bring_all())

    def _outdated(self, manifest: manifests.Manifest) -> bool:
        if isinstance(self.listing, KaggleError) or self.listing == manifest.listed:
            return False
        self._say(f"{self.slug} was updated at {self.source.label} since {manifest.date[:10]}; fetching it again.")
        return True

    def _damaged(self, manifest: manifests.Manifest) -> list[str]:
        bad = manifest.damaged(self.folder)
        if bad:
            names = ", ".join(bad[:3]) + (", ..." if len(bad) > 3 else "")
            self._say(f"Missing or not as downloaded: {names}; fetching {'it' if len(bad) == 1 else 'them'} anew.")
        return bad

    def _find_elsewhere(self, manifest: manifests.Manifest | None) -> DataFiles | None:
        """Files that somebody else put there: whole when everything listed is there in its size."""
        for place in self.places:
            ours = place == self.folder
            if ours and (manifest is not None or self.unpacked.exists()):
                continue
            if self.listed:
                if all(_has(place, file) for file in self.listed):
                    return self._as_found(place, [file.name for file in self.listed])
            elif isinstance(self.listing, KaggleError) and holds(place):
                self._say(f"{self.listing.message} The files in {place} are used as they are, unchecked.")
                return self._as_found(place, sorted(p.relative_to(place).as_posix() for p in visible_files(place)))
        return None

    def _as_found(self, place: Path, names: Sequence[str]) -> DataFiles:
        sizes = {name: (place / name).stat().st_size for name in names}
        hashed = sum(sizes.values()) <= manifests.HASH_BYTES
        files = [DataFile(name, sizes[name], sha256(place / name) if hashed else "") for name in names]
        return DataFiles(place, tuple(files), fetched=False)

    def _mend(self, manifest: manifests.Manifest, names: Sequence[str]) -> bool:
        """Fetch single files; False when the server's are not the manifest's, so that all must be fetched."""
        folder = self.work / "single"
        for name in names:
            attempt = partial(self.client.download_file, self.slug, name, folder)
            try:
                path = self._fetch(attempt, folder, name)
            except (GoneError, DeniedError):
                return False
            if is_wrapped(path, name):
                (folder / name).unlink(missing_ok=True)
                unwrap(path, name, folder, limit_bytes=self._limit())
                path = folder / name
            if sha256(path) != manifest.hash_of(name):
                shutil.rmtree(folder, ignore_errors=True)
                return False
            self._place(path, name)
        return True

    def _bring_all(self) -> list[DataFile]:
        require_space(self.work, self._content, what=f"the content of {self.slug}")
        note(f"Downloading {self.slug} from {self.source.label} ({self._size_line()}) to {self.folder}")
        try:
            return self._unpack(self._fetch_archive())
        except BrokenArchiveError as error:
            note(f"{error.message} Fetching it anew.")
        try:
            return self._unpack(self._fetch_archive())
        except BrokenArchiveError as error:
            raise WorkError(
                f"What {self.source.label} delivers for {self.slug} is broken, twice in a row: {error.message}",
                hint="Nothing was changed. Try again later; if it stays so, tell the competition's host.",
            ) from None

    def _fetch_archive(self) -> Path:
        folder = self.work / "archive"
        return self._fetch(partial(self.client.download_archive, self.slug, folder), folder, f"{self.slug}.zip")

    def _fetch(self, attempt: Attempt, folder: Path, what: str) -> Path:
        def check(now: int, total: int | None) -> None:
            if total is not None:
                require_space(self.work, total - now + self._content, what=f"{self.slug} with its archive")

        with disk_errors(folder):
            return fetch(attempt, folder, what=what, pace=self.client.pace, check=check)

    def _unpack(self, archive: Path) -> list[DataFile]:
        shutil.rmtree(self.unpacked, ignore_errors=True)
        names = {file.name for file in self.listed}
        limit = self._limit()
        try:
            size = content_bytes(archive)
            require_space(self.work, min(size, limit), what=f"the content of {archive.name}")
            with progress(size, f"unpacking {archive.name}") as bar:
                return unpack(archive, self.unpacked, limit_bytes=limit, listed=names, on_bytes=bar.update)
        except BaseException as error:
            shutil.rmtree(self.unpacked, ignore_errors=True)
            if isinstance(error, BrokenArchiveError | UnsafeArchiveError):
                shutil.rmtree(archive.parent, ignore_errors=True)
            raise

    def _finish(self, files: Sequence[DataFile]) -> DataFiles:
        old = manifests.read(self.manifest_path)
        for file in files:
            staged = self.unpacked / file.name
            if staged.exists():
                self._place(staged, file.name, file)
        manifests.write(self.manifest_path, self.folder, listed=self.listed, files=files)
        shutil.rmtree(self.work, ignore_errors=True)
        names = {file.name for file in files}
        self._warn_of({file.name for file in self.listed} - names, "listed, but not in the archive")
        self._warn_of(
            {file.name for file in old.files} - names if old else set(),
            "no longer part of the competition; left in place",
        )
        size = human_bytes(sum(file.size for file in files))
        note(f"{plural(len(files), 'file')}, {size}, in {self.folder}")
        return DataFiles(self.folder, tuple(files), fetched=True)

    def _place(self, staged: Path, name: str, file: DataFile | None = None) -> None:
        """Move a file to its place in one step, unless the very same one is there already."""
        target = self.folder / name
        if file is not None and _is(target, file):
            return
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                staged.replace(target)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                # The competition's folder is a mount or a link to another disk.
                beside = target.with_name(f".{target.name}.kwb")
                shutil.copyfile(staged, beside)
                beside.replace(target)

    @property
    def _content(self) -> int:
        return sum(file.size for file in self.listed)

    def _limit(self) -> int:
        """Most bytes an archive may hold."""
        if self._content and len(self.listed) < MOST_LISTED:
            return GENEROUS * self._content + SPARE_BYTES
        return free_bytes(self.work)

    def _size_line(self) -> str:
        more = "at least " if len(self.listed) >= MOST_LISTED else ""
        return f"{more}{plural(len(self.listed), 'file')}, {human_bytes(self._content)}"

    def _warn_of(self, names: set[str], what: str) -> None:
        if names:
            warn(f"{', '.join(sorted(names)[:3])}{', ...' if len(names) > 3 else ''}: {what}.")

    def _say(self, text: str) -> None:
        if text not in self.said:
            self.said.add(text)
            note(text)


def _has(place: Path, file: RemoteFile) -> bool:
    try:
        size = (place / file.name).stat().st_size
    except OSError:
        return False
    return not file.size or size == file.size


def _is(path: Path, file: DataFile) -> bool:
    try:
        return path.stat().st_size == file.size and sha256(path) == file.sha256
    except OSError:
        return False
