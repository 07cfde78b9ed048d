"""A training over folds that is stopped in the middle: the folds that are done are not done again."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena_tools import tiny_competition
from project_tools import Project, make_project

WORDS = ("run", "train", "--set", "RUN_ID=stopped")


@pytest.fixture
def made(tmp_path: Path) -> Project:
    project = make_project(tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    tiny_competition(project.hosted, "tiny-table", kind="table", rows=120, test_rows=40)
    (project.folder / "variables.env").write_text("COMPETITION=tiny-table\nSOURCE=practice\nEPOCHS=4\n")
    return project


def stop_after(project: Project, line: str, number: int) -> str:
    """Run until a line is printed, then send a signal; all that was said."""
    command = [sys.executable, "-m", "kaggle_workbench", *WORDS]
    child = subprocess.Popen(
        command, cwd=project.folder, env=project.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    said = []
    assert child.stderr is not None
    for text in child.stderr:
        said.append(text)
        if line in text:
            child.send_signal(number)
            break
    said += child.stderr.readlines()
    child.wait(60)
    return "".join(said)


def record(project: Project) -> dict[str, Any]:
    return dict(json.loads((project.output / "runs" / "stopped" / "record.json").read_text()))


def folds(said: str) -> list[tuple[str, int]]:
    return [(name, int(fold)) for name, fold in re.findall(r"(boosting|network) +fold (\d)/5", said)]


ALL = [(name, fold) for name in ("boosting", "network") for fold in range(1, 6)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "number"),
    [("network    fold 2/5", signal.SIGTERM), ("boosting   fold 3/5", signal.SIGKILL), (" 2/4 ", signal.SIGTERM)],
)
def test_a_stopped_training_goes_on_at_the_fold_that_is_missing(
    line: str, number: int, made: Project, tmp_path: Path
) -> None:
    first = stop_after(made, line, number)
    kept = (made.output / "runs" / "stopped" / "predictions").glob("*.npz")
    # What was kept counts: a line may be lost with the process that printed it.
    done = sorted((name, int(fold)) for name, fold in (path.stem.split("-") for path in kept))
    assert 0 < len(done) < 10
    assert set(folds(first)) <= set(done)
    if number == signal.SIGTERM:
        assert record(made)["status"] == "paused"
        assert "./kwb run train --resume stopped" in first
    again = made.kwb(*WORDS) if number == signal.SIGKILL else made.kwb("run", "train", "--resume", "stopped")
    assert again.returncode == 0, again.stderr
    later = folds(again.stderr)
    # The network of the first fold is trained by its checkpoints; its predictions are written anew.
    assert [each for each in later if each in done and each != ("network", 1)] == []
    assert sorted({*done, *later}) == sorted(ALL)
    (tmp_path / "whole").mkdir()
    whole = make_project(tmp_path / "whole", env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    tiny_competition(whole.hosted, "tiny-table", kind="table", rows=120, test_rows=40)
    (whole.folder / "variables.env").write_text((made.folder / "variables.env").read_text())
    assert whole.kwb(*WORDS).returncode == 0
    ours, theirs = record(made), record(whole)
    assert ours["cv"] == theirs["cv"], "as if it had never been stopped"
    files = [project.output / "runs" / "stopped" / "submission.csv" for project in (made, whole)]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.slow
def test_folds_of_other_values_are_not_taken_up(made: Project) -> None:
    """The columns keep their names, and what is in them changes: no kept fold is mixed with new ones."""
    first = stop_after(made, "boosting   fold 3/5", signal.SIGTERM)
    assert record(made)["status"] == "paused", first
    notebook = made.folder / "code" / "02-train.ipynb"
    document = json.loads(notebook.read_text())
    (cell,) = [cell for cell in document["cells"] if cell["id"] == "load"]
    source = "".join(cell["source"])
    changed = "    return table.assign(**{name: table[name] * 2 for name in table.select_dtypes('float').columns})"
    assert source.count("    return table") == 1
    cell["source"] = source.replace("    return table", changed)
    notebook.write_text(json.dumps(document))
    again = made.kwb("run", "train", "--resume", "stopped")
    assert again.returncode == 0, again.stderr
    assert sorted(folds(again.stderr)) == ALL


def test_what_predictions_are_made_of_is_told_from_its_values() -> None:
    """The same parts give the same text, and each other part another one."""
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    from kaggle_workbench.baselines.made_of import made_of

    def doubled(batch: Any) -> Any:
        return batch * 2

    def tripled(batch: Any) -> Any:
        return batch * 3

    rows, answers = np.arange(12.0).reshape(6, 2), np.arange(6)
    table = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", None, 3]})
    keras = pytest.importorskip("keras")
    from kaggle_workbench.training import Batches

    def network(units: int, rate: float) -> Any:
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])
        model.compile(optimizer=keras.optimizers.Adam(rate), loss="mse")
        return model

    def parts() -> list[tuple[Any, ...]]:
        return [
            ("text",),
            (rows,),
            (rows + 1,),
            (table,),
            (table.rename(columns={"a": "c"}),),
            (table.fillna(0),),
            (table.astype(str),),
            (doubled,),
            (tripled,),
            (RandomForestClassifier(50),),
            (RandomForestClassifier(50, max_depth=3),),
            (network(3, 0.1),),
            (network(4, 0.1),),
            (network(3, 0.2),),
            (Batches(rows, answers, 2, seed=1),),
            (Batches(rows, answers, 3, seed=1),),
            (Batches(rows, answers, 2, seed=2),),
            (Batches(rows, answers, 2, seed=1, augment=doubled),),
            (Batches(rows, answers, 2, seed=1, augment=tripled),),
            (Batches(rows + 1, answers, 2, seed=1),),
            (network(3, 0.1), Batches(rows, answers, 2, seed=1)),
        ]

    once, again = ([made_of(*each) for each in parts()] for _ in range(2))
    assert once == again
    assert len(set(once)) == len(once)


def picture(colour: tuple[int, int, int], seed: int) -> bytes:
    from PIL import Image

    noise = np.random.RandomState(seed).randint(0, 60, (20, 24, 3))
    content = io.BytesIO()
    Image.fromarray(np.clip(noise + np.array(colour), 0, 255).astype("uint8")).save(content, "PNG")
    return content.getvalue()


@pytest.mark.slow
def test_pictures_in_files_are_trained_and_submitted_as_probabilities(tmp_path: Path) -> None:
    """Folders of pictures beside a table of ids; a submission with a column for each class."""
    colours = {"red": (180, 20, 20), "green": (20, 180, 20), "blue": (20, 20, 180)}
    names = list(colours)
    files: dict[str, bytes] = {}
    for number in range(90):
        files[f"images/train/p{number}.png"] = picture(colours[names[number % 3]], number)
    for number in range(90, 120):
        files[f"images/test/p{number}.png"] = picture(colours[names[number % 3]], number)
    train = "image,colour\n" + "".join(f"p{n}.png,{names[n % 3]}\n" for n in range(90))
    sample = "image,blue,green,red\n" + "".join(f"p{n}.png,0.3,0.3,0.4\n" for n in range(90, 120))
    test = "image\n" + "".join(f"p{n}.png\n" for n in range(90, 120))
    project = make_project(tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    home = project.hosted / "colours"
    home.mkdir(parents=True)
    with zipfile.ZipFile(home / "files.zip", "w") as archive:
        tables = {"train.csv": train, "test.csv": test, "sample_submission.csv": sample}
        for name, content in {**files, **{name: text.encode() for name, text in tables.items()}}.items():
            archive.writestr(name, content)
    solution = "image,blue,green,red,Usage\n" + "".join(
        f"p{n}.png,{','.join('1' if names[n % 3] == name else '0' for name in ('blue', 'green', 'red'))},"
        f"{'Public' if n % 2 else 'Private'}\n"
        for n in range(90, 120)
    )
    (home / "solution.csv.gz").write_bytes(gzip.compress(solution.encode()))
    document = {"title": "Colours", "metric": "log_loss", "date": "2026-01-01T00:00:00Z", "rules": {}}
    (home / "competition.json").write_text(json.dumps(document))
    (project.folder / "variables.env").write_text("COMPETITION=colours\nSOURCE=practice\nEPOCHS=6\nBATCH_SIZE=16\n")
    done = project.kwb("run")
    assert done.returncode == 0, done.stderr
    assert "Log Loss (lower is better)" in done.stderr, "kwb run says what was read"
    assert "3 columns, one for each class, by image" in done.stderr
    assert "X.shape = (90, 24, 24, 3), uint8" in done.stderr
    (path,) = project.output.glob("runs/*/record.json")
    found = json.loads(path.read_text())
    assert (found["metric"], found["cv"]["method"]) == ("log_loss", "hold-out")
    assert found["lb"]["public"] < 0.5, "colours are easily told apart"
    header = (path.parent / "submission.csv").read_text().splitlines()[0]
    assert header == "image,blue,green,red"
    assert {"confusion", "curves", "mistakes"} <= {each.stem for each in (path.parent / "pictures").iterdir()}


@pytest.mark.slow
def test_own_columns_and_an_own_model_as_the_page_shows(tmp_path: Path) -> None:
    """The two examples of docs/competitions.md, put where it says."""
    root = Path(__file__).resolve().parent.parent
    page = (root / "docs" / "competitions.md").read_text()
    columns, model = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    project = make_project(tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    shutil.copytree(root / "data" / "practice", project.folder / "data" / "practice")
    (project.folder / "variables.env").write_text("COMPETITION=titanic\nSOURCE=practice\nEPOCHS=1\n")
    notebook = project.folder / "code" / "02-train.ipynb"
    document = json.loads(notebook.read_text())
    cells = {cell["id"]: cell for cell in document["cells"]}
    load = "".join(cells["load"]["source"])
    cells["load"]["source"] = columns + load[load.index("\n\n\ndata = ") :]
    cells["score"]["source"] = model + "".join(cells["score"]["source"])
    notebook.write_text(json.dumps(document))
    done = project.kwb("run", "train")
    assert done.returncode == 0, done.stderr
    assert "X.shape = (891, 8)" in done.stderr, "one column more than without"
    (path,) = project.output.glob("runs/*/record.json")
    executed = (path.parent / "02-train.ipynb").read_text()
    assert "boosting + network + forest" in executed
    with zipfile.ZipFile(root / "data" / "practice" / "titanic" / "files.zip") as files:
        columns = files.read("train.csv").decode().splitlines()[0].count(",") + 2
    assert f"891 rows, {columns} columns" in executed, "the overview tells of the new column, too"
    assert len(list((path.parent / "predictions").glob("forest-*.npz"))) == 5
