"""`kwb push` and `kwb pull` against the stand-in for Kaggle's machines, through the real client."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arena_tools import tiny_competition
from kaggle_machines import Machines, why_not
from kaggle_machines.talk import save
from kaggle_workbench.remote.machines import MACHINES, machine
from kaggle_workbench.remote.push import slug_of
from project_tools import Project, make_project

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

EPOCHS = 30
# Slow enough to be cut between two epochs; there so slow that a session of 49 s ends long before the training.
SLOW = "__import__('time').sleep(1.0 if __import__('os').environ.get('KAGGLE_KERNEL_RUN_TYPE') else 0.1)"
# Refusals of a push that the service makes, each with the words that must be told.
REFUSED = {
    "gpu-sessions": "2 GPU sessions run already",
    "gpu-quota": "accelerator time is used up",
    "cpu-sessions": "5 CPU sessions run already",
    "slug-burnt": "does not take this notebook's name",
    "push-denied": "does not let this account do that",
    "image-denied": "does not let this account do that",
    "invalid-competition": "does not know some sources of this notebook (competitions: missing)",
    "invalid-dataset": "does not know some sources of this notebook (datasets: tester/missing)",
    "unknown-competition": "You have not joined tiny-digits yet",
    "competition-gone": "is not there (any more)",
}


def project(folder: Path, machines: Machines, **env: str) -> Project:
    """A project of a competitor of the stand-in, with a training of a few seconds."""
    # Threads as there: sums in another order end in other last digits.
    base = {"TMPDIR": str(folder / "tmp"), "CUDA_VISIBLE_DEVICES": ""}
    made = make_project(folder, env={**base, **machines.variables(), **env})
    (folder / "tmp").mkdir()
    (made.folder / "variables.env").write_text(f"COMPETITION=tiny-digits\nSOURCE=kaggle\nEPOCHS={EPOCHS}\n")
    notebook = made.folder / "code" / "02-train.ipynb"
    head = '"def augment(batch, random):\\n",\n'
    text = notebook.read_text()
    assert head in text
    notebook.write_text(text.replace(head, f'{head}    "    {SLOW}\\n",\n'))
    return made


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosted")
    tiny_competition(folder, "tiny-digits", rows=200, test_rows=100, side=8)
    rules = {"text": "Fair.", "acceptance_required": True}
    tiny_competition(folder, "tiny-rules", rows=40, test_rows=20, side=8, rules=rules)
    tiny_competition(folder, "tiny-code", rows=200, test_rows=20, side=8, notebooks_only=True)
    return folder


@pytest.fixture
def machines(tmp_path: Path, hosted: Path) -> Iterator[Machines]:
    with Machines(tmp_path / "kaggle", [hosted]) as started:
        yield started


def pushes(project: Project) -> list[dict[str, Any]]:
    return [one for file in project.output.glob("runs/*/pushes.json") for one in json.loads(file.read_text())]


# --- Nothing is sent ---


def test_a_dry_run_tells_all_and_sends_nothing(tmp_path: Path, machines: Machines) -> None:
    made = project(tmp_path / "here", machines)
    done = made.kwb("push", "train", "--set", "EPOCHS=3", "--dry-run")
    assert done.returncode == 0, done.stderr
    for words in ("2 GPUs T4", "at most 11.9 h", "internet off", "Quota: 30.0 h", "nothing was sent"):
        assert words in done.stderr, done.stderr
    assert machines.changes() == []
    assert pushes(made) == []
    assert not list(made.output.glob("runs/*"))


def test_what_stands_against_a_push_is_told_before_anything_is_sent(tmp_path: Path, machines: Machines) -> None:
    made = project(tmp_path / "here", machines)
    machines.spend("gpu", 30 * 3600 - 60)
    cases: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
        (("train",), {"SOURCE": "practice"}, 4, "which Kaggle's machines cannot see"),
        (("train", "--competition", "tiny-rules"), {}, 4, "The rules of tiny-rules are not accepted"),
        (("train", "--competition", "tiny-code", "--internet"), {}, 4, "ran without the internet"),
        (("train",), {}, 4, "min of this week's GPU time are left"),
        (("data",), {}, 2, "has no use on Kaggle's machines"),
        (("train", "--machine", "p100"), {}, 2, "It was retired; t4 takes its place"),
        (("train", "--code", "git"), {}, 2, "needs the internet"),
        (("train", "--set", "EPOCH=3"), {}, 2, "is no setting"),
        (("train", "--resume", "nothing"), {}, 2, "There is no run 'nothing'"),
    ]
    for words, env, code, said in cases:
        done = made.kwb("push", *words, **env)
        assert (done.returncode, said in done.stderr) == (code, True), (words, done.stderr)
    assert machines.changes() == []
    assert pushes(made) == []


def test_every_refusal_has_a_sentence_of_its_own_and_starts_nothing(tmp_path: Path, machines: Machines) -> None:
    made = project(tmp_path / "here", machines)
    for name, said in REFUSED.items():
        machines.refuse(name)
        words = ("--machine", "cpu") if name == "cpu-sessions" else ()
        done = made.kwb("push", "train", *words)
        assert done.returncode == (2 if name == "competition-gone" else 4), (name, done.stderr)
        assert said in " ".join(done.stderr.split()), (name, done.stderr)
        assert "Traceback" not in done.stderr
        machines.accept_all()
    assert machines.kernels == {}, "what was taken with unknown sources was taken back"
    assert {one["status"] for one in pushes(made)} == {"refused"}


@pytest.mark.parametrize("name", ["push-html-done", "push-500-done"])
def test_a_push_whose_answer_cannot_be_read_is_looked_for_and_not_sent_again(
    tmp_path: Path, machines: Machines, name: str
) -> None:
    made = project(tmp_path / "here", machines)
    machines.refuse(name, times=1)
    done = made.kwb("push", "train", "--machine", "cpu")
    assert done.returncode == 0, done.stderr
    assert len(machines.calls("SaveKernel")) == len(machines.kernels) == 1


# --- Sessions ---


def test_a_session_too_many_is_waited_for_here(tmp_path: Path, hosted: Path) -> None:
    with Machines(tmp_path / "kaggle", [hosted], sessions={"cpu": 1}) as machines:
        made = project(tmp_path / "here", machines)
        save(machines, "other-one", cell="import time; time.sleep(6)", machineShape="None")
        refused = made.kwb("push", "train", "--machine", "cpu")
        assert (refused.returncode, "1 CPU session runs already" in refused.stderr) == (4, True), refused.stderr
        script = (
            "from kaggle_workbench.remote.push import push\n"
            "push('train', machine_name='cpu', wait_hours=0.02, poll_s=1)\n"
        )
        done = run_python(made, script)
        assert done.returncode == 0, done.stderr
        assert "Waiting for one to end" in done.stderr
        # Both may stand in one second.
        assert sorted(one["status"] for one in pushes(made)) == ["refused", "running"]


def run_python(project: Project, script: str) -> Any:
    import subprocess
    import sys

    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=project.folder,
        env=project.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_machines_are_named_to_the_letter() -> None:
    assert machine("T4").shape == machine("nvidiateslat4").shape == "NvidiaTeslaT4"
    assert machine("cpu").shape == "None"
    assert {one.kind for one in MACHINES.values()} == {"cpu", "gpu"}
    names = {slug_of("20261201-093000-digit-recognizer") for _ in range(20)}
    assert len(names) == 20, "each push has a name of its own"
    assert all(5 <= len(name) <= 50 for name in names)


# --- There and back ---


def record(project: Project, run: str) -> dict[str, Any]:
    return dict(json.loads((project.output / "runs" / run / "record.json").read_text()))


def history(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in record["history"]]


@pytest.mark.slow
def test_a_run_goes_on_there_and_back_as_if_it_had_never_moved(tmp_path: Path, machines: Machines) -> None:
    """Three epochs here, killed; pushed, cut there by the session's end; pulled, and finished here."""
    from test_pause import Running

    made = project(tmp_path / "here", machines)
    whole = made.kwb("run", "data", "train", "--set", "RUN_ID=whole", "--set", "GPU_COUNT=0")
    assert whole.returncode == 0, whole.stderr

    running = Running.start(made, "run", "train", "--set", "RUN_ID=away", "--set", "GPU_COUNT=0")
    running.wait_for(f" 3/{EPOCHS} ")
    running.process.kill()
    running.end()
    kernels_here = [step["process"]["pid"] for step in record(made, "away")["steps"]]
    for pid in kernels_here:
        kill(pid)
    before = len(record(made, "away")["history"])
    assert 3 <= before < EPOCHS

    pushed = made.kwb("push", "train", "--resume", "away", "--machine", "cpu", "--set", "SESSION_HOURS=0.0135")
    assert pushed.returncode == 0, pushed.stderr
    pulled = made.kwb("pull", "away", "--wait-hours", "0.1")
    assert pulled.returncode == 0, pulled.stderr + machines.log(next(iter(machines.kernels)))
    there = record(made, "away")
    assert before < len(there["history"]) < EPOCHS, pulled.stderr
    assert there["steps"][-1]["status"] == "paused"

    done = made.kwb("run", "train", "--resume", "away", "--set", "GPU_COUNT=0")
    assert done.returncode == 0, done.stderr
    final = record(made, "away")
    assert history(final) == history(record(made, "whole"))
    assert [step["place"] for step in final["steps"] if step["stage"] == "train"] == ["local", "kaggle", "local"]
    files = [made.output / "runs" / name / "submission.csv" for name in ("away", "whole")]
    assert files[0].read_bytes() == files[1].read_bytes()


def kill(pid: int) -> None:
    import contextlib
    import os
    import signal

    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_new_run_is_trained_there_and_submitted_from_here(tmp_path: Path, machines: Machines) -> None:
    made = project(tmp_path / "here", machines)
    pushed = made.kwb("push", "train", "--machine", "cpu", "--set", "EPOCHS=1", "--set", "RUN_ID=fresh")
    assert pushed.returncode == 0, pushed.stderr
    pulled = made.kwb("pull", "fre", "--wait-hours", "0.1")
    assert pulled.returncode == 0, pulled.stderr
    assert "places: kaggle" in pulled.stderr
    for words, code, said in (
        (("--set", "RUN_ID=fresh"), 2, "There is a run fresh already"),
        (("--resume", "fresh"), 2, "The training of run fresh is finished"),
    ):
        again = made.kwb("push", "train", "--machine", "cpu", *words)
        assert (again.returncode, said in again.stderr) == (code, True), again.stderr
    assert len(machines.calls("SaveKernel")) == 1
    found = record(made, "fresh")
    assert (found["steps"][0]["place"], found["cv"]["metric"], len(found["history"])) == ("kaggle", "accuracy", 1)
    sent = made.kwb("run", "submit", "--set", "RUN_ID=fresh", "--set", "SUBMIT=true")
    assert sent.returncode == 0, sent.stderr
    assert record(made, "fresh")["lb"]["public"] is not None


@pytest.mark.slow
def test_what_comes_back_is_verified_and_a_session_without_a_result_is_no_success(
    tmp_path: Path, machines: Machines
) -> None:
    made = project(tmp_path / "here", machines)
    pushed = made.kwb("push", "train", "--machine", "cpu", "--set", "EPOCHS=1", "--set", "RUN_ID=one")
    assert pushed.returncode == 0, pushed.stderr
    ref = next(iter(machines.kernels))
    machines.wait(ref, 120)
    submission = machines.working(ref) / "runs" / "one" / "submission.csv"
    kept = submission.read_bytes()
    submission.write_bytes(kept[:-1] + b"9")
    damaged = made.kwb("pull", "one")
    assert (damaged.returncode, "came back damaged" in damaged.stderr) == (1, True), damaged.stderr
    assert not (made.output / "runs" / "one" / "record.json").exists()
    submission.write_bytes(kept)
    machines.refuse("output-expired", times=1)
    assert made.kwb("pull", "one").returncode == 0
    shutil.rmtree(made.output / "runs" / "one")

    pushed = made.kwb("push", "train", "--machine", "cpu", "--set", "EPOCHS=500", "--set", "RUN_ID=two")
    assert pushed.returncode == 0, pushed.stderr
    ref = next(name for name in machines.kernels if "two" in name)
    machines.wait_for_log(ref, "steps an epoch", 120)
    twice = made.kwb("push", "train", "--machine", "cpu", "--set", "RUN_ID=two")
    assert (twice.returncode, "was pushed already, and is not back" in twice.stderr) == (4, True), twice.stderr
    machines.kill(ref)
    lost = made.kwb("pull", "two")
    assert lost.returncode == 1
    assert "exceeded the max allowed execution duration" in lost.stderr, lost.stderr
    assert "left no result" in lost.stderr


# --- Code competitions, and the rest of the protocol's refusals ---

# Refusals while a run that goes on is sent; nothing was started by any of them.
SENDING = {
    "dataset-denied": "does not let this account do that",
    "dataset-error": "The dataset title is taken",
    "dataset-failed": "",
    "blob-refused": "does not let this account do that",
    "upload-refused": "did not get through",
}
FETCHING = {
    "kernel-denied": (4, "does not let this account do that"),
    "kernel-gone": (2, "does not know what was asked for"),
    "bad-token": (3, "does not accept your credentials"),
    "out-of-order": (3, "is out of order at the moment"),
}


@pytest.mark.slow
def test_a_finished_push_of_a_code_competition_is_submitted_or_the_page_is_told(
    tmp_path: Path, machines: Machines
) -> None:
    made = project(tmp_path / "here", machines)
    words = ("--competition", "tiny-code", "--machine", "cpu", "--set", "EPOCHS=1", "--set", "RUN_ID=code")
    assert made.kwb("push", "train", *words).returncode == 0
    early = made.kwb("push", "submit", "--resume", "code")
    assert early.returncode in (2, 4), early.stderr
    for name, (code, said) in FETCHING.items():
        machines.refuse(name)
        done = made.kwb("pull", "code")
        assert (done.returncode, said in done.stderr) == (code, True), (name, done.stderr)
        assert "Traceback" not in done.stderr
        machines.accept_all()
    assert made.kwb("pull", "code").returncode == 0
    machines.forget_calls()
    dry = made.kwb("push", "submit", "--resume", "code", "--dry-run")
    assert (dry.returncode, machines.changes()) == (0, []), dry.stderr
    for name, said in {
        "code-submission-denied": "Press 'Submit to competition' at",
        "wrong-accelerator": "does not allow; nothing was submitted",
        "daily-limit": "Today's submissions to tiny-code are used up",
        "submissions-closed": "takes no submissions any more",
        "rules-submit": "The rules of tiny-code are not accepted",
    }.items():
        machines.refuse(name)
        done = made.kwb("push", "submit", "--resume", "code")
        assert (done.returncode, said in done.stderr) == (4, True), (name, done.stderr)
        machines.accept_all()
    sent = made.kwb("push", "submit", "--resume", "code", "-m", "first")
    assert sent.returncode == 0, sent.stderr
    assert len(machines.calls("CreateCodeSubmission")) >= 1
    assert record(made, "code")["submission"]["ref"] > 0


@pytest.mark.slow
def test_refusals_while_a_run_is_sent_start_nothing(tmp_path: Path, machines: Machines) -> None:
    made = project(tmp_path / "here", machines)
    done = made.kwb("run", "data", "train", "--set", "RUN_ID=held", "--set", "EPOCHS=1", "--set", "GPU_COUNT=0")
    assert done.returncode == 0, done.stderr
    for name, said in SENDING.items():
        machines.refuse(name)
        done = made.kwb("push", "train", "--resume", "held", "--machine", "cpu", "--set", "EPOCHS=2")
        assert done.returncode == (3 if name == "upload-refused" else 4), (name, done.stderr)
        assert said in done.stderr, (name, done.stderr)
        assert "Traceback" not in done.stderr
        machines.accept_all()
    assert machines.calls("SaveKernel") == []
    assert machines.kernels == {}


@pytest.mark.slow
def test_a_package_that_the_image_lacks_travels_as_a_wheel(tmp_path: Path, hosted: Path) -> None:
    with Machines(tmp_path / "kaggle", [hosted], hide=("humanize",)) as machines:
        made = project(tmp_path / "here", machines)
        notebook = made.folder / "code" / "02-train.ipynb"
        document = json.loads(notebook.read_text())
        cell = next(one for one in document["cells"] if one["id"] == "preprocess")
        cell["source"] = ["import humanize\nprint('humanize is', humanize.__name__)\n", *cell["source"]]
        notebook.write_text(json.dumps(document))
        words = ("--machine", "cpu", "--set", "EPOCHS=1", "--set", "RUN_ID=rare")
        dry = made.kwb("push", "train", *words, "--dry-run")
        assert "Kaggle's image lacks humanize: --wheels sends it along" in dry.stderr, dry.stderr
        pushed = made.kwb("push", "train", *words, "--wheels")
        assert pushed.returncode == 0, pushed.stderr
        pulled = made.kwb("pull", "rare")
        assert pulled.returncode == 0, pulled.stderr
        assert "Installed from tester/kwb-wheels-humanize: humanize" in machines.log(next(iter(machines.kernels)))
