"""What computes: the counts are compared, the computation is proved, and nothing is silent.

The driver is the real nvidia-ml-py on a library of our own (tests/fake_nvml.py); only the framework's count is set.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import fake_nvml
from device_tools import CODE, driver, own_environment, project_in, settings
from kaggle_workbench import devices
from kaggle_workbench.devices import choice, framework
from kaggle_workbench.errors import MissingError, UsageError


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_environment(monkeypatch):
        yield


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_in(tmp_path)


def sees(monkeypatch: pytest.MonkeyPatch, gpus: int, proof: Exception | None = None, words: str = "") -> None:
    """Let the framework see so many GPUs; `proof` is what it raises when it should compute there."""

    def prove(backend: str, kind: str, count: int) -> list[float]:
        if proof and kind == "gpu":
            raise proof
        return [0.25] * count

    monkeypatch.setattr(framework, "count", lambda backend: gpus)
    monkeypatch.setattr(framework, "prove", prove)
    monkeypatch.setattr(framework, "build", lambda backend: framework.Build("12.5", ("sm_70", "compute_90")))
    monkeypatch.setattr(framework, "own_words", lambda backend: words)


# --- The matrix ---

BROKEN = "broken"
DRIVERS: tuple[int | str, ...] = (0, 1, 2, 8, BROKEN)
CELLS = list(itertools.product(DRIVERS, (0, 1, 2), (None, 0, 1, 9), (False, True)))


@pytest.mark.parametrize(("present", "seen", "asked", "allow"), CELLS)
def test_the_matrix(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    present: int | str,
    seen: int,
    asked: int | None,
    allow: bool,
) -> None:
    """Driver x framework x GPU_COUNT x ALLOW_CPU: the rule of docs/gpus.md, written down again here."""
    driver(2, INIT=fake_nvml.MISMATCH) if present == BROKEN else driver(int(present))
    # The framework obeys what hides GPUs from it, unless it was imported before: that is what `seen` stands for.
    sees(monkeypatch, seen)
    given = settings(project, GPU_COUNT=asked, ALLOW_CPU=allow)

    def outcome() -> devices.Decision:
        devices.prepare(given)
        return devices.decide(given)

    if asked == 0:
        # The driver does not matter. A framework that has a GPU all the same was imported too early.
        if seen:
            with pytest.raises(UsageError, match="GPU_COUNT is 0") as too_late:
                outcome()
            assert "Restart the kernel" in too_late.value.hint
        else:
            decision = outcome()
            assert (decision.kind, decision.reason) == ("cpu", "by request (GPU_COUNT=0)")
        return
    if present == BROKEN:
        if not allow:
            with pytest.raises(devices.DriverError, match="different versions") as broken:
                outcome()
            assert "Restart the machine" in broken.value.hint
            return
        decision = outcome()
        assert "different versions" in decision.line, "trouble is said even when it goes on"
        assert (decision.kind, decision.nvml) == ("gpu" if seen else "cpu", None)
        return
    wanted = int(present) if asked is None else min(int(present), asked)
    if seen != wanted and not allow:
        with pytest.raises(MissingError) as stopped:
            outcome()
        assert f"TensorFlow sees {seen}" in stopped.value.message
        assert f"the driver has {wanted} usable GPU" in stopped.value.message
        assert "GPU_COUNT=0" in stopped.value.hint
        return
    decision = outcome()
    assert decision.kind == ("gpu" if seen else "cpu")
    assert (decision.nvml, decision.framework) == (present, seen)
    if seen:
        assert decision.count == seen
        assert "computed on each" in decision.line
    if seen != wanted:
        assert f"TensorFlow sees {seen}" in decision.line
        assert "ALLOW_CPU" in decision.line
    elif asked is not None and asked > int(present):
        assert f"{asked} GPU" in decision.line or f"{asked} asked for, {seen} there" in decision.line
    elif not seen:
        assert decision.reason == "no NVIDIA GPU here"
    assert json.loads(json.dumps(decision.to_dict()))["reason"] == decision.reason


def test_the_line_names_what_computes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(2, NAME="RTX A6000")
    sees(monkeypatch, 2)
    assert devices.decide(settings(project)).line == "2 GPUs (RTX A6000): computed on each in 0.5 s, equal to NumPy"
    driver(0)
    sees(monkeypatch, 0)
    cores = f"{devices.cpu_cores()} core" + ("s" if devices.cpu_cores() != 1 else "")
    assert devices.decide(settings(project)).line == f"CPU ({cores}): no NVIDIA GPU here"


def test_the_record_does_not_tell_whose_gpus_they_are(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(1, PROCESS=f"0:{os.getpid()}:1000")
    sees(monkeypatch, 1)
    kept = devices.decide(settings(project)).to_dict()
    assert kept["gpus"][0]["capability"] == "7.5"
    assert "GPU-0000" not in json.dumps(kept)
    assert str(os.getpid()) not in json.dumps(kept)


def test_pytorch_uses_one_and_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(2)
    sees(monkeypatch, 2)
    decision = devices.decide(settings(project, KERAS_BACKEND="torch"))
    assert (decision.count, decision.framework, len(decision.gpus)) == (1, 2, 1)
    assert "one of 2, since Keras trains on one GPU with PyTorch" in decision.line


def test_a_gpu_cut_into_parts_may_show_one_part(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(2, MIG="1;1")
    sees(monkeypatch, 1)
    assert devices.decide(settings(project)).kind == "gpu"
    sees(monkeypatch, 0)
    with pytest.raises(MissingError, match="sees 0"):
        devices.decide(settings(project))


def test_a_computation_that_fails_stops_the_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(1)
    sees(monkeypatch, 1, RuntimeError("a new kind of fault\nmore"))
    with pytest.raises(MissingError, match="cannot compute there: a new kind of fault"):
        devices.decide(settings(project))
    decision = devices.decide(settings(project, ALLOW_CPU=True))
    assert (decision.kind, decision.avoid) == ("cpu", True), "its GPU has to be kept from the training"


def test_without_proof_the_installed_package_decides(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(1)
    monkeypatch.setattr(framework, "cannot_use_gpus", lambda backend: True)
    with pytest.raises(MissingError, match="built for the CPU only") as caught:
        devices.decide(settings(project), prove=False)
    assert "TENSORFLOW_BUILD=cuda" in caught.value.hint
    assert devices.decide(settings(project, ALLOW_CPU=True), prove=False).kind == "cpu"
    monkeypatch.setattr(framework, "cannot_use_gpus", lambda backend: False)
    assert (
        devices.decide(settings(project), prove=False).line
        == "1 GPU (Made Up T4): as the driver counts, TensorFlow was not asked"
    )


def test_a_framework_that_is_not_installed_is_named_with_what_brings_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.delitem(sys.modules, "tensorflow")
    monkeypatch.setattr(sys, "path", [str(CODE)])
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if "editable" not in repr(finder)])
    with pytest.raises(MissingError, match="TensorFlow is not installed") as caught:
        devices.decide(settings(project))
    assert "kaggle-workbench[local,cpu]" in caught.value.hint


# --- Which GPUs a framework gets to see ---


def shown() -> list[int]:
    return [int(uuid[-1]) - 1 for uuid in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]


def test_the_freest_gpus_are_taken(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(4, FREE="1000000000;9000000000;2000000000;15000000000")
    sees(monkeypatch, 0)
    devices.prepare(settings(project, GPU_COUNT=2))
    assert shown() == [3, 1]
    devices.prepare(settings(project, GPU_COUNT=3))
    assert shown() == [3, 1, 2], "another stage in the same kernel chooses anew"
    devices.prepare(settings(project))
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    devices.prepare(settings(project, GPU_COUNT=9))
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_the_choice_is_made_among_those_the_user_shows(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(4, FREE="1000000000;9000000000;2000000000;15000000000")
    sees(monkeypatch, 0)
    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2"
    devices.prepare(settings(project, GPU_COUNT=1))
    assert shown() == [1]
    devices.prepare(settings(project))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1,2"


def test_too_late_to_choose_asks_for_a_new_kernel(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(2)
    sees(monkeypatch, 2)
    monkeypatch.setattr(framework, "loaded", lambda: ["tensorflow"])
    for count in (0, 1):
        with pytest.raises(UsageError, match=f"GPU_COUNT is {count}, but TensorFlow is loaded") as caught:
            devices.prepare(settings(project, GPU_COUNT=count))
        assert "Restart the kernel" in caught.value.hint
    devices.prepare(settings(project, GPU_COUNT=2))
    sees(monkeypatch, 0)
    devices.prepare(settings(project, GPU_COUNT=0))


def test_gpus_hidden_by_the_user_are_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(3)
    sees(monkeypatch, 0)
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    assert devices.decide(settings(project)).reason == "CUDA_VISIBLE_DEVICES hides 3 GPUs"
    sees(monkeypatch, 2)
    ids = [gpu.uuid for gpu in devices.driver_gpus()]
    for text in ("0,2", f"{ids[1]},{ids[2]}", "0,1,7,2", "0,1,-1"):
        os.environ["CUDA_VISIBLE_DEVICES"] = text
        assert devices.decide(settings(project)).count == 2, text


@pytest.mark.parametrize("text", ["0,1,1", "1,0", "0,7,1", "2,-1,0", "", "x", "GPU-0000", " 0 , 2"])
def test_cuda_visible_devices_is_read_as_frameworks_read_it(text: str) -> None:
    """PyTorch reads it in Python, so that the rule can be asked."""
    torch = pytest.importorskip("torch.cuda")
    driver(3)
    os.environ["CUDA_VISIBLE_DEVICES"] = text
    theirs = torch._parse_visible_devices()
    if theirs and isinstance(theirs[0], str):
        expected = [0]  # a UUID's beginning
    else:
        expected = list(itertools.takewhile(lambda index: index < 3, theirs))
    assert [gpu.index for gpu in choice.visible(devices.driver_gpus())] == expected


def test_gpu_count_holds_also_where_no_framework_is_asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "cannot_use_gpus", lambda backend: False)
    driver(3, NAME="A;B;C", FREE="1000000000;9000000000;15000000000")
    for asked, shown, names in ((1, None, ("C",)), (2, None, ("C", "B")), (1, "0,1", ("B",)), (9, "0,1", ("A", "B"))):
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        if shown:
            os.environ["CUDA_VISIBLE_DEVICES"] = shown
        found = devices.report(settings(project, GPU_COUNT=asked)).decision
        assert found is not None
        assert (found.count, found.names) == (len(names), names)


def test_more_gpus_than_asked_for_are_never_silent(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision without `prepare` before it, as in a notebook that makes its own."""
    driver(2)
    sees(monkeypatch, 2)
    with pytest.raises(MissingError, match="the driver has 1 usable GPU, TensorFlow sees 2"):
        devices.decide(settings(project, GPU_COUNT=1))
    for facts in ({}, {"INIT": fake_nvml.MISMATCH}):
        driver(2, **facts)
        line = devices.decide(settings(project, GPU_COUNT=1, ALLOW_CPU=True)).line
        assert "1 asked for, 2 there" in line


@pytest.mark.parametrize(("backend", "other"), [("jax", "TPU"), ("torch", "GPU of Apple silicon (MPS)")])
def test_what_is_said_to_compute_on_the_cpu_computes_nowhere_else(
    project: Path, monkeypatch: pytest.MonkeyPatch, backend: str, other: str
) -> None:
    sees(monkeypatch, 0)
    modules = {
        "jax": SimpleNamespace(default_backend=lambda: "tpu"),
        "torch": SimpleNamespace(backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True))),
    }
    monkeypatch.setitem(sys.modules, backend, modules[backend])
    found = devices.decide(settings(project, KERAS_BACKEND=backend))
    assert (found.kind, found.avoid) == ("cpu", True)
    assert f"the {other} that" in found.line
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(default_backend=lambda: "cpu"))
    monkeypatch.setenv("KERAS_TORCH_DEVICE", "cpu")
    assert not devices.decide(settings(project, KERAS_BACKEND=backend)).avoid


def test_the_cpu_by_request_ends_with_the_request(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sees(monkeypatch, 0)
    os.environ["JAX_PLATFORMS"] = "cuda,cpu"
    devices.prepare(settings(project, GPU_COUNT=0))
    assert {name: os.environ[name] for name in choice.NO_GPU} == dict(choice.NO_GPU)
    devices.prepare(settings(project))
    assert os.environ["JAX_PLATFORMS"] == "cuda,cpu"
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_kernel_that_was_used_for_less_is_restarted_to_use_more(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The framework keeps what it saw when it was loaded, whatever GPU_COUNT is afterwards."""
    driver(2)
    sees(monkeypatch, 1)
    devices.prepare(settings(project, GPU_COUNT=1))
    monkeypatch.setattr(framework, "loaded", lambda: ["tensorflow"])
    devices.prepare(settings(project))
    with pytest.raises(MissingError, match="the driver has 2 usable GPUs, TensorFlow sees 1") as caught:
        devices.decide(settings(project))
    assert "Restart the kernel" in caught.value.hint
    sees(monkeypatch, 0)
    devices.prepare(settings(project, GPU_COUNT=0))
    devices.prepare(settings(project))
    line = devices.decide(settings(project)).line
    assert "an earlier GPU_COUNT=0 hid 2 GPUs from this kernel; restart it" in line


def test_defaults_do_not_touch_what_the_user_set(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "false"
    devices.prepare(settings(project))
    assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID", "a number means the same GPU to CUDA and to the driver"
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


def test_a_wrong_result_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "multiply", lambda backend, kind, index, a, b: a @ b * 1.5)
    with pytest.raises(ArithmeticError, match="computes wrongly"):
        framework.prove("tensorflow", "cpu", 1)
