"""A notebook's own parameters: declared in its cell, given by --set, kept in the record, carried on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from arena_tools import tiny_competition
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.records import Run
from kaggle_workbench.stages import parameters
from kaggle_workbench.stages.resume import carried_own
from project_tools import ROOT, make_project

CELL = """%matplotlib inline
COMPETITION = None  # @param {type:"raw"}
LEARNING_RATE = 0.001  # search: 0.0001..0.01 log
units: int = 32
NAME = "adam"
AUGMENT = False
LAYERS = [1, 2]
SHAPE = made()
"""


def notebook(folder: Path, source: str = CELL) -> Path:
    file = folder / "02-train.ipynb"
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("OTHER = 1"), cell]), file)
    return file


def test_given_values_are_settings_or_stand_in_a_parameters_cell(tmp_path: Path) -> None:
    file = notebook(tmp_path)
    given = {
        "EPOCHS": "5",
        "LEARNING_RATE": "1",
        "units": "64",
        "NAME": "1",
        "AUGMENT": "True",
        "LAYERS": "(4, 'a')",
        "SHAPE": "as it is",
        "COMPETITION": None,
    }
    settings, own = parameters.split([file], given)
    assert settings == {"EPOCHS": "5"}
    assert own == {
        "LEARNING_RATE": 1.0,
        "units": 64,
        "NAME": "1",
        "AUGMENT": True,
        "LAYERS": [4, "a"],
        "SHAPE": "as it is",
    }
    assert isinstance(own["LEARNING_RATE"], float)


@pytest.mark.parametrize(("name", "close"), [("LEARNIG_RATE", "LEARNING_RATE"), ("EPOCH", "EPOCHS"), ("OTHER", None)])
def test_an_unknown_name_is_refused_with_the_closest(tmp_path: Path, name: str, close: str | None) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is no setting") as caught:
        parameters.split([notebook(tmp_path)], {name: "1"})
    assert (f"Did you mean {close}?" in caught.value.message) == (close is not None)
    assert "LEARNING_RATE, units" in caught.value.hint


@pytest.mark.parametrize("content", ["no json", "[]", json.dumps({"cells": [3]})])
def test_what_is_no_notebook_is_said(tmp_path: Path, content: str) -> None:
    (tmp_path / "broken.ipynb").write_text(content)
    with pytest.raises(WorkError, match="cannot be read as a notebook"):
        parameters.declared(tmp_path / "broken.ipynb")
    with pytest.raises(WorkError, match=r"no Python: .* \(its line 2\)"):
        parameters.declared(notebook(tmp_path, "A = 1\nB =\n"))


def test_the_record_holds_them_and_a_run_that_goes_on_keeps_them(tmp_path: Path) -> None:
    file = notebook(tmp_path)
    run = Run.create(tmp_path, stage="train", competition="digits", source="practice")
    assert carried_own({}, run, file) == ({}, [])
    before: dict[str, Any] = {"EPOCHS": 3, "LEARNING_RATE": 0.01, "units": 8, "gone": 1}
    run.start("train", place="local", parameters=before, git=None).end()
    taken, said = carried_own({"units": 16}, run, file)
    assert taken == {"LEARNING_RATE": 0.01}
    assert said == ["units is 16 now; the run so far had 8."]


@pytest.mark.slow
def test_a_notebook_gets_them_and_its_record_has_them_without_its_help(tmp_path: Path) -> None:
    project = make_project(tmp_path, env={"SOURCE": "practice", "COMPETITION": "tiny-digits"})
    tiny_competition(project.hosted, "tiny-digits", rows=40, test_rows=20, side=8)
    path = project.folder / "code" / "01-data.ipynb"
    document = nbformat.read(ROOT / "code" / "01-data.ipynb", as_version=4)
    cell = next(cell for cell in document.cells if "parameters" in cell.metadata.get("tags", ()))
    cell.source += "\nFRACTION = 0.5\nTITLE = 'none'"
    document.cells.append(nbformat.v4.new_code_cell("print('fraction is', FRACTION, 'of', TITLE)"))
    nbformat.write(document, path)
    done = project.kwb("run", "data", "--set", "FRACTION=0.25", "--set", "TITLE=1/2")
    assert done.returncode == 0, done.stderr
    assert "fraction is 0.25 of 1/2" in done.stderr
    run = json.loads(next(project.output.glob("runs/*/record.json")).read_text())
    assert {"FRACTION": 0.25, "TITLE": "1/2"}.items() <= run["steps"][0]["parameters"].items()
    refused = project.kwb("run", "data", "--set", "FRACTIN=1")
    assert refused.returncode == 2
    assert "Did you mean FRACTION?" in refused.stderr
