"""02-train: what computes, the score on rows held back, the submission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kaggle_workbench import devices, metrics, show
from kaggle_workbench.competition.predictions import write_submission
from kaggle_workbench.competition.problem import Problem
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.files import sha256
from kaggle_workbench.stages.cards import Card, Grid
from kaggle_workbench.stages.stage import SUBMISSION_FILE, Stage, executed


class TrainStage(Stage):
    """The stage of 02-train."""

    name = "train"
    next = "Next: 03-submit checks the submission and sends it."

    def begin(self) -> None:
        """Connect if that can be done, and decide what computes; called by `open_stage`."""
        if not self.goes_on:
            # What an earlier training left in this run would be taken for this one's.
            self.run.update(history=[], cv=None, lb=None, submission=None)
        try:
            self.connect()
        except MissingError as error:
            self.disconnect()
            # Only the data are needed, and they may be here: offline, or in a session without internet.
            self.notes.append(f"Going on without a connection: {error.message}")
        self.device = devices.decide(self.settings)
        self.step.update(device=self.device.to_dict())
        use = devices.use(self.device, self.settings)
        self.step.update(device={**self.device.to_dict(), **use.to_dict()})
        self.notes += use.lines
        if executed():
            print("\n".join([f"Computes on {self.device.line}", *use.lines]))

    def load_pictures(self) -> Problem:
        """The competition's tables, for a network that looks at pictures.

        Raises:
            UsageError: The competition is of another kind.
        """
        problem = self.problem
        if problem.side and problem.classes:
            return problem
        raise UsageError(
            f"{problem.name} is a table of {show.plural(len(problem.features), 'column')}, not of pixels; "
            "02-train has no baseline for that kind yet.",
            hint="Put your own in its place, from the cell 'Load the data' on: stage.load() gives the tables .train\n"
            "and .test, and stage.save_submission(predictions) writes the submission.",
        )

    @property
    def history(self) -> list[dict[str, Any]]:
        """One entry per epoch, from the run's record."""
        return list(self.run.read()["history"])

    def score(self, truth: Any, predicted: Any) -> Card:
        """Score predictions for rows held back by the competition's metric, and keep it as the run's CV.

        Args:
            truth: True classes, (rows,).
            predicted: Predicted classes, (rows,).
        """
        metric = self._metric()
        value = metric.score(truth, predicted)
        cv = {"metric": metric.name, "score": value, "method": "hold-out", "rows": len(truth)}
        self.run.update(metric=metric.name, cv=cv)
        if executed():
            print(f"CV {metric.name} {value:.4f}")
        held = f"on {show.plural(len(truth), 'row')} held back from training"
        return Card(f"CV {metric.name}: {value:.4f}", notes=[held], mood="good")

    def save_submission(self, predictions: Sequence[Any]) -> Grid:
        """Write the run's submission.csv in the sample's form.

        Args:
            predictions: One per row of the test table, in its order.
        """
        import pandas

        file = self.folder / SUBMISSION_FILE
        rows = write_submission(file, self.problem, predictions)
        head = pandas.read_csv(file, dtype=str, nrows=5)
        self.step.update(files=[{"name": file.name, "size": file.stat().st_size, "sha256": sha256(file)}])
        return Grid(f"{show.plural(rows, 'row')} in {self.short(file)}", _rows(head), ["The first rows."], "good")

    def _metric(self) -> metrics.Metric:
        wanted = self.competition.metric if self.competition else ""
        known = metrics.METRICS.values()
        return next((one for one in known if wanted in (one.title, one.name)), metrics.metric("accuracy"))


def _rows(table: Any) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.itertuples(index=False)]
