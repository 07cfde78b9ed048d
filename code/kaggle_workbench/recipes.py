"""Recipes beside the reference one: network, augmentation and learning that belong together.

02-train spells the reference recipe out in its own cells; `RECIPE = "fast"` takes these parts in
their place. docs/performance.md says what each of them was measured to give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kaggle_workbench import models

SHIFT = 1
SMOOTHING = 0.1
# Learning rate: from a 25th of the peak up to it in the first 30 % of all steps, then down to nearly zero.
PEAK = 0.01
CLIMB = 0.3


@dataclass(frozen=True)
class Recipe:
    """The parts of 02-train that a recipe replaces.

    Attributes:
        build_model: (shape of a picture, number of classes) -> a Keras model, not compiled.
        augment: (batch, NumPy random generator) -> the batch as the network sees it while training.
        learn: (model, number of steps in all) compiles the model.
    """

    build_model: Callable[[tuple[int, int, int], int], Any]
    augment: Callable[[Any, Any], Any]
    learn: Callable[[Any, int], None]


def shift(batch: Any, random: Any) -> Any:
    """Move each picture of a batch by up to one pixel in both directions; its border is repeated.

    Args:
        batch: (rows, height, width, channels).
        random: NumPy random generator.

    Returns:
        A new array of the same shape and type.
    """
    import numpy as np

    rows, height, width, _ = batch.shape
    padded = np.pad(batch, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))
    down, right = random.integers(0, 2 * SHIFT + 1, size=(2, rows))
    return np.moveaxis(windows[np.arange(rows), down, right], 1, 3)


def learn_fast(model: Any, steps: int) -> None:
    """Compile a model to learn at a high rate that climbs and falls, from labels that are not quite certain.

    Args:
        model: A model whose output is one probability for each class.
        steps: Number of steps of the whole training.
    """
    import keras

    climb = max(1, int(CLIMB * steps))
    rate = keras.optimizers.schedules.CosineDecay(
        PEAK / 25, max(1, steps - climb), alpha=0.001, warmup_target=PEAK, warmup_steps=climb
    )
    model.compile(
        optimizer=keras.optimizers.Adam(rate, beta_2=0.95),
        loss=smoothed_loss,
        metrics=["accuracy"],
    )


def smoothed_loss(truth: Any, probabilities: Any) -> Any:
    """Cross-entropy against labels smoothed by a tenth (Szegedy et al. 2016, section 7).

    Args:
        truth: Class numbers, (rows,) or (rows, 1).
        probabilities: One for each class, (rows, classes).

    Returns:
        One loss a row, (rows,).
    """
    import keras

    classes = probabilities.shape[-1]
    certain = keras.ops.one_hot(keras.ops.reshape(keras.ops.cast(truth, "int32"), (-1,)), classes)
    return keras.losses.categorical_crossentropy(certain, probabilities, label_smoothing=SMOOTHING)


fast = Recipe(models.fast_cnn, shift, learn_fast)
