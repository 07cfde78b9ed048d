"""Whole runs: `kwb run` executes the three notebooks on tiny competitions through the real client.

Slow because each stage is a process of its own and one of them imports TensorFlow.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest

from arena_tools import tiny_competition
from fault_server import FaultServer
from kaggle_workbench.arena.launch import running
from kaggle_workbench.settings import load_settings
from kaggle_workbench.show import note
from kaggle_workbench.stages.execute import _forget_paths, new_run_id
from project_tools import Project, make_project

pytestmark = pytest.mark.slow

SECRETS = {"KAGGLE_KEY": "kk-9f1c55aa77e3", "MONGODB_URI": "mongodb+srv://u:pw-71aa3b@example.invalid/db"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with two practice competitions of different sizes, in a path with a space."""
    project = make_project(tmp_path_factory.mktemp("a run"))
    tiny_competition(project.hosted, "tiny-digits", rows=200, test_rows=100, side=8)
    tiny_competition(project.hosted, "other-digits", rows=120, test_rows=40, side=12)
    return project


def records(project: Project) -> list[dict]:
    files = sorted(project.output.glob("runs/*/record.json"), key=lambda file: file.stat().st_mtime)
    return [json.loads(file.read_text()) for file in files]


def texts(folder: Path) -> dict[Path, str]:
    return {file: file.read_bytes().decode("latin-1") for file in folder.rglob("*") if file.is_file()}


def test_competition_in_variables_env_alone_changes_all_three_notebooks(project: Project) -> None:
    for slug, rows in (("tiny-digits", 100), ("other-digits", 40)):
        (project.folder / "variables.env").write_text(f"COMPETITION={slug}\nSOURCE=practice\nEPOCHS=1\n")
        done = project.kwb("run")
        assert done.returncode == 0, done.stderr
        record = records(project)[-1]
        assert record["competition"] == slug
        assert [(step["stage"], step["status"]) for step in record["steps"]] == [
            ("data", "done"),
            ("train", "done"),
            ("submit", "done"),
        ]
        assert len(record["history"]) == 1
        assert 0 <= record["cv"]["score"] <= 1
        assert record["lb"]["public"] is not None
        assert record["lb"]["rank"] >= 1
        folder = project.output / "runs" / record["id"]
        assert len((folder / "submission.csv").read_text().splitlines()) == rows + 1
        for name in ("01-data", "02-train", "03-submit"):
            executed = nbformat.read(folder / f"{name}.ipynb", as_version=4)
            assert slug in json.dumps(executed)
            assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")
        assert {"curves", "confusion", "examples"} <= {picture["name"] for picture in record["pictures"]}
        for picture in record["pictures"]:
            assert (folder / picture["file"]).stat().st_size > 1000
        assert str(project.folder) not in (folder / "record.json").read_text()


def test_a_run_s_file_is_checked_against_its_own_competition(project: Project) -> None:
    """Whatever variables.env says by then; and --competition on the command line is no change behind one's back."""
    (project.folder / "variables.env").write_text("COMPETITION=tiny-digits\nSOURCE=practice\nEPOCHS=1\n")
    done = project.kwb("run", "--competition", "other-digits")
    assert done.returncode == 0, done.stderr
    assert "in the environment" not in done.stderr
    record = records(project)[-1]
    assert "in the environment" not in (project.output / "runs" / record["id"] / "02-train.ipynb").read_text()
    lines = dict(line.split("   ", 1) for line in done.stdout.splitlines())
    assert set(lines) >= {"CV accuracy", "public score", "rank", "run"}
    assert f"{record['lb']['public']:.4f}" in lines["public score"]
    file = str(project.output / "runs" / record["id"] / "submission.csv")
    for words in (("check", file), ("submit", file, "-m", "again", "--dry-run")):
        done = project.kwb(*words)
        assert done.returncode == 0, done.stderr
        assert f"run {record['id']}: competition other-digits, from practice" in done.stderr
    assert project.kwb("check", file, "--competition", "tiny-digits").returncode == 4
    done = project.kwb("check", file, SOURCE="kaggle")
    assert done.returncode == 2
    assert "trained on other-digits from practice, and SOURCE is kaggle" in done.stderr


def test_submit_alone_continues_the_newest_trained_run_and_sends_nothing_twice(project: Project) -> None:
    (project.folder / "variables.env").write_text("COMPETITION=tiny-digits\nSOURCE=practice\nEPOCHS=1\n")
    before = [record for record in records(project) if record["competition"] == "tiny-digits"]
    if not before:
        assert project.kwb("run").returncode == 0
        before = records(project)
    done = project.kwb("run", "submit")
    assert done.returncode == 0, done.stderr
    after = next(record for record in records(project) if record["id"] == before[-1]["id"])
    assert [step["stage"] for step in after["steps"]].count("submit") == 2
    assert after["submission"]["ref"] == before[-1]["submission"]["ref"]
    listed = project.kwb("runs", "--format", "json")
    assert {row["competition"] for row in json.loads(listed.stdout)} >= {"tiny-digits"}


def test_wrong_use_stops_before_anything_runs(project: Project) -> None:
    for words, code, said in [
        (("run", "trian"), 2, "no stage 'trian'"),
        (("run", "--set", "EPOCH=3"), 2, "Did you mean EPOCHS"),
        (("run", "--set", "EPOCHS"), 2, "not NAME=VALUE"),
        (("run", "--set", "EPOCHS=0"), 2, "EPOCHS is '0'"),
        (("run", "submit", "--competition", "never-trained"), 2, "No trained run of never-trained"),
    ]:
        runs = len(records(project))
        done = project.kwb(*words)
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        assert len(records(project)) == runs
    (project.folder / "a-file").write_text("")
    for words in (("run", "data"), ("runs",)):
        done = project.kwb(*words, OUTPUT_DIR=str(project.folder / "a-file"))
        assert done.returncode == 3, done.stderr
        assert "a-file" in done.stderr
        assert "Not a directory" in done.stderr
        assert "Traceback" not in done.stderr
    debugged = project.kwb("--debug", "runs", OUTPUT_DIR=str(project.folder / "a-file"))
    assert debugged.returncode == 3
    assert "Traceback" in debugged.stderr
    done = project.kwb("lab", "--no-browser", "--port", "99999", timeout=60)
    assert done.returncode == 2, done.stderr
    assert "not a port" in done.stderr
    dry = project.kwb("run", "--dry-run")
    assert dry.returncode == 0
    assert "nothing was run" in dry.stderr


def test_runs_begun_in_the_same_moment_take_folders_of_their_own(project: Project) -> None:
    with ThreadPoolExecutor() as pool:
        ids = list(pool.map(lambda _: new_run_id(load_settings(start=project.folder), ["data"], claim=True), range(20)))
    assert len(set(ids)) == 20
    for run_id in ids:
        (project.output / "runs" / run_id).rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_full_disk_hides_nothing_that_a_notebook_ended_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)
    try:
        executed = tmp_path / "02-train.ipynb"
        document = {"metadata": {"papermill": {"input_path": "/secret/02-train.ipynb"}}, "cells": ["x" * 40_000]}
        executed.write_text(json.dumps(document))
        _forget_paths(executed)
        assert "The disk is full" in capsys.readouterr().err
        assert json.loads(executed.read_text()) == document
        executed.write_text(json.dumps(document)[:1000])
        _forget_paths(executed)
        executed.write_text(json.dumps({**document, "cells": []}))
        _forget_paths(executed)
        assert json.loads(executed.read_text())["metadata"]["papermill"] == {"input_path": "02-train.ipynb"}
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_misspelt_competition_is_one_sentence_with_exit_code_2(project: Project) -> None:
    done = project.kwb("run", "data", "--competition", "tiny-digitz", "--set", "SOURCE=practice")
    assert done.returncode == 2, done.stderr
    assert "tiny-digitz" in done.stderr
    assert "tiny-digits" in done.stderr
    assert "Traceback" not in done.stderr
    assert records(project)[-1]["status"] == "failed"


@pytest.fixture
def kaggle_world(tmp_path: Path) -> Iterator[tuple[Project, FaultServer]]:
    """A project whose credentials are real, for a server that counts and stands for Kaggle."""
    hosted = tmp_path / "hosted"
    tiny_competition(hosted, "tiny-digits", rows=200, test_rows=100, side=8)
    with running([hosted], tmp_path / "state") as arena, FaultServer(arena.url) as server:
        env = {"KAGGLE_API_ENVIRONMENT": "LOCALHOST", "http_proxy": server.url}
        project = make_project(tmp_path, env=env)
        (project.folder / "variables.env").write_text("COMPETITION=tiny-digits\nEPOCHS=1\n")
        secrets = {"KAGGLE_API_TOKEN": arena.token.reveal(), **SECRETS}
        (project.folder / "secrets.env").write_text("".join(f"{name}={value}\n" for name, value in secrets.items()))
        (project.folder / "secrets.env").chmod(0o600)
        SECRETS["KAGGLE_API_TOKEN"] = arena.token.reveal()
        yield project, server


def test_on_kaggle_run_all_submits_nothing_and_with_submit_exactly_once(
    kaggle_world: tuple[Project, FaultServer],
) -> None:
    project, server = kaggle_world
    done = project.kwb("run")
    assert done.returncode == 0, done.stderr
    said = [done.stdout, done.stderr]
    assert server.count("DownloadDataFiles") == 1
    for route in ("StartSubmissionUpload", "CreateSubmission", "/storage/uploads"):
        assert server.count(route) == 0
    assert records(project)[-1]["source"] == "kaggle"
    assert records(project)[-1]["submission"] is None

    for _ in range(2):
        done = project.kwb("run", "submit", "--set", "SUBMIT=true")
        assert done.returncode == 0, done.stderr
        said += [done.stdout, done.stderr]
        assert server.count("CreateSubmission") == 1
    executed = project.output / "runs" / records(project)[-1]["id"] / "03-submit.ipynb"
    assert "nothing is sent again" in executed.read_text()
    assert records(project)[-1]["lb"]["public"] is not None

    for name, value in SECRETS.items():
        assert not [text for text in said if value in text], f"{name} was printed"
        for file, text in texts(project.output).items():
            assert value not in text, f"{name} stands in {file.relative_to(project.output)}"
    assert re.search(r"secrets\.env", "".join(texts(project.output / "runs").values()))


def test_a_signal_that_interrupts_printing_is_still_told(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python refuses to print while it prints; what a signal's handler says must come through all the same."""

    class Printing(io.StringIO):
        def write(self, _: str) -> int:
            raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

    monkeypatch.setattr(sys, "stderr", Printing())
    note("Ctrl-C: saving")
    assert capfd.readouterr().err == "Ctrl-C: saving\n"
