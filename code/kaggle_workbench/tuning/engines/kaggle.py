"""Trials on Kaggle's machines: as many sessions at once as the account may have, two trials in one with two GPUs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.competition.connect import connect, source_kind
from kaggle_workbench.errors import RefusedError, WorkbenchError
from kaggle_workbench.kaggle_api import Client, KaggleError, kernels
from kaggle_workbench.kaggle_api.errors import SessionsError
from kaggle_workbench.records import RECORD_FILE, Run
from kaggle_workbench.remote.ledger import Pushes, saved
from kaggle_workbench.remote.machines import machine
from kaggle_workbench.remote.pull import pull
from kaggle_workbench.remote.push import push_together
from kaggle_workbench.settings import Settings, load_settings
from kaggle_workbench.tuning.engines import Progress, Slot
from kaggle_workbench.tuning.trial import Trial

# After a refusal for want of a free session, so long until the next try.
RETRY_S = 60.0
# A look at a session is a call to the service; it is not made more often.
LOOK_S = 15.0


def refuse_here_only(settings: Settings, machine_name: str) -> None:
    """Refuse what Kaggle's machines cannot do, before there is a study.

    Raises:
        RefusedError: The competition is the practice server's.
        UsageError: There is no such machine.
    """
    machine(machine_name)
    if source_kind(settings) == "practice":
        raise RefusedError(
            f"{settings.competition} comes from the practice server here, which Kaggle's machines cannot see.",
            hint="Set SOURCE=kaggle and a competition of Kaggle's, or take --engine local.",
        )


class KaggleEngine:
    """Trials as pushed notebooks.

    Args:
        settings: Settings in force.
        machine_name: One of `remote.machines.MACHINES`.
        slots: How many trials at once; None: as many as the account's sessions hold.
    """

    poll_s = 5.0
    retry_s = RETRY_S
    look_s = LOOK_S

    def __init__(self, settings: Settings, *, machine_name: str, slots: int | None = None) -> None:
        refuse_here_only(settings, machine_name)
        self.settings = load_settings({"SOURCE": "kaggle", "COMPETITION": settings.competition})
        self.machine = machine(machine_name)
        self._stack = ExitStack()
        self._client: Client | None = None
        # On two GPUs two trials go side by side; a session bills its time once.
        self.together = 2 if self.machine.gpus == 2 else 1
        self._count = min(slots or 99, self.machine.at_once * self.together)
        self._waiting: list[KaggleHandle] = []
        # Whether the last push found no free session; said once.
        self._full = False

    def slots(self) -> list[Slot]:
        """The room there is."""
        gpus = {"GPU_COUNT": 1} if self.together > 1 else None
        return [Slot(f"kaggle-{i}", self.machine.title, overrides=gpus) for i in range(self._count)]

    def start(self, trial: Trial, slot: Slot) -> KaggleHandle:
        """Take a trial; it is pushed with the one beside it, at the next look."""
        handle = KaggleHandle(self, trial, {**trial.overrides, **(slot.overrides or {})})
        self._waiting.append(handle)
        return handle

    def attach(self, trial: Trial) -> KaggleHandle | None:
        """A trial that an earlier client has pushed."""
        handle = KaggleHandle(self, trial, trial.overrides)
        return handle if handle.find() else None

    def close(self) -> None:
        """Let go of the connection; sessions go on."""
        self._stack.close()
        self._client = None

    def client(self) -> Client:
        """The connection that looks at sessions."""
        if self._client is None:
            self._client = self._stack.enter_context(connect(self.settings)).client
        return self._client

    def push_waiting(self) -> None:
        """Push what was taken and not pushed yet, as many in one session as it holds."""
        while self._waiting:
            group, self._waiting = self._waiting[: self.together], self._waiting[self.together :]
            trials = [(handle.given, handle.resumes()) for handle in group]
            try:
                pushed = push_together(trials, machine_name=self.machine.shape, quiet=self._full)
            except SessionsError as error:
                # Sessions of others: these wait here, in their order.
                for handle in group:
                    handle.wait(self.retry_s)
                self._waiting = [*group, *self._waiting]
                if not self._full:
                    show.note(f"{error.message} Trying again every {self.retry_s:.0f} s.")
                self._full = True
                return
            except WorkbenchError as error:
                self._split(group, error)
                continue
            self._full = False
            for handle, one in zip(group, pushed, strict=True):
                handle.kernel = one.kernel

    def _split(self, group: list[KaggleHandle], error: WorkbenchError) -> None:
        """A trial that cannot be pushed must not take the one beside it along."""
        if len(group) == 1 or isinstance(error, KaggleError):
            for handle in group:
                handle.refused = error.message
            return
        for handle in group:
            try:
                alone = [(handle.given, handle.resumes())]
                handle.kernel = push_together(alone, machine_name=self.machine.shape)[0].kernel
            except WorkbenchError as own:
                handle.refused = own.message


class KaggleHandle:
    """One trial's part of a session.

    Args:
        engine: Its engine.
        trial: The trial.
        overrides: What it is given.
    """

    def __init__(self, engine: KaggleEngine, trial: Trial, overrides: Mapping[str, Any]) -> None:
        self._engine, self._trial = engine, trial
        self.given = {**overrides, "RUN_ID": trial.run_id, "SOURCE": "kaggle"}
        self.folder: Path = engine.settings.output_dir / "runs" / trial.run_id
        self.kernel: kernels.Saved | None = None
        self.refused = ""
        self._stopped = False
        self._not_before = 0.0
        self._looked = 0.0

    def resumes(self) -> str | None:
        """The run it goes on with, once there is one."""
        if not (self.folder / RECORD_FILE).is_file():
            return None
        self.given.pop("RUN_ID", None)
        return self._trial.run_id

    def wait(self, seconds: float) -> None:
        """Do not push before so many seconds."""
        self._not_before = time.monotonic() + seconds

    def find(self) -> bool:
        """Look for what an earlier client has pushed; whether there is anything."""
        entries = Pushes(self.folder).all()
        if not entries:
            return False
        last = entries[-1]
        if last.get("ref"):
            self.kernel = saved(last)
        elif last["status"] == "sending" and last.get("slug") in kernels.mine(self._engine.client()):
            # Killed between the push and its answer.
            ref = last["slug"]
            self.kernel = kernels.Saved(ref, 1, f"{self._engine.client().endpoint.web}/code/{ref}")
            Pushes(self.folder).update(last["number"], status="running", ref=ref, version=1, url=self.kernel.url)
        return self.kernel is not None

    def poll(self) -> Progress:
        """How far the trial is."""
        if self._stopped:
            return Progress("cut", self._record(), "It goes on at Kaggle; --resume finds it.")
        if self.kernel is None and not self.refused and time.monotonic() >= self._not_before:
            self._engine.push_waiting()
        if self.refused:
            return Progress("failed", self._record(), self.refused)
        if self.kernel is None or time.monotonic() < self._looked + self._engine.look_s:
            return Progress("running", self._record())
        self._looked = time.monotonic()
        try:
            if not kernels.status(self._engine.client(), self.kernel).ended:
                return Progress("running", self._record())
        except RefusedError as error:
            return Progress("failed", self._record(), error.message)
        except KaggleError:
            # Out of order for a moment: the session is none the worse.
            return Progress("running", self._record())
        return self._ended()

    def stop(self) -> None:
        """Leave it: a session cannot be told to save, and what it does is not lost."""
        self._stopped = True

    def _ended(self) -> Progress:
        error = ""
        try:
            pull(self._trial.run_id, wait_hours=0.0)
        except WorkbenchError as caught:
            error = caught.message.partition("\n")[0]
        record = self._record()
        status = (record["steps"] or [{}])[-1].get("status") if record else None
        if status == "done" and not error:
            return Progress("done", record)
        if status == "failed" or record is None:
            return Progress("failed", record, error or "It failed at Kaggle.")
        return Progress("cut", record, error)

    def _record(self) -> Mapping[str, Any] | None:
        return Run(self.folder).read() if (self.folder / RECORD_FILE).is_file() else None
