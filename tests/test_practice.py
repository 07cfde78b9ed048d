"""The practice competitions: what is in them, and what `kwb run` scores in them without a change."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kaggle_workbench.arena.competitions import load
from kaggle_workbench.arena.scoring import score
from project_tools import Project, make_project

ROOT = Path(__file__).resolve().parent.parent
PRACTICE = ROOT / "data" / "practice"
TABULAR = ROOT.parent / "shared" / "data" / "tabular"
# What `kwb run` must reach at least, and whether more is better.
BARS = {"digit-recognizer": (0.985, True), "house-prices": (0.130, False), "titanic": (0.79, True)}


@pytest.mark.parametrize("slug", sorted(BARS))
def test_its_files_are_as_listed_and_the_references_score_as_written(slug: str) -> None:
    folder = PRACTICE / slug
    for name, digest in json.loads((folder / "checksums.json").read_text()).items():
        file, _, member = name.partition(":")
        if member:
            with zipfile.ZipFile(folder / file) as archive:
                content = archive.read(member)
        else:
            content = (folder / file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest, name
    competition = load(folder)
    readme = (folder / "README.md").read_text()
    for reference in competition.references:
        scores = score(competition, reference.file)
        digits = 5
        written = f"| {scores.public:.{digits}f} | {scores.private:.{digits}f} |"
        assert written in readme, f"{reference.name}: {written}"
    assert "data/practice/" + slug in (ROOT / "NOTICE").read_text()


def test_no_answer_of_a_test_row_is_served() -> None:
    for slug, target in (("house-prices", "SalePrice"), ("titanic", "Survived")):
        with zipfile.ZipFile(PRACTICE / slug / "files.zip") as archive:
            tables = {name: pd.read_csv(archive.open(name)) for name in archive.namelist()}
        assert target not in tables["test.csv"]
        ids = [set(tables[name].iloc[:, 0]) for name in ("train.csv", "test.csv")]
        assert not ids[0] & ids[1]
        with gzip.open(PRACTICE / slug / "solution.csv.gz", "rt") as file:
            answers = list(csv.DictReader(file))
        sample = next(table for name, table in tables.items() if "sub" in name)
        told = dict(zip(sample.iloc[:, 0].astype(str), sample[target], strict=True))
        right = [float(told[next(iter(row.values()))]) == float(row[target]) for row in answers]
        assert np.mean(right) < 0.9, f"the sample of {slug} is no solution"


@pytest.mark.skipif(not TABULAR.is_dir(), reason="the source tables are not part of the repository")
def test_the_same_tables_give_the_same_files(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, str(PRACTICE / "make_tables.py"), str(TABULAR), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    for slug in ("house-prices", "titanic"):
        ours = json.loads((PRACTICE / slug / "checksums.json").read_text())
        theirs = json.loads((tmp_path / slug / "checksums.json").read_text())
        members = [name for name in ours if ":" in name]
        assert {name: theirs[name] for name in members} == {name: ours[name] for name in members}


@pytest.fixture
def copy(tmp_path: Path) -> Project:
    project = make_project(tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "3", "SOURCE": "practice"})
    shutil.copytree(PRACTICE, project.folder / "data" / "practice")
    return project


@pytest.mark.slow
@pytest.mark.parametrize("slug", sorted(BARS))
def test_run_reaches_the_bar_and_its_cv_tells_the_private_score(slug: str, copy: Project) -> None:
    """Without a change but the recipe of the digits, whose reference takes minutes (docs/competitions.md has it)."""
    faster = ("--set", "RECIPE=fast", "--set", "EPOCHS=6") if slug == "digit-recognizer" else ()
    done = copy.kwb("run", "--competition", slug, *faster, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    (record,) = (json.loads(path.read_text()) for path in copy.output.glob("runs/*/record.json"))
    bar, more_is_better = BARS[slug]
    cv, private, public = record["cv"]["score"], record["lb"]["private"], record["lb"]["public"]
    folder = copy.output / "runs" / record["id"]
    for value in (cv, private):
        assert value >= bar if more_is_better else value <= bar
    error = standard_error(slug, folder / "submission.csv")
    assert abs(cv - private) <= 2 * error, f"CV {cv:.5f}, private {private:.5f} (public {public}), error {error:.5f}"
    report = copy.kwb("check", str(folder / "submission.csv"), "--competition", slug)
    assert report.returncode == 0, report.stderr


def standard_error(slug: str, submission: Path) -> float:
    """Of the private score: of a share, or of a root of mean squares by the spread of the squares."""
    with gzip.open(PRACTICE / slug / "solution.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["Usage"] == "Private"]
    with submission.open() as file:
        told: dict[str, Any] = {next(iter(row.values())): list(row.values())[-1] for row in csv.DictReader(file)}
    names = list(rows[0])
    pairs = np.array([(float(row[names[1]]), float(told[row[names[0]]])) for row in rows])
    if slug == "house-prices":
        squares = (np.log1p(pairs[:, 0]) - np.log1p(pairs[:, 1])) ** 2
        return float(squares.std() / np.sqrt(len(squares)) / (2 * np.sqrt(squares.mean())))
    right = (pairs[:, 0] == pairs[:, 1]).mean()
    return float(np.sqrt(right * (1 - right) / len(pairs)))
