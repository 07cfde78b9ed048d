"""Engines: where trials run. One protocol; the loop above it is the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import Settings
from kaggle_workbench.tuning.trial import Trial

Status = Literal["running", "done", "cut", "failed"]
ENGINES = ("local", "ray", "kaggle")


@dataclass(frozen=True)
class Slot:
    """Room for one trial.

    Attributes:
        id: Its name among the engine's slots, such as "gpu-0".
        title: For people.
        environment: Variables that a trial in this slot gets.
        overrides: Settings that a trial in this slot gets.
    """

    id: str
    title: str
    environment: Mapping[str, str] | None = None
    overrides: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Progress:
    """How far a trial is.

    Attributes:
        status: "running"; "done": its training is finished; "cut": it ended before its end, is saved as far as it got
            and goes on when it is started again; "failed": it would fail again.
        record: The run's record as far as it is known.
        error: What it ended with, one sentence.
    """

    status: Status
    record: Mapping[str, Any] | None = None
    error: str = ""

    @property
    def epochs(self) -> Sequence[Mapping[str, Any]]:
        """One entry for each epoch so far."""
        return self.record["history"] if self.record else ()


class Handle(Protocol):
    """A trial at work."""

    def poll(self) -> Progress:
        """How far it is; returns at once."""

    def stop(self) -> None:
        """Ask it to save and end; returns at once, `poll` tells when it has ended."""


class Engine(Protocol):
    """Where trials run.

    Attributes:
        poll_s: How long the loop waits between two looks.
    """

    poll_s: float

    def slots(self) -> list[Slot]:
        """All the room there is now, taken or not; it may change while a study runs."""

    def start(self, trial: Trial, slot: Slot) -> Handle:
        """Run a trial, from where it got to when it ran before.

        Raises:
            WorkbenchError: It cannot be started here.
        """

    def attach(self, trial: Trial) -> Handle | None:
        """The handle of a trial that a client which is gone has started, if it still runs or has ended well."""

    def close(self) -> None:
        """Let go of what was opened; trials that still run are ended, and saved."""


def make_engine(
    name: str,
    settings: Settings,
    jobs: Path,
    *,
    slots: int | None = None,
    address: str | None = None,
    machine: str = "t4",
) -> Engine:
    """The engine of that name.

    Args:
        name: One of `ENGINES`.
        settings: Settings in force.
        jobs: Folder for what its trials leave beside their runs.
        slots: How many trials at once; None: as many as fit.
        address: Of a Ray cluster.
        machine: Which of Kaggle's machines.

    Raises:
        UsageError: No such engine, or an address for one that has none.
        MissingError: What it needs is not installed or does not answer.
    """
    if address and name != "ray":
        raise UsageError(f"The engine {name} has no address.", hint="Leave --address out, or take --engine ray.")
    if name == "local":
        from kaggle_workbench.tuning.engines.local import LocalEngine

        return LocalEngine(settings, jobs, slots=slots)
    if name == "ray":
        from kaggle_workbench.tuning.engines.ray import RayEngine

        return RayEngine(settings, jobs, slots=slots, address=address)
    if name == "kaggle":
        from kaggle_workbench.tuning.engines.kaggle import KaggleEngine

        return KaggleEngine(settings, machine_name=machine, slots=slots)
    raise UsageError(f"There is no engine {name!r}.", hint="The engines are: " + ", ".join(ENGINES) + ".")
