"""What a training is: network, how it learns, data, order, augmentation; told as JSON, to be compared."""

from __future__ import annotations

import hashlib
import inspect
import platform
import re
import types
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from kaggle_workbench import __version__
from kaggle_workbench.batches import Batches
from kaggle_workbench.callbacks.fitting import Fit
from kaggle_workbench.checkpoints import digests
from kaggle_workbench.checkpoints.differences import WORKBENCH

# Words of Keras' own bookkeeping, which do not change what is computed.
_UNTOLD = ("module", "registered_name", "build_config", "compile_config", "build_input_shape", "shared_object_id")
# The learning rate in an optimizer's configuration is today's; what counts is the one it began with in this process.
_begun: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def fingerprint(model: Any, fit: Fit, batches: Batches | None) -> dict[str, Any]:
    """What `model` is trained to be, and on what.

    Args:
        model: Compiled.
        fit: The training that has just begun.
        batches: Its data when they are seeded ones.
    """
    told = of_model(model)
    if batches is not None:
        told |= of_batches(batches)
    else:
        told["inputs"] = digests.of_data(fit.arguments.get("x"))
        told["targets"] = digests.of_data(fit.arguments.get("y"))
    if fit.arguments:
        told["held_back"] = digests.of_data(fit.arguments.get("validation_data"))
        told["class_weight"] = _part(fit.arguments.get("class_weight"))
    return told


def of_model(model: Any) -> dict[str, Any]:
    """What a compiled model is: its layers, how they are connected, how it learns, by which versions.

    Of the optimizer counts the learning rate that it began with in this process.
    """
    compiled = getattr(getattr(model, "_compile_config", None), "config", None) or {}
    layers = list(model.layers)
    names = _names(model)
    told = {
        "layers": [_layer(layer, names) for layer in layers],
        "model": {"class": type(model).__name__, "trainable": bool(model.trainable)},
        "connections": _connections(model, names),
        "optimizer": _optimizer(model.optimizer),
        "loss": _part(compiled.get("loss")),
        "metrics": _part([compiled.get("metrics"), compiled.get("weighted_metrics"), compiled.get("loss_weights")]),
        "backend": keras.backend.backend(),
        "versions": _versions(),
    }
    if all(layer.built for layer in model._flatten_layers()):
        # TensorFlow makes the weights of a network without an input in its first step only.
        told["weights"] = [[list(variable.shape), str(variable.dtype)] for variable in model.variables]
    return told


def of_batches(batches: Batches) -> dict[str, Any]:
    """What seeded batches feed: inputs, targets, their order, and what is done to each batch."""
    return {
        "inputs": digests.of_data(batches.inputs),
        "targets": digests.of_data(batches.targets),
        "batch_size": batches.batch_size,
        "seed": batches.seed,
        "augment": digests.of_code(batches.augment),
        "order": digests.of_source(Path(inspect.getfile(Batches))),
    }


def _versions() -> dict[str, str]:
    import importlib

    backend = importlib.import_module(keras.backend.backend())
    return {
        "keras": ".".join(keras.__version__.split(".")[:2]),
        keras.backend.backend(): ".".join(str(backend.__version__).split(".")[:2]),
        "python": ".".join(platform.python_version_tuple()[:2]),
        WORKBENCH: __version__,
    }


def _names(model: Any) -> dict[str, str]:
    """Keras numbers layers through all models of a process; here each name stands for its place in this one."""
    found = {model.name: "#0"}
    for number, layer in enumerate(model._flatten_layers(include_self=False), start=1):
        found.setdefault(layer.name, f"#{number}")
    return found


def _layer(layer: Any, names: Mapping[str, str]) -> dict[str, Any]:
    config = _config(layer)
    for own in ("name", "function"):
        # A Lambda's function is told as code below.
        config.pop(own, None)
    return {"class": type(layer).__name__, "config": _clean(config, names), "code": _class_code(layer)}


def _connections(model: Any, names: Mapping[str, str]) -> str | None:
    """How the layers are connected, as a hash; None for a plain sequence or a class of one's own."""
    config = _config(model)
    wiring = [
        [names.get(str(layer.get("name"))), _clean(layer.get("inbound_nodes"), names)]
        for layer in config.get("layers", [])
        if isinstance(layer, Mapping) and layer.get("inbound_nodes")
    ]
    told = repr([wiring, _clean(config.get("output_layers"), names)])
    return hashlib.sha256(told.encode()).hexdigest() if wiring else None


def _optimizer(optimizer: Any) -> Any:
    if optimizer is None:
        return None
    if optimizer not in _begun:
        config = _clean(_config(optimizer), {})
        config.pop("name", None)
        _begun[optimizer] = {"class_name": type(optimizer).__name__, **config}
    return _begun[optimizer]


def _part(part: Any) -> Any:
    """A loss, a metric, or dicts and lists of them."""
    if part is None or isinstance(part, bool | int | float | str):
        return part
    if isinstance(part, Mapping):
        return {str(name): _part(inner) for name, inner in part.items()}
    if isinstance(part, list | tuple):
        return [_part(inner) for inner in part]
    if isinstance(part, types.FunctionType):
        own = "site-packages" not in part.__code__.co_filename
        return digests.of_code(part) if own else {"class_name": part.__name__}
    return {"class_name": type(part).__name__, **_clean(_config(part), {}), "code": _class_code(part)}


def _config(part: Any) -> dict[str, Any]:
    try:
        return dict(part.get_config())
    except Exception:
        # A class of one's own need not have one; its code is compared all the same.
        return {}


def _class_code(part: Any) -> Any:
    """The code of a class that is the user's own (and of a Lambda's function); None for Keras' own."""
    function = getattr(part, "function", None)
    if isinstance(part, keras.layers.Lambda):
        return digests.of_code(function)
    if type(part).__module__.partition(".")[0] in ("keras", "kaggle_workbench"):
        return None
    methods = [method for _, method in sorted(vars(type(part)).items()) if isinstance(method, types.FunctionType)]
    return digests.of_code(methods) if methods else None


def _clean(config: Any, names: Mapping[str, str]) -> Any:
    """A configuration as JSON, without what differs from one making of it to the next."""
    if isinstance(config, Mapping):
        told = {str(key): _clean(value, names) for key, value in config.items() if key not in _UNTOLD}
        if isinstance(told.get("name"), str):
            # Of a second "adam" in a process: "adam_1".
            told["name"] = re.sub(r"_\d+$", "", told["name"])
        return told
    if isinstance(config, list | tuple):
        return [_clean(value, names) for value in config]
    if isinstance(config, str):
        return names.get(config, config)
    if config is None or isinstance(config, bool | int | float):
        return config
    if hasattr(config, "item") and getattr(config, "size", 0) == 1:
        return config.item()
    if hasattr(config, "get_config"):
        return {"class_name": type(config).__name__, **_clean(_config(config), names)}
    if isinstance(config, types.FunctionType):
        return getattr(config, "__name__", "")
    # Without the address that a plain object's text holds.
    return str(config).split(" at 0x")[0]
