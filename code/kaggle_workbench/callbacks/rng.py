"""The random generators of a process: Python's, NumPy's, Keras' and the backend's own."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from kaggle_workbench.callbacks.state import copied
from kaggle_workbench.checkpoints.values import Arrays, pack, unpack

_GLOBAL_SEEDS = "global_seed_generator"


def capture(arrays: Arrays) -> Any:
    """State of all global generators, as JSON; larger parts go to `arrays`."""
    state = {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "keras": _keras_state(),
        **_backend_state(),
    }
    return pack(state, arrays, "rng")


def restore(content: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Put back what `capture` has kept; what this backend does not have is left out."""
    state = unpack(content, dict(arrays))
    if state.get("keras") is not None:
        _put_keras(state["keras"])
    _put_backend(state)
    # Last: making one of the generators above draws from Python's.
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])


def _keras_state() -> Any:
    # Private to Keras, but the only way: what `keras.random.normal(...)` without a seed draws from.
    from keras.src.backend.common import global_state

    generator = global_state.get_global_attribute(_GLOBAL_SEEDS)
    return None if generator is None else copied(generator.state)


def _put_keras(state: Any) -> None:
    from keras.src.random.seed_generator import global_seed_generator

    global_seed_generator().state.assign(state)


def _backend_state() -> dict[str, Any]:
    found: dict[str, Any] = {}
    if keras.backend.backend() == "tensorflow":
        generator = _tensorflow_generator()
        if generator is not None:
            found["tensorflow"] = np.array(generator.state)
    elif keras.backend.backend() == "torch":
        import torch

        found["torch"] = torch.get_rng_state().numpy().copy()
        if torch.cuda.is_available():
            found["cuda"] = [state.cpu().numpy().copy() for state in torch.cuda.get_rng_state_all()]
    # JAX has no global generator.
    return found


def _put_backend(state: Mapping[str, Any]) -> None:
    if keras.backend.backend() == "tensorflow" and "tensorflow" in state:
        import tensorflow

        tensorflow.random.get_global_generator().reset(state["tensorflow"])
    elif keras.backend.backend() == "torch" and "torch" in state:
        import torch

        torch.set_rng_state(torch.from_numpy(np.array(state["torch"])))
        cards = state.get("cuda", [])
        if cards and torch.cuda.is_available() and torch.cuda.device_count() == len(cards):
            torch.cuda.set_rng_state_all([torch.from_numpy(np.array(card)) for card in cards])


def _tensorflow_generator() -> Any:
    # Asking for it by its public name would make one, and draw from Python's generator for that.
    module = sys.modules.get("tensorflow.python.ops.stateful_random_ops")
    return getattr(module, "global_generator", None)
