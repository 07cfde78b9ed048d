"""`kwb new`: a competition's own notebooks and settings, several of them side by side."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.records import list_runs
from kaggle_workbench.settings import SETTINGS, load_settings
from kaggle_workbench.stages.new import new
from kaggle_workbench.stages.notebooks import notebook_of

from arena_tools import tiny_competition  # isort: skip

CODE = Path(__file__).resolve().parent.parent / "code"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the notebooks as they are committed."""
    made = tmp_path / "project"
    (made / ".project").mkdir(parents=True)
    (made / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    (made / "code").mkdir()
    for path in CODE.glob("*.ipynb"):
        shutil.copy(path, made / "code")
    (made / "variables.env").write_text("COMPETITION=tiny-digits\nSOURCE=practice\nEPOCHS=1\nMINE=1\n")
    for name in list(os.environ):
        if name in SETTINGS or name.startswith("KAGGLE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(made)
    return made


def parameters(path: Path) -> str:
    cells = json.loads(path.read_text())["cells"]
    return "".join(next(cell["source"] for cell in cells if cell["metadata"].get("tags") == ["parameters"]))


def test_it_copies_the_notebooks_as_they_stand_now_without_outputs(root: Path) -> None:
    train = root / "code" / "02-train.ipynb"
    document = json.loads(train.read_text())
    cell = next(cell for cell in document["cells"] if cell["id"] == "learn")
    cell["source"] = ["# mine\n", *cell["source"]]
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["seen"]}]
    cell["execution_count"] = 3
    train.write_text(json.dumps(document))
    before = train.read_bytes()
    made = new("titanic", root=root)
    assert [path.relative_to(root).as_posix() for path in made] == [
        "competitions/titanic/01-data.ipynb",
        "competitions/titanic/02-train.ipynb",
        "competitions/titanic/03-submit.ipynb",
        "competitions/titanic/variables.env",
    ]
    copied = json.loads(made[1].read_text())
    mine = next(cell for cell in copied["cells"] if cell["id"] == "learn")
    assert (mine["source"][0], mine["outputs"], mine["execution_count"]) == ("# mine\n", [], None)
    assert 'COMPETITION = "titanic"  # @param {type:"raw"}' in parameters(made[1])
    assert train.read_bytes() == before
    assert notebook_of("train", "titanic", root=root) == made[1]
    assert notebook_of("train", "tiny-digits", root=root) == train


def test_nothing_is_overwritten_and_a_wrong_slug_is_refused(root: Path) -> None:
    made = new("titanic", root=root)
    made[3].write_text("EPOCHS=7\n")
    with pytest.raises(UsageError, match="is there already") as caught:
        new("titanic", root=root)
    assert caught.value.hint
    assert made[3].read_text() == "EPOCHS=7\n"
    for wrong in ("Titanic", "../titanic", "a b", "", "titanic/"):
        with pytest.raises(UsageError, match="no competition's slug"):
            new(wrong, root=root)
    new("other", root=root, dry_run=True)
    assert not (root / "competitions" / "other").exists()
    (root / "code" / "03-submit.ipynb").write_text("{}")
    with pytest.raises(WorkError, match=r"03-submit\.ipynb is no notebook"):
        new("third", root=root)
    assert not (root / "competitions" / "third").exists(), "all or nothing"


def test_its_settings_stand_between_secrets_and_variables_env(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new("titanic", root=root)
    (root / "competitions" / "titanic" / "variables.env").write_text("EPOCHS=7\nSEED=3\nMINE=2\n")
    plain = load_settings()
    assert (plain.competition, plain.epochs, plain.seed, plain.extra["MINE"]) == ("tiny-digits", 1, 0, "1")
    own = load_settings({"COMPETITION": "titanic"})
    assert (own.epochs, own.seed, own.extra["MINE"]) == (7, 3, "2")
    assert own.origins["EPOCHS"] == "competitions/titanic/variables.env"
    assert load_settings({"COMPETITION": "titanic", "EPOCHS": 9}).epochs == 9
    monkeypatch.setenv("SEED", "5")
    assert load_settings({"COMPETITION": "titanic"}).seed == 5
    monkeypatch.chdir(root / "competitions" / "titanic")
    assert load_settings().competition == "titanic", "the folder one works in"
    (root / "competitions" / "titanic" / "variables.env").write_text("COMPETITION=other\n")
    with pytest.raises(UsageError, match="sets COMPETITION=other"):
        load_settings()
    (root / "competitions" / "titanic" / "variables.env").write_text("KAGGLE_KEY=abc\n")
    with pytest.raises(UsageError, match="a file that git versions"):
        load_settings()


def kwb(root: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kaggle_workbench", *words]
    environment = {**os.environ, "HOME": str(root / "home"), "PYTHONPATH": str(CODE), **env}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=240)


def test_two_competitions_live_side_by_side(root: Path) -> None:
    """Each runs its own notebook; what was edited in one does not touch the other."""
    hosted = root / "data" / "output" / "arena" / "competitions"
    tiny_competition(hosted, "tiny-digits", side=8)
    tiny_competition(hosted, "tiny-table", kind="table", rows=60, test_rows=20)
    done = kwb(root, "new", "tiny-table", "--source", "practice")
    assert (done.returncode, "./kwb run --competition tiny-table" in done.stderr) == (0, True), done.stderr
    path = root / "competitions" / "tiny-table" / "02-train.ipynb"
    document: dict[str, Any] = json.loads(path.read_text())
    cell = next(cell for cell in document["cells"] if cell["id"] == "boost")
    cell["source"] = ["models = []\n", 'print("trees are left out in this one")']
    path.write_text(json.dumps(document))
    for slug in ("tiny-table", "tiny-digits"):
        words = ("run", "train", "--competition", slug)
        tried = kwb(root, *words, "--dry-run")
        where = "competitions/tiny-table" if slug == "tiny-table" else "code"
        assert f"would run {where}/02-train.ipynb" in tried.stderr
        run = kwb(root, *words)
        assert run.returncode == 0, run.stderr
        assert ("trees are left out" in run.stderr) == (slug == "tiny-table")
    records = {record["competition"]: record for record in list_runs(root / "data" / "output")}
    assert records["tiny-table"]["cv"]["rows"] == 60
    assert records["tiny-digits"]["cv"]["rows"] == 20
