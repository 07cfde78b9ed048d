"""What a framework says of its devices, and the computation that proves it. The only asker of frameworks."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal

FRAMEWORKS: Mapping[str, str] = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
# Distributions that bring the module; the first one found counts.
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tf-nightly", "tensorflow-aarch64"),
    "jax": ("jax",),
    "torch": ("torch",),
}
JAX_CUDA = ("jax-cuda13-plugin", "jax-cuda12-plugin")
PROOF_SIZE = 256
PROOF_TOLERANCE = 1e-2
WORDS_TIMEOUT_S = 120
_ASK: Mapping[str, str] = {
    "tensorflow": "import tensorflow; tensorflow.config.list_physical_devices('GPU')",
    "jax": "import jax; jax.devices()",
    "torch": "import torch; torch.cuda.device_count() and torch.zeros(1).cuda() or torch.cuda.is_available()",
}


@dataclass(frozen=True)
class Build:
    """How a framework was built.

    Attributes:
        cuda: The CUDA version, such as "12.5"; None for a build without CUDA, "" when it does not say.
        architectures: What it holds machine code for ("sm_80"), or code to compile on the spot ("compute_90"); empty
            when it does not say.
    """

    cuda: str | None
    architectures: tuple[str, ...] = ()

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Whether it has code for a GPU of this compute capability (True when it does not say)."""
        return not self.architectures or any(_fits(name, capability) for name in self.architectures)


def _fits(architecture: str, capability: tuple[int, int]) -> bool:
    kind, _, number = architecture.partition("_")
    digits = "".join(sign for sign in number if sign.isdigit())
    if not digits:
        return False
    code = int(digits[:-1]), int(digits[-1])
    # Machine code runs on later GPUs of its own generation; the other kind on every later one.
    return code <= capability if kind == "compute" else code[0] == capability[0] and code[1] <= capability[1]


def loaded() -> list[str]:
    """Frameworks that this process has imported."""
    return [name for name in FRAMEWORKS if name in sys.modules]


def installed(backend: str) -> tuple[str, str] | None:
    """Distribution and version that an import would find, without importing it; None when there is none."""
    for name in DISTRIBUTIONS[backend]:
        try:
            return name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def cannot_use_gpus(backend: str) -> bool:
    """Whether the installed one is, by name and version, a build for the CPU only; without importing it."""
    found = installed(backend)
    if found is None:
        return False
    name, version = found
    return {
        "tensorflow": name == "tensorflow-cpu",
        "jax": not any(_is_installed(plugin) for plugin in JAX_CUDA),
        "torch": version.endswith("+cpu"),
    }[backend]


def count(backend: str) -> int:
    """GPUs that the framework sees; imports it.

    Raises:
        ImportError: It is not installed, or broken.
    """
    if backend not in sys.modules:
        with quiet():
            importlib.import_module(backend)
    with quiet():
        if backend == "tensorflow":
            import tensorflow

            return len(tensorflow.config.list_physical_devices("GPU"))
        if backend == "jax":
            import jax

            return sum(device.platform == "gpu" for device in jax.devices())
        import torch

        return int(torch.cuda.device_count())


def other_device(backend: str) -> str:
    """What the framework, already imported, computes on by itself that is neither CPU nor NVIDIA GPU; "" when none.

    JAX takes a TPU, and Keras on PyTorch the GPU of Apple silicon, unless they are told not to.
    """
    if backend == "jax":
        kind = str(sys.modules["jax"].default_backend())
        return "" if kind in ("cpu", "gpu") else kind.upper()
    if backend == "torch" and os.environ.get("KERAS_TORCH_DEVICE") != "cpu":
        return "GPU of Apple silicon (MPS)" if sys.modules["torch"].backends.mps.is_available() else ""
    return ""


def build(backend: str) -> Build:
    """How the framework, already imported, was built."""
    module = sys.modules[backend]
    if backend == "tensorflow":
        facts = module.sysconfig.get_build_info()
        if not facts.get("is_cuda_build"):
            return Build(None)
        return Build(str(facts.get("cuda_version", "")), tuple(facts.get("cuda_compute_capabilities", ())))
    if backend == "torch":
        return Build(module.version.cuda, tuple(module.cuda.get_arch_list()))
    plugin = next((name for name in JAX_CUDA if _is_installed(name)), None)
    # "jax-cuda12-plugin" serves CUDA 12; which architectures it holds it does not say.
    return Build(None if plugin is None else plugin.removeprefix("jax-cuda").split("-")[0])


def own_words(backend: str) -> str:
    """All that the framework writes when a fresh process asks it for its devices; "" when that cannot be told.

    Its log is silenced here, and what it said at import in this process is gone; a new one tells it again.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0", "PYTHONWARNINGS": "always"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK[backend]],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=WORDS_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stderr


def prove(backend: str, kind: Literal["gpu", "cpu"], devices: int) -> list[float]:
    """Multiply two matrices on each device and compare with NumPy.

    Args:
        backend: The framework.
        kind: Which devices.
        devices: How many of them, from 0.

    Returns:
        Seconds it took on each.

    Raises:
        ArithmeticError: A result that differs from NumPy's.
        Exception: Whatever the framework raises when it cannot compute there.
    """
    import numpy as np

    random = np.random.default_rng(0)
    a, b = (random.standard_normal((PROOF_SIZE, PROOF_SIZE), dtype=np.float32) for _ in range(2))
    expected = a @ b
    seconds = []
    for index in range(devices):
        started = time.perf_counter()
        found = multiply(backend, kind, index, a, b)
        worst = float(np.abs(found - expected).max() / np.abs(expected).max())
        if not worst < PROOF_TOLERANCE:
            raise ArithmeticError(f"{kind} {index} computes wrongly: it differs from NumPy by {worst:.1%}")
        seconds.append(round(time.perf_counter() - started, 3))
    return seconds


def multiply(backend: str, kind: str, index: int, a: Any, b: Any) -> Any:
    """The product of two NumPy matrices, computed by the framework on one device."""
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


@contextmanager
def quiet() -> Iterator[None]:
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


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
