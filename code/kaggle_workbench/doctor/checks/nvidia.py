"""NVIDIA: the driver, its age against the locked image, libraries that stand in its way, containers' route to it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from kaggle_workbench.doctor.check import Check, Result, failed, passed, warned
from kaggle_workbench.doctor.checks.docker import ask
from kaggle_workbench.doctor.facts import Facts

NVIDIA = "0x10de"
# Oldest Linux driver of each CUDA major version (NVIDIA's release notes, table of minor version compatibility).
OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}
# Kaggle's GPU image of 2026 is built on CUDA 12 where the lock does not know better.
USUAL_CUDA = 12
MISMATCH = 18
COUNT_S = 3.0
_COUNT = """
import ctypes
library = ctypes.CDLL("libnvidia-ml.so.1")
code = library.nvmlInit_v2()
count = ctypes.c_uint()
if not code:
    code = library.nvmlDeviceGetCount_v2(ctypes.byref(count))
print(code, count.value)
"""


def on_the_bus(facts: Facts) -> int:
    """NVIDIA display devices that the system sees, with or without a driver."""
    found = 0
    for device in sorted(facts.path("sys/bus/pci/devices").glob("*")):
        name = device.relative_to(facts.system)
        if facts.text(f"{name}/vendor").strip() == NVIDIA and facts.text(f"{name}/class").startswith("0x03"):
            found += 1
    return found


def driver_version(facts: Facts) -> str:
    """The loaded kernel driver's version; "" when none is loaded."""
    found = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)\s", facts.text("proc/driver/nvidia/version"))
    return found.group(1) if found else ""


def has_gpu(facts: Facts) -> bool:
    """Whether there is an NVIDIA GPU, by the bus, a driver, or WSL's device."""
    return bool(on_the_bus(facts) or driver_version(facts) or (facts.path("dev/dxg").exists() and _libraries(facts)))


def driver(facts: Facts) -> Result:
    """The kernel driver."""
    version, count = driver_version(facts), on_the_bus(facts)
    if not version and not count:
        return passed("no NVIDIA GPU here: the CPU computes")
    if not version:
        return failed(
            f"{count} NVIDIA device(s) on the bus, and no driver is loaded",
            "Install NVIDIA's driver (Ubuntu: sudo ubuntu-drivers install) and restart.",
        )
    cuda = _image_cuda(facts)
    oldest = OLDEST_DRIVER.get(cuda)
    if oldest and tuple(map(int, version.split(".")))[: len(oldest)] < oldest:
        return failed(
            f"driver {version} is older than the image needs (CUDA {cuda}: {oldest[0]}.{oldest[1]})",
            f"Get NVIDIA's driver {oldest[0]} or newer and restart; until then set GPU_COUNT=0.",
        )
    return passed(f"driver {version}, fit for CUDA {cuda}")


def library(facts: Facts) -> Result:
    """Driver libraries that are not the driver's."""
    for folder in facts.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and "stubs" in Path(folder).parts and any(Path(folder).glob("lib*.so*")):
            return failed(
                f"LD_LIBRARY_PATH has {folder}, whose libraries are empty stubs: no GPU would be found",
                f"Take {folder} out of LD_LIBRARY_PATH (it is for building only).",
            )
    version = driver_version(facts)
    found = _libraries(facts)
    if not version:
        return passed("no driver loaded, nothing to fit")
    if not found:
        return failed(
            f"driver {version} is loaded, and its library libnvidia-ml.so.1 is missing",
            "Install the driver's libraries (Ubuntu: libnvidia-compute-* of the same version), then sudo ldconfig.",
        )
    wrong = [path for path in found if (number := _number(path)) and number != version]
    if wrong:
        return failed(
            f"{wrong[0]} is of another version than the loaded driver {version}",
            "After an update restart the machine; in an image remove the library that was baked in "
            f"(rm {wrong[0]}): the container runtime brings the right one.",
        )
    return passed(f"libraries fit the driver {version}")


def gpus(facts: Facts) -> Result:
    """GPUs as the driver counts them."""
    if not has_gpu(facts) and not facts.environ.get("FAKE_GPUS"):
        return passed("none; the CPU computes")
    # In a process of its own: a library that does not fit may take its process with it.
    try:
        done = subprocess.run(
            [sys.executable, "-c", _COUNT], capture_output=True, text=True, timeout=COUNT_S, env=dict(facts.environ)
        )
    except subprocess.TimeoutExpired:
        return failed("the driver does not answer", "Restart the machine; see `dmesg | grep -i nvrm`.")
    words = done.stdout.split()
    if done.returncode or len(words) != 2:
        return failed("the driver's library does not load", "See the check nvidia-library.")
    code, count = map(int, words)
    if code == MISMATCH:
        return failed("the driver was updated, and the old one is still loaded", "Restart the machine.")
    if code:
        return failed(f"the driver's library says error {code}", "Restart the machine; see `nvidia-smi`.")
    if not count:
        return failed(
            "the driver is there and counts no GPU", "See `nvidia-smi`; a virtual machine needs it passed through."
        )
    return passed(f"{count} GPU{'s' if count > 1 else ''}")


def runtime(facts: Facts) -> Result:
    """How a container gets to the GPU."""
    if not has_gpu(facts):
        return passed("no GPU to hand on")
    specs = [path for folder in ("etc/cdi", "var/run/cdi") for path in facts.path(folder).glob("*nvidia*")]
    mend = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
    try:
        known = ask(facts, "/info").get("Runtimes", {})
    except (OSError, ValueError):
        try:
            known = json.loads(facts.text("etc/docker/daemon.json") or "{}").get("runtimes", {})
        except ValueError as error:
            return failed(f"/etc/docker/daemon.json is no JSON: {error}", "Correct it, then restart Docker.")
    if "nvidia" in known:
        return passed("Docker knows NVIDIA's runtime")
    if specs:
        return passed(f"CDI: {specs[0].name}")
    if not facts.path("usr/bin/nvidia-ctk").exists():
        return failed(
            "NVIDIA's container toolkit is not installed, so containers get no GPU",
            "Install nvidia-container-toolkit (docs.nvidia.com/datacenter/cloud-native), then: " + mend,
        )
    return failed("Docker does not know NVIDIA's runtime, so containers get no GPU", mend)


def wanted(facts: Facts) -> Result:
    """GPU_COUNT against what is there."""
    text, origin = facts.setting("GPU_COUNT")
    if not text:
        return passed("unset: all GPUs there are")
    if not text.isdigit():
        return failed(f"GPU_COUNT is {text!r} ({origin})", f"Write a whole number, or take the line out of {origin}.")
    if text == "0":
        return passed(f"0 ({origin}): the CPU is forced")
    if not has_gpu(facts) and not facts.environ.get("FAKE_GPUS"):
        return warned(
            f"GPU_COUNT is {text} ({origin}), and there is no GPU", "Set GPU_COUNT=0, or push: ./kwb push train."
        )
    return passed(f"{text} ({origin})")


def _image_cuda(facts: Facts) -> int:
    try:
        lock = json.loads((facts.root / ".project" / "image.lock").read_text(encoding="utf-8"))
        found = re.match(r"\d+", str(lock.get("cuda") or ""))
    except (OSError, ValueError):
        return USUAL_CUDA
    return int(found.group()) if found else USUAL_CUDA


def _libraries(facts: Facts) -> list[Path]:
    folders = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/lib/wsl/lib", "usr/local/cuda/compat")
    own = [Path(each) for each in facts.environ.get("LD_LIBRARY_PATH", "").split(":") if each]
    places = [*own, *(facts.path(folder) for folder in folders)]
    return [
        path
        for folder in places
        for path in sorted(folder.glob("libnvidia-ml.so*")) + sorted(folder.glob("libcuda.so*"))
    ]


def _number(path: Path) -> str:
    found = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)*)$", path.resolve().name)
    return found.group(1) if found else ""


CHECKS = [
    Check("nvidia-driver", "NVIDIA driver", driver),
    Check("nvidia-library", "NVIDIA libraries", library),
    Check("gpus", "GPUs", gpus),
    Check("gpu-count", "GPU_COUNT", wanted),
    Check("nvidia-runtime", "GPUs in containers", runtime),
]
