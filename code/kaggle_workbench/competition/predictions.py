"""Predictions written in the exact form of the sample submission."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kaggle_workbench.competition.problem import Problem
from kaggle_workbench.competition.sample import Sample, read_sample
from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import write_atomic
from kaggle_workbench.show import plural

Row = list[Any]


def write_submission(file: Path, problem: Problem, predictions: Sequence[Any]) -> int:
    """Write a submission: the sample's columns, its ids in its order, the predictions.

    Args:
        file: Where to; the folder must exist.
        problem: The competition's tables.
        predictions: One per row of the test table, in its order, (rows,); (rows, columns) with several columns
            to predict, in the sample's order.

    Returns:
        Number of rows.

    Raises:
        UsageError: The form of a submission is not known, or the predictions do not have it.
    """
    sample = read_sample(problem.sample_file) if problem.sample_file is not None else None
    id, columns = _form(problem, sample)
    values = _table(predictions, [name for name in columns if not id or name != id], problem, sample)
    rows = sample.rows if sample is not None else len(problem.test)
    if len(values) != len(problem.test) or len(values) != rows:
        raise UsageError(
            f"{plural(len(values), 'prediction')} for {plural(len(problem.test), 'test row')} and "
            f"{plural(rows, 'row')} in the sample submission.",
            hint="Predict every row of the test data exactly once.",
        )
    if not len(values):
        raise UsageError(
            f"The test data of {problem.name} have no rows, so there is nothing to submit.",
            hint="In a code competition the submission is made by a notebook on Kaggle: ./kwb push submit.",
        )
    ordered, ids = _in_order(problem, sample, id, values)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for name, cells in zip(ids, ordered, strict=True):
        left = iter(cells)
        writer.writerow([name if column == id else next(left) for column in columns])
    write_atomic(file, text.getvalue())
    return len(ordered)


def _form(problem: Problem, sample: Sample | None) -> tuple[str, list[str]]:
    """The id column and all columns of a submission."""
    if sample is not None:
        return sample.id, list(sample.columns)
    if not problem.id or not problem.targets:
        raise UsageError(
            f"{problem.name} has no sample submission, so the form of one is not known.",
            hint="Set ID_COLUMN and TARGET in variables.env: then these two columns are written;\n"
            "or write submission.csv yourself, as the competition's page describes it.",
        )
    return problem.id, [problem.id, *problem.targets]


def _in_order(problem: Problem, sample: Sample | None, id: str, values: list[Row]) -> tuple[list[Row], list[str]]:
    """The rows in the sample's order, with its ids as they stand there."""
    if sample is None:
        return values, [str(value) for value in problem.test[id]]
    ids = list(sample.positions) or [""] * len(values)
    if id not in problem.test.columns:
        return values, ids
    by_id = dict(zip(problem.test[id].astype(str), values, strict=True))
    if len(by_id) < len(values):
        raise UsageError(
            f"The test data hold an {id} twice, so it does not tell which row is meant.",
            hint="ID_COLUMN in variables.env names another column; or write submission.csv yourself.",
        )
    # Whole numbers with gaps were read as floats: 7.0 is row 7.
    plain = {key[:-2] if key.endswith(".0") else key: row for key, row in by_id.items()}
    strange = [name for name in ids if name not in by_id and name.strip() not in plain]
    if strange:
        raise UsageError(
            f"The test data hold no row for {id} {strange[0]!r} of the sample submission "
            f"({plural(len(strange), 'id')} in all).",
            hint="Look at both files in 01-data; ID_COLUMN in variables.env names another column.",
        )
    return [by_id[name] if name in by_id else plain[name.strip()] for name in ids], ids


def _table(predictions: Any, names: Sequence[str], problem: Problem, sample: Sample | None) -> list[Row]:
    """Predictions as rows of plain cells.

    Raises:
        UsageError: Another number of columns; a cell that is missing or no finite number; labels of another kind than
            the sample's.
    """
    import numpy as np

    array = np.asarray(predictions)
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] != len(names)):
        raise UsageError(
            f"{problem.name} asks for {plural(len(names), 'column')} ({', '.join(map(str, names[:5]))}); the "
            f"predictions have the shape {array.shape}.",
            hint="Give one value a row for each of these columns, in this order.",
        )
    if array.ndim == 1 and len(names) != 1:
        raise UsageError(
            f"{problem.name} asks for {len(names)} columns; one column of predictions was given.",
            hint="Write submission.csv yourself, in the form of the sample submission.",
        )
    array = array.reshape(len(array), len(names))
    if array.dtype.kind == "b" and sample is not None and all(column.kind == "integer" for column in sample.targets):
        array = array.astype("int64")  # true and false here, 1 and 0 there
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(
            f"{plural(int((~np.isfinite(array)).sum()), 'prediction')} are missing or infinite.",
            hint="Look at the model's outputs; nothing was written.",
        )
    return [[_cell(value) for value in row] for row in array.tolist()]


def _cell(value: Any) -> Any:
    # Nine digits are what a float32 has, and more than a score sees.
    return f"{value:.9g}" if isinstance(value, float) and not value.is_integer() else _whole(value)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and abs(value) < 2**53 else value
