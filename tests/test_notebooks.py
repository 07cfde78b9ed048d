"""The three notebooks: how they are committed, and that they run to the end or say why not."""

from __future__ import annotations

import ast
import base64
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import papermill
import pytest
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from arena_tools import tiny_competition
from fault_server import FaultServer
from kaggle_workbench.arena.launch import running
from kaggle_workbench.records import Run, list_runs
from kaggle_workbench.settings import SECRET_NAMES, SETTINGS

CODE = Path(__file__).resolve().parent.parent / "code"
NOTEBOOKS = ("01-data", "02-train", "03-submit")
MOST_LINES = 35
WIDEST = 110


def cells(name: str) -> list[dict[str, Any]]:
    document = json.loads((CODE / f"{name}.ipynb").read_text(encoding="utf-8"))
    return list(document["cells"])


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


# --- As committed ---


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_committed_without_outputs_and_with_little_metadata(name: str) -> None:
    text = (CODE / f"{name}.ipynb").read_text(encoding="utf-8")
    document = json.loads(text)
    assert document["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in document["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in document["cells"]:
        assert isinstance(cell["source"], list)
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), cell["id"]
            assert cell["metadata"] == ({"tags": ["parameters"]} if cell["id"] == "parameters" else {}), cell["id"]
        else:
            assert cell["metadata"] == {}
    assert text == json.dumps(document, indent=1, ensure_ascii=False) + "\n", "written as Jupyter writes it"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_code_cell_is_short_and_says_above_what_it_does(name: str) -> None:
    found = cells(name)
    assert found[0]["cell_type"] == "markdown"
    for above, cell in itertools.pairwise(found):
        if cell["cell_type"] != "code":
            continue
        assert above["cell_type"] == "markdown", cell["id"]
        assert re.search(r"[.!:]\s*$|\n- `", source(above)), f"{above['id']} says nothing"
        assert len(cell["source"]) <= MOST_LINES, cell["id"]
        assert max(len(line.rstrip("\n")) for line in cell["source"]) <= WIDEST, cell["id"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_parameters_are_settings_left_to_the_settings(name: str) -> None:
    cell = next(cell for cell in cells(name) if cell["metadata"].get("tags") == ["parameters"])
    lines = [line.rstrip("\n") for line in cell["source"]]
    assert all(line.endswith('  # @param {type:"raw"}') for line in lines)
    names = [statement.targets[0].id for statement in ast.parse(source(cell)).body]  # type: ignore[attr-defined]
    assert [line.split(" = ")[1].split("  #")[0] for line in lines] == ["None"] * len(lines)
    assert set(names) <= set(SETTINGS) - set(SECRET_NAMES)
    opened = next(source(cell) for cell in cells(name) if cell["id"] == "open")
    for parameter in names:
        assert f"{parameter}={parameter}" in opened, f"{parameter} does not reach open_stage"


def test_what_a_competitor_edits_stands_in_the_notebook() -> None:
    text = "\n".join(source(cell) for cell in cells("02-train"))
    for part in (
        "def preprocess(",
        "def build_model(",
        "model.compile(",
        "model.fit(",
        "epochs=EPOCHS",
        "validation_data",
    ):
        assert part in text
    assert text.count("Edit here: ") == 4
    assert not re.search(r"import (tensorflow|torch|jax)|keras\.backend", text), "Keras calls only"


# --- Executed ---


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with two tiny practice competitions of the user's own, chosen in variables.env."""
    root = tmp_path_factory.mktemp("a project")
    (root / ".project").mkdir()
    (root / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    hosted = root / "data" / "output" / "arena" / "competitions"
    tiny_competition(hosted, "tiny-digits", side=8)
    tiny_competition(hosted, "tiny-table", kind="table", rows=60, test_rows=20)
    for folder in ("code", "home"):
        (root / folder).mkdir()
    for name in NOTEBOOKS:
        shutil.copy(CODE / f"{name}.ipynb", root / "code")
    choose(root, "tiny-digits")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if (
                name in SETTINGS
                or name.startswith("KAGGLE_")
                or name.lower().endswith("_proxy")
                or name == "KWB_EXECUTED"
            ):
                patch.delenv(name)
        patch.setenv("HOME", str(root / "home"))
        patch.setenv("PYTHONPATH", str(CODE))
        yield root


def choose(root: Path, competition: str) -> None:
    (root / "variables.env").write_text(f"COMPETITION={competition}\nSOURCE=practice\nEPOCHS=2\n")


def execute(root: Path, name: str, *, after: str = "", code: str = "", **parameters: Any) -> dict[str, Any]:
    """Run a notebook as "Run All" does; with `after`, only to that cell, and `code` behind it."""
    document = json.loads((root / "code" / f"{name}.ipynb").read_text(encoding="utf-8"))
    if after:
        place = next(index for index, cell in enumerate(document["cells"]) if cell["id"] == after)
        extra = {"cell_type": "code", "id": "extra", "metadata": {}, "outputs": [], "execution_count": None}
        document["cells"][place + 1 :] = [{**extra, "source": code}]
    given = root / f"{name}-given.ipynb"
    given.write_text(json.dumps(document))
    made = root / f"{name}-made.ipynb"
    papermill.execute_notebook(
        str(given),
        str(made),
        parameters=parameters,
        cwd=str(root / "code"),
        kernel_name="python3",
        progress_bar=False,
    )
    return dict(json.loads(made.read_text(encoding="utf-8")))


def outputs(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for cell in notebook["cells"] for output in cell.get("outputs", ())]


def shown(notebook: dict[str, Any]) -> str:
    """All that a person reads in the outputs, as plain text."""
    parts = []
    for output in outputs(notebook):
        text = output.get("text") or output.get("data", {}).get("text/plain") or ""
        parts.append(text if isinstance(text, str) else "".join(text))
    return "\n".join(parts)


def newest(root: Path) -> dict[str, Any]:
    return list_runs(root / "data" / "output")[0]


def test_run_all_three_with_the_competition_of_variables_env_and_train_again(project: Path) -> None:
    made = {name: execute(project, name) for name in NOTEBOOKS}
    record = newest(project)
    assert (record["competition"], record["source"], record["status"]) == ("tiny-digits", "practice", "done")
    assert [step["stage"] for step in record["steps"]] == ["train", "submit"]
    assert [entry["epoch"] for entry in record["history"]] == [1, 2]
    assert record["cv"]["rows"] == 20
    assert 0 <= record["lb"]["public"] <= 1
    assert record["lb"]["rank"]
    assert record["steps"][0]["device"]["kind"] in ("cpu", "gpu")
    assert record["data"].keys() == {"train.csv", "test.csv", "sample_submission.csv"}
    folder = project / "data" / "output" / "runs" / record["id"]
    pictures = {"curves", "confusion", "mistakes", "cv-lb"}
    assert {path.stem for path in (folder / "pictures").iterdir()} == pictures
    assert str(project) not in (folder / "record.json").read_text()
    for name, notebook in made.items():
        for output in outputs(notebook):
            assert output.get("name") != "stderr", f"{name}: {output}"
            picture = output.get("data", {}).get("image/png")
            if picture:
                assert base64.b64decode(picture).startswith(b"\x89PNG")
                assert len(output["metadata"]["image/png"]["alt"]) > 20
        assert not re.search(r"[\b\r]", shown(notebook)), f"{name}: control characters"
    assert "8 x 8 pixels" in shown(made["01-data"])
    assert re.search(r"1/2 .*\n +2/2 ", shown(made["02-train"])), "one line per epoch, in one output"
    assert "is good to submit" in shown(made["03-submit"])

    execute(project, "02-train")
    again = newest(project)
    assert again["id"] != record["id"]
    assert [{**entry, "seconds": 0} for entry in again["history"]] == [{**e, "seconds": 0} for e in record["history"]]
    files = [project / "data" / "output" / "runs" / run["id"] / "submission.csv" for run in (record, again)]
    assert files[0].read_bytes() == files[1].read_bytes(), "one seed, one result"


def test_a_table_is_read_and_trained_by_trees_and_a_network_on_the_same_folds(project: Path) -> None:
    read = execute(project, "01-data", COMPETITION="tiny-table")
    assert "Survived, 2 classes" in shown(read)
    assert "Categorization Accuracy (higher is better)" in shown(read)
    assert "Missing values" in shown(read)
    assert "an id" not in shown(read), "the id of the submission is no column to doubt"
    made = execute(project, "02-train", COMPETITION="tiny-table")
    record = newest(project)
    assert (record["status"], record["metric"]) == ("done", "accuracy")
    assert (record["cv"]["rows"], len(record["cv"]["folds"])) == (60, 5)
    assert len(record["history"]) == 2, "the epochs of the first fold"
    said = shown(made)
    assert all(f"{model:<10} fold {fold}/5" in said for model in ("boosting", "network") for fold in range(1, 6))
    assert "boosting + network" in said
    folder = project / "data" / "output" / "runs" / record["id"]
    assert {path.stem for path in (folder / "pictures").iterdir()} == {"curves", "confusion"}
    held = (folder / "predictions" / "held-back.csv").read_text().splitlines()
    assert held[0] == "row,fold,answer,prediction"
    assert [int(line.split(",")[0]) for line in held[1:]] == list(range(60)), "each row once"
    right = sum(line.split(",")[2] == line.split(",")[3] for line in held[1:])
    assert record["cv"]["score"] == pytest.approx(right / 60)
    execute(project, "03-submit", COMPETITION="tiny-table")
    assert newest(project)["lb"]["public"] is not None


def test_a_kind_without_a_baseline_is_told_in_one_sentence(project: Path) -> None:
    files = {"train.csv": b"id,story,label\n", "test.csv": b"id,story\n"}
    for row in range(60):
        files["train.csv"] += f"{row},the words of row {row} are its own,{row % 2}\n".encode()
        files["test.csv"] += f"{60 + row},other words of row {row},\n".replace(",\n", "\n").encode()
    sample = "id,label\n" + "".join(f"{60 + row},0\n" for row in range(60))
    hosted = project / "data" / "output" / "arena" / "competitions"
    tiny_competition(hosted, "tiny-text", kind="table", extra={**files, "sample_submission.csv": sample.encode()})
    read = execute(project, "01-data", COMPETITION="tiny-text")
    assert "free text" in shown(read)
    with pytest.raises(PapermillExecutionError) as caught:
        execute(project, "02-train", COMPETITION="tiny-text")
    assert caught.value.ename == "UsageError"
    assert "no baseline for that kind" in caught.value.evalue
    assert "Traceback" not in "".join(caught.value.traceback)
    assert len(caught.value.traceback) <= 4
    record = newest(project)
    assert (record["status"], record["steps"][0]["error"]["kind"]) == ("failed", "UsageError")


def test_a_misspelt_competition_is_one_message_and_a_failed_run(project: Path) -> None:
    with pytest.raises(PapermillExecutionError) as caught:
        execute(project, "01-data", COMPETITION="tiny-digit")
    text = "".join(caught.value.traceback)
    assert "tiny-digit" in text
    assert "File " not in text
    record = newest(project)
    assert record["status"] == "failed"
    assert record["steps"][0]["error"]["exit_code"] == 2


def test_a_cell_that_fails_is_in_the_record(project: Path) -> None:
    with pytest.raises(PapermillExecutionError):
        execute(project, "01-data", after="download", code="1 / 0")
    record = newest(project)
    assert (record["status"], record["steps"][0]["error"]["kind"]) == ("failed", "ZeroDivisionError")


def test_a_kernel_that_is_killed_leaves_a_run_that_died(project: Path) -> None:
    with pytest.raises(DeadKernelError):
        execute(project, "01-data", after="download", code="import os\n\nos.kill(os.getpid(), 9)")
    assert newest(project)["status"] == "died"


def test_a_notebook_that_is_opened_again_or_closed_early_says_so(project: Path) -> None:
    execute(
        project, "01-data", after="download", code='first = stage.run.id\nstage = open_stage("data", RUN_ID="second")'
    )
    runs = {run["id"]: run for run in list_runs(project / "data" / "output")}
    second = runs.pop("second")
    assert second["status"] == "failed"
    assert "closed before its last cell" in second["steps"][0]["error"]["message"]
    first = next(iter(runs.values()))
    assert "opened again" in first["steps"][0]["error"]["message"]


def test_opening_again_at_once_leaves_no_empty_run(project: Path) -> None:
    before = {run["id"] for run in list_runs(project / "data" / "output")}
    execute(project, "01-data", after="open", code='open_stage("data", RUN_ID="third")')
    assert {run["id"] for run in list_runs(project / "data" / "output")} - before == {"third"}


def test_on_kaggle_only_submit_true_submits_and_only_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A counting server before an arena stands for Kaggle; real credentials are set."""
    hosted = project / "hosted"
    tiny = tiny_competition(hosted, "tiny-kaggle", side=8, rows=40, test_rows=40)
    run = Run.create(project / "data" / "output", stage="train", competition="tiny-kaggle", source="kaggle", run_id="k")
    with run.step("train"):
        tiny.submission(run.folder / "submission.csv", wrong=3)
        run.update(cv={"metric": "accuracy", "score": 0.9, "method": "hold-out", "rows": 4})
    with running([hosted], project / "state") as arena, FaultServer(arena.url) as server:
        token = arena.token.reveal()
        monkeypatch.setenv("KAGGLE_API_ENVIRONMENT", "LOCALHOST")
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.setenv("KAGGLE_API_TOKEN", token)
        given = {"COMPETITION": "tiny-kaggle", "SOURCE": "kaggle"}
        plain = execute(project, "03-submit", **given)
        assert server.count("CreateSubmission") == server.count("StartSubmissionUpload") == 0
        assert "Nothing was submitted" in shown(plain)
        assert "SUBMIT = True" in shown(plain)
        first = execute(project, "03-submit", **given, SUBMIT=True)
        assert server.count("CreateSubmission") == 1
        again = execute(project, "03-submit", **given, SUBMIT=True)
        assert server.count("CreateSubmission") == 1
        assert "was submitted before" in shown(again)
        record = run.read()
        assert record["lb"]["public"] is not None
        for text in (json.dumps([plain, first, again]), json.dumps(record)):
            assert token not in text
