"""The host's folders for input and output."""

from __future__ import annotations

import os
import re
import tempfile
from functools import partial
from pathlib import Path

from kaggle_workbench.doctor.check import Check, Result, failed, passed, warned
from kaggle_workbench.doctor.checks.machine import existing
from kaggle_workbench.doctor.facts import Facts

WINDOWS = re.compile(r"^[A-Za-z]:[\\/]|^\\\\")
NAMES = (("INPUT_DIR", "data/input"), ("OUTPUT_DIR", "data/output"))


def folders(facts: Facts) -> Result:
    """There, writable, and of this user."""
    wsl = "microsoft" in facts.text("proc/sys/kernel/osrelease").lower()
    said = []
    for name, usual in NAMES:
        text, origin = facts.setting(name)
        if WINDOWS.match(text) and not wsl:
            return failed(
                f"{name} is a path of Windows ({text}, {origin}), and this is no WSL",
                f"Write the path as this system has it, in {origin}.",
            )
        if WINDOWS.match(text):
            said.append(f"{name} {text}")
            continue
        folder = facts.folder(name, usual)
        if folder.is_symlink() and not folder.exists():
            return failed(f"{name} ({folder}) is a link that leads nowhere", f"Make its target, or: rm {folder}")
        if not folder.exists():
            above = existing(folder)
            if not os.access(above, os.W_OK) or not above.is_dir():
                return failed(
                    f"{name} ({folder}) is missing, and {above} may not be written",
                    f"sudo mkdir -p {folder} && sudo chown $USER {folder}",
                )
            return warned(f"{name} ({folder}) is missing", f"mkdir -p {folder}", partial(_make, folder))
        if not folder.is_dir():
            return failed(f"{name} ({folder}) is a file", f"Move it away, then: mkdir -p {folder}")
        trouble = _unwritable(folder)
        if trouble:
            return failed(f"{name} ({folder}) {trouble}", _mend(folder, trouble))
        said.append(f"{name} {folder}")
    return passed("; ".join(said))


def _make(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return f"made {folder}"


def _unwritable(folder: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x" * 4096)
            probe.flush()
            os.fsync(probe.fileno())
    except PermissionError:
        owner = folder.stat().st_uid
        return f"may not be written: it belongs to user {owner}, and this is user {os.getuid()}"
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    owner = folder.stat().st_uid
    if owner != os.getuid() and os.getuid() != 0:
        return f"belongs to user {owner}, and this is user {os.getuid()}"
    return ""


def _mend(folder: Path, trouble: str) -> str:
    if "belongs" in trouble:
        return f"sudo chown -R $USER {folder}"
    if "space" in trouble.lower():
        return "Free space on that disk, or set the name to a folder on another one."
    return f"Mount it writable, or set the name to another folder (now {folder})."


CHECKS = [Check("folders", "Host folders", folders)]
