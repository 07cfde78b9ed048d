"""One run: its folder, its record, and the ways to change it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.files import locked, make_folder, write_json
from kaggle_workbench.masking import plain
from kaggle_workbench.records.document import RECORD_FILE, error_facts, new, now, parse, tidy, trained_at
from kaggle_workbench.records.heartbeat import HEARTBEAT_FILE
from kaggle_workbench.records.listing import each_run
from kaggle_workbench.records.shape import fault
from kaggle_workbench.records.step import Step

Listener = Callable[[Path, Mapping[str, Any]], None]

# Called with a run's folder and its record after each write; they must neither raise nor block.
listeners: list[Listener] = []
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
        document = new(folder.name, competition, source, parent)
        write_json(folder / RECORD_FILE, document)
        _tell(folder, document)
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
        raise UsageError(f"There is no run {run_id!r} in {runs}.", hint="`./kwb runs` lists the runs.")

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
            for run in each_run(output_dir, competition=competition, source=source)
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
            return parse((self.folder / RECORD_FILE).read_bytes(), self.id)
        except (OSError, ValueError, RecursionError) as error:
            raise WorkError(
                f"The record of run {self.id} cannot be read ({error}).",
                hint=f"Look at {self.folder / RECORD_FILE}; delete the run's folder if it is of no use any more.",
            ) from error

    def update(self, **fields: Any) -> None:
        """Set fields of the run, such as `cv`, `lb` or `history`, and write the record."""
        self.change(lambda document: document.update(fields))

    def change(self, edit: Callable[[dict[str, Any]], Any]) -> None:
        """Read the record, let `edit` change it, write it: whole, and safe against other writers.

        Raises:
            UsageError: The changed record would be none, such as a score that is a text.
            WorkError: The record cannot be read.
            MissingError: The disk is full, or another process holds the record.
        """
        with (
            self._thread_lock,
            locked(self.folder / ".lock", what=f"the record of {self.id}", timeout_s=_LOCK_TIMEOUT_S),
        ):
            document = self.read()
            edit(document)
            tidy(document)
            document["revision"] = (document.get("revision") or 0) + 1
            document["updated"] = now()
            written = plain(document, self._hide)
            odd = fault(written)
            if odd is not None:
                # What cannot be read again is not written.
                raise UsageError(
                    f"The record of {self.id} cannot hold this: {odd} does not fit.",
                    hint="docs/runs.md lists the fields of a record.",
                )
            write_json(self.folder / RECORD_FILE, written)
        _tell(self.folder, written)

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
                    step.update(status="failed", ended=now(), error=error_facts(error))
                    document["status"] = "failed"

        self.change(edit)
        (self.folder / HEARTBEAT_FILE).unlink(missing_ok=True)


def _tell(folder: Path, document: Mapping[str, Any]) -> None:
    for listener in list(listeners):
        try:
            listener(folder, document)
        except Exception as error:
            # A copy that cannot be kept must not end a training; it is said, and not asked again.
            show.warn(f"The record of {folder.name} is written, but a copy was not made ({error}).")
            listeners.remove(listener)


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


def _literal(text: str) -> str:
    import glob

    return glob.escape(text)
