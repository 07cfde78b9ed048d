"""Bundles: one notebook that needs nothing beside it, takes nothing along that must stay, and runs on Kaggle."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import nbformat
import pytest

from arena_tools import tiny_competition
from kaggle_machines import Machines, why_not
from kaggle_machines.talk import rpc
from kaggle_workbench.competition.ledger import Ledger
from kaggle_workbench.errors import MissingError, RefusedError, UsageError, WorkError
from kaggle_workbench.remote import arrival, bundle, checks, wheels
from kaggle_workbench.remote.bundle import cells, package
from kaggle_workbench.settings import Settings, load_settings
from project_tools import Project, make_project

TOKEN = "KGAT_0123456789abcdef0123456789abcdef"
machines_needed = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = make_project(tmp_path)
    (made.folder / "variables.env").write_text("COMPETITION=tiny-digits\nRECIPE=fast\nEPOCHS=1\nMY_NAME=someone\n")
    (made.folder / "secrets.env").write_text(f"KAGGLE_API_TOKEN={TOKEN}\nMY_OWN_KEY=hunter2-hunter2\n")
    (made.folder / "secrets.env").chmod(0o600)
    monkeypatch.setenv("HOME", made.env["HOME"])
    for name in ("COMPETITION", "SOURCE", "RECIPE", "EPOCHS", "KAGGLE_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def settings(project: Project) -> Settings:
    return load_settings(start=project.folder)


def make(settings: Settings, stage: str = "train", **options: Any) -> bundle.Bundle:
    given: dict[str, Any] = {"parameters": {}, "run_id": "away", "place": "kaggle", **options}
    return bundle.make(settings, stage, **given)


def test_columns_and_the_metric_that_was_heard_travel(settings: Settings) -> None:
    """Without the internet there, nobody could be asked; names of columns arrive as a setting holds them."""
    Ledger(settings, "kaggle").hear("Root Mean Squared Error")
    chosen = {"TARGET": "variables.env", "FOLDS": "variables.env"}
    there = replace(settings, target=("price", "a,b"), folds=3, origins={**settings.origins, **chosen})
    text = "".join("".join(cell["source"]) for cell in make(there).document["cells"])
    assert re.search(r"['\"]METRIC['\"]: ['\"]Root Mean Squared Error", text)
    assert 'price,"a,b"' in text.replace("\\", "")
    assert re.search(r"^FOLDS = 3 ", text, re.M)


def change(project: Project, text: str, *, cell: str = "preprocess") -> None:
    """Put lines above a cell of 02-train."""
    file = project.folder / "code" / "02-train.ipynb"
    document = json.loads(file.read_text())
    found = next(one for one in document["cells"] if one["id"] == cell)
    found["source"] = [text + "\n", *found["source"]]
    found["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["an output"]}]
    file.write_text(json.dumps(document))


# --- What it is ---


def test_a_bundle_is_a_valid_notebook_with_its_parameters_and_no_outputs(project: Project, settings: Settings) -> None:
    change(project, "DEPTH = 3")
    made = make(settings, parameters={"BATCH_SIZE": 32, "PRECISION": "float32"})
    notebook = nbformat.reads(made.text, as_version=4)
    nbformat.validate(notebook)
    assert "an output" not in made.text
    parameters = next(one.source for one in notebook.cells if "parameters" in one.metadata.get("tags", ()))
    for line in (
        'COMPETITION = "tiny-digits"',
        'SOURCE = "kaggle"',
        "EPOCHS = 1",
        "BATCH_SIZE = 32",
        'RUN_ID = "away"',
    ):
        assert f'{line}  # @param {{type:"raw"}}' in parameters
    arrive = next(one.source for one in notebook.cells if "kwb-arrive" in one.metadata.get("tags", ()))
    assert "'PRECISION': 'float32'" in arrive, "a setting without a parameter of its own travels as well"
    assert made.size < bundle.MOST_BYTES / 2
    assert made.unsent == ()
    assert (notebook.metadata.kernelspec.name, made.missing) == ("python3", ())


def test_the_same_commit_gives_the_same_bytes(settings: Settings) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from kaggle_workbench.settings import load_settings; from kaggle_workbench.remote import bundle\n"
        "settings = load_settings(start=Path(sys.argv[1]))\n"
        "print(bundle.make(settings, 'train', parameters={}, run_id='away', place='kaggle').sha256)\n"
    )
    words = [sys.executable, "-c", script, str(settings.root)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == make(settings).sha256


def test_only_what_a_stage_can_reach_is_inside() -> None:
    files = package.packed().files
    held = {name.removeprefix("kaggle_workbench/") for name in files}
    assert {"stages/train.py", "callbacks/checkpointer.py", "kaggle_api/worker.py", "remote/arrival.py"} <= held
    assert not [name for name in held if name.startswith(("arena/", "cli/", "container/", "remote/bundle/"))]
    # Each module inside finds the modules it imports at its top inside, too.
    for name, content in files.items():
        for line in re.findall(r"^from kaggle_workbench\.([\w.]+) import", content.decode(), re.MULTILINE):
            base = line.replace(".", "/")
            assert {f"{base}.py", f"{base}/__init__.py"} & held, (name, line)
    assert checks.missing(content.decode() for content in files.values()) in ([], ["bson"]), "bson comes with pymongo"


def test_a_bundle_too_large_is_refused(project: Project, settings: Settings) -> None:
    change(project, f"DATA = {'x' * 900_000!r}")
    with pytest.raises(RefusedError, match="bytes; Kaggle takes about") as caught:
        make(settings)
    assert caught.value.exit_code == 4


# --- What stays here ---


@pytest.mark.parametrize(
    "line", [f"KEY = '{TOKEN}'", "KEY = 'hunter2-hunter2'", "PATH = '{root}/x'", "PATH = '{home}'"]
)
def test_a_secret_or_a_folder_of_this_machine_is_refused(project: Project, settings: Settings, line: str) -> None:
    text = line.replace("{root}", str(project.folder)).replace("{home}", project.env["HOME"])
    change(project, text)
    with pytest.raises(RefusedError, match=r"02-train\.ipynb, cell \d+ holds (a folder|the value)") as caught:
        make(settings)
    assert caught.value.exit_code == 4
    assert "hunter2" not in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_store_with_a_password_is_refused_and_a_plain_one_travels(project: Project) -> None:
    variables = project.folder / "variables.env"
    for address, fits in [("s3://bucket/runs", True), ("ftp://ann:hunter2hunter2@host/runs", False), ("backup", True)]:
        variables.write_text(f"COMPETITION=tiny-digits\nSTORE={address}\n")
        settings = load_settings(start=project.folder)
        if fits:
            assert (address in make(settings).text) == ("://" in address), address
        else:
            with pytest.raises(RefusedError):
                make(settings)


def test_packages_the_image_lacks_and_variables_that_stay_are_told(project: Project, settings: Settings) -> None:
    change(project, "%matplotlib inline\nimport os, some_rare_package.part\nprint(os.environ['MY_NAME'])")
    made = make(settings)
    assert made.missing == ("some_rare_package",)
    assert made.unsent == ("MY_NAME",)
    assert "someone" not in made.text


def test_names_that_do_not_exist_are_refused(settings: Settings) -> None:
    with pytest.raises(UsageError, match="no stage 'fit'"):
        make(settings, "fit")
    with pytest.raises(UsageError, match="'EPOCH' is no setting"):
        make(settings, parameters={"EPOCH": 3})


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("A = None  # @param", {"A": 3}, "A = 3  # @param"),
        ("A = 'ä'; B = 'ö'  # ü", {"A": "x", "B": 2.5}, 'A = "x"; B = 2.5  # ü'),
        ("A = [\n    1,\n    2,\n]  # more\nB = 1", {"A": [7]}, "A = [7]  # more\nB = 1"),
        ("A = 1\nA = 2", {"A": 5}, "A = 5\nA = 5"),
        ("A: int = 1\nB = True", {"B": False}, "A: int = 1\nB = False"),
    ],
)
def test_values_are_filled_in_and_comments_stay(before: str, values: dict[str, Any], after: str) -> None:
    found, done = cells.filled(before, values)
    assert found == after
    assert done == set(values)


# --- Where it arrives ---


def travelled(folder: Path, *, archive: bool = False) -> dict[str, bytes]:
    files = {"record.json": b'{"id": "away"}', "checkpoints/e1.ckpt": b"\x00" * 999}
    inside = folder / "runs" / "away"
    for name, content in files.items():
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_bytes(content)
    listed = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    (folder / "kwb-travel.json").write_text(json.dumps({"run": "away", "files": listed}))
    if archive:
        shutil.make_archive(str(folder / "runs"), "zip", folder, "runs")
        shutil.rmtree(folder / "runs")
    return files


@pytest.mark.parametrize(("layout", "archive"), [("datasets/ann/run-away", False), ("run-away", True)])
def test_a_run_that_was_sent_is_taken_up_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings, layout: str, archive: bool
) -> None:
    monkeypatch.setattr(arrival, "KAGGLE_INPUT", tmp_path / "input")
    files = travelled(tmp_path / "input" / layout, archive=archive)
    arrival.take_up("ann/run-away", "away", settings)
    folder = settings.output_dir / "runs" / "away"
    assert {name: (folder / name).read_bytes() for name in files} == files


def test_a_damaged_or_missing_run_is_not_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(arrival, "KAGGLE_INPUT", tmp_path / "input")
    folder = tmp_path / "input" / "run-away"
    travelled(folder)
    (folder / "runs" / "away" / "checkpoints" / "e1.ckpt").write_bytes(b"\x00" * 998)
    with pytest.raises(WorkError, match=r"checkpoints/e1\.ckpt of run away is missing or damaged"):
        arrival.take_up("ann/run-away", "away", settings)
    assert not (settings.output_dir / "runs" / "away").exists()
    with pytest.raises(MissingError, match="is not attached"):
        arrival.attached("ann/other", limit_s=0)


def image_distributions() -> set[str]:
    """What this environment has of Kaggle's image, with what that needs."""
    owners = metadata.packages_distributions()
    waiting = [dist for name in checks.image_packages() for dist in owners.get(name, ())]
    found: set[str] = set()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(name)
        waiting += [re.split(r"[ ;<>=!~\[(]", need, maxsplit=1)[0] for need in needs if "extra ==" not in need]
    return found - {"kaggle-workbench"}


def push(machines: Machines, made: bundle.Bundle, slug: str) -> str:
    body = {"text": made.text, "kernelType": "notebook", "language": "python", "enableInternet": False}
    status, answer = rpc(
        machines,
        "SaveKernel",
        slug=f"{machines.user}/{slug}",
        machineShape="None",
        competitionDataSources=["tiny-digits"],
        **body,
    )
    assert (status, json.loads(answer).get("error")) == (200, None), answer
    return f"{machines.user}/{slug}"


@pytest.mark.slow
@machines_needed
@pytest.mark.parametrize("layout", ["new", "old"])
def test_a_bundle_trains_with_the_images_packages_and_no_network(
    tmp_path: Path, settings: Settings, layout: Any
) -> None:
    tiny_competition(tmp_path / "hosted", "tiny-digits", rows=200, test_rows=100, side=8)
    made = make(settings)
    with Machines(
        tmp_path / "kaggle", [tmp_path / "hosted"], layout=layout, packages=image_distributions()
    ) as machines:
        ref = push(machines, made, "away-train")
        assert machines.wait(ref, 240) == "COMPLETE", machines.log(ref)
        working, log = machines.working(ref), machines.log(ref)
    result = json.loads((working / "kwb-result.json").read_text())
    assert (result["run"], result["status"]) == ("away", "done")
    folder = working / "runs" / "away"
    for name, digest in result["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    assert (working / "submission.csv").read_bytes() == (folder / "submission.csv").read_bytes()
    record = json.loads((folder / "record.json").read_text())
    step = record["steps"][-1]
    assert (step["place"], step["status"], record["source"], len(record["history"])) == ("kaggle", "done", "kaggle", 1)
    assert record["uid"] == result["uid"]
    for secret in (TOKEN, "hunter2", str(settings.root)):
        assert secret not in made.text
        assert secret not in log


@pytest.mark.slow
@machines_needed
def test_a_session_that_ends_is_no_failure_and_one_without_a_gpu_stops_at_once(
    tmp_path: Path, settings: Settings
) -> None:
    tiny_competition(tmp_path / "hosted", "tiny-digits", rows=200, test_rows=100, side=8)
    with Machines(tmp_path / "kaggle", [tmp_path / "hosted"]) as machines:
        # A session of a minute, of which a training leaves the last for its uploads.
        short = push(machines, make(settings, parameters={"SESSION_HOURS": "0.012", "EPOCHS": "5000"}), "short-one")
        gpu = push(machines, make(settings, gpu=True), "needs-a-gpu")
        assert machines.wait(gpu, 120) == "ERROR"
        assert "A GPU was asked for, and this session has none" in machines.log(gpu)
        assert "of which" not in machines.log(gpu)
        assert machines.wait(short, 240) == "COMPLETE", machines.log(short)
        working, log = machines.working(short), machines.log(short)
    result = json.loads((working / "kwb-result.json").read_text())
    assert result["status"] == "paused", log
    assert "The cells below are skipped" in log
    assert any(name.startswith("checkpoints/") for name in result["files"])
    assert not (working / "submission.csv").exists()


# --- Packages the image lacks ---


def test_wheels_for_the_image_are_fetched_without_what_it_holds_and_install_offline(tmp_path: Path) -> None:
    """tabulate is not in the list of the image; pandas is, and so is what it needs."""
    made = wheels.build(["tabulate", "pandas-flavor"], tmp_path / "wheels", python="3.12")
    names = {wheel.name.partition("-")[0].lower() for wheel in made}
    assert {"tabulate", "pandas_flavor"} <= names
    assert not {"numpy", "pandas", "xarray"} & names
    with pytest.raises(MissingError, match=r"cannot be made ready for the image's Python 3\.12"):
        wheels.build(["no-such-package-for-sure-4711"], tmp_path / "none", python="3.12")
    with pytest.raises(UsageError, match="No package is named"):
        wheels.build([], tmp_path / "none", python="3.12")
    assert wheels.image_python(None) == wheels.PYTHON
