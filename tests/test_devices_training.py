"""Use of what was found: precision, several devices that train as one does, a watch over the GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from device_tools import CODE, driver, own_environment, project_in, settings
from kaggle_workbench import devices
from kaggle_workbench.devices import distribution, precision
from kaggle_workbench.errors import UsageError


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_environment(monkeypatch):
        yield


def decision(count: int, **fields: Any) -> devices.Decision:
    """A decision for the first GPUs of the driver."""
    found = devices.driver_gpus()[:count]
    made = devices.Decision("gpu", count, tuple(gpu.name for gpu in found), "", backend="tensorflow", gpus=found)
    return replace(made, **fields)


CPU = devices.Decision("cpu", 2, (), "no NVIDIA GPU here", backend="tensorflow")


# --- Precision ---


@pytest.mark.parametrize(
    ("capability", "count", "policy"),
    [
        ("12.0", 1, "mixed_bfloat16"),
        ("8.0", 1, "mixed_bfloat16"),
        ("7.5", 1, "mixed_float16"),
        ("7.0", 1, "mixed_float16"),
        ("6.1", 1, "float32"),
        ("8.6;7.5", 2, "mixed_float16"),
        ("6.0;9.0", 2, "float32"),
        ("8.6;7.5", 1, "mixed_bfloat16"),
    ],
)
def test_the_oldest_gpu_in_use_chooses_the_precision(capability: str, count: int, policy: str) -> None:
    driver(2, CAPABILITY=capability)
    assert precision.choose("auto", decision(count)).policy == policy
    assert precision.choose("float32", decision(count)).policy == "float32"
    assert precision.choose("mixed_bfloat16", decision(count)).policy == "mixed_bfloat16"


def test_the_cpu_and_a_silent_gpu_compute_with_32_bits() -> None:
    assert precision.choose("auto", CPU) == precision.Precision("float32")
    driver(1, SILENT=1)
    chosen = precision.choose("auto", decision(1))
    assert chosen.policy == "float32"
    assert "does not tell" in chosen.reason


def test_32_bits_are_set_whatever_the_persons_own_keras_names(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text('{"floatx": "float16", "backend": "tensorflow"}')
    code = (
        "from kaggle_workbench import devices; from kaggle_workbench.settings import load_settings\n"
        "print(devices.use(devices.Decision('cpu', 2, (), '', backend='tensorflow'), load_settings()).precision)\n"
        "import keras; print(keras.config.dtype_policy().name, keras.layers.Dense(1).dtype_policy.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(CODE), "KERAS_HOME": str(tmp_path), "KWB_ROOT": str(project_in(tmp_path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["float32"] * 3


@pytest.fixture
def keras_again() -> Iterator[Any]:
    keras = pytest.importorskip("keras")
    before = keras.config.dtype_policy()
    yield keras
    keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_a_short_run_proves_the_loss_and_leaves_no_trace(keras_again: Any, policy: str) -> None:
    keras = keras_again

    def drawn() -> list[float]:
        keras.utils.set_random_seed(7)
        return [float(np.sum(keras.random.normal((3,)))), float(np.random.random())]

    expected = drawn()
    keras.utils.set_random_seed(7)
    assert precision.is_finite(policy)
    after = [float(np.sum(keras.random.normal((3,)))), float(np.random.random())]
    assert after == expected
    assert keras.config.dtype_policy().name == "float32"


def test_a_loss_that_is_no_number_falls_back_and_is_said(
    tmp_path: Path, keras_again: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(1, CAPABILITY="8.0")
    given = settings(project_in(tmp_path))
    used = devices.use(decision(1), given)
    assert (used.precision, used.lines) == ("mixed_bfloat16", ("Precision mixed_bfloat16: compute capability 8.0.",))
    assert keras_again.config.dtype_policy().name == "mixed_bfloat16"
    monkeypatch.setattr(precision, "is_finite", lambda policy: False)
    used = devices.use(decision(1), given)
    assert used.precision == "float32"
    assert "the loss of a short run was no number" in used.lines[0]
    assert keras_again.config.dtype_policy().name == "float32"


def test_a_batch_that_gpus_cannot_share_is_refused_with_one_that_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(3, CAPABILITY="6.1")
    project = project_in(tmp_path)
    with pytest.raises(UsageError, match="BATCH_SIZE is 64, which 3 GPUs cannot share") as caught:
        devices.use(decision(3), settings(project))
    assert "BATCH_SIZE=63" in caught.value.hint
    monkeypatch.setattr(distribution, "spread", lambda decision: decision.count)
    used = devices.use(decision(3), settings(project, BATCH_SIZE=63))
    assert "Each batch of 63 is split over 3 GPUs." in used.lines
    assert used.to_dict() == {"precision": "float32", "replicas": 3}


# --- Several devices ---

_FIT = """
import json, os, sys
backend, count, rows, dev = sys.argv[1], *map(int, sys.argv[2:5])
os.environ["KERAS_BACKEND"] = backend
if backend == "tensorflow":
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras, numpy as np
from kaggle_workbench.batches import Batches
from kaggle_workbench.devices import distribution
if count > 1:
    distribution.enter(backend, ["cpu:0", "cpu:1"])
assert distribution.replicas() == count
keras.utils.set_random_seed(0)
random = np.random.default_rng(0)
x, y = random.standard_normal((rows, 6)).astype("float32"), random.integers(0, 3, rows)
model = keras.Sequential([
    keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")])
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
batches = Batches(x, y, 16)
if int(sys.argv[5]):
    batches._rows = int(sys.argv[5])  # the same rows as with two
    batches.start_epoch(0)
class Order(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        batches.start_epoch(epoch)
seen = model.fit(batches, epochs=3, validation_data=(x[:dev], y[:dev]), callbacks=[Order()], shuffle=False, verbose=0)
where = model.weights[0].value
parts = len(getattr(where, "values", ())) if backend == "tensorflow" else len(where.sharding.device_set)
print(json.dumps({"history": seen.history, "predicted": model.predict(x[:dev], verbose=0).tolist(), "on": max(1, parts),
    "weights": [w.tolist() for w in model.get_weights()]}))
"""


def fit(backend: str, count: int, rows: int, dev: int, only: int = 0) -> dict[str, Any]:
    env = {"PYTHONPATH": str(CODE), "TF_NUM_INTRAOP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    if backend == "jax":
        env |= {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    words = [sys.executable, "-c", _FIT, backend, *map(str, (count, rows, dev, only))]
    done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize(("rows", "dev"), [(64, 8), (67, 8)])
def test_two_devices_train_as_one_does(backend: str, rows: int, dev: int) -> None:
    pytest.importorskip(backend)
    one, two = fit(backend, 1, rows, dev, only=rows - rows % 2), fit(backend, 2, rows, dev)
    assert (one["on"], two["on"]) == (1, 2), "else this test shows nothing"
    for name, values in one["history"].items():
        assert two["history"][name] == pytest.approx(values, abs=1e-5), name
    for a, b in zip(one["weights"], two["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_allclose(one["predicted"], two["predicted"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_rows_that_devices_cannot_share_are_evaluated_and_predicted_all_the_same(backend: str) -> None:
    pytest.importorskip(backend)
    one, two = fit(backend, 1, 64, 7), fit(backend, 2, 64, 7)
    assert len(two["predicted"]) == 7
    np.testing.assert_allclose(one["predicted"], two["predicted"], atol=1e-5)
    assert two["history"]["val_accuracy"] == pytest.approx(one["history"]["val_accuracy"], abs=1e-5)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_gpu_that_must_not_be_used_is_kept_from_the_training(backend: str) -> None:
    """After ALLOW_CPU went on without a GPU that the framework sees, everything is put on the CPU."""
    pytest.importorskip(backend)
    code = """
import os, sys
import keras, numpy as np
from kaggle_workbench.devices import Decision, distribution
made = Decision("cpu", 2, (), "", backend=sys.argv[1], avoid=True)
placed = []
real = keras.device
keras.device = lambda name: placed.append(name) or real(name)
distribution.spread(made)
distribution.spread(made)
assert len(placed) == 2 and set(placed) <= {"cpu", "cpu:0"} and distribution.replicas() == 1
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
print("fitted")
"""
    env = {**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": str(CODE)}
    words = [sys.executable, "-c", code, backend]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "fitted\n", done.stderr[-2000:]


# --- A watch over the GPU ---


class Step:
    """What a run's step is, for the callback."""

    def __init__(self) -> None:
        self.record: dict[str, Any] = {}

    def update(self, **fields: Any) -> None:
        self.record.update(fields)


def train(step: Step, made: devices.Decision, after: Any, epochs: int = 3) -> list[int]:
    """Fit a tiny network; `after(epoch)` runs at each epoch's end. Returns the epochs that ended."""
    import keras

    from kaggle_workbench.callbacks.guard import DeviceGuard

    ended: list[int] = []

    class After(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            ended.append(epoch)
            after(epoch)

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    guard = DeviceGuard(step, made, "20261201-train")
    try:
        model.fit(np.ones((4, 2)), np.ones((4, 1)), epochs=epochs, verbose=0, callbacks=[guard, After()])
    finally:
        if guard.watch is not None:
            guard.watch.stop()
    return ended


def test_memory_and_utilisation_go_into_the_record() -> None:
    driver(1, BUSY=80, FREE=14_000_000_000)
    step = Step()
    train(step, decision(1), lambda epoch: None)
    assert step.record == {"peak_gpu_memory_bytes": 2_000_000_000, "mean_gpu_utilisation": 80.0}
    step = Step()
    train(step, CPU, lambda epoch: None)
    assert step.record == {}


def test_a_training_that_broke_off_leaves_no_second_watch() -> None:
    """In a notebook the cell is run again; Keras tells no callback that a fit has failed."""
    from kaggle_workbench.callbacks.guard import DeviceGuard

    driver(1)
    guards = [DeviceGuard(Step(), decision(1)) for _ in range(3)]
    for guard in guards:
        guard.on_train_begin()
    assert [thread.name for thread in threading.enumerate()].count("gpu-watch") == 1
    guards[-1].on_train_end()
    assert "gpu-watch" not in [thread.name for thread in threading.enumerate()]


def test_a_gpu_lost_in_training_ends_it_with_gpu_epoch_and_how_to_go_on() -> None:
    driver(2)
    step, ended = Step(), []

    def lose(epoch: int) -> None:
        ended.append(epoch)
        if epoch == 1:
            driver(2, LOST="1")

    with pytest.raises(devices.GpuLostError) as caught:
        train(step, decision(2), lose)
    assert ended == [0, 1]
    assert "Before epoch 3: GPU 1 (Made Up T4) was lost" in caught.value.message
    assert "./kwb run train --resume 20261201-train" in caught.value.hint
    assert step.record["mean_gpu_utilisation"] == 40.0


def test_an_iterator_of_tensorflow_is_gone_as_soon_as_it_is_deleted() -> None:
    """Its tuner's thread sleeps up to a minute, and may miss the word that ends it; without a tuner there is none."""
    script = (
        "import os, sys; os.environ.update(KERAS_BACKEND='tensorflow', GPU_COUNT='0', TF_CPP_MIN_LOG_LEVEL='3')\n"
        "from kaggle_workbench import devices\n"
        "for _ in range(2): devices.end_iterators_at_once()\n"
        "import numpy as np, tensorflow as tf, keras\n"
        "numbers = iter(tf.data.Dataset.range(8).map(lambda one: one + 1).batch(4))\n"
        "assert next(numbers).numpy().tolist() == [1, 2, 3, 4]\n"
        "assert not numbers._dataset.options().autotune.enabled\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile(loss='mse'); made = []\n"
        "iterate = tf.data.Dataset.__iter__\n"
        "def seen(self): made.append(iterate(self)); return made[-1]\n"
        "tf.data.Dataset.__iter__ = seen\n"
        "x = np.ones((8, 2), 'float32')\n"
        "model.fit(x, x[:, :1], epochs=2, validation_data=(x, x[:, :1]), verbose=0)\n"
        "assert made and not any(one._dataset.options().autotune.enabled for one in made), made\n"
        "print('well')\n"
    )
    env = {**os.environ, "PYTHONPATH": str(CODE)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120, env=env
    )
    assert done.stdout.split() == ["well"], done.stderr
