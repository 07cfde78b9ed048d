"""Runs in a store: which copy wins, what is fetched, and that nothing finished is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from filelock import FileLock

from kaggle_workbench import provenance
from kaggle_workbench.checkpoints import TrainingLock
from kaggle_workbench.checkpoints.lock import LOCK_FILE
from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import sha256
from kaggle_workbench.masking import hidden
from kaggle_workbench.records import Run
from kaggle_workbench.settings import Settings, load_settings
from kaggle_workbench.stages import resume, stored
from kaggle_workbench.stages.stage import Stage

FACTS = {"stage": "train", "competition": "tiny", "source": "practice"}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Settings, Settings]:
    """Two projects with one store."""
    monkeypatch.setenv("STORE", str(tmp_path / "store"))
    made = []
    for name in ("one", "two"):
        (tmp_path / name / ".project").mkdir(parents=True)
        (tmp_path / name / ".project" / "spec.yaml").write_text("specVersion: v2\n")
        made.append(load_settings({"COMPETITION": "tiny", "SOURCE": "practice"}, start=tmp_path / name))
    return made[0], made[1]


def train(run: Run, epochs: int, *, error: BaseException | None = None, text: str = "1,2\n") -> None:
    """A step of training: its epochs, a checkpoint, a submission when it ends well."""
    step = run.start("train", parameters={"EPOCHS": 9, "SEED": 3, "PRECISION": None})
    folder = run.folder / stored.CHECKPOINTS
    folder.mkdir(exist_ok=True)
    (folder / f"epoch-{epochs:04d}.ckpt").write_text(text)
    run.update(history=[{"epoch": number + 1} for number in range(epochs)])
    if error is None:
        (run.folder / "submission.csv").write_text(text)
        step.update(files=[{"name": "submission.csv", "sha256": sha256(run.folder / "submission.csv")}])
    step.end(error)


def send(settings: Settings, run: Run) -> None:
    store = stored.store_of(settings)
    assert store is not None
    uploader = stored.uploader_for(run, store)
    stored.send(run, uploader)
    assert uploader.finish(20), uploader.problems()
    uploader.close()


def bring(settings: Settings, run_id: str) -> Run:
    store = stored.store_of(settings)
    assert store is not None
    stored.bring(settings, store, run_id, checkpoints=True)
    return Run.open(settings.output_dir, run_id)


def test_a_run_goes_there_and_back_and_each_file_is_sent_once(
    places: tuple[Settings, Settings], tmp_path: Path
) -> None:
    one, two = places
    run = Run.create(one.output_dir, **FACTS, run_id="a-run", hide=hidden(one))
    train(run, 3, error=KeyboardInterrupt())
    (run.folder / ".training.lock").write_text("")
    send(one, run)
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "store").rglob("*.ckpt")}
    send(one, run)
    assert times == {file: file.stat().st_mtime_ns for file in (tmp_path / "store").rglob("*.ckpt")}

    assert stored.locate(two, "a-r") == "a-run"
    there = bring(two, "a-run")
    assert there.read() == run.read()
    assert (there.folder / "checkpoints" / "epoch-0003.ckpt").is_file()
    assert not (there.folder / ".training.lock").exists()
    assert resume.goes_on(there.read(), there.folder)
    assert resume.left_to_do(there.read()) == ["train", "submit"]
    taken, said = resume.carried(two, {"SEED": 4}, there)
    assert taken == {"EPOCHS": 9}
    assert said == ["SEED is 0 now; the run so far had 3."]
    train(there, 9)
    send(two, there)
    back = bring(one, "a-run")
    assert back.read() == there.read()
    assert len(back.read()["steps"]) == 2
    assert resume.left_to_do(back.read()) == ["submit"]
    # Asked again, nothing is fetched: this copy is as new.
    (tmp_path / "store" / "a-run" / "submission.csv").unlink()
    assert bring(one, "a-run").read() == there.read()


def test_a_run_keeps_its_parameters_without_a_checkpoint_and_after_others_were_refused(
    places: tuple[Settings, Settings],
) -> None:
    settings = places[0]
    run = Run.create(settings.output_dir, **FACTS, run_id="early")
    assert resume.carried(settings, {}, run) == ({}, [])
    # Killed in its first epoch.
    run.start("train", parameters={"EPOCHS": 9, "SEED": 3}).end(KeyboardInterrupt())
    assert not resume.goes_on(run.read(), run.folder)
    assert resume.carried(settings, {}, run)[0] == {"EPOCHS": 9, "SEED": 3}
    written = run.read()["steps"][-1]["ended"]
    facts = {"epoch": 1, "step": 0, "file": "checkpoints/x", "sha256": "", "best": None}
    run.update(checkpoint={**facts, "written": written})
    time.sleep(0.002)
    run.start("train", parameters={"EPOCHS": 9, "SEED": 4}).end(UsageError("a checkpoint of another training"))
    assert resume.carried(settings, {}, run)[0] == {"EPOCHS": 9, "SEED": 3}
    # More epochs were asked for and begun.
    run.start("train", parameters={"EPOCHS": 12, "SEED": 3}).end(KeyboardInterrupt())
    assert resume.carried(settings, {}, run)[0] == {"EPOCHS": 12, "SEED": 3}


def test_a_training_that_broke_off_in_a_notebook_lets_go_of_its_run(places: tuple[Settings, Settings]) -> None:
    run = Run.create(places[0].output_dir, **FACTS, run_id="broken")
    stage = Stage(places[0], run, "practice", {})
    TrainingLock(run.folder).acquire()
    stage.failed(RuntimeError("a callback of one's own"))
    # As another process would.
    FileLock(run.folder / LOCK_FILE).acquire(timeout=0)
    stage.close()


def test_copies_that_went_different_ways_are_both_kept(
    places: tuple[Settings, Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = places
    run = Run.create(one.output_dir, **FACTS, run_id="parted")
    train(run, 2, error=KeyboardInterrupt())
    send(one, run)
    other = bring(two, "parted")
    for _ in range(5):
        train(run, 4, error=KeyboardInterrupt())
    # Fewer writes, but it is finished.
    train(other, 9, text="finished\n")
    assert other.read()["revision"] < run.read()["revision"]
    send(two, other)
    ours = run.read()
    merged = bring(one, "parted")
    assert merged.read()["history"] == other.read()["history"]
    assert merged.read()["revision"] > ours["revision"] - 1
    assert (merged.folder / "submission.csv").read_text() == "finished\n"
    aside = merged.folder / f"kept-here-{ours['revision']}"
    assert json.loads((aside / "record.json").read_text()) == ours
    assert (aside / "checkpoints" / "epoch-0004.ckpt").is_file()
    assert not (merged.folder / "checkpoints" / "epoch-0004.ckpt").exists()
    assert "went on here and elsewhere" in capsys.readouterr().err

    # The other way round: the finished one is here, and the store's copy is kept beside it.
    train(merged, 9, text="better\n")
    shutil.rmtree(other.folder)
    lagging = bring(two, "parted")
    train(lagging, 3, error=KeyboardInterrupt())
    send(two, lagging)
    for _ in range(9):
        merged.update(metric="accuracy")
    kept = bring(one, "parted")
    assert (kept.folder / "submission.csv").read_text() == "better\n"
    assert [path.name for path in kept.folder.glob("kept-store-*")]
    send(one, kept)
    store = stored.store_of(one)
    assert store is not None
    assert not [name for name in store.names("parted") if "kept-" in name]


def test_another_run_of_the_same_name_is_refused_and_damage_is_said(
    places: tuple[Settings, Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = places
    run = Run.create(one.output_dir, **FACTS, run_id="name")
    train(run, 2)
    send(one, run)
    Run.create(two.output_dir, **FACTS, run_id="name")
    with pytest.raises(UsageError, match="Two different runs"):
        bring(two, "name")
    shutil.rmtree(two.output_dir / "runs" / "name")
    (tmp_path / "store" / "name" / "submission.csv").write_text("cut")
    there = bring(two, "name")
    assert "its upload may not be complete" in capsys.readouterr().err
    assert not (there.folder / "submission.csv").exists()
    with pytest.raises(UsageError, match="nor in the store"):
        stored.locate(two, "nothing")


def test_submit_takes_what_was_trained_last_here_or_there(places: tuple[Settings, Settings]) -> None:
    one, two = places
    with pytest.raises(UsageError, match="nor in the store"):
        stored.trained_last(two, "practice")
    for name in ("first", "second"):
        run = Run.create(one.output_dir, **FACTS, run_id=name)
        train(run, 2)
        send(one, run)
    unfinished = Run.create(one.output_dir, **FACTS, run_id="third")
    train(unfinished, 1, error=KeyboardInterrupt())
    send(one, unfinished)
    assert stored.trained_last(two, "practice") == "second"
    assert not (two.output_dir / "runs" / "second" / "checkpoints").exists()
    with pytest.raises(UsageError, match="No trained run"):
        stored.trained_last(two, "kaggle")
    own = Run.create(two.output_dir, **FACTS, run_id="own")
    train(own, 2)
    assert stored.trained_last(two, "practice") == "own"


def test_a_run_at_work_is_left_alone_and_one_that_died_is_closed(places: tuple[Settings, Settings]) -> None:
    one, _ = places
    run = Run.create(one.output_dir, **FACTS, run_id="busy")
    with subprocess.Popen(["sleep", "60"]) as other:
        ticks = int(Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[19])
        process = {**provenance.this_process(), "pid": other.pid, "started": ticks}
        run.start("train", process=process)
        with pytest.raises(UsageError, match=f"process {other.pid}"):
            resume.settle(run, "train")
        resume.settle(run, "submit")
        assert run.read()["status"] == "running"
        other.kill()
        while "\nState:\tZ" not in Path(f"/proc/{other.pid}/status").read_text():
            time.sleep(0.01)
        # Ended, though nobody has asked for its exit code yet.
        resume.settle(run, "train")
    assert run.read()["status"] == "failed"
    assert "without a last word" in run.read()["steps"][0]["error"]["message"]


def test_no_secret_and_no_folder_of_the_store_is_recorded(
    places: tuple[Settings, Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE", "sftp://someone:pass/word77@host/dir?key=querysecret")
    hide = hidden(load_settings(start=places[0].root))
    assert {"pass/word77", "querysecret"} <= set(hide)
    hide = hidden(places[0])
    run = Run.create(places[0].output_dir, **FACTS, run_id="x", hide=hide)
    run.update(note=f"The store {tmp_path / 'store'} could not write x/y")
    assert run.read()["note"] == "The store STORE could not write x/y"
