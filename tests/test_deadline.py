"""When a session ends, and signals that ask for a pause: real signals, in processes of their own."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kaggle_workbench.deadline import Deadline, Pause, checkpoint_minutes, paused, process_1_age_s
from kaggle_workbench.places import PLACES, current_place
from kaggle_workbench.settings import Settings, load_settings
from project_tools import ROOT


def settings_in(place: str, **given: object) -> Settings:
    found = next(each for each in PLACES if each.name == place)
    made = load_settings({name.upper(): value for name, value in given.items()}, start=ROOT)
    hours = made.session_hours if "session_hours" in given else found.session_hours
    return dataclasses.replace(made, place=found, session_hours=hours)


@pytest.mark.parametrize(
    ("place", "given", "age_s", "left_h"),
    [
        ("local", {}, 5000.0, None),
        ("container", {}, 5000.0, None),
        ("local", {"session_hours": 2}, 5000.0, 2.0),
        ("kaggle", {}, 3600.0, 11.0),
        ("kaggle", {"session_hours": 9}, 3600.0, 8.0),
        ("colab", {}, 7200.0, 10.0),
        ("kaggle", {}, None, 12.0),
        # The age of another container, or of the machine below it.
        ("kaggle", {}, 13 * 3600.0, 12.0),
    ],
)
def test_a_session_s_end_by_place(
    place: str, given: dict[str, object], age_s: float | None, left_h: float | None
) -> None:
    deadline = Deadline(settings_in(place, **given), age_s=lambda: age_s)
    if left_h is None:
        assert deadline.ends is None
        assert deadline.left_s() == float("inf")
        assert not deadline.due(1e9)
        return
    assert deadline.ends is not None
    assert abs(deadline.left_s() / 3600 - left_h) < 0.01
    assert abs((deadline.ends - datetime.now(UTC)).total_seconds() / 3600 - left_h) < 0.01
    assert not deadline.due(60)
    assert deadline.due(3600 * left_h - 100), "some minutes are kept free for the last upload"
    assert f"{deadline.ends:%H:%M} UTC" in deadline.sentence()


def test_a_slow_store_makes_the_end_come_earlier_and_the_end_comes() -> None:
    settings = settings_in("local", session_hours=1)
    assert not Deadline(settings).due(3000)
    assert Deadline(settings, upload_s=lambda: 900).due(3000)
    short = Deadline(settings_in("local", session_hours="0.0001"))
    time.sleep(0.4)
    assert short.left_s() == 0
    assert short.due()


def test_the_idle_limit_is_said_and_checkpoints_come_more_often() -> None:
    colab = settings_in("colab", checkpoint_minutes=120)
    assert checkpoint_minutes(colab) == 45
    assert "after 90 minutes without a person" in Deadline(colab, age_s=lambda: 0).sentence()
    assert "at least every 45 minutes" in Deadline(colab, age_s=lambda: 0).sentence()
    assert checkpoint_minutes(settings_in("kaggle", checkpoint_minutes=120)) == 10
    assert checkpoint_minutes(settings_in("local", checkpoint_minutes=120)) == 120
    assert Deadline(settings_in("local")).sentence() == ""


def test_kaggle_s_idle_limit_holds_while_a_notebook_is_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    assert (current_place().name, current_place().idle_minutes) == ("kaggle", 20)
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Batch")
    assert (current_place().name, current_place().idle_minutes) == ("kaggle", None)


def test_the_age_of_process_1_is_read_from_the_system(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    (tmp_path / "uptime").write_text("1000.50 3.0\n")
    (tmp_path / "1" / "stat").write_text(f"1 (a (b) c) S {' '.join(['0'] * 18)} {400 * ticks} 0 0\n")
    assert process_1_age_s(tmp_path) == pytest.approx(600.5)
    assert process_1_age_s(tmp_path / "nothing") is None
    assert (process_1_age_s() or 0) > 0


def test_the_sentence_of_a_pause_says_how_to_go_on() -> None:
    error = paused("my-run", "Ctrl-C.", store="s3://bucket/x")
    assert error.exit_code == 1
    assert "./kwb run train --resume my-run" in str(error)
    assert "STORE set to s3://bucket/x" in str(error)


WORK = """
import signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from kaggle_workbench.deadline import Pause
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
pause = Pause(say=lambda text: print(text, flush=True))
with pause:
    with pause:
        print("ready", flush=True)
        try:
            end = time.monotonic() + 20
            while time.monotonic() < end and not (sys.argv[2] == "look" and pause.asked()):
                time.sleep(0.01)
        except KeyboardInterrupt as stop:
            print("at once", stop, flush=True)
    assert not pause.active
print("asked", pause.asked())
assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
"""


def start(mode: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", WORK, str(ROOT / "code"), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM")])
def test_one_signal_asks_two_stop_at_once_and_nothing_is_left_installed(number: int, name: str) -> None:
    child = start("look")
    child.send_signal(number)
    said, _ = child.communicate(timeout=10)
    assert child.returncode == 0, said
    assert f"asked {name}" in said
    assert said.count("saving, then stopping") == 1

    child = start("never")
    child.send_signal(number)
    time.sleep(0.3)
    child.send_signal(signal.SIGTERM)
    said, _ = child.communicate(timeout=10)
    assert child.returncode == 0, said
    assert "at once SIGTERM twice within 5 s" in said


def test_a_request_that_nobody_looked_at_stops_what_comes_next() -> None:
    pause = Pause()
    pause.__enter__()
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        pause.__exit__(None, None, None)
    assert not pause.active
    with pause:
        assert pause.asked() is None, "the next training starts without it"


def test_in_another_thread_nothing_is_taken() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with Pause() as pause:
            seen.append((pause.active, pause.asked(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, None, before)]
