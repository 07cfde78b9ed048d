"""Networks that ship with the workbench, in Keras 3 without backend calls.

02-train spells the reference network out in its own cell, where a competitor changes it; this is
the same network for everything that needs it unchanged (benchmark, tests, the arena's reference
entry). A test holds the two equal.
"""

from __future__ import annotations

from typing import Any

from kaggle_workbench.errors import UsageError


def reference_cnn(shape: tuple[int, int, int] = (28, 28, 1), classes: int = 10) -> Any:
    """The reference CNN for small pictures, not yet compiled.

    Two 5x5 convolutions with 32 filters, pool, dropout; two 3x3 with 64 filters, pool, dropout;
    dense 256, dropout, dense `classes`: 887,530 parameters for 28x28x1 pictures in 10 classes.

    Args:
        shape: Height, width and channels of a picture, in pixels; height and width at least 4.
        classes: Number of classes; the output is one probability for each.

    Returns:
        A `keras.Sequential` that maps (batch, height, width, channels) to (batch, classes).

    Raises:
        UsageError: A picture too small to be pooled twice.
    """
    if min(shape[:2]) < 4:
        raise UsageError(
            f"Pictures of {shape[0]}x{shape[1]} pixels are too small for the reference CNN, which halves them twice.",
            hint="Use a network without pooling for pictures under 4x4 pixels.",
        )
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(256, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(classes, activation="softmax"),
        ]
    )
