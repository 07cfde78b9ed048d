"""`write_report`: from a run's folder to its page."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from kaggle_workbench import records
from kaggle_workbench.errors import MissingError, WorkbenchError
from kaggle_workbench.files import write_atomic
from kaggle_workbench.masking import hidden, plain
from kaggle_workbench.settings import SECRET_NAMES, find_root, load_settings
from kaggle_workbench.stages.report import facts
from kaggle_workbench.stages.report.curves import curves
from kaggle_workbench.stages.report.notebooks import MOST_PICTURE_BYTES, Notebook, read_notebooks

REPORT_FILE = "report.html"
_PNG = b"\x89PNG\r\n\x1a\n"
_NOTEBOOKS = {"data": "01-data", "train": "02-train", "submit": "03-submit"}

T = TypeVar("T")


def write_report(folder: Path) -> Path:
    """Write a run's `report.html` from its record and its executed notebooks, whichever of them there are.

    Args:
        folder: The run's folder.

    Returns:
        The page.

    Raises:
        MissingError: No such folder, nbconvert is not installed, or the disk is full.
    """
    if not folder.is_dir():
        raise MissingError(f"There is no run in {folder}.", hint="`./kwb runs` lists the runs.")
    hide = _hide(folder)
    notes: list[str] = []
    record = _record(folder, hide, notes)
    try:
        from kaggle_workbench.stages.report.page import page

        notebooks = read_notebooks(folder, hide)
    except ImportError as error:
        raise MissingError(
            f"The report needs nbconvert, which is not installed here ({error.name or error}).",
            hint="./kwb demo and ./kwb run install it; with pip: pip install nbconvert",
        ) from error
    rows: list[facts.Row] = _part(lambda: facts.rows(record), [], "the stages", notes)
    content = page(
        run=folder.name,
        status=str(record.get("status") or "no record"),
        about=_part(lambda: facts.facts(record), {}, "the facts", notes),
        scores=_part(lambda: facts.scores(record), [], "the scores", notes),
        rows=rows,
        changed=_part(lambda: facts.changed(record), [], "the parameters", notes),
        curves=_part(lambda: curves(record.get("history")), [], "the curves", notes),
        pictures=_part(lambda: _pictures(folder, record, notebooks), [], "the pictures", notes),
        notebooks=notebooks,
        without=[row.stage for row in rows if _has_no_copy(row.stage, notebooks)],
        notes=notes,
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    path = folder / REPORT_FILE
    # Half a pair of surrogates, as an output may hold, is no text that can be written.
    write_atomic(path, content.encode("utf-8", "replace"))
    return path


def _hide(folder: Path) -> dict[str, str]:
    """What must not be shown: secrets' values and this machine's folders."""
    hide = {str(folder.parent.parent): "OUTPUT_DIR", str(Path.home()): "~"}
    try:
        hide |= hidden(load_settings(start=folder if find_root(folder) else None))
    except WorkbenchError:
        # A setting that is wrong by now does not make the run's report impossible.
        hide |= {value: "***" for name in SECRET_NAMES if len(value := os.environ.get(name, "")) > 7}
    return {text: instead for text, instead in hide.items() if text not in ("", "/", ".")}


def _record(folder: Path, hide: Mapping[str, str], notes: list[str]) -> dict[str, Any]:
    file = folder / records.RECORD_FILE
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{records.RECORD_FILE} cannot be read, so this page tells only what else is here ({error}).")
        notes[:] = plain(notes, hide)
        return {}
    if not isinstance(document, dict):
        notes.append(f"{records.RECORD_FILE} is not a run's record, so this page tells only what else is here.")
        return {}
    record: dict[str, Any] = plain(document, hide)
    try:
        record["status"] = records.true_status(document, folder)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError):
        notes.append(f"{records.RECORD_FILE} is damaged; what can be read of it is told here.")
    return record


def _part(work: Callable[[], T], instead: T, what: str, notes: list[str]) -> T:
    try:
        return work()
    # The record is a file that anything may have happened to; one bad value must not cost the page.
    except Exception as error:
        notes.append(f"{what[0].upper()}{what[1:]} cannot be read from {records.RECORD_FILE} ({type(error).__name__}).")
        return instead


def _has_no_copy(stage: str, notebooks: list[Notebook]) -> bool:
    return _NOTEBOOKS.get(stage) not in {notebook.name for notebook in notebooks}


def _pictures(folder: Path, record: Mapping[str, Any], notebooks: list[Notebook]) -> list[tuple[str, str, str]]:
    """The run's pictures that stand in none of the notebooks here: name, description, content in base64."""
    shown = {digest for notebook in notebooks for digest in notebook.pictures}
    found = []
    for picture in record.get("pictures") or ():
        file = (folder / str(picture["file"])).resolve()
        if not file.is_relative_to(folder.resolve()) or not file.is_file():
            continue
        if file.stat().st_size > MOST_PICTURE_BYTES:
            continue
        content = file.read_bytes()
        if content.startswith(_PNG) and sha256(content).hexdigest() not in shown:
            found.append((str(picture["name"]), str(picture.get("text") or ""), base64.b64encode(content).decode()))
    return found
