"""Predictions written in the exact form of the sample submission."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kaggle_workbench.competition.problem import Problem
from kaggle_workbench.competition.sample import read_sample
from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import write_atomic
from kaggle_workbench.show import plural


def write_submission(file: Path, problem: Problem, predictions: Sequence[Any]) -> int:
    """Write a submission: the sample's columns, its ids in its order, the predictions.

    Args:
        file: Where to; the folder must exist.
        problem: The competition's tables.
        predictions: One per row of the test table, in its order.

    Returns:
        Number of rows.

    Raises:
        UsageError: No sample submission, several columns to predict, or another number of rows.
    """
    if problem.sample_file is None:
        raise UsageError(
            f"{problem.name} has no sample submission, so the form of one is not known.",
            hint="Write submission.csv yourself, as the competition's page describes it.",
        )
    sample = read_sample(problem.sample_file)
    if len(sample.targets) != 1:
        raise UsageError(
            f"{problem.name} asks for {len(sample.targets)} columns; one column of predictions was given.",
            hint="Write submission.csv yourself, in the form of the sample submission.",
        )
    values = _plain(predictions)
    if len(values) != len(problem.test) or len(values) != sample.rows:
        raise UsageError(
            f"{plural(len(values), 'prediction')} for {plural(len(problem.test), 'test row')} and "
            f"{plural(sample.rows, 'row')} in the sample submission.",
            hint="Predict every row of the test data exactly once.",
        )
    if sample.id in problem.test.columns:
        by_id = dict(zip(problem.test[sample.id].astype(str), values, strict=True))
        strange = [id for id in sample.positions if id not in by_id]
        if strange:
            raise UsageError(f"The test data hold no row for id {strange[0]!r} of the sample submission.")
        ordered = [by_id[id] for id in sample.positions]
    else:
        ordered = values
    ids = iter(sample.positions)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(sample.columns)
    for value in ordered:
        id = next(ids, None)
        writer.writerow([id if column == sample.id else value for column in sample.columns])
    write_atomic(file, text.getvalue())
    return len(ordered)


def _plain(predictions: Sequence[Any]) -> list[Any]:
    # NumPy's own numbers would be written as they print, not as CSV wants them.
    return list(predictions.tolist() if hasattr(predictions, "tolist") else predictions)
