"""What is measured: each GPU and the CPU, with each framework asked for; found without importing one."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kaggle_workbench import devices
from kaggle_workbench.devices import FRAMEWORKS, Gpu
from kaggle_workbench.devices.choice import visible
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.settings import Settings

CPU = "cpu"
# What people publish of a GPU; its uuid and who else computes on it stay here.
GPU_FACTS = ("name", "memory", "capability", "multiprocessors", "cores", "clock_mhz", "memory_clock_mhz")
GPU_VERSIONS = ("driver", "cuda")


@dataclass(frozen=True)
class Target:
    """One device with one framework.

    Attributes:
        device: "cpu", or "gpu0", "gpu1", as `nvidia-smi` counts.
        backend: "tensorflow", "jax" or "torch".
        name: The device's name, as its driver or the system says it.
        facts: What can be published of the device and its machine.
        env: Variables that leave a process just this device.
    """

    device: str
    backend: str
    name: str
    facts: Mapping[str, Any]
    env: Mapping[str, str]

    @property
    def title(self) -> str:
        """For people, while it is measured."""
        return f"{self.device} ({self.name}), {FRAMEWORKS[self.backend]}"


def find_targets(settings: Settings, wanted: Sequence[str] = (), backends: Sequence[str] = ()) -> tuple[Target, ...]:
    """The devices to measure.

    Args:
        settings: Settings in force; without `wanted`, GPU_COUNT=0 leaves the CPU alone.
        wanted: "cpu" or "gpuN"; by default each GPU and the CPU.
        backends: Frameworks; by default KERAS_BACKEND.

    Raises:
        UsageError: A device that is not there.
        MissingError: A framework is not installed, or the driver is there and does not answer.
    """
    chosen = tuple(dict.fromkeys(backends or (settings.keras_backend,)))
    for backend in chosen:
        _require(backend)
    asked = tuple(dict.fromkeys(word.lower() for word in wanted))
    odd = next((word for word in asked if not re.fullmatch(rf"{CPU}|gpu\d+", word)), None)
    only_cpu = set(asked) == {CPU} or (not asked and settings.gpu_count == 0)
    gpus = () if only_cpu and odd is None else visible(devices.driver_gpus())
    there = {f"gpu{gpu.index}": gpu for gpu in gpus}
    missing = [word for word in asked if word != CPU and word not in there]
    if missing:
        raise UsageError(
            f"There is no device {missing[0]!r} on this machine.",
            hint=f"The devices here are: {', '.join([*there, CPU])}.",
        )
    words = asked or (*there, CPU)
    return tuple(
        _on_cpu(backend) if word == CPU else _on_gpu(there[word], backend) for word in words for backend in chosen
    )


def installed() -> tuple[str, ...]:
    """The backends of this environment, found without importing one."""
    return tuple(backend for backend in FRAMEWORKS if importlib.util.find_spec(backend) is not None)


def _require(backend: str) -> None:
    if backend not in FRAMEWORKS:
        raise UsageError(f"There is no backend {backend!r}.", hint=f"Backends: {', '.join(FRAMEWORKS)}.")
    name = FRAMEWORKS[backend]
    if importlib.util.find_spec(backend) is None:
        raise MissingError(
            f"{name} is not installed in this environment, so it cannot be measured.",
            hint="Run it as ./kwb bench, which installs TensorFlow."
            if backend == "tensorflow"
            else f"Install it there: .venv/bin/python -m pip install {backend}",
        )
    if importlib.util.find_spec("keras") is None:
        raise MissingError(
            "Keras is not installed in this environment.", hint="Run it as ./kwb bench, which installs what it needs."
        )


def _on_cpu(backend: str) -> Target:
    facts = devices.cpu_facts()
    cores = facts.get("share") or facts["usable"]
    name = f"{_plain(facts['name'])}, {cores:g} {'core' if cores == 1 else 'cores'}"
    env = {"GPU_COUNT": "0", "KERAS_BACKEND": backend}
    return Target(CPU, backend, name, facts, env)


def _plain(name: str) -> str:
    """A processor's name without what makers add to it."""
    name = re.sub(r"\((R|TM|tm)\)|®|™", " ", name)
    name = re.sub(r"\b(CPU|Processor|\d+-Core)\b|\bwith Radeon.*|@.*", " ", name)
    return " ".join(name.split()) or "CPU"


def _on_gpu(gpu: Gpu, backend: str) -> Target:
    told = gpu.to_dict()
    facts = {name: told.get(name) for name in (*GPU_FACTS, *GPU_VERSIONS)} | {"host": devices.cpu_facts()}
    env = {
        "CUDA_VISIBLE_DEVICES": gpu.uuid,
        # The numbers above are NVML's; CUDA's own order may be another one.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "GPU_COUNT": "1",
        "KERAS_BACKEND": backend,
        # A row that came from the CPU would be a lie.
        "ALLOW_CPU": "false",
    }
    return Target(f"gpu{gpu.index}", backend, gpu.name, facts, env)
