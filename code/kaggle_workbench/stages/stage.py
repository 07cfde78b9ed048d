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

from kaggle_workbench import devices, plots, provenance, records, show
from kaggle_workbench.competition import budget
from kaggle_workbench.competition.connect import Source, connect
from kaggle_workbench.competition.download import DataFiles, download
from kaggle_workbench.competition.folders import find_data
from kaggle_workbench.competition.problem import Problem, read_problem
from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import human_bytes, write_atomic
from kaggle_workbench.kaggle_api import Competition
from kaggle_workbench.records import Run
from kaggle_workbench.settings import Settings
from kaggle_workbench.stages.cards import Card, Link

SUBMISSION_FILE = "submission.csv"


class Stage:
    """A stage at work: one step of a run.

    Attributes:
        name: "data", "train" or "submit".
        settings: What is in force; `stage.settings.epochs` and so on.
        run: The run, with its record and folder.
        kind: "practice" or "kaggle".
        source: The open connection; None when a training goes on without one.
        device: What computes; None except in training.
    """

    name = ""
    next = ""

    def __init__(self, settings: Settings, run: Run, kind: str, own: Mapping[str, Any]) -> None:
        self.settings, self.run, self.kind = settings, run, kind
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

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.step.end(error)
        self.close()

    # --- Beginning and end ---

    def begin(self) -> None:
        """Connect; called by `open_stage`."""
        self.connect()

    def finish(self) -> Card:
        """End the stage well; what it leaves behind is in the run's folder."""
        kept = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        self.step.end()
        self.close()
        took = self.run.read()["steps"][-1]["wall_s"]
        facts = {
            "Run": self.run.id,
            "Folder": self.short(self.folder),
            "Holds": ", ".join(kept),
            "Took": f"{took:.0f} s",
        }
        return Card(f"Stage {self.name} is done", facts, [self.next], "good")

    def close(self) -> None:
        """Close the connection; the record is not touched."""
        self._stack.close()
        self.source = None

    def failed(self, error: BaseException) -> None:
        """Called after a cell with an error: the record says so at once, whatever comes after."""
        if not self.step.ended:
            self._failed = True
            self.step.fail(error)

    def went_on(self) -> None:
        """Called after a cell without one: the cause was corrected."""
        if self._failed and not self.step.ended:
            self._failed = False
            self.step.resume()

    def leave(self, error: BaseException) -> None:
        """Called when the last cell will not come; a run in which nothing was done is taken away."""
        if self.step.ended:
            return
        self.close()
        self.step.end(error)
        record = self.run.read()
        nothing = not (record["data"] or record["history"] or record["pictures"] or self._failed)
        if self._fresh and nothing and len(record["steps"]) == 1:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- Data ---

    def load(self) -> Problem:
        """The competition's tables, and what kind of problem they are."""
        return self.problem

    def overview(self) -> Card:
        """Sizes and types of what was loaded."""
        problem = self.problem
        memory = sum(int(table.memory_usage(deep=True).sum()) for table in (problem.train, problem.test))
        kinds = problem.train[list(problem.features)].dtypes.astype(str).value_counts()
        classes = problem.classes
        shown = ", ".join(str(name) for name in classes[:10]) + (", ..." if len(classes) > 10 else "")
        facts = {
            "train": f"{len(problem.train):,} rows, {len(problem.train.columns):,} columns",
            "test": f"{len(problem.test):,} rows, {len(problem.test.columns):,} columns",
            "to predict": f"{problem.target}, {len(classes)} classes: {shown}" if classes else problem.target,
            "each row": f"a picture of {problem.side} x {problem.side} pixels" if problem.side else None,
            "types": ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()),
            "memory": human_bytes(memory),
        }
        return Card("Loaded", facts)

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
        title = found.title if found and found.title else self.settings.competition
        practice = self.kind == "practice"
        facts = {
            "Competition": f"{title} ({self.settings.competition})" if title != self.settings.competition else title,
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

    def connect(self) -> None:
        """Open the source and ask it for the competition."""
        said = io.StringIO()
        # The card says it better; executed without a person, the lines are for the log.
        quiet = contextlib.nullcontext() if executed() else contextlib.redirect_stdout(said)
        with quiet:
            self.source = self._stack.enter_context(connect(self.settings))
            self.competition = self.source.client.competition(self.settings.competition)
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
        return read_problem(self.settings.competition, folder)

    def short(self, path: Path) -> str:
        """A path as people read it: from the project's folder, where it lies there."""
        root = self.settings.root
        return str(path.relative_to(root)) if root and path.is_relative_to(root) else str(path)


def executed() -> bool:
    """Whether `kwb run` executes the notebook, and its printed lines are for a log."""
    return bool(os.environ.get("KWB_EXECUTED"))


def _without(pictures: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [picture for picture in pictures if picture["name"] != name]


def _deadline(found: Competition) -> str:
    if found.deadline is None:
        return "none"
    over = " (over: a late submission is scored, but not ranked)" if budget.is_over(found) else ""
    return f"{found.deadline:%Y-%m-%d %H:%M} UTC{over}"
