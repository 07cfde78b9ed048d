"""The CPU's facts, from what the system tells without a package."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")
FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
# Where a container's share of the CPUs stands: "QUOTA PERIOD", or "max PERIOD" without a limit.
CPU_SHARE = Path("/sys/fs/cgroup/cpu.max")


def cpu_cores() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_facts() -> dict[str, Any]:
    """What is known of the CPU; a fact that the system does not tell is None.

    Returns:
        name, cores (physical, in this machine), threads (in this machine), usable (threads this process may use),
        share (CPUs a container is limited to, or None), clock_mhz (the highest known), memory (bytes).
    """
    blocks = _cpuinfo()
    cores = {(block.get("physical id"), block["core id"]) for block in blocks if "core id" in block}
    first = blocks[0] if blocks else {}
    return {
        "name": first.get("model name") or first.get("Model") or _sysctl("machdep.cpu.brand_string") or _machine(),
        "cores": len(cores) or _number(_sysctl("hw.physicalcpu")),
        "threads": os.cpu_count(),
        "usable": cpu_cores(),
        "share": _share(),
        "clock_mhz": _clock(blocks),
        "memory": _memory(),
    }


def _cpuinfo() -> list[dict[str, str]]:
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found = []
    for part in text.strip().split("\n\n"):
        pairs = (line.partition(":") for line in part.splitlines())
        found.append({name.strip(): value.strip() for name, _, value in pairs})
    return found


def _share() -> float | None:
    with contextlib.suppress(OSError, ValueError):
        quota, period = CPU_SHARE.read_text().split()
        return round(int(quota) / int(period), 2)
    return None


def _clock(blocks: list[dict[str, str]]) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return round(int(FREQUENCY.read_text()) / 1000)
    clocks = [float(block["cpu MHz"]) for block in blocks if re.fullmatch(r"[\d.]+", block.get("cpu MHz", ""))]
    return round(max(clocks)) if clocks else None


def _memory() -> int | None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _number(_sysctl("hw.memsize"))


def _machine() -> str:
    return platform.processor() or platform.machine() or "unknown CPU"


def _sysctl(name: str) -> str | None:
    """A fact of macOS."""
    if platform.system() != "Darwin":
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip() or None
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
