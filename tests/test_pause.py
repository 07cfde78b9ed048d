"""Trainings that are stopped, moved and continued: real processes, a tiny network, and the unbroken run beside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from arena_tools import tiny_competition
from faulty_store import install
from kaggle_workbench import provenance
from kaggle_workbench.stages.kernel import TRAIN_WAIT_S
from project_tools import ROOT, Project, make_project

pytestmark = pytest.mark.slow

EPOCHS = 12
SLOW = "__import__('time').sleep(0.1)"


def project(folder: Path, env: Mapping[str, str] | None = None) -> Project:
    """A project whose training takes a few seconds, on any machine."""
    made = make_project(folder, env={"TF_NUM_INTRAOP_THREADS": "1", "TMPDIR": str(folder / "tmp"), **(env or {})})
    (folder / "tmp").mkdir()
    tiny_competition(made.hosted, "tiny-digits", rows=200, test_rows=100, side=8)
    (made.folder / "variables.env").write_text(f"COMPETITION=tiny-digits\nSOURCE=practice\nEPOCHS={EPOCHS}\n")
    notebook = made.folder / "code" / "02-train.ipynb"
    text = notebook.read_text()
    head = '"def augment(batch, random):\\n",\n'
    slow = text.replace(head, f'{head}    "    {SLOW}\\n",\n')
    assert slow != text
    notebook.write_text(slow)
    return made


@dataclass
class Running:
    """A `kwb` at work, and what it has said so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, project: Project, *words: str, **env: str) -> Running:
        """Start `kwb`, as a terminal does: in a process group of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "kaggle_workbench", *words],
            cwd=project.folder,
            env={**project.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        running = cls(process)
        threading.Thread(target=running._read, daemon=True).start()
        return running

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self.lines.append(line.rstrip("\n"))

    def wait_for(self, text: str, timeout_s: float = 120) -> None:
        """Wait until a line holds `text`."""
        end = time.monotonic() + timeout_s
        while not any(text in line for line in list(self.lines)):
            assert time.monotonic() < end, f"{text!r} was not said:\n{self.said()}"
            assert self.process.poll() is None, f"ended before {text!r}:\n{self.said()}"
            time.sleep(0.02)

    def end(self, timeout_s: float = 120) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(timeout_s)
        time.sleep(0.1)
        return code

    def said(self) -> str:
        return "\n".join(self.lines)


def epoch(number: int) -> str:
    return f" {number}/{EPOCHS} "


def record(project: Project, run: str) -> dict[str, Any]:
    return dict(json.loads((project.output / "runs" / run / "record.json").read_text()))


def history(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in record["history"]]


def steps(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(step["stage"], step["status"]) for step in record["steps"]]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with one unbroken run, named "whole"."""
    made = project(tmp_path_factory.mktemp("here"))
    done = made.kwb("run", "train", "--set", "RUN_ID=whole")
    assert done.returncode == 0, done.stderr
    return made


def assert_same_result(one: Project, run: str, whole: Project) -> None:
    assert history(record(one, run)) == history(record(whole, "whole"))
    files = [
        (each.output / "runs" / name / "submission.csv").read_bytes() for each, name in ((one, run), (whole, "whole"))
    ]
    assert files[0] == files[1]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="kwb test "))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def as_someone_else(project: Project) -> Project:
    """The same project, owned and run by another user, where this one may do that."""
    python = shutil.which(f"python3.{sys.version_info[1]}", path="/usr/bin:/usr/local/bin")
    if os.geteuid() != 0 or python is None:
        return project
    home = project.folder.parent
    # This environment's Python may lie where others cannot go; its packages are shared with one that does not.
    subprocess.run([python, "-m", "venv", "--without-pip", str(home / "venv")], check=True)
    packages = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    next((home / "venv").glob("lib/*/site-packages")).joinpath("shared.pth").write_text(f"{packages}\n")
    (home / "venv" / "share").symlink_to(Path(sys.prefix) / "share")
    subprocess.run(["chown", "-R", "65534:65534", str(home)], check=True)
    words = f"exec setpriv --reuid=65534 --regid=65534 --clear-groups '{home}/venv/bin/python'"
    shim = home / "python-as-nobody"
    shim.write_text(f'#!/bin/sh\n{words} "$@"\n')
    shim.chmod(0o755)
    return replace(project, env=project.env | {"KWB_TEST_PYTHON": str(shim)})


def kwb(project: Project, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`kwb` in a project that may be another user's."""
    return subprocess.run(
        [project.env.get("KWB_TEST_PYTHON", sys.executable), "-m", "kaggle_workbench", *words],
        cwd=project.folder,
        env={**project.env, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_paused_by_ctrl_c_and_continued_in_another_place_by_another_user(here: Project, open_folder: Path) -> None:
    store = open_folder / "a store"
    store.mkdir(mode=0o777)
    store.chmod(0o777)
    temporary = open_folder / "temporary"
    temporary.mkdir()
    words = ("run", "data", "train", "submit", "--set", "RUN_ID=moved-on")
    running = Running.start(here, *words, STORE=str(store), TMPDIR=str(temporary))
    running.wait_for(epoch(3))
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 1, running.said()
    assert "./kwb run train --resume moved-on" in running.said()
    assert "Traceback" not in running.said()
    paused = record(here, "moved-on")
    assert steps(paused) == [("data", "done"), ("train", "paused")]
    assert paused["status"] == "paused"
    assert paused["steps"][-1]["error"]["kind"] == "PausedError"
    assert (here.output / "runs" / "moved-on" / "02-train.ipynb").is_file()
    assert json.loads((store / "moved-on" / "record.json").read_text()) == paused
    assert (store / "moved-on" / paused["checkpoint"]["file"]).is_file()
    assert list(temporary.iterdir()) == []

    (open_folder / "there").mkdir()
    there = project(open_folder / "there")
    # Settings of the other place that would give another result; the run's own are taken.
    (there.folder / "variables.env").write_text("COMPETITION=digit-recognizer\nEPOCHS=99\nSEED=7\n")
    there = as_someone_else(there)
    unknown = kwb(there, "run", "--resume", "nothing-such", STORE=str(store))
    assert unknown.returncode == 2, unknown.stderr
    assert "nor in the store" in unknown.stderr
    other = kwb(there, "run", "--resume", "moved", "--competition", "digit-recognizer", STORE=str(store))
    assert other.returncode == 2, other.stderr
    assert "belongs to tiny-digits" in other.stderr
    done = kwb(there, "run", "--resume", "moved", STORE=str(store))
    assert done.returncode == 0, done.stderr
    assert "EPOCHS is 12, as in the run so far, not 99 (variables.env)" in done.stderr
    # Within an epoch: "after step 2 of epoch 4".
    saved = paused["checkpoint"]
    place = f"step {saved['step']} of epoch {saved['epoch'] + 1}" if saved["step"] else f"epoch {saved['epoch']}"
    assert f"goes on after {place} (12 in all" in done.stderr
    assert_same_result(there, "moved-on", here)
    ended = record(there, "moved-on")
    assert steps(ended) == [*steps(paused), ("train", "done"), ("submit", "done")]
    if os.geteuid() == 0:
        assert (there.output / "runs" / "moved-on" / "record.json").stat().st_uid == there.folder.stat().st_uid
    assert ended["uid"] == paused["uid"]
    assert ended["lb"]["public"] is not None
    again = kwb(there, "run", "--resume", "moved-on", STORE=str(store))
    assert again.returncode == 0
    assert "Nothing is left to do" in again.stderr

    # Back here: the store's copy goes on from the one here, and a finished training is not trained again.
    back = here.kwb("run", "train", "--set", "RUN_ID=moved-on", STORE=str(store))
    assert back.returncode == 0, back.stderr
    assert epoch(EPOCHS) not in back.stderr
    assert_same_result(here, "moved-on", here)
    assert record(here, "moved-on")["submission"] == ended["submission"]
    # In a third place nothing is here, and `submit` finds what was trained last.
    (open_folder / "third").mkdir()
    third = project(open_folder / "third")
    sent = third.kwb("run", "submit", STORE=str(store))
    assert sent.returncode == 0, sent.stderr
    assert "Run moved-on: submit" in sent.stderr
    assert not (third.output / "runs" / "moved-on" / "checkpoints").exists()


def test_a_session_that_is_cut_off_goes_on_elsewhere_from_its_store(here: Project, tmp_path: Path) -> None:
    store = tmp_path / "store"
    running = Running.start(here, "run", "train", "--set", "RUN_ID=cut-off", STORE=str(store))
    running.wait_for(epoch(4))
    end = time.monotonic() + 30
    while not list(store.glob("cut-off/checkpoints/epoch-*")):
        assert time.monotonic() < end
        time.sleep(0.05)
    kernel = record(here, "cut-off")["steps"][-1]["process"]["pid"]
    os.kill(kernel, signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    # What is on another machine is what the store holds.
    shutil.rmtree(here.output / "runs" / "cut-off")
    done = here.kwb("run", "train", "--resume", "cut-off", STORE=str(store))
    assert done.returncode == 0, done.stderr
    assert "goes on after " in done.stderr
    assert_same_result(here, "cut-off", here)
    assert steps(record(here, "cut-off")) == [("train", "failed"), ("train", "done")]


def test_stopped_in_every_way_and_continued_to_the_same_end(here: Project) -> None:
    # Twice within 5 s: at once, without saving more.
    running = Running.start(here, "run", "train", "--set", "RUN_ID=hard")
    running.wait_for(epoch(2))
    running.process.send_signal(signal.SIGINT)
    time.sleep(0.4)
    began = time.monotonic()
    running.process.send_signal(signal.SIGINT)
    code = running.end()
    assert code in (1, 130), running.said()
    # Asked once, it would be waited for twice as long.
    assert time.monotonic() - began < TRAIN_WAIT_S / 2
    assert "Traceback" not in running.said()

    # SIGTERM; the same RUN_ID goes on by itself.
    running = Running.start(here, "run", "train", "--set", "RUN_ID=hard")
    running.wait_for(epoch(4))
    running.process.send_signal(signal.SIGTERM)
    assert running.end() == 1, running.said()
    assert "goes on after " in running.said()
    assert record(here, "hard")["status"] == "paused"

    # The session's end, counted from the step's start.
    done = here.kwb("run", "train", "--resume", "hard", "--set", "SESSION_HOURS=0.002")
    assert done.returncode == 1, done.stderr
    assert "The session ends soon" in done.stderr
    assert "This session is counted as 0.002 hours" in done.stderr
    assert len(record(here, "hard")["history"]) < EPOCHS

    # kwb itself is killed: its kernel ends by itself, and the record says so.
    running = Running.start(here, "run", "train", "--resume", "har")
    running.wait_for("goes on after ")
    time.sleep(0.5)
    process = record(here, "hard")["steps"][-1]["process"]
    running.process.kill()
    running.process.wait()
    end = time.monotonic() + 20
    while provenance.is_gone(process) is False:
        assert time.monotonic() < end, "the kernel outlived kwb"
        time.sleep(0.2)
    listed = json.loads(here.kwb("runs", "--format", "json").stdout)
    assert next(row["status"] for row in listed if row["run"] == "hard") == "died"

    done = here.kwb("run", "train", "--resume", "hard")
    assert done.returncode == 0, done.stderr
    assert_same_result(here, "hard", here)
    ended = record(here, "hard")
    assert [status for _, status in steps(ended)][1:] == ["paused", "paused", "failed", "done"]
    assert "without a last word" in ended["steps"][3]["error"]["message"]


def test_jupyter_s_stop_button_pauses_and_the_cell_goes_on(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_client.manager import start_new_kernel

    for name in [name for name in os.environ if name.startswith("KAGGLE_")]:
        monkeypatch.delenv(name)
    notebook = json.loads((here.folder / "code" / "02-train.ipynb").read_text())
    sources = {c["id"]: "".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"}
    sources["parameters"] = sources["parameters"].replace("RUN_ID = None", "RUN_ID = 'stopped'")
    fit = next(name for name, text in sources.items() if "model.fit(" in text)
    names = list(sources)
    manager, client = start_new_kernel(
        kernel_name="python3", cwd=str(here.folder / "code"), env=here.env, extra_arguments=["--log-level=CRITICAL"]
    )
    said: list[str] = []

    def hook(message: dict[str, Any]) -> None:
        content = message["content"]
        said.append(str(content.get("text") or content.get("data", {}).get("text/plain") or ""))

    def run(text: str) -> dict[str, Any]:
        return dict(client.execute_interactive(text, output_hook=hook, timeout=180)["content"])

    try:
        for name in names[: names.index(fit)]:
            answer = run(sources[name])
            assert answer["status"] == "ok", answer

        def stop() -> None:
            end = time.monotonic() + 120
            while f" 2/{EPOCHS} " not in said[-1] and time.monotonic() < end:
                time.sleep(0.02)
            manager.interrupt_kernel()

        threading.Thread(target=stop, daemon=True).start()
        answer = run(sources[fit])
        assert (answer["status"], answer["ename"]) == ("error", "PausedError"), answer
        assert len(answer["traceback"]) <= 5
        assert record(here, "stopped")["status"] == "paused"
        # Nothing is left installed: the next stop is a plain one.
        answer = run("import signal, time\nassert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\ntime.sleep(0)")
        assert answer["status"] == "ok", answer
        for name in names[names.index(fit) :]:
            answer = run(sources[name])
            assert answer["status"] == "ok", answer
        assert any("goes on after " in text for text in said)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert record(here, "stopped")["status"] == "done"
    assert_same_result(here, "stopped", here)


def test_ctrl_c_outside_a_training_stops_cleanly(here: Project, tmp_path: Path) -> None:
    runs = here.output / "runs"
    # The first moment is that of papermill's import.
    moments = [("Run ", 0.0), ("== 01-data", 0.0), ("== 01-data", 0.7), ("== 01-data", 1.4)]
    for number, (text, wait_s) in enumerate(moments):
        before = set(runs.iterdir())
        running = Running.start(here, "run", "data", TMPDIR=str(tmp_path))
        running.wait_for(text)
        time.sleep(wait_s)
        running.process.send_signal(signal.SIGTERM if number % 2 == 0 else signal.SIGINT)
        # An interrupt that meets Python in an `exec` of text (namedtuple, while papermill is imported) makes it end by
        # the signal, though the interrupt was handled; a shell calls both 130.
        assert running.end(30) in (130, -signal.SIGINT), running.said()
        assert "Traceback" not in running.said()
        assert running.lines[-1] == "kwb: stopped."
        assert list(tmp_path.iterdir()) == []
        for new in set(runs.iterdir()) - before:
            assert record(here, new.name)["status"] == "failed"


@pytest.mark.parametrize("address", ["faulty://me:hunter2secret@store", "hanging://store"])
def test_a_training_ends_well_whatever_its_store_does(here: Project, tmp_path: Path, address: str) -> None:
    path = os.pathsep.join((here.env["PYTHONPATH"], str(ROOT / "tests"), str(install(tmp_path / "plugin"))))
    run = address.partition(":")[0]
    began = time.monotonic()
    done = here.kwb("run", "train", "--set", f"RUN_ID={run}", STORE=address, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 240
    assert "hunter2" not in done.stderr + (here.output / "runs" / run / "record.json").read_text()
    assert_same_result(here, run, here)
    facts = record(here, run)["steps"][-1]["store"]
    if run == "faulty":
        assert facts["missing"] == []
        assert facts["problems"] > 1
    else:
        assert f"{run}/submission.csv" in facts["missing"]
        assert "All of it stands in" in done.stderr
        assert done.stderr.count("no answer within") <= 8
