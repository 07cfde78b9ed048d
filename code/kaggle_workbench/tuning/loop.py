"""The one loop of every engine: asks Optuna, starts trials, watches their epochs, prunes, tells, writes the table."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.tuning import objective, pictures, table
from kaggle_workbench.tuning.engines import Engine, Handle, Progress, Slot
from kaggle_workbench.tuning.study import ERROR, Study
from kaggle_workbench.tuning.trial import Trial

# A trial that is cut so often without a new epoch in between is given up.
MOST_CUTS = 3
# So long a stopped trial may take to save.
STOP_S = 150.0


@dataclass
class _Live:
    """A trial at work."""

    trial: Trial
    optuna: Any
    handle: Handle
    slot: Slot | None
    reported: set[int] = field(default_factory=set)
    pruned: bool = False


class Loop:
    """Runs a study to its end.

    Args:
        study: The study.
        engine: Where its trials run.
        runs: Folder of the runs.
        end: When to stop, as `time.monotonic` counts; trials at work are saved.
    """

    def __init__(self, study: Study, engine: Engine, runs: Path, *, end: float = float("inf")) -> None:
        self._study, self._engine, self._runs, self._end = study, engine, runs, end
        self._live: list[_Live] = []
        # Trials of a client that is gone, and those that were cut: they come first.
        self._waiting: list[Any] = study.running()
        self._cuts: dict[int, tuple[int, int]] = {}

    def run(self) -> list[dict[str, Any]]:
        """Run until every planned trial has a result, or the time is over.

        Returns:
            The table.

        Raises:
            KeyboardInterrupt: It was stopped; the trials at work are saved.
        """
        try:
            for optuna in list(self._waiting):
                self._attach(optuna)
            while time.monotonic() < self._end:
                self._fill()
                if not self._live:
                    break
                time.sleep(self._engine.poll_s)
                for live in list(self._live):
                    self._look(live)
            else:
                show.note("The time is over: trials at work are saved and stopped.")
                self._stop()
        except KeyboardInterrupt:
            show.note("Stopping: trials at work are saved. Ctrl-C once more does not wait for them.")
            self._stop()
            raise
        finally:
            rows = self._write()
        return rows

    # --- Inside ---

    def _attach(self, optuna: Any) -> None:
        trial = self._study.trial(optuna)
        handle = self._engine.attach(trial)
        if handle is not None:
            show.note(f"{_name(trial)} was found at work or done.")
            self._waiting.remove(optuna)
            self._begin(trial, optuna, handle, None)

    def _fill(self) -> None:
        """Start trials while there is room."""
        slots = self._engine.slots()
        taken = {live.slot.id for live in self._live if live.slot is not None}
        free = [slot for slot in slots if slot.id not in taken]
        while free and len(self._live) < len(slots):
            optuna = self._next()
            if optuna is None:
                return
            trial = self._study.trial(optuna)
            try:
                handle = self._engine.start(trial, free[0])
            except WorkbenchError as error:
                self._tell(optuna, trial, "FAIL", error=error.message)
                continue
            show.note(f"{_name(trial)} begins on {free[0].title}")
            self._begin(trial, optuna, handle, free.pop(0))

    def _next(self) -> Any:
        if self._waiting:
            return self._waiting.pop(0)
        return self._study.ask() if len(self._study.trials()) < self._study.planned else None

    def _begin(self, trial: Trial, optuna: Any, handle: Handle, slot: Slot | None) -> None:
        known = self._study.optuna.get_trials(deepcopy=False)[trial.number].intermediate_values
        self._live.append(_Live(trial, optuna, handle, slot, set(known)))

    def _look(self, live: _Live) -> None:
        progress = live.handle.poll()
        self._report(live, progress)
        if progress.status == "running":
            if not live.pruned and live.reported and live.optuna.should_prune():
                live.pruned = True
                show.note(f"{_name(live.trial)} is pruned after epoch {max(live.reported)}")
                live.handle.stop()
            return
        self._live.remove(live)
        if progress.status == "done":
            try:
                value = objective.value_of(progress.record, greater_is_better=self._study.greater_is_better)
            except WorkbenchError as error:
                self._tell(live.optuna, live.trial, "FAIL", error=error.message)
            else:
                self._tell(live.optuna, live.trial, "COMPLETE", value=value)
        elif live.pruned:
            self._tell(live.optuna, live.trial, "PRUNED")
        elif progress.status == "failed":
            self._tell(live.optuna, live.trial, "FAIL", error=progress.error)
        else:
            self._cut(live, progress)

    def _report(self, live: _Live, progress: Progress) -> None:
        for entry in progress.epochs:
            value = objective.after_epoch(entry, self._study.metric, greater_is_better=self._study.greater_is_better)
            if entry["epoch"] not in live.reported and value is not None:
                live.optuna.report(value, entry["epoch"])
                live.reported.add(entry["epoch"])

    def _cut(self, live: _Live, progress: Progress) -> None:
        """A trial that ended before its end goes on, unless it gets nowhere."""
        epochs = len(progress.epochs)
        before, count = self._cuts.get(live.trial.number, (-1, 0))
        count = 1 if epochs > before else count + 1
        self._cuts[live.trial.number] = (epochs, count)
        if count > MOST_CUTS:
            why = progress.error or "It was ended from outside."
            self._tell(live.optuna, live.trial, "FAIL", error=f"Cut {count} times after {epochs} epochs. {why}")
            return
        show.note(f"{_name(live.trial)} was cut after {show.plural(epochs, 'epoch')} and will go on")
        self._waiting.append(live.optuna)

    def _tell(self, optuna: Any, trial: Trial, state: str, *, value: float | None = None, error: str = "") -> None:
        from optuna.trial import TrialState

        if error:
            optuna.set_user_attr(ERROR, error)
        self._study.optuna.tell(trial.number, value, state=TrialState[state])
        said = f"{self._study.metric} {value:.5f}" if value is not None else table.STATES[state]
        show.note(f"{_name(trial)}: {said}" + (f" ({error})" if error else ""))
        table.write(self._study, self._runs)

    def _stop(self) -> None:
        for live in self._live:
            live.handle.stop()
        until = time.monotonic() + STOP_S
        while self._live and time.monotonic() < until:
            for live in list(self._live):
                progress = live.handle.poll()
                if progress.status != "running":
                    if progress.status == "cut" and not live.pruned:
                        # It stays without a result, and goes on with --resume.
                        self._live.remove(live)
                    else:
                        self._look(live)
            time.sleep(self._engine.poll_s)

    def _write(self) -> list[dict[str, Any]]:
        rows = table.write(self._study, self._runs)
        for name in pictures.draw(self._study, rows):
            show.note(f"  {self._study.folder / name}")
        return rows


def _name(trial: Trial) -> str:
    text = str(trial)
    return text[0].upper() + text[1:]
