"""Where a pushed notebook runs: a file system, a network and processes of its own, made by Linux namespaces.

Its root holds the system's programs, this Python with the packages of the tests' environment (without this
project), and /kaggle. Nothing else of this machine is there: no home, no project, no temporary files, and no
network but a loopback. Neither Docker nor root is needed where the kernel allows user namespaces.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "sys")
# Enough for programs; a GPU of this machine is none of a session's.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INSIDE = Path(__file__).parent / "inside"
# Ways to get the namespaces, the most complete first: without processes of its own a session sees this machine's.
WAYS = (("-m", "-p", "-f"), ("-m",), ("-r", "-m", "-p", "-f"), ("-r", "-m"))


@dataclass(frozen=True)
class Room:
    """What one session sees.

    Attributes:
        root: An empty folder, on which its file system is mounted (for itself alone).
        working: What /kaggle/working is, out here.
        source: Folder with the notebook, read-only in there as /kaggle/src.
        inputs: Folders under /kaggle/input by their path there, read-only.
        extra: Further folders, read-only, by their whole path in there.
        hide: Names in site-packages that this session does not have.
        network: Give it this machine's network.
    """

    root: Path
    working: Path
    source: Path
    inputs: Mapping[str, Path]
    extra: Mapping[str, Path] = field(default_factory=dict)
    hide: Sequence[str] = ()
    network: bool = False


@functools.cache
def why_not() -> str:
    """Why sessions cannot be isolated on this machine; "" when they can."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        return "pushed notebooks are isolated by Linux namespaces (unshare), which this machine does not have"
    return "" if way() else "this machine allows no namespaces (unshare), by which pushed notebooks are isolated"


@functools.cache
def way() -> tuple[str, ...]:
    """The words after `unshare` that work here; none when nothing does."""
    with tempfile.TemporaryDirectory() as folder:
        for words in WAYS:
            mounts = f"mount --make-rprivate / && mount -t tmpfs tmpfs {shlex.quote(folder)}"
            if "-p" in words:
                mounts += f" && mkdir {shlex.quote(folder)}/p && mount -t proc proc {shlex.quote(folder)}/p"
            tried = subprocess.run(["unshare", *words, "-n", "sh", "-c", mounts], capture_output=True, timeout=30)
            if tried.returncode == 0:
                return words
    return ()


def command(room: Room, *words: str) -> list[str]:
    """The command that runs `words` in the room, with its own file system as root."""
    network = () if room.network else ("-n",)
    return ["unshare", *way(), *network, "sh", "-c", _script(room, words)]


def python() -> str:
    """This Python, under the path at which the room has it too."""
    return sys.executable


def site_packages() -> Path:
    """The packages that a session has."""
    return Path(sysconfig.get_path("purelib"))


def not_of_the_image() -> list[str]:
    """What in site-packages is this project, or leads to folders outside it."""
    site = site_packages()
    names = [each.name for each in site.iterdir() if "kaggle_workbench" in each.name]
    for path in site.glob("*.pth"):
        lines = path.read_text(encoding="utf-8").splitlines()
        if any(Path(line.strip()).is_absolute() for line in lines if line.strip()):
            names.append(path.name)
    return sorted(set(names))


def outside(packages: Collection[str]) -> list[str]:
    """Names in site-packages that belong only to distributions other than these."""
    wanted = {_plain(name) for name in packages}
    if "tensorflow" in wanted:
        # The tests' environment has the same package under another name.
        wanted.add("tensorflow-cpu")
    kept: set[str] = set()
    others: set[str] = set()
    for each in metadata.distributions(path=[str(site_packages())]):
        tops = {Path(file).parts[0] for file in each.files or ()} - {"..", "__pycache__"}
        (kept if _plain(each.name) in wanted else others).update(tops)
    return sorted(others - kept)


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _script(room: Room, words: Sequence[str]) -> str:
    """The shell's lines that build the room's file system, from the bottom up, and start `words` in it."""
    root = shlex.quote(str(room.root))
    lines = ["set -e", "mount --make-rprivate /", f"mount -t tmpfs -o mode=755 tmpfs {root}"]
    lines.append(f"mkdir -p {root}/proc {root}/root {root}/run {root}/var/tmp {root}/tmp {root}/kaggle/temp")
    lines.append(f"chmod 1777 {root}/tmp {root}/var/tmp")
    lines += _system(root) + _devices(root)
    for prefix in _prefixes():
        lines += _read_only(prefix, f"{root}{shlex.quote(str(prefix))}")
    lines += _packages(root, [*not_of_the_image(), *room.hide])
    lines += [f"mkdir {root}/kaggle/working", f"mount --bind {shlex.quote(str(room.working))} {root}/kaggle/working"]
    lines += _read_only(room.source, f"{root}/kaggle/src")
    lines += _read_only(INSIDE, f"{root}/kaggle/lib")
    lines += [f"mkdir {root}/kaggle/input", f"mount -t tmpfs -o mode=755 tmpfs {root}/kaggle/input"]
    for name, folder in room.inputs.items():
        lines += _read_only(folder, f"{root}/kaggle/input/{shlex.quote(name)}")
    lines.append(f"mount -o remount,bind,ro {root}/kaggle/input")
    for where, folder in room.extra.items():
        lines += _read_only(folder, f"{root}{shlex.quote(where)}")
    lines.append(f"exec chroot {root} {shlex.join(words)}")
    return "\n".join(lines)


def _system(root: str) -> list[str]:
    """This machine's programs and libraries, and what is told of its processes."""
    lines = []
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            lines.append(f"cp -P /{name} {root}/")
        elif path.is_dir():
            lines += _read_only(path, f"{root}/{name}", bind="--rbind")
    # In a process tree of its own the old list of processes would be of no use, and here nobody's business.
    lines.append(f"mount -t proc proc {root}/proc" if "-p" in way() else f"mount --rbind /proc {root}/proc")
    return lines


def _devices(root: str) -> list[str]:
    lines = [f"mkdir -p {root}/dev/pts {root}/dev/shm", f"mount -t tmpfs -o mode=1777 tmpfs {root}/dev/shm"]
    for name in DEVICES:
        if Path("/dev", name).exists():
            lines.append(f"touch {root}/dev/{name}; mount --bind /dev/{name} {root}/dev/{name}")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        lines.append(f"ln -s /proc/self/fd/{number} {root}/dev/{name}")
    lines += [f"ln -s /proc/self/fd {root}/dev/fd", f"mount --rbind /dev/pts {root}/dev/pts"]
    lines.append(f"ln -s /dev/pts/ptmx {root}/dev/ptmx")
    return lines


def _prefixes() -> list[Path]:
    """Folders of this Python that are not among the system's, outer ones first."""
    real = Path(os.path.realpath(sys.executable)).parent.parent
    found = {Path(sys.prefix), Path(sys.base_prefix), real}
    outside = [each for each in found if each != Path("/") and each.parts[1] not in SYSTEM]
    return sorted(outside, key=lambda path: len(path.parts))


def _packages(root: str, hidden: Sequence[str]) -> list[str]:
    """Lay a writable layer over site-packages (pip may install in there, and no trace stays), without `hidden`."""
    site = shlex.quote(str(site_packages()))
    layer = f"{root}/.layer"
    options = f"lowerdir={site},upperdir={layer}/upper,workdir={layer}/work"
    if "-r" in way():
        options += ",userxattr"
    gone = 'raise ModuleNotFoundError(f"No module named {__name__!r}", name=__name__)'
    lines = [
        f"mkdir -p {layer}/upper {layer}/work {layer}/empty {layer}/gone; touch {layer}/nothing",
        f"echo {shlex.quote(gone)} > {layer}/gone/__init__.py",
        # Where layers are not allowed the packages stay read-only.
        f"mount -t overlay overlay -o {options} {root}{site} 2>/dev/null || true",
    ]
    # A function with short calls: one argument of a command holds 128 KiB, and hundreds of names may be hidden.
    # Files of another user's environment cannot be removed even in a layer; they are covered.
    path = f'{root}{site}/"$2"'
    mask = f'mount --bind {layer}/"$1" {path} 2>/dev/null || mount --bind {layer}/nothing {path}'
    lines.append(f"hide() {{ [ ! -e {path} ] || rm -rf {path} 2>/dev/null || {{ {mask}; }}; }}")
    for name in hidden:
        lines.append(f"hide {'empty' if name.endswith('-info') else 'gone'} {shlex.quote(name)}")
    command = Path(sys.executable).with_name("kwb")
    if command.exists():
        lines.append(f"mount --bind {layer}/nothing {root}{shlex.quote(str(command))}")
    return lines


def _read_only(folder: Path, target: str, *, bind: str = "--bind") -> list[str]:
    lines = [f"mkdir -p {target}", f"mount {bind} {shlex.quote(str(folder))} {target}"]
    # In a user namespace flags that the original mount has may not be dropped.
    options = ("remount,bind,ro", "remount,bind,ro,nosuid,nodev", "remount,bind,ro,nosuid,nodev,noexec")
    lines.append(" || ".join(f"mount -o {each} {target} 2>/dev/null" for each in options))
    return lines
