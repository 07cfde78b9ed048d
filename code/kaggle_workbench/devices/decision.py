"""What computes: GPUs as the driver counts them, as the framework counts them, and a proof.

"A GPU if there is one, else the CPU" fails silently everywhere: a framework that cannot use the
GPU trains on the CPU for hours and nobody says so. Here the two counts are compared, a small
computation is checked against NumPy on the device itself, and one `Decision` says what computes
and why. The only module that touches NVML or asks a framework for its devices.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, Literal

from kaggle_workbench.devices.cpu import cpu_cores
from kaggle_workbench.devices.nvml import Gpu, driver_gpus
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import plural

FRAMEWORKS: Mapping[str, str] = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
# What a person would set by hand; a value that is there already is left alone.
DEFAULTS: Mapping[str, str] = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
NO_GPU: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
PROOF_SIZE = 256
PROOF_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Decision:
    """What computes, how many, and why.

    Attributes:
        kind: "gpu" or "cpu".
        count: Number of GPUs, or of CPU cores this process may use.
        names: Names of the GPUs.
        reason: Why, in one sentence.
        nvml: GPUs the driver counts; None when it could not be asked.
        framework: GPUs the framework counts; None when it was not asked.
        proof_s: Seconds of the computation that proved it; None when there was none.
    """

    kind: Literal["gpu", "cpu"]
    count: int
    names: tuple[str, ...]
    reason: str
    nvml: int | None = None
    framework: int | None = None
    proof_s: float | None = None

    @property
    def line(self) -> str:
        """The decision in one line, as every training shows it."""
        if self.kind == "gpu":
            what = f"{plural(self.count, 'GPU')} ({', '.join(dict.fromkeys(self.names)) or 'unnamed'})"
        else:
            what = f"CPU ({plural(self.count, 'core')})"
        return f"{what}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values for the record."""
        return {**asdict(self), "names": list(self.names)}


def prepare(settings: Settings) -> None:
    """Set the environment that frameworks read when they are imported; call it before any of them.

    Raises:
        UsageError: GPU_COUNT=0 or KERAS_BACKEND comes too late, since the framework is loaded.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if "keras" in sys.modules and sys.modules["keras"].backend.backend() != settings.keras_backend:
        raise UsageError(
            f"Keras is loaded with {sys.modules['keras'].backend.backend()}; KERAS_BACKEND={settings.keras_backend} "
            "comes too late.",
            hint="Restart the kernel, then run the notebook from its first cell.",
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
        return
    loaded = [name for name in FRAMEWORKS if name in sys.modules]
    late = [name for name in loaded if _framework_gpus(name)]
    if late:
        raise UsageError(
            f"GPU_COUNT is 0, but {FRAMEWORKS[late[0]]} is loaded in this kernel and has a GPU.",
            hint="Restart the kernel, then run the notebook from its first cell.",
        )
    os.environ.update(NO_GPU)


def decide(settings: Settings, *, prove: bool = True) -> Decision:
    """Find out what computes.

    Args:
        settings: Settings in force (GPU_COUNT, ALLOW_CPU, KERAS_BACKEND).
        prove: Ask the framework, which imports it, and let it compute something; without, only the driver is
            asked.

    Raises:
        MissingError: Driver and framework disagree, or the computation failed, and ALLOW_CPU is not set.
    """
    if settings.gpu_count == 0:
        return _on_cpu(settings, "by request (GPU_COUNT=0)", prove=prove)
    gpus, unasked = _driver_gpus(settings)
    visible = _visible(gpus)
    if not prove:
        return _without_proof(gpus, visible, unasked)
    name = FRAMEWORKS[settings.keras_backend]
    seen = _framework_gpus(settings.keras_backend)
    if unasked is None and seen != len(visible):
        return _disagree(settings, gpus, visible, seen)
    if seen == 0:
        hidden = f"CUDA_VISIBLE_DEVICES hides {plural(len(gpus), 'GPU')}" if gpus else unasked or "no NVIDIA GPU here"
        return _on_cpu(settings, hidden, prove=True, nvml=None if unasked else len(gpus))
    try:
        proof_s = _prove(settings.keras_backend, "gpu", seen)
    except Exception as error:
        return _or_cpu(
            settings, f"{name} sees {plural(seen, 'GPU')} but cannot compute there: {_short(error)}", gpus, seen
        )
    asked = settings.gpu_count
    reason = f"computed on each in {proof_s:.1f} s, equal to NumPy"
    if asked is not None and asked > seen:
        reason = f"{asked} asked for, {seen} there; {reason}"
    names = tuple(gpu.name for gpu in visible)
    return Decision("gpu", seen, names, reason, None if unasked else len(gpus), seen, round(proof_s, 3))


def _driver_gpus(settings: Settings) -> tuple[tuple[Gpu, ...], str | None]:
    """The driver's GPUs, or why it could not be asked."""
    try:
        return driver_gpus(), None
    except ModuleNotFoundError:
        return (), "the driver could not be asked (nvidia-ml-py is not installed)"
    except MissingError as error:
        if not settings.allow_cpu:
            raise
        return (), error.message.rstrip(".")


def _visible(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; up to the first entry that names none, as CUDA reads it."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return gpus
    left: list[Gpu] = []
    for word in text.split(","):
        word = word.strip()
        match = [gpu for gpu in gpus if word.startswith("GPU-") and gpu.uuid.startswith(word)]
        if word.isdigit() and int(word) < len(gpus):
            match = [gpus[int(word)]]
        if not match:
            break
        left.append(match[0])
    return tuple(left)


def _choose_freest(settings: Settings) -> None:
    """With GPU_COUNT=N, show the frameworks only the N GPUs with the most free memory."""
    wanted = settings.gpu_count
    if not wanted or "CUDA_VISIBLE_DEVICES" in os.environ:
        return
    gpus, _ = _driver_gpus(settings)
    if len(gpus) > wanted:
        freest = sorted(gpus, key=lambda gpu: gpu.free or 0, reverse=True)[:wanted]
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in freest)


def _on_cpu(settings: Settings, reason: str, *, prove: bool, nvml: int | None = None) -> Decision:
    proof_s = None
    if prove:
        _framework_gpus(settings.keras_backend)
        proof_s = round(_prove(settings.keras_backend, "cpu", 1), 3)
    return Decision("cpu", cpu_cores(), (), reason, nvml, 0 if prove else None, proof_s)


def _without_proof(gpus: tuple[Gpu, ...], visible: tuple[Gpu, ...], unasked: str | None) -> Decision:
    if visible:
        return Decision("gpu", len(visible), tuple(gpu.name for gpu in visible), "as the driver counts", len(gpus))
    return Decision("cpu", cpu_cores(), (), unasked or "no NVIDIA GPU here", None if unasked else len(gpus))


def _disagree(settings: Settings, gpus: tuple[Gpu, ...], visible: tuple[Gpu, ...], seen: int) -> Decision:
    name = FRAMEWORKS[settings.keras_backend]
    cause = f"the driver has {plural(len(visible), 'usable GPU')}, {name} sees {seen}"
    if not seen and _is_cpu_build(settings.keras_backend):
        cause += f": this {name} is built for the CPU only"
    return _or_cpu(settings, cause, gpus, seen)


def _or_cpu(settings: Settings, cause: str, gpus: tuple[Gpu, ...], seen: int) -> Decision:
    if not settings.allow_cpu:
        raise MissingError(
            f"GPU trouble: {cause}.",
            hint="Install the framework's GPU build (in the container it is there), or say that the CPU is fine: "
            "GPU_COUNT=0, or ALLOW_CPU=1 to try again next time.",
        )
    proof_s = round(_prove(settings.keras_backend, "cpu", 1), 3)
    return Decision("cpu", cpu_cores(), (), f"{cause}; going on without (ALLOW_CPU)", len(gpus), seen, proof_s)


def _is_cpu_build(backend: str) -> bool:
    if backend == "tensorflow":
        return not sys.modules["tensorflow"].test.is_built_with_cuda()
    if backend == "torch":
        return sys.modules["torch"].version.cuda is None
    try:
        metadata.version("jax-cuda12-plugin")
    except metadata.PackageNotFoundError:
        return True
    return False


def _framework_gpus(backend: str) -> int:
    if backend not in sys.modules:
        with _quiet():
            importlib.import_module(backend)
    if backend == "tensorflow":
        import tensorflow

        return len(tensorflow.config.list_physical_devices("GPU"))
    if backend == "jax":
        import jax

        return sum(device.platform == "gpu" for device in jax.devices())
    import torch

    return int(torch.cuda.device_count())


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back what native code writes to stderr, and let it out only when the block fails.

    TensorFlow greets at import with a page of lines that no setting silences and that look like errors.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _prove(backend: str, kind: Literal["gpu", "cpu"], count: int) -> float:
    """Multiply two matrices on each device and compare with NumPy.

    Returns:
        Seconds it took on all of them.

    Raises:
        ArithmeticError: A result that differs from NumPy's.
        Exception: Whatever the framework raises when it cannot compute there.
    """
    import numpy as np

    random = np.random.default_rng(0)
    a, b = (random.standard_normal((PROOF_SIZE, PROOF_SIZE), dtype=np.float32) for _ in range(2))
    expected = a @ b
    started = time.perf_counter()
    for index in range(count):
        found = _multiply(backend, kind, index, a, b)
        worst = float(np.abs(found - expected).max() / np.abs(expected).max())
        if not worst < PROOF_TOLERANCE:
            raise ArithmeticError(f"{kind} {index} computes wrongly: it differs from NumPy by {worst:.1%}")
    return time.perf_counter() - started


def _multiply(backend: str, kind: str, index: int, a: Any, b: Any) -> Any:
    if backend == "tensorflow":
        import tensorflow

        with tensorflow.device(f"/{kind.upper()}:{index}"):
            return tensorflow.linalg.matmul(tensorflow.constant(a), tensorflow.constant(b)).numpy()
    if backend == "jax":
        import jax
        import numpy as np

        device = jax.devices(kind)[index]
        return np.asarray(jax.numpy.matmul(jax.device_put(a, device), jax.device_put(b, device)))
    import torch

    where = f"cuda:{index}" if kind == "gpu" else "cpu"
    return (torch.from_numpy(a).to(where) @ torch.from_numpy(b).to(where)).cpu().numpy()


def _short(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
