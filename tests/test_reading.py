"""Forty made file sets: read rightly, or refused with a sentence that says what to set; never a wrong submission."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kaggle_workbench.baselines import Data, Predictions, boost, make_folds
from kaggle_workbench.competition.check import check_submission
from kaggle_workbench.competition.predictions import write_submission
from kaggle_workbench.competition.problem import Problem, read_problem
from kaggle_workbench.competition.reading.overrides import Overrides
from kaggle_workbench.errors import WorkbenchError

ROWS, TEST = 80, 30
FEW = {"max_iter": 5, "learning_rate": 0.5, "min_samples_leaf": 2, "early_stopping": False}


@dataclass
class Made:
    """Tables of a competition before they are written."""

    train: pd.DataFrame
    test: pd.DataFrame
    sample: pd.DataFrame | None

    def write(self, folder: Path, **how: Any) -> None:
        options = {"index": False, **how}
        self.train.to_csv(folder / "train.csv", **options)
        self.test.to_csv(folder / "test.csv", **options)
        if self.sample is not None:
            self.sample.to_csv(folder / "sample_submission.csv", index=False)


def tables(answers: Any = None, sample: Any = 0, *, target: str = "target", **columns: Any) -> Made:
    """Two numbers, a category and an answer that they tell; `columns` are laid over (for both tables: ROWS + TEST)."""
    random = np.random.RandomState(3)
    rows = ROWS + TEST
    table = pd.DataFrame(
        {
            "id": np.arange(1000, 1000 + rows),
            "size": random.normal(size=rows).round(3),
            "count": random.randint(0, 50, rows),
            "colour": random.choice(["red", "green", "blue"], rows),
        }
    )
    for name, values in columns.items():
        table[name] = values(random, rows) if callable(values) else values
    if answers is None:
        truth: Any = (table["size"] + random.normal(size=rows) / 3 > 0).astype(int)
    else:
        truth = answers(table, random) if callable(answers) else answers
    train = table[:ROWS].copy()
    train[target] = np.asarray(truth)[:ROWS]
    test = table[ROWS:].reset_index(drop=True)
    return Made(train, test, pd.DataFrame({"id": test["id"], target: sample}))


@dataclass
class Case:
    """One file set, and what must come out.

    `facts` are attributes of the problem; `doubt` words of a doubt; `refused` words of the error instead.
    """

    write: Callable[[Path], None]
    metric: str = ""
    set: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    doubt: str = ""
    refused: str = ""
    submits: bool = True


def texts(folder: Path, **files: str | bytes) -> None:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_csv", ".csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def plain(folder: Path) -> None:
    tables().write(folder)


def with_columns(**columns: Any) -> Callable[[Path], None]:
    return lambda folder: tables(**columns).write(folder)


def packed(kind: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        made = tables()
        for name, table in (("train", made.train), ("test", made.test)):
            content = table.to_csv(index=False).encode()
            if kind == "gz":
                (folder / f"{name}.csv.gz").write_bytes(gzip.compress(content))
            else:
                target = folder / (f"{name}.zip" if kind == "zip" else f"{name}.csv.zip")
                with zipfile.ZipFile(target, "w") as archive:
                    archive.writestr(f"{name}.csv", content)
        assert made.sample is not None
        made.sample.to_csv(folder / "sample_submission.csv", index=False)

    return write


def changed(change: Callable[[Made], None], **columns: Any) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        made = tables(**columns)
        change(made)
        made.write(folder)

    return write


def encoded(encoding: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        made = tables(colour=lambda random, rows: random.choice(["grün", "weiß", "crème"], rows))
        made.write(folder, encoding=encoding)

    return write


def split_by_group(made: Made) -> None:
    made.train["patient"] = np.arange(ROWS) % 16
    made.test["patient"] = 100 + np.arange(TEST) % 6


def text_ids(made: Made) -> None:
    for table in (made.train, made.test, made.sample):
        assert table is not None
        table["id"] = [f"{value:08d}" for value in table["id"]]


def long_ids(made: Made) -> None:
    for table in (made.train, made.test, made.sample):
        assert table is not None
        table["id"] = table["id"] + 2**62 + 1


def by_class(made: Made) -> None:
    names = ["setosa", "virginica", "versicolor"]
    made.train["species"] = [names[value % 3] for value in made.train.pop("target")]
    made.train.loc[:2, "species"] = names
    assert made.sample is not None
    made.sample = made.sample[["id"]].assign(**{f"Status_{name}": 1 / 3 for name in names})


def pictures(folder: Path) -> None:
    from PIL import Image

    random = np.random.RandomState(0)
    ids = []
    for which, count in (("train", 60), ("test", 12)):
        for number in range(count):
            name = f"{which[0]}{number:03d}"
            path = folder / f"{which}_images" / f"{name}.png"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(random.randint(0, 255, (12, 12, 3), dtype=np.uint8)).save(path)
            ids.append(name)
    train = pd.DataFrame({"image_id": ids[:60], "label": np.arange(60) % 3})
    train.to_csv(folder / "train.csv", index=False)
    pd.DataFrame({"image_id": ids[60:], "label": 0}).to_csv(folder / "sample_submission.csv", index=False)


def folders_of_classes(folder: Path) -> None:
    from PIL import Image

    random = np.random.RandomState(0)
    for name in ("cat", "dog"):
        for number in range(20):
            path = folder / "train" / name / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.randint(0, 255, (10, 14, 3), dtype=np.uint8)).save(path)
    for number in range(8):
        path = folder / "test" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(random.randint(0, 255, (10, 14, 3), dtype=np.uint8)).save(path)
    sample = pd.DataFrame({"file": [f"{n}.jpg" for n in range(8)], "cat": 0.5, "dog": 0.5})
    sample.to_csv(folder / "sample_submission.csv", index=False)


def repeated_header(folder: Path) -> None:
    tables().write(folder)
    text = (folder / "train.csv").read_text()
    (folder / "train.csv").write_text(text + text)


def doubled_column(folder: Path) -> None:
    tables().write(folder)
    text = (folder / "train.csv").read_text().replace("id,size,count", "id,size,size", 1)
    (folder / "train.csv").write_text(text)


def two_files(folder: Path) -> None:
    made = tables()
    made.train.pop("target").to_frame().assign(id=made.train["id"])[["id", "target"]].to_csv(
        folder / "train_labels.csv", index=False
    )
    made.train.to_csv(folder / "train_features.csv", index=False)
    made.test.to_csv(folder / "test_features.csv", index=False)
    assert made.sample is not None
    made.sample.to_csv(folder / "sampleSubmission.csv", index=False)


def many_files(folder: Path) -> None:
    tables().write(folder)
    pd.DataFrame({"store": [1, 2], "town": ["a", "b"]}).to_csv(folder / "stores.csv", index=False)
    pd.DataFrame({"day": [1], "price": [2.0]}).to_csv(folder / "oil.csv", index=False)


def parts(folder: Path) -> None:
    made = tables()
    made.write(folder)
    (folder / "train.csv").rename(folder / "train_1.csv")
    made.train.to_csv(folder / "train_2.csv", index=False)


def long_form(folder: Path) -> None:
    made = tables()
    assert made.sample is not None
    made.sample = pd.DataFrame({"row": [f"{id}_{k}" for id in made.test["id"] for k in range(3)], "target": 0})
    made.write(folder)


def several(made: Made) -> None:
    made.train["second"] = made.train["count"] * 2.0 + 1
    made.train["target"] = made.train["size"] + 0.01 * made.train["count"]
    assert made.sample is not None
    made.sample["target"] = 0.0
    made.sample["second"] = 0.0


def marks(made: Made) -> None:
    made.train["toxic"] = (made.train["count"] > 25).astype(int)
    assert made.sample is not None
    made.sample["target"] = 0.5
    made.sample["toxic"] = 0.5


def genes(made: Made) -> None:
    def wide(table: pd.DataFrame) -> pd.DataFrame:
        values = np.random.RandomState(1).normal(size=(len(table), 20_000)).astype("float32").round(2)
        return pd.concat([table, pd.DataFrame(values, columns=[f"gene{n}" for n in range(20_000)])], axis=1)

    made.train, made.test = wide(made.train), wide(made.test)


def truths(made: Made) -> None:
    made.train["target"] = made.train["target"].astype(bool)
    assert made.sample is not None
    made.sample["target"] = False


def ranked(made: Made) -> None:
    made.train["target"] = made.train["colour"].str.upper() + (made.train["size"] > 0).astype(str)
    assert made.sample is not None
    made.sample["target"] = "REDTrue BLUEFalse GREENTrue"


def without_sample(change: Callable[[Made], None]) -> Callable[[Path], None]:
    def write(made: Made) -> None:
        change(made)
        made.sample = None

    return changed(write)


def without_test(folder: Path) -> None:
    tables().write(folder)
    (folder / "test.csv").unlink()


def dates(random: Any, rows: int) -> Any:
    return pd.date_range("2021-01-01", periods=rows, freq="D").strftime("%Y-%m-%d").to_numpy()


def shuffled_dates(random: Any, rows: int) -> Any:
    return random.permutation(dates(random, rows))


def words(random: Any, rows: int) -> Any:
    return [f"the {random.randint(9**9)} words of row {row}" for row in range(rows)]


def drop(made: Made, *names: str) -> None:
    made.train = made.train.drop(columns=list(names))
    made.test = made.test.drop(columns=list(names))


def leak(made: Made) -> None:
    made.train["outcome_code"] = made.train["target"].map({0: "N", 1: "Y"})
    made.test["outcome_code"] = "N"


def constants(made: Made) -> None:
    for table in (made.train, made.test):
        table["same"] = 7
        table["void"] = np.nan


def set_to(table: str, column: str, values: Any) -> Callable[[Made], None]:
    def change(made: Made) -> None:
        held = getattr(made, table)
        held[column] = values(held) if callable(values) else values

    return change


def answer_by_another_name(made: Made) -> None:
    made.train = made.train.rename(columns={"target": "first"}).assign(other=1)
    assert made.sample is not None
    made.sample = made.sample.rename(columns={"target": "prediction"})


def masks(made: Made) -> None:
    made.train["target"] = "1 3 10 2"
    assert made.sample is not None
    made.sample["target"] = "1 1"


def same_ids(made: Made) -> None:
    for table in (made.test, made.sample):
        assert table is not None
        table["id"] = 7


def negative(made: Made) -> None:
    made.train["target"] = -made.train["size"].abs()
    assert made.sample is not None
    made.sample["target"] = 0.5


def unseen_class(made: Made) -> None:
    made.train["kind"] = [1 + value for value in made.train.pop("target")]
    made.train.loc[:1, "kind"] = [3, 3]
    assert made.sample is not None
    made.sample = made.sample[["id"]].assign(**{f"Class_{number}": 0.25 for number in range(1, 5)})


def infinite(made: Made) -> None:
    made.train.loc[3, "size"] = np.inf
    made.test.loc[2, "size"] = -np.inf


AMOUNT = {"answers": lambda table, random: (50 + 10 * table["size"] + table["count"] / 10).round(2), "sample": 0.5}
TABLE = {"kind": "table", "id": "id", "targets": ("target",)}
BINARY = {**TABLE, "task": "binary", "wants": "labels"}

CASES: dict[str, Case] = {
    "plain": Case(plain, "Categorization Accuracy", facts=BINARY),
    "semicolons and decimal commas": Case(
        lambda folder: tables().write(folder, sep=";", decimal=","), "accuracy", facts=BINARY
    ),
    "tabs": Case(lambda folder: tables().write(folder, sep="\t"), "accuracy", facts=BINARY),
    "bars": Case(lambda folder: tables().write(folder, sep="|"), "accuracy", facts=BINARY),
    "byte order mark": Case(lambda folder: tables().write(folder, encoding="utf-8-sig"), "accuracy", facts=BINARY),
    "utf-16": Case(encoded("utf-16"), "accuracy", facts=BINARY),
    "latin-1": Case(encoded("latin-1"), "accuracy", facts=BINARY),
    "quoted newlines": Case(
        with_columns(colour=lambda random, rows: random.choice(["a\nb", 'c "d"', "e,f"], rows)),
        "accuracy", facts=BINARY,
    ),
    "windows line ends": Case(lambda folder: tables().write(folder, lineterminator="\r\n"), "accuracy", facts=BINARY),
    "64-bit ids": Case(changed(long_ids), "accuracy", facts=BINARY),
    "ids as text with leading zeros": Case(changed(text_ids), "accuracy", facts=BINARY),
    "dates": Case(with_columns(sold=shuffled_dates), "accuracy", facts={**BINARY, "time": None}),
    "dates that go on in the test": Case(
        with_columns(sold=dates), "accuracy", facts={**BINARY, "time": "sold"}, doubt="from past to future"
    ),
    "booleans": Case(changed(truths), "accuracy", facts=BINARY),
    "class missing in the sample": Case(with_columns(sample=1), "accuracy", facts=BINARY),
    "new categories in the test": Case(
        changed(set_to("test", "colour", "violet")), "accuracy", facts=BINARY
    ),
    "numbers in one table, text in the other": Case(
        changed(set_to("test", "count", lambda table: ["?", *map(str, table["count"][1:])])), "accuracy", facts=BINARY
    ),
    "all-NaN and constant columns": Case(
        changed(constants), "accuracy", facts={**BINARY, "features": ("size", "count", "colour")}
    ),
    "answers missing in some rows": Case(
        changed(set_to("train", "target", lambda table: table["target"].where(table.index % 9 > 0))),
        "accuracy",
        facts=BINARY,
        doubt="9 training rows without an answer",
    ),
    "target present in the test": Case(
        changed(set_to("test", "target", 1)), "accuracy", facts=BINARY, doubt="The test table holds values of 'target'"
    ),
    "target column empty in the test": Case(changed(set_to("test", "target", np.nan)), "accuracy", facts=BINARY),
    "a copy of the answer": Case(
        changed(leak), "accuracy", facts={**BINARY, "features": ("size", "count", "colour")}
    ),
    "groups that the test does not share": Case(
        changed(split_by_group), "accuracy", facts={**BINARY, "group": "patient"}, doubt="share no value of 'patient'"
    ),
    "groups, and the user says none": Case(
        changed(split_by_group), "accuracy", set={"group": "none"}, facts={**BINARY, "group": None}
    ),
    "probabilities": Case(
        with_columns(sample=0.5), "Area Under Receiver Operating Characteristic Curve",
        facts={**TABLE, "task": "binary", "wants": "probabilities"},
    ),
    "probabilities by the sample, metric unknown": Case(
        with_columns(sample=0.5), "Expected Fuzz", facts={**TABLE, "task": "binary", "wants": "probabilities",
        "stands_in": True}, doubt="'Expected Fuzz' is not known here",
    ),
    "a column for each class": Case(
        changed(by_class), "Multiclass Loss",
        facts={"kind": "table", "targets": ("species",), "task": "classes", "wants": "probabilities"},
    ),
    "amounts": Case(with_columns(**AMOUNT), "RMSE", facts={**TABLE, "task": "regression", "wants": "values"}),
    "amounts, metric of ratios": Case(
        with_columns(**AMOUNT), "Root Mean Squared Logarithmic Error", facts={**TABLE, "task": "regression"}
    ),
    "whole amounts, metric unknown": Case(
        with_columns(answers=lambda table, random: random.permutation(len(table)) * 3, sample=0),
        facts={**TABLE, "task": "regression"}, doubt="taken for amounts",
    ),
    "several amounts": Case(
        changed(several), "MCRMSE", facts={"kind": "table", "targets": ("target", "second"), "task": "several"}
    ),
    "several yes or no": Case(
        changed(marks), "Mean Columnwise AUC",
        facts={"kind": "table", "targets": ("target", "toxic"), "wants": "probabilities"},
    ),
    "ranked labels": Case(changed(ranked), "MAP@3", facts={**TABLE, "task": "classes", "wants": "ranking"}),
    "gz members": Case(packed("gz"), "accuracy", facts=BINARY),
    "zip members": Case(packed("zip"), "accuracy", facts=BINARY),
    "csv.zip members": Case(packed("csv.zip"), "accuracy", facts=BINARY),
    "answers in a second file": Case(two_files, "accuracy", facts=BINARY),
    "several other tables": Case(many_files, "accuracy", facts=BINARY),
    "training rows in two parts": Case(parts, "accuracy", refused="TRAIN_FILE=train_1.csv"),
    "training rows in two parts, one named": Case(
        parts, "accuracy", set={"train": "train_2.csv"}, facts=BINARY
    ),
    "header again in the middle": Case(repeated_header, "accuracy", refused="line 82: the header comes again"),
    "doubled column name": Case(doubled_column, "accuracy", refused="'size' more than once"),
    "no sample submission": Case(
        without_sample(lambda made: None), "accuracy", facts=BINARY, doubt="no sample submission"
    ),
    "no sample submission and no id": Case(
        without_sample(lambda made: drop(made, "id")), "accuracy", facts={**BINARY, "id": ""}, submits=False,
        refused="Set ID_COLUMN and TARGET",
    ),
    "no test table": Case(without_test, "accuracy", refused="no test.csv"),
    "empty test": Case(
        changed(lambda made: setattr(made, "test", made.test[:0])), "accuracy", facts=BINARY,
        doubt="The test table has no rows", submits=False, refused="rows",
    ),
    "a row of the sample is no row of the test": Case(
        long_form, "accuracy", facts={"targets": ("target",)}, doubt="a prediction is not one row", submits=False,
        refused="90 rows",
    ),
    "answer not plain": Case(
        changed(answer_by_another_name), "accuracy", facts={"targets": ()}, refused="TARGET=NAME"
    ),
    "answer not plain, and the user says it": Case(
        changed(answer_by_another_name), "accuracy", set={"target": ("first",)},
        facts={"targets": ("first",), "task": "binary"},
    ),
    "one answer in all rows": Case(
        changed(set_to("train", "target", 1)), "accuracy", refused="has one answer (1)"
    ),
    "masks": Case(changed(masks), "Dice", facts={"kind": "other", "task": ""}, refused="no baseline for that kind"),
    "ids that are not unique": Case(
        changed(same_ids), "accuracy", facts={"targets": ("target",)}, doubt="No column of the sample",
        submits=False, refused="asks for 2 columns",
    ),
    "negative amounts under a logarithm": Case(
        changed(negative), "RMSLE", facts={**TABLE, "task": "regression", "stands_in": True}, doubt="below 0",
    ),
    "a class that training never shows": Case(
        changed(unseen_class), "Log Loss", facts={"kind": "table", "by_class": (1, 2, 3, 4), "task": "classes"}
    ),
    "true and false against 1 and 0": Case(
        changed(set_to("train", "target", lambda table: table["target"].astype(bool))), "accuracy", facts=BINARY
    ),
    "infinite numbers": Case(changed(infinite), "accuracy", facts=BINARY),
    "a misspelt column": Case(plain, "accuracy", set={"target": ("taget",)}, refused="Did you mean 'target'"),
    "a misspelt metric": Case(plain, "accuracy", set={"metric": "acuracy"}, refused="not known here"),
    "only text": Case(
        changed(lambda made: drop(made, "size", "count", "colour"), story=words), "accuracy",
        facts={"kind": "text"}, refused="no baseline for that kind",
    ),
    "text beside numbers": Case(
        with_columns(story=words), "accuracy", facts={**BINARY, "features": ("size", "count", "colour")}
    ),
    "20,000 columns": Case(changed(genes), "accuracy", facts=BINARY),
    "pictures in files": Case(
        pictures, "accuracy", facts={"kind": "images", "targets": ("label",), "task": "classes", "side": 12}
    ),
    "folders of classes": Case(
        folders_of_classes, "Log Loss", facts={"kind": "images", "task": "binary", "by_class": ("cat", "dog")}
    ),
}  # fmt: skip


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
