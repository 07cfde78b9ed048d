"""Why a GPU that is there does not compute: one sentence and its mend, from facts and from the framework's words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kaggle_workbench.devices.framework import FRAMEWORKS, Build
from kaggle_workbench.devices.nvml import Gpu
from kaggle_workbench.files import human_bytes

# What a small training needs at least; below, another process holds the GPU.
LITTLE = 0.05
_GPU_BUILD = {
    "tensorflow": "Set TENSORFLOW_BUILD=cuda in variables.env and run the ./kwb command again, which installs it; "
    "in the container (./kwb up) it is there.",
    "jax": 'Install it: pip install "jax[cuda12]"; in the container (./kwb up) it is there.',
    "torch": "Install a CUDA build of PyTorch (pytorch.org, Get Started); in the container (./kwb up) it is there.",
}
_LIBRARIES = {
    "tensorflow": 'Install them beside it: pip install "tensorflow[and-cuda]"; in the container (./kwb up) they are '
    "there.",
    "jax": 'Install them beside it: pip install "jax[cuda12]"; in the container (./kwb up) they are there.',
    "torch": "Install PyTorch again from pytorch.org, which brings them; in the container (./kwb up) they are there.",
}
_NO_CODE = (
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "no kernel image is available",
    "cudaErrorNoKernelImageForDevice",
    "is not compatible with the current PyTorch installation",
    # PyTorch's warning, in its newer and its older form.
    "which is of compute capability (CC)",
    "which is of cuda capability",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
)
_OLD_DRIVER = (
    "driver on your system is too old",
    "driver version is insufficient",
    # A container's newer CUDA library on a driver that is too old for it.
    "forward compatibility was attempted on non supported HW",
    "cudaErrorInsufficientDriver",
    "unsatisfied condition: cuda",
)
_MISMATCH = (
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "cudaErrorSystemDriverMismatch",
    "unsupported display driver / cuda driver combination",
)
_TAKEN = (
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUDA out of memory",
    "out of memory",
    "RESOURCE_EXHAUSTED",
    "busy or unavailable",
)
_NO_LIBRARY = (
    "Cannot dlopen some GPU libraries",
    "Could not load dynamic library",
    "Could not find cuda drivers",
    "Unable to load cu",
    "cannot open shared object file",
    "CUDA backend failed to initialize",
)
_CPU_ONLY = ("CUDA-enabled jaxlib is not installed", "Torch not compiled with CUDA enabled")


@dataclass(frozen=True)
class Cause:
    """Why.

    Attributes:
        name: "cpu-build", "architecture", "driver", "mismatch", "library", "memory", or "unknown".
        sentence: In words, to stand behind a colon; no full stop.
        hint: What to do.
    """

    name: str
    sentence: str
    hint: str


def explain(backend: str, built: Build | None, gpus: Sequence[Gpu], text: str) -> Cause:
    """The cause; facts weigh more than words.

    Args:
        backend: The framework.
        built: How it was built; None when unknown.
        gpus: The GPUs it should use.
        text: What it wrote or raised.
    """
    name = FRAMEWORKS[backend]
    if (built is not None and built.cuda is None) or _said(text, _CPU_ONLY):
        return Cause("cpu-build", f"this {name} is built for the CPU only", _GPU_BUILD[backend])
    return (
        _driver(name, built, gpus, text)
        or _architecture(backend, built, gpus, text)
        or _memory(gpus, text)
        or _library(backend, text)
        or Cause("unknown", _telling(text) or f"{name} does not say why", "Run: ./kwb gpus --proof")
    )


def little_memory(gpus: Sequence[Gpu]) -> str:
    """Which of these GPUs another process has taken nearly all memory of, in words; "" when none."""
    return "; ".join(_held(gpu) for gpu in gpus if gpu.memory and gpu.free is not None and _is_taken(gpu))


def _driver(name: str, built: Build | None, gpus: Sequence[Gpu], text: str) -> Cause | None:
    if _said(text, _MISMATCH):
        return Cause(
            "mismatch",
            "CUDA's driver library and the loaded driver have different versions",
            "Restart the machine (after a driver update this is needed); a container: ./kwb down, then ./kwb up.",
        )
    serves = next((gpu.cuda for gpu in gpus if gpu.cuda), None)
    needs = built.cuda if built else None
    # Within one major version an older driver serves a newer build.
    too_old = bool(serves and needs and int(serves.split(".")[0]) < int(needs.split(".")[0]))
    if not too_old and not _said(text, _OLD_DRIVER):
        return None
    driver = next((f" {gpu.driver}" for gpu in gpus if gpu.driver), "")
    sentence = f"the driver{driver} is too old"
    sentence += f": it serves CUDA {serves}" if serves else ""
    sentence += f", this {name} is built with CUDA {needs}" if needs else f" for this {name}"
    return Cause("driver", sentence, "Install a newer NVIDIA driver here, or a framework or image that fits this one.")


def _architecture(backend: str, built: Build | None, gpus: Sequence[Gpu], text: str) -> Cause | None:
    lacking = [gpu for gpu in gpus if built and gpu.capability and not built.runs_on(gpu.capability)]
    if not lacking and not _said(text, _NO_CODE):
        return None
    which = lacking[0] if lacking else next(iter(gpus), None)
    gpu = f"{which.name} (compute capability {_dotted(which)})" if which else "this GPU"
    has = f" (it has {', '.join(built.architectures)})" if built and built.architectures else ""
    return Cause(
        "architecture",
        f"this {FRAMEWORKS[backend]} has no code for the {gpu}{has}",
        "Use a version of the framework that was built for this GPU, or another GPU (on Kaggle: T4 instead of P100).",
    )


def _memory(gpus: Sequence[Gpu], text: str) -> Cause | None:
    if not _said(text, _TAKEN):
        return None
    taken = sorted((gpu for gpu in gpus if gpu.free is not None), key=lambda gpu: gpu.free or 0)
    what = _held(taken[0]) if taken else "the GPU's memory is taken"
    return Cause(
        "memory", what, "End that process (another notebook's kernel, most often), or choose another GPU: GPU_COUNT=N."
    )


def _library(backend: str, text: str) -> Cause | None:
    if not _said(text, _NO_LIBRARY):
        return None
    named = re.findall(r"(lib(?:cu|nv)[\w.-]*\.so[\w.]*|(?<=Unable to load )cu\w+|(?<=Unable to load )CUDA)", text)
    which = ", ".join(dict.fromkeys(one.rstrip(".") for one in named))
    # TensorFlow says "drivers" also when it is the runtime library that it does not find.
    if not which and "Could not find cuda drivers" in text:
        which = "CUDA's runtime, libcudart"
    sentence = f"{FRAMEWORKS[backend]} does not find its CUDA libraries"
    return Cause("library", sentence + (f" ({which})" if which else ""), _LIBRARIES[backend])


def _held(gpu: Gpu) -> str:
    who = ", ".join(f"process {one.pid}" + (f" ({one.name})" if one.name else "") for one in gpu.processes[:3])
    total = f" of {human_bytes(gpu.memory)}" if gpu.memory else ""
    return f"only {human_bytes(gpu.free or 0)}{total} are free on GPU {gpu.index}" + (f", held by {who}" if who else "")


def _is_taken(gpu: Gpu) -> bool:
    return bool(gpu.memory) and (gpu.free or 0) < LITTLE * (gpu.memory or 0)


def _dotted(gpu: Gpu) -> str:
    return ".".join(map(str, gpu.capability)) if gpu.capability else "unknown"


def _said(text: str, words: Sequence[str]) -> bool:
    return any(word.lower() in text.lower() for word in words)


def _telling(text: str) -> str:
    """The line that tells most: an error's first, a log's last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    log = [line for line in lines if re.match(r"[IWE]\d{4} |WARNING|ERROR|\d{4}-\d\d-\d\d ", line)]
    return (log or lines or [""])[-1 if log else 0][:200].rstrip(".")
