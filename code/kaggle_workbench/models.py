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
            # Probabilities stay float32 when the layers before compute in half precision.
            layers.Dense(classes, activation="softmax", dtype="float32"),
        ]
    )


def fast_cnn(shape: tuple[int, int, int] = (28, 28, 1), classes: int = 10) -> Any:
    """A CNN for small pictures with an eighteenth of the reference CNN's arithmetic, not yet compiled.

    Two convolutions halve the picture by their stride, so that the many filters behind them work on few pixels;
    batch normalisation lets it learn at ten times the usual rate. For 28x28x1 pictures in 10 classes: 157,634
    parameters and 1.8 million multiply-adds a picture (the reference CNN: 32 million).

    Args:
        shape: Height, width and channels of a picture, in pixels.
        classes: Number of classes; the output is one probability for each.

    Returns:
        A `keras.Model` that maps (batch, height, width, channels) to (batch, classes).
    """
    import keras
    from keras import layers

    inputs = values = keras.Input(shape)
    for filters, size, stride, padding in (
        (24, 5, 2, "valid"),
        (64, 3, 2, "same"),
        (96, 3, 1, "valid"),
        (96, 3, 1, "valid"),
    ):
        if min(values.shape[1:3]) < 2 * size - 2:
            # A small picture is neither halved nor cut at its border.
            stride, padding = 1, "same"
        values = layers.Conv2D(filters, size, stride, padding, use_bias=False, kernel_initializer="he_normal")(values)
        values = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(values)
        values = layers.ReLU()(values)
    outputs = layers.Dense(classes, activation="softmax", dtype="float32")(layers.Flatten()(values))
    return keras.Model(inputs, outputs)
