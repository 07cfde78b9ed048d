"""What a model's kept predictions were made of, as text: other text, and they are made anew."""

from __future__ import annotations

import sys
from typing import Any

from kaggle_workbench.checkpoints import digests


def made_of(*parts: Any) -> str:
    """Text that is the same for the same parts in every process, and another one for others.

    Args:
        parts: What a model is made of and learns from: a Keras model, `training.Batches`, an estimator of
            scikit-learn's kind, arrays, tables, functions, text, numbers.
    """
    return repr([_told(part) for part in parts])


def _told(part: Any) -> Any:
    if part is None or isinstance(part, str | bool | int | float):
        return part
    if "keras" in sys.modules:
        from kaggle_workbench.batches import Batches
        from kaggle_workbench.callbacks import fingerprint

        if isinstance(part, Batches):
            return fingerprint.of_batches(part)
        if isinstance(part, sys.modules["keras"].Model):
            return fingerprint.of_model(part)
    if hasattr(part, "columns") and hasattr(part, "dtypes"):
        return digests.of_table(part, list(part.columns))
    if hasattr(part, "get_params") and not isinstance(part, type):
        module = sys.modules.get(type(part).__module__.partition(".")[0])
        version = getattr(module, "__version__", "")
        return f"{type(part).__module__}.{type(part).__qualname__} {version} {sorted(part.get_params().items())}"
    if hasattr(part, "shape") or isinstance(part, dict | list | tuple):
        return digests.of_data(part)
    return [type(part).__qualname__, digests.of_code(part)]
