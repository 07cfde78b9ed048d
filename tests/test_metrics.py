"""Metrics against scikit-learn's definitions, and the arena's reading of submissions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from arena_tools import Tiny, tiny_competition
from kaggle_workbench.arena.competitions import load
from kaggle_workbench.arena.scoring import BadSubmissionError, score
from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics import METRICS, accuracy, metric


def test_accuracy_agrees_with_scikit_learn() -> None:
    from sklearn.metrics import accuracy_score

    random = np.random.RandomState(0)
    for classes in (2, 10):
        true, guess = random.randint(classes, size=(2, 997))
        assert accuracy(true, guess) == pytest.approx(accuracy_score(true, guess), abs=1e-15)
        assert accuracy(true.astype(str), guess.astype(str)) == accuracy(true, guess)
    both, other = random.randint(2, size=(2, 500, 3))
    assert accuracy(both, other) == pytest.approx(accuracy_score(both, other), abs=1e-15)
    assert accuracy([1, 2], [1.0, 2.0]) == 1


@pytest.mark.parametrize(
    ("true", "guess"), [([], []), ([1], [1, 2]), ([1, 2], [1, float("nan")]), ([1], ["a"]), ([[[1]]], [[[1]]])]
)
def test_accuracy_refuses_what_it_cannot_compare(true: list[object], guess: list[object]) -> None:
    with pytest.raises(UsageError):
        accuracy(true, guess)  # type: ignore[arg-type]


def test_unknown_metric_lists_the_known() -> None:
    assert metric("accuracy") is METRICS["accuracy"]
    with pytest.raises(UsageError, match="no metric 'rmsle'") as caught:
        metric("rmsle")
    assert "accuracy" in caught.value.hint


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return tiny_competition(tmp_path_factory.mktemp("hosted"), kind="table", test_rows=20)


def body(tiny: Tiny) -> list[str]:
    return [f"{id},{label}" for id, label in tiny.answers]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[:-1], ["There are 19 rows; the solution has 20", "1 PassengerIds are missing: 220"]),
        (lambda rows: [*rows, "999,0"], ["There are 21 rows", "1 PassengerIds are not in the test set: 999"]),
        (lambda rows: [*rows[1:], rows[1]], ["1 PassengerIds stand more than once: 202", "missing: 201"]),
        (lambda rows: ["201,", *rows[1:]], ["1 rows have no value (by PassengerId): 201"]),
        (lambda rows: ["201,NaN", *rows[1:]], ["no value"]),
        (lambda rows: ["201,yes", *rows[1:]], ["not a number (by PassengerId): 201 ('yes')"]),
        (lambda rows: ["201,inf", *rows[1:]], ["not a number"]),
        (lambda rows: ["201,1_0", *rows[1:]], ["not a number"]),
        (lambda rows: ["201,0,0", *rows[1:]], ["1 have another number of columns than the header: line 2", "missing"]),
        (lambda rows: [f"{i},0" for i in range(5000)], ["There are over 1,039 rows"]),
    ],
)
def test_faults_of_a_submission_are_all_told(tiny: Tiny, tmp_path: Path, change: object, words: list[str]) -> None:
    file = tmp_path / "s.csv"
    file.write_text("\n".join(["PassengerId,Survived", *change(body(tiny))]) + "\n")  # type: ignore[operator]
    with pytest.raises(BadSubmissionError) as caught:
        score(load(tiny.folder), file)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"\n \n", "empty"),
        (b"id,Survived\n1,0\n", "missing: PassengerId; not expected: 'id'"),
        (b"PassengerId\n1\n", "missing: Survived"),
        (b"PassengerId,Survived,Survived\n1,0,0\n", "a column stands twice"),
        (b"\xff\xfeP\x00", "not UTF-8"),
        (b"PassengerId,Survived\n1,\x00\n", "null bytes"),
        (b'PassengerId,Survived\n"' + b"x" * 200_000, "not a CSV"),
    ],
)
def test_files_that_are_no_table_are_told(tiny: Tiny, tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "s.csv").write_bytes(content)
    with pytest.raises(BadSubmissionError) as caught:
        score(load(tiny.folder), tmp_path / "s.csv")
    assert words in str(caught.value)


def test_what_a_sound_file_may_look_like(tiny: Tiny, tmp_path: Path) -> None:
    rows = body(tiny)
    variants = {
        "as it is": "\n".join(["PassengerId,Survived", *rows]),
        "other order": "\n".join(["PassengerId,Survived", *reversed(rows)]),
        "other columns": "\n".join(["Survived,PassengerId", *(",".join(reversed(row.split(","))) for row in rows)]),
        "windows": "\ufeff" + "\r\n".join(["PassengerId,Survived", *rows, "", ""]),
        "floats": "\n".join(["PassengerId,Survived", *(f"{row}.0" for row in rows)]),
        "quoted": "\n".join(['"PassengerId","Survived"', *(f" {row.replace(',', ' , ')}" for row in rows)]),
    }
    for name, text in variants.items():
        (tmp_path / "s.csv").write_bytes(text.encode())
        scores = score(load(tiny.folder), tmp_path / "s.csv")
        assert (scores.public, scores.private) == (1, 1), name


def test_classes_that_are_words(tiny: Tiny, tmp_path: Path) -> None:
    import gzip
    import shutil

    folder = tmp_path / "tiny-words"
    shutil.copytree(tiny.folder, folder)
    solution = "id,kind,Usage\na,None,Public\nb,cat,Public\nc,dog,Public\nd,dog,Public\n"
    (folder / "solution.csv.gz").write_bytes(gzip.compress(solution.encode()))
    (tmp_path / "s.csv").write_text("id,kind\na,None\nb,cat\nc,cat\nd,Dog\n")
    scores = score(load(folder), tmp_path / "s.csv")
    assert (scores.public, scores.private) == (0.5, None)
    (tmp_path / "s.csv").write_text("id,kind\na,None\nb,nan\nc,\nd,dog\n")
    with pytest.raises(BadSubmissionError, match="2 rows have no value"):
        score(load(folder), tmp_path / "s.csv")
