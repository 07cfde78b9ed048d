"""Why a GPU does not compute: each cause from the frameworks' real words, or from facts."""
# ruff: noqa: E501  (the frameworks' lines as they are)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from device_tools import driver, own_environment, project_in, settings
from kaggle_workbench import devices
from kaggle_workbench.devices import causes, framework
from kaggle_workbench.devices.framework import Build
from kaggle_workbench.errors import MissingError


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_environment(monkeypatch):
        yield


TF = Build("12.5.1", ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"))
# As TensorFlow 2.21 (the CUDA wheel alone, with a driver and without NVIDIA's libraries), JAX 0.10 with its CUDA
# plugin, and the others wrote it; older forms from public issues.
TF_NO_CUDART = (
    "I0000 00:00:1796096896.822494   21387 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will "
    "not be used.\nI0000 00:00:1796096896.865092   21387 cpu_feature_guard.cc:227] This TensorFlow binary is optimized"
)
TF_DLOPEN = (
    "2020-08-24 11:08:28.568767: W tensorflow/stream_executor/platform/default/dso_loader.cc:59] Could not load dynamic "
    "library 'libcusparse.so.10'; dlerror: libcusparse.so.10: cannot open shared object file: No such file or directory\n"
    "2020-08-24 11:08:28.568827: W tensorflow/stream_executor/platform/default/dso_loader.cc:59] Could not load dynamic "
    "library 'libcudnn.so.7'; dlerror: libcudnn.so.7: cannot open shared object file: No such file or directory\n"
    "2020-08-24 11:08:28.568905: W tensorflow/core/common_runtime/gpu/gpu_device.cc:1753] Cannot dlopen some GPU "
    "libraries. Please make sure the missing libraries mentioned above are installed properly if you would like to use "
    "GPU. Follow the guide at https://www.tensorflow.org/install/gpu for how to download and setup the required "
    "libraries for your platform.\nSkipping registering GPU devices..."
)
JAX_NO_CUDA = (
    "Jax plugin configuration error: Exception when calling jax_plugins.xla_cuda12.initialize()\n"
    "RuntimeError: jaxlib/cuda/versions_helpers.cc:38: operation cudaRuntimeGetVersion(&version) failed: Error loading "
    "CUDA libraries. GPU will not be used.\nRuntimeError: Unable to load CUDA. Is it installed?"
)
JAX_CPU = (
    "WARNING:2025-05-27 20:22:28,949:jax._src.xla_bridge:791: An NVIDIA GPU may be present on this machine, but a "
    "CUDA-enabled jaxlib is not installed. Falling back to cpu."
)
TORCH_CPU = "AssertionError: Torch not compiled with CUDA enabled"
TORCH_OLD_DRIVER = (
    "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update "
    "your GPU driver by downloading and installing a new version"
)
TF_NO_CODE = (
    "Failed to load in-memory CUBIN: CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the "
    "device [[node Generador/conv2d_4/Tanh] [Op:__inference_predict_function_1081]"
)
TORCH_NO_CODE = (
    "UserWarning: Found GPU0 Tesla P100-PCIE-16GB which is of compute capability (CC) 6.0.\nThe following list shows "
    "the CCs this version of PyTorch was built for and the hardware CCs it supports:"
)
TORCH_NO_CODE_OLDER = (
    "UserWarning: \n    Found GPU0 Tesla P100-PCIE-16GB which is of cuda capability 6.0.\n    Minimum and Maximum cuda "
    "capability supported by this version of PyTorch is\n    (7.0) - (12.0)"
)
TORCH_NO_KERNEL = "CUDA error: no kernel image is available for execution on the device\nCUDA kernel errors might be"
TORCH_TAKEN = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 15.90 GiB"
TF_TAKEN = "failed call to cuInit: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
TF_TWO_VERSIONS = (
    "failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver / cuda driver "
    "combination"
)
TORCH_TWO_VERSIONS = (
    "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported "
    "display driver / cuda driver combination"
)
TORCH_COMPAT = (
    "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was "
    "attempted on non supported HW"
)
TORCH_BUSY = "CUDA error: all CUDA-capable devices are busy or unavailable"


@pytest.mark.parametrize(
    ("backend", "built", "facts", "text", "name", "told", "mend"),
    [
        (
            "tensorflow",
            Build(None),
            {},
            "",
            "cpu-build",
            "this TensorFlow is built for the CPU only",
            "TENSORFLOW_BUILD",
        ),
        ("jax", Build(None), {}, JAX_CPU, "cpu-build", "this JAX is built for the CPU only", "jax[cuda12]"),
        ("jax", None, {}, JAX_CPU, "cpu-build", "this JAX is built for the CPU only", "jax[cuda12]"),
        ("torch", None, {}, TORCH_CPU, "cpu-build", "this PyTorch is built for the CPU only", "pytorch.org"),
        ("tensorflow", TF, {}, TF_NO_CUDART, "library", "(CUDA's runtime, libcudart)", "tensorflow[and-cuda]"),
        ("tensorflow", TF, {}, TF_DLOPEN, "library", "(libcusparse.so.10, libcudnn.so.7)", "tensorflow[and-cuda]"),
        ("jax", Build("12"), {}, JAX_NO_CUDA, "library", "JAX does not find its CUDA libraries (CUDA)", "jax[cuda12]"),
        ("tensorflow", TF, {"CAPABILITY": "3.7"}, "", "architecture", "capability 3.7) (it has sm_60, sm_70", "T4"),
        ("tensorflow", None, {"CAPABILITY": "5.0"}, TF_NO_CODE, "architecture", "no code for the Made Up T4", "T4"),
        ("torch", None, {"CAPABILITY": "6.0"}, TORCH_NO_CODE, "architecture", "compute capability 6.0", "T4"),
        ("torch", None, {"CAPABILITY": "6.0"}, TORCH_NO_CODE_OLDER, "architecture", "compute capability 6.0", "T4"),
        ("torch", None, {}, TORCH_NO_KERNEL, "architecture", "this PyTorch has no code", "T4"),
        (
            "tensorflow",
            TF,
            {"CUDA": "11040", "DRIVER": "470.82"},
            "",
            "driver",
            "the driver 470.82 is too old: it serves CUDA 11.4, this TensorFlow is built with CUDA 12.5.1",
            "newer NVIDIA driver",
        ),
        ("torch", None, {"CUDA": "11040"}, TORCH_OLD_DRIVER, "driver", "is too old: it serves CUDA 11.4", "driver"),
        (
            "torch",
            None,
            {"FREE": "11000000", "PROCESS": "0:1:15900000000"},
            TORCH_TAKEN,
            "memory",
            "only 11.0 MB of 16.0 GB are free on GPU 0, held by process 1",
            "GPU_COUNT",
        ),
        ("tensorflow", TF, {}, TF_TWO_VERSIONS, "mismatch", "have different versions", "Restart the machine"),
        ("torch", None, {}, TORCH_TWO_VERSIONS, "mismatch", "have different versions", "Restart the machine"),
        ("torch", None, {}, TORCH_COMPAT, "driver", "is too old", "newer NVIDIA driver"),
        ("tensorflow", TF, {"FREE": "0"}, TF_TAKEN, "memory", "only 0 B of 16.0 GB are free", "End that process"),
        ("torch", None, {}, TORCH_BUSY, "memory", "free on GPU 0", "End that process"),
        ("tensorflow", TF, {}, "an unknown fault\nwith details", "unknown", "an unknown fault", "./kwb gpus --proof"),
        ("tensorflow", TF, {}, "", "unknown", "TensorFlow does not say why", "./kwb gpus --proof"),
    ],
)
def test_each_cause_is_one_sentence_with_its_mend(
    backend: str, built: Build | None, facts: dict[str, str], text: str, name: str, told: str, mend: str
) -> None:
    driver(1, **facts)
    cause = causes.explain(backend, built, devices.driver_gpus(), text)
    assert cause.name == name
    assert told in cause.sentence
    assert mend in cause.hint
    assert "\n" not in cause.sentence


@pytest.mark.parametrize(
    ("capability", "runs"),
    [((3, 7), False), ((6, 1), True), ((7, 5), True), ((8, 6), True), ((9, 0), True), ((10, 0), True), ((12, 1), True)],
)
def test_machine_code_serves_its_generation_and_the_other_kind_all_later_ones(
    capability: tuple[int, int], runs: bool
) -> None:
    assert TF.runs_on(capability) is runs
    assert Build("12.8", ("sm_75", "sm_80")).runs_on((9, 0)) is False
    assert Build("12.8", ("sm_90a", "sm_100", "sm_120")).runs_on((12, 0)) is True
    assert Build("12").runs_on(capability), "a build that does not say is not blamed"


def test_the_cause_stands_in_the_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(1)
    project = project_in(tmp_path)
    monkeypatch.setattr(framework, "count", lambda backend: 0)
    monkeypatch.setattr(framework, "build", lambda backend: TF)
    monkeypatch.setattr(framework, "own_words", lambda backend: TF_DLOPEN)
    with pytest.raises(MissingError) as caught:
        devices.decide(settings(project))
    assert caught.value.message == (
        "GPU trouble: the driver has 1 usable GPU, TensorFlow sees 0: TensorFlow does not find its CUDA libraries "
        "(libcusparse.so.10, libcudnn.so.7)."
    )
    assert "tensorflow[and-cuda]" in caught.value.hint
    line = devices.decide(settings(project, ALLOW_CPU=True)).line
    assert "libcudnn.so.7" in line
    assert "going on without (ALLOW_CPU)" in line


def test_memory_that_another_process_holds_is_said_even_when_it_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(1, FREE="300000000", PROCESS="0:1:15000000000")
    monkeypatch.setattr(framework, "count", lambda backend: 1)
    monkeypatch.setattr(framework, "prove", lambda backend, kind, count: [0.1])
    line = devices.decide(settings(project_in(tmp_path))).line
    assert "only 300.0 MB of 16.0 GB are free on GPU 0, held by process 1" in line


def test_a_framework_tells_its_own_words_in_a_fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        framework._ASK, "tensorflow", "import sys, os; sys.stderr.write(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    )
    assert framework.own_words("tensorflow") == "0", "its log is asked for in full"
