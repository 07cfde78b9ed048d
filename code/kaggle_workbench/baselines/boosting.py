"""Gradient boosting on the folds: small trees, each mending what those before got wrong."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from kaggle_workbench.baselines.predictions import Predictions

# Chosen by cross-validation over three seeds on the practice tables; on few rows small steps and small trees do better.
FEW_ROWS = 20_000
FEW_AMOUNTS: dict[str, Any] = {
    "learning_rate": 0.03,
    "max_iter": 500,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 10,
    "l2_regularization": 1.0,
    "max_features": 0.3,
    "early_stopping": False,
}
FEW_CLASSES = FEW_AMOUNTS | {
    "learning_rate": 0.02,
    "max_iter": 300,
    "max_leaf_nodes": 6,
    "l2_regularization": 5.0,
    "max_features": 0.5,
}
# With many rows a tenth of them tells when to stop.
MANY: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_iter": 400,
    "max_leaf_nodes": 31,
    "early_stopping": True,
    "n_iter_no_change": 20,
    "max_features": 0.5,
}


def parameters_for(rows: int, *, amounts: bool) -> dict[str, Any]:
    """Parameters of scikit-learn's histogram gradient boosting.

    Args:
        rows: Training rows.
        amounts: Whether amounts are predicted, not classes.
    """
    return dict(MANY if rows >= FEW_ROWS else FEW_AMOUNTS if amounts else FEW_CLASSES)


def boost(
    predictions: Callable[[str], Predictions], *, seed: int, parameters: dict[str, Any] | None = None
) -> Predictions:
    """Fit gradient boosting to each fold.

    Args:
        predictions: Makes the `Predictions` of a model, from a text that tells it from others.
        seed: Start of the randomness.
        parameters: Of scikit-learn's estimator, in place of ours.

    Returns:
        Its predictions.

    Raises:
        PausedError: A stop was asked for; folds that are done are kept.
    """
    import sklearn

    given = parameters or {}
    made = predictions(f"scikit-learn {sklearn.__version__} {sorted(given.items())} {seed}")
    data = made.data
    train: Any = None
    for number in made.missing():
        if train is None:
            train, test = data.features_of_rows.for_trees(), data.features_of_rows.for_trees("test")
        rows, dev = made.folds[number]
        amounts = data.answers.kind == "amounts"
        columns = data.answers.values.shape[1] if data.answers.values.ndim == 2 else 1
        held, told = [], []
        for column in range(columns):
            model = _estimator(data, {**parameters_for(len(rows), amounts=amounts), **given}, seed + number)
            model.fit(train[rows], _column(data, column)[rows])
            held.append(_outputs(model, train[dev], data))
            told.append(_outputs(model, test, data))
        made.add(number, _joined(held, data), _joined(told, data))
    return made


def _estimator(data: Any, parameters: dict[str, Any], seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    common = {**parameters, "categorical_features": list(data.features_of_rows.categorical), "random_state": seed}
    known = inspect.signature(HistGradientBoostingClassifier).parameters
    if "max_features" not in known:
        # scikit-learn before 1.4, as in older images: every tree looks at all columns.
        common.pop("max_features", None)
    if data.answers.kind == "amounts":
        loss = "absolute_error" if data.answers.median else "squared_error"
        return HistGradientBoostingRegressor(loss=loss, **common)
    classes = data.outputs if data.answers.kind == "classes" else 2
    if classes > 2:
        # A tree for each class and step: with many classes fewer steps, so that the time stays bounded.
        common["max_iter"] = max(20, math.ceil(common["max_iter"] * min(1.0, 8 / classes)))
    return HistGradientBoostingClassifier(**common)


def _column(data: Any, column: int) -> Any:
    values = data.answers.values
    return values[:, column] if values.ndim == 2 else values


def _outputs(model: Any, inputs: Any, data: Any) -> Any:
    """(rows, classes) in the order of the data's classes, (rows,) for a mark or an amount."""
    import numpy as np

    if data.answers.kind == "amounts":
        return model.predict(inputs) if len(inputs) else np.zeros(0)
    wide = np.zeros((len(inputs), data.outputs if data.answers.kind == "classes" else 2))
    if len(inputs):
        # A class without rows in this fold has no column in the model; with one class alone it has two all the same.
        here = model.classes_.astype(int)
        wide[:, here] = model.predict_proba(inputs) if len(here) > 1 else 1.0
    return wide if data.answers.kind == "classes" else wide[:, 1]


def _joined(parts: list[Any], data: Any) -> Any:
    import numpy as np

    return parts[0] if data.answers.kind == "classes" else np.stack(parts, axis=1)
