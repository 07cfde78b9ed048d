"""What a bundle does where it arrives: packages, device, the run so far; and the results laid out at the end.

`lay_out` also runs after each cell, so that a cell that fails leaves what there is. A training that pauses itself
before the session ends is no fault there: what comes after it is skipped, and the notebook ends well.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kaggle_workbench.competition.folders import KAGGLE_INPUT
from kaggle_workbench.errors import MissingError, PausedError, WorkError
from kaggle_workbench.files import sha256, write_json
from kaggle_workbench.provenance import ORIGIN
from kaggle_workbench.records import RECORD_FILE, Run
from kaggle_workbench.settings import Settings, load_settings

RESULT_FILE = "kwb-result.json"
# Names the result's file where several runs share a session.
OWN_RESULT = "KWB_RESULT"
DRIVE = Path("/content/drive")
LOG_CHARS = 20_000
TRAVEL_FILE = "kwb-travel.json"
SUBMISSION_FILE = "submission.csv"
# Attached files have been seen to appear only some time after a session has begun.
MOUNT_S = 180.0
INSTALL_S = 900.0
_TICK_S = 1.0
_run = ""
_watched = False


def prepare(
    *,
    run: str,
    settings: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
    travel: str | None = None,
    wheels: Sequence[str] | None = None,
    gpu: bool = False,
    chip: str = "",
    unattended: bool = False,
    drive: str | None = None,
    origin: Mapping[str, Any] | None = None,
) -> None:
    """Make this session ready for the stage's cells; called by the bundle.

    Args:
        run: The run's name.
        settings: Settings by name for which the notebook has no parameter.
        own: The notebook's own parameters, for the record.
        travel: "owner/slug" of the dataset that holds the run so far.
        wheels: "owner/slug" of a dataset of packages, and their names, to be installed from it.
        gpu: A GPU was asked for.
        chip: Part of that GPU's name.
        unattended: Nobody looks on, and what runs the cells goes on after an error: skip what comes after one.
        drive: A folder of Google Drive that is mounted and serves as STORE.
        origin: Commit and version the bundle was made from.

    Raises:
        MissingError: No GPU, though one was asked for; or an attached dataset that is not there.
        WorkError: The run that was sent is damaged, or a package cannot be installed.
    """
    global _run
    _run = run
    for name, value in (settings or {}).items():
        os.environ[name] = str(value)
    os.environ["RUN_ID"] = run
    if own:
        from kaggle_workbench.stages.parameters import to_environment

        os.environ.update(to_environment(own))
    if origin:
        os.environ[ORIGIN] = json.dumps(dict(origin))
    _watch(unattended=unattended)
    if drive:
        os.environ["STORE"] = str(mount_drive(drive))
    if wheels:
        install(wheels[0], wheels[1:])
    if gpu:
        prove_gpu(chip)
    if travel:
        take_up(travel, run, load_settings())


def mount_drive(folder: str) -> Path:
    """Mount Google Drive, which asks in the browser, and make a folder in it.

    Raises:
        MissingError: This is not Colab.
    """
    try:
        drive = importlib.import_module("google.colab.drive")
    except ImportError as error:
        raise MissingError("Google Drive can be mounted in Colab only.", hint="Leave --drive out.") from error
    drive.mount(str(DRIVE))
    path = DRIVE / "MyDrive" / folder
    path.mkdir(parents=True, exist_ok=True)
    print(f"Checkpoints and results also go to {folder} in Google Drive.")
    return path


def prove_gpu(chip: str = "") -> None:
    """Stop at once when this session has no such GPU; `open_stage` proves later that it computes.

    Args:
        chip: Part of its name; any will do without.

    Raises:
        MissingError: The driver counts none, or another one.
    """
    from kaggle_workbench.devices import driver_gpus

    found = driver_gpus()
    if not found:
        raise MissingError(
            "A GPU was asked for, and this session has none. Nothing was trained.",
            hint="Look at the accelerator in the session's settings and at your quota, then push again.",
        )
    names = ", ".join(gpu.name for gpu in found)
    if chip and not any(chip.lower() in gpu.name.lower() for gpu in found):
        raise MissingError(
            f"A GPU {chip} was asked for, and this session has {names}. Nothing was trained.",
            hint="Look at the accelerator in the session's settings, then push again.",
        )
    print(f"This session has {len(found)} GPU{'s' if len(found) > 1 else ''}: {names}.")


def install(dataset: str, packages: Sequence[str]) -> None:
    """Install packages from an attached dataset of wheels; nothing is fetched.

    Raises:
        MissingError: The dataset is not attached.
        WorkError: pip refused; its last words.
    """
    folder = attached(dataset)
    links = sorted({str(wheel.parent) for wheel in folder.rglob("*.whl")})
    words = [sys.executable, "-m", "pip", "install", "--no-index", "--quiet", "--disable-pip-version-check"]
    for link in links:
        words += ["--find-links", link]
    done = subprocess.run([*words, *packages], capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        raise WorkError(
            f"{', '.join(packages)} could not be installed from {dataset}: {done.stderr.strip()[-300:]}",
            hint="Push again with --wheels: the set is then built for the image's Python and tried before it is sent.",
        )
    print(f"Installed from {dataset}: {', '.join(packages)}.")


def take_up(dataset: str, run: str, settings: Settings) -> None:
    """Bring the run so far from an attached dataset into OUTPUT_DIR, checked file by file.

    Raises:
        MissingError: The dataset is not attached.
        WorkError: A file is missing or damaged.
    """
    folder = attached(dataset, holds=TRAVEL_FILE)
    listed = json.loads(next(folder.rglob(TRAVEL_FILE)).read_bytes())["files"]
    target = settings.output_dir / "runs" / run
    if (target / RECORD_FILE).is_file():
        # Run once more in an open session: what is here goes on from what was sent.
        print(f"Run {run} is here already.")
        return
    with tempfile.TemporaryDirectory(prefix="kwb-") as work:
        found = {sha256(file): file for file in _files(folder, Path(work))}
        fresh = Path(work) / "fresh"
        for name, told in listed.items():
            wanted = told["sha256"] if isinstance(told, Mapping) else told
            if wanted not in found:
                raise WorkError(f"{name} of run {run} is missing or damaged in {dataset}.", hint="Push it again.")
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found[wanted], fresh / name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(fresh, target, dirs_exist_ok=True)
    print(f"Run {run} goes on: {len(listed)} files taken up.")


def attached(dataset: str, *, holds: str = "", limit_s: float = MOUNT_S) -> Path:
    """The folder of an attached dataset, in Kaggle's new layout or its old one.

    Args:
        dataset: "owner/slug".
        holds: A file that must be in it.
        limit_s: How long to wait for it.

    Raises:
        MissingError: It does not appear.
    """
    slug = dataset.rpartition("/")[2]
    places = [KAGGLE_INPUT / "datasets" / dataset, KAGGLE_INPUT / slug]
    ends = time.monotonic() + limit_s
    said = False
    while True:
        for folder in places:
            if folder.is_dir() and any(folder.rglob(holds or "*")):
                return folder
        if time.monotonic() > ends:
            raise MissingError(
                f"The dataset {dataset} is not attached: for {limit_s:.0f} s, neither {places[0]} nor {places[1]} "
                "was there.",
                hint="Attach it as input of this notebook, or push again.",
            )
        if not said:
            print(f"Waiting for the dataset {dataset} (at most {limit_s:.0f} s) ...", flush=True)
            said = True
        time.sleep(_TICK_S)


def run_together(notebooks: Mapping[str, str]) -> None:
    """Run the notebooks of several runs side by side, each in a process of its own with a GPU of its own.

    Args:
        notebooks: JSON of each, by its run's name.
    """
    output = load_settings().output_dir
    with tempfile.TemporaryDirectory(prefix="kwb-") as work:
        running = []
        for number, (run, text) in enumerate(notebooks.items()):
            source, executed = Path(work) / f"{number}.ipynb", Path(work) / f"{number}-executed.ipynb"
            source.write_text(text, encoding="utf-8")
            env = {**os.environ, "CUDA_VISIBLE_DEVICES": str(number), OWN_RESULT: f"kwb-result-{run}.json"}
            words = [sys.executable, "-m", "papermill", str(source), str(executed), "--cwd", str(output)]
            log = (Path(work) / f"{number}.log").open("w+", encoding="utf-8")
            quiet = ["--log-output", "--no-progress-bar", "--kernel", "python3"]
            process = subprocess.Popen([*words, *quiet], env=env, stdout=log, stderr=subprocess.STDOUT)
            running.append((run, process, executed, log))
            print(f"{run} runs on GPU {number}", flush=True)
        for run, process, executed, log in running:
            code = process.wait()
            folder = output / "runs" / run
            if executed.is_file() and folder.is_dir():
                shutil.copyfile(executed, folder / "02-train.ipynb")
            lay_out(run, f"kwb-result-{run}.json")
            log.seek(0)
            print(f"== {run} {'has ended' if code == 0 else 'FAILED'}\n{log.read()[-LOG_CHARS:]}", flush=True)
            log.close()


def lay_out(run: str = "", name: str = "") -> None:
    """Lay out the results: the submission where Kaggle looks for it, and what the run is, with every file's hash.

    Args:
        run: The run; by default the one that was prepared.
        name: Name of the result's file; by default the usual one.
    """
    run, name = run or _run, name or os.environ.get(OWN_RESULT) or RESULT_FILE
    settings = load_settings()
    folder = settings.output_dir / "runs" / run
    if not (folder / RECORD_FILE).is_file():
        write_json(settings.output_dir / name, {"run": run, "uid": None, "status": "nothing", "files": {}})
        return
    record = Run(folder).read()
    submission = folder / SUBMISSION_FILE
    if submission.is_file() and submission.parent != settings.output_dir:
        shutil.copyfile(submission, settings.output_dir / SUBMISSION_FILE)
    names = sorted(path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path.relative_to(folder)))
    # The record is written once more after this, with its heartbeat and its last word: it is known by its uid.
    files = {path.relative_to(folder).as_posix(): sha256(path) for path in names if path.name != RECORD_FILE}
    status = (record["steps"] or [{"status": "nothing"}])[-1]["status"]
    document = {"run": run, "uid": record["uid"], "status": status, "files": files}
    write_json(settings.output_dir / name, document)


# --- Inside ---


def _watch(*, unattended: bool) -> None:
    global _watched
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or _watched:
        return
    _watched = True
    shell.events.register("post_run_cell", _after_any_cell if unattended else _after_cell)
    if unattended or os.environ.get("KAGGLE_KERNEL_RUN_TYPE") == "Batch":
        # A person would find all cells dead afterwards; there, a pause stops "Run all" as any error does.
        shell.ast_transformers.append(_Pausing())
        shell.user_ns["_kwb_paused"] = _paused


def _after_cell(_: Any) -> None:
    lay_out()


def _after_any_cell(result: Any) -> None:
    if (result.error_before_exec or result.error_in_exec) is not None:
        print("The cells below are skipped.", flush=True)
        _skip_the_rest()
    lay_out()


def _skip_the_rest() -> None:
    sys.modules["IPython"].get_ipython().input_transformers_cleanup.append(lambda lines: [])


class _Pausing(ast.NodeTransformer):
    """Puts a cell that fits a model into a `try`, so that a pause ends the notebook well."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        fits = (
            isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "fit"
            for one in ast.walk(node)
        )
        if not any(fits):
            return node
        frame = ast.parse("try:\n    pass\nexcept Exception as _kwb_error:\n    _kwb_paused(_kwb_error)")
        attempt = frame.body[0]
        if isinstance(attempt, ast.Try):
            attempt.body = node.body
        return ast.fix_missing_locations(ast.Module(body=[attempt], type_ignores=[]))


def _paused(error: Exception) -> None:
    if not isinstance(error, PausedError):
        raise error
    from kaggle_workbench.stages.watch import paused

    print(f"{error}\nThe cells below are skipped: the run goes on elsewhere from here.", flush=True)
    paused(error)
    lay_out()
    _skip_the_rest()


def _files(folder: Path, work: Path) -> Iterator[Path]:
    """The files of a dataset; archives that the service has left packed are opened."""
    for number, path in enumerate(sorted(folder.rglob("*"))):
        if not path.is_file():
            continue
        yield path
        unpacked = work / f"unpacked-{number}"
        if zipfile.is_zipfile(path):
            zipfile.ZipFile(path).extractall(unpacked)  # noqa: S202  (our own dataset; zipfile keeps inside the folder)
        elif path.suffix in (".tar", ".tgz") and tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                archive.extractall(unpacked, filter="data")
        yield from (one for one in unpacked.rglob("*") if one.is_file())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
