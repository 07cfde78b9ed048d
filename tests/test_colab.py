"""`kwb push --to colab`: the notebook for a person, and the calls of Google's command.

Google's command needs an account, so one of that name is made here. It keeps what it is called with; it gives back a
run that was trained before, or runs the notebook as Google's does: it goes on after an error, and ends with 0.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

from arena_tools import tiny_competition
from kaggle_workbench.remote.colab import GPUS
from project_tools import Project, make_project

COLAB = """#!{python}
import os, pathlib, shutil, sys, zipfile
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
text = "" if sys.stdin.isatty() else sys.stdin.read()
with (here / "calls.txt").open("a") as log:
    log.write(" ".join(words) + "\\n")
if (here / "fails.txt").exists() and words[0] in (here / "fails.txt").read_text().split():
    print("[colab] Error: no entitlement for this accelerator")
    sys.exit(1)
if words[0] == "exec":
    print("KWB packed" if "KWB packed" in text else "KWB unpacked")
if words[0] == "exec" and "-f" in words and (here / "content").is_dir():
    # Google's goes on after an error, and ends with 0.
    import nbformat
    from nbclient import NotebookClient

    content = here / "content"
    os.environ.update(COLAB_RELEASE_TAG="x", INPUT_DIR=str(content / "input"), OUTPUT_DIR=str(content / "output"))
    os.environ.pop("PYTHONPATH", None)
    (content / "output").mkdir(exist_ok=True)
    os.chdir(content)
    notebook = nbformat.read(words[words.index("-f") + 1], as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True).execute()
    nbformat.write(notebook, here / "executed.ipynb")
    with zipfile.ZipFile(here / "back.zip", "w") as archive:
        for path in (content / "output").rglob("*"):
            archive.write(path, path.relative_to(content / "output"))
if words[0] == "download":
    shutil.copyfile(here / "back.zip", words[-1])
if words[0] == "stop":
    print("Session terminated" if not (here / "unknown.txt").exists() else "Session not found.")
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    bin = tmp_path / "bin"
    bin.mkdir()
    made = make_project(tmp_path, env={"TMPDIR": str(tmp_path)})
    (made.folder / "variables.env").write_text("COMPETITION=tiny-digits\nSOURCE=kaggle\nEPOCHS=2\n")
    tiny = tiny_competition(tmp_path / "hosted", "tiny-digits", rows=200, test_rows=20, side=8)
    data = made.folder / "data" / "input" / "competitions" / "tiny-digits"
    data.mkdir(parents=True)
    with zipfile.ZipFile(tiny.folder / "files.zip") as archive:
        archive.extractall(data)
    return made


def google(project: Project, *fails: str, back: dict[str, Any] | None = None) -> Path:
    """Put a `colab` on the path; its folder."""
    bin = project.folder.parent / "bin"
    (bin / "colab").write_text(COLAB.replace("{python}", sys.executable))
    (bin / "colab").chmod(0o755)
    (bin / "fails.txt").write_text(" ".join(fails))
    project.env["PATH"] = f"{bin}:{project.env['PATH']}"
    record = json.dumps(back or {})
    with zipfile.ZipFile(bin / "back.zip", "w") as archive:
        if back is not None:
            submission = "ImageId,Label\n1,0\n"
            digest = hashlib.sha256(submission.encode()).hexdigest()
            result = {"run": "there", "uid": back["uid"], "status": "done", "files": {"submission.csv": digest}}
            archive.writestr("kwb-result.json", json.dumps(result))
            archive.writestr("runs/there/record.json", record)
            archive.writestr("runs/there/submission.csv", submission)
    return bin


def trained(project: Project) -> dict[str, Any]:
    """A record as a session leaves it."""
    from kaggle_workbench.records import Run

    run = Run.create(
        project.folder.parent / "elsewhere", stage="train", competition="tiny-digits", source="kaggle", run_id="there"
    )
    run.start("train", place="colab", parameters={}, git=None).end()
    return run.read()


def test_without_googles_command_the_notebook_is_written_and_what_to_click_is_told(project: Project) -> None:
    done = project.kwb("push", "train", "--to", "colab", "--drive", "kaggle", "--set", "RUN_ID=there")
    assert done.returncode == 0, done.stderr
    for words in ("Upload notebook", "T4 GPU", "add KAGGLE_API_TOKEN", "Run all"):
        assert words in done.stderr
    notebook = nbformat.read(project.output / "colab" / "there-train.ipynb", as_version=4)
    nbformat.validate(notebook)
    sources = [cell.source for cell in notebook.cells]
    assert any("drive=" in source and "gpu=True" in source for source in sources)
    assert any('EPOCHS = 2  # @param {type:"raw"}' in source for source in sources), "Colab's form stays"


@pytest.mark.parametrize("name", ["t5", "NvidiaTeslaT4", "tpu"])
def test_a_gpu_that_colab_does_not_know_is_refused_before_anything_is_rented(project: Project, name: str) -> None:
    bin = google(project)
    done = project.kwb("push", "train", "--to", "colab", "--machine", name)
    assert (done.returncode, "would rent an A100" in done.stderr) == (2, True), done.stderr
    assert not (bin / "calls.txt").exists()
    assert name not in GPUS


def test_googles_command_trains_there_and_the_machine_is_given_back(project: Project) -> None:
    bin = google(project, back=trained(project))
    done = project.kwb("push", "train", "--to", "colab", "--machine", "l4", "--set", "RUN_ID=there")
    assert done.returncode == 0, done.stderr
    calls = [line.split() for line in (bin / "calls.txt").read_text().splitlines()]
    assert [call[0] for call in calls] == ["new", "upload", "exec", "exec", "exec", "download", "stop"]
    assert calls[0][-2:] == ["--gpu", "L4"]
    assert calls[3][-2:] == ["--timeout", str(12 * 3600)], "its own limit is half a minute"
    assert {call[call.index("-s") + 1] for call in calls} == {calls[0][2]}
    record = json.loads((project.output / "runs" / "there" / "record.json").read_text())
    assert record["steps"][0]["place"] == "colab"


@pytest.mark.parametrize(("fails", "code"), [("new", 3), ("upload", 3), ("download", 3)])
def test_the_machine_is_given_back_whatever_fails(project: Project, fails: str, code: int) -> None:
    bin = google(project, fails, back=trained(project))
    done = project.kwb("push", "train", "--to", "colab", "--set", "RUN_ID=there")
    assert done.returncode == code, done.stderr
    assert "no entitlement for this accelerator" in done.stderr
    assert (bin / "calls.txt").read_text().splitlines()[-1].startswith("stop -s kwb-there")


def test_a_session_without_a_result_is_no_success(project: Project) -> None:
    bin = google(project)
    done = project.kwb("push", "train", "--to", "colab", "--set", "RUN_ID=there")
    assert (done.returncode, "left no result" in done.stderr) == (1, True), done.stderr
    assert (bin / "calls.txt").read_text().splitlines()[-1].startswith("stop")


def test_a_dry_run_rents_and_writes_nothing(project: Project) -> None:
    bin = google(project)
    done = project.kwb("push", "train", "--to", "colab", "--dry-run")
    assert (done.returncode, "nothing was written or sent" in done.stderr) == (0, True), done.stderr
    assert not (bin / "calls.txt").exists()
    assert not (project.output / "colab").exists()


def test_a_machine_that_was_perhaps_not_given_back_is_told(project: Project) -> None:
    bin = google(project, back=trained(project))
    (bin / "unknown.txt").touch()
    done = project.kwb("push", "train", "--to", "colab", "--set", "RUN_ID=there")
    assert (done.returncode, "look at `colab sessions`" in done.stderr) == (0, True), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--machine", "cpu"), 0, "Run there is here: done"),
        (("--machine", "t4"), 1, "left no result"),
        (("--machine", "cpu", "--set", "FAILS=true"), 1, "The training of run there on Colab failed"),
    ],
)
def test_what_runs_there_is_judged_by_the_run_and_nothing_goes_on_after_an_error(
    project: Project, words: tuple[str, ...], code: int, said: str
) -> None:
    bin = google(project)
    shutil.copytree(project.folder / "data" / "input", bin / "content" / "input")
    notebook = project.folder / "code" / "02-train.ipynb"
    document = json.loads(notebook.read_text())
    for cell in document["cells"]:
        if cell["id"] == "parameters":
            cell["source"] = [*cell["source"], "\nFAILS = False"]
        if cell["id"] == "split":
            cell["source"] = ["assert not FAILS\n", *cell["source"]]
    notebook.write_text(json.dumps(document))
    done = project.kwb("push", "train", "--to", "colab", "--set", "RUN_ID=there", "--set", "RECIPE=fast", *words)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    cells = [cell for cell in nbformat.read(bin / "executed.ipynb", as_version=4).cells if cell.cell_type == "code"]
    errors = [cell.id for cell in cells if any(one.output_type == "error" for one in cell.outputs)]
    assert len(errors) == (code != 0), errors
    if errors:
        after = cells[[cell.id for cell in cells].index(errors[0]) + 1 :]
        assert not any(cell.outputs for cell in after), "what comes after an error is skipped"
