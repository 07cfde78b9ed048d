"""The driver asked by the real nvidia-ml-py: facts, faults by name, other packages of that name, a GPU that is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fake_nvml
from device_tools import CODE, driver, own_environment, project_in, settings
from kaggle_workbench import devices
from kaggle_workbench.devices import build, cpu, nvml
from kaggle_workbench.devices import watch as watch_module
from kaggle_workbench.errors import MissingError

ASK = """from kaggle_workbench import devices, errors
try: print(devices.driver_gpus())
except errors.MissingError as error: print(error)
"""


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_environment(monkeypatch):
        yield


def python(code: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": str(CODE), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_facts_of_each_gpu() -> None:
    driver(
        2,
        NAME="RTX A6000;T4",
        CAPABILITY="8.6;7.5",
        CORES="10752;2560",
        FREE="14000000000;1000",
        BUSY="93;0",
        PROCESS=f"0:{os.getpid()}:2000000000",
        CUDA="13010",
        DRIVER="580.1",
    )
    first, second = devices.driver_gpus()
    assert (first.index, first.name, first.capability, first.cores, first.multiprocessors) == (
        0,
        "RTX A6000",
        (8, 6),
        10752,
        84,
    )
    assert (first.memory, first.free, first.utilisation) == (16_000_000_000, 14_000_000_000, 93)
    assert (first.driver, first.cuda, first.clock_mhz, first.memory_clock_mhz) == ("580.1", "13.1", 1590, 5001)
    assert [(one.pid, one.memory) for one in first.processes] == [(os.getpid(), 2_000_000_000)]
    assert first.processes[0].name
    assert (second.index, second.free, second.multiprocessors, second.processes) == (1, 1000, 40, ())
    assert first.uuid != second.uuid
    assert json.loads(json.dumps(first.to_dict()))["capability"] == "8.6"


@pytest.mark.parametrize("count", [0, 1, 2, 8])
def test_as_many_as_there_are(count: int) -> None:
    driver(count)
    assert len(devices.driver_gpus()) == count


def test_what_a_gpu_does_not_report_is_none() -> None:
    driver(1, SILENT=1)
    (gpu,) = devices.driver_gpus()
    assert (gpu.memory, gpu.free, gpu.capability, gpu.cores, gpu.multiprocessors) == (None,) * 5
    assert (gpu.clock_mhz, gpu.utilisation, gpu.processes, gpu.split) == (None, None, (), False)
    assert gpu.uuid


@pytest.mark.parametrize(
    ("code", "told", "mend"),
    [
        (fake_nvml.MISMATCH, "different versions", "Restart the machine"),
        (fake_nvml.LOST, "is lost", "Xid"),
        (fake_nvml.UNKNOWN, "unknown error", "./kwb up"),
        (fake_nvml.NO_PERMISSION, "may not use the GPU", "groups"),
        (10, "does not answer", "Restart the machine"),
    ],
)
def test_a_driver_that_does_not_work_is_named_and_never_none(code: int, told: str, mend: str) -> None:
    driver(2, INIT=code)
    with pytest.raises(devices.DriverError, match=told) as caught:
        devices.driver_gpus()
    assert mend in caught.value.hint
    assert caught.value.exit_code == 3


def test_a_lost_gpu_is_named_by_its_number() -> None:
    driver(2, LOST=1)
    with pytest.raises(devices.DriverError, match="GPU 1: A GPU is lost"):
        devices.driver_gpus()


def test_no_library_means_no_gpu(tmp_path: Path) -> None:
    code = (
        "import sys; from kaggle_workbench import devices; print(len(devices.driver_gpus()))\n"
        "assert not {'tensorflow', 'keras', 'jax', 'torch', 'numpy'} & set(sys.modules)"
    )
    done = python(code, LD_LIBRARY_PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_driver_that_is_not_loaded_is_trouble_only_where_a_gpu_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(0, INIT=fake_nvml.NOT_LOADED)
    assert devices.driver_gpus() == ()
    card = tmp_path / "0000:01:00.0"
    card.mkdir()
    (card / "vendor").write_text("0x10de\n")
    (card / "class").write_text("0x030000\n")
    monkeypatch.setattr(nvml, "PCI", tmp_path)
    with pytest.raises(devices.DriverError, match="not loaded") as caught:
        devices.driver_gpus()
    assert "modprobe" in caught.value.hint


def test_another_module_of_that_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("def nvmlInit(): pass\n")
    done = python(ASK, PYTHONPATH=f"{tmp_path}:{CODE}")
    assert "not from NVIDIA's nvidia-ml-py" in done.stdout, done.stderr
    assert str(tmp_path / "pynvml.py") in done.stdout
    assert "Rename that file" in done.stdout
    old = tmp_path / "nvidia_ml_py3-7.352.0.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-ml-py3\nVersion: 7.352.0\n")
    done = python(ASK, PYTHONPATH=f"{tmp_path}:{CODE}")
    assert "comes from package nvidia-ml-py3" in done.stdout
    assert "pip uninstall -y nvidia-ml-py3" in done.stdout


@pytest.mark.slow
def test_the_real_old_package_is_named(tmp_path: Path) -> None:
    words = ["install", "-q", "--no-deps", "--target", str(tmp_path), "nvidia-ml-py3==7.352.0"]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    assert "comes from package nvidia-ml-py3" in python(ASK, PYTHONPATH=f"{tmp_path}:{CODE}").stdout


# --- kwb gpus ---


def gpus(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; from kaggle_workbench.cli import main; code = main(['gpus', *sys.argv[1:]])\n"
        "heavy = {'tensorflow', 'keras', 'jax', 'torch', 'numpy'} & set(sys.modules)\n"
        "assert '--proof' in sys.argv or not heavy, heavy; sys.exit(code)"
    )
    library = {"LD_LIBRARY_PATH": str(fake_nvml.library().parent), "KWB_ROOT": str(folder)}
    return python(code, *words, **library, **env)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return project_in(tmp_path)


def test_kwb_gpus_tells_facts_and_decision_without_a_framework(project: Path) -> None:
    """How long it takes: benchmarks/gpus.py."""
    done = gpus(project, "--format", "json", FAKE_GPUS="2", ALLOW_CPU="1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [gpu["name"] for gpu in found["gpus"]] == ["Made Up T4"] * 2
    assert (found["driver"], found["cuda"], found["backend"]) == ("570.86.15", "12.8", "tensorflow")
    assert found["framework"]["version"]
    assert found["cpu"]["usable"] == devices.cpu_cores()
    assert found["line"].startswith("Would compute on "), "nothing was proved"


def test_kwb_gpus_ends_with_3_and_the_cause_when_the_decision_does_not_stand(project: Path) -> None:
    done = gpus(project, FAKE_GPUS="2", FAKE_NVML_INIT=str(fake_nvml.MISMATCH))
    assert done.returncode == 3
    assert "Stops: NVIDIA's driver and its library have different versions" in done.stdout
    assert "Restart the machine" in done.stdout
    shown = gpus(project, "--proof", FAKE_GPUS="1")
    assert shown.returncode == 3
    assert "Made Up T4" in shown.stdout, "the facts are shown all the same"
    assert "TensorFlow sees 0: this TensorFlow is built for the CPU only" in shown.stdout
    assert gpus(project, FAKE_GPUS="1", GPU_COUNT="0").stdout.rstrip().endswith("by request (GPU_COUNT=0)")


@pytest.mark.parametrize("given", [{"GPU_COUNT": "0"}, {"ALLOW_CPU": "1"}, {}])
def test_a_driver_that_does_not_answer_is_never_shown_as_no_gpu(project: Path, given: dict[str, str]) -> None:
    env = {"FAKE_GPUS": "2", "FAKE_NVML_INIT": str(fake_nvml.UNKNOWN), **given}
    text = gpus(project, **env).stdout
    assert "no NVIDIA GPU" not in text
    assert "driver     could not be asked" in text
    assert "unknown error" in json.loads(gpus(project, "--format", "json", **env).stdout)["driver_error"]


def test_the_report_shows_in_a_notebook(project: Path) -> None:
    driver(1, NAME="<T4>")
    found = devices.report(settings(project, ALLOW_CPU=True))
    assert "&lt;T4&gt;" in found._repr_html_()
    assert found.line in str(found)


def test_facts_of_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = devices.cpu_facts()
    assert found["name"]
    assert found["memory"] > 10**8
    text = "".join(
        f"processor\t: {n}\nmodel name\t: Ryzen\nphysical id\t: 0\ncore id\t\t: {n // 2}\ncpu MHz\t\t: 3700.5\n\n"
        for n in range(4)
    )
    (tmp_path / "cpuinfo").write_text(text)
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    monkeypatch.setattr(cpu, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(cpu, "CPU_SHARE", tmp_path / "cpu.max")
    monkeypatch.setattr(cpu, "FREQUENCY", tmp_path / "none")
    found = devices.cpu_facts()
    assert (found["name"], found["cores"], found["clock_mhz"], found["share"]) == ("Ryzen", 2, 3700, 1.5)


# --- Which TensorFlow ./kwb installs ---


@pytest.mark.parametrize(
    ("given", "gpus", "facts", "extra", "reason"),
    [
        ({}, 0, {}, "cpu", "no NVIDIA GPU"),
        ({}, 1, {}, "cuda", "for the Made Up T4"),
        ({}, 2, {"CAPABILITY": "3.7;8.6", "NAME": "K80;RTX A6000"}, "cuda", "for the RTX A6000"),
        ({}, 1, {"CAPABILITY": "3.7", "NAME": "K80"}, "cpu", "no code for the K80"),
        ({}, 1, {"CUDA": "11040", "DRIVER": "470.1"}, "cpu", "driver 470.1 serves CUDA 11.4"),
        ({}, 2, {"INIT": fake_nvml.MISMATCH}, "cpu", "different versions"),
        ({}, 1, {"SILENT": 1}, "cuda", "for the Made Up T4"),
        ({"TENSORFLOW_BUILD": "cpu"}, 1, {}, "cpu", "as TENSORFLOW_BUILD says"),
        ({"TENSORFLOW_BUILD": "cuda"}, 0, {}, "cuda", "as TENSORFLOW_BUILD says"),
    ],
)
def test_the_build_of_tensorflow_follows_the_gpu(
    project: Path, given: dict[str, str], gpus: int, facts: dict[str, Any], extra: str, reason: str
) -> None:
    driver(gpus, **facts)
    chosen = build.choose(settings(project, **given))
    assert chosen.extra == extra
    assert reason in chosen.reason


def test_there_is_no_cuda_build_for_a_mac(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(1)
    monkeypatch.setattr(build.platform, "system", lambda: "Darwin")
    assert build.choose(settings(project)).extra == "cpu"


# --- A watch while it trains ---


def decision(count: int) -> devices.Decision:
    found = devices.driver_gpus()[:count]
    return devices.Decision("gpu", count, tuple(gpu.name for gpu in found), "", backend="tensorflow", gpus=found)


def test_the_watch_sees_memory_and_utilisation() -> None:
    driver(2, BUSY="50;100", FREE="15000000000;14000000000")
    watch = devices.GpuWatch(decision(2), period_s=0.01)
    watch.start()
    watch.check()
    driver(2, BUSY="50;100", FREE="15500000000;15000000000")
    watch.check()
    assert watch.stop() == {"peak_gpu_memory_bytes": 3_000_000_000, "mean_gpu_utilisation": 75.0}
    driver(1, PROCESS=f"0:{os.getpid()}:700000000")
    watch = devices.GpuWatch(decision(1))
    watch.check()
    assert watch.stop()["peak_gpu_memory_bytes"] == 700_000_000, "this process's, where the driver tells it"


def test_the_watch_does_nothing_on_the_cpu() -> None:
    driver(0, INIT=fake_nvml.UNKNOWN)
    watch = devices.GpuWatch(devices.Decision("cpu", 2, (), ""))
    watch.start()
    watch.check()
    assert watch.stop() == {"peak_gpu_memory_bytes": None, "mean_gpu_utilisation": None}


def test_one_answer_that_fails_is_no_lost_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(2)
    watch = devices.GpuWatch(decision(2))
    monkeypatch.setattr(watch_module.time, "sleep", lambda seconds: driver(2))
    driver(2, LOST="1")
    watch.check()
    watch.check()


@pytest.mark.parametrize("facts", [{"LOST": "1"}, {"INIT": fake_nvml.UNKNOWN}])
def test_a_gpu_lost_between_two_calls_is_named(facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    driver(2)
    monkeypatch.setattr(watch_module, "AGAIN_S", 0.0)
    watch = devices.GpuWatch(decision(2))
    watch.check()
    driver(2, **facts)
    with pytest.raises(
        devices.GpuLostError, match=r"^(GPU 1 \(Made Up T4\)|The GPU) was lost while it was training"
    ) as caught:
        watch.check()
    assert isinstance(caught.value, MissingError)
    driver(2)
    with pytest.raises(devices.GpuLostError):
        watch.check()  # A GPU that comes back has lost what was on it.
