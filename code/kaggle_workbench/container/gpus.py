"""Whether a container gets GPUs: asked for, to be had, and if not, which part is missing.

One decision a start, so that one command serves every machine: nothing static asks for a GPU.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from kaggle_workbench.container.engine import Engine
from kaggle_workbench.container.spec_model import Spec
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import plural

CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
_DRIVER_FIX = (
    "Install NVIDIA's driver on this machine until `nvidia-smi` lists the GPU (under WSL: the Windows driver, "
    "nothing inside WSL)."
)
_TOOLKIT_FIX = (
    "Install nvidia-container-toolkit, then run: sudo nvidia-ctk runtime configure --runtime=docker && "
    "sudo systemctl restart docker"
)
_CDI_FIX = (
    "Install nvidia-container-toolkit, then run: sudo mkdir -p /etc/cdi && "
    "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
)


@dataclass(frozen=True)
class Ask:
    """How many GPUs are asked for, and by whom (for messages)."""

    count: int
    origin: str


@dataclass(frozen=True)
class GpuDecision:
    """What a container gets.

    Attributes:
        asked: What was asked for.
        given: GPUs the container gets; 0 is the CPU.
        route: How the engine hands them over: `nvidia` or `cdi`.
        reason: Why fewer are given than asked, "" when none is missing.
        fix: What would mend that.
    """

    asked: Ask
    given: int
    route: str = "nvidia"
    reason: str = ""
    fix: str = ""

    @property
    def line(self) -> str:
        """The one line that says what computes."""
        asked = f"{plural(self.asked.count, 'GPU')} asked for by {self.asked.origin}"
        if self.given:
            return f"Computes on: {plural(self.given, 'GPU')} ({asked})."
        if not self.asked.count:
            return f"Computes on: the CPU ({asked})."
        return f"Computes on: the CPU. {asked[0].upper()}{asked[1:]}, but {self.reason}. To mend it: {self.fix}"

    def without(self, reason: str, fix: str) -> GpuDecision:
        """The same request, not met."""
        return replace(self, given=0, reason=reason, fix=fix)


def asked_for(spec: Spec, settings: Settings, gpus: int | None) -> Ask:
    """How many GPUs are wanted: `--gpus`, else GPU_COUNT, else the spec's `requested`.

    Raises:
        UsageError: A negative number.
    """
    if gpus is not None:
        if gpus < 0:
            raise UsageError(f"--gpus {gpus} is not a number of GPUs.", hint="Use 0 for the CPU, or 1, 2, ...")
        return Ask(gpus, "--gpus")
    if settings.gpu_count is not None:
        return Ask(settings.gpu_count, f"GPU_COUNT in {settings.origins['GPU_COUNT']}")
    return Ask(spec.execution.resources.gpu.requested, ".project/spec.yaml")


def decide(ask: Ask, engine: Engine | None, present: int, trouble: str = "") -> GpuDecision:
    """Whether the engine can give the GPUs.

    Args:
        ask: What is wanted.
        engine: The engine; None when none answers (a dry run).
        present: GPUs that this machine's driver shows.
        trouble: What is wrong with the driver, in its own words.
    """
    wanted = GpuDecision(ask, ask.count, _route(engine) or "nvidia")
    if ask.count == 0:
        return wanted
    if present == 0:
        why = (
            f"NVIDIA's driver does not work ({trouble.rstrip('.')})" if trouble else "this machine has no NVIDIA driver"
        )
        return wanted.without(why, _DRIVER_FIX)
    if engine is None:
        return wanted.without("no container engine answers, so nobody can hand over a GPU", "start the engine")
    if _route(engine) is None:
        return wanted.without(no_route_reason(engine), no_route_fix(engine))
    if present < ask.count:
        return wanted.without(
            f"this machine has only {plural(present, 'GPU')}",
            f"ask for what is there: ./kwb up --gpus {present}",
        )
    return wanted


def refused(decision: GpuDecision, engine: Engine, words: str) -> GpuDecision:
    """The decision after the engine failed to start a container with GPUs; `words` are the engine's."""
    lower = words.lower()
    if "device driver" in lower or "capabilities: [[gpu]]" in lower:
        return decision.without(no_route_reason(engine), no_route_fix(engine))
    if "cdi" in lower:
        return decision.without(f"the engine knows no such CDI device ({words})", _CDI_FIX)
    if "driver" in lower and ("load" in lower or "nvml" in lower or "libcuda" in lower):
        return decision.without(f"NVIDIA's driver does not work ({words})", _DRIVER_FIX)
    return decision.without(f"the engine could not hand it over ({words})", "see whether `nvidia-smi` works")


def require(decision: GpuDecision) -> None:
    """For `--require-gpu`.

    Raises:
        MissingError: The container would compute on the CPU.
    """
    if decision.given:
        return
    if not decision.asked.count:
        raise UsageError(
            f"--require-gpu contradicts 0 GPUs (asked for by {decision.asked.origin}).",
            hint="Leave one of the two out.",
        )
    raise MissingError(
        f"No GPU for the container: {plural(decision.asked.count, 'GPU')} asked for by {decision.asked.origin}, "
        f"but {decision.reason}.",
        hint=decision.fix[0].upper() + decision.fix[1:],
    )


def count_present() -> tuple[int, str]:
    """GPUs that this machine's driver shows, and what is wrong with the driver ("" when nothing is)."""
    from kaggle_workbench.devices import driver_gpus

    try:
        return len(driver_gpus()), ""
    except MissingError as error:
        return 0, error.message


def no_route_reason(engine: Engine) -> str:
    """Which part is missing between the engine and the driver."""
    return f"{engine.name} has neither NVIDIA's runtime nor a CDI description of the GPU"


def no_route_fix(engine: Engine) -> str:
    """How to give the engine that part."""
    return _CDI_FIX if engine.is_podman else _TOOLKIT_FIX


def _route(engine: Engine | None) -> str | None:
    if engine is None:
        return None
    if engine.is_podman:
        return "cdi" if _has_cdi_file() else None
    # The hook is enough for `--gpus`, even where the runtime was never registered.
    if "nvidia" in (engine.info.get("Runtimes") or {}) or shutil.which("nvidia-container-runtime-hook"):
        return "nvidia"
    devices = engine.info.get("DiscoveredDevices") or []
    if any(str(device.get("ID", "")).startswith("nvidia.com/gpu") for device in devices):
        return "cdi"
    return "cdi" if engine.info.get("CDISpecDirs") and _has_cdi_file() else None


def _has_cdi_file() -> bool:
    return any(folder.is_dir() and any(folder.glob("nvidia*")) for folder in CDI_FOLDERS)
