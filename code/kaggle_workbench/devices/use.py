"""Make use of what was found: precision and several GPUs, set before the notebook makes its model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kaggle_workbench.devices import distribution, iterators, precision
from kaggle_workbench.devices.decision import Decision
from kaggle_workbench.devices.framework import quiet
from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import Settings


@dataclass(frozen=True)
class Use:
    """How a training uses its devices.

    Attributes:
        precision: Keras' dtype policy.
        replicas: On how many devices each batch is split.
        lines: What the person should read; empty where everything is as usual.
    """

    precision: str
    replicas: int
    lines: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For the record, beside the decision."""
        return {"precision": self.precision, "replicas": self.replicas}


def use(decision: Decision, settings: Settings) -> Use:
    """Set precision and distribution for all models made from now on in this process.

    Raises:
        UsageError: BATCH_SIZE cannot be split over the GPUs.
    """
    distribution.leave()
    lines = []
    chosen = precision.choose(settings.precision, decision)
    if chosen.policy.startswith("mixed") and not _is_finite(chosen.policy):
        lines.append(f"Precision float32: with {chosen.policy} the loss of a short run was no number.")
        chosen = precision.Precision("float32")
    elif chosen.reason:
        lines.append(f"Precision {chosen.policy}: {chosen.reason}.")
    with quiet():
        # With another backend, too, Keras imports TensorFlow where it is installed.
        import keras
    # Also float32: a person's own ~/.keras/keras.json may name another.
    keras.config.set_dtype_policy(chosen.policy)
    if keras.backend.backend() == "tensorflow":
        iterators.end_at_once()
        _no_word_of_retracing()
    several = decision.count if decision.kind == "gpu" else 1
    if several > 1 and settings.batch_size % several:
        fits = max(several, settings.batch_size // several * several)
        raise UsageError(
            f"BATCH_SIZE is {settings.batch_size}, which {several} GPUs cannot share evenly.",
            hint=f"Set BATCH_SIZE={fits}, or GPU_COUNT=1.",
        )
    replicas = distribution.spread(decision)
    if replicas > 1:
        lines.append(f"Each batch of {settings.batch_size} is split over {replicas} GPUs.")
    return Use(chosen.policy, replicas, tuple(lines))


def _is_finite(policy: str) -> bool:
    with quiet():
        return precision.is_finite(policy)


def _no_word_of_retracing() -> None:
    """A model for each fold is one new function for TensorFlow each time: right here, and no news to a reader."""
    import logging

    def other(record: logging.LogRecord) -> bool:
        return "triggered tf.function retracing" not in record.getMessage()

    logger = logging.getLogger("tensorflow")
    if not any(getattr(each, "__name__", "") == other.__name__ for each in logger.filters):
        logger.addFilter(other)
