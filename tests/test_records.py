"""Run records: whole, masked, honest about runs that died, quick to list, safe with several writers."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench import cli, masking, provenance, records, summaries
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.mirror.convert import to_document, to_record
from kaggle_workbench.records import Run, list_runs
from kaggle_workbench.settings import load_settings

CODE = Path(__file__).resolve().parent.parent / "code"


def make(output: Path, stage: str = "train", **options: Any) -> Run:
    return Run.create(output, stage=stage, competition="digits", source="practice", **options)


def trained(output: Path, **fields: Any) -> Run:
    run = make(output)
    with run.step("train"):
        run.update(**fields)
    return run


def child(code: str, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(CODE)}
    return subprocess.Popen([sys.executable, "-c", code, *words], env=environment, text=True, stdout=subprocess.PIPE)


def test_a_new_run_is_named_by_time_and_stage_and_the_next_one_differs(tmp_path: Path) -> None:
    runs = [make(tmp_path) for _ in range(3)]
    assert len({run.id for run in runs}) == 3
    assert all("-train" in run.id for run in runs)
    assert json.loads((runs[0].folder / "record.json").read_text())["schema"] == records.SCHEMA


def test_a_step_leaves_times_memory_versions_and_no_heartbeat(tmp_path: Path) -> None:
    run = make(tmp_path)
    with run.step("train", place="local", parameters={"SEED": 3}) as step:
        assert (run.folder / ".heartbeat").exists()
        step.update(device={"kind": "cpu"})
    record = run.read()
    (entry,) = record["steps"]
    assert (record["status"], entry["status"], entry["error"]) == ("done", "done", None)
    assert entry["wall_s"] >= 0
    assert entry["cpu_s"] >= 0
    assert entry["peak_memory_bytes"] > 10_000_000
    assert {"python", "keras", "numpy"} <= entry["versions"].keys()
    assert (entry["place"], entry["parameters"], entry["device"]) == ("local", {"SEED": 3}, {"kind": "cpu"})
    assert not (run.folder / ".heartbeat").exists()


def test_a_step_that_raises_leaves_the_error(tmp_path: Path) -> None:
    run = make(tmp_path)
    with pytest.raises(UsageError), run.step("train"):
        raise UsageError("No such thing.", hint="Take another.")
    record = run.read()
    assert record["status"] == "failed"
    assert record["steps"][0]["error"] == {
        "kind": "UsageError",
        "message": "No such thing.",
        "hint": "Take another.",
        "exit_code": 2,
    }


def test_a_killed_process_leaves_running_and_is_listed_as_died(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from kaggle_workbench.records import Run\n"
        "run = Run.create(Path(sys.argv[1]), stage='train', competition='digits', source='practice')\n"
        "run.start('train'); print('ready', flush=True); time.sleep(60)"
    )
    process = child(code, str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert [run["status"] for run in list_runs(tmp_path)] == ["running"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (record,) = list_runs(tmp_path)
    assert record["status"] == "died"
    assert json.loads((tmp_path / "runs" / record["id"] / "record.json").read_text())["status"] == "running"


def test_another_machines_run_is_judged_by_its_heartbeat(tmp_path: Path) -> None:
    run = make(tmp_path)
    step = run.start("train")
    step.update(process={**provenance.this_process(), "host": "elsewhere"})
    assert list_runs(tmp_path)[0]["status"] == "running"
    (run.folder / ".heartbeat").write_text("2026-01-01T00:00:00.000Z")
    assert list_runs(tmp_path)[0]["status"] == "died"
    step.end()
    assert list_runs(tmp_path)[0]["status"] == "done"


def test_a_process_number_used_again_is_not_the_old_process() -> None:
    process = provenance.this_process()
    assert provenance.is_gone(process) is False
    assert provenance.is_gone({**process, "started": 1}) is True


def test_settle_marks_what_a_dead_kernel_left(tmp_path: Path) -> None:
    run = make(tmp_path)
    step = run.start("train")
    run.settle(WorkError("The kernel died."))
    record = run.read()
    assert (record["status"], record["steps"][0]["error"]["message"]) == ("failed", "The kernel died.")
    step.ended = True


def test_no_secret_and_no_absolute_path_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".project").mkdir()
    (tmp_path / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    token = "KGAT_0123456789abcdef"
    monkeypatch.setenv("KAGGLE_API_TOKEN", token)
    monkeypatch.setenv("MONGODB_URI", "mongodb://user:hidden%2Fpassword@host")
    settings = load_settings(start=tmp_path)
    run = make(settings.output_dir, hide=masking.hidden(settings))
    run.update(submission={"message": f"with {token}"})
    with pytest.raises(WorkError), run.step("train", parameters=records.parameters(settings, {"RATE": 0.1})):
        raise WorkError(
            f"{settings.input_dir}/train.csv: {token} and mongodb://user:hidden%2Fpassword@host (hidden/password)"
        )
    text = (run.folder / "record.json").read_text()
    assert token not in text
    assert "hidden%2Fpassword" not in text
    assert "hidden/password" not in text
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text
    assert run.read()["steps"][0]["parameters"]["RATE"] == 0.1
    assert not {"KAGGLE_API_TOKEN", "INPUT_DIR", "OUTPUT_DIR"} & run.read()["steps"][0]["parameters"].keys()


def test_numbers_that_are_none_are_null(tmp_path: Path) -> None:
    import numpy as np

    run = make(tmp_path)
    run.update(history=[{"loss": float("nan"), "accuracy": np.float32(0.5), "n": np.int64(3)}])
    assert json.loads((run.folder / "record.json").read_text())["history"] == [{"loss": None, "accuracy": 0.5, "n": 3}]


def test_newest_trained_run_of_one_competition_and_source(tmp_path: Path) -> None:
    older, newer = trained(tmp_path), trained(tmp_path)
    make(tmp_path, "data")
    failed = make(tmp_path)
    failed.start("train").end(WorkError("no"))
    found = Run.newest(tmp_path, competition="digits", source="practice", trained=True)
    assert found is not None
    assert found.id == newer.id != older.id
    with older.step("train"):
        pass
    found = Run.newest(tmp_path, competition="digits", source="practice", trained=True)
    assert found is not None
    assert found.id == older.id
    assert Run.newest(tmp_path, competition="digits", source="kaggle", trained=True) is None
    assert Run.newest(tmp_path / "none") is None


def test_open_takes_a_beginning_and_names_what_is_wrong(tmp_path: Path) -> None:
    for name in ("wide-net", "wider-net", "deep"):
        make(tmp_path, run_id=name)
    assert Run.open(tmp_path, "de").id == "deep"
    with pytest.raises(UsageError, match="could be 2 runs"):
        Run.open(tmp_path, "wide")
    with pytest.raises(UsageError, match="no run 'x'"):
        Run.open(tmp_path, "x")
    with pytest.raises(UsageError, match="exists already"):
        make(tmp_path, run_id="deep")


def test_a_damaged_record_is_named_and_hides_no_other(tmp_path: Path) -> None:
    good, bad = make(tmp_path), make(tmp_path)
    (bad.folder / "record.json").write_text('{"id": ')
    assert {run["id"]: run["status"] for run in list_runs(tmp_path)} == {good.id: "running", bad.id: "damaged"}
    with pytest.raises(WorkError, match="cannot be read"):
        bad.read()


def test_json_that_is_no_record_hides_no_other_run(tmp_path: Path) -> None:
    good = make(tmp_path)
    sound = good.read()
    step = {"stage": "train", "status": "running", "process": {}, "parameters": {}, "versions": {}}
    odds: dict[str, dict[str, Any]] = {
        "a": {"schema": "1"},
        "b": {"created": 5},
        "c": {"steps": 3},
        "d": {"steps": [{}]},
        "e": {"steps": [{**step, "process": None}]},
        "f": {"lb": "0.98"},
    }
    for name, odd in odds.items():
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "record.json").write_text(json.dumps(sound | odd))
        with pytest.raises(WorkError, match="cannot be read"):
            Run.open(tmp_path, name).read()
    found = {run["id"]: run["status"] for run in list_runs(tmp_path)}
    assert found == {good.id: "running", **dict.fromkeys("abcdef", "damaged")}


def test_whatever_stands_in_a_record_no_reader_stumbles(tmp_path: Path) -> None:
    """Every field in turn holds something odd: the record is then damaged, or every reader copes."""
    run = trained(
        tmp_path,
        cv={"metric": "accuracy", "score": 0.9, "method": "hold-out", "rows": 9, "folds": [0.8, 0.9]},
        lb={"public": 0.9, "private": None, "rank": 1, "entries": 2},
        submission={"ref": 1, "file": "s.csv", "sha256": "", "message": "", "sent": "2026-12-01T10:00:00Z"},
        checkpoint={"epoch": 1, "step": 2, "file": "c", "written": "2026-12-01T10:00:00Z", "best": {"epoch": 1}},
        history=[{"epoch": 1, "val_loss": 0.5}, {"epoch": 2, "val_loss": 0.4}],
        data={"train.csv": {"size": 1, "sha256": ""}},
        pictures=[{"name": "a", "file": "a.png", "text": ""}],
    )
    run.start("submit", device={"kind": "cpu", "count": 1, "reason": ""}, git={"commit": "a", "dirty": True}).end(
        WorkError("no")
    )
    sound = run.read()
    checked = 0
    for path in places(sound):
        for odd in ([], {}, "x", 5, None, -1.5, ["x"], {"a": 1}, *EXTREME):
            text = json.dumps(replaced(sound, path, odd))
            try:
                record = records.parse(text, "name")
            except ValueError:
                continue
            checked += 1
            records.true_status(record, None)
            records.true_status({**record, "status": "running"}, None)
            records.trained_at(record)
            row = summaries.summary(record)
            told = [summaries.table([row]), summaries.details(record), str(summaries.compare([record, sound]))]
            assert all(line.isprintable() for text in told for line in text.split("\n")), (path, odd)
            for by in summaries.SORTS:
                summaries.sort([row, summaries.summary(sound)], by)
            summaries.partings([{**row} for _ in range(3)])
            json.dumps([record, row, summaries.compare([record, sound]).to_dict()], allow_nan=False)
            # The record that a database keeps is the same one when it comes back.
            back = to_record(to_document(record))
            assert records.parse(json.dumps({name: back[name] for name in record})) == record, (path, odd)
    assert checked > 400


# What breaks who calculates, prints or steers a terminal with it.
NUMBERS = (float("nan"), float("inf"), 10**400, 1e308, -(2**70), 2**63, 2**63 - 1)
EXTREME = (*NUMBERS, "\ud800", "\x1b[31mred\x07\r\nnext\t", "9" * 5000)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(document)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    run = trained(tmp_path)
    before = (run.folder / "record.json").read_bytes()
    for fields, named in (
        ({"cv": {"score": "high"}}, "cv.score"),
        ({"history": [1, 2]}, "history"),
        ({"cv": {"folds": [0.5, None]}}, "cv.folds"),
    ):
        with pytest.raises(UsageError, match=f"cannot hold this: {named} does not fit"):
            run.update(**fields)
        assert (run.folder / "record.json").read_bytes() == before


def test_writers_in_several_processes_lose_nothing(tmp_path: Path) -> None:
    run = make(tmp_path)
    code = (
        "import sys; from pathlib import Path; from kaggle_workbench.records import Run\n"
        "run = Run(Path(sys.argv[1]))\n"
        "for n in range(20): run.change(lambda record: record['data'].update({f'{sys.argv[2]}{n}': n}))"
    )
    writers = [child(code, str(run.folder), name) for name in "ab"]
    for writer in writers:
        writer.communicate(timeout=60)
    record = run.read()
    assert len(record["data"]) == 40
    assert record["revision"] == 40


def test_a_paused_step_is_kept_and_can_go_on(tmp_path: Path) -> None:
    run = make(tmp_path)
    step = run.start("train")
    step.pause(WorkError("The session ends at 12:00.", hint="Go on with: ./kwb run train --resume x"))
    record = list_runs(tmp_path)[0]
    assert (record["status"], record["steps"][0]["status"]) == ("paused", "paused")
    assert record["steps"][0]["error"]["hint"].startswith("Go on with")
    assert record["steps"][0]["ended"]
    assert records.trained_at(record) == ""
    assert not (run.folder / ".heartbeat").exists()
    step.end(WorkError("the notebook was left"))
    run.settle(WorkError("the kernel is gone"))
    assert run.read()["status"] == "paused"
    step.resume()
    assert (run.read()["status"], (run.folder / ".heartbeat").exists()) == ("running", True)
    step.end()
    assert (run.read()["status"], run.read()["steps"][0]["error"]) == ("done", None)
    assert records.trained_at(run.read())


def test_a_paused_step_that_was_done_after_all_is_done(tmp_path: Path) -> None:
    step = make(tmp_path).start("train")
    step.pause(WorkError("Stopped by Ctrl-C."))
    step.end()
    assert list_runs(tmp_path)[0]["status"] == "done"


def test_a_record_of_schema_1_is_read_and_becomes_schema_2(tmp_path: Path) -> None:
    run = trained(tmp_path, cv={"metric": "accuracy", "score": 0.9, "method": "hold-out", "rows": 9})
    old = json.loads((run.folder / "record.json").read_text())
    for name in ("uid", "checkpoint"):
        del old[name]
    for name in ("seed", "peak_gpu_memory_bytes", "mean_gpu_utilisation"):
        del old["steps"][0][name]
    old["steps"][0]["parameters"] = {"SEED": 7}
    del old["cv"]["folds"]
    old["schema"] = 1
    (run.folder / "record.json").write_text(json.dumps(old))
    read = run.read()
    assert read["uid"] == Run.open(tmp_path, run.id).read()["uid"]
    assert len(read["uid"]) == 32
    assert (read["checkpoint"], read["cv"]["folds"], read["steps"][0]["seed"]) == (None, None, 7)
    run.update(metric="accuracy")
    new = json.loads((run.folder / "record.json").read_text())
    assert (new["schema"], new["uid"], new["revision"]) == (2, read["uid"], old["revision"] + 1)


def test_a_copied_run_goes_by_its_folders_name(tmp_path: Path) -> None:
    run = trained(tmp_path)
    shutil.copytree(run.folder, run.folder.with_name("a-copy"))
    assert {record["id"] for record in list_runs(tmp_path)} == {run.id, "a-copy"}


def test_each_step_tells_its_seed_and_the_image(tmp_path: Path) -> None:
    (tmp_path / ".project").mkdir()
    lock = {"schema": 1, "image": "registry/python", "tag": "v170", "digest": None, "git_commit": "abc"}
    (tmp_path / ".project" / "image.lock").write_text(json.dumps(lock))
    assert (provenance.image(None) or {"inside": True})["inside"]
    known = provenance.image(tmp_path)
    assert known is not None
    assert (known["tag"], known["digest"]) == ("v170", None)
    run = make(tmp_path)
    with run.step("train", parameters={"SEED": 3}, image=known):
        pass
    assert run.read()["steps"][0]["image"]["tag"] == "v170"
    assert run.read()["steps"][0]["seed"] == 3


def test_listeners_get_what_was_written_and_one_that_fails_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[tuple[str, int]] = []

    def hears(folder: Path, document: Any) -> None:
        heard.append((folder.name, document["revision"]))

    def fails(folder: Path, document: Any) -> None:
        raise RuntimeError("no server")

    records.listeners += [fails, hears]
    try:
        run = trained(tmp_path, metric="accuracy")
        assert heard == [(run.id, number) for number in range(4)]
        assert capsys.readouterr().err.count("no server") == 1
        assert fails not in records.listeners
    finally:
        records.listeners.clear()


def test_other_machines_folders_are_cut_from_texts(tmp_path: Path) -> None:
    for text, kept in {
        "No /home/ann/x.csv here": "No .../x.csv here",
        r"C:\Users\ann\train.csv is gone": ".../train.csv is gone",
        "File '/usr/lib/python3/keras/layers.py:33'": "File '.../layers.py:33'",
        "file:///kaggle/input/a.csv": ".../a.csv",
        "https://www.kaggle.com/home/data/x": "https://www.kaggle.com/home/data/x",
        "model/dense/kernel at 3 B/s": "model/dense/kernel at 3 B/s",
        "OUTPUT_DIR/runs/x": "OUTPUT_DIR/runs/x",
    }.items():
        assert masking.plain({"a": [text]}, {}) == {"a": [kept]}


def test_kwb_runs_lists_and_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".project").mkdir()
    (tmp_path / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path / "out"))
    monkeypatch.setattr(cli, "GROUPS", ("runs",))
    assert cli.main(["runs"]) == 0
    assert capsys.readouterr().out == "(none)\n"
    history = [{"epoch": 1, "seconds": 2.0, "loss": 0.5, "val_loss": None}]
    cv = {"metric": "accuracy", "score": 0.9875, "method": "hold-out", "rows": 1200}
    lb = {"public": 0.98, "private": 0.97, "rank": 2, "entries": 4}
    sent = {"ref": 7, "file": "submission.csv", "sha256": "0", "message": "first", "sent": "2026-12-01T10:00:00"}
    run = trained(tmp_path / "out", history=history, cv=cv, lb=lb, submission=sent)
    assert cli.main(["runs", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["run"], row["CV"], row["public"], row["rank"], row["stages"]) == (run.id, 0.9875, 0.98, 2, "train")
    assert cli.main(["runs", "show", run.id, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cv"] == {**cv, "folds": None}
    assert cli.main(["runs", "show", run.id[:12]]) == 0
    shown = capsys.readouterr().out
    assert "rank 2 of 4" in shown
    assert "hold-out" in shown
    assert cli.main(["runs", "show", "nothing"]) == 2
