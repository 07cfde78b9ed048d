"""02-train: what computes, the score on rows held back, the submission."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kaggle_workbench import devices, show
from kaggle_workbench.baselines import Data, Folds, Outputs, Predictions, blend, boost, make_folds, write_held_back
from kaggle_workbench.baselines.made_of import made_of
from kaggle_workbench.baselines.outputs import FOLDER
from kaggle_workbench.competition.predictions import write_submission
from kaggle_workbench.competition.problem import Problem, with_columns
from kaggle_workbench.competition.reading.targets import no_target
from kaggle_workbench.deadline import paused
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.files import sha256
from kaggle_workbench.metrics import Metric
from kaggle_workbench.stages.cards import Card, Grid
from kaggle_workbench.stages.stage import SUBMISSION_FILE, Stage, executed

Columns = Callable[[Any], Any]
# Larger steps gain no speed and learn worse.
MOST_BATCH = 4096


class TrainStage(Stage):
    """The stage of 02-train.

    Attributes:
        data: What `load` gave; None before.
        folds: What `split` gave; None before.
    """

    name = "train"
    next = "Next: 03-submit checks the submission and sends it."
    data: Data | None = None
    folds: Folds | None = None

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

    def load(self, columns: Columns | None = None) -> Data:
        """The competition's rows, to learn from.

        Args:
            columns: Given a table (of pandas), it returns it with columns of your own; called for the training and for
                the test table.

        Raises:
            UsageError: There is no baseline for this kind of rows, or what is to be predicted is not plain.
        """
        problem = self.problem
        if columns is not None:
            problem = with_columns(
                problem, columns(problem.train.copy(deep=False)), columns(problem.test.copy(deep=False))
            )
        self.data = Data.of(problem)
        metric = problem.metric
        self.run.update(metric=metric.name if metric is not None else None)
        if problem.stands_in and metric is not None:
            show.note(f"CV is measured by {metric.title}, which stands in for the competition's own metric.")
        return self.data

    @property
    def shown(self) -> Problem:
        """What `overview` tells of: with columns of one's own once they are loaded."""
        return self.data if self.data is not None else self.problem

    def split(self) -> Folds:
        """Which rows are held back: pairs of row numbers, to train on and to be judged by."""
        self.folds = make_folds(self.loaded, seed=self.settings.seed, count=self.settings.folds)
        first, dev = self.folds[0]
        print(f"{self.folds.method}: {len(first):,} rows to train on, {len(dev):,} held back")
        return self.folds

    @property
    def loaded(self) -> Data:
        """What `load` gave.

        Raises:
            UsageError: It was not called.
        """
        if self.data is None:
            raise UsageError("Nothing is loaded yet.", hint="Run the cell 'Edit here: the data' first.")
        return self.data

    @property
    def batch_size(self) -> int:
        """Rows in a step: as set; for a large table, unless set, so many that an epoch has about 200 steps."""
        asked = self.settings.batch_size
        if "BATCH_SIZE" in self.settings.origins or self.loaded.kind != "table":
            return asked
        return int(max(asked, min(MOST_BATCH, 2 ** round(math.log2(max(1, len(self.loaded.train) / 200))))))

    def predictions(self, name: str, *parts: Any) -> Predictions:
        """Room for what one model gives on each fold; what a stopped training left there is taken up.

        What was kept is made anew when the rows, their values, the folds, the seed, the epochs or one of `parts` has
        changed since.

        Args:
            name: The model's name: letters, digits and dashes.
            parts: What the model is made of and learns from beyond the competition's tables: a Keras model and its
                `Batches`, an estimator, arrays, functions, text.

        Raises:
            UsageError: A name that cannot be one of a file.
        """
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", name):
            raise UsageError(f"{name!r} cannot name predictions.", hint="Use letters, digits and dashes.")
        return Predictions(
            name,
            self.loaded,
            self.folds or self.split(),
            self.folder,
            made_by=f"{made_of(*parts)} {self.settings.seed} {self.settings.epochs}",
            watch=self._watch_folds,
            kept=self._kept,
        )

    def boost(self, **parameters: Any) -> Predictions:
        """Gradient boosting (scikit-learn's) on the folds of a table, with a line for each fold.

        Args:
            parameters: Of the estimator, in place of ours: `learning_rate`, `max_iter`, ...
        """
        with self.pause:
            return boost(
                lambda text: self.predictions("boosting", text), seed=self.settings.seed, parameters=parameters
            )

    def choose(self, *models: Outputs) -> Outputs:
        """Compare models by the metric on the rows held back, keep the best one's score as the run's CV.

        Args:
            models: Outputs with all folds. With two or more, their mean is compared, too.

        Returns:
            The best; shown as a table.
        """
        candidates = [*models, blend(models)] if len(models) > 1 else list(models)
        metric = self._metric()
        sign = 1 if metric.greater_is_better else -1
        scores = [model.score() for model in candidates]
        best = max(range(len(candidates)), key=lambda place: sign * scores[place])
        chosen = candidates[best]
        folds = chosen.fold_scores() if len(chosen.folds) > 1 else None
        rows = len(chosen.rows)
        self.run.update(
            metric=metric.name,
            cv={
                "metric": metric.name,
                "score": scores[best],
                "method": chosen.folds.method,
                "rows": rows,
                "folds": folds,
                "model": chosen.name,
            },
        )
        write_held_back(self.folder, chosen)
        table = [_compared(model, score, metric) for model, score in zip(candidates, scores, strict=True)]
        held = f"{chosen.folds.method}: {show.plural(rows, 'row')} held back from training, each judged once."
        grid = Grid(f"CV {metric.name}: {scores[best]:.4f} by {chosen.name}", table, [held], "good")
        if executed():
            print(f"CV {metric.name} {scores[best]:.4f}")
        if show.in_notebook():
            show.output({"text/html": grid._repr_html_(), "text/plain": repr(grid)})
        return chosen

    @property
    def history(self) -> list[dict[str, Any]]:
        """One entry per epoch, from the run's record."""
        return list(self.run.read()["history"])

    def score(self, truth: Any, predicted: Any) -> Card:
        """Score predictions for rows held back by the competition's metric, and keep it as the run's CV.

        Args:
            truth: True answers, (rows,).
            predicted: Predicted ones, (rows,), as a submission holds them.
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

    def _metric(self) -> Metric:
        found = self.problem.metric
        if found is None:
            raise no_target(self.problem.name, self.problem.train, self.problem.test, self.problem.doubts)
        return found

    def _watch_folds(self, needed_s: float) -> None:
        """Stop between two folds when that was asked for, or the next one would not be done in time."""
        asked = self.pause.asked()
        why = f"{asked}." if asked else "The session ends soon." if self.deadline.due(needed_s) else ""
        if why:
            address = self.store.address if self.store is not None else None
            raise paused(self.run.id, f"{why} The training is paused; the folds so far are kept.", store=address)

    def _kept(self, file: Path) -> None:
        if self.uploader is not None:
            self.uploader.put(f"{self.run.id}/{FOLDER}/{file.name}", file)


def _compared(model: Outputs, score: float, metric: Metric) -> dict[str, Any]:
    folds = model.fold_scores()
    spread = f"{min(folds):.4f} to {max(folds):.4f}" if len(folds) > 1 and len(model.folds) > 1 else ""
    row: dict[str, Any] = {"model": model.name, f"CV {metric.name}": score}
    return {**row, "folds": spread} if spread else row


def _rows(table: Any) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.itertuples(index=False)]
