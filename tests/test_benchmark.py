"""`kwb bench`: the published workload in tiny, through real child processes; no test times anything."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import fake_nvml
from kaggle_workbench import plots
from kaggle_workbench.benchmark import (
    PUBLISHED,
    Workload,
    bench,
    earlier,
    earlier_table,
    find_digits,
    find_targets,
    installed,
    projection,
)
from kaggle_workbench.benchmark.chart import bars
from kaggle_workbench.benchmark.child import measure
from kaggle_workbench.benchmark.projection import Block
from kaggle_workbench.benchmark.result import clock, notes, table_rows
from kaggle_workbench.benchmark.workload import load_digits
from kaggle_workbench.errors import MissingError, UsageError, WorkError
from kaggle_workbench.settings import Settings, load_settings
from project_tools import ROOT, Project, make_project

PRACTICE = Path("data") / "practice" / "digit-recognizer"
TINY = Workload(train_rows=144, dev_rows=80, epochs=1)
HEAVY = ("tensorflow", "keras", "jax", "torch")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with the practice digits, in a path with a space."""
    project = make_project(tmp_path / "a bench", env={"TF_NUM_INTRAOP_THREADS": "1"})
    (project.folder / PRACTICE).mkdir(parents=True)
    shutil.copy2(ROOT / PRACTICE / "files.zip", project.folder / PRACTICE)
    return project


@pytest.fixture
def settings(project: Project, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Its settings; the child processes of this test begin in its folder."""
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")
    return load_settings(start=project.folder)


def kaggles_file(settings: Settings, rows: int = 200, columns: int = 784) -> Path:
    folder = settings.input_dir / "competitions" / "digit-recognizer"
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (rows, columns))
    head = ",".join(["label", *(f"pixel{n}" for n in range(columns))])
    lines = [",".join(map(str, [row % 10, *values])) for row, values in enumerate(pixels)]
    (folder / "train.csv").write_text("\n".join([head, *lines]) + "\n")
    return folder / "train.csv"


def document(**row: Any) -> dict[str, Any]:
    """A result with one own row, and the published ones."""
    own = {
        "own": True,
        "status": "done",
        "device": "cpu",
        "name": "Some CPU, 2 cores",
        "backend": "tensorflow",
        "train_rows": 37_800,
        "data": "practice digits",
        "different_rows": {"train": 10_800, "dev": 1_200},
        "versions": {"keras": "3.15.1", "tensorflow-cpu": "2.21.0"},
        "date": "2026-12-01",
        "wall_s": 800.0,
        "wall_low_s": 640.0,
        "wall_high_s": 1000.0,
        "cpu_s": 1500.0,
        "epoch_s": 39.9,
        "images_per_s": 947.4,
        "peak_memory_bytes": 1_000_000_000,
        "accuracy": None,
        "projected": True,
    }
    work = {**Workload().to_dict(), "is_published": True, "network": "reference CNN"}
    published = {"note": "a hint", "rows": [one.to_row() for one in PUBLISHED]}
    return {"workload": work, "rows": [own | row], "published": published}


# --- The workload ---


def test_the_workload_is_the_published_one() -> None:
    work = Workload()
    assert (work.train_rows, work.dev_rows, work.epochs, work.batch_size, work.steps) == (37_800, 4_200, 20, 64, 591)
    assert work.is_published
    assert not replace(work, epochs=3).is_published


def test_the_published_rows_are_those_of_2024() -> None:
    assert [(row.name, row.wall_s, row.cpu_s and clock(row.cpu_s)) for row in PUBLISHED] == [
        ("RTX A6000", 20, None),
        ("Titan RTX", 40, None),
        ("RTX 3060 Ti", 65, None),
        ("Ryzen 5900X", 386, "1:36:00"),
        ("Xeon E5-2680 v2", 419, "2:55:00"),
    ]


def test_practice_digits_are_repeated_to_the_published_size(settings: Settings) -> None:
    source = find_digits(settings)
    assert source.kind == "practice"
    digits = load_digits(source, Workload())
    assert digits.train[0].shape == (37_800, 28, 28, 1)
    assert digits.train[0].dtype == np.float32
    assert digits.dev[0].shape == (4_200, 28, 28, 1)
    assert (digits.different_train, digits.different_dev) == (10_800, 1_200)
    assert len(np.unique(digits.train[0].reshape(37_800, -1), axis=0)) == 10_800
    assert (np.bincount(digits.dev[1][:1_200]) == 120).all(), "a tenth of each class is held back"
    assert abs(float(digits.train[0][:10_800].mean())) < 1e-3
    assert abs(float(digits.train[0][:10_800].std()) - 1) < 1e-3


def test_kaggles_own_files_come_first_whatever_the_competition_is(settings: Settings) -> None:
    kaggles_file(settings)
    source = find_digits(replace(settings, competition="titanic"))
    assert source.kind == "kaggle"
    digits = load_digits(source, Workload(train_rows=100, dev_rows=30))
    assert (digits.different_train, digits.different_dev) == (100, 20)


def test_files_that_are_no_digits_are_said_so(settings: Settings) -> None:
    file = kaggles_file(settings, columns=9)
    with pytest.raises(WorkError, match="does not hold digits"):
        load_digits(find_digits(settings), TINY)
    shutil.rmtree(file.parent)
    file = kaggles_file(settings)
    file.write_text(file.read_text() + "3,4,x\n")
    with pytest.raises(WorkError, match="is damaged"):
        load_digits(find_digits(settings), TINY)
    shutil.rmtree(file.parent)
    (settings.root / PRACTICE / "files.zip").write_bytes(b"no zip")  # type: ignore[operator]
    with pytest.raises(WorkError, match="is damaged"):
        load_digits(find_digits(settings), TINY)
    (settings.root / PRACTICE / "files.zip").unlink()  # type: ignore[operator]
    with pytest.raises(MissingError, match="no digits to train on"):
        find_digits(settings)


# --- Projection ---


def test_the_projection_is_compilation_and_twenty_epochs() -> None:
    work = Workload()
    blocks = [Block(100, 10.0, 2.0, 15.0, 3.0), Block(100, 5.0, 1.0, 15.0, 3.0), Block(50, 3.0, 1.5, 7.5, 3.0)]
    found = projection.project(blocks, work, compile_s=7.0, compile_cpu_s=9.0)
    # The median step takes 0.06 s, the median pass over the held-back rows 1.5 s.
    assert found["epoch_s"] == pytest.approx(591 * 0.06 + 1.5)
    assert found["wall_s"] == pytest.approx(7 + 20 * (591 * 0.06 + 1.5))
    assert found["wall_low_s"] == pytest.approx(7 + 20 * (591 * 0.05 + 1.0))
    assert found["wall_high_s"] == pytest.approx(7 + 20 * (591 * 0.1 + 2.0))
    assert found["cpu_s"] == pytest.approx(9 + 20 * (591 * 0.15 + 3.0))


@pytest.mark.parametrize("step_s", [0.0005, 0.002, 0.02, 0.04, 0.08, 0.2, 1.0])
def test_measuring_is_cut_to_the_time_there_is(step_s: float) -> None:
    work = Workload()
    plan = projection.plan(step_s, work)
    steps = plan.rounds * plan.blocks * (plan.steps or work.steps)
    assert plan.blocks >= projection.LEAST_BLOCKS
    if plan.steps is not None:
        # What is read in a round is one epoch's, and what comes after it is another round.
        assert plan.blocks * plan.steps <= work.steps
    passes = plan.rounds * plan.blocks * 66 * step_s / 3
    assert steps * step_s + passes <= projection.BUDGET_S or plan.steps == projection.LEAST_STEPS
    if step_s <= 0.002:
        assert plan.steps is None, "whole epochs where they are short"
    if 0.02 <= step_s <= 0.08:
        assert steps >= 300, "a few hundred steps"


# --- What is shown ---


def test_the_table_holds_own_and_published_rows_by_their_time() -> None:
    made = document()
    rows = table_rows(made)
    assert [row["processor"] for row in rows] == [*(one.name for one in PUBLISHED), "Some CPU, 2 cores"]
    own, fastest = rows[-1], rows[0]
    assert (own["how"], own["wall"], own["framework"]) == ("projected", "800 s (640 to 1,000)", "TensorFlow 2.21.0")
    assert (own["CPU_time"], own["accuracy"], own["speed"]) == ("0:25:00", None, "1.0x")
    assert (fastest["how"], fastest["speed"]) == ("published 2024-11", "about 40x")
    said = " ".join(notes(made))
    assert "10,800 different ones repeated" in said
    assert "a hint" in said
    measured = table_rows(document(projected=False, accuracy=0.9921, wall_s=10.0))[0]
    assert (measured["how"], measured["wall"], measured["accuracy"]) == ("measured", "10 s", "99.21%")


def test_of_several_frameworks_the_fastest_is_named() -> None:
    made = document()
    assert not any("Fastest on" in sentence for sentence in notes(made))
    made["rows"].append({**made["rows"][0], "backend": "jax", "wall_s": 1700.0})
    made["rows"].append({**made["rows"][0], "backend": "torch", "wall_s": 900.0})
    said = next(sentence for sentence in notes(made) if "Fastest on" in sentence)
    assert "TensorFlow (KERAS_BACKEND=tensorflow)" in said
    assert "PyTorch 1.1x, JAX 2.1x" in said
    assert "too close to tell" in said


def test_all_installed_frameworks_are_measured(project: Project) -> None:
    done = project.kwb("bench", "--backends", "--device", "cpu", "--dry-run", "--format", "json")
    planned = [one["backend"] for one in json.loads(done.stdout)["devices"]]
    assert planned == list(installed())
    assert "tensorflow" in planned


def test_another_workload_does_not_stand_beside_the_published_ones() -> None:
    made = document()
    made["workload"] |= {"epochs": 3, "is_published": False}
    assert {row["speed"] for row in table_rows(made)} == {None}
    assert "not the published workload" in " ".join(notes(made))
    assert "Not the published workload" in bars(made).get_supxlabel()


def test_the_chart_shows_each_row_with_its_value() -> None:
    made = document()
    made["rows"].append({**made["rows"][0], "device": "gpu0", "name": "Tesla T4", "projected": False, "wall_s": 70.0})
    made["rows"].append({"own": True, "status": "failed", "device": "gpu1", "name": "Broken", "error": "lost"})
    figure = bars(made)
    assert plots.png(figure).startswith(b"\x89PNG")
    axes = figure.axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [
        "Some CPU\n2 cores, TensorFlow",
        "Xeon E5-2680 v2",
        "Ryzen 5900X",
        "Tesla T4\ngpu0, TensorFlow",
        "RTX 3060 Ti",
        "Titan RTX",
        "RTX A6000",
    ]
    values = {text.get_text() for text in axes.texts}
    assert {"800 s (640 to 1,000)", "70 s", "20 s", "386 s, CPU time 1:36:00"} <= values
    colours = {patch.get_facecolor() for patch in axes.patches}
    assert len(colours) == 2, "own rows have a colour of their own"
    # Each value stands inside the axes, whatever its length.
    figure.draw_without_rendering()
    for text in axes.texts:
        assert text.get_window_extent().x1 < axes.bbox.x1
    # So do the sentences below, in the picture; a line of the longest kind is "repeated".
    for text in [*figure.texts, *axes.get_yticklabels()]:
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1, text.get_text()
    assert "Tesla T4, gpu0, TensorFlow, measured: 70 s" in figure.get_label()


# --- Which devices ---


def test_each_gpu_and_the_cpu_are_found_without_a_framework(project: Project, tmp_path: Path) -> None:
    env = fake_nvml.environment(tmp_path / "nvml", 2)
    done = project.kwb("bench", "--dry-run", "--format", "json", **env)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert [device["device"] for device in plan["devices"]] == ["gpu0", "gpu1", "cpu"]
    assert plan["workload"]["epochs"] == 20
    assert not (project.output / "bench").exists()
    for words, variables, said in [
        (("--device", "gpu5"), {}, "no device 'gpu5' on this machine.\n     The devices here are: gpu0, gpu1, cpu."),
        (("--device", "tpu"), {}, "no device 'tpu'"),
        (("--device", "gpu1"), {"CUDA_VISIBLE_DEVICES": "0"}, "The devices here are: gpu0, cpu."),
        (("--rows", "64"), {}, "nothing to measure in that size"),
    ]:
        done = project.kwb("bench", *words, **env, **variables)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert done.stdout == ""


def test_the_driver_is_not_asked_when_only_the_cpu_is_wanted(project: Project, tmp_path: Path) -> None:
    env = fake_nvml.environment(tmp_path / "nvml", 1) | {"FAKE_NVML_INIT": "18"}
    assert project.kwb("bench", "--dry-run", **env).returncode == 3
    for words, variables in [(("--device", "cpu"), {}), ((), {"GPU_COUNT": "0"})]:
        done = project.kwb("bench", "--dry-run", "--format", "json", *words, **env, **variables)
        assert done.returncode == 0, done.stderr
        assert [device["device"] for device in json.loads(done.stdout)["devices"]] == ["cpu"]


def test_a_framework_that_is_not_installed_is_said_so(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingError, match="TensorFlow is not installed"):
        find_targets(settings, ["cpu"])
    with pytest.raises(UsageError, match="no backend 'theano'"):
        find_targets(settings, ["cpu"], ["theano"])


def test_a_folder_that_cannot_be_written_is_met_before_anything_is_measured(project: Project) -> None:
    (project.folder / "a-file").write_text("")
    done = project.kwb("bench", "--device", "cpu", "--output", "a-file")
    assert done.returncode == 3, done.stderr
    assert "a-file" in done.stderr
    assert "Measuring" not in done.stderr


def test_a_dry_run_tells_what_would_be_measured(project: Project) -> None:
    words = ("bench", "--device", "cpu", "--dry-run", "--format", "json")
    told = json.loads(project.kwb(*words, "--epochs", "3", "--rows", "144").stdout)
    assert (told["workload"]["epochs"], told["workload"]["train_rows"]) == (3, 144)
    assert json.loads(project.kwb(*words).stdout)["workload"] == asdict(Workload())
    assert project.kwb(*words, "--rows", "10").returncode == 2
    assert not (project.output / "bench").exists()


# --- Real child processes ---


def test_a_gpu_that_does_not_compute_leaves_the_cpus_row_and_the_parent_stays_light(
    project: Project, tmp_path: Path
) -> None:
    """A GPU that only the driver knows: its row fails with the cause, the CPU's is measured all the same."""
    script = (
        "import sys\nfrom kaggle_workbench.cli import main\ncode = main(sys.argv[1:])\n"
        f"heavy = set({HEAVY}) & set(sys.modules)\nsys.exit(f'imported: {{heavy}}' if heavy else code)"
    )
    words = ["bench", "--rows", "144", "--epochs", "2", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=project.folder,
        env={**project.env, **fake_nvml.environment(tmp_path / "nvml", 1), "MONGODB_URI": "mongodb://u:secret-9f1c@x/"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    gpu, cpu = told["rows"]
    assert (gpu["device"], gpu["status"]) == ("gpu0", "failed")
    assert "GPU" in gpu["error"]
    assert gpu["error"] in done.stderr
    assert gpu["facts"]["memory"] == 16_000_000_000
    assert (cpu["device"], cpu["status"], cpu["projected"]) == ("cpu", "done", False)
    assert 0 <= cpu["accuracy"] <= 1
    assert len(cpu["epochs_s"]) == 2
    assert cpu["wall_s"] >= sum(cpu["epochs_s"]) > 0
    assert cpu["cpu_s"] > 0
    assert cpu["images_per_s"] > 0
    assert cpu["peak_memory_bytes"] > 100_000_000
    assert cpu["peak_gpu_memory_bytes"] is None
    assert cpu["different_rows"] == {"train": 144, "dev": 16}
    assert {"keras", "python"} <= cpu["versions"].keys()
    assert cpu["facts"]["usable"] >= 1
    assert cpu["threads"]["set"] == {"TF_NUM_INTRAOP_THREADS": "1"}
    assert len(told["published"]["rows"]) == 5
    # What is there to be shown around names no machine, person, folder or secret.
    (file,) = (project.output / "bench").glob("*.json")
    assert json.loads(file.read_text()) == told
    assert file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    for private in (socket.gethostname(), str(project.folder), str(tmp_path), "GPU-0000", "secret-9f1c"):
        assert private not in file.read_text()
    listed = project.kwb("bench", "--list")
    assert listed.returncode == 0, listed.stderr
    assert "failed" in listed.stdout
    assert "measured" in listed.stdout
    rows = json.loads(project.kwb("bench", "--list", "--format", "json").stdout)
    assert [(row["device"], row["epochs"]) for row in rows] == [("gpu0", 2), ("cpu", 2)]


def test_earlier_results_that_cannot_be_shown_are_named_and_left_out(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"own": True, "device": "cpu", "name": "Ryzen", "backend": "tensorflow", "epochs": 20, "status": "failed"}
    odd = [
        "{",
        "[]",
        "\xff",
        '{"created": "2026-12-01", "rows": [{"x": 1}]}',
        json.dumps({"created": 5, "rows": [row]}),
        json.dumps({"created": "2026-12-01", "rows": [{**row, "status": "done", "wall_s": "long"}]}),
        json.dumps({"created": "2026-12-01", "rows": [{**row, "backend": "mxnet"}]}),
    ]
    for number, text in enumerate(odd):
        (tmp_path / f"{number}.json").write_bytes(text.encode("latin-1"))
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "whole.json").write_text(json.dumps({"created": "2026-12-01T10:00:00Z", "rows": [row]}))
    rows = earlier(tmp_path)
    assert [found["file"] for found in rows] == ["whole.json"]
    assert "Ryzen" in earlier_table(rows)
    assert capsys.readouterr().err.count("is no result of kwb bench") == len(odd) + 1


def test_quick_projects_from_blocks(settings: Settings, tmp_path: Path) -> None:
    work = replace(TINY, epochs=20)
    result = bench(settings, find_targets(settings, ["cpu"]), quick=True, folder=tmp_path / "kept", workload=work)
    (row,) = result.done
    assert row["projected"]
    assert row["accuracy"] is None
    blocks = [Block(**block) for block in row["blocks"]]
    assert len(blocks) >= projection.LEAST_BLOCKS
    assert row["measured_steps"] == sum(block.steps for block in blocks)
    assert row["wall_low_s"] <= row["wall_s"] <= row["wall_high_s"]
    assert row["wall_s"] == pytest.approx(row["compile_s"] + 20 * row["epoch_s"])
    assert [kept["name"] for kept in earlier(tmp_path / "kept")] == [row["name"]]
    assert "projected" in result.table()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_other_frameworks_are_measured_too(settings: Settings, tmp_path: Path, backend: str) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed; pip install -e .[frameworks]")
    result = bench(settings, find_targets(settings, ["cpu"], [backend]), folder=tmp_path, workload=TINY)
    (row,) = result.done
    assert row["backend"] == backend
    assert backend in row["versions"]
    assert 0 <= row["accuracy"] <= 1


def test_a_crash_and_ctrl_c_leave_what_was_finished(settings: Settings, tmp_path: Path) -> None:
    """Three measurements: the first one's process is killed, the second is done, the third meets Ctrl-C."""
    target = find_targets(settings, ["cpu"])[0]
    began = 0

    def meddle(event: Any) -> None:
        nonlocal began
        if event.get("text") == "starting":
            began += 1
            if began == 1:
                psutil.Process().children()[-1].kill()
            if began == 3:
                signal.raise_signal(signal.SIGINT)

    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(KeyboardInterrupt):
        bench(settings, [target] * 3, folder=tmp_path, workload=TINY, on_event=meddle)
    assert {child.pid for child in psutil.Process().children()} <= before, "no process is left"
    (file,) = tmp_path.glob("*.json")
    first, second = json.loads(file.read_text())["rows"]
    assert (first["status"], second["status"]) == ("failed", "done")
    assert "was ended by SIGKILL" in first["error"]
    assert file.with_suffix(".png").exists()


def test_a_silent_child_is_ended(settings: Settings) -> None:
    target = find_targets(settings, ["cpu"])[0]
    source = find_digits(settings)
    job = {"quick": False, "workload": asdict(TINY), "source": {"kind": source.kind, "file": str(source.file)}}
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(WorkError, match="nothing was heard"):
        measure(target, job, cwd=settings.root, silence_s=0.01)
    assert {child.pid for child in psutil.Process().children()} <= before


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_child_ends_with_its_parent(project: Project, how: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-m", "kaggle_workbench", "bench", "--device", "cpu"],
        cwd=project.folder,
        env=project.env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stderr is not None
    said = []
    for line in parent.stderr:
        said.append(line)
        if "starting" in line:
            break
    (child,) = psutil.Process(parent.pid).children()
    os.kill(parent.pid, how)
    rest = parent.stderr.read()
    code = parent.wait(timeout=30)
    gone = time.monotonic() + 20
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE and time.monotonic() < gone:
        time.sleep(0.05)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    if how == signal.SIGINT:
        assert code == 130, said
        assert rest.strip() == "kwb: stopped."
        assert not list((project.output / "bench").iterdir()), "a result without a row is none"
