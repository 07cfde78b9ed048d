"""A training over folds that is stopped in the middle: the folds that are done are not done again."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from arena_tools import tiny_competition
from project_tools import Project, make_project

WORDS = ("run", "train", "--set", "RUN_ID=stopped")


@pytest.fixture
def made(tmp_path: Path) -> Project:
    project = make_project(tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    tiny_competition(project.hosted, "tiny-table", kind="table", rows=120, test_rows=40)
    (project.folder / "variables.env").write_text("COMPETITION=tiny-table\nSOURCE=practice\nEPOCHS=4\n")
    return project


def stop_after(project: Project, line: str, number: int) -> str:
    """Run until a line is printed, then send a signal; all that was said."""
    command = [sys.executable, "-m", "kaggle_workbench", *WORDS]
    child = subprocess.Popen(
        command, cwd=project.folder, env=project.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    said = []
    assert child.stderr is not None
    for text in child.stderr:
        said.append(text)
        if line in text:
            child.send_signal(number)
            break
    said += child.stderr.readlines()
    child.wait(60)
    return "".join(said)


def record(project: Project) -> dict[str, Any]:
    return dict(json.loads((project.output / "runs" / "stopped" / "record.json").read_text()))


def folds(said: str) -> list[tuple[str, int]]:
    return [(name, int(fold)) for name, fold in re.findall(r"(boosting|network) +fold (\d)/5", said)]


ALL = [(name, fold) for name in ("boosting", "network") for fold in range(1, 6)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "number"),
    [("network    fold 2/5", signal.SIGTERM), ("boosting   fold 3/5", signal.SIGKILL), (" 2/4 ", signal.SIGTERM)],
)
def test_a_stopped_training_goes_on_at_the_fold_that_is_missing(
    line: str, number: int, made: Project, tmp_path: Path
) -> None:
    first = stop_after(made, line, number)
    kept = (made.output / "runs" / "stopped" / "predictions").glob("*.npz")
    # What was kept counts: a line may be lost with the process that printed it.
    done = sorted((name, int(fold)) for name, fold in (path.stem.split("-") for path in kept))
    assert 0 < len(done) < 10
    assert set(folds(first)) <= set(done)
    if number == signal.SIGTERM:
        assert record(made)["status"] == "paused"
        assert "./kwb run train --resume stopped" in first
    again = made.kwb(*WORDS) if number == signal.SIGKILL else made.kwb("run", "train", "--resume", "stopped")
    assert again.returncode == 0, again.stderr
    later = folds(again.stderr)
    # The network of the first fold is trained by its checkpoints; its predictions are written anew.
    assert [each for each in later if each in done and each != ("network", 1)] == []
    assert sorted({*done, *later}) == sorted(ALL)
    (tmp_path / "whole").mkdir()
    whole = make_project(tmp_path / "whole", env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    tiny_competition(whole.hosted, "tiny-table", kind="table", rows=120, test_rows=40)
    (whole.folder / "variables.env").write_text((made.folder / "variables.env").read_text())
    assert whole.kwb(*WORDS).returncode == 0
    ours, theirs = record(made), record(whole)
    assert ours["cv"] == theirs["cv"], "as if it had never been stopped"
    files = [project.output / "runs" / "stopped" / "submission.csv" for project in (made, whole)]
    assert files[0].read_bytes() == files[1].read_bytes()
