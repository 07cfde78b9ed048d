"""Windows' subsystem for Linux: its version, where the project lies, how much memory it has."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from kaggle_workbench.doctor.check import Check, Result, failed, passed, warned
from kaggle_workbench.doctor.facts import Facts

SLOW = ("9p", "drvfs", "v9fs")
# As many small files are written and removed to see how fast the disk is with them.
FILES = 20


def version(facts: Facts) -> Result:
    """WSL 1 or 2."""
    release = facts.text("proc/sys/kernel/osrelease").strip()
    if "microsoft" not in release.lower():
        return passed("not WSL")
    if "wsl2" in release.lower() or "microsoft-standard" in release:
        return passed(f"WSL 2 ({release})")
    return failed(f"WSL 1 ({release}): neither Docker nor GPUs work there", "In PowerShell: wsl --set-version DISTRO 2")


def mount(facts: Facts) -> Result:
    """The kind of disk under the project and its data."""
    slow = []
    for name, folder in (
        ("the project", facts.root),
        ("INPUT_DIR", facts.folder("INPUT_DIR", "data/input")),
        ("OUTPUT_DIR", facts.folder("OUTPUT_DIR", "data/output")),
    ):
        if (kind := kind_of(facts, folder)) in SLOW:
            slow.append(f"{name} ({folder}, {kind})")
    speed = _ms_a_file(facts.folder("OUTPUT_DIR", "data/output"))
    said = "" if speed is None else f"; a small file in OUTPUT_DIR takes {speed:.2g} ms"
    if not slow:
        return passed(f"data and project lie on Linux' own disks{said}")
    return warned(
        f"on a Windows disk, where many small files are many times slower: {', '.join(slow)}{said}",
        "Move the project to ~ in WSL; keep only what Windows must see on /mnt/c (docs/mounts.md).",
    )


def _ms_a_file(folder: Path) -> float | None:
    """Milliseconds to write and remove a small file; None where none can be written."""
    try:
        with tempfile.TemporaryDirectory(prefix=".kwb-speed-", dir=folder) as made:
            start = time.perf_counter()
            for number in range(FILES):
                Path(made, str(number)).write_bytes(b"x" * 1000)
            for number in range(FILES):
                Path(made, str(number)).unlink()
            return 1000 * (time.perf_counter() - start) / FILES
    except OSError:
        return None


def memory(facts: Facts) -> Result:
    """The memory that Windows lets WSL have."""
    if "microsoft" not in facts.text("proc/sys/kernel/osrelease").lower():
        return passed("not WSL")
    found = re.search(r"MemTotal:\s+(\d+) kB", facts.text("proc/meminfo"))
    size = int(found.group(1)) * 1024 / 1e9 if found else 0.0
    limit = ""
    for config in sorted(facts.path("mnt/c/Users").glob("*/.wslconfig")):
        text = config.read_text(encoding="utf-8", errors="replace")
        if set_to := re.search(r"^\s*memory\s*=\s*(\S+)", text, re.MULTILINE | re.IGNORECASE):
            limit = f"{config} says memory={set_to.group(1)}"
    if size and size < 8:
        return warned(
            f"{size:.1f} GB{f' ({limit})' if limit else ''}",
            "Write memory=16GB under [wsl2] in %UserProfile%\\.wslconfig, then in PowerShell: wsl --shutdown",
        )
    return passed(f"{size:.0f} GB{f' ({limit})' if limit else ''}")


def kind_of(facts: Facts, folder: Path) -> str:
    """The file system under a folder, by the longest mount point above it."""
    best = ("", "")
    for line in facts.text("proc/mounts").splitlines():
        words = line.split()
        if len(words) < 3:
            continue
        point = words[1].replace("\\040", " ")
        if (str(folder) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best[0]):
            best = (point, words[2])
    return best[1]


CHECKS = [
    Check("wsl", "WSL", version),
    Check("mounts", "Kind of disk", mount),
    Check("wsl-memory", "WSL's memory", memory),
]
