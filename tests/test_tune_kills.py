"""Studies that lose a machine or their client: every trial has one result, and no finished one ran twice."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench import provenance
from project_tools import Project
from tune_tools import records, tuning_project

pytestmark = pytest.mark.slow

TRIALS, EPOCHS = 12, 4
ASKED = ("--trials", str(TRIALS), "--study", "s", "--no-prune", "--set", f"EPOCHS={EPOCHS}")
LIMIT_S = 240


def begin(project: Project, *words: str) -> subprocess.Popen[str]:
    """A client whose trials wait at the gate in their middle; what it says goes to a file."""
    gate(project).touch()
    with said_by(project).open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "kaggle_workbench", "tune", *words],
            cwd=project.folder,
            env=project.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )


def gate(project: Project) -> Path:
    project.output.mkdir(parents=True, exist_ok=True)
    return project.output / "gate"


def said_by(project: Project) -> Path:
    return project.folder.parent / "client.txt"


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str], said: Path) -> None:
    until = time.monotonic() + LIMIT_S
    while not true():
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < until, f"that moment never came:\n{said.read_text()}"
        time.sleep(0.05)


def in_the_middle(project: Project) -> bool:
    """Three are done, and two are held by the gate: two epochs are behind them, two before them."""
    try:
        found = records(project, "s").values()
    except json.JSONDecodeError:
        return False
    done = [record for record in found if record["status"] == "done"]
    at_work = [record for record in found if record["status"] == "running" and len(record["history"]) == 2]
    return len(done) == 3 and len(at_work) == 2


def check(project: Project, before: dict[str, dict[str, Any]]) -> None:
    """Each trial has a result, each run was finished once, and no epoch is missing or there twice."""
    table = json.loads((project.output / "studies" / "s" / "table.json").read_text())
    assert [row["status"] for row in table] == ["done"] * TRIALS
    assert all(row["value"] is not None for row in table)
    after = records(project, "s")
    assert sorted(after) == sorted(f"s-t{number}" for number in range(TRIALS))
    for name, record in after.items():
        statuses = [step["status"] for step in record["steps"]]
        assert statuses.count("done") == 1, (name, statuses)
        assert [entry["epoch"] for entry in record["history"]] == list(range(1, EPOCHS + 1)), name
        assert {"RATE", "UNITS", "EPOCHS"} <= record["steps"][-1]["parameters"].keys()
        if before[name]["status"] == "done" if name in before else False:
            assert len(statuses) == 1, (name, statuses)


def test_ray_a_node_killed_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tuning_project(tmp_path)
    # Both nodes and the client hold one token, as a real cluster does.
    held = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    for name, value in {**held, "HOME": project.env["HOME"]}.items():
        monkeypatch.setenv(name, value)
        project.env[name] = value
    project.env |= {"STORE": str(tmp_path / "store")}
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        other = cluster.add_node(num_cpus=1)
        client = begin(project, *ASKED, "--engine", "ray", "--address", cluster.address, "--slots", "2")
        wait_until(lambda: in_the_middle(project), client, said_by(project))
        before = records(project, "s")
        cluster.remove_node(other, allow_graceful=False)
        # Its trial ends a moment after it, and must not pass the gate.
        at_work = [record["steps"][-1]["process"] for record in before.values() if record["status"] == "running"]
        wait_until(lambda: any(provenance.is_gone(each) for each in at_work), client, said_by(project))
        gate(project).unlink()
        client.communicate(timeout=LIMIT_S)
        assert client.returncode == 0, said_by(project).read_text()
    finally:
        cluster.shutdown()
    check(project, before)
    cut = [name for name, record in records(project, "s").items() if len(record["steps"]) > 1]
    assert len(cut) == 1, "the trial of the node that was killed went on elsewhere"


def test_local_the_client_killed_in_the_middle_and_started_again(tmp_path: Path) -> None:
    project = tuning_project(tmp_path)
    client = begin(project, *ASKED, "--slots", "2")
    wait_until(lambda: in_the_middle(project), client, said_by(project))
    before = records(project, "s")
    client.kill()
    client.communicate()
    # One of the two trials that were at work is killed as well, as a machine's restart would do.
    jobs = project.output / "studies" / "s" / "jobs"
    name = next(name for name, record in before.items() if record["status"] == "running")
    with contextlib.suppress(ProcessLookupError):
        os.kill(json.loads((jobs / f"{name.removeprefix('s-')}.process.json").read_text())["pid"], signal.SIGKILL)
    refused = project.kwb("tune", *ASKED)
    assert refused.returncode == 2
    assert "./kwb tune --resume s" in refused.stderr
    again = begin(project, "--resume", "s", "--slots", "2", "--format", "json")
    wait_until(lambda: "was found at work" in said_by(project).read_text(), again, said_by(project))
    gate(project).unlink()
    table = again.communicate(timeout=LIMIT_S)[0]
    assert again.returncode == 0, said_by(project).read_text()
    assert len(json.loads(table)) == TRIALS
    check(project, before)
    assert len(records(project, "s")[name]["steps"]) == 2, "the killed trial went on from its last epoch"
