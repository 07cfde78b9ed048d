"""Answers: as the data write them, as a model learns them, as a submission holds them."""

from __future__ import annotations

import re
from typing import Any

from kaggle_workbench.competition.problem import Problem
from kaggle_workbench.errors import UsageError

# Metrics that compare ratios: amounts are learnt as their logarithm.
OF_RATIOS = ("rmsle", "mean_columnwise_rmsle", "mape", "smape")
# Metrics whose best single guess is the median, not the mean.
OF_MEDIANS = ("mae", "medae", "mape", "smape")
# Outputs further outside what was seen than this, in standard deviations, are cut off.
BEYOND = 1.0
RANKED = 3


class Answers:
    """The answers of a competition's training rows.

    Args:
        problem: The competition.

    Attributes:
        values: What a model learns: class numbers (rows,); 0 and 1 (rows, targets) as float32; or amounts
            (rows, targets) as float32, scaled to mean 0 and spread 1, as logarithms where the metric compares ratios.
        kind: "classes", "marks" (several yes-or-no columns) or "amounts".
        outputs: Numbers that a model gives for a row.
        activation, loss, watched: Keras' names that fit.
    """

    def __init__(self, problem: Problem) -> None:
        import numpy as np

        self.problem = problem
        self.logarithm = self.median = False
        metric = problem.metric.name if problem.metric is not None else ""
        if problem.task in ("binary", "classes"):
            self.kind = "classes"
            self.classes = np.array(problem.classes, dtype=problem.train[problem.targets[0]].to_numpy().dtype)
            number = {value: place for place, value in enumerate(problem.classes)}
            self.values: Any = problem.train[problem.targets[0]].map(number).to_numpy(dtype="int64")
            self.outputs, self.activation = len(self.classes), "softmax"
            self.loss, self.watched = "sparse_categorical_crossentropy", ["accuracy"]
            return
        raw = problem.train[list(problem.targets)].to_numpy(dtype="float64")
        self.outputs = raw.shape[1]
        if problem.task == "several" and problem.wants in ("labels", "probabilities"):
            self.kind, self.values = "marks", raw.astype("float32")
            self.activation, self.loss, self.watched = "sigmoid", "binary_crossentropy", ["binary_accuracy"]
            return
        self.kind, self.activation = "amounts", "linear"
        self.median = metric in OF_MEDIANS
        self.loss = "mean_absolute_error" if self.median else "mean_squared_error"
        self.watched = ["mean_absolute_error"]
        self.logarithm = metric in OF_RATIOS and bool(raw.min() >= 0)
        self.is_positive = bool(raw.min() >= 0)
        learnt = np.log1p(raw) if self.logarithm else raw
        self.mean, self.spread = learnt.mean(axis=0), learnt.std(axis=0)
        self.spread[self.spread == 0] = 1.0
        self.values = ((learnt - self.mean) / self.spread).astype("float32")
        self.low, self.high = self.values.min(axis=0) - BEYOND, self.values.max(axis=0) + BEYOND

    def predictions(self, outputs: Any) -> Any:
        """What a submission holds, from what a model gave.

        Args:
            outputs: (rows, outputs): a probability for each class or mark, or scaled amounts.

        Returns:
            Labels, probabilities or amounts, (rows,) or (rows, columns of the submission); or texts of ranked labels.
        """
        import numpy as np

        outputs = np.asarray(outputs, dtype="float64").reshape(len(outputs), self.outputs)
        wants = self.problem.wants
        if self.kind == "amounts":
            learnt = np.clip(outputs, self.low, self.high) * self.spread + self.mean
            amounts = np.expm1(learnt) if self.logarithm else learnt
            if self.is_positive:
                amounts = np.maximum(amounts, 0.0)
            return amounts[:, 0] if len(self.problem.targets) == 1 else amounts
        if self.kind == "marks":
            return (outputs > 0.5).astype("int64") if wants == "labels" else outputs
        if wants == "labels":
            return self.classes[outputs.argmax(axis=1)]
        if wants == "ranking":
            best = np.argsort(-outputs, axis=1)[:, : self._ranked()]
            return np.array([" ".join(str(self.classes[place]) for place in row) for row in best], dtype=object)
        if self.problem.by_class:
            places = [self.problem.classes.index(name) for name in self.problem.by_class]
            return outputs[:, places]
        if len(self.classes) != 2:
            raise UsageError(
                f"{self.problem.name} asks for one probability a row, and there are {len(self.classes)} classes.",
                hint="Say what is asked for: TARGET or PROBLEM in variables.env; or write the submission yourself.",
            )
        return outputs[:, 1]

    def score(self, rows: Any, outputs: Any) -> float:
        """The metric on training rows that were held back.

        Args:
            rows: Positions of the rows, (n,).
            outputs: What a model gave for them, (n, outputs).

        Raises:
            UsageError: The metric refuses them, with the reason.
        """
        import numpy as np

        metric = self.problem.metric
        if metric is None:
            raise UsageError("No metric is known.", hint="Set METRIC in variables.env.")
        guess = self.predictions(outputs)
        if self.kind == "classes":
            numbers = self.values[rows]
            if guess.ndim == 2:
                places = [self.problem.classes.index(name) for name in self.problem.by_class]
                truth: Any = (numbers[:, None] == np.array(places)[None, :]).astype("int64")
            elif self.problem.wants == "probabilities":
                truth = numbers
            else:
                truth = self.classes[numbers]
                if self.problem.wants == "ranking":
                    truth = truth.astype(str).astype(object)
        else:
            truth = self.problem.train[list(self.problem.targets)].to_numpy()[rows]
            truth = truth[:, 0] if truth.shape[1] == 1 else truth
        return float(metric.score(truth, guess))

    def truth(self, rows: Any) -> Any:
        """The answers of training rows as the data write them: (n,) or (n, targets)."""
        return self.problem.labels[rows]

    def _ranked(self) -> int:
        found = re.search(r"\d+", self.problem.metric.name if self.problem.metric is not None else "")
        return min(len(self.classes), int(found.group()) if found else RANKED)
