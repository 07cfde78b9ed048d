"""What a study is asked for: search spaces, variants, refusals; and one that is run with failures in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import load_settings
from kaggle_workbench.stages.parameters import declared
from kaggle_workbench.tuning import Dimension, Study, read_space, read_variants, table
from kaggle_workbench.tuning.space import parse
from kaggle_workbench.tuning.study import entries
from project_tools import Project
from tune_tools import records, tuning_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return tuning_project(tmp_path)


@pytest.mark.parametrize(
    ("entry", "default", "wanted"),
    [
        ("0.0001..0.01 log", 0.001, Dimension("X", 0.0001, 0.01, log=True)),
        ("1..8", None, Dimension("X", 1, 8)),
        ("1..8", 2.0, Dimension("X", 1.0, 8.0)),
        ("-1e-3 .. 5", None, Dimension("X", -0.001, 5.0)),
        ("64..512 step 64", 128, Dimension("X", 64, 512, step=64)),
        ("32, 64, 128", None, Dimension("X", choices=(32, 64, 128))),
        ("'adam', \"sgd\"", "adam", Dimension("X", choices=("adam", "sgd"))),
        ("true, false", None, Dimension("X", choices=(True, False))),
        ([0.1, 1], None, Dimension("X", choices=(0.1, 1))),
        ({"low": 1, "high": 9, "log": True}, None, Dimension("X", 1, 9, log=True)),
    ],
)
def test_forms_of_a_search_space(entry: object, default: object, wanted: Dimension) -> None:
    assert parse("X", entry, "here", default) == wanted


@pytest.mark.parametrize(
    "entry",
    ["", "8..1", "0..1 log", "1..2 log step 1", "1..8 step 9", "a..b", "1, 1", [], [[1]], {"low": 1},
     {"low": "a", "high": 2}, 5],
)  # fmt: skip
def test_what_is_no_search_space_is_said(entry: object) -> None:
    with pytest.raises(UsageError, match=r"Search space \(here\)"):
        parse("X", entry, "here")


def test_space_and_variants_are_read_from_their_places(project: Project, tmp_path: Path) -> None:
    known = declared(project.folder / "code" / "02-train.ipynb")
    rate, units = read_space(known)
    assert (rate, units) == (Dimension("RATE", 0.001, 0.1, log=True), Dimension("UNITS", choices=(2, 4, 8)))
    (tmp_path / "space.toml").write_text('EPOCHS = "1..3"\nUNITS = [2, 4]\n')
    assert [str(each) for each in read_space(known, tmp_path / "space.toml")] == ["EPOCHS: 1..3", "UNITS: 2, 4"]
    for name, text in {
        "a.csv": "\ufeffRATE; UNITS\n0.1;2\n;4\n",
        "b.json": '[{"RATE": "0.1", "UNITS": "2"}, {"UNITS": "4"}]',
        "c.toml": '[[variant]]\nRATE = "0.1"\nUNITS = "2"\n[[variant]]\nUNITS = "4"\n',
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_variants(tmp_path / name) == [{"RATE": "0.1", "UNITS": "2"}, {"UNITS": "4"}]
    for name, text in {
        "d.csv": "A,A\n1,2\n",
        "e.csv": "A,B\n1\n",
        "f.json": "{}",
        "g.toml": "A = 1",
        "h.txt": "A\n1",
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match=name):
            read_variants(tmp_path / name)


def test_nothing_runs_when_what_is_asked_is_wrong(project: Project) -> None:
    (project.folder / "bad.csv").write_text("RATE,UNIT\n0.1,2\n")
    (project.folder / "place.csv").write_text("COMPETITION\ntitanic\n")
    (project.folder / "epochs.toml").write_text("EPOCHS = [2, 0]\n")
    for words, said in {
        (): "Nothing to try",
        ("--variants", "bad.csv"): "Variant 1: 'UNIT' is no setting",
        ("--variants", "place.csv"): "COMPETITION is the same for all trials",
        ("--trials", "2", "--space", "epochs.toml"): "EPOCHS is '0'",
        ("--trials", "2", "--engine", "spark"): "There is no engine 'spark'",
        ("--trials", "2", "--address", "a:1"): "The engine local has no address",
        ("--trials", "2", "--set", "RUN_ID=x"): "RUN_ID names one run",
        ("--resume", "x"): "There is no study 'x'",
    }.items():
        done = project.kwb("tune", *words)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
    dry = project.kwb("tune", "--trials", "2", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "RATE: 0.001..0.1 log" in dry.stderr
    assert not (project.output / "studies").exists()
    assert not (project.output / "runs").exists()


def test_a_storage_of_ones_own_and_its_password(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    settings = load_settings({})
    space = entries([Dimension("RATE", 0.1, 1.0)])
    asked = {
        "trials": 3, "variants": [{"RATE": 0.5}, {"RATE": 7.0}, {"UNITS": "x"}], "space": space, "overrides": {},
        "seed": 0, "prune": True, "metric": "accuracy", "greater_is_better": True, "elsewhere": True,
    }  # fmt: skip
    address = f"sqlite:///{tmp_path / 'pw-5511.db'}"
    study = Study.create(settings, "s", asked, storage=address)
    trials = [study.trial(study.ask()) for _ in range(4)]
    assert [trial.parameters for trial in trials[:3]] == asked["variants"]
    assert 0.1 <= trials[3].parameters["RATE"] <= 1.0
    again = Study.open(settings, "s", storage=address)
    assert [again.trial(live) for live in again.running()] == trials, "asked again, they are the same"
    assert "pw-5511" not in (study.folder / "study.json").read_text()
    with pytest.raises(UsageError, match="kept in another storage"):
        Study.open(settings, "s", storage=None)


@pytest.mark.slow
def test_variants_and_sampled_trials_one_of_them_failing(project: Project) -> None:
    (project.folder / "variants.csv").write_text("RATE,FAIL\n0.05,\n,true\n")
    words = ("--variants", "variants.csv", "--trials", "1", "--study", "mixed", "--slots", "2", "--format", "json")
    done = project.kwb("tune", *words)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["by"], row["status"]) for row in rows] == [
        ("variant", "done"),
        ("variant", "failed"),
        ("sampled", "done"),
    ]
    assert "this one fails" in rows[1]["error"]
    assert rows[0]["parameters"] == {"RATE": 0.05}
    assert records(project, "mixed")["mixed-t0"]["steps"][0]["parameters"]["RATE"] == 0.05
    folder = project.output / "studies" / "mixed"
    assert {"parameters.png", "history.png"} <= {file.name for file in (folder / "pictures").iterdir()}
    assert (folder / "table.csv").read_text().count("\n") == 4
    more = project.kwb("tune", "--resume", "mixed", "--format", "json")
    assert json.loads(more.stdout) == rows, "nothing is left, so nothing is run"


def test_the_best_trial_is_named() -> None:
    def row(trial: int, value: float | None) -> dict[str, object]:
        return {"trial": trial, "run": f"s-t{trial}", "value": value, "parameters": {"RATE": 0.0123456, "UNITS": 4}}

    rows = [row(0, 0.5), row(1, None), row(2, 0.75)]
    said = table.verdict(rows, "accuracy", greater_is_better=True)
    assert said == "Best: trial 2 (RATE=0.01235, UNITS=4), CV accuracy 0.75000, run s-t2"
    assert "trial 0" in table.verdict(rows, "rmse", greater_is_better=False)
    assert "All 2 trials have the CV rmse 0.50000" in table.verdict(
        [rows[0], row(3, 0.5)], "rmse", greater_is_better=False
    )
    assert table.verdict([row(1, None)], "rmse", greater_is_better=False) == "No trial has a score."


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_plot_for_each_parameter_that_moved_and_no_empty_one(count: int) -> None:
    from types import SimpleNamespace

    from kaggle_workbench.tuning.pictures import effects

    study = SimpleNamespace(space=[], metric="accuracy")
    rows = [
        {"parameters": {f"P{one}": trial for one in range(count)} | {"SAME": 1}, "value": 0.9, "train": 0.8}
        for trial in range(3)
    ]
    figure = effects(rows, study)  # type: ignore[arg-type]
    assert [axes.get_xlabel() for axes in figure.axes if axes.axison] == [f"P{one}" for one in range(count)]


def test_kaggles_machines_are_refused_before_there_is_a_study(project: Project) -> None:
    (project.folder / "variants.csv").write_text("RATE\n0.05\n")
    for words, code, said in (((), 4, "which Kaggle's machines cannot see"), (("--machine", "p100"), 2, "no machine")):
        done = project.kwb("tune", "--variants", "variants.csv", "--engine", "kaggle", *words)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert not (project.output / "studies").exists()
