"""Forty made file sets: read rightly, or refused with a sentence that says what to set; never a wrong submission."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from answer_cases import CASES as ANSWER_CASES
from kaggle_workbench import plots
from kaggle_workbench.baselines import Data, Predictions, boost, make_folds
from kaggle_workbench.competition.check import check_submission
from kaggle_workbench.competition.doubts import find_doubts
from kaggle_workbench.competition.predictions import write_submission
from kaggle_workbench.competition.problem import Problem, read_problem
from kaggle_workbench.competition.problem import with_columns as with_own
from kaggle_workbench.competition.reading.overrides import Overrides
from kaggle_workbench.errors import WorkbenchError
from reading_cases import CASES as FILE_CASES
from reading_cases import ROWS, TEST, Case, Made, changed, dates, pictures, split_by_group, tables, with_columns

CASES = {**FILE_CASES, **ANSWER_CASES}
FEW = {"max_iter": 5, "learning_rate": 0.5, "min_samples_leaf": 2, "early_stopping": False}


def read(case: Case, folder: Path) -> Problem:
    folder.mkdir()
    case.write(folder)
    return read_problem("made", folder, metric=case.metric, overrides=Overrides(**case.set))


@pytest.mark.parametrize("name", CASES)
def test_a_file_set_is_read_or_refused_and_never_submitted_wrongly(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    try:
        problem = read(case, tmp_path / "data")
        for fact, value in case.facts.items():
            assert getattr(problem, fact) == value, fact
        if case.doubt:
            assert any(case.doubt in doubt for doubt in problem.doubts), problem.doubts
        look_at(problem)
        data = Data.of(problem)
        submission, made = trained(data, tmp_path / "run")
        file = tmp_path / "submission.csv"
        rows = write_submission(file, data, submission)
    except WorkbenchError as error:
        said = f"{error.message} {error.hint}"
        is_right = bool(case.refused) and case.refused in said and bool(error.hint)
        if not is_right:
            raise
        return
    assert not case.refused, "this must be refused"
    assert rows == len(problem.test)
    assert np.isfinite(made.score())
    if problem.sample_file is not None:
        known = [str(each) for each in problem.classes] if problem.wants == "labels" else None
        report = check_submission(file, problem.sample_file, classes=known, metric=case.metric)
        assert not report.faults, report.faults
        ids = pd.read_csv(problem.sample_file, dtype=str).iloc[:, 0].tolist()
        assert pd.read_csv(file, dtype=str).iloc[:, 0].tolist() == ids, "the sample's ids, as they stand there"


def look_at(problem: Problem) -> None:
    """What 01-data shows."""
    find_doubts(problem)
    figures = []
    if problem.side:
        figures.append(plots.samples(problem.pictures(), problem.labels))
    else:
        figures.append(plots.columns(problem.train, problem.test, problem.features))
    if problem.classes:
        figures.append(plots.class_balance(problem.labels))
    elif problem.task:
        figures.append(plots.amounts(problem.train[list(problem.targets)]))
    for figure in figures:
        assert figure.get_label(), "a picture says what it shows"


def trained(data: Data, folder: Path) -> tuple[Any, Predictions]:
    """Out-of-fold and test predictions of a small model; what a network would give where there are no columns."""
    folds = make_folds(data, seed=0, count=2 if data.kind == "table" else None)
    if data.kind == "table":
        made = boost(lambda text: Predictions("boosting", data, folds, folder, made_by=text), seed=0, parameters=FEW)
        assert np.isfinite(data.inputs()).all()
        assert np.isfinite(data.inputs("test")).all()
        return made.submission(), made
    assert data.inputs().shape == (len(data.train), data.side, data.side, 3)
    made = Predictions("even", data, folds, folder)
    even = 1 / data.outputs
    made.add(0, np.full((len(folds[0][1]), data.outputs), even), np.full((len(data.test), data.outputs), even))
    return made.submission(), made


def test_there_are_forty_file_sets_and_more() -> None:
    assert len(CASES) >= 40


def test_the_answer_is_learnt_and_not_only_read(tmp_path: Path) -> None:
    """Rows, answers and ids belong together: with a column that tells the answer nearly all are right."""
    made = tables()
    made.train["hint"] = made.train["target"] * 10 + np.random.RandomState(0).randint(0, 3, ROWS)
    truth = np.random.RandomState(1).randint(0, 2, TEST)
    made.test["hint"] = truth * 10 + np.random.RandomState(2).randint(0, 3, TEST)
    assert made.sample is not None
    order = np.random.RandomState(4).permutation(TEST)
    made.sample = made.sample.iloc[order]
    made.write(tmp_path)
    data = Data.of(read_problem("made", tmp_path, metric="accuracy"))
    submission, fitted = trained(data, tmp_path / "run")
    assert fitted.score() > 0.95
    write_submission(tmp_path / "submission.csv", data, submission)
    guess = pd.read_csv(tmp_path / "submission.csv").set_index("id")["target"]
    right = pd.Series(truth, index=made.test["id"])
    assert (guess == right.reindex(guess.index)).mean() > 0.95


def test_kept_folds_are_taken_up_and_those_of_another_model_are_not(tmp_path: Path) -> None:
    tables().write(tmp_path)
    data = Data.of(read_problem("made", tmp_path, metric="accuracy"))
    folds = make_folds(data, seed=0)
    first = Predictions("mine", data, folds, tmp_path, made_by="a")
    for fold in list(first.missing())[:3]:
        first.add(fold, np.full(len(folds[fold][1]), 0.25), np.full(TEST, 0.75))
    assert list(Predictions("mine", data, folds, tmp_path, made_by="a").missing()) == [3, 4]
    assert list(Predictions("mine", data, folds, tmp_path, made_by="b").missing()) == [0, 1, 2, 3, 4]
    (tmp_path / "predictions" / "mine-1.npz").write_bytes(b"half a file")
    assert list(Predictions("mine", data, folds, tmp_path, made_by="a").missing()) == [0, 3, 4]
    again = Predictions("mine", data, make_folds(data, seed=1), tmp_path, made_by="a")
    assert list(again.missing()) == [0, 1, 2, 3, 4], "other rows are held back"


def test_folds_are_honest_about_groups_and_time(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    changed(split_by_group)(tmp_path / "g")
    data = Data.of(read_problem("made", tmp_path / "g", metric="accuracy"))
    for train, dev in make_folds(data, seed=0).pairs:
        assert not set(data.train["patient"].iloc[train]) & set(data.train["patient"].iloc[dev])
    (tmp_path / "t").mkdir()
    with_columns(sold=dates)(tmp_path / "t")
    data = Data.of(read_problem("made", tmp_path / "t", metric="accuracy"))
    for train, dev in make_folds(data, seed=0).pairs:
        assert data.train["sold"].iloc[train].max() < data.train["sold"].iloc[dev].min()


def test_pictures_are_read_into_the_rows_they_belong_to(tmp_path: Path) -> None:
    from PIL import Image

    pictures(tmp_path)
    data = Data.of(read_problem("made", tmp_path, metric="accuracy"))
    table = pd.read_csv(tmp_path / "train.csv")
    for row in (0, 17, 59):
        file = tmp_path / "train_images" / f"{table['image_id'][row]}.png"
        assert (data.inputs()[row] == np.asarray(Image.open(file))).all()
    (tmp_path / "train_images" / "t000.png").write_bytes(b"no picture")
    with pytest.raises(WorkbenchError, match=r"t000\.png is no picture"):
        data.inputs()


def test_binary_copies_hold_what_was_read(tmp_path: Path) -> None:
    """A second reading goes by copies; it must find the same."""
    made = tables()
    made.train = pd.concat([made.train] * 400, ignore_index=True)
    made.train["id"] = np.arange(len(made.train))
    made.write(tmp_path)
    assert (tmp_path / "train.csv").stat().st_size > 500_000
    first, again = (read_problem("made", tmp_path, home=tmp_path / "copies", metric="accuracy") for _ in range(2))
    assert io.StringIO(first.train.to_csv()).getvalue() == again.train.to_csv()
    assert first.features == again.features


def squares(names: list[str]) -> Made:
    random = np.random.RandomState(5)
    made = tables(**{name: random.randint(0, 256, ROWS + TEST) for name in names})
    others = ["size", "count", "colour"]
    return Made(made.train.drop(columns=others), made.test.drop(columns=others), made.sample)


@pytest.mark.parametrize(
    ("names", "how", "found"),
    [
        ([f"p{n}" for n in range(16)], {}, ("pixels", 4)),
        ([f"p{n}" for n in range(16)], {"rows": "table"}, ("table", 0)),
        (list("abcdefjkl"), {}, ("table", 0)),
        (list("abcdefjkl"), {"rows": "pixels"}, ("pixels", 3)),
        ([*"abcdefjkl", "extra"], {"rows": "pixels"}, "10 columns to learn from are no square"),
        ([*"abcdefjkl", "extra"], {"rows": "pixels", "drop": ("extra",)}, ("pixels", 3)),
        (list("abc"), {"rows": "images"}, "ROW_KIND is images, and no column"),
    ],
)
def test_the_kind_of_rows_can_be_said(names: list[str], how: Any, found: Any, tmp_path: Path) -> None:
    squares(names).write(tmp_path)
    if isinstance(found, str):
        with pytest.raises(WorkbenchError, match=found):
            read_problem("made", tmp_path, metric="accuracy", overrides=Overrides(**how))
        return
    problem = read_problem("made", tmp_path, metric="accuracy", overrides=Overrides(**how))
    assert (problem.kind, problem.side) == found


@pytest.mark.parametrize(
    ("change", "features", "refused"),
    [
        (lambda table: table.assign(both=1), ("size", "count", "colour", "both"), ""),
        (lambda table: table.drop(columns="count"), ("size", "colour"), ""),
        (lambda table: table.drop(columns="count").assign(more=2), ("size", "colour", "more"), ""),
        (lambda table: table.drop(columns="target", errors="ignore"), (), "'target', which is needed"),
        (lambda table: table.drop(columns="id"), (), "'id', which is needed"),
        (lambda table: table if "target" in table else table.drop(columns="size"), (), "from one of the two tables"),
        (
            lambda table: table.assign(mine=1) if "target" in table else table,
            (),
            "is in the training table only",
        ),
        (lambda table: table.head(5), (), "there are 5 training and 5 test rows"),
    ],
)
def test_columns_of_one_s_own(change: Any, features: tuple[str, ...], refused: str, tmp_path: Path) -> None:
    tables().write(tmp_path)
    problem = read_problem("made", tmp_path, metric="accuracy")
    if refused:
        with pytest.raises(WorkbenchError, match=refused) as error:
            with_own(problem, change(problem.train), change(problem.test))
        assert error.value.hint
        return
    data = Data.of(with_own(problem, change(problem.train), change(problem.test)))
    assert data.features == features
    trained(data, tmp_path / "run")


def test_columns_beside_pictures_leave_the_pictures_as_they_are(tmp_path: Path) -> None:
    squares([f"p{n}" for n in range(16)]).write(tmp_path)
    problem = read_problem("made", tmp_path, metric="accuracy")
    more = with_own(problem, problem.train.assign(mean=1), problem.test.assign(mean=1))
    assert (Data.of(more).inputs() == Data.of(problem).inputs()).all()
    with pytest.raises(WorkbenchError, match="'p3', a pixel"):
        with_own(problem, problem.train.drop(columns="p3"), problem.test.drop(columns="p3"))


def test_rows_of_text_alone_are_compared_by_their_text(tmp_path: Path) -> None:
    made = tables(story=[f"row {number} says this" for number in range(ROWS + TEST)])
    for table in (made.train, made.test):
        table[["size", "count", "colour"]] = ""
    made.train.loc[1, "story"] = made.train.loc[0, "story"]
    made.write(tmp_path)
    problem = read_problem("made", tmp_path, metric="accuracy")
    assert problem.kind == "text"
    found = {doubt.question: doubt.finding for doubt in find_doubts(problem)}
    assert found["Equal rows"] == "1 training row equal to another one"
    assert found["Test rows seen in training"] == "none"
