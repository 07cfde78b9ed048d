"""The whole repository in its container: build files, frameworks, and 01-data run by a person's browser."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import engine_tools as tools
from browser_tools import chromium
from kaggle_workbench.callbacks import eventfiles

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.xdist_group("docker")]

USER = 1234
CELLS_SECONDS = 120


@pytest.fixture(scope="module")
def project() -> Iterator[Path]:
    """A copy of this repository on the stand-in base; it belongs to a user who is not root."""
    tools.require_engine()
    base = tools.base_image()
    folder = Path(tempfile.mkdtemp(prefix="kwb-lab-")).resolve()
    folder.chmod(0o755)
    project = tools.copy_repository(folder / "real", "real", base, owner=USER)
    yield project
    kwb(project, "down")
    client = tools.api()
    for image in client.images(name="project-real"):
        client.remove_image(image["Id"], force=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def url(project: Path) -> str:
    answer = kwb(project, "up", "--gpus", "0")
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def kwb(project: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    state = project.parent / "state"
    state.mkdir(exist_ok=True)
    return tools.kwb(project, *words, state=state, **more)


def test_another_tensorflow_fails_the_build_with_both_named(project: Path) -> None:
    requirements = project / "requirements.txt"
    good = requirements.read_text()
    requirements.write_text(good + "tensorflow==2.16.1\n")
    try:
        answer = kwb(project, "up", "--gpus", "0")
    finally:
        requirements.write_text(good)
    assert answer.returncode == 1
    sentence = next(line for line in answer.stderr.splitlines() if line.startswith("kwb:"))
    assert "tensorflow==2.16.1" in sentence
    assert tools.STAND_IN_TENSORFLOW in sentence
    assert tools.api().containers(all=True, filters={"label": [f"kwb.root={project}"]}) == []


def test_the_build_files_leave_the_frameworks_and_kwb_runs_inside(project: Path, url: str) -> None:
    def inside(command: str) -> str:
        answer = kwb(project, "shell", "--", "bash", "-c", command)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    found = inside("python3 -c 'import importlib.metadata as m; print(m.version(\"tensorflow\"))'")
    assert found.strip() == tools.STAND_IN_TENSORFLOW
    assert inside("kwb --version").startswith("kwb ")
    assert kwb(project, "shell", "--", "kwb", "up").returncode == 2
    place = inside("python3 -c 'from kaggle_workbench.places import current_place as p; print(p().name)'")
    assert place.strip() == "container"
    assert kwb(project, "spec", "check").returncode == 0
    lock = json.loads((project / ".project/image.lock").read_text())
    assert lock["packages"]["tensorflow"] == tools.STAND_IN_TENSORFLOW


def test_a_training_stopped_here_goes_on_in_the_container(project: Path, url: str) -> None:
    """Another path, another user, another system; the stand-in base has no TensorFlow, so JAX trains on both sides."""
    env = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "SOURCE": "practice", "RECIPE": "fast", "EPOCHS": "2"}
    unbroken = kwb(project, "run", "train", "--set", "RUN_ID=unbroken", env=env)
    assert unbroken.returncode == 0, unbroken.stderr
    words = [sys.executable, "-m", "kaggle_workbench", "run", "train", "--set", "RUN_ID=stopped"]
    whole = {**tools.environment(project.parent / "state"), **env}
    with subprocess.Popen(words, cwd=project, env=whole, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        assert any("1/2" in line for line in child.stderr)
        child.send_signal(signal.SIGINT)
        said = child.stderr.read()
    assert child.returncode == 1, said
    runs = project / "data/output/runs"
    assert json.loads((runs / "stopped/record.json").read_text())["status"] == "paused", said
    tools.give(project / "data", USER)
    jax = f"pip install -q --user --break-system-packages jax=={version('jax')} keras=={version('keras')}"
    command = f"python3 -m {jax} numpy=={version('numpy')} && kwb run train --resume stopped"
    inside = kwb(project, "shell", "--", "bash", "-c", command)
    assert inside.returncode == 0, inside.stdout + inside.stderr
    records = [json.loads((runs / name / "record.json").read_text()) for name in ("unbroken", "stopped")]
    assert [step["place"] for step in records[1]["steps"]] == ["local", "container"]
    histories = [[{**entry, "seconds": None} for entry in record["history"]] for record in records]
    assert histories[0] == histories[1]
    submissions = [(runs / name / "submission.csv").read_bytes() for name in ("unbroken", "stopped")]
    assert submissions[0] == submissions[1]


@pytest.mark.browser
def test_a_browser_runs_all_cells_of_01_data(project: Path, url: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    notebook = project / "code/01-data.ipynb"
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(url)
        expect(page.locator("#jp-main-dock-panel")).to_be_visible(timeout=60_000)
        page.goto(url.replace("/?token", "/lab/tree/code/01-data.ipynb?token"))
        expect(page.locator(".jp-Notebook .jp-CodeCell").first).to_be_visible(timeout=60_000)
        # The status bar: the notebook's own indicator says "idle" before there is a kernel.
        expect(page.get_by_text("| Idle")).to_be_visible(timeout=60_000)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        saved = _wait_until_run(page, notebook, len(cells))
        page.screenshot(path=str(tmp_path / "01-data.png"))
        widths = page.locator(".jp-OutputArea img").evaluate_all("images => images.map(image => image.naturalWidth)")
    outputs = [output for cell in saved for output in cell["outputs"]]
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert any(width > 100 for width in widths)
    # What the browser saved and what the notebook fetched belongs to the user, on this machine.
    owners = {path: path.lstat().st_uid for path in (project, *project.rglob("*"))}
    assert {path for path, owner in owners.items() if owner != USER} == set()
    assert list((project / "data/input").rglob("train.csv"))


@pytest.mark.browser
def test_a_browser_shows_the_runs_in_tensorboard(project: Path, url: str, tmp_path: Path) -> None:
    folder = project / "data/output/runs/mine/tensorboard/train"
    folder.mkdir(parents=True)
    events = [eventfiles.Event(epoch, float(epoch), {"epoch/loss": 1 / epoch}) for epoch in range(1, 6)]
    content = b"".join(map(eventfiles.written, events))
    (folder / eventfiles.new_name([], 1.0)).write_bytes(eventfiles.head(1.0) + content)
    tools.give(project / "data/output/runs", USER)
    address = kwb(project, "url", "tensorboard").stdout.strip()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        # The page itself looks only when it is loaded; the server needs seconds to find a new run.
        for _ in range(20):
            page.goto("about:blank")
            page.goto(f"{address}#timeseries")
            page.wait_for_timeout(3000)
            if page.get_by_text("mine/tensorboard/train").count():
                break
        page.locator("line-chart").first.wait_for(timeout=60_000)
        page.wait_for_timeout(1500)
        page.screenshot(path=str(tmp_path / "tensorboard.png"))
        assert page.get_by_text("epoch/loss").first.is_visible()
        # TensorBoard asks for its fonts outside its path and does without them; nothing is asked of another server.
        here = address.partition("/projects/")[0]
        others = {one for one in asked if not one.startswith((address, f"{here}/font-roboto/", "data:", "blob:"))}
        assert others <= {"about:blank"}


def _wait_until_run(page: Any, notebook: Path, count: int) -> list[dict[str, Any]]:
    """Save until the file holds all cells as run; return its code cells."""
    for _ in range(CELLS_SECONDS // 3):
        page.wait_for_timeout(3000)
        if page.locator(".jp-Notebook-ExecutionIndicator").get_attribute("data-status") != "idle":
            continue
        page.locator('.jp-NotebookPanel-toolbar [data-command="docmanager:save"]').click()
        page.wait_for_timeout(1000)
        cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
        failed = any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
        if failed or sum(cell["execution_count"] is not None for cell in cells) == count:
            return cells
    pytest.fail(f"the cells did not finish within {CELLS_SECONDS} s")
