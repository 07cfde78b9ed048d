"""A tiny training that can be killed at any moment, in processes of its own; for test_resume.py.

Importing a framework takes seconds, so one process imports it, computes nothing, and forks for each training.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KILLED = -signal.SIGKILL
_KEPT: list[Any] = []


class Trainer:
    """Trains in forks of one process; each training is a life of its own.

    Args:
        output: OUTPUT_DIR.
        backend: "tensorflow", "jax" or "torch".
    """

    def __init__(self, output: Path, backend: str = "tensorflow") -> None:
        self.output = output
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'code'}{os.pathsep}{ROOT / 'tests'}",
            "KERAS_BACKEND": backend,
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TF_NUM_INTRAOP_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "-1",
        }
        self.process = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)

    def train(self, run: str, **options: Any) -> Any:
        """Train; what came of it: `code` (KILLED when it was), `said`, and of a training that ended what it made."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"output": str(self.output), "run": run, **options}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process that trains has ended"
        return SimpleNamespace(**json.loads(line))

    def until_done(self, run: str, kills: list[dict[str, Any]], **options: Any) -> tuple[Any, int]:
        """Train with one kill after the other until it ends; the result, and how many kills have met it."""
        met = 0
        for kill in kills:
            done = self.train(run, kill=kill, **options)
            if done.code != KILLED:
                assert done.code == 0, done.said
                return done, met
            met += 1
        done = self.train(run, **options)
        assert done.code == 0, done.said
        return done, met


def serve() -> None:
    """Fork for each line of stdin: options in, result out."""
    import keras  # noqa: F401

    from kaggle_workbench import training
    from kaggle_workbench.callbacks import checkpointer  # noqa: F401

    assert training.Batches
    for line in sys.stdin:
        options = json.loads(line)
        said = Path(options["output"]) / f"said-{time.monotonic_ns()}.txt"
        result = said.with_suffix(".json")
        child = os.fork()
        if not child:
            code = 1
            try:
                with said.open("w") as out, redirect_stdout(out), redirect_stderr(out):
                    made = train(**options)
                result.write_text(json.dumps(made))
                code = 0
            except BaseException as error:
                with said.open("a") as out:
                    print(f"{type(error).__name__}: {error}", file=out)
            finally:
                # A real process waits for it too.
                _join_writer()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        made = json.loads(result.read_text()) if result.is_file() else {}
        print(json.dumps({"code": os.waitstatus_to_exitcode(status), "said": said.read_text(), **made}), flush=True)


def train(
    output: str,
    run: str,
    *,
    epochs: int = 5,
    seed: int = 7,
    kill: dict[str, Any] | None = None,
    pause: int = 0,
    due: int = 0,
    minutes: float = 10.0,
    force: bool = False,
    network: str = "tiny",
    how: str = "plateau",
    units: int = 16,
    per_execution: int = 1,
    shift_by: int = 2,
    augment: bool = True,
    slow_s: float = 0.0,
    rows: int = 112,
    scale: float = 1.0,
    patience: int = 3,
    delta: float = 0.001,
    replicas: int = 0,
    arrays: bool = False,
    twice: bool = False,
    extra: str = "",
) -> dict[str, Any]:
    """One training, as 02-train does it, with callbacks of a person's own around ours."""
    import keras
    import numpy as np

    from kaggle_workbench import training
    from kaggle_workbench.errors import UsageError
    from kaggle_workbench.records import Run

    if replicas:
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
        # Held for the process's life, as the stage does; forgotten, it would end at once.
        _KEPT.append(tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(replicas)]).scope())
        _KEPT[-1].__enter__()

    class Own(keras.callbacks.Callback):  # type: ignore[misc]
        """Someone's own: counts, draws from the global generators, holds an array and a set."""

        def __init__(self) -> None:
            super().__init__()
            self.batches, self.drawn, self.seen = 0, [], set()
            self.sums = np.zeros(2)
            self.lock = threading.Lock()

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.batches += 1
            self.seen.add(batch)
            time.sleep(slow_s)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            import random

            drawn = keras.random.uniform(()) if keras.backend.backend() != "jax" else 0.0
            self.drawn.append([random.random(), float(np.random.random()), float(drawn)])
            self.sums += [1, logs["loss"]]

    class Moment(keras.callbacks.Callback):  # type: ignore[misc]
        """Kills this process, as `kill -9` does."""

        def on_train_begin(self, logs: Any = None) -> None:
            if kill and kill["at"] == "time":
                timer = threading.Timer(kill["s"], _die)
                timer.daemon = True
                timer.start()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch
            if extra == "nan" and epoch == 2:
                self.model.set_weights([weights * np.nan for weights in self.model.get_weights()])

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if kill and kill["at"] == "batch" and (self.epoch, batch) == (kill["epoch"], kill["batch"]):
                _die_between_writes()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if kill and kill["at"] == "epoch" and epoch == kill["epoch"]:
                _die_between_writes()

        def on_train_end(self, logs: Any = None) -> None:
            if kill and kill["at"] == "end":
                _die_between_writes()

    class Asked:
        """Stands for stage.pause and stage.deadline: asks for a stop at the n-th question."""

        def __init__(self, count: int) -> None:
            self.left = count

        def asked(self) -> str | None:
            self.left -= 1
            return "Ctrl-C" if self.left == 0 else None

        def due(self, needed_s: float) -> bool:
            assert 0 <= needed_s < 60
            return self.asked() is not None

        def __enter__(self) -> Asked:
            return self

        def __exit__(self, *_: object) -> None:
            return

    if kill and kill["at"] == "write":
        _die_while_writing(kill["number"], kill["share"])

    def shift(batch: Any, random: Any) -> Any:
        return np.roll(batch, random.integers(-1, shift_by, size=2), axis=(1, 2))

    def build() -> Any:
        keras.utils.set_random_seed(seed) if keras.backend.backend() == "tensorflow" else _seed(seed)
        layers = keras.layers
        if network == "reference":
            from kaggle_workbench.models import reference_cnn

            made = reference_cnn((12, 12, 1), 3)
        elif network == "lazy":
            # Without an input: its weights are made by the first batch.
            made = keras.Sequential(
                [layers.Flatten(), layers.Dense(units), layers.Dropout(0.5), layers.Dense(3, "softmax")]
            )
        else:
            hidden = [layers.Flatten(), layers.Dense(units, "relu"), layers.BatchNormalization(), layers.Dropout(0.5)]
            made = keras.Sequential([keras.Input((12, 12, 1)), *hidden, layers.Dense(3, activation="softmax")])
        rate: Any = 0.01
        if how == "schedule":
            rate = keras.optimizers.schedules.CosineDecay(0.02, 5 * 7)
        optimizer = keras.optimizers.Adam(rate, use_ema=how == "ema")
        if how == "scaled":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        made.compile(
            optimizer=optimizer,
            loss="sparse_categorical_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=per_execution,
        )
        return made

    def fit(record: Run) -> tuple[Any, Any, Any, Any]:
        model = build()
        inputs, targets = _data(rows)
        batches = training.Batches(
            inputs * np.float32(scale), targets, 16, seed=seed, augment=shift if augment else None
        )
        own = Own()
        theirs = [keras.callbacks.EarlyStopping(patience=patience, restore_best_weights=True, min_delta=delta)]
        if how == "plateau":
            theirs += [keras.callbacks.ReduceLROnPlateau(patience=1, factor=0.5)]
        if extra == "odd":
            own.odd = object()  # type: ignore[attr-defined]
        stage: Any = SimpleNamespace(
            run=record,
            pause=Asked(pause) if pause else None,
            deadline=Asked(due) if due else None,
            settings=SimpleNamespace(
                checkpoint_minutes=minutes, force_resume=force, place=SimpleNamespace(idle_minutes=None)
            ),
        )
        # A person's own before and after ours.
        callbacks = [own, *training.callbacks(stage, batches), *theirs, Moment()]
        fed: dict[str, Any] = {"x": batches} if not arrays else {"x": inputs, "y": targets, "batch_size": 16}
        history = model.fit(**fed, epochs=epochs, validation_data=_data(40), callbacks=callbacks, verbose=0)
        return model, history, own, theirs[0]

    try:
        record = Run.open(Path(output), run)
    except UsageError:
        record = Run.create(Path(output), stage="train", competition="digits", source="practice", run_id=run)
    began = time.monotonic()
    model, history, own, stopping = fit(record)
    seconds = time.monotonic() - began
    if twice:
        model, history, own, stopping = fit(record)
    from kaggle_workbench.callbacks import state

    kept = state.capture(model)
    told = record.read()
    return {
        "weights": [_sha(kept[name]) for name in kept if name.startswith("model/")],
        "optimizer": [_sha(kept[name]) for name in kept if name.startswith("optimizer/")],
        "history": history.history,
        "epochs": history.epoch,
        "recorded": [{k: v for k, v in entry.items() if k != "seconds"} for entry in told["history"]],
        "checkpoint": told["checkpoint"],
        "own": [own.batches, own.drawn, sorted(own.seen), own.sums.tolist()],
        "stopping": [stopping.wait, stopping.best_epoch, float(stopping.best), stopping.stopped_epoch],
        "seconds": seconds,
        "initial_epoch": model._initial_epoch,
        "scores": model.evaluate(*_data(40), verbose=0),
    }


def _data(rows: int) -> Any:
    import numpy as np

    random = np.random.default_rng(1)
    labels = np.arange(rows) % 3
    pictures = random.random((rows, 12, 12, 1), dtype=np.float32)
    pictures[np.arange(rows), labels * 3] += 0.3
    return pictures, labels


def _seed(seed: int) -> None:
    # keras.utils.set_random_seed imports TensorFlow whatever the backend is.
    import random

    import keras
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    if keras.backend.backend() == "torch":
        import torch

        torch.manual_seed(seed)


def _sha(array: Any) -> str:
    return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_between_writes() -> None:
    """So that a test knows which checkpoints there are; "time" and "write" kill at any moment."""
    _join_writer()
    _die()


def _join_writer() -> None:
    for thread in threading.enumerate():
        if thread.name == "checkpoint writer":
            thread.join()


def _die_while_writing(number: int, share: float) -> None:
    """Make the `number`-th checkpoint stop for good after a share of its bytes; 1.0: whole, but not named yet."""
    from kaggle_workbench.checkpoints import checkpoint

    plain, count = checkpoint._stream, [0]

    class Counted:
        def __init__(self, file: Any, size: int) -> None:
            self.file, self.left = file, int(size * share)

        def write(self, data: Any) -> None:
            data = bytes(data)[: self.left]
            self.file.write(data)
            self.left -= len(data)
            if self.left <= 0 and share < 1:
                self.file.flush()
                _die()

    def stream(file: Any, made: Any, arrays: Any) -> str:
        count[0] += 1
        if count[0] != number:
            return plain(file, made, arrays)
        size = sum(array.nbytes for array in arrays.values())
        if share < 1:
            plain(Counted(file, size), made, arrays)  # type: ignore[arg-type]
        plain(file, made, arrays)
        file.flush()
        _die()
        return ""

    checkpoint._stream = stream


if __name__ == "__main__":
    serve()
