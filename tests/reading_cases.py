"""Made file sets of competitions: what is odd about each, and what must come out."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROWS, TEST = 80, 30


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
    "masks": Case(changed(masks), "Dice", facts={"kind": "other", "task": ""}, refused="which have no baseline"),
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
