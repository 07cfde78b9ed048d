"""GPUs as NVML, the driver's own library, knows them. The only importer of `pynvml`.

"No library" means no GPU; a driver that is there and does not work is an error of its own and never
taken for none. A fact that a GPU does not report is None.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import MissingError

# A module of this name without them is not NVIDIA's.
NEEDED = (
    "nvmlInit",
    "nvmlShutdown",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlSystemGetCudaDriverVersion",
    "NVMLError",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
)
# Other distributions that put a module `pynvml` into the environment.
SHADOWS = ("nvidia-ml-py3", "pynvml")
PCI = Path("/sys/bus/pci/devices")
DRIVER = Path("/proc/driver/nvidia/version")
NVIDIA, DISPLAY = "0x10de", "0x03"
# NVML counts CUDA cores, people compare multiprocessors. Cores in each, as CUDA's samples list them: 128 from
# capability 5.0 to 12.x, but in these.
HALF = ((6, 0), (7, 0), (7, 2), (7, 5), (8, 0))
_RESTART = "Restart the machine (after a driver update this is needed). To go on without a GPU: GPU_COUNT=0."


class DriverError(MissingError):
    """There is a driver, and it does not work."""


class GpuLostError(MissingError):
    """A GPU that was computing is gone."""


@dataclass(frozen=True)
class Process:
    """A process that holds memory of a GPU, in bytes; outside a container its name may be unknown."""

    pid: int
    name: str | None
    memory: int | None


@dataclass(frozen=True)
class Gpu:
    """One GPU as its driver reports it; what it does not report is None.

    Attributes:
        name: As the driver says it.
        uuid: Its identity, as CUDA_VISIBLE_DEVICES takes it.
        memory: All of it, in bytes.
        free: What is free of it, in bytes.
        index: Its number, as `nvidia-smi` counts.
        capability: Compute capability (major, minor).
        cores: CUDA cores.
        clock_mhz: Highest clock of its processors, in MHz.
        memory_clock_mhz: Highest clock of its memory, in MHz.
        driver: The driver's version.
        cuda: The newest CUDA version that the driver serves, such as "12.8".
        utilisation: Share of the last second in which it computed, in percent.
        processes: Who computes on it.
        split: Whether it is cut into parts (MIG).
    """

    name: str
    uuid: str
    memory: int | None
    free: int | None
    index: int = 0
    capability: tuple[int, int] | None = None
    cores: int | None = None
    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    driver: str | None = None
    cuda: str | None = None
    utilisation: int | None = None
    processes: tuple[Process, ...] = ()
    split: bool = False

    @property
    def multiprocessors(self) -> int | None:
        """Streaming multiprocessors, where the number of cores in each is known."""
        if not self.cores or not self.capability or not 5 <= self.capability[0] <= 12:
            return None
        return self.cores // (64 if self.capability in HALF else 128)

    def to_dict(self) -> dict[str, Any]:
        """All facts as plain values."""
        facts = asdict(self) | {"multiprocessors": self.multiprocessors}
        return facts | {
            "capability": ".".join(map(str, self.capability)) if self.capability else None,
            "processes": [asdict(process) for process in self.processes],
        }


@dataclass(frozen=True)
class Sample:
    """What a GPU does at one moment: memory in bytes (this process's, else the whole GPU's), utilisation in percent."""

    memory: int | None
    utilisation: int | None


def driver_gpus() -> tuple[Gpu, ...]:
    """The GPUs that the driver counts; no driver means none.

    Raises:
        DriverError: There is a driver and it does not work; the message says how.
        MissingError: Another module shadows NVIDIA's binding of NVML.
        ModuleNotFoundError: nvidia-ml-py is not installed.
    """
    with _session() as pynvml:
        if pynvml is None:
            return ()
        asked = functools.partial(_fact, pynvml)
        driver, cuda = asked(pynvml.nvmlSystemGetDriverVersion), asked(pynvml.nvmlSystemGetCudaDriverVersion)
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                found.append(_gpu(pynvml, handle, index, _text(driver), _cuda(cuda)))
            except pynvml.NVMLError as error:
                raise _driver_error(pynvml, error, f"GPU {index}: ") from error
        return tuple(found)


def sample(uuids: tuple[str, ...]) -> dict[str, Sample]:
    """What these GPUs do now.

    Raises:
        DriverError: The driver does not answer any more.
        GpuLostError: One of them does not answer any more; the message names it.
    """
    found: dict[str, Sample] = {}
    with _session() as pynvml:
        if pynvml is None:
            raise DriverError("NVIDIA's driver is gone.", hint=_RESTART)
        for uuid in uuids:
            try:
                handle = pynvml.nvmlDeviceGetHandleByUUID(uuid.encode())
                memory = pynvml.nvmlDeviceGetMemoryInfo(handle).used
            except pynvml.NVMLError as error:
                if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                    memory = None
                else:
                    raise GpuLostError(f"The GPU {uuid} is lost: {error}.", hint=_RESTART) from error
            own = [p.memory for p in _processes(pynvml, handle) if p.pid == os.getpid() and p.memory is not None]
            rates = _fact(pynvml, functools.partial(pynvml.nvmlDeviceGetUtilizationRates, handle))
            found[uuid] = Sample(own[0] if own else memory, int(rates.gpu) if rates else None)
    return found


def binding() -> Any:
    """The module `pynvml`, when it is NVIDIA's own.

    Raises:
        MissingError: It is another one.
        ModuleNotFoundError: There is none.
    """
    import pynvml

    lacking = [name for name in NEEDED if not hasattr(pynvml, name)]
    if lacking:
        others = [name for name in SHADOWS if _is_shadow(name)]
        whose = f"package {others[0]}" if others else str(getattr(pynvml, "__file__", None) or "a folder of that name")
        raise MissingError(
            f"GPUs cannot be counted: the module pynvml comes from {whose}, not from NVIDIA's nvidia-ml-py "
            f"(it has no {lacking[0]}).",
            hint=f"Run: pip uninstall -y {' '.join(others)} && pip install --force-reinstall nvidia-ml-py"
            if others
            else "Rename that file or folder, or install NVIDIA's: pip install --force-reinstall nvidia-ml-py",
        )
    return pynvml


def _is_shadow(name: str) -> bool:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    # From version 12 on, "pynvml" only brings nvidia-ml-py along.
    return name != "pynvml" or int(version.split(".")[0]) < 12


@contextmanager
def _session() -> Iterator[Any]:
    """NVML opened and closed again; None when there is no driver."""
    pynvml = binding()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        missing = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        if missing or (error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED and not gpus_on_the_bus()):
            yield None
            return
        raise _driver_error(pynvml, error) from error
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise _driver_error(pynvml, error) from error
    finally:
        # A driver that broke meanwhile must not hide the first error.
        _fact(pynvml, pynvml.nvmlShutdown)


def has_driver() -> bool:
    """Whether an NVIDIA driver is loaded, as the system tells it (Linux)."""
    return DRIVER.exists()


def gpus_on_the_bus() -> int:
    """NVIDIA GPUs that the system sees in this machine, with a driver or without (Linux)."""
    found = 0
    for device in PCI.glob("*"):
        try:
            vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        found += vendor == NVIDIA and kind.startswith(DISPLAY)
    return found


def _gpu(pynvml: Any, handle: Any, index: int, driver: str | None, cuda: str | None) -> Gpu:
    def asked(name: str, *words: Any) -> Any:
        return _fact(pynvml, lambda: getattr(pynvml, name)(handle, *words))

    memory, rates = asked("nvmlDeviceGetMemoryInfo"), asked("nvmlDeviceGetUtilizationRates")
    capability, mig = asked("nvmlDeviceGetCudaComputeCapability"), asked("nvmlDeviceGetMigMode")
    return Gpu(
        name=_text(asked("nvmlDeviceGetName")) or "unnamed GPU",
        # Without it a GPU cannot be chosen, so that this one must not fail silently.
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)) or "",
        memory=int(memory.total) if memory else None,
        free=int(memory.free) if memory else None,
        index=index,
        capability=(int(capability[0]), int(capability[1])) if capability else None,
        cores=asked("nvmlDeviceGetNumGpuCores"),
        clock_mhz=asked("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM),
        memory_clock_mhz=asked("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM),
        driver=driver,
        cuda=cuda,
        utilisation=int(rates.gpu) if rates else None,
        processes=_processes(pynvml, handle),
        split=bool(mig and mig[0]),
    )


def _processes(pynvml: Any, handle: Any) -> tuple[Process, ...]:
    found = _fact(pynvml, lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ()
    return tuple(Process(one.pid, _process_name(one.pid), one.usedGpuMemory) for one in found)


def _process_name(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() or None
    except OSError:
        return None


def _fact(pynvml: Any, ask: Callable[[], Any]) -> Any:
    """The answer, or None where this GPU or this driver does not give it."""
    try:
        return ask()
    except pynvml.NVMLError as error:
        broken = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        if error.value in broken and ask is not pynvml.nvmlShutdown:
            raise
        return None
    except AttributeError:
        return None


def _text(value: Any) -> str | None:
    # Older releases answer with bytes.
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _cuda(number: int | None) -> str | None:
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _driver_error(pynvml: Any, error: Any, where: str = "") -> DriverError:
    """What is wrong with the driver, by NVML's own number, in a sentence that holds NVML's words."""
    told = {
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "NVIDIA's driver and its library have different versions, as after an update without a restart",
            _RESTART,
        ),
        pynvml.NVML_ERROR_GPU_IS_LOST: (
            "A GPU is lost: it is in this machine and does not answer any more",
            "Restart the machine; when it happens again, look at power, cooling and `dmesg` (lines with Xid). "
            "To go on without a GPU: GPU_COUNT=0.",
        ),
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
            "This machine has an NVIDIA GPU, and its driver is installed but not loaded",
            "Load it (sudo modprobe nvidia) and read why not in `dmesg`; with Secure Boot the driver must be signed. "
            "To go on without a GPU: GPU_COUNT=0.",
        ),
        pynvml.NVML_ERROR_NO_PERMISSION: (
            "This user may not use the GPU",
            "Give the user the groups that own /dev/nvidia* (often video and render), then log in again. "
            "To go on without a GPU: GPU_COUNT=0.",
        ),
        pynvml.NVML_ERROR_UNKNOWN: (
            "NVIDIA's driver is there and gives an unknown error; in a container, the container has lost the GPU",
            "In a container: start it anew (./kwb down, then ./kwb up). Elsewhere: restart the machine. "
            "To go on without a GPU: GPU_COUNT=0.",
        ),
    }
    what, hint = told.get(error.value, ("NVIDIA's driver is there and does not answer", _RESTART))
    return DriverError(f"{where}{what} (NVML: {str(error).rstrip('.')}).", hint=hint)
