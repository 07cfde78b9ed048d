"""One model's outputs, fold by fold: for the rows held back, and for the test rows; kept in the run's folder.

A training that was stopped goes on at the first fold that is missing. What was made of other rows,
values or answers, or by another model, is made anew.
"""

from __future__ import annotations

import hashlib
import io
import math
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kaggle_workbench.baselines.data import Data
from kaggle_workbench.baselines.folds import Folds
from kaggle_workbench.baselines.outputs import FOLDER, Outputs
from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import write_atomic


class Predictions(Outputs):
    """What one model gives for the rows held back of each fold, and for the test rows.

    Args:
        name: The model's name; also of its files.
        data: The competition.
        folds: The folds.
        folder: The run's folder.
        made_by: Text that tells one model from another: another text, and kept folds are made anew.
        watch: Called before each fold with its number of seconds so far; may raise to stop.
        kept: Called with each file that was written.
    """

    def __init__(
        self,
        name: str,
        data: Data,
        folds: Folds,
        folder: Path,
        *,
        made_by: str = "",
        watch: Callable[[float], None] | None = None,
        kept: Callable[[Path], None] | None = None,
    ) -> None:
        super().__init__(name, data, folds, {}, {})
        self._folder = folder / FOLDER
        self._watch, self._kept = watch, kept
        self._stamps = [self._stamp(number, made_by) for number in range(len(folds))]
        for number in range(len(folds)):
            self._take_up(number)

    def missing(self) -> Iterator[int]:
        """The numbers of the folds still to be made, one after the other.

        Raises:
            PausedError: A stop was asked for, or the session ends; the folds so far are kept.
        """
        longest = 0.0
        for number in range(len(self.folds)):
            if number in self._held:
                continue
            if self._watch is not None:
                self._watch(longest)
            started = time.perf_counter()
            yield number
            longest = max(longest, time.perf_counter() - started)

    def add(self, number: int, held_back: Any, test: Any) -> None:
        """Keep what the model of one fold gives.

        Args:
            number: The fold, from 0.
            held_back: Outputs for its dev rows, (rows, outputs) or (rows,).
            test: Outputs for the test rows, likewise.

        Raises:
            UsageError: Another number of rows or outputs, or what is no number.
        """
        import numpy as np

        dev = self.folds[number][1]
        self._held[number] = self._checked(held_back, len(dev), f"the rows held back of fold {number + 1}")
        self._test[number] = self._checked(test, len(self.data.test), "the test rows")
        content = io.BytesIO()
        np.savez(content, stamp=self._stamps[number], held_back=self._held[number], test=self._test[number])
        file = self._file(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, content.getvalue())
        if self._kept is not None:
            self._kept(file)
        which = f"fold {number + 1}/{len(self.folds)}" if len(self.folds) > 1 else self.folds.method
        try:
            said = f"{self._metric()} {self.fold_score(number):.4f}"
        except UsageError as error:
            # All rows together may well have a score.
            said = f"no score of its own: {error.message}"
        print(f"{self.name:<10} {which}  {said}")

    def _file(self, number: int) -> Path:
        return self._folder / f"{self.name}-{number + 1}.npz"

    def _checked(self, outputs: Any, rows: int, what: str) -> Any:
        import numpy as np

        wanted = self.data.outputs
        found = np.asarray(outputs)
        if found.ndim == 1 and self.data.answers.kind == "classes" and wanted == 2:
            # The probability of the second class alone, as many models give it.
            found = np.stack([1 - found, found], axis=1)
        found = found.reshape(len(found), math.prod(found.shape[1:]))
        if found.shape != (rows, wanted):
            raise UsageError(
                f"{self.name} gives {found.shape[1]} numbers for each of {len(found):,} rows; {what} are {rows:,}, and "
                f"{wanted} numbers are wanted for each.",
                hint="For classes: a probability for each, in the order of data.classes.",
            )
        if not np.isfinite(found).all():
            raise UsageError(
                f"{self.name} gives {int((~np.isfinite(found)).sum()):,} outputs that are no numbers (NaN or infinite) "
                f"for {what}.",
                hint="The training has gone astray: lower the learning rate, or look for wild values in 01-data.",
            )
        return found.astype("float32")

    def _take_up(self, number: int) -> None:
        import numpy as np

        try:
            with np.load(self._file(number), allow_pickle=False) as kept:
                if str(kept["stamp"]) == self._stamps[number]:
                    self._held[number], self._test[number] = kept["held_back"], kept["test"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            # None there, or half a file from elsewhere: the fold is made again.
            return

    def _stamp(self, number: int, made_by: str) -> str:
        import numpy as np

        train, dev = self.folds[number]
        found = hashlib.sha256(f"{self.name}\n{made_by}\n{self.data.digest}\n{self._metric()}".encode())
        for array in (train, dev, self.data.answers.values):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()
