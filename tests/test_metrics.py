"""Metrics against scikit-learn's definitions, and the arena's reading of submissions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from arena_tools import Tiny, tiny_competition
from kaggle_workbench.arena.competitions import load
from kaggle_workbench.arena.scoring import BadSubmissionError, score
from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics import METRICS, accuracy, find, metric


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
    with pytest.raises(UsageError, match="no metric 'rmslee'") as caught:
        metric("rmslee")
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


# --- Every metric: worked by hand, or from the page that defines it ---

NAN = float("nan")
WORKED: dict[str, list[tuple[list[object], list[object], float]]] = {
    "accuracy": [([1, 2, 3, 4], [1, 2, 3, 5], 0.75)],
    # Classes 0 and 1 are right in 3 of 4 and in 1 of 2 rows.
    "balanced_accuracy": [([0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0], (3 / 4 + 1 / 2) / 2)],
    # 1 hit, 1 false alarm, 1 miss: 2 / (2 + 1 + 1).
    "f1": [([1, 1, 0, 0], [1, 0, 1, 0], 0.5), (["no", "yes", "yes"], ["no", "yes", "no"], 2 / 3)],
    # a: 1 hit, 0 false, 1 missed: 2/3; b: 1 hit, 1 false, 0 missed: 2/3; c: no hit, 0; mean (2/3 + 2/3 + 1) / 3.
    "f1_macro": [(["a", "a", "b", "c"], ["a", "b", "b", "c"], (2 / 3 + 2 / 3 + 1) / 3)],
    "f1_micro": [(["a", "a", "b", "c"], ["a", "b", "b", "c"], 0.75)],
    "f1_weighted": [(["a", "a", "b", "c"], ["a", "b", "b", "c"], (2 * 2 / 3 + 2 / 3 + 1) / 4)],
    # 2 hits, 1 miss, 1 false alarm, 2 true rejections: (4 - 1) / sqrt(3 * 3 * 3 * 3).
    "mcc": [([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], 3 / 9), ([1, 1], [1, 1], 0.0)],
    # 4 of 6 agree; chance 0.5: (4/6 - 0.5) / 0.5.
    "kappa": [([1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0], 1 / 3), ([1, 1], [1, 1], 1.0)],
    # Squared distances seen 1, by chance (0 to 2, 0 to 0, ...): all of 1,2,3 against 1,2,2.
    "quadratic_weighted_kappa": [([1, 2, 3], [1, 2, 3], 1.0), ([1, 2, 3], [3, 2, 1], -1.0), ([0, 4], [4, 0], -1.0)],
    "hamming": [([[1, 0], [0, 1]], [[1, 1], [0, 1]], 0.25)],
    # Of the 4 pairs (one of each answer), 3 are in order.
    "auc": [([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.75), ([0, 1], [0.5, 0.5], 0.5)],
    "mean_columnwise_auc": [([[0, 0], [1, 1]], [[0.1, 0.9], [0.9, 0.1]], 0.5)],
    "gini": [([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], 0.5)],
    # Hits at places 1 and 3: (1/1 + 2/3) / 2.
    "average_precision": [([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1], (1 + 2 / 3) / 2)],
    "log_loss": [
        ([1, 0], [0.5, 0.5], 0.6931471805599453),
        ([[1, 0, 0], [0, 0, 1]], [[0.5, 0.25, 0.25], [0.2, 0.2, 0.4]], 0.6931471805599453),
        ([1], [0.0], 34.538776394910684),
    ],
    "mean_columnwise_log_loss": [([[1, 0], [1, 1]], [[0.5, 0.5], [0.5, 0.5]], 0.6931471805599453)],
    # Of 0: -ln 0.5 twice; of 1: -ln 0.25.
    "balanced_log_loss": [([0, 0, 1], [0.5, 0.5, 0.25], (0.6931471805599453 + 1.3862943611198906) / 2)],
    "brier": [([1, 0], [0.8, 0.4], (0.04 + 0.16) / 2), ([[1, 0]], [[0.6, 0.4]], 0.32)],
    "rmse": [([3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.375**0.5), ([[1, 1]], [[2, 1]], 0.5**0.5)],
    "mse": [([3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.375)],
    # log(1+e-1) = 1 and log 1 = 0: one error of 1, one of 0.
    "rmsle": [([np.e - 1, 0], [0, 0], 0.5**0.5)],
    "mae": [([3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.5)],
    "medae": [([3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.5)],
    "mape": [([1, 10, 100], [0.9, 15, 110], (0.1 + 0.5 + 0.1) / 3)],
    "smape": [([100, 0], [50, 0], 100 * (50 / 75) / 2)],
    "r2": [([3, -0.5, 2, 7], [2.5, 0.0, 2, 8], 0.9486081370449679)],
    "pearson": [([1, 2, 3], [2, 4, 6], 1.0), ([1, 2, 3], [1, 1, 1], 0.0), ([[1, 1], [2, 2]], [[1, 2], [2, 1]], 0.0)],
    # Ranks 1 2 3 4 and 1 3 2 4: 1 - 6 * 2 / (4 * 15).
    "spearman": [([10, 20, 30, 400], [1, 3, 2, 9], 0.8)],
    "mean_columnwise_rmse": [([[0, 0], [0, 0]], [[3, 4], [3, 4]], 3.5)],
    "mean_columnwise_rmsle": [([[0, 0]], [[np.e - 1, np.e**2 - 1]], 1.5)],
    "map@1": [(["a", "b"], ["a c", "c b"], 0.5)],
    # First place 1, second place 1/2, none: 0.5; a label named twice counts once.
    "map@3": [(["a", "b", "c"], ["a b c", "a b c", "a b b"], 0.5), (["a b"], ["b b a"], (1 + 2 / 3) / 2)],
    "map@5": [([7, 8], ["1 2 3 4 7", "8"], (0.2 + 1) / 2)],
    "mean_f_score": [(["a b", "c"], ["a", "d e"], (2 / 3 + 0) / 2), ([""], [""], 1.0)],
    # 2 + 3 pixels, 2 of them shared; both empty.
    "dice": [(["1 2", ""], ["1 3", "-1"], (4 / 5 + 1) / 2), (["1 1 5 2"], ["5 2"], 4 / 5)],
}


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_metric_gives_what_was_worked_out_by_hand(name: str) -> None:
    if name not in WORKED:
        depth = int(name.removeprefix("map@"))
        words = " ".join([*(f"w{n}" for n in range(1, depth)), "hit"])
        assert METRICS[name].score(["hit"], [words]) == pytest.approx(1 / depth)
        assert METRICS[name].score(["hit"], [f"w0 {words}"]) == 0, f"only {depth} places count"
        return
    for true, guess, value in WORKED[name]:
        assert METRICS[name].score(true, guess) == pytest.approx(value, abs=1e-8), (true, guess)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_right_is_best_and_the_direction_is_told(name: str) -> None:
    text = METRICS[name].values in ("ranking", "mask")
    true: object = ["1 2", "3 4"] if text else [1, 0, 1, 0]
    wrong: object = ["9 1", "8 1"] if text else [0, 1, 0, 1]
    if name == "mape":
        true, wrong = [1, 2, 1, 2], [2, 1, 2, 1]
    best, worst = (METRICS[name].score(true, guess) for guess in (true, wrong))  # type: ignore[arg-type]
    assert (best > worst) == METRICS[name].greater_is_better


@pytest.mark.parametrize(
    ("name", "true", "guess", "words"),
    [
        ("rmsle", [1, 2], [1, -0.5], "below 0"),
        ("rmse", [1, 2], [1, NAN], "NaN"),
        ("rmse", [1, 2], [1, float("inf")], "no finite numbers"),
        ("rmse", [1, 2], ["a", "b"], "text"),
        ("auc", [1, 1], [0.1, 0.2], "only 1"),
        ("auc", [0, 2], [0.1, 0.2], "0 and 1"),
        ("log_loss", [1, 0], [1.5, 0], "outside 0 to 1"),
        ("log_loss", [[1, 1], [0, 1]], [[0.5, 0.5]] * 2, "none or several"),
        ("f1", [0, 1, 2], [0, 1, 2], "two classes"),
        ("quadratic_weighted_kappa", [1, 2], [1.5, 2], "whole numbers"),
        ("quadratic_weighted_kappa", ["a", "b"], ["a", "b"], "not text"),
        ("dice", ["1 2"], ["3 1 1 1"], "before the last one ends"),
        ("dice", ["1 2"], ["1"], "no run-length text"),
        ("mape", [0, 1], [1, 1], "are 0"),
        ("mcc", [[1, 0]], [[1, 0]], "one column"),
    ],
)
def test_what_cannot_be_scored_is_refused_with_the_reason(name: str, true: object, guess: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        METRICS[name].score(true, guess)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Root Mean Squared Logarithmic Error", "rmsle"),
        ("rmsle", "rmsle"),
        ("RootMeanSquaredError", "rmse"),
        ("Root Mean Squared Error (RMSE)", "rmse"),
        ("Categorization Accuracy", "accuracy"),
        ("Accuracy Score", "accuracy"),
        ("Area Under Receiver Operating Characteristic Curve", "auc"),
        ("Roc Auc Score", "auc"),
        ("Mean Columnwise AUC", "mean_columnwise_auc"),
        ("MulticlassLoss", "log_loss"),
        ("Multi Class Log Loss", "log_loss"),
        ("Balanced Log Loss", "balanced_log_loss"),
        ("Mean Columnwise Log Loss", "mean_columnwise_log_loss"),
        ("Mean F-Score", "mean_f_score"),
        ("F-Score (Macro)", "f1_macro"),
        ("QuadraticWeightedKappa", "quadratic_weighted_kappa"),
        ("Quadratic Weighted Kappa", "quadratic_weighted_kappa"),
        ("Mean column-wise RMSLE", "mean_columnwise_rmsle"),
        ("MCRMSE", "mean_columnwise_rmse"),
        ("MAP@{K}", "map@3"),
        ("MAP@5", "map@5"),
        ("Mean Average Precision @ 12", "map@12"),
        ("R2 Score", "r2"),
        ("R^2", "r2"),
        ("Normalized Gini Index", "gini"),
        ("Matthews Correlation Coefficient", "mcc"),
        ("SMAPE", "smape"),
        ("Dice", "dice"),
        # Alike in letters, and something else: never taken for the one that is known.
        ("Weighted Root Mean Squared Logarithmic Error", None),
        ("Weighted Multiclass Loss", None),
        ("Columnwise AUC of the Worst Group", None),
        ("MAP@IoU", None),
        ("Normalized Discounted Cumulative Gain", None),
        ("MAP@4", None),
        ("", None),
    ],
)
def test_kaggles_titles_are_known(text: str, name: str | None) -> None:
    found = find(text)
    assert (found.name if found else None) == name


def test_no_two_metrics_share_a_name() -> None:
    for each in METRICS.values():
        for other in (each.name, each.title, *each.also):
            found = find(other)
            assert (found.name if found else None) == each.name, other
