"""check_submission: every fault, all at once, with its place; and never a fault in a sound file."""

from __future__ import annotations

import csv
import gzip
import io
import random
import time
import zipfile
from pathlib import Path

import pytest

from kaggle_workbench.competition.check import check_submission
from kaggle_workbench.competition.classes import known_classes
from kaggle_workbench.competition.report import Report
from kaggle_workbench.competition.sample import find_sample
from kaggle_workbench.errors import UsageError, WorkError

DIGITS = "ImageId,Label\n" + "".join(f"{number},0\n" for number in range(1, 11))
GOOD = "ImageId,Label\n" + "".join(f"{number},{number % 10}\n" for number in range(1, 11))
LONG_IDS = "id,target\n" + "".join(f"{2**60 + number * 3},0\n" for number in range(5))
PADDED_IDS = "id,target\n0001,0.5\n0002,0.5\n0010,0.5\n"
SHARES = "id,a,b,c\n1,0.333,0.333,0.333\n2,0.333,0.333,0.333\n"


def _check(
    folder: Path,
    content: str | bytes,
    *,
    sample: str = DIGITS,
    name: str = "submission.csv",
    classes: object = range(10),
    **options: object,
) -> Report:
    (folder / "sample_submission.csv").write_text(sample)
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return check_submission(file, folder / "sample_submission.csv", classes=classes, **options)  # type: ignore[arg-type]


def _kinds(report: Report) -> list[str]:
    return [fault.kind for fault in report.faults]


def test_a_good_file(tmp_path: Path) -> None:
    report = _check(tmp_path, GOOD)
    assert report.ok
    assert not report.warnings
    assert report.rows == 10
    assert str(report) == "submission.csv is good to submit: 10 rows, columns ImageId, Label."
    assert report.to_dict()["ok"] is True


# Content, the kinds of fault expected, words of the answer.
BAD = {
    "missing column": ("ImageId\n1\n", ["missing column", "row count", "missing ids"], "'Label' is missing"),
    "extra column": (GOOD.replace("\n", ",x\n"), ["extra column"], "'x' is not in the sample"),
    "index column": (
        "Unnamed: 0," + GOOD.replace("\n", "\n0,").rstrip("0,") + "\n",
        ["index column"],
        "index=False",
    ),
    "unnamed index": ("," + GOOD.replace("\n", "\n0,").rstrip("0,") + "\n", ["index column"], "index=False"),
    "misspelt case": (GOOD.replace("ImageId", "imageid"), ["column name"], "upper and lower case count"),
    "misspelt": (GOOD.replace("Label", "Lable"), ["column name"], "'Label' is called 'Lable'"),
    "column order": (
        "\n".join(",".join(reversed(line.split(","))) for line in GOOD.splitlines()),
        ["column order"],
        "another order",
    ),
    "doubled column": (GOOD.replace("ImageId,Label", "ImageId,Label,Label"), ["doubled column", "cells"], "twice"),
    "no header": (GOOD.split("\n", 1)[1], ["no header"], "first line is data"),
    "missing ids": (GOOD.replace("4,4\n", ""), ["row count", "missing ids"], "sample row 4: '4'"),
    "extra ids": (GOOD + "11,3\n", ["row count", "extra ids"], "line 12: '11'"),
    "doubled ids": (GOOD + "3,3\n", ["row count", "doubled ids"], "line 12: '3', first in line 4"),
    "shifted ids": (GOOD.replace("10,0\n", "0,0\n"), ["extra ids", "missing ids"], "shifted by one"),
    "decimal ids": (GOOD.replace("4,4", "4.0,4"), ["changed ids"], "line 5: '4.0' instead of '4'"),
    "spaced ids": (GOOD.replace("4,4", " 4,4"), ["changed ids"], "Strip"),
    "text": (GOOD.replace("4,4", "4,four"), ["text"], "line 5 (ImageId 4): Label is 'four'"),
    "hard space": (GOOD.replace("4,4", "4,4\u00a0"), ["text"], "line 5 (ImageId 4): Label is"),
    "array": (GOOD.replace("4,4", "4,[4]"), ["text"], "a whole array"),
    "boolean": (GOOD.replace("4,4", "4,True"), ["text"], ".astype(int)"),
    "float labels": (GOOD.replace("4,4", "4,4.0"), ["label as float"], ".astype(int)"),
    "probabilities": (GOOD.replace("4,4", "4,0.93"), ["label as fraction"], "argmax"),
    "unknown class": (GOOD.replace("4,4", "4,10"), ["class"], "none of the known classes (0, 1, 2"),
    "empty": (GOOD.replace("4,4", "4,"), ["empty"], "left empty, in 1 row"),
    "nan": (GOOD.replace("4,4", "4,NaN"), ["nan"], "missing (NaN), in 1 row"),
    "infinite": (GOOD.replace("4,4", "4,-inf"), ["infinite"], "infinite, in 1 row"),
    "semicolons": (GOOD.replace(",", ";"), ["separator"], "semicolons, not by commas"),
    "tabs": (GOOD.replace(",", "\t"), ["separator"], "tabs, not by commas"),
    "cells": (GOOD.replace("4,4", "4,4,4"), ["cells"], "line 5: 3 cells"),
    "open quote": (GOOD.replace("4,4", '4,"4'), ["quoting"], "Line 5: a quote opens"),
    "empty file": ("", ["not a CSV file"], "empty file"),
    "blank file": ("\n\n", ["not a CSV file"], "only blank lines"),
    "header alone": ("ImageId,Label\n", ["row count", "missing ids"], "0 rows where the sample has 10"),
    "zero bytes": (b"\0" * 4000, ["not a CSV file"], "zero bytes"),
    "utf-16": (GOOD.encode("utf-16"), ["encoding"], "UTF-16, not UTF-8"),
    "utf-16 without mark": (GOOD.encode("utf-16-le"), ["encoding"], "UTF-16, not UTF-8"),
    "latin-1": (GOOD.replace("4,4", "4,4é").encode("latin-1"), ["encoding", "text"], "not UTF-8, in 1 line"),
    "parquet": (b"PAR1\x15\x00", ["not a CSV file"], "Parquet"),
    "json": ('[{"ImageId": 1}]', ["not a CSV file"], "JSON"),
    "web page": ("<!doctype html>", ["not a CSV file"], "web page"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path: Path, name: str) -> None:
    content, kinds, words = BAD[name]
    report = _check(tmp_path, content)
    assert _kinds(report) == kinds
    assert words in str(report)
    assert not report.ok
    assert all(fault.fix for fault in report.faults if fault.kind not in ("missing column",))


def test_all_faults_in_one_answer(tmp_path: Path) -> None:
    content = "imageid;Label;Unnamed: 0\n1;7.0;0\n2;0.5;1\n2;eleven;2\n4.0;;3\n5;NaN;4\n99;19;5\n7;1\n"
    report = _check(tmp_path, content)
    assert set(_kinds(report)) == {
        *("separator", "column name", "index column", "cells", "row count", "changed ids", "extra ids", "missing ids"),
        *("doubled ids", "label as float", "label as fraction", "text", "empty", "nan", "class"),
    }
    for line in ("line 2 ", "line 3 ", "line 4 ", "line 5 ", "line 6 ", "line 7 ", "line 8:"):
        assert line in str(report), line


def test_only_the_first_places_are_shown(tmp_path: Path) -> None:
    report = _check(tmp_path, GOOD.replace(",", ",x"))
    fault = next(fault for fault in report.faults if fault.kind == "text")
    assert fault.count == 10
    assert len(fault.examples) == 5
    assert "... and 5 more" in str(report)


def test_ids_are_compared_as_text(tmp_path: Path) -> None:
    ids = [line.split(",")[0] for line in LONG_IDS.splitlines()[1:]]
    assert _check(tmp_path, LONG_IDS.replace(",0\n", ",1\n"), sample=LONG_IDS, classes=None).ok
    rounded = "id,target\n" + "".join(f"{float(id)},1\n" for id in ids)
    report = _check(tmp_path, rounded, sample=LONG_IDS, classes=None)
    assert "rounded by a conversion to float" in str(report)
    off_by_one = LONG_IDS.replace(ids[2], str(int(ids[2]) + 1))
    assert _kinds(_check(tmp_path, off_by_one, sample=LONG_IDS, classes=None)) != []
    lost = PADDED_IDS.replace("0001", "1").replace("0002", "2").replace("0010", "10")
    report = _check(tmp_path, lost, sample=PADDED_IDS, classes=None)
    assert _kinds(report) == ["changed ids"]
    assert "'1' instead of '0001'" in str(report)
    assert "dtype={'id': str}" in str(report)


def test_shares_of_classes(tmp_path: Path) -> None:
    good = "id,a,b,c\n1,0.2,0.3,0.5\n2,1,0,0\n"
    assert _check(tmp_path, good, sample=SHARES, classes=None).ok
    report = _check(tmp_path, "id,a,b,c\n1,0.2,0.3,0.9\n2,1.5,-0.5,0\n", sample=SHARES, classes=None)
    assert _kinds(report) == ["probability", "sum"]
    assert "line 2 (id 1): 1.4000" in str(report)
    # Where each column is ranked for itself, neither is wrong.
    scores = "id,a,b,c\n1,7,0.3,0.9\n2,1.5,-0.5,0\n"
    assert _check(tmp_path, scores, sample=SHARES, classes=None, metric="Mean Columnwise Area Under ROC").ok


def test_names_of_classes(tmp_path: Path) -> None:
    sample = "id,kind\n1,cat\n2,cat\n"
    assert _check(tmp_path, "id,kind\n1,dog\n2,cat\n", sample=sample, classes=["cat", "dog"]).ok
    report = _check(tmp_path, "id,kind\n1,Dog\n2,cat\n", sample=sample, classes=["cat", "dog"])
    assert "meant 'dog'?" in str(report)
    assert _kinds(_check(tmp_path, "id,kind\n1,1\n2,0\n", sample=sample, classes=None)) == ["numbers for text"]


def test_warnings_do_not_refuse(tmp_path: Path) -> None:
    header, *rows = GOOD.splitlines()
    cases = {
        "row order": "\n".join([header, *reversed(rows)]),
        "constant": DIGITS.replace(",0\n", ",3\n"),
        "sample itself": DIGITS,
        "byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
        "blank lines": GOOD.replace("4,4\n", "4,4\n\n"),
    }
    for kind, content in cases.items():
        report = _check(tmp_path, content)
        assert report.ok, report
        assert kind in [warning.kind for warning in report.warnings]
    assert [w.kind for w in _check(tmp_path, GOOD, name="submission.txt").warnings] == ["file name"]
    decimals = _check(tmp_path, GOOD.replace("4,4", "4,0.4"), classes=None)
    assert decimals.ok
    assert [warning.kind for warning in decimals.warnings] == ["decimals"]


def test_packed_submissions(tmp_path: Path) -> None:
    assert _check(tmp_path, gzip.compress(GOOD.encode()), name="submission.csv.gz").ok
    assert _check(tmp_path, _zip({"submission.csv": GOOD}), name="submission.zip").ok
    assert "file name" in _kinds(_check(tmp_path, gzip.compress(GOOD.encode())))
    assert "file name" in _kinds(_check(tmp_path, GOOD, name="submission.csv.gz"))
    two = _check(tmp_path, _zip({"a.csv": GOOD, "b.csv": GOOD}), name="submission.zip")
    assert "zip archive of 2 files (a.csv, b.csv)" in str(two)
    assert "Excel" in str(_check(tmp_path, _zip({"[Content_Types].xml": "", "xl/workbook.xml": ""}), name="s.xlsx"))
    cut = gzip.compress(GOOD.encode())[:-9]
    assert "damaged" in str(_check(tmp_path, cut, name="submission.csv.gz"))
    assert not _check(tmp_path, _zip({"submission.csv": GOOD.replace("4,4", "4,x")}), name="submission.zip").ok


def test_size(tmp_path: Path) -> None:
    report = _check(tmp_path, GOOD, max_bytes=20)
    assert _kinds(report) == ["size"]
    assert report.rows == 0


def test_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "sample_submission.csv").write_text(DIGITS)
    with pytest.raises(UsageError, match="does not exist"):
        check_submission(tmp_path / "no.csv", tmp_path / "sample_submission.csv")
    with pytest.raises(UsageError, match="is a folder"):
        check_submission(tmp_path, tmp_path / "sample_submission.csv")
    (tmp_path / "s.csv").write_text(GOOD)
    with pytest.raises(WorkError, match="no sample submission"):
        check_submission(tmp_path / "s.csv", tmp_path / "none.csv")
    with pytest.raises(WorkError, match="line 3: 1 cells"):
        _check(tmp_path, GOOD, sample="ImageId,Label\n1,0\n2\n")


def test_odd_text_stays_printable(tmp_path: Path) -> None:
    content = GOOD.replace("4,4", "4\x1b[31m,4").replace("5,5", "5,\xff\x07").encode("latin-1")
    text = str(_check(tmp_path, content))
    text.encode("ascii")
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("seed", range(30))
def test_a_file_made_from_the_sample_is_never_refused(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    kind = chance.choice(["integer", "number", "text", "shares", "blank"])
    ids = chance.choice(
        [
            [str(number) for number in range(1, 40)],
            [f"{number:05d}" for number in range(40)],
            [str(2**62 + number) for number in range(40)],
            [f"img_{number}, {chance.random()}.png" for number in range(40)],
            ['say "hi"', "two\nlines", " spaced ", "é", "1e5", "nan", "1.0", "-3"],
        ]
    )
    chance.shuffle(ids)
    columns = 3 if kind == "shares" else chance.choice([1, 1, 2])
    header = ["id", *(f"target {index}" for index in range(columns))]
    fill = {"integer": "0", "number": "0.5", "text": "cat", "shares": "0.3333", "blank": ""}[kind]

    def value() -> str:
        return {
            "integer": str(chance.randrange(5)),
            "number": chance.choice([repr(chance.gauss(0, 1e6)), "3", "-1e-9", ".5", "1.", "1E+3"]),
            "text": chance.choice(["cat", "dog", "a,b", 'c"d', "x\ny", "NA,"]),
            "blank": chance.choice(["", "1 3 10 5"]),
        }.get(kind, "")

    def row(id: str) -> list[str]:
        if kind == "shares":
            parts = [chance.random() for _ in range(columns)]
            return [id, *(f"{part / sum(parts):.6f}" for part in parts)]
        return [id, *(value() for _ in range(columns))]

    line_end = chance.choice(["\n", "\r\n"])
    sample = _csv(header, [[id, *[fill] * columns] for id in ids], line_end)
    submission = _csv(header, [row(id) for id in ids], chance.choice(["\n", "\r\n"]))
    if chance.random() < 0.3:
        submission = submission.rstrip("\r\n")
    classes = range(5) if kind == "integer" and columns == 1 else None
    report = _check(tmp_path, submission, sample=sample, classes=classes)
    assert report.ok, report


def test_known_classes(tmp_path: Path) -> None:
    sample = tmp_path / "sample_submission.csv"
    sample.write_text(DIGITS)
    train = tmp_path / "train.csv"
    train.write_text("label,pixel0\n" + "".join(f"{number % 10},{number}\n" for number in range(50)))
    assert known_classes(tmp_path, sample) == frozenset("0123456789")
    assert known_classes(tmp_path, sample, metric="Categorization Accuracy") == frozenset("0123456789")
    assert known_classes(tmp_path, sample, metric="Root Mean Squared Error") is None
    # 0 and 1 may be asked for as a probability, which a sample of zeros does not tell.
    train.write_text("Label,x\n" + "0,1\n1,2\n" * 20)
    assert known_classes(tmp_path, sample) is None
    assert known_classes(tmp_path, sample, metric="Accuracy") == frozenset("01")
    sample.write_text(GOOD.replace("2,2", "2,1"))
    assert known_classes(tmp_path, sample) is None
    sample.write_text("ImageId,Label\n1,0\n2,1\n")
    assert known_classes(tmp_path, sample) == frozenset("01")
    # A quantity: too many different numbers.
    train.write_text("Label,x\n" + "".join(f"{number},1\n" for number in range(500)))
    assert known_classes(tmp_path, sample) is None


def test_known_classes_behind_quoted_text_and_another_name(tmp_path: Path) -> None:
    sample = tmp_path / "sample_submission.csv"
    sample.write_text("id,prediction\n1,a\n2,b\n")
    (tmp_path / "test.csv").write_text("id,text\n1,x\n")
    (tmp_path / "train.csv").write_text('id,text,answer\n1,"x, y\nz",a\n2,plain,b\n3,"",c\n')
    assert known_classes(tmp_path, sample) == frozenset("abc")


def test_a_large_file(tmp_path: Path) -> None:
    rows = 200_000
    sample = tmp_path / "sample_submission.csv"
    sample.write_text("id,target\n" + "".join(f"{number},0.5\n" for number in range(rows)))
    file = tmp_path / "submission.csv"
    file.write_text("id,target\n" + "".join(f"{number},{number / rows}\n" for number in range(rows)))
    started = time.monotonic()
    assert check_submission(file, sample).ok
    assert time.monotonic() - started < 20


def _csv(header: list[str], rows: list[list[str]], line_end: str) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=line_end)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _zip(contents: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return packed.getvalue()


def test_the_sample_is_found_under_its_usual_names(tmp_path: Path) -> None:
    assert find_sample(tmp_path) is None
    deep = tmp_path / "data" / "sampleSubmission.csv"
    deep.parent.mkdir()
    for path in (deep, tmp_path / "gender_submission.csv", tmp_path / "sample_submission.csv"):
        path.write_text(DIGITS)
        assert find_sample(tmp_path) == path
    for name in ("train.csv", "submission.csv", "test.csv"):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / name).write_text(DIGITS)
    assert find_sample(tmp_path / "other") is None
