"""TensorBoard: event files that TensorBoard itself reads, after kills, in other places, on all three backends."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from browser_tools import chromium
from kaggle_workbench.records import Run

ROOT = Path(__file__).resolve().parent.parent

# One training of a tiny network in a process of its own; "kill" ends it in the middle of an epoch as `kill -9` does.
TRAINING = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
import keras, numpy as np
from kaggle_workbench import training
from kaggle_workbench.callbacks.boards import ScalarLog
from kaggle_workbench.callbacks.recorder import Recorder
from kaggle_workbench.records import Run

folder, first, epochs, kill = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])

class Kill(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == kill:
            os._exit(9)

# Not keras.utils.set_random_seed: it imports TensorFlow whatever the backend is.
start = keras.initializers.GlorotUniform(seed=1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, activation="softmax", kernel_initializer=start)])
rate = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=2, decay_rate=0.5)
model.compile(optimizer=keras.optimizers.SGD(rate), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
random = np.random.default_rng(0)
inputs, targets = random.random((64, 4), dtype="float32"), random.integers(0, 2, 64)
options = {"epochs": epochs, "validation_data": (inputs, targets), "verbose": 0}
if first >= 0:
    callbacks = [Recorder(Run(folder)), ScalarLog(folder), Kill()]
    model.fit(inputs, targets, batch_size=32, initial_epoch=first, callbacks=callbacks, **options)
else:
    batches = training.Batches(inputs, targets, 32)
    stage = SimpleNamespace(run=Run(folder))
    model.fit(batches, callbacks=[*training.callbacks(stage, batches), Kill()], **options)
print("tensorflow" in sys.modules)
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path, stage="train", competition="digits", source="practice", run_id="mine")


def train(run: Run, first: int = 0, epochs: int = 3, *, kill: int = -1, backend: str = "tensorflow") -> str:
    """Train, and return whether TensorFlow was imported ("True") or "killed"; a negative `first` resumes by itself."""
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, str(run.folder), str(first), str(epochs), str(kill)],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT / "code"), "TF_NUM_INTRAOP_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == (9 if kill >= 0 else 0), done.stderr
    return "killed" if kill >= 0 else done.stdout.split()[-1]


def curves(run: Run, part: str) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard's own reader finds: per name, steps and values."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(run.folder / "tensorboard" / part))
    found.Reload()
    tags = found.Tags()["scalars"]
    assert all(tag.startswith("epoch/") for tag in tags)
    return {tag[6:]: [(one.step, one.value) for one in found.Scalars(tag)] for tag in tags}


def assert_like_the_record(run: Run) -> None:
    history = run.read()["history"]
    train_curves, dev_curves = curves(run, "train"), curves(run, "dev")
    assert set(dev_curves) == {"loss", "accuracy"}
    assert set(train_curves) == {*dev_curves, "learning_rate", "seconds"}
    for name in ("loss", "accuracy"):
        for found, key in ((train_curves, name), (dev_curves, f"val_{name}")):
            assert [step for step, _ in found[name]] == [entry["epoch"] for entry in history]
            assert [value for _, value in found[name]] == pytest.approx([entry[key] for entry in history])


@pytest.mark.parametrize(
    "backend",
    ["tensorflow", pytest.param("jax", marks=pytest.mark.slow), pytest.param("torch", marks=pytest.mark.slow)],
)
def test_every_backend_and_a_kill_in_an_epoch(run: Run, backend: str) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    assert train(run, epochs=6, kill=2, backend=backend) == "killed"
    assert_like_the_record(run)
    assert [step for step, _ in curves(run, "train")["loss"]] == [1, 2]
    # The kill came while a record was being written.
    newest = max((run.folder / "tensorboard" / "train").iterdir())
    newest.write_bytes(newest.read_bytes() + b"\x40\x00\x00")
    imported = train(run, first=2, epochs=4, backend=backend)
    assert imported == str(backend == "tensorflow"), "only Keras itself may import TensorFlow"
    assert_like_the_record(run)
    found = curves(run, "train")
    assert [step for step, _ in found["loss"]] == [1, 2, 3, 4]
    # Two steps an epoch and a rate that halves every two steps; those before the kill come from the old file.
    first, second, third, fourth = (rate for _, rate in found["learning_rate"])
    assert (second / first, fourth / third) == pytest.approx((0.5, 0.5))
    assert len(list((run.folder / "tensorboard").glob("*/*"))) == 2


def test_in_another_place_and_a_training_begun_anew(run: Run) -> None:
    train(run, epochs=3)
    shutil.rmtree(run.folder / "tensorboard")
    # The record came along, the event files did not.
    train(run, first=2, epochs=4)
    history = run.read()["history"]
    assert [entry["epoch"] for entry in history] == [1, 2, 3, 4]
    for part, key in (("train", "loss"), ("dev", "val_loss")):
        found = curves(run, part)["loss"]
        assert [step for step, _ in found] == [1, 2, 3, 4]
        assert [value for _, value in found] == pytest.approx([entry[key] for entry in history])
    others = run.folder / "tensorboard" / "train" / "events.out.tfevents.1.of-the-user"
    others.write_bytes(b"")
    run.update(history=[])
    train(run, epochs=2)
    assert_like_the_record(run)
    assert others.exists()


def test_files_that_cannot_be_written_are_said_once_and_stop_nothing(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    from kaggle_workbench.callbacks.boards import ScalarLog

    log = ScalarLog(run.folder)
    obstacle = run.folder / "tensorboard"
    obstacle.write_text("a file where a folder should be")
    log.on_train_begin()
    for epoch in range(3):
        log.on_epoch_begin(epoch)
        if epoch == 2:
            obstacle.unlink()
        numbers = {"loss": 1.0 - epoch, "val_loss": float("nan")}
        run.update(history=[*run.read()["history"], {"epoch": epoch + 1, "seconds": 1.0, "loss": 1.0 - epoch}])
        log.on_epoch_end(epoch, numbers)
    log.on_train_end()
    said = capsys.readouterr().err
    assert said.count("Warning:") == 1
    assert "training goes on" in said
    # Now that it can be written, nothing is missing; what is no number is left out.
    assert curves(run, "train")["loss"] == [(1, 1.0), (2, 0.0), (3, -1.0)]
    assert not (obstacle / "dev").exists()


def test_learning_rates_come_along_with_a_checkpoint(run: Run) -> None:
    assert train(run, first=-1, epochs=4, kill=2) == "killed"
    before = curves(run, "train")["learning_rate"]
    shutil.rmtree(run.folder / "tensorboard")
    train(run, first=-1, epochs=4)
    assert_like_the_record(run)
    rates = curves(run, "train")["learning_rate"]
    assert rates[:2] == before
    assert [after / rate for (_, rate), (_, after) in pairwise(rates)] == pytest.approx([0.5] * 3)


def test_an_epoch_that_was_stopped_in_has_the_seconds_of_both_parts(run: Run) -> None:
    from kaggle_workbench.callbacks.boards import ScalarLog

    log = ScalarLog(run.folder)
    log.on_train_begin()
    log.set_state({"rates": [[1, 0.5]], "spent": 1000.0})
    log.on_epoch_begin(0)
    assert log.get_state()["spent"] >= 1000.0
    log.on_epoch_end(0, {"loss": 1.0})
    assert log.get_state()["spent"] == 0.0
    log.on_epoch_begin(1)
    log.on_epoch_end(1, {"loss": 0.5})
    log.on_train_end()
    (_, first), (_, second) = curves(run, "train")["seconds"]
    assert first == pytest.approx(1000.0, abs=100.0)
    assert second < 100.0


@contextmanager
def tensorboard(logdir: Path) -> Iterator[str]:
    """A real TensorBoard on a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--logdir", str(logdir), "--host", "127.0.0.1", "--port", str(port), "--reload_interval", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def asked(url: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as response:
        return json.loads(response.read())


def eventually(what: Any, wanted: Any) -> None:
    """Wait until `what()` is `wanted`; TensorBoard needs seconds to start and to read again."""
    end, found = time.monotonic() + 60, None
    while time.monotonic() < end:
        try:
            found = what()
        except (OSError, ValueError) as error:
            found = error
        if found == wanted:
            return
        time.sleep(0.5)
    assert found == wanted


@pytest.mark.browser
def test_a_tensorboard_that_looks_on_shows_every_epoch_once(run: Run, tmp_path: Path) -> None:
    train(run, epochs=5, kill=3)
    with tensorboard(tmp_path / "runs") as url:
        both = {"epoch/loss", "epoch/accuracy"}
        tags = {
            "mine/tensorboard/train": {*both, "epoch/learning_rate", "epoch/seconds"},
            "mine/tensorboard/dev": both,
        }
        eventually(lambda: {name: set(found) for name, found in asked(f"{url}/data/plugin/scalars/tags").items()}, tags)
        question = f"{url}/data/plugin/scalars/scalars?run=mine/tensorboard/dev&tag=epoch/loss"
        eventually(lambda: [step for _, step, _ in asked(question)], [1, 2, 3])
        # Taken up one epoch earlier than it came, while the server looks on.
        train(run, first=2, epochs=5)
        eventually(lambda: [step for _, step, _ in asked(question)], [1, 2, 3, 4, 5])
        values = [value for _, _, value in asked(question)]
        assert values == pytest.approx([entry["val_loss"] for entry in run.read()["history"]])
        with chromium() as browser:
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.goto(f"{url}/#timeseries")
            page.get_by_text("mine/tensorboard/dev").first.wait_for(timeout=60_000)
            page.get_by_text("epoch/learning_rate").first.wait_for(timeout=60_000)
            page.locator("line-chart").first.wait_for(timeout=60_000)
            page.wait_for_timeout(1500)
            page.screenshot(path=str(tmp_path / "tensorboard.png"))
            assert page.locator("scalar-card").count() == 4
