"""Which GPUs a framework gets to see: set in the environment before it is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from kaggle_workbench.devices import framework, nvml
from kaggle_workbench.devices.framework import FRAMEWORKS
from kaggle_workbench.devices.nvml import Gpu
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import plural

VISIBLE = "CUDA_VISIBLE_DEVICES"
# What a person would set by hand; a value that is there already is left alone.
DEFAULTS: Mapping[str, str] = {
    # CUDA's own order is by speed, the driver's by slot; a number must mean the same GPU in both.
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
# Hidden GPUs are not enough: TensorFlow calls cuInit all the same, unless it knows no kind of device but the CPU.
# JAX and PyTorch ask CUDA for its version and count unless told not to.
NO_GPU: Mapping[str, str] = {
    VISIBLE: "-1",
    "TF_ENABLED_DEVICE_TYPES": "CPU",
    "JAX_PLATFORMS": "cpu",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
    "KERAS_TORCH_DEVICE": "cpu",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
RESTART = "Restart the kernel, then run the notebook from its first cell."

# What the user had set before GPU_COUNT chose, and the choice: another stage in the same kernel chooses anew.
_chosen: tuple[str | None, str] | None = None
# What stood there before GPU_COUNT=0 hid the GPUs.
_before_hiding: dict[str, str | None] = {}


def prepare(settings: Settings) -> None:
    """Set the environment that frameworks read when they are imported; call it before any of them.

    Raises:
        UsageError: GPU_COUNT or KERAS_BACKEND comes too late, since the framework is loaded.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if "keras" in sys.modules and sys.modules["keras"].backend.backend() != settings.keras_backend:
        raise UsageError(
            f"Keras is loaded with {sys.modules['keras'].backend.backend()}; KERAS_BACKEND={settings.keras_backend} "
            "comes too late.",
            hint=RESTART,
        )
    os.environ["KERAS_BACKEND"] = settings.keras_backend
    force_cpu_if_asked(settings)
    _choose_freest(settings)


def force_cpu_if_asked(settings: Settings) -> None:
    """With GPU_COUNT=0, hide every GPU from the frameworks, which must not be imported yet.

    Raises:
        UsageError: A framework is loaded and holds a GPU already.
    """
    if settings.gpu_count != 0:
        if _before_hiding and not framework.loaded():
            for name, value in _before_hiding.items():
                _restore(name, value)
            _before_hiding.clear()
        return
    if os.environ.get("TF_ENABLED_DEVICE_TYPES") != "CPU":
        late = [name for name in framework.loaded() if framework.count(name)]
        if late:
            raise too_late(FRAMEWORKS[late[0]], "GPU_COUNT is 0")
    hide_gpus()


def hide_gpus() -> None:
    """Let no framework that is imported from now on see a GPU, or make a CUDA call."""
    if os.environ.get("TF_ENABLED_DEVICE_TYPES") != "CPU":
        _before_hiding.update({name: os.environ.get(name) for name in NO_GPU})
    os.environ.update(NO_GPU)


def too_late(name: str, why: str) -> UsageError:
    """The error for a framework that was imported before its GPUs were chosen."""
    return UsageError(f"{why}, but {name} is loaded in this kernel and has a GPU.", hint=RESTART)


def visible(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; up to the first entry that names none, as CUDA reads it."""
    text = os.environ.get(VISIBLE)
    if text is None:
        return gpus
    left: list[Gpu] = []
    for word in text.split(","):
        word = word.strip()
        match = [gpu for gpu in gpus if word.startswith("GPU-") and gpu.uuid.startswith(word)]
        if word.isdecimal() and int(word) < len(gpus):
            match = [gpus[int(word)]]
        if word.startswith("MIG-"):
            match = [gpu for gpu in gpus if gpu.split]
        if not match:
            break
        if match[0] in left:
            # A GPU that stands there twice makes CUDA show none at all.
            return ()
        left.append(match[0])
    return tuple(left)


def freest(gpus: tuple[Gpu, ...], wanted: int | None) -> tuple[Gpu, ...]:
    """As many as GPU_COUNT asks for, those with the most free memory first; all of them where that is not fewer."""
    if not wanted or len(gpus) <= wanted:
        return gpus
    return tuple(sorted(gpus, key=lambda gpu: gpu.free or 0, reverse=True)[:wanted])


def hidden_by(gpus: tuple[Gpu, ...]) -> str:
    """Why none of these GPUs can be used: CUDA_VISIBLE_DEVICES, as the user or GPU_COUNT=0 set it; "" without GPUs."""
    if not gpus:
        return ""
    if _before_hiding:
        return f"an earlier GPU_COUNT=0 hid {plural(len(gpus), 'GPU')} from this kernel; restart it to use them"
    return f"CUDA_VISIBLE_DEVICES hides {plural(len(gpus), 'GPU')}"


def _choose_freest(settings: Settings) -> None:
    """With GPU_COUNT=N, show the frameworks only the N GPUs with the most free memory."""
    global _chosen
    wanted = settings.gpu_count
    if _chosen and os.environ.get(VISIBLE) == _chosen[1]:
        _restore(VISIBLE, _chosen[0])
    before, _chosen = os.environ.get(VISIBLE), None
    if not wanted:
        return
    try:
        gpus = visible(nvml.driver_gpus())
    except (ModuleNotFoundError, MissingError):
        # A stage that does not compute goes on; `decide` says what is wrong.
        return
    if len(gpus) <= wanted:
        return
    late = [name for name in framework.loaded() if framework.count(name) > wanted]
    if late:
        raise too_late(FRAMEWORKS[late[0]], f"GPU_COUNT is {wanted}")
    os.environ[VISIBLE] = ",".join(gpu.uuid for gpu in freest(gpus, wanted))
    _chosen = before, os.environ[VISIBLE]


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
