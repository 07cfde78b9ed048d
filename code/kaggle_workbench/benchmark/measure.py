"""The measuring itself, in the child process: the whole fit, or a few hundred steps of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from kaggle_workbench import models
from kaggle_workbench.benchmark import projection
from kaggle_workbench.benchmark.projection import Block
from kaggle_workbench.benchmark.workload import CLASSES, SIDE, Digits, Workload

Tell = Callable[..., None]
TELL_EVERY_S = 0.5


def full(digits: Digits, workload: Workload, tell: Tell) -> dict[str, Any]:
    """The literal fit, from start to end.

    Args:
        digits: The pictures.
        workload: How much is computed.
        tell: Called with what happens, for progress.

    Returns:
        Times in seconds and accuracies; see docs/benchmark.md for each name.
    """
    model = _model(workload)
    watch = _stopwatch(tell, total=workload.epochs * workload.steps, blocks=workload.epochs)
    cpu, started = _cpu_s(), time.perf_counter()
    X, Y = digits.train  # noqa: N806 (the field's names)
    X_dev, Y_dev = digits.dev  # noqa: N806
    model.fit(
        X,
        Y,
        epochs=workload.epochs,
        batch_size=workload.batch_size,
        validation_data=(X_dev, Y_dev),
        callbacks=[watch],
        verbose=0,
    )
    wall_s, cpu_s = time.perf_counter() - started, _cpu_s() - cpu
    epochs_s = [block.train_s + block.dev_s for block in watch.blocks]
    epoch_s = median(epochs_s)
    return {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "epoch_s": epoch_s,
        "epochs_s": epochs_s,
        "images_per_s": workload.train_rows / epoch_s,
        "accuracy": watch.accuracies[-1],
        "best_accuracy": max(watch.accuracies),
        "projected": False,
    }


def quick(digits: Digits, workload: Workload, tell: Tell) -> dict[str, Any]:
    """A few hundred steps, and from them the time of the whole fit.

    Args:
        digits: The pictures.
        workload: What is projected.
        tell: Called with what happens, for progress.

    Returns:
        As `full`, projected, with the blocks it was projected from; no accuracy, since nothing is trained to its end.
    """
    model = _model(workload)
    size, (inputs, targets), (dev_inputs, dev_targets) = workload.batch_size, digits.train, digits.dev
    cpu, started = _cpu_s(), time.perf_counter()
    # A whole batch and one as short as an epoch's last: where shapes are compiled in, both are now.
    first, first_dev = (size + rows % size for rows in (workload.train_rows, workload.dev_rows))
    model.fit(
        inputs[:first],
        targets[:first],
        batch_size=size,
        validation_data=(dev_inputs[:first_dev], dev_targets[:first_dev]),
        verbose=0,
    )
    compile_s, compile_cpu_s = time.perf_counter() - started, _cpu_s() - cpu
    tell("said", text=f"first step {compile_s:.1f} s; warming up")
    started = time.perf_counter()
    warm = projection.WARM_UP_STEPS * size
    model.fit(inputs[:warm], targets[:warm], batch_size=size, verbose=0)
    warm_steps = -(-len(inputs[:warm]) // size)
    plan = projection.plan((time.perf_counter() - started) / warm_steps, workload)
    total = plan.rounds * plan.blocks * (plan.steps or workload.steps)
    watch = _stopwatch(tell, total=total, blocks=plan.rounds * plan.blocks, limit_s=projection.BUDGET_S)
    for _ in range(plan.rounds):
        if watch.is_over:
            break
        model.fit(
            inputs,
            targets,
            epochs=plan.blocks,
            batch_size=size,
            steps_per_epoch=plan.steps,
            validation_data=(dev_inputs, dev_targets),
            callbacks=[watch],
            verbose=0,
        )
    found = projection.project(watch.blocks, workload, compile_s=compile_s, compile_cpu_s=compile_cpu_s)
    return {
        **found,
        "compile_s": compile_s,
        "images_per_s": workload.train_rows / found["epoch_s"],
        "accuracy": None,
        "projected": True,
        "measured_steps": sum(block.steps for block in watch.blocks),
        "blocks": [asdict(block) for block in watch.blocks],
    }


def _model(workload: Workload) -> Any:
    import keras

    # A person's own ~/.keras/keras.json must not make this another workload.
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    keras.config.set_image_data_format("channels_last")
    keras.utils.set_random_seed(workload.seed)
    model = models.reference_cnn((SIDE, SIDE, 1), CLASSES)
    model.compile(optimizer=keras.optimizers.Adam(), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _cpu_s() -> float:
    """CPU seconds of this process and of its children so far, in all threads."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _stopwatch(tell: Tell, *, total: int, blocks: int, limit_s: float | None = None) -> Any:
    """A Keras callback that takes times and tells how far it is.

    Made here, since its class needs Keras. It looks at no numbers at the end of a step: asking for them would make a
    GPU wait each time.

    Args:
        tell: Called with what happens.
        total: Steps in all.
        blocks: Epochs, or pieces of epochs, in all.
        limit_s: Time after which no further block is begun, in seconds.
    """
    import keras

    class Stopwatch(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.blocks: list[Block] = []
            self.accuracies: list[float] = []
            self.steps = self.done = 0
            self.is_over = False
            self.began = self.told = time.perf_counter()

        def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
            self.steps, self.started_cpu = 0, _cpu_s()
            self.started = time.perf_counter()

        def on_train_batch_begin(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            self.steps += 1
            now = time.perf_counter()
            if now - self.told > TELL_EVERY_S:
                self.told = now
                tell("step", done=self.done + self.steps - 1, total=total)

        def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
            self.trained, self.trained_cpu = time.perf_counter(), _cpu_s()

        def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
            # Asking for a number waits until it is computed, so the time is taken after it.
            accuracy = float((logs or {})["val_accuracy"])
            now, cpu = time.perf_counter(), _cpu_s()
            self.done += self.steps
            self.accuracies.append(accuracy)
            spent = (self.trained - self.started, now - self.trained)
            spent_cpu = (self.trained_cpu - self.started_cpu, cpu - self.trained_cpu)
            self.blocks.append(Block(self.steps, *spent, *spent_cpu))
            tell(
                "epoch",
                epoch=len(self.blocks),
                epochs=blocks,
                whole=limit_s is None,
                steps=self.steps,
                seconds=now - self.started,
                accuracy=accuracy,
                done=self.done,
                total=total,
                left_s=(now - self.began) * (total - self.done) / self.done,
            )
            if limit_s is not None and now - self.began > limit_s and len(self.blocks) >= projection.LEAST_BLOCKS:
                # The machine became busier than it was in the warm-up; what there is must do.
                self.model.stop_training = self.is_over = True

    return Stopwatch()
