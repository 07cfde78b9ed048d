"""`kwb tune --engine kaggle` against the stand-in: variants in as many sessions at once as there may be."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import fake_nvml
from arena_tools import tiny_competition
from kaggle_machines import Machines, why_not
from project_tools import Project, make_project

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

SCRIPT = """
import sys
from pathlib import Path
from kaggle_workbench.tuning import tune
from kaggle_workbench.tuning.engines.kaggle import KaggleEngine

KaggleEngine.poll_s, KaggleEngine.look_s, KaggleEngine.retry_s = 0.3, 1.0, 2.0
machine, word = sys.argv[1:3]
if word == "resume":
    tune(resume="seven", engine="kaggle", machine=machine)
else:
    tune(variants=Path(word), study="seven", engine="kaggle", machine=machine)
"""


def project(folder: Path, machines: Machines, variables: str = "") -> Project:
    made = make_project(folder, env={**machines.variables(), "TMPDIR": str(folder / "tmp")})
    (folder / "tmp").mkdir()
    (made.folder / "variables.env").write_text(
        f"COMPETITION=tiny-digits\nSOURCE=kaggle\nRECIPE=fast\nEPOCHS=1\n{variables}"
    )
    notebook = made.folder / "code" / "02-train.ipynb"
    document = json.loads(notebook.read_text())
    for cell in document["cells"]:
        if cell["id"] == "parameters":
            cell["source"] = [*cell["source"], "\nFAILS = False"]
        if cell["id"] == "split":
            cell["source"] = ["assert not FAILS, 'this variant fails'\n", *cell["source"]]
    notebook.write_text(json.dumps(document))
    return made


def client(project: Project, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *words],
        cwd=project.folder,
        env=project.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def table(project: Project) -> list[dict[str, Any]]:
    return list(json.loads((project.output / "studies" / "seven" / "table.json").read_text()))


def test_seven_variants_two_at_once_one_fails_one_is_refused_and_the_client_is_killed(tmp_path: Path) -> None:
    tiny_competition(tmp_path / "hosted", "tiny-digits", rows=200, test_rows=100, side=8)
    with Machines(tmp_path / "kaggle", [tmp_path / "hosted"], sessions={"cpu": 2}) as machines:
        made = project(tmp_path / "here", machines)
        variants = [{"SEED": seed} for seed in range(6)]
        variants.insert(0, {"FAILS": True})
        (made.folder / "variants.json").write_text(json.dumps(variants))
        first = client(made, "cpu", "variants.json")
        ends = time.monotonic() + 240
        while not any(one.status == "COMPLETE" for one in machines.kernels.values()):
            assert time.monotonic() < ends, first.poll()
            time.sleep(0.2)
        # In the middle: some are done, some run, some wait.
        first.send_signal(signal.SIGKILL)
        first.communicate()
        machines.refuse("gpu-quota", times=1)
        second = client(made, "cpu", "resume")
        _, said = second.communicate(timeout=420)
        assert second.returncode == 0, said
        ran = list(machines.kernels)
        most = max_at_once(machines)
    rows = table(made)
    assert len(rows) == 7
    failed = {row["trial"]: row["error"] for row in rows if row["status"] == "failed"}
    assert [row["status"] for row in rows].count("done") == 5, said
    assert "this variant fails" in failed.pop(0)
    assert "accelerator time is used up" in next(iter(failed.values()))
    # Each variant but the refused one ran once, whoever started it.
    numbers = sorted(name.split("-t")[-1].split("-")[0] for name in ran)
    assert numbers == sorted(str(row["trial"]) for row in rows if row["trial"] not in failed), ran
    assert most <= 2
    for row in rows:
        if row["status"] == "done":
            record = json.loads((made.output / "runs" / row["run"] / "record.json").read_text())
            assert [step["place"] for step in record["steps"]] == ["kaggle"]


def max_at_once(machines: Machines) -> int:
    spans = [(one.started, one.ended or float("inf")) for one in machines.sessions if one.started]
    return max(sum(begun <= moment < ended for begun, ended in spans) for moment, _ in spans)


def test_two_trials_share_a_session_with_two_gpus(tmp_path: Path) -> None:
    tiny_competition(tmp_path / "hosted", "tiny-digits", rows=200, test_rows=100, side=8)
    library = fake_nvml.library()
    with Machines(tmp_path / "kaggle", [tmp_path / "hosted"], gpu_library=library) as machines:
        # None of these GPUs computes; the trials go on on the CPU and say so.
        made = project(tmp_path / "here", machines, "ALLOW_CPU=1\n")
        (made.folder / "variants.json").write_text(json.dumps([{"SEED": 1}, {"FAILS": True}, {"SEED": 2}]))
        running = client(made, "t4", "variants.json")
        _, said = running.communicate(timeout=420)
        assert running.returncode == 0, said
        sessions = len(machines.kernels)
        log = "".join(machines.log(ref) for ref in machines.kernels)
    rows = table(made)
    assert [row["status"] for row in rows] == ["done", "failed", "done"], (rows, log)
    assert "this variant fails" in rows[1]["error"]
    assert sessions == 2, "three trials, two a session"
    assert "seven-t0 runs on GPU 0" in log
    assert "seven-t1 runs on GPU 1" in log
