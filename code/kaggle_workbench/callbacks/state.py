"""The variables of a model in training, as arrays and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kaggle_workbench.checkpoints.values import numeric
from kaggle_workbench.errors import UsageError

Arrays = dict[str, np.ndarray[Any, Any]]
# Without these a training cannot go on; the others can begin anew.
NEEDED = "model"


def groups(model: Any) -> dict[str, list[Any]]:
    """A model's variables: weights and seed generators, the optimizer's, the metrics' sums."""
    optimizer = getattr(model, "optimizer", None)
    return {
        "model": list(model.variables),
        "optimizer": list(optimizer.variables) if optimizer is not None else [],
        "metrics": list(model.metrics_variables),
    }


def capture(model: Any) -> Arrays:
    """Copies of all variables, by group and number; names would differ when a notebook builds its model twice."""
    arrays: Arrays = {}
    for group, variables in groups(model).items():
        for number, variable in enumerate(variables):
            name = f"{group}/{number:04d}"
            arrays[name] = copied(variable)
            # The optimizer's are the same everywhere, and the largest.
            for replica, copy in enumerate(_own_copies(variable) if group != "optimizer" else ()):
                arrays[f"replicas/{name}/{replica}"] = np.array(copy.numpy())
    return arrays


def copied(variable: Any) -> np.ndarray[Any, Any]:
    """A variable's value."""
    value = variable.value
    if hasattr(value, "read_value"):
        # TensorFlow's, on several GPUs: one value of all copies.
        value = value.read_value()
    # A copy in any case: some backends hand out their own memory, which the next step overwrites.
    return np.array(numeric(keras.ops.convert_to_numpy(value)), copy=True)


def is_finite(model: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> bool:
    """Whether all weights in captured `arrays` are numbers."""
    floats = (array for name, array in arrays.items() if name.startswith("model/") and array.dtype.kind == "f")
    return all(bool(np.isfinite(array).all()) for array in floats)


def misfits(model: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, str]:
    """For each group of variables that `arrays` do not fit: what differs, for people."""
    found = {}
    for group, variables in groups(model).items():
        names = [name for name in arrays if name.startswith(f"{group}/")]
        if len(names) != len(variables):
            found[group] = f"{len(names)} variables in the checkpoint, {len(variables)} here"
            continue
        for number, variable in enumerate(variables):
            shape = arrays[f"{group}/{number:04d}"].shape
            if shape != tuple(variable.shape):
                found[group] = f"{variable.path} has shape {tuple(variable.shape)}, in the checkpoint {shape}"
                break
    return found


def restore(model: Any, arrays: Mapping[str, np.ndarray[Any, Any]], group: str) -> None:
    """Put captured values back into a group of variables."""
    for number, variable in enumerate(groups(model)[group]):
        name = f"{group}/{number:04d}"
        variable.assign(arrays[name])
        copies = _own_copies(variable)
        # Of another number of GPUs each begins with the value they have in common.
        if copies and f"replicas/{name}/{len(copies) - 1}" in arrays and f"replicas/{name}/{len(copies)}" not in arrays:
            for replica, copy in enumerate(copies):
                copy.assign(arrays[f"replicas/{name}/{replica}"])


def _own_copies(variable: Any) -> list[Any]:
    """Where TensorFlow trains on several GPUs: each one's own value, such as its moving averages; else nothing."""
    values = getattr(variable.value, "values", None)
    if variable.trainable or not isinstance(values, tuple) or len(values) < 2:
        return []
    return list(values)


def build(model: Any, example: Any) -> None:
    """Make all variables that the first step would make, so that values can be put into them.

    Args:
        model: Compiled.
        example: A batch (inputs, targets), or None when there is none at hand.

    Raises:
        UsageError: A network that has no weights yet, and no batch to make them from.
    """
    built = all(layer.built for layer in model._flatten_layers())
    if example is not None:
        model._symbolic_build(data_batch=tuple(example))
    elif not built:
        raise UsageError(
            "The network has no weights yet, so a checkpoint cannot be put into it.",
            hint="Begin it with keras.Input(shape), or call it once on a batch before model.fit.",
        )
    elif model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
