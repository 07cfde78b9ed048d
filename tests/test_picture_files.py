"""Pictures in files: each row gets its own one, in the levels it has, or a sentence says why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from kaggle_workbench.baselines import Data, make_folds
from kaggle_workbench.competition.doubts import find_doubts
from kaggle_workbench.competition.problem import Problem, read_problem
from kaggle_workbench.errors import WorkbenchError

ROWS, TEST, SIDE = 24, 6, 8


def draw(path: Path, level: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((SIDE, SIDE, 3), level, "uint8")).save(path)


def write(folder: Path, names: list[Any], test: list[Any], **columns: Any) -> None:
    """Tables whose column `file` names the pictures."""
    labels = columns.pop("label", [number % 2 for number in range(len(names))])
    pd.DataFrame({"file": names, **columns, "label": labels}).to_csv(folder / "train.csv", index=False)
    pd.DataFrame({"file": test}).to_csv(folder / "test.csv", index=False)
    pd.DataFrame({"file": test, "label": 0}).to_csv(folder / "sample_submission.csv", index=False)


def read(folder: Path) -> Problem:
    return read_problem("made", folder, metric="accuracy")


@pytest.mark.parametrize("prefix", ["", "images/", "../input/made/images/", "images\\"])
def test_files_of_one_name_are_told_apart_by_their_folders(prefix: str, tmp_path: Path) -> None:
    names, levels = [], []
    for number in range(ROWS):
        folder, file = ("left", "right")[number % 2], f"{number // 2}.png"
        draw(tmp_path / "images" / folder / file, 5 * number)
        separator = "\\" if "\\" in prefix else "/"
        names.append(f"{prefix}{folder}{separator}{file}")
        levels.append(5 * number)
    for number in range(TEST):
        draw(tmp_path / "images" / "unknown" / f"{number}.png", 200 + number)
    write(tmp_path, names, [f"images/unknown/{number}.png" for number in range(TEST)])
    data = Data.of(read(tmp_path))
    assert data.inputs()[:, 0, 0, 0].tolist() == levels
    assert data.inputs("test")[:, 0, 0, 0].tolist() == [200 + number for number in range(TEST)]


def test_a_name_that_may_mean_two_files_is_refused(tmp_path: Path) -> None:
    for number in range(ROWS + TEST):
        draw(tmp_path / "small" / f"{number}.png", number)
        draw(tmp_path / "large" / f"{number}.png", number)
    write(tmp_path, list(range(ROWS)), list(range(ROWS, ROWS + TEST)))
    with pytest.raises(WorkbenchError, match=r"may mean more than one .* large/0\.png and small/0\.png"):
        read(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for number in range(ROWS + TEST):
        if number != 7:
            draw(tmp_path / ("train" if number < ROWS else "test") / f"{number}.png", number)
    write(tmp_path, list(range(ROWS)), list(range(ROWS, ROWS + TEST)))
    with pytest.raises(WorkbenchError, match="1 row of the column 'file' name no picture file, such as 7"):
        read(tmp_path)


def test_classes_that_are_numbered_as_some_pictures_are_name_none(tmp_path: Path) -> None:
    """A table beside three pictures of its page: the answers 0 and 1 do not mean 0.png and 1.png."""
    for number in range(3):
        draw(tmp_path / "docs" / f"{number}.png", number)
    size = np.random.RandomState(0).normal(size=ROWS + TEST)
    write(
        tmp_path, [f"r{number}" for number in range(ROWS)], [f"t{number}" for number in range(TEST)], size=size[:ROWS]
    )
    pd.DataFrame({"file": [f"t{number}" for number in range(TEST)], "size": size[ROWS:]}).to_csv(
        tmp_path / "test.csv", index=False
    )
    problem = read(tmp_path)
    assert (problem.kind, problem.features) == ("table", ("size",))


def test_deep_grey_levels_are_scaled_and_not_cut_off(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, SIDE * SIDE).reshape(SIDE, SIDE)
    for number in range(ROWS + TEST):
        path = tmp_path / ("train" if number < ROWS else "test") / f"{number}.{'png' if number % 2 else 'tif'}"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(ramp.astype("uint16") if number % 2 else ramp.astype("float32")).save(path)
    write(tmp_path, list(range(ROWS)), list(range(ROWS, ROWS + TEST)))
    pictures = Data.of(read(tmp_path)).inputs()
    assert pictures.shape == (ROWS, SIDE, SIDE, 3)
    assert np.abs(pictures[..., 0] - ramp / 257).max() <= 1


def test_more_classes_than_rows_held_back(tmp_path: Path) -> None:
    for number in range(ROWS + TEST):
        draw(tmp_path / ("train" if number < ROWS else "test") / f"{number}.png", number)
    write(tmp_path, list(range(ROWS)), list(range(ROWS, ROWS + TEST)), label=[number % 8 for number in range(ROWS)])
    folds = make_folds(Data.of(read(tmp_path)), seed=0)
    assert (len(folds[0][0]), len(folds[0][1])) == (21, 3)


def test_files_of_other_kinds_are_named(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.dcm").write_bytes(b"DICM")
    with pytest.raises(WorkbenchError, match=r"It holds files of these kinds: 5 \.dcm"):
        read(tmp_path)


def test_doubts_compare_the_pictures_and_not_their_names(tmp_path: Path) -> None:
    levels = [*range(ROWS), *range(100, 100 + TEST)]
    levels[5], levels[ROWS] = levels[4], levels[0]
    for number, level in enumerate(levels):
        draw(tmp_path / ("train" if number < ROWS else "test") / f"{number}.png", level)
    write(tmp_path, list(range(ROWS)), list(range(ROWS, ROWS + TEST)))
    found = {doubt.question: doubt.finding for doubt in find_doubts(read(tmp_path))}
    assert found["Equal rows"] == "1 training row equal to another one"
    assert found["Equal rows, different answers"] == "1 row with more than one answer"
    assert found["Test rows seen in training"] == "1 test row also in the training data"
    assert "Columns that say nothing" not in found
