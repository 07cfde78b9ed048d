"""What computes: the counts are compared, the computation is proved, and nothing is silent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench import devices
from kaggle_workbench.devices import Gpu
from kaggle_workbench.devices import decision as decision_module
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.settings import Settings, load_settings

CODE = Path(__file__).resolve().parent.parent / "code"
NAMES = ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS", "KERAS_BACKEND", "GPU_COUNT", "ALLOW_CPU", *devices.DEFAULTS)


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    before = dict(os.environ)
    for name in NAMES:
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".project").mkdir()
    (tmp_path / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    return tmp_path


def settings(project: Path, **given: Any) -> Settings:
    return load_settings(given, start=project)


def gpus(count: int) -> tuple[Gpu, ...]:
    return tuple(Gpu("RTX A6000", f"GPU-{n:08d}", 48 * 10**9, (n + 1) * 10**9) for n in range(count))


def seen(monkeypatch: pytest.MonkeyPatch, driver: int | Exception, framework: int, proof: Any = 0.5) -> None:
    """Let the driver and the framework count so many GPUs."""

    def ask() -> tuple[Gpu, ...]:
        if isinstance(driver, Exception):
            raise driver
        return gpus(driver)

    def prove(backend: str, kind: str, count: int) -> float:
        if isinstance(proof, Exception) and kind == "gpu":
            raise proof
        return 0.5

    monkeypatch.setattr(decision_module, "driver_gpus", ask)
    monkeypatch.setattr(decision_module, "_framework_gpus", lambda backend: framework)
    monkeypatch.setattr(decision_module, "_prove", prove)
    monkeypatch.setattr(decision_module, "_is_cpu_build", lambda backend: True)


def test_no_gpu_anywhere_is_the_cpu(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, 0, 0)
    decision = devices.decide(settings(project))
    assert (decision.kind, decision.nvml, decision.framework) == ("cpu", 0, 0)
    assert decision.line == f"CPU ({devices.cpu_cores()} cores): no NVIDIA GPU here".replace("(1 cores)", "(1 core)")
    assert json.loads(json.dumps(decision.to_dict()))["kind"] == "cpu"


def test_gpus_that_both_count_compute(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, 2, 2)
    decision = devices.decide(settings(project))
    assert (decision.kind, decision.count) == ("gpu", 2)
    assert decision.line.startswith("2 GPUs (RTX A6000): computed on each")
    more = devices.decide(settings(project, GPU_COUNT=9))
    assert "9 asked for, 2 there" in more.line


@pytest.mark.parametrize(("driver", "framework"), [(1, 0), (2, 1), (0, 1), (8, 0)])
def test_counts_that_disagree_stop_the_run(
    project: Path, monkeypatch: pytest.MonkeyPatch, driver: int, framework: int
) -> None:
    seen(monkeypatch, driver, framework)
    with pytest.raises(MissingError, match=f"TensorFlow sees {framework}"):
        devices.decide(settings(project))
    decision = devices.decide(settings(project, ALLOW_CPU=True))
    assert decision.kind == "cpu"
    assert "ALLOW_CPU" in decision.line
    assert decision.framework == framework


def test_a_computation_that_fails_stops_the_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, 1, 1, RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU\nmore"))
    with pytest.raises(MissingError, match="cannot compute there: CUDA_ERROR_NO_BINARY_FOR_GPU"):
        devices.decide(settings(project))
    assert devices.decide(settings(project, ALLOW_CPU=True)).kind == "cpu"


def test_a_broken_driver_is_named_and_not_taken_for_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, MissingError("The NVIDIA driver is there but does not answer: mismatch."), 0)
    with pytest.raises(MissingError, match="mismatch"):
        devices.decide(settings(project))
    assert "mismatch" in devices.decide(settings(project, ALLOW_CPU=True)).line
    assert devices.decide(settings(project, GPU_COUNT=0)).reason == "by request (GPU_COUNT=0)"


def test_gpus_hidden_by_the_user_are_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, 2, 0)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    assert devices.decide(settings(project)).reason == "CUDA_VISIBLE_DEVICES hides 2 GPUs"
    seen(monkeypatch, 3, 2)
    for text in ("0,2", "GPU-00000001,GPU-00000002", "0,1,7,2"):
        os.environ["CUDA_VISIBLE_DEVICES"] = text
        assert devices.decide(settings(project)).count == 2, text


def test_the_freest_gpus_are_taken(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, 4, 0)
    devices.prepare(settings(project, GPU_COUNT=2))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-00000003,GPU-00000002"
    devices.prepare(settings(project, GPU_COUNT=1))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-00000003,GPU-00000002", "what is set already is left alone"


def test_defaults_do_not_touch_what_the_user_set(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, 0, 0)
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
    devices.prepare(settings(project))
    assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_the_cpu_is_forced_before_a_framework_is_loaded(project: Path) -> None:
    code = (
        "import json, os, sys; from pathlib import Path; from kaggle_workbench import devices\n"
        "from kaggle_workbench.settings import load_settings\n"
        "settings = load_settings({'GPU_COUNT': 0}, start=Path(sys.argv[1]))\n"
        "devices.prepare(settings); loaded = 'tensorflow' in sys.modules\n"
        "decision = devices.decide(settings)\n"
        "print(json.dumps([loaded, os.environ['CUDA_VISIBLE_DEVICES'], decision.to_dict()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(project)],
        env={**os.environ, "PYTHONPATH": str(CODE)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded, hidden, decision = json.loads(done.stdout)
    assert (loaded, hidden) == (False, "-1")
    assert decision["reason"] == "by request (GPU_COUNT=0)"
    assert decision["proof_s"] is not None
    assert done.stderr == "", "TensorFlow's greeting at import is kept from the person"


def test_too_late_for_the_cpu_asks_for_a_new_kernel(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", object())
    seen(monkeypatch, 1, 1)
    with pytest.raises(UsageError, match="TensorFlow is loaded") as caught:
        devices.prepare(settings(project, GPU_COUNT=0))
    assert "Restart the kernel" in caught.value.hint
    seen(monkeypatch, 1, 0)
    devices.prepare(settings(project, GPU_COUNT=0))


def test_a_wrong_result_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_module, "_multiply", lambda backend, kind, index, a, b: a @ b * 1.5)
    with pytest.raises(ArithmeticError, match="computes wrongly"):
        decision_module._prove("tensorflow", "cpu", 1)


def test_the_driver_is_asked_without_a_framework() -> None:
    code = (
        "import sys; from kaggle_workbench import devices\n"
        "try: print(len(devices.driver_gpus()))\n"
        "except devices.DriverError as error: print(error)\n"
        "assert not {'tensorflow', 'keras', 'jax', 'torch'} & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(CODE)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
