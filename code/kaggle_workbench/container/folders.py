"""Folders of this machine: whose they are, whether they can be used, how fast they are.

Nothing on a mount may end up owned by root: Docker would make a missing folder as root, so every
folder is checked and made here, before anything is built, as the user whose ids the container uses.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kaggle_workbench.container.mounts import PROJECT, HostMount
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.files import disk_errors

# File systems that reach Windows' disks from WSL through a slow door.
SLOW_FILE_SYSTEMS = ("9p", "drvfs", "v9fs", "virtiofs")
SLOW_MB_PER_S = 100.0


@dataclass(frozen=True)
class Owner:
    """The user and group of this machine that files of the container belong to."""

    uid: int
    gid: int


def owner_of(project: Path) -> Owner:
    """Whose files the container writes: the caller's; for root the project folder's owner, else 1000."""
    if os.geteuid() != 0:
        return Owner(os.getuid(), os.getgid())
    status = project.stat()
    return Owner(status.st_uid, status.st_gid) if status.st_uid != 0 else Owner(1000, 1000)


def prepare(mounts: Sequence[HostMount], owner: Owner) -> list[str]:
    """Check all folders and make what is missing, as `owner`; returns sentences the user should see.

    Raises:
        UsageError: A file is in the way.
        MissingError: A folder cannot be made, read or written.
    """
    check(mounts, owner)
    project = next(mount.source for mount in mounts if mount.target == PROJECT)
    notes = []
    for mount in mounts:
        make_folder(mount.source, owner)
        if will_be_given(mount, mounts, owner):
            give_all(mount.source, owner)
            notes.append(f"{mount.source} was root's; it now belongs to the container's user (uid {owner.uid}).")
        if mount.target.startswith(f"{PROJECT}/"):
            make_folder(project / mount.target.removeprefix(f"{PROJECT}/"), owner)
    check(mounts, owner)
    if can_write(project, owner):
        return notes
    return [
        *notes,
        f"The project's folder {project} does not belong to the container's user (uid {owner.uid}): notebooks run, "
        f"but cannot be saved inside. To change that: sudo chown -R {owner.uid}:{owner.gid} {project}",
    ]


def check(mounts: Sequence[HostMount], owner: Owner) -> None:
    """Check the folders without making any (see `prepare`)."""
    for mount in mounts:
        path = mount.source
        existing = next(folder for folder in (path, *path.parents) if _exists(folder))
        if not existing.is_dir():
            raise UsageError(
                f"{path} (from {mount.origin}) cannot be mounted on {mount.target}/: {existing} is a file.",
                hint="Choose another folder, or move that file away.",
            )
        if existing != path:
            if not can_write(existing, Owner(os.geteuid(), os.getegid())):
                raise MissingError(
                    f"{path} (from {mount.origin}) cannot be made: {existing} is not writable for you.",
                    hint="Make the folder yourself, or choose another one.",
                )
        elif (
            mount.target != PROJECT
            and not mount.read_only
            and not can_write(path, owner)
            and not will_be_given(mount, mounts, owner)
        ):
            why = "is on a read-only disk" if _is_read_only_disk(path) else f"is not writable for uid {owner.uid}"
            raise MissingError(
                f"{path} (from {mount.origin}) {why}; the container writes to {mount.target}/.",
                hint=f"Run: sudo chown {owner.uid}:{owner.gid} {path}   or choose another folder with "
                "--input, --output or --mount.",
            )


def make_folder(path: Path, owner: Owner) -> None:
    """Make a folder and its missing parents so that they belong to `owner`."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with disk_errors(path):
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            if os.geteuid() == 0:
                os.chown(folder, owner.uid, owner.gid)


def will_be_given(mount: HostMount, mounts: Sequence[HostMount], owner: Owner) -> bool:
    """Whether `prepare` hands the folder over: root calls, and a folder inside the project is root's.

    So it is after a clone or a `kwb demo` as root; folders elsewhere are the user's own business.
    """
    project = next(each.source for each in mounts if each.target == PROJECT)
    return (
        os.geteuid() == 0
        and owner.uid != 0
        and project in mount.source.parents
        and mount.source.is_dir()
        and not _is_read_only_disk(mount.source)
        and any(part.lstat().st_uid == 0 for part in (mount.source, *mount.source.rglob("*")))
    )


def give_all(path: Path, owner: Owner) -> None:
    """Hand what is root's in a folder over to `owner`, links themselves and not what they point to."""
    for part in (path, *path.rglob("*")):
        if part.lstat().st_uid == 0:
            os.chown(part, owner.uid, owner.gid, follow_symlinks=False)


def give(path: Path, like: Path) -> None:
    """When root wrote a file into somebody's folder, make it that folder's owner's."""
    if os.geteuid() == 0:
        status = like.stat()
        os.chown(path, status.st_uid, status.st_gid)


def can_write(folder: Path, owner: Owner) -> bool:
    """Whether `owner` can write into a folder that is bound into a container (its parents do not count there)."""
    if _is_read_only_disk(folder):
        return False
    if owner.uid == 0:
        return True
    if os.geteuid() == owner.uid:
        return os.access(folder, os.W_OK | os.X_OK)
    status = folder.stat()
    shift = 6 if status.st_uid == owner.uid else 3 if status.st_gid == owner.gid else 0
    return (status.st_mode >> shift) & 0o3 == 0o3


def file_system(path: Path, table: str | None = None) -> str:
    """The file system's type under `path` ("ext4", "9p"), "" when it cannot be told.

    Args:
        path: An absolute path.
        table: Content of /proc/self/mountinfo, for tests.
    """
    if table is None:
        try:
            table = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
        except OSError:
            return ""
    best, kind = -1, ""
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4].replace("\\040", " ")
        inside = point == "/" or path == Path(point) or Path(point) in path.parents
        if inside and len(point) >= best:
            best, kind = len(point), right.split()[0]
    return kind


def measure(folder: Path, seconds: float = 2.0) -> float:
    """Write speed of a folder in MB/s, from at most 64 MB and about `seconds` seconds."""
    block = os.urandom(1 << 20)
    with disk_errors(folder), tempfile.NamedTemporaryFile(dir=folder, prefix=".kwb-speed-") as file:
        start = time.perf_counter()
        written = 0
        while written < 64 and time.perf_counter() - start < seconds:
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
            written += 1
        return written * 1.048576 / max(time.perf_counter() - start, 1e-9)


def slow_notes(mounts: Sequence[HostMount]) -> list[str]:
    """A sentence for each folder on a slow door to Windows' disks, with its measured speed."""
    notes = []
    for mount in mounts:
        kind = file_system(mount.source.resolve())
        if kind not in SLOW_FILE_SYSTEMS or mount.read_only:
            continue
        speed = measure(mount.source)
        if speed < SLOW_MB_PER_S:
            notes.append(
                f"{mount.source} is reached through {kind} (a Windows disk seen from WSL): {speed:.0f} MB/s measured. "
                "Data load several times faster from a folder of the Linux side, such as ~/kaggle/input."
            )
    return notes


def _is_read_only_disk(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        return False
    return True
