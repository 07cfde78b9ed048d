"""What a model, or several together, give on the folds, and how good that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kaggle_workbench.baselines.data import Data
from kaggle_workbench.baselines.folds import Folds
from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import write_atomic

# Of a run's folder.
FOLDER = "predictions"


class Outputs:
    """Outputs for the rows held back of each fold, and for the test rows.

    Args:
        name: Of the model.
        data: The competition.
        folds: The folds.
        held: Outputs for the rows held back by the fold's number, (rows, outputs).
        test: Outputs for the test rows by the fold's number, (rows, outputs).
    """

    def __init__(self, name: str, data: Data, folds: Folds, held: Mapping[int, Any], test: Mapping[int, Any]) -> None:
        self.name, self.data, self.folds = name, data, folds
        self._held, self._test = dict(held), dict(test)

    @property
    def rows(self) -> Any:
        """Positions of the training rows that were held back, in the order of `held_back`."""
        import numpy as np

        return np.concatenate([self.folds[number][1] for number in sorted(self._held)])

    @property
    def held_back(self) -> Any:
        """Outputs for the rows held back, (rows, outputs)."""
        import numpy as np

        return np.concatenate([self._held[number] for number in sorted(self._held)])

    @property
    def test(self) -> Any:
        """Outputs for the test rows, averaged over the folds, (rows, outputs)."""
        self._require_whole()
        return sum(self._test[number].astype("float64") for number in sorted(self._test)) / len(self._test)

    def fold_score(self, number: int) -> float:
        """The metric on the rows held back of one fold."""
        return self.data.answers.score(self.folds[number][1], self._held[number])

    def fold_scores(self) -> list[float]:
        """The metric on each fold; a fold that it cannot score (one class alone, say) is left out."""
        found = []
        for number in sorted(self._held):
            with suppress(UsageError):
                found.append(self.fold_score(number))
        return found

    def score(self) -> float:
        """The metric on all rows held back, taken together."""
        self._require_whole()
        return self.data.answers.score(self.rows, self.held_back)

    def submission(self) -> Any:
        """What a submission holds for the test rows: labels, probabilities or amounts."""
        return self.data.answers.predictions(self.test)

    def guesses(self) -> Any:
        """The same for the rows held back, in the order of `rows`."""
        return self.data.answers.predictions(self.held_back)

    def _metric(self) -> str:
        return self.data.metric.name if self.data.metric is not None else "score"

    def _require_whole(self) -> None:
        if len(self._held) < len(self.folds):
            raise UsageError(
                f"{self.name}: {len(self._held)} of {len(self.folds)} folds are there.",
                hint="Add the others first: `for number in predictions.missing(): ...`.",
            )


def blend(models: Sequence[Outputs]) -> Outputs:
    """The mean of several models' outputs, on the same folds.

    Args:
        models: At least two, each with all folds.
    """
    first = models[0]
    held = {number: sum(model._held[number] for model in models) / len(models) for number in first._held}
    test = {number: sum(model._test[number] for model in models) / len(models) for number in first._test}
    return Outputs(" + ".join(model.name for model in models), first.data, first.folds, held, test)


def write_held_back(folder: Path, model: Outputs) -> Path:
    """Write the predictions for the rows held back as CSV: row, fold, answer, prediction.

    Args:
        folder: The run's folder.
        model: Outputs with all folds.

    Returns:
        The file, predictions/held-back.csv; `row` counts the training rows from 0.
    """
    import numpy as np
    import pandas as pd

    rows, data = model.rows, model.data
    fold = np.concatenate([np.full(len(dev), number + 1) for number, (_, dev) in enumerate(model.folds.pairs)])
    truth, guess = np.asarray(data.answers.truth(rows)), np.asarray(model.guesses())
    table: dict[str, Any] = {"row": rows, "fold": fold}
    for what, values in (("answer", truth), ("prediction", guess)):
        wide = values.reshape(len(values), -1)
        for place in range(wide.shape[1]):
            table[what if wide.shape[1] == 1 else f"{what}_{place + 1}"] = wide[:, place]
    file = folder / FOLDER / "held-back.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, pd.DataFrame(table).sort_values("row").to_csv(index=False))
    return file
