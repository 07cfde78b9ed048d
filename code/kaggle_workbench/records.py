"""Run records: one folder and one JSON document per run, complete without any database.

`OUTPUT_DIR/runs/<id>/record.json`, schema 1:

    schema       1
    id           the run's name: its start (UTC) and first stage, or RUN_ID
    revision     grows by one with each write; of two copies the higher one is the newer
    status       that of the last step: running, done or failed. A reader adds "died": it says
                 running, but its process is gone
    competition  slug                       source    practice or kaggle
    created, updated                        times in UTC, ISO 8601
    parent       the run it was started by (a search, a resume); else null
    metric       what is scored, such as "accuracy"
    cv           {metric, score, method, rows} from data held back, else null
    lb           {public, private, rank, entries} as the server scored it, else null
    submission   {ref, file, sha256, message, sent}, else null
    history      one entry per epoch: {epoch, seconds, loss, accuracy, val_loss, ...}
    data         per file of the competition: {size, sha256}
    pictures     [{name, file, text}], files relative to the run's folder
    steps        one entry per execution of a stage:
                 stage, status, place, started, ended, wall_s, cpu_s, peak_memory_bytes,
                 parameters, device, versions, git {commit, dirty}, image, process, error
                 {kind, message, hint, exit_code}

Numbers that are not finite are null. No absolute path and no secret's value is ever written:
what `hide` holds is replaced in every text.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench import provenance
from kaggle_workbench.errors import UsageError, WorkbenchError, WorkError
from kaggle_workbench.files import disk_errors, locked, make_folder, write_json
from kaggle_workbench.masking import plain
from kaggle_workbench.settings import SECRET_NAMES, SETTINGS, Settings

SCHEMA = 1
RECORD_FILE = "record.json"
# What readers rely on; a document without it is "damaged", so that it cannot bring down a listing.
SHAPE = {"schema": int, "id": str, "status": str, "created": str, "steps": list}
STEP_SHAPE = {"stage": str, "status": str, "process": dict, "parameters": dict, "versions": dict}
HEARTBEAT_FILE = ".heartbeat"
HEARTBEAT_S = 30
SILENT_S = 300
# Machines' folders are not what decides a result, and would be absolute paths.
NOT_RECORDED = (*SECRET_NAMES, "INPUT_DIR", "OUTPUT_DIR", "STORE")
_LOCK_TIMEOUT_S = 60


class Run:
    """One run: its folder, its record, and the ways to change it.

    Args:
        folder: The run's folder, which holds a record.
        hide: Texts that must not stand in a record, with what stands instead (see `masking.hidden`).
    """

    def __init__(self, folder: Path, *, hide: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.id = folder.name
        self._hide = dict(hide or {})
        self._thread_lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Run({self.id})"

    @classmethod
    def create(
        cls,
        output_dir: Path,
        *,
        stage: str,
        competition: str,
        source: str,
        run_id: str | None = None,
        parent: str | None = None,
        hide: Mapping[str, str] | None = None,
    ) -> Run:
        """Make a new run with an empty record.

        Args:
            output_dir: Folder that holds `runs/`.
            stage: First stage; part of the name when none is given.
            competition: Slug.
            source: "practice" or "kaggle".
            run_id: Name of the run; by default made from time and stage.
            parent: Run that asked for this one.
            hide: See `Run`.

        Raises:
            UsageError: A run of that name exists.
        """
        folder = _new_folder(output_dir / "runs", run_id, stage)
        now = _now()
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "id": folder.name,
            "revision": 0,
            "status": "running",
            "competition": competition,
            "source": source,
            "created": now,
            "updated": now,
            "parent": parent,
            **dict.fromkeys(("metric", "cv", "lb", "submission")),
            "history": [],
            "data": {},
            "pictures": [],
            "steps": [],
        }
        write_json(folder / RECORD_FILE, document)
        return cls(folder, hide=hide)

    @classmethod
    def open(cls, output_dir: Path, run_id: str, *, hide: Mapping[str, str] | None = None) -> Run:
        """Open a run by its name or an unambiguous beginning of it.

        Raises:
            UsageError: No such run, or several.
        """
        runs = output_dir / "runs"
        if (runs / run_id / RECORD_FILE).is_file():
            return cls(runs / run_id, hide=hide)
        matches = sorted(file.parent.name for file in runs.glob(f"{_literal(run_id)}*/{RECORD_FILE}"))
        if len(matches) == 1:
            return cls(runs / matches[0], hide=hide)
        if matches:
            raise UsageError(
                f"{run_id!r} could be {len(matches)} runs: {', '.join(matches[-5:])}.", hint="Write more of the name."
            )
        raise UsageError(f"There is no run {run_id!r} in {runs}.", hint="`kwb runs` lists the runs.")

    @classmethod
    def newest(
        cls,
        output_dir: Path,
        *,
        competition: str | None = None,
        source: str | None = None,
        trained: bool = False,
        hide: Mapping[str, str] | None = None,
    ) -> Run | None:
        """The newest run, by its last training when `trained`, else by its start; None when there is none."""
        found = [
            run
            for run in list_runs(output_dir, competition=competition, source=source)
            if not trained or trained_at(run)
        ]
        best = max(found, key=lambda run: trained_at(run) if trained else run["created"], default=None)
        return cls(output_dir / "runs" / best["id"], hide=hide) if best else None

    def read(self) -> dict[str, Any]:
        """The record as it stands on disk.

        Raises:
            WorkError: The file is not a record.
        """
        try:
            return _parse((self.folder / RECORD_FILE).read_bytes())
        except (OSError, ValueError) as error:
            raise WorkError(
                f"The record of run {self.id} cannot be read ({error}).",
                hint=f"Look at {self.folder / RECORD_FILE}; delete the run's folder if it is of no use any more.",
            ) from error

    def update(self, **fields: Any) -> None:
        """Set fields of the run, such as `cv`, `lb` or `history`, and write the record."""
        self.change(lambda document: document.update(fields))

    def change(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Read the record, let `edit` change it, write it: whole, and safe against other writers."""
        with (
            self._thread_lock,
            locked(self.folder / ".lock", what=f"the record of {self.id}", timeout_s=_LOCK_TIMEOUT_S),
        ):
            document = self.read()
            edit(document)
            document["revision"] += 1
            document["updated"] = _now()
            write_json(self.folder / RECORD_FILE, plain(document, self._hide))

    def start(self, stage: str, **facts: Any) -> Step:
        """Begin a step; whoever begins it ends it with `Step.end`.

        Args:
            stage: "data", "train" or "submit".
            facts: What is known at the start: place, parameters, device, git, image.
        """
        return Step(self, stage, facts)

    @contextmanager
    def step(self, stage: str, **facts: Any) -> Iterator[Step]:
        """A step as a block: done when it ends, failed with the error when it raises."""
        step = self.start(stage, **facts)
        try:
            yield step
        except BaseException as error:
            step.end(error)
            raise
        step.end()

    def settle(self, error: BaseException) -> None:
        """Mark steps that still say "running" as failed; for a launcher whose process has died."""

        def edit(document: dict[str, Any]) -> None:
            for step in document["steps"]:
                if step["status"] == "running":
                    step.update(status="failed", ended=_now(), error=_error(error))
                    document["status"] = "failed"

        self.change(edit)
        (self.folder / HEARTBEAT_FILE).unlink(missing_ok=True)


class Step:
    """One execution of a stage within a run, with a heartbeat until it ends."""

    def __init__(self, run: Run, stage: str, facts: Mapping[str, Any]) -> None:
        self.run = run
        self.stage = stage
        self.ended = False
        self._wall, self._cpu = time.monotonic(), time.process_time()
        entry = {
            "stage": stage,
            "status": "running",
            "place": None,
            "started": _now(),
            **dict.fromkeys(("ended", "wall_s", "cpu_s", "peak_memory_bytes")),
            "parameters": {},
            "device": None,
            "versions": provenance.versions(),
            "git": None,
            "image": None,
            "process": provenance.this_process(),
            "error": None,
            **facts,
        }

        def edit(document: dict[str, Any]) -> None:
            document["steps"].append(entry)
            document["status"] = "running"
            self._index = len(document["steps"]) - 1

        run.change(edit)
        self._quiet = threading.Event()
        self._beat()
        threading.Thread(target=self._keep_beating, name=f"heartbeat {run.id}", daemon=True).start()

    def update(self, **fields: Any) -> None:
        """Set fields of the step and write the record."""

        def edit(document: dict[str, Any]) -> None:
            document["steps"][self._index].update(fields)
            document["status"] = document["steps"][-1]["status"]

        self.run.change(edit)

    def fail(self, error: BaseException) -> None:
        """Say that the step has met an error; it may go on (a notebook's next cell) or end so."""
        self.update(status="failed", error=_error(error), **self._spent())

    def resume(self) -> None:
        """Take `fail` back: the person corrected the cause and went on."""
        self.update(status="running", error=None)

    def end(self, error: BaseException | None = None) -> None:
        """End the step; further calls change nothing."""
        if self.ended:
            return
        self.ended = True
        self._quiet.set()
        fields = (
            {"status": "failed", "error": _error(error)} if error is not None else {"status": "done", "error": None}
        )
        self.update(**fields, ended=_now(), **self._spent())
        (self.run.folder / HEARTBEAT_FILE).unlink(missing_ok=True)

    def _spent(self) -> dict[str, Any]:
        return {
            "wall_s": round(time.monotonic() - self._wall, 3),
            "cpu_s": round(time.process_time() - self._cpu, 3),
            "peak_memory_bytes": provenance.peak_memory_bytes(),
        }

    def _beat(self) -> None:
        try:
            (self.run.folder / HEARTBEAT_FILE).write_text(_now(), encoding="ascii")
        except OSError:
            # A disk that is full for a moment must not end the training; the next beat tries again.
            return

    def _keep_beating(self) -> None:
        while not self._quiet.wait(HEARTBEAT_S):
            self._beat()
        (self.run.folder / HEARTBEAT_FILE).unlink(missing_ok=True)


def list_runs(output_dir: Path, *, competition: str | None = None, source: str | None = None) -> list[dict[str, Any]]:
    """All records, newest first, each with its true status ("died", "damaged").

    Args:
        output_dir: Folder that holds `runs/`.
        competition: Only runs of this one.
        source: Only "practice" or only "kaggle" runs.
    """
    found = []
    try:
        with disk_errors(output_dir / "runs", deed="read"):
            entries = list(os.scandir(output_dir / "runs"))
    except FileNotFoundError:
        return []
    for entry in entries:
        file = Path(entry.path) / RECORD_FILE
        try:
            document = _parse(file.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            document = {"id": entry.name, "status": "damaged", "created": "", "steps": []}
        if competition not in (None, document.get("competition")) or source not in (None, document.get("source")):
            continue
        document["status"] = true_status(document, file.parent)
        found.append(document)
    return sorted(found, key=lambda document: (document["created"], document["id"]), reverse=True)


def true_status(document: Mapping[str, Any], folder: Path) -> str:
    """The record's status, or "died" when it says running and its process is gone or silent."""
    status = str(document["status"])
    if status != "running":
        return status
    steps = document["steps"]
    gone = provenance.is_gone(steps[-1]["process"]) if steps else None
    if gone is None:
        gone = _silence_s(document, folder) > SILENT_S
    return "died" if gone else status


def trained_at(document: Mapping[str, Any]) -> str:
    """When the run's training ended, in UTC; "" when none was finished."""
    return max(
        (step["ended"] or "" for step in document["steps"] if step["stage"] == "train" and step["status"] == "done"),
        default="",
    )


def parameters(settings: Settings, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings that decide a result, by name, then the notebook's own parameters."""
    known = {name: getattr(settings, name.lower()) for name in SETTINGS if name not in NOT_RECORDED}
    return {**known, **(own or {})}


def _new_folder(runs: Path, run_id: str | None, stage: str) -> Path:
    make_folder(runs)
    name = run_id or f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{stage}"
    for number in range(1, 1000):
        folder = runs / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            if run_id is None:
                continue
            if (folder / RECORD_FILE).exists():
                raise UsageError(f"A run named {run_id!r} exists already.", hint="Choose another RUN_ID.") from None
        return folder
    raise WorkError(f"No free name for a run in {runs}.", hint="Wait a second, then try again.")


def _parse(content: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(content)
    if not _has_shape(document, SHAPE):
        raise ValueError("not a run record")
    if document["schema"] > SCHEMA:
        raise ValueError(f"written by a newer version, schema {document['schema']}")
    facts = [document.get(name) or {} for name in ("cv", "lb", "submission")]
    if not all(_has_shape(step, STEP_SHAPE) for step in document["steps"]) or not all(_has_shape(f, {}) for f in facts):
        raise ValueError("not a whole run record")
    return document


def _has_shape(value: Any, shape: Mapping[str, type]) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in shape.items())


def _error(error: BaseException) -> dict[str, Any]:
    kind = type(error).__name__
    if isinstance(error, WorkbenchError):
        return {"kind": kind, "message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    return {"kind": kind, "message": plain[:2000], "hint": "", "exit_code": 1}


def _silence_s(document: Mapping[str, Any], folder: Path) -> float:
    try:
        last = (folder / HEARTBEAT_FILE).read_text(encoding="ascii")
    except OSError:
        last = ""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(last or document["updated"])).total_seconds()
    except ValueError:
        return math.inf


def _literal(text: str) -> str:
    import glob

    return glob.escape(text)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
