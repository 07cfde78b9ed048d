"""GPU_COUNT=0: under each framework no CUDA call is made, and the report says so.

CUDA's driver library is one of our own that writes down each call; whoever calls it is real.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import fake_nvml
from device_tools import CODE, project_in

_SOURCE = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void say(const char *call) {
    const char *file = getenv("FAKE_CUDA_CALLS");
    int log = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (log < 0) return;
    if (write(log, call, strlen(call)) < 0 || write(log, "\n", 1) < 0) {}
    close(log);
}
enum { NO_DEVICE = 100 };
int cuInit(unsigned flags) { say("cuInit"); return NO_DEVICE; }
int cuDriverGetVersion(int *version) { say("cuDriverGetVersion"); *version = 12080; return 0; }
int cuDeviceGetCount(int *count) { say("cuDeviceGetCount"); *count = 0; return NO_DEVICE; }
int cuGetErrorName(int code, const char **text) { *text = "CUDA_ERROR_NO_DEVICE"; return 0; }
int cuGetErrorString(int code, const char **text) { *text = "no CUDA-capable device is detected"; return 0; }
"""
# What a training does, in short: prepare, decide, one step of Keras.
_TRAIN = """
import json, sys
from pathlib import Path
from kaggle_workbench import devices
from kaggle_workbench.settings import load_settings
settings = load_settings(start=Path(sys.argv[1]))
devices.prepare(settings)
decision = devices.decide(settings)
import keras, numpy
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile("sgd", "mse")
model.fit(numpy.ones((8, 4)), numpy.ones((8, 2)), verbose=0)
print(json.dumps({"line": decision.line, "reason": decision.reason, "loaded": devices.framework.loaded()}))
"""


def train(folder: Path, backend: str, count: str, **env: str) -> tuple[dict[str, str], list[str]]:
    """A training in a process of its own; what it said, and which CUDA calls it made."""
    calls = folder / f"calls-{backend}-{count}"
    fake_nvml.build(folder / "cuda", "libcuda.so.1", _SOURCE)
    own = {
        "LD_LIBRARY_PATH": str(folder / "cuda"),
        "FAKE_CUDA_CALLS": str(calls),
        "KERAS_BACKEND": backend,
        "GPU_COUNT": count,
        "PYTHONPATH": str(CODE),
        "TF_NUM_INTRAOP_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", _TRAIN, str(folder)],
        env={**os.environ, **own, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    made = calls.read_text().split() if calls.exists() else []
    return json.loads(done.stdout.splitlines()[-1]), made


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_no_cuda_call_and_the_report_says_cpu_by_request(tmp_path: Path, backend: str) -> None:
    pytest.importorskip(backend)
    said, calls = train(project_in(tmp_path), backend, "0")
    # PyTorch's CUDA build counts devices in its first backward pass, in C++ that no setting reaches; it is shown none.
    assert calls == [] or (backend == "torch" and "+cpu" not in metadata.version("torch"))
    assert said["reason"] == "by request (GPU_COUNT=0)"
    assert said["line"].startswith("CPU (")
    assert backend in said["loaded"]


@pytest.mark.slow
def test_tensorflows_cuda_build_calls_cuda_but_not_when_the_cpu_is_asked_for(tmp_path: Path) -> None:
    """The wheel with CUDA, beside everything else of this environment; NVIDIA's libraries are not needed for that."""
    version = metadata.version("tensorflow-cpu")
    wheel = tmp_path / "wheel"
    words = ["install", "-q", "--no-deps", "--no-compile", "--target", str(wheel), f"tensorflow=={version}"]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True, timeout=600)
    path = f"{wheel}{os.pathsep}{CODE}"
    project = project_in(tmp_path)
    said, calls = train(project, "tensorflow", "", PYTHONPATH=path)
    assert "cuInit" in calls, "else this test shows nothing"
    assert "no NVIDIA GPU" in said["reason"]
    said, calls = train(project, "tensorflow", "0", PYTHONPATH=path)
    assert calls == []
    assert said["reason"] == "by request (GPU_COUNT=0)"


def test_pytorchs_own_questions_are_answered_without_cuda(tmp_path: Path) -> None:
    """PyTorch's Python code as it is in a CUDA build; only the calls into CUDA are written down."""
    pytest.importorskip("torch")
    project = project_in(tmp_path)
    code = """
import sys
from pathlib import Path
from kaggle_workbench import devices
from kaggle_workbench.settings import load_settings
settings = load_settings(start=Path(sys.argv[1]))
devices.prepare(settings)
import torch
calls = []
torch.cuda._is_compiled = lambda: True
torch._C._cuda_getDeviceCount = lambda: calls.append("cudaGetDeviceCount") or 0
print(devices.decide(settings).reason)
torch.cuda.is_available()  # Keras asks this when it is imported
print(calls)
"""
    for count, expected in (("0", ["by request (GPU_COUNT=0)", "[]"]), ("", None)):
        done = subprocess.run(
            [sys.executable, "-c", code, str(project)],
            env={**os.environ, "KERAS_BACKEND": "torch", "GPU_COUNT": count, "PYTHONPATH": str(CODE)},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        lines = done.stdout.splitlines()[-2:]
        if expected is None:
            assert "cudaGetDeviceCount" in lines[1], "else this test shows nothing"
        else:
            assert lines == expected
