"""One execution of a stage within a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kaggle_workbench import provenance
from kaggle_workbench.errors import PausedError
from kaggle_workbench.records.document import error_facts, now
from kaggle_workbench.records.heartbeat import Heartbeat
from kaggle_workbench.settings import find_root

if TYPE_CHECKING:
    from kaggle_workbench.records.run import Run


class Step:
    """One execution of a stage within a run, with a heartbeat until it ends.

    Attributes:
        run: The run.
        stage: "data", "train" or "submit".
        ended: Whether it is over: ended or paused.
        paused: Whether it was paused, and can go on in this process (`resume`) or another one.
    """

    def __init__(self, run: Run, stage: str, facts: Mapping[str, Any]) -> None:
        self.run = run
        self.stage = stage
        self.ended = self.paused = False
        self._wall, self._cpu = time.monotonic(), time.process_time()
        entry = {
            "stage": stage,
            "status": "running",
            "place": None,
            "started": now(),
            **dict.fromkeys(("ended", "wall_s", "cpu_s", "peak_memory_bytes")),
            **dict.fromkeys(("peak_gpu_memory_bytes", "mean_gpu_utilisation")),
            "seed": (facts.get("parameters") or {}).get("SEED"),
            "parameters": {},
            "device": None,
            "versions": provenance.versions(),
            "git": None,
            "image": provenance.image(find_root()),
            "process": provenance.this_process(),
            "error": None,
            **facts,
        }

        def edit(document: dict[str, Any]) -> None:
            document["steps"].append(entry)
            document["status"] = "running"
            self._index = len(document["steps"]) - 1

        run.change(edit)
        self._heartbeat = Heartbeat(run.folder)

    def update(self, **fields: Any) -> None:
        """Set fields of the step and write the record."""

        def edit(document: dict[str, Any]) -> None:
            document["steps"][self._index].update(fields)
            document["status"] = document["steps"][-1]["status"]

        self.run.change(edit)

    def fail(self, error: BaseException) -> None:
        """Say that the step has met an error; it may go on (a notebook's next cell) or end so.

        A `PausedError` is no failure: the step is paused.
        """
        if isinstance(error, PausedError):
            self.pause(error)
        else:
            self.update(status="failed", error=error_facts(error), **self._spent())

    def pause(self, error: BaseException) -> None:
        """Pause the step: what was computed is kept, and the run goes on from there.

        Args:
            error: Why, and how to go on.
        """
        if self.ended:
            return
        self.ended = self.paused = True
        self._heartbeat.stop()
        self.update(status="paused", error=error_facts(error), ended=now(), **self._spent())

    def resume(self) -> None:
        """Take `fail` or `pause` back: the person corrected the cause and went on."""
        if self.paused:
            self.ended = self.paused = False
            self._heartbeat = Heartbeat(self.run.folder)
        self.update(status="running", error=None, ended=None)

    def end(self, error: BaseException | None = None) -> None:
        """End the step; further calls change nothing. A paused step stays so, unless it was done after all."""
        if self.ended and not (self.paused and error is None):
            return
        if isinstance(error, PausedError):
            self.pause(error)
            return
        self.ended, self.paused = True, False
        self._heartbeat.stop()
        fields = (
            {"status": "failed", "error": error_facts(error)}
            if error is not None
            else {"status": "done", "error": None}
        )
        self.update(**fields, ended=now(), **self._spent())

    def _spent(self) -> dict[str, Any]:
        return {
            "wall_s": round(time.monotonic() - self._wall, 3),
            "cpu_s": round(time.process_time() - self._cpu, 3),
            "peak_memory_bytes": provenance.peak_memory_bytes(),
        }
