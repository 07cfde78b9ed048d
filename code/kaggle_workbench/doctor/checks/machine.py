"""Python and its environment, the processor, memory, disk space, ports."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from pathlib import Path

from kaggle_workbench.doctor.check import Check, Result, failed, passed, warned
from kaggle_workbench.doctor.facts import Facts

PYTHONS = ((3, 11), (3, 13))
LEAST_MEMORY_GB = 4
# The smallest data fit into less, but a competition's do not.
LOW_DISK_GB, LEAST_DISK_GB = 10, 1
PORTS = {8888: "JupyterLab (./kwb up)", 7777: "the practice arena (./kwb arena serve)"}


def python(facts: Facts) -> Result:
    """The Python that runs this."""
    now = sys.version_info[:2]
    said = ".".join(map(str, sys.version_info[:3]))
    if not PYTHONS[0] <= now <= PYTHONS[1]:
        return failed(f"Python {said}", "Install Python 3.11, 3.12 or 3.13 and run ./kwb with it first on the PATH.")
    return passed(f"Python {said}")


def environment(facts: Facts) -> Result:
    """The local environment of ./kwb."""
    venv = facts.root / ".venv"
    mend = "rm -rf .venv (./kwb makes it anew)"
    if not venv.exists():
        return passed("not made yet; ./kwb makes it when a command needs it")
    inside = venv / "bin" / "python"
    if not inside.exists():
        return failed(".venv has no working Python: the one it was made with is gone, or it was copied here", mend)
    code, said = facts.run(str(inside), "-c", "import sys; print(sys.prefix)")
    if code:
        return failed(f".venv's Python does not start ({said.strip()[:80] or f'exit {code}'})", mend)
    if Path(said.strip()).resolve() != venv.resolve():
        return failed(f".venv was moved here from {said.strip()}", mend)
    return passed(".venv works")


def architecture(facts: Facts) -> Result:
    """The processor."""
    if facts.machine.lower() in ("x86_64", "amd64"):
        return passed(facts.machine)
    return warned(
        f"{facts.machine}: Kaggle's image is made for x86_64 alone",
        "Work without a container (./kwb lab), or push to Kaggle's machines (./kwb push train).",
    )


def memory(facts: Facts) -> Result:
    """Main memory."""
    found = re.search(r"MemTotal:\s+(\d+) kB", facts.text("proc/meminfo"))
    if not found:
        return passed("not told by this system")
    size = int(found.group(1)) * 1024 / 1e9
    if size < LEAST_MEMORY_GB:
        return warned(f"{size:.1f} GB", f"Training wants {LEAST_MEMORY_GB} GB; close programs, or set BATCH_SIZE=32.")
    return passed(f"{size:.0f} GB")


def disk(facts: Facts) -> Result:
    """Space where data and results go."""
    said, worst = [], "passed"
    for name, usual in (("INPUT_DIR", "data/input"), ("OUTPUT_DIR", "data/output")):
        folder = existing(facts.folder(name, usual))
        free = shutil.disk_usage(folder).free / 1e9
        said.append(f"{free:.1f} GB free for {name}")
        if free < LEAST_DISK_GB:
            worst = "failed"
        elif free < LOW_DISK_GB and worst == "passed":
            worst = "warned"
    text = ", ".join(said)
    fix = "Remove old runs (OUTPUT_DIR/runs) or raw data, or point INPUT_DIR and OUTPUT_DIR at a larger disk."
    return {"passed": passed(text), "warned": warned(text, fix), "failed": failed(text, fix)}[worst]


def ports(facts: Facts) -> Result:
    """Ports that our servers like to have."""
    taken = [port for port in PORTS if _taken(port)]
    if not taken:
        return passed(f"{', '.join(map(str, PORTS))} are free")
    said = ", ".join(f"{port} ({PORTS[port]})" for port in taken)
    return warned(
        f"taken: {said}",
        "Nothing to do when that is ours (./kwb status); else give another: --port N, or end its owner.",
    )


def existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))


def shared_memory(facts: Facts) -> Result:
    """Shared memory, which loaders of PyTorch and Ray use."""
    folder = facts.path("dev/shm")
    if not folder.is_dir():
        return passed("this system has none")
    size = os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize / 1e6
    if size < 128:
        return warned(
            f"{size:.0f} MB", "Start the container by ./kwb up, which gives it 1 GB (docker run --shm-size=1g)."
        )
    return passed(f"{size / 1e3:.1f} GB")


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


CHECKS = [
    Check("python", "Python", python),
    Check("venv", "Local environment", environment),
    Check("architecture", "Processor", architecture),
    Check("memory", "Memory", memory),
    Check("shared-memory", "Shared memory", shared_memory),
    Check("disk", "Disk space for data", disk),
    Check("ports", "Ports", ports),
]
