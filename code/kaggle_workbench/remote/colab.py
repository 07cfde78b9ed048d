"""`kwb push --to colab`: the same bundle for Colab, run by Google's own command where it is installed, else by hand.

Google's `colab` command (google-colab-cli) rents a machine, runs a notebook on it and gives it back. A machine that is
not given back costs compute units until a day has passed, so it is released whatever happens. Colab's secrets cannot be
read by a notebook that a program runs, so the competition's files are taken along from here.
"""

from __future__ import annotations

import re
import secrets as randomness
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.competition.folders import find_data, visible_files
from kaggle_workbench.errors import MissingError, RefusedError, UsageError, WorkError
from kaggle_workbench.files import human_bytes, make_folder, write_atomic
from kaggle_workbench.remote import bundle
from kaggle_workbench.remote.join import join, verified
from kaggle_workbench.settings import Settings, load_settings, require_root
from kaggle_workbench.stages.notebooks import STAGES, competition_of, notebook_of
from kaggle_workbench.stages.parameters import split

COMMAND = "colab"
# The command takes an unknown name for an A100 without a word.
GPUS = {"cpu": "", "t4": "T4", "l4": "L4", "g4": "G4", "a100": "A100", "h100": "H100"}
# What the driver calls it, where that is another name.
RELEASED = "terminated"
CHIPS = {"G4": "RTX PRO 6000"}
NEW_S, FILE_S, STOP_S = 600.0, 1800.0, 300.0
# Files beyond this are fetched better by a notebook in the browser, with Colab's own secrets.
MOST_UPLOAD = 500_000_000
INPUT, OUTPUT, BACK = "/content/input/competitions", "/content/output", "/content/kwb-back.zip"
UNPACK = """
import pathlib, zipfile
folder = pathlib.Path("{folder}")
folder.mkdir(parents=True, exist_ok=True)
zipfile.ZipFile("/content/kwb-data.zip").extractall(folder)
print("KWB unpacked")
"""
PACK = """
import pathlib, zipfile
root = pathlib.Path("{output}")
with zipfile.ZipFile("{back}", "w", zipfile.ZIP_DEFLATED) as archive:
    for path in [root / "kwb-result.json", *sorted((root / "runs" / "{run}").rglob("*"))]:
        if path.is_file():
            archive.write(path, path.relative_to(root))
print("KWB packed")
"""
UNPACKED, PACKED = "KWB unpacked", "KWB packed"


@dataclass(frozen=True)
class ColabPush:
    """What was made for Colab.

    Attributes:
        run: The run's name.
        notebook: The notebook's file.
        ran: Whether Google's command ran it.
    """

    run: str
    notebook: Path
    ran: bool


def push(
    stage: str = "train",
    *,
    overrides: Mapping[str, Any] | None = None,
    competition: str | None = None,
    machine_name: str = "t4",
    drive: str | None = None,
    hours: float | None = None,
    dry_run: bool = False,
) -> ColabPush:
    """Make a stage's notebook for Colab, and run it there when Google's command is installed.

    Args:
        stage: "train" (or "data", by hand).
        overrides: Settings and the notebook's own parameters, by name.
        competition: Short for overriding COMPETITION.
        machine_name: "cpu", "t4", "l4", "g4", "a100", "h100".
        drive: A folder of Google Drive that serves as STORE; it is mounted there, which asks in the browser.
        hours: How long the training may take; None: Colab's 12 hours.
        dry_run: Check and tell, send nothing.

    Raises:
        UsageError: A wrong stage, setting or machine.
        RefusedError: A secret would leave with it, or the data are too large to be taken along.
        MissingError: The data are not here; or Google's command cannot log in or gets no machine.
        WorkError: The training failed there.
    """
    if machine_name.lower() not in GPUS:
        raise UsageError(
            f"Colab has no machine {machine_name!r}.",
            hint=f"Its machines are: {', '.join(GPUS)}; a name that it does not know would rent an A100.",
        )
    root = require_root()
    given = {**(overrides or {}), **({"COMPETITION": competition} if competition is not None else {})}
    known, own = (
        split([notebook_of(stage, competition_of(given), root=root)], given) if stage in STAGES else (given, {})
    )
    settings = load_settings({**known, "SOURCE": "kaggle"})
    run = settings.run_id or _run_id(settings, stage)
    gpu = GPUS[machine_name.lower()]
    values = {name: value for name, value in known.items() if name not in ("COMPETITION", "SOURCE", "RUN_ID")}
    values |= own | ({} if gpu else {"GPU_COUNT": 0}) | ({"SESSION_HOURS": hours} if hours else {})
    command = shutil.which(COMMAND)
    by_hand = command is None or drive is not None or stage != "train"
    made = bundle.make(
        settings,
        stage,
        parameters=values,
        run_id=run,
        place="colab",
        gpu=bool(gpu),
        chip=CHIPS.get(gpu, gpu),
        # Google's command goes on with the next cell after an error, and ends with 0.
        unattended=not by_hand,
        drive=drive,
    )
    show.note(
        f"Run {run}: {stage} of {settings.competition} on Colab, {gpu or 'CPU'}, {made.size / 1000:.0f} kB, "
        + ("by hand" if by_hand else "by Google's colab command")
    )
    file = settings.output_dir / "colab" / f"{run}-{stage}.ipynb"
    if dry_run:
        show.note("Dry run: nothing was written or sent.")
        return ColabPush(run, file, ran=False)
    make_folder(file.parent)
    write_atomic(file, made.text.encode())
    if by_hand:
        _say_what_to_click(file, gpu, settings)
        return ColabPush(run, file, ran=False)
    _run_there(str(command), file, run, gpu, settings, limit_s=3600 * (hours or 12.0))
    return ColabPush(run, file, ran=True)


def _run_id(settings: Settings, stage: str) -> str:
    from kaggle_workbench.stages.execute import new_run_id

    return new_run_id(settings, [stage], claim=False)


def _say_what_to_click(file: Path, gpu: str, settings: Settings) -> None:
    show.note(
        f"The notebook is {file}\n"
        "  1. Open https://colab.research.google.com, then File, Upload notebook, and choose that file.\n"
        f"  2. Runtime, Change runtime type: {gpu + ' GPU' if gpu else 'CPU'}.\n"
        "  3. The key at the left edge (Secrets): add KAGGLE_API_TOKEN and give this notebook access.\n"
        "  4. Runtime, Run all. The results are in /content/output"
        + (f", and in {settings.store}." if settings.store else ".")
    )


def _run_there(command: str, file: Path, run: str, gpu: str, settings: Settings, *, limit_s: float) -> None:
    data = find_data(settings, "kaggle")
    files = list(visible_files(data))
    size = sum(path.stat().st_size for path in files)
    if size > MOST_UPLOAD:
        raise RefusedError(
            f"The data of {settings.competition} ({human_bytes(size)}) are too large to be taken along.",
            hint=f"Open {file} in Colab yourself: there the notebook fetches them with Colab's secrets.",
        )
    name = f"kwb-{re.sub(r'[^a-z0-9]+', '-', run.lower())[:30]}-{randomness.token_hex(2)}"
    with tempfile.TemporaryDirectory(prefix="kwb-") as work:
        try:
            _call([command, "new", "-s", name, *(["--gpu", gpu] if gpu else [])], NEW_S, "rent a machine")
            packed = Path(work) / "kwb-data.zip"
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for path in files:
                    archive.write(path, path.relative_to(data))
            show.note(f"Sending the data ({human_bytes(packed.stat().st_size)}) ...")
            _call([command, "upload", "-s", name, str(packed), "/content/kwb-data.zip"], FILE_S, "send the data")
            unpack = UNPACK.format(folder=f"{INPUT}/{settings.competition}")
            _call(
                [command, "exec", "-s", name, "--timeout", "600"],
                FILE_S,
                "unpack the data",
                text=unpack,
                expect=UNPACKED,
            )
            show.note(f"Training on Colab (at most {limit_s / 3600:g} h) ...")
            words = [command, "exec", "-s", name, "-f", str(file), "--timeout", str(round(limit_s))]
            failed = _call(words, limit_s + 600, "run the notebook", shown=True, must=False)
            pack = PACK.format(output=OUTPUT, run=run, back=BACK)
            _call(
                [command, "exec", "-s", name, "--timeout", "600"], FILE_S, "pack the results", text=pack, expect=PACKED
            )
            back = Path(work) / "back.zip"
            _call([command, "download", "-s", name, BACK, str(back)], FILE_S, "fetch the results")
            with zipfile.ZipFile(back) as archive:
                archive.extractall(Path(work) / "back")
        finally:
            # Also when renting it seemed to fail: it may have been given all the same.
            _release(command, name)
        result = verified(Path(work) / "back", run, "Colab")
        if result is None:
            raise WorkError(f"The session of run {run} on Colab left no result.", hint=failed or f"See {file}.")
        join(settings, Path(work) / "back", run)
    show.note(f"Run {run} is here: {result['status']}. `./kwb runs show {run}` tells it in full.")
    if result["status"] not in ("done", "paused"):
        raise WorkError(f"The training of run {run} on Colab {result['status']}.", hint=failed or f"See {file}.")


def _release(command: str, name: str) -> None:
    try:
        # For a name that it does not know it says so, and ends with 0 as well.
        _call([command, "stop", "-s", name], STOP_S, "give the machine back", expect=RELEASED)
    except (MissingError, WorkError) as error:
        show.warn(
            f"{error.message} A machine that is still rented costs compute units: look at `{COMMAND} sessions`, and "
            f"give it back with `{COMMAND} stop -s {name}`."
        )


def _call(
    words: list[str],
    limit_s: float,
    what: str,
    *,
    text: str = "",
    shown: bool = False,
    must: bool = True,
    expect: str = "",
) -> str:
    """Run the command; what it said last when it failed and need not succeed."""
    try:
        done = subprocess.run(
            words,
            input=text,
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WorkError(
            f"Google's colab command did not {what} within {limit_s / 60:.0f} min.",
            hint="Look at the session on Colab's page, end it there if it still runs, and try again.",
        ) from error
    if done.returncode == 0 and expect.lower() in (done.stdout or "").lower():
        return ""
    said = show.one_line((done.stdout or "").strip().splitlines()[-1]) if (done.stdout or "").strip() else ""
    if not must:
        return said or "Its last lines stand above."
    raise MissingError(
        f"Google's colab command could not {what}" + (f": {said}" if said else "."),
        hint="`colab sessions` shows whether you are logged in; the account may have no right to that GPU.",
    )
