"""`kwb runs`: listings that fit, the best first, runs compared, and the alarm when CV and leaderboard part."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench import cli, summaries
from kaggle_workbench.errors import PausedError
from kaggle_workbench.records import Run

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".project").mkdir()
    (tmp_path / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTPUT_DIR", str(tmp_path / "out"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(cli, "GROUPS", ("runs",))
    return tmp_path / "out"


@pytest.fixture
def say(output: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["runs", *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def make(output: Path, name: str, **options: Any) -> Run:
    """A run with scores, in one line.

    Args:
        output: Folder that holds `runs/`.
        name: The run's name.
        options: cv, public, private, metric, rows, folds, day, status, epochs, wall_s, parameters, competition, source.
    """
    slug, source = options.get("competition", "digits"), options.get("source", "kaggle")
    run = Run.create(output, stage="train", competition=slug, source=source, run_id=name)
    with run.step("train", place="local", parameters=options.get("parameters", {"SEED": 0})):
        pass
    metric = options.get("metric", "accuracy")
    cv, public = options.get("cv"), options.get("public")

    def edit(record: dict[str, Any]) -> None:
        record["metric"] = metric
        if cv is not None:
            facts = {"method": "hold-out", "rows": options.get("rows", 10_000), "folds": options.get("folds")}
            record["cv"] = {"metric": metric, "score": cv, **facts}
        if public is not None:
            record["lb"] = {"public": public, "private": options.get("private"), "rank": None, "entries": None}
        record["created"] = f"2026-11-{options.get('day', 1):02d}T10:00:00.000Z"
        record["status"] = record["steps"][0]["status"] = options.get("status", "done")
        record["steps"][0]["wall_s"] = options.get("wall_s", 60)
        record["history"] = [
            {"epoch": n + 1, "loss": 1 / (n + 1), "val_loss": 1 / (n + 2), "val_accuracy": n / 10}
            for n in range(options.get("epochs", 0))
        ]

    run.change(edit)
    return run


def names(out: str) -> list[str]:
    return [row["run"] for row in json.loads(out)]


def test_filters_sorts_and_limit(output: Path, say: Say) -> None:
    make(output, "old", day=1, cv=0.97, public=0.96, wall_s=10, epochs=3)
    make(output, "best", day=2, cv=0.99, public=0.95, wall_s=30, epochs=1)
    make(output, "broken", day=3, status="failed", wall_s=20)
    make(output, "toy", day=4, cv=0.5, source="practice", status="paused")
    make(output, "houses", day=5, competition="house-prices", metric="rmse", cv=0.2)
    make(output, "better-houses", day=6, competition="house-prices", metric="rmse", cv=0.1)
    for words, expected in {
        (): "better-houses houses toy broken best old",
        ("--competition", "digits"): "toy broken best old",
        ("--source", "practice"): "toy",
        ("--status", "failed,paused"): "toy broken",
        ("--since", "2026-11-05"): "better-houses houses",
        ("--since", "2026-11-04T09:00"): "better-houses houses toy",
        ("--limit", "2"): "better-houses houses",
        ("--competition", "digits", "--source", "kaggle", "--sort", "cv"): "best old broken",
        ("--competition", "digits", "--source", "kaggle", "--sort", "public"): "old best broken",
        ("--competition", "digits", "--source", "kaggle", "--sort", "gap"): "old best broken",
        ("--competition", "digits", "--source", "kaggle", "--sort", "took"): "old broken best",
        ("--competition", "digits", "--source", "kaggle", "--sort", "epochs"): "old best broken",
        # The lower error first, and scores of different competitions are not mixed.
        ("--sort", "CV"): "better-houses houses toy best old broken",
    }.items():
        code, out, _ = say(*words, "--format", "json")
        assert (code, names(out)) == (0, expected.split()), words
    assert names(say("--since", "90m", "--format", "json")[1]) == []


def test_what_cannot_be_listed_is_said(output: Path, say: Say, capsys: pytest.CaptureFixture[str]) -> None:
    make(output, "one")
    for words, said in {
        ("--sort", "beauty"): "--sort takes one of: created",
        ("--status", "alive"): "The statuses are: running, paused",
        ("--since", "yesterday"): "--since 7d",
        ("compare", "one"): "kwb runs compare RUN RUN",
        ("compare", "one", "one"): "with itself",
        ("compare", "one", "two"): "no run 'two'",
    }.items():
        code, out, err = say(*words)
        assert (code, out) == (2, "")
        assert said in err
    for words in (("--limit", "0"), ("--limit", "many"), ("--format", "xml")):
        with pytest.raises(SystemExit):
            cli.main(["runs", *words])
    assert say("--from", "mongodb")[0] == 3


def test_the_table_fits_and_groups_stand_apart(output: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        slug = ("a-competition-with-a-long-name", "titanic")[number % 2]
        scores = {"cv": 0.9, "public": 0.91, "private": 0.92, "epochs": 20, "wall_s": 7200}
        make(
            output,
            f"20261101-10000{number}-train",
            competition=slug,
            source=("kaggle", "practice")[number // 2],
            **scores,
        )
    for width in (80, 100, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        _, out, _ = say()
        assert max(map(len, out.splitlines())) <= width
        head = out.splitlines()[0].split()
        assert {"run", "status", "competition", "CV", "public", "gap"} <= set(head)
        assert ("private" in head) == (width == 200)
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = say("--group", "--sort", "CV")
    heads = {part.splitlines()[0] for part in out.split("\n\n")}
    names = ("titanic", "a-competition-with-a-long-name")
    assert heads == {f"{name} ({source})" for name in names for source in ("practice", "kaggle")}
    assert "-0.01000" in out
    assert "2 h 00 min" in out


def test_csv_holds_every_field(output: Path, say: Say) -> None:
    make(output, "one", cv=0.9, folds=[0.88, 0.92])
    _, out, _ = say("--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert say("--format", "csv", "--since", "1m")[1] == out.splitlines()[0] + "\n"
    assert (row["run"], row["CV"], row["public"], row["CV_folds"]) == ("one", "0.9", "", "[0.88, 0.92]")


def test_csv_stays_a_table_and_calculates_nothing(output: Path, say: Say) -> None:
    run = make(output, "a", cv=-0.5, metric="rmse")
    told = 'a, "b"\nc'
    run.change(lambda record: record.update(competition="=1+2", parent=told))
    (row,) = csv.DictReader(io.StringIO(say("--format", "csv")[1]))
    assert (row["competition"], row["parent"], row["CV"]) == ("'=1+2", told, "-0.5")
    (other,) = json.loads(say("--format", "json")[1])
    assert (other["competition"], other["parent"], other["CV"]) == ("=1+2", told, -0.5)


def test_runs_named_as_columns_are_compared(output: Path, say: Say) -> None:
    for name, cv in (("name", 0.5), ("results", 0.75)):
        make(output, name, cv=cv)
    rows = list(csv.reader(io.StringIO(say("compare", "name", "results", "--format", "csv")[1])))
    assert ["results", "CV", "0.5", "0.75", "0.25"] in rows
    assert rows[0][:2] == ["section", "name"]
    assert [name.partition(" (")[0] for name in rows[0][2:]] == ["name", "results", "difference"]
    line = next(line for line in say("compare", "name", "results")[1].splitlines() if line.startswith("CV"))
    assert line.split() == ["CV", "0.50000", "0.75000", "+0.25000", "better"]


def test_show_tells_epochs_folds_checkpoint_and_how_to_go_on(output: Path, say: Say) -> None:
    run = make(output, "long", cv=0.9, folds=[0.88, 0.92], epochs=50)
    run.update(checkpoint={"epoch": 50, "step": 120, "file": "checkpoints/x", "written": "2026-11-01T10:00:00Z"})
    run.start("train").pause(
        PausedError("The session ends in 5 minutes.", hint="Go on with ./kwb run train --resume long")
    )
    run.change(lambda record: record["steps"][0].update(device={"kind": "cpu", "count": 2, "reason": "no GPU here"}))
    code, out, _ = say("show", "lon")
    assert code == 0
    assert out.startswith("Run long: paused\n")
    for text in (
        "by fold: 0.88000, 0.92000, spread 0.02828",
        "step 120 of epoch 51, written 2026-11-01 10:00 UTC",
        "go on with   ./kwb run train --resume long",
        "paused       PausedError: The session ends in 5 minutes.",
        "device       CPU (2 cores): no GPU here",
        "dev loss  dev accuracy",
        "... 20 epochs",
    ):
        assert text in out
    assert "val_" not in out
    assert "val " not in out
    assert max(len(line) for line in out.splitlines()) <= 100
    done = make(output, "finished")
    assert "go on with" not in say("show", done.id)[1]


def test_compare_lists_what_differs_and_counts_what_is_equal(output: Path, say: Say) -> None:
    shared = {"SEED": 0, "BATCH_SIZE": 64}
    make(output, "a", cv=0.97, public=0.96, epochs=3, parameters={**shared, "EPOCHS": 3, "RUN_ID": "a"})
    make(output, "b", cv=0.98, public=0.95, epochs=3, parameters={**shared, "EPOCHS": 5, "RATE": 0.1, "RUN_ID": "b"})
    code, out, _ = say("compare", "a", "b")
    assert code == 0
    lines = {line.split("  ")[0]: " ".join(line.split()) for line in out.splitlines() if line}
    assert lines["CV"] == "CV 0.97000 0.98000 +0.01000 better"
    assert lines["public"] == "public 0.96000 0.95000 -0.01000 worse"
    assert lines["EPOCHS"] == "EPOCHS 3 5"
    assert lines["RATE"] == "RATE - 0.10000"
    assert "RUN_ID" not in out
    assert not [line for line in out.splitlines() if line.startswith(("SEED", "BATCH_SIZE", "best dev"))]
    assert "equal parameters 2: SEED, BATCH_SIZE" in out
    compared = json.loads(say("compare", "a", "b", "--format", "json")[1])
    assert compared["differences"]["parameters"] == {"EPOCHS": [3, 5], "RATE": [None, 0.1]}
    assert "best dev accuracy" in compared["equal"]["results"]
    rows = list(csv.DictReader(io.StringIO(say("compare", "--format", "csv", "a", "b")[1])))
    assert {"section": "parameters", "name": "EPOCHS", "a": "3", "b": "5", "difference": "2"} in rows
    make(output, "c", competition="titanic", cv=0.8)
    code, out, err = say("compare", "a", "b", "c")
    assert (code, "different competitions" in err) == (0, True)
    assert "0.80000" in out


def test_lower_is_better_where_the_metric_is_an_error(output: Path, say: Say) -> None:
    make(output, "a", metric="rmse", cv=0.3)
    make(output, "b", metric="rmse", cv=0.2)
    assert "-0.10000 better" in say("compare", "a", "b")[1]


def row(run: str, day: int, cv: float | None, public: float | None, **more: Any) -> dict[str, Any]:
    gap = None if cv is None or public is None else cv - public
    facts = {"competition": "digits", "source": "kaggle", "metric": "accuracy", "CV_rows": 10_000, "CV_folds": None}
    return {"run": run, "created": f"2026-11-{day:02d}", "CV": cv, "public": public, "gap": gap, **facts, **more}


def test_no_alarm_while_cv_and_leaderboard_agree() -> None:
    agree = [row("a", 1, 0.970, 0.969), row("b", 2, 0.980, 0.978), row("c", 3, 0.985, 0.985)]
    assert summaries.partings(agree) == []
    # Chance: fewer than three runs; differences within the standard error of 10,000 rows (0.0014 at 0.98).
    assert summaries.partings([row("a", 1, 0.97, 0.97), row("b", 2, 0.99, 0.90)]) == []
    assert summaries.partings([*agree, row("d", 4, 0.986, 0.984)]) == []
    assert summaries.partings([*agree, row("unsent", 4, 0.999, None), row("untrained", 5, None, 0.5)]) == []
    # Runs of another competition, source or metric are not mixed in.
    others = [row("e", 4, 0.99, 0.5, source="practice"), row("f", 5, 0.99, 0.5, competition="titanic")]
    assert summaries.partings([*agree, *others, row("g", 6, 0.99, 0.2, metric="rmse")]) == []


def test_alarm_when_the_order_turns_round() -> None:
    (sentence,) = summaries.partings([row("a", 1, 0.97, 0.965), row("b", 2, 0.98, 0.975), row("new", 3, 0.99, 0.96)])
    assert "By CV new (0.99000) beats b (0.98000)" in sentence
    assert "(0.96000 against 0.97500)" in sentence
    assert sentence.startswith("digits: CV and leaderboard part.")
    # The same with an error, where lower is better: a lower CV and a higher leaderboard.
    errors = [("a", 1, 0.30, 0.31), ("b", 2, 0.25, 0.26), ("new", 3, 0.20, 0.32)]
    (sentence,) = summaries.partings([row(*run, metric="rmse") for run in errors])
    assert "By CV new (0.20000) beats b (0.25000)" in sentence
    assert summaries.partings([row(*run[:2], run[2], run[2] + 0.01, metric="rmse") for run in errors]) == []


def test_alarm_when_the_gap_leaves_its_usual_spread() -> None:
    usual = [row(f"r{n}", n, 0.97 + n / 1000, 0.969 + n / 1000) for n in range(1, 6)]
    assert summaries.partings([*usual, row("new", 9, 0.980, 0.979)]) == []
    (sentence,) = summaries.partings([*usual, row("new", 9, 0.9755, 0.960)])
    assert "new is worse on the leaderboard than its CV says: its gap is 0.01550, usually it is 0.00100" in sentence
    (sentence,) = summaries.partings([*usual, row("new", 9, 0.9755, 0.990)])
    assert "new is better on the leaderboard" in sentence
    # An older run off the line is history, not an alarm.
    assert summaries.partings([row("odd", 0, 0.9715, 0.94), *usual]) == []
    # The folds tell how much CV itself varies: here as much as that.
    noisy = [{**run, "CV_folds": [run["CV"] - 0.03, run["CV"], run["CV"] + 0.03]} for run in usual]
    assert summaries.partings([*noisy, row("new", 9, 0.9755, 0.960, CV_folds=[0.94, 0.98, 1.0])]) == []


def test_the_alarm_stands_below_the_listing_and_json_stays_json(output: Path, say: Say) -> None:
    for name, day, cv, public in (("a", 1, 0.97, 0.965), ("b", 2, 0.98, 0.975), ("new", 3, 0.99, 0.96)):
        make(output, name, day=day, cv=cv, public=public)
    _, out, err = say("--format", "json", "--limit", "1")
    assert names(out) == ["new"]
    assert err.count("Warning:") == 1
    assert "By CV new" in err
    assert say("--competition", "titanic")[2] == ""


def test_report_calls_for_the_page(output: Path, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(output, "one")
    asked = []

    class Pages:
        @staticmethod
        def write_report(folder: Path) -> Path:
            asked.append(folder)
            return folder / "report.html"

    monkeypatch.setitem(sys.modules, "kaggle_workbench.stages.report", Pages)
    code, out, _ = say("report", "on")
    assert (code, out, asked) == (0, f"{run.folder / 'report.html'}\n", [run.folder])


def test_a_listing_needs_only_the_base_dependencies(output: Path) -> None:
    make(output, "one", cv=0.9)
    code = (
        "import sys\n"
        "from kaggle_workbench import cli\n"
        "assert cli.main(['runs']) == cli.main(['runs', 'show', 'one']) == 0\n"
        "heavy = {'numpy', 'pandas', 'keras', 'pymongo', 'fsspec', 'flask', 'papermill'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    root = Path(__file__).resolve().parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root / "code")}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
