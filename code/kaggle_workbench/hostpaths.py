r"""Folders as people write them on this machine: Windows drives under WSL, `~`, plain paths.

`D:\kaggle\input`, `D:/kaggle/input` and `/mnt/d/kaggle/input` are one folder under WSL.
"""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from kaggle_workbench.errors import MissingError, UsageError

_WINDOWS = re.compile(r"^(?P<drive>[A-Za-z]):(?:[\\/](?P<rest>.*))?$", re.DOTALL)


def is_wsl(release: Path = Path("/proc/sys/kernel/osrelease")) -> bool:
    """Whether this is Linux under Windows (WSL)."""
    try:
        return "microsoft" in release.read_text(encoding="utf-8").lower()
    except OSError:
        return False


def drives_folder(config: Path = Path("/etc/wsl.conf")) -> Path:
    """Where WSL shows the Windows drives: `/mnt`, unless wsl.conf names another folder."""
    parser = configparser.ConfigParser(strict=False)
    try:
        parser.read(config, encoding="utf-8")
        return Path(parser.get("automount", "root", fallback="/mnt").strip("\"' "))
    except configparser.Error:
        return Path("/mnt")


def host_folder(text: str, *, wsl: bool | None = None, drives: Path | None = None) -> Path:
    r"""A folder of this machine from what the user wrote; it need not exist.

    Args:
        text: `D:\data`, `D:/data`, `/mnt/d/data`, `~/data`, `data` (kept relative).
        wsl: Whether this is WSL; by default found out.
        drives: Where WSL shows the drives; by default found out.

    Raises:
        UsageError: A Windows path on a machine that has no Windows drives, or a network path.
        MissingError: Under WSL, a drive that is not there.
    """
    wsl = is_wsl() if wsl is None else wsl
    drives = (drives_folder() if wsl else Path("/mnt")) if drives is None else drives
    if text.startswith("\\\\"):
        raise UsageError(
            f"{text} is a Windows network path, which cannot be used here.",
            hint="Write the folder as this system sees it, such as /home/me/kaggle/input or /mnt/d/kaggle/input.",
        )
    match = _WINDOWS.match(text)
    if match is None:
        path = Path(text).expanduser()
        if wsl:
            _require_drive(path, text, drives)
        return path
    if not wsl:
        raise UsageError(
            f"{text} is a Windows path, and there is no drive {match['drive'].upper()}: here (no WSL).",
            hint="Write the folder as this system sees it, such as /home/me/kaggle/input.",
        )
    path = drives / match["drive"].lower() / (match["rest"] or "").replace("\\", "/")
    _require_drive(path, text, drives)
    return path


def _require_drive(path: Path, text: str, drives: Path) -> None:
    inner = path.parts[len(drives.parts) :]
    if path.parts[: len(drives.parts)] != drives.parts or not inner or not re.fullmatch(r"[a-z]", inner[0]):
        return
    if not (drives / inner[0]).is_dir():
        drive = inner[0].upper()
        raise MissingError(
            f"{text} is on the Windows drive {drive}:, which WSL does not show ({drives / inner[0]} is missing).",
            hint=f"Plug the drive in, then run: sudo mkdir -p {drives / inner[0]} && "
            f"sudo mount -t drvfs {drive}: {drives / inner[0]}",
        )
