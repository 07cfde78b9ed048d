"""What is known of the process that computes: who it is, its versions, its commit, its memory.

Read by `records` for every step. Nothing here imports a framework: versions come from the
installed packages' metadata.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("keras", "tensorflow", "tensorflow-cpu", "jax", "torch", "numpy", "pandas", "scikit-learn", "kaggle")
GIT_TIMEOUT_S = 10
LOCK_FILE = Path(".project") / "image.lock"
# What a bundle was made from, as JSON: {commit, dirty, version}.
ORIGIN = "KWB_ORIGIN"
# Kaggle's images name the commit of docker-python they were built from.
IMAGE_COMMIT_FILE = Path("/etc/git_commit")


def versions() -> dict[str, str]:
    """Versions of Python, the workbench and the installed packages that decide a result."""
    import kaggle_workbench

    found = {"python": platform.python_version(), "kaggle-workbench": kaggle_workbench.__version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit(root: Path | None) -> dict[str, Any] | None:
    """The project's git commit and whether tracked files differ from it; None outside git.

    On another machine it is the one that the notebook there was made from.
    """
    if root is None and os.environ.get(ORIGIN):
        origin = json.loads(os.environ[ORIGIN])
        return {"commit": origin["commit"], "dirty": origin["dirty"]} if origin.get("commit") else None
    if root is None or not (root / ".git").exists():
        return None
    head = _git(root, "rev-parse", "HEAD")
    # In a container the host's folders hide the two mount points, which git would take for a change.
    code = ("--", ".", ":!data/input", ":!data/output")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", *code)
    return {"commit": head, "dirty": bool(changed)} if head and changed is not None else None


def image(root: Path | None) -> dict[str, Any] | None:
    """The image of the project's lock, as far as it is known, and whether this process runs in one.

    Returns:
        {image, tag, digest, commit, inside}; None where there is neither a lock nor an image.
    """
    lock: Any = None
    if root is not None:
        try:
            lock = json.loads((root / LOCK_FILE).read_bytes())
        except (OSError, ValueError):
            lock = None
    try:
        inside: str | None = IMAGE_COMMIT_FILE.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        inside = None
    if not isinstance(lock, dict):
        return {"image": None, "tag": None, "digest": None, "commit": inside, "inside": True} if inside else None
    known = {name: lock.get(name) for name in ("image", "tag", "digest")}
    return {**known, "commit": inside or lock.get("git_commit"), "inside": bool(inside or os.environ.get("NVWB_UID"))}


def this_process() -> dict[str, Any]:
    """Enough to tell later, on this machine or another, whether this process still lives."""
    return {"host": socket.gethostname(), "space": _space(), "pid": os.getpid(), "started": _start_ticks(os.getpid())}


def is_gone(process: Mapping[str, Any]) -> bool | None:
    """Whether a process described by `this_process` has ended; None when it cannot be told from here."""
    if process.get("host") != socket.gethostname() or process.get("space") != _space() or os.name == "nt":
        return None
    pid = process.get("pid")
    # 0 and negative numbers mean groups of processes, and no system has larger ones.
    if not isinstance(pid, int) or not 0 < pid < 1 << 31:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # Another user's process, which may still be a later one.
        pass
    # A number that a later process got again is not the one that was written down.
    return _start_ticks(pid) != process.get("started")


def peak_memory_bytes() -> int | None:
    """The most main memory this process has held so far, in bytes; None where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return _peak_by_rusage()
    # Not getrusage on Linux: its figure is inherited from the process that started this one.
    match = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else None


def _peak_by_rusage() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _git(root: Path, *words: str) -> str | None:
    # In a container the folder may belong to another user, which git refuses without being told.
    command = ["git", "-c", "safe.directory=*", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _space() -> str:
    """Names the set of processes that one sees here: this boot, this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
        return f"{boot}-{str(Path('/proc/self/ns/pid').readlink()).strip('pid:[]')}"
    except OSError:
        return ""


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The third field is the state, the 22nd the start; the second one, the command's name, may itself hold blanks.
    fields = stat.rpartition(")")[2].split()
    # A process that has ended stays listed until its parent asks; in a container that may be never.
    return None if fields[0] in ("Z", "X") else int(fields[19])
