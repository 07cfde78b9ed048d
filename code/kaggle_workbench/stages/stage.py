"""A stage at work: what the three notebooks have in common."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from kaggle_workbench import devices, mirror, plots, provenance, records, show
from kaggle_workbench.competition import budget
from kaggle_workbench.competition.connect import Source, connect
from kaggle_workbench.competition.download import DataFiles, download
from kaggle_workbench.competition.folders import find_data, work_folder
from kaggle_workbench.competition.ledger import Ledger
from kaggle_workbench.competition.problem import KINDS, Problem, read_problem
from kaggle_workbench.competition.reading.columns import listed
from kaggle_workbench.competition.reading.overrides import Overrides
from kaggle_workbench.deadline import Deadline, Pause, paused
from kaggle_workbench.errors import PausedError, UsageError
from kaggle_workbench.files import human_bytes, write_atomic
from kaggle_workbench.kaggle_api import Competition
from kaggle_workbench.records import Run
from kaggle_workbench.settings import Settings
from kaggle_workbench.stages import stored
from kaggle_workbench.stages.cards import Card, Link
from kaggle_workbench.stores import Store

SUBMISSION_FILE = "submission.csv"
# Longest waits for uploads: at a stage's end; when a session may end at once; when a notebook is closed.
SEND_S = 300.0
PAUSED_SEND_S = 60.0
LEFT_SEND_S = 3.0


class Stage:
    """A stage at work: one step of a run.

    Attributes:
        name: "data", "train" or "submit".
        settings: What is in force; `stage.settings.epochs` and so on.
        run: The run, with its record and folder.
        kind: "practice" or "kaggle".
        source: The open connection; None when a training goes on without one.
        device: What computes; None except in training.
        store: Where the run's files also go; None without STORE.
        uploader: Takes files there in the background; None without STORE.
        goes_on: Whether this training takes up an earlier one of the run.
        deadline: When this session ends.
        pause: Turns Ctrl-C and SIGTERM into a request while a network is fitted.
    """

    name = ""
    next = ""

    def __init__(
        self,
        settings: Settings,
        run: Run,
        kind: str,
        own: Mapping[str, Any],
        *,
        store: Store | None = None,
        goes_on: bool = False,
    ) -> None:
        self.settings, self.run, self.kind = settings, run, kind
        self.store, self.goes_on = store, goes_on
        self.uploader = stored.uploader_for(run, store) if store is not None else None
        self.deadline = Deadline(settings, upload_s=self._upload_s)
        self.pause = Pause(say=show.note)
        self.folder = run.folder
        self.source: Source | None = None
        self.competition: Competition | None = None
        self.device: devices.Decision | None = None
        self.notes = list(settings.notes)
        self._stack = contextlib.ExitStack()
        self._fresh = not run.read()["steps"] and settings.run_id is None
        self._failed = False
        self.step = run.start(
            self.name,
            place=settings.place.name,
            parameters=records.parameters(settings, own),
            git=provenance.commit(settings.root),
        )
        records.listeners.append(self._record_changed)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.step.end(error)
        self._send(SEND_S)
        self.close()

    # --- Beginning and end ---

    def begin(self) -> None:
        """Connect; called by `open_stage`."""
        self.connect()

    def finish(self) -> Card:
        """End the stage well; what it leaves behind is in the run's folder, and in the store when there is one."""
        kept = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        self.step.end()
        notes = [*self._send(SEND_S), self.next]
        self.close()
        mirror.finish()
        took = self.run.read()["steps"][-1]["wall_s"]
        facts = {
            "Run": self.run.id,
            "Folder": self.short(self.folder),
            "Store": self.store.address if self.store else None,
            "Holds": ", ".join(kept),
            "Took": f"{took:.0f} s",
        }
        return Card(f"Stage {self.name} is done", facts, notes, "good")

    def disconnect(self) -> None:
        """Close the connection to the competition's server."""
        self._stack.close()
        self.source = None

    def close(self) -> None:
        """Let go of the connection, the signals, the run and the store; the record is not touched."""
        self._training_is_over()
        if self._record_changed in records.listeners:
            records.listeners.remove(self._record_changed)
        if self.uploader is not None:
            self.uploader.close()
        self.disconnect()

    def failed(self, error: BaseException) -> None:
        """Called after a cell with an error: the record says so at once, whatever comes after."""
        self._training_is_over()
        if self.step.ended:
            return
        self._failed = True
        asked = self.pause.asked()
        if isinstance(error, KeyboardInterrupt) and str(error) == asked:
            error = paused(self.run.id, f"{asked}. The training is at its end, and saved.")
        self.step.fail(error)
        if isinstance(error, PausedError):
            # The process may be ended soon: what was saved should be elsewhere by then.
            self._send(PAUSED_SEND_S if asked else SEND_S)

    def went_on(self) -> None:
        """Called after a cell without one: the cause was corrected."""
        self.pause.release()
        if self._failed and (self.step.paused or not self.step.ended):
            self._failed = False
            self.step.resume()

    def leave(self, error: BaseException) -> None:
        """Called when the last cell will not come; a run in which nothing was done is taken away."""
        if self.step.ended:
            self.close()
            return
        self.disconnect()
        self.step.end(error)
        record = self.run.read()
        nothing = not (record["data"] or record["history"] or record["pictures"] or self._failed)
        if self._fresh and nothing and len(record["steps"]) == 1:
            self.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        if not executed():
            # `kwb run` sends what is left, and has the time.
            self._send(LEFT_SEND_S)
        self.close()

    # --- Data ---

    def load(self) -> Problem:
        """The competition's tables, and what kind of problem they are."""
        return self.problem

    @property
    def shown(self) -> Problem:
        """What `overview` tells of."""
        return self.problem

    def overview(self) -> Card:
        """Sizes and types of what was loaded."""
        problem = self.shown
        memory = sum(int(table.memory_usage(deep=True).sum()) for table in (problem.train, problem.test))
        kinds = problem.train[list(problem.features)].dtypes.astype(str).value_counts()
        facts = {
            "train": f"{len(problem.train):,} rows, {len(problem.train.columns):,} columns",
            "test": f"{len(problem.test):,} rows, {len(problem.test.columns):,} columns",
            "rows": f"{KINDS[problem.kind]}, {problem.side} x {problem.side} pixels"
            if problem.side
            else KINDS[problem.kind],
            "to predict": _to_predict(problem),
            "submission": _submission(problem),
            "metric": _measured(problem),
            "split by": problem.group or problem.time,
            "left out": listed(problem.dropped),
            "types": ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()),
            "memory": human_bytes(memory),
        }
        return Card("Loaded", facts, problem.doubts)

    def runs(self) -> list[dict[str, Any]]:
        """The records of this competition's runs from this source, newest first."""
        return records.list_runs(self.settings.output_dir, competition=self.settings.competition, source=self.kind)

    # --- Showing ---

    def show(self, figure: Any, name: str) -> None:
        """Show a picture, and keep it in the run's folder.

        Args:
            figure: A Matplotlib figure; its label describes it in words.
            name: Name of the file, without its ending.
        """
        content, text = plots.png(figure), str(figure.get_label() or name)
        file = self.folder / "pictures" / f"{name}.png"
        write_atomic(file, content)
        entry = {"name": name, "file": f"pictures/{file.name}", "text": text}
        self.run.change(lambda record: record.update(pictures=[*_without(record["pictures"], name), entry]))
        if not show.in_notebook():
            return
        width, height = figure.get_size_inches()
        # 80 of the page's pixels per inch; the file has twice as many.
        facts = {"alt": text, "width": round(80 * width), "height": round(80 * height)}
        bundle = {"image/png": base64.b64encode(content).decode(), "text/plain": text}
        show.output(bundle, metadata={"image/png": facts})

    def __repr__(self) -> str:
        return repr(self._card())

    def _repr_html_(self) -> str:
        return self._card()._repr_html_()

    def _card(self) -> Card:
        found = self.competition
        rules = None
        if found and self.source:
            page = Link("not accepted yet: accept them here", budget.page(self.source.client, found.slug, "/rules"))
            rules = "accepted" if found.user_has_entered else page
        slug = self.settings.competition
        title = found.title if found and found.title else slug
        practice = self.kind == "practice"
        facts = {
            "Competition": slug if title == slug else f"{slug}: {title}",
            "Source": "practice server on this machine" if practice else "Kaggle",
            "Credentials": None if practice or not self.source else self.source.credentials_source,
            "Metric": found.metric if found else None,
            "Deadline": _deadline(found) if found else None,
            "Rules": rules,
            "Place": self.settings.place.title,
            "Device": self.device.line if self.device else None,
            "Input": self.short(self.settings.input_dir),
            "Run": self.short(self.folder),
        }
        return Card(f"Stage {self.name}", facts, self.notes)

    # --- Inside ---

    def _send(self, limit_s: float) -> list[str]:
        """Send all that the store does not hold; what could not be sent is said and noted in the step."""
        if self.uploader is None:
            return []
        limit_s = min(limit_s, max(LEFT_SEND_S, self.deadline.left_s() - LEFT_SEND_S))
        try:
            stored.send(self.run, self.uploader)
            done = self.uploader.finish(limit_s)
        except KeyboardInterrupt:
            done = False
        facts = self.uploader.facts()
        if facts is not None:
            self.step.update(store=facts)
            if done:
                self.uploader.finish(limit_s)
        if done:
            return []
        problems = [*self.uploader.problems(), f"All of it stands in {self.short(self.folder)}."]
        for sentence in problems:
            show.warn(sentence)
        return problems

    def _training_is_over(self) -> None:
        """Keras tells its callbacks nothing of a training that broke off: what they hold is let go here."""
        from kaggle_workbench import checkpoints

        self.pause.release()
        checkpoints.release(self.folder)

    def _upload_s(self) -> float:
        return 2 * self.uploader.slowest_s if self.uploader is not None else 0.0

    def _record_changed(self, folder: Path, record: Mapping[str, Any]) -> None:
        if self.uploader is not None and folder == self.folder:
            self.uploader.put(f"{self.run.id}/{records.RECORD_FILE}", self.folder / records.RECORD_FILE)

    def connect(self) -> None:
        """Open the source and ask it for the competition."""
        said = io.StringIO()
        # The card says it better; executed without a person, the lines are for the log.
        quiet = contextlib.nullcontext() if executed() else contextlib.redirect_stdout(said)
        with quiet:
            self.source = self._stack.enter_context(connect(self.settings))
            self.competition = self.source.client.competition(self.settings.competition)
        # For when nobody can be asked: offline, or in a session without the internet.
        Ledger(self.settings, self.kind).hear(self.competition.metric)
        self.notes += [line for line in said.getvalue().splitlines() if not line.startswith("Source: Kaggle")]

    def connected(self) -> tuple[Source, Competition]:
        """The open source and the competition as it describes it.

        Raises:
            UsageError: There is none any more.
        """
        if self.source is None or self.competition is None:
            raise UsageError("The stage is finished.", hint="Run the notebook again from its first cell.")
        return self.source, self.competition

    @cached_property
    def files(self) -> DataFiles:
        """The competition's files, fetched when they are not here, and noted in the record."""
        source, _ = self.connected()
        files = download(self.settings, source)
        self.run.update(data={file.name: {"size": file.size, "sha256": file.sha256} for file in files.files})
        return files

    @cached_property
    def problem(self) -> Problem:
        """The competition's tables; without a connection, wherever they lie."""
        folder = self.files.folder if self.source is not None else find_data(self.settings, self.kind)
        home = work_folder(self.settings, self.kind) / "copies"
        metric = self.competition.metric if self.competition else Ledger(self.settings, self.kind).metric or ""
        overrides = Overrides.of(self.settings)
        return read_problem(self.settings.competition, folder, home=home, metric=metric, overrides=overrides)

    def short(self, path: Path) -> str:
        """A path as people read it: from the project's folder, where it lies there."""
        root = self.settings.root
        return str(path.relative_to(root)) if root and path.is_relative_to(root) else str(path)


def executed() -> bool:
    """Whether `kwb run` executes the notebook, and its printed lines are for a log."""
    return bool(os.environ.get("KWB_EXECUTED"))


def _to_predict(problem: Problem) -> str:
    if not problem.targets:
        return "not plain: set TARGET in variables.env"
    classes = problem.classes
    if classes:
        shown = ", ".join(str(name) for name in classes[:10]) + (", ..." if len(classes) > 10 else "")
        return f"{problem.target}, {len(classes)} classes: {shown}"
    names = ", ".join(problem.targets[:8]) + (", ..." if len(problem.targets) > 8 else "")
    return f"{names}, {'an amount' if problem.task == 'regression' else show.plural(len(problem.targets), 'column')}"


def _submission(problem: Problem) -> str | None:
    if problem.sample_file is None:
        return None
    columns = (
        f"{show.plural(len(problem.by_class), 'column')}, one for each class" if problem.by_class else problem.wants
    )
    return f"{columns}, by {problem.id}" if problem.id else columns


def _measured(problem: Problem) -> str | None:
    if problem.metric is None:
        return None
    better = "higher" if problem.metric.greater_is_better else "lower"
    stand_in = ", which stands in for the competition's own" if problem.stands_in else ""
    return f"{problem.metric.title} ({better} is better){stand_in}"


def _without(pictures: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [picture for picture in pictures if picture["name"] != name]


def _deadline(found: Competition) -> str:
    if found.deadline is None:
        return "none"
    over = " (over: a late submission is scored, but not ranked)" if budget.is_over(found) else ""
    return f"{found.deadline:%Y-%m-%d %H:%M} UTC{over}"
