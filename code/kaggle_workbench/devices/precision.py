"""Which numbers a training computes with: by compute capability, and proved by a short run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kaggle_workbench.devices.decision import Decision

# From here on tensor cores take this type; below, 16 bits bring nothing.
BFLOAT16_FROM, FLOAT16_FROM = (8, 0), (7, 0)
PROOF_STEPS = 8


@dataclass(frozen=True)
class Precision:
    """A Keras dtype policy, and why; `reason` is empty where nothing has to be said."""

    policy: str
    reason: str = ""


def choose(wanted: str, decision: Decision) -> Precision:
    """The policy for what computes.

    Args:
        wanted: PRECISION: a policy, or "auto".
        decision: What computes; of several GPUs the oldest decides.
    """
    if wanted != "auto":
        return Precision(wanted, "as PRECISION says")
    if decision.kind == "cpu":
        return Precision("float32")
    capability = decision.capability
    if capability is None:
        return Precision("float32", "the GPU does not tell its compute capability")
    told = f"compute capability {capability[0]}.{capability[1]}"
    if capability >= BFLOAT16_FROM:
        return Precision("mixed_bfloat16", told)
    if capability >= FLOAT16_FROM:
        return Precision("mixed_float16", told)
    return Precision("float32", f"{told} computes no faster with 16 bits")


def is_finite(policy: str) -> bool:
    """Whether a short training under this policy keeps its loss a number.

    It draws nothing from the global random generators and leaves the global policy alone, so that the training that
    follows is the same with it and without.
    """
    import keras
    import numpy as np

    random = np.random.default_rng(0)
    inputs = random.random((32, 8, 8, 1), dtype=np.float32)
    targets = random.integers(0, 4, 32)

    def seeded(seed: int) -> keras.Initializer:
        return keras.initializers.GlorotUniform(seed=seed)

    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="proof_input"),
            keras.layers.Conv2D(8, 3, activation="relu", kernel_initializer=seeded(1), dtype=policy, name="proof_conv"),
            keras.layers.Flatten(dtype=policy, name="proof_flatten"),
            # Classes in 16 bits, as in the notebook's network.
            keras.layers.Dense(
                4, activation="softmax", kernel_initializer=seeded(2), dtype=policy, name="proof_output"
            ),
        ],
        name="proof",
    )
    optimizer = keras.optimizers.SGD(0.05, name="proof_sgd")
    if policy == "mixed_float16":
        # As `compile` does it for the notebook's model: 16 bits need their loss scaled.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, name="proof_scale")
    model.compile(optimizer, "sparse_categorical_crossentropy", auto_scale_loss=False)
    return all(math.isfinite(float(model.train_on_batch(inputs, targets))) for _ in range(PROOF_STEPS))
