"""`kwb arena add`: a class competition from a folder, checked first, used by the real client."""

from __future__ import annotations

import csv
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arena_tools import client_env
from kaggle_workbench.arena.add import Rules, add, remove, served
from kaggle_workbench.arena.competitions import load
from kaggle_workbench.arena.launch import running
from kaggle_workbench.arena.scoring import score
from kaggle_workbench.errors import RefusedError, UsageError

RULES = Rules("Root Mean Squared Error")


def write(path: Path, header: list[str], rows: list[list[Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
    return path


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A folder as a teacher has it: data for participants, and the answers beside it."""
    folder = tmp_path / "Course Work 1"
    write(folder / "train.csv", ["id", "x", "y"], [[n, n * 2, n * 3] for n in range(20)])
    write(folder / "test.csv", ["id", "x"], [[n, n * 2] for n in range(20, 60)])
    write(folder / "sample_submission.csv", ["id", "y"], [[n, 0] for n in range(20, 60)])
    (folder / "pictures").mkdir()
    (folder / "pictures" / "a.txt").write_text("a file in a folder")
    (folder / ".hidden").write_text("not for participants")
    write(tmp_path / "answers.csv", ["id", "y"], [[n, n * 3] for n in range(20, 60)])
    return folder


def test_a_folder_becomes_a_competition_that_the_real_client_uses(course: Path, tmp_path: Path) -> None:
    home = tmp_path / "competitions"
    target = add(course, tmp_path / "answers.csv", home, Rules("rmse", daily_limit=2))
    assert target == home / "course-work-1"
    hosted = load(target)
    assert [file.name for file in hosted.files] == ["pictures/a.txt", "sample_submission.csv", "test.csv", "train.csv"]
    assert (hosted.metric.name, hosted.max_daily_submissions) == ("rmse", 2)
    assert stat.S_IMODE(hosted.solution.stat().st_mode) == 0o600
    right = score(hosted, write(tmp_path / "s.csv", ["id", "y"], [[n, n * 3] for n in range(20, 60)]))
    assert (right.public, right.private) == (0, 0)
    names = tmp_path / "names.txt"
    names.write_text("ada\ngrace\n")
    with running([home], tmp_path / "state") as arena:
        env = client_env(arena, tmp_path / "home")
        sent = kaggle(env, "competitions", "submit", "course-work-1", "-f", str(tmp_path / "s.csv"), "-m", "mine")
        assert "Successfully submitted" in sent
        assert "0.00000" in kaggle(env, "competitions", "submissions", "course-work-1", "--csv")
        kaggle(env, "competitions", "download", "course-work-1", "-p", str(tmp_path / "got"))
    assert b"solution" not in (tmp_path / "got" / "course-work-1.zip").read_bytes()


def kaggle(env: dict[str, str], *words: str) -> str:
    command = [str(Path(sys.executable).with_name("kaggle")), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _solution_inside(folder: Path, answers: Path) -> Path:
    inside = folder / "solution.csv"
    inside.write_bytes(answers.read_bytes())
    return inside


def _columns_differ(folder: Path, answers: Path) -> Path:
    write(folder / "sample_submission.csv", ["id", "price"], [[n, 0] for n in range(20, 60)])
    return answers


def _ids_differ(folder: Path, answers: Path) -> Path:
    write(folder / "sample_submission.csv", ["id", "y"], [[n, 0] for n in range(21, 61)])
    return answers


def _answers_in_the_test(folder: Path, answers: Path) -> Path:
    write(folder / "test.csv", ["id", "x", "y"], [[n, n * 2, n * 3] for n in range(20, 60)])
    return answers


def _true_sample(folder: Path, answers: Path) -> Path:
    (folder / "sample_submission.csv").write_bytes(answers.read_bytes())
    return answers


def _no_sample(folder: Path, answers: Path) -> Path:
    (folder / "sample_submission.csv").unlink()
    return answers


def _ids_twice(folder: Path, answers: Path) -> Path:
    return write(answers, ["id", "y"], [[20, 1], *([n, n] for n in range(20, 60))])


def _odd_usage(folder: Path, answers: Path) -> Path:
    return write(answers, ["id", "y", "Usage"], [[n, n, "Secret"] for n in range(20, 60)])


def _ignored_usage(folder: Path, answers: Path) -> Path:
    return write(answers, ["id", "y", "Usage"], [[n, n, "Ignored" if n % 2 else "Public"] for n in range(20, 60)])


def _answers_written_otherwise(folder: Path, answers: Path) -> Path:
    """The same numbers with a decimal point: 60 as 60.0."""
    rows = [line.split(",") for line in answers.read_text().splitlines()]
    write(folder / "extra.csv", rows[0], [[id, float(value)] for id, value in rows[1:]])
    return answers


def _text_for_numbers(folder: Path, answers: Path) -> Path:
    write(folder / "sample_submission.csv", ["id", "y"], [[n, "cat"] for n in range(20, 60)])
    return answers


def _one_column(folder: Path, answers: Path) -> Path:
    return write(answers, ["id"], [[n] for n in range(20, 60)])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_solution_inside, "solution.csv is the solution"),
        (_columns_differ, "has the columns id, price; the solution has id, y"),
        (_ids_differ, "lacks 1 ids of the solution, such as '20'"),
        (_answers_in_the_test, "test.csv holds the answers"),
        (_true_sample, "sample_submission.csv is the solution"),
        (_no_sample, "no sample submission"),
        (_ids_twice, "ids more than once: 20"),
        (_odd_usage, "there is 'Secret'"),
        (_ignored_usage, "there is 'Ignored'"),
        (_answers_written_otherwise, "extra.csv holds the answers"),
        (_text_for_numbers, "cannot be scored by Root Mean Squared Error"),
        (_one_column, "at least one column to predict"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_hosted(
    course: Path, tmp_path: Path, change: Callable[[Path, Path], Path], words: str
) -> None:
    home = tmp_path / "competitions"
    solution = change(course, tmp_path / "answers.csv")
    with pytest.raises(RefusedError, match=words) as caught:
        add(course, solution, home, RULES)
    assert caught.value.hint
    assert not (home / "course-work-1").exists()


def test_links_are_not_served_and_names_are_not_taken_twice(course: Path, tmp_path: Path) -> None:
    home = tmp_path / "competitions"
    add(course, tmp_path / "answers.csv", home, RULES)
    with pytest.raises(UsageError, match="hosted already") as caught:
        add(course, tmp_path / "answers.csv", home, RULES)
    assert "--replace" in caught.value.hint
    before = load(home / "course-work-1").edition
    write(tmp_path / "answers.csv", ["id", "y"], [[n, n] for n in range(20, 60)])
    add(course, tmp_path / "answers.csv", home, RULES, replace=True)
    assert load(home / "course-work-1").edition != before, "submissions so far are scored anew"
    (course / "link.csv").symlink_to(tmp_path / "answers.csv")
    with pytest.raises(RefusedError, match="is a link"):
        served(course)
    with pytest.raises(UsageError, match="You host no competition 'digit-recognizer'"):
        remove(home, "digit-recognizer")
    remove(home, "course-work-1")
    assert not list(home.iterdir())


def test_the_public_part_is_the_same_every_time(course: Path, tmp_path: Path) -> None:
    first = add(course, tmp_path / "answers.csv", tmp_path / "a", Rules("rmse", public_share=0.5))
    again = add(course, tmp_path / "answers.csv", tmp_path / "b", Rules("rmse", public_share=0.5))
    assert (first / "solution.csv.gz").read_bytes() == (again / "solution.csv.gz").read_bytes()


def test_the_command_says_what_comes_next(course: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".project").mkdir(parents=True)
    (root / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    env = {**os.environ, "OUTPUT_DIR": str(tmp_path / "out"), "KWB_ROOT": ""}

    def kwb(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kaggle_workbench", "arena", *words]
        return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=60)

    asked = ("add", str(course), "--solution", str(tmp_path / "answers.csv"), "--metric", "RMSE")
    tried = kwb(*asked, "--dry-run")
    assert (tried.returncode, "All fits together" in tried.stderr) == (0, True), tried.stderr
    assert not (tmp_path / "out" / "arena" / "competitions").exists()
    done = kwb(*asked)
    assert "./kwb run --competition course-work-1" in done.stderr
    rows = json.loads(kwb("list", "--format", "json").stdout)
    assert [(row["competition"], row["metric"], row["own"]) for row in rows] == [("course-work-1", "rmse", True)]
    wrong = kwb("add", str(course), "--solution", str(tmp_path / "answers.csv"), "--metric", "rmsee")
    assert (wrong.returncode, "There is no metric 'rmsee'" in wrong.stderr) == (2, True)
