"""Data parallel training over several GPUs, entered once for the whole process.

The notebook's plain `build_model` and `model.fit` then train on all of them. Each batch is split; a step is the same
as on one GPU, but for rounding.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

from kaggle_workbench.devices.decision import Decision

# The scope that is entered, for as long as the process lives or until another decision: a context manager that is
# let go of ends its scope.
_scope = contextlib.ExitStack()
_replicas = 1


def replicas() -> int:
    """On how many devices each batch is split now."""
    return _replicas


def spread(decision: Decision) -> int:
    """Train on all GPUs of the decision from now on; call it before a model is made.

    Returns:
        On how many each batch is split.
    """
    leave()
    backend, count = decision.backend, decision.count
    if decision.avoid:
        _enter_cpu(backend)
    elif decision.kind == "gpu" and count > 1 and backend in ("tensorflow", "jax"):
        enter(backend, [f"gpu:{index}" for index in range(count)])
    return _replicas


def enter(backend: str, devices: Sequence[str]) -> None:
    """Split each batch over these devices.

    Args:
        backend: "tensorflow" or "jax".
        devices: Such as "gpu:0"; a kind and its number.
    """
    global _replicas
    if backend == "tensorflow":
        _scope.enter_context(_mirrored([f"/{name.upper()}" for name in devices]).scope())
    else:
        import keras

        before = keras.distribution.distribution()
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=list(devices)))
        _scope.callback(keras.distribution.set_distribution, before)
        _let_batches_be_uneven(len(devices))
    _replicas = len(devices)


def leave() -> None:
    """Back to one device."""
    global _replicas
    _scope.close()
    _replicas = 1


def _enter_cpu(backend: str | None) -> None:
    # The framework sees a GPU that must not be used; hiding it is too late, since it was just tried.
    import keras

    # To PyTorch "cpu:0" is another device than "cpu", and weights that are moved there get no gradients.
    _scope.enter_context(keras.device("cpu" if backend == "torch" else "cpu:0"))


def _mirrored(devices: list[str]) -> Any:
    import tensorflow

    class Mirrored(tensorflow.distribute.MirroredStrategy):  # type: ignore[misc]
        """TensorFlow's strategy, for data of any number of rows.

        To learn the shapes Keras takes the mean of the first batch over all devices, which fails where the devices
        have not the same number of rows; any one device's part has the shapes, too.
        """

        def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
            try:
                return super().reduce(reduce_op, value, axis)
            except tensorflow.errors.InvalidArgumentError:
                return tensorflow.nest.map_structure(lambda part: self.experimental_local_results(part)[0], value)

    return Mirrored(devices)


def _let_batches_be_uneven(count: int) -> None:
    """On JAX, let each device compute a whole batch that cannot be split evenly, as the last one of a prediction.

    Keras takes the layout of the first batch for all, and JAX refuses one whose rows the devices do not divide.
    """
    from keras.src.backend.jax import distribution_lib

    original = distribution_lib.distribute_data_input

    @functools.wraps(original)
    def place(batch: Any, layout: Any, *words: Any, **more: Any) -> Any:
        if batch.shape and batch.shape[0] % count:
            import jax

            mesh = getattr(layout, "backend_layout", layout).mesh
            whole: Any = jax.sharding.PartitionSpec
            layout = jax.sharding.NamedSharding(mesh, whole())
        return original(batch, layout, *words, **more)

    distribution_lib.distribute_data_input = place
    _scope.callback(setattr, distribution_lib, "distribute_data_input", original)
