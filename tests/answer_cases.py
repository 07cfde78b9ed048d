"""Made file sets whose answers are odd, or contradict what the user says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reading_cases import ROWS, Case, Made, changed, plain, tables

LABELS = {"kind": "table", "wants": "labels"}


def two(low: Any, high: Any) -> Callable[[Any, Any], Any]:
    return lambda table, _: np.where(table["size"] > 0, high, low)


def answers(answers: Any, sample: Any, change: Callable[[Made], None] | None = None) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        made = tables(answers, sample)
        if change is not None:
            change(made)
        made.write(folder)

    return write


def amounts(table: pd.DataFrame, random: Any) -> Any:
    """Amounts that no column copies."""
    return (table["size"] * 3 + random.normal(size=len(table))).round(3)


def dollars(table: pd.DataFrame, random: Any) -> Any:
    return [f"${1000 + 100 * amount:,.0f}" for amount in amounts(table, random)]


def three(table: pd.DataFrame, _: Any) -> Any:
    return np.select([table["size"] > 0.5, table["size"] < -0.5], ["Insomnia", "None"], "Apnea")


def a_second_target(values: Any) -> Callable[[Made], None]:
    def change(made: Made) -> None:
        assert made.sample is not None
        made.train["second"], made.sample["second"] = values[:ROWS], values[0]

    return change


def labels_apart(key: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Answers in a second file, whose ids are written otherwise."""

    def write(folder: Path) -> None:
        made = tables()
        labels = made.train[["id", "target"]].assign(id=made.train["id"].map(key))
        made.train.drop(columns="target").to_csv(folder / "train_features.csv", index=False)
        labels.to_csv(folder / "train_labels.csv", index=False)
        made.test.to_csv(folder / "test_features.csv", index=False)
        assert made.sample is not None
        made.sample.to_csv(folder / "sample_submission.csv", index=False)

    return write


def day_first(random: Any, rows: int) -> Any:
    """Each day of January and February, written 31/01/2023: the test rows come later."""
    return pd.date_range("2023-01-01", periods=rows).strftime("%d/%m/%Y")


def one_class_first(made: Made) -> None:
    """For the first half of the time only one answer was given."""
    made.train.loc[: ROWS // 2, "target"] = 0
    made.train.loc[ROWS // 2 + 1 :, "target"] = np.arange(ROWS - ROWS // 2 - 1) % 2


def without_rows(folder: Path) -> None:
    plain(folder)
    header = (folder / "train.csv").read_text().splitlines()[0]
    (folder / "train.csv").write_text(header + "\n")


CASES = {
    "'None' is an answer": Case(
        answers(three, "None"), "accuracy", facts={**LABELS, "classes": ("Apnea", "Insomnia", "None")},
        doubt="read 'None': taken for an answer",
    ),
    "labels 1 and 2, probabilities asked for": Case(
        answers(two(1, 2), 0.5), "AUC", facts={"task": "binary", "wants": "probabilities"}
    ),
    "labels -1 and 1 under F1": Case(
        answers(two(-1, 1), 1), "F1 Score", facts={**LABELS, "stands_in": True}, doubt="F1 Score cannot score these"
    ),
    "a sample of labels under a metric of probabilities": Case(
        answers(two("N", "Y"), "N"), "Log Loss", facts={**LABELS, "stands_in": True}, doubt="does not fit"
    ),
    "labels with commas and quotes": Case(answers(two("a,b", 'say "ü"'), "a,b"), "accuracy", facts=LABELS),
    "amounts as text": Case(
        answers(dollars, 0.0), "RMSE", facts={"kind": "other"}, doubt="neither classes nor amounts",
        refused="no baseline for what made asks for",
    ),
    "several columns, one of them text": Case(
        answers(None, 0, a_second_target(["x"] * ROWS)), "RMSE", facts={"kind": "other"}, refused="'second' holds text"
    ),
    "a metric of numbers for labels that are text": Case(
        answers(two("N", "Y"), "N"), set={"metric": "rmse"}, facts={**LABELS, "stands_in": True},
        doubt="calculates with numbers",
    ),
    "grades under a metric of numbers, and the user says classes": Case(
        answers(lambda table, _: np.clip(table["size"].round(), -2, 2), 0), "RMSE", set={"problem": "classes"},
        facts={"task": "classes", "wants": "labels", "stands_in": False},
    ),
    "PROBLEM=regression for text": Case(
        answers(two("N", "Y"), "N"), "RMSE", set={"problem": "regression"}, refused="'target' holds text, such as"
    ),
    "PROBLEM=binary for amounts": Case(
        answers(amounts, 0.0), "RMSE", set={"problem": "binary"}, refused="different answers"
    ),
    "PROBLEM=several for one column": Case(
        plain, "accuracy", set={"problem": "several"}, refused="one column is to be"
    ),
    "PROBLEM=binary for two columns": Case(
        answers(None, 0, a_second_target([0, 1] * ROWS)), set={"problem": "binary"}, refused="2 columns are to be"
    ),
    "groups by the answer": Case(plain, "accuracy", set={"group": "target"}, refused="which is what is to be"),
    "time by the answer": Case(plain, "accuracy", set={"time": "target"}, refused="which is what is to be"),
    "time by a category": Case(plain, "accuracy", set={"time": "colour"}, refused="neither dates nor numbers"),
    "all columns left out": Case(
        plain, "accuracy", set={"drop": ("size", "count", "colour")}, refused="No column of made is left to learn from"
    ),
    "training table without rows": Case(without_rows, "accuracy", refused="has a header and no rows"),
    "three training rows": Case(
        changed(lambda made: setattr(made, "train", made.train[:3])), "accuracy", refused="3 training rows, too few"
    ),
    "ids of the answers' file as text": Case(
        labels_apart(lambda value: "first" if value == 1000 else value), "accuracy", facts={"task": "binary"},
        doubt="1 training row without an answer",
    ),
    "ids of the answers' file are others": Case(
        labels_apart(lambda value: f"x{value}"), "accuracy", refused="no row has an answer"
    ),
    "days before months": Case(
        lambda folder: tables(amounts, 0.0, sold=day_first).write(folder), "RMSE", facts={"time": "sold"}
    ),
    "one class alone in the first folds": Case(
        lambda folder: late(folder), "AUC", facts={"time": "sold"}
    ),
}  # fmt: skip


def late(folder: Path) -> None:
    made = tables(None, 0.5, sold=day_first)
    one_class_first(made)
    made.write(folder)
