"""What 02-train works on: a competition's rows as arrays to learn from, whatever kind they are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from kaggle_workbench.baselines.answers import Answers
from kaggle_workbench.baselines.features import Features
from kaggle_workbench.checkpoints import digests
from kaggle_workbench.competition.problem import KINDS, Problem
from kaggle_workbench.competition.reading.columns import listed
from kaggle_workbench.competition.reading.targets import no_target
from kaggle_workbench.errors import UsageError


@dataclass(frozen=True)
class Data(Problem):
    """A competition that a baseline can be trained for.

    Everything that `Problem` has, and inputs and answers as arrays.
    """

    @classmethod
    def of(cls, problem: Problem) -> Data:
        """A problem as data.

        Raises:
            UsageError: There is no baseline for its kind, or what is to be predicted is not plain.
        """
        if not problem.targets:
            raise no_target(problem.name, problem.train, problem.test, problem.doubts)
        if problem.kind not in ("pixels", "images", "table") or not problem.task:
            raise _no_baseline(problem)
        if problem.classes and len(problem.classes) < 2:
            raise UsageError(
                f"Every training row of {problem.name} has one answer ({problem.classes[0]!r}): nothing can be learnt.",
                hint="Is the right column predicted? TARGET in variables.env names another; or fetch the data again.",
            )
        return cls(**{each.name: getattr(problem, each.name) for each in fields(Problem)})

    @cached_property
    def features_of_rows(self) -> Features:
        """A table's columns as numbers."""
        return Features(self.train, self.test, self.features, time=self.time)

    @cached_property
    def answers(self) -> Answers:
        """What a model learns, and what its outputs mean."""
        return Answers(self)

    @cached_property
    def digest(self) -> str:
        """A hash of what is learnt from: the values of both tables, or the pictures' files by name and size."""
        if self.images is not None:
            files = [*self.images.train, *self.images.test]
            told: Any = [(file.name, file.stat().st_size) for file in files]
        elif self.kind == "table":
            told = [digests.of_table(table, self.features) for table in (self.train, self.test)]
        else:
            told = [digests.of_data(self.pictures(table)) for table in ("train", "test")]
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def inputs(self, table: str = "train") -> Any:
        """What a network sees of each row.

        Args:
            table: "train" or "test".

        Returns:
            Pictures as uint8, (rows, side, side) or (rows, side, side, 3); a table as numbers around 0, (rows, columns)
            as float32.
        """
        if self.kind == "table":
            return self.features_of_rows.for_network(table)
        return self.pictures(table)

    @property
    def targets_as_numbers(self) -> Any:
        """What a network should answer: class numbers (rows,), or numbers (rows, targets) as float32."""
        return self.answers.values

    @property
    def outputs(self) -> int:
        """How many numbers a network must give for a row."""
        return self.answers.outputs

    @property
    def activation(self) -> str:
        """Keras' name of the last layer's activation."""
        return self.answers.activation

    @property
    def loss(self) -> str:
        """Keras' name of the loss that fits the metric."""
        return self.answers.loss

    @property
    def watched(self) -> list[str]:
        """Keras' names of what is shown after each epoch."""
        return self.answers.watched


def _no_baseline(problem: Problem) -> UsageError:
    left_out = [name for name, why in problem.dropped.items() if "free text" not in why]
    if problem.kind == "other" and problem.task and left_out and not problem.features:
        return UsageError(
            f"No column of {problem.name} is left to learn from: {listed(problem.dropped)}.",
            hint="Make some in add_columns in 02-train, or correct DROP_COLUMNS or TARGET in variables.env.",
        )
    why = " ".join([f"The rows of {problem.name} are {KINDS[problem.kind]}; 02-train has no baseline for that kind."])
    if problem.kind == "other" and problem.doubts:
        why = " ".join([f"02-train has no baseline for what {problem.name} asks for.", *problem.doubts])
    return UsageError(
        why,
        hint="Put your own in its place, from the cell 'Edit here: the data' on: stage.problem has .train "
        "and .test,\nand stage.save_submission(predictions) writes the submission.",
    )
