"""What the stand-in remembers: kernels with their versions and sessions, datasets, uploads, and what was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

HOUR_S = 3600
GPU_SHAPES = (
    "NvidiaTeslaT4",
    "NvidiaL4",
    "NvidiaL4X1",
    "NvidiaTeslaA100",
    "NvidiaH100",
    "NvidiaRtxPro6000",
)
TPU_SHAPES = ("TpuV5E8", "TpuV6E8")
# What a session gets instead, without a word from the server.
RETIRED = {
    "nvidiateslap100": "NvidiaTeslaT4",
    "tpuv38": "TpuV5E8",
    "tpu1vmv38": "TpuV5E8",
    "tpuv232": "None",
    "tpuv2256": "None",
}


@dataclass(frozen=True)
class Options:
    """How the stand-in behaves; see `Machines`."""

    user: str = "tester"
    sessions: Mapping[str, int] = field(default_factory=lambda: {"gpu": 2, "tpu": 1, "cpu": 5})
    quota_s: float = 30 * HOUR_S
    tpu_quota_s: float = 20 * HOUR_S
    session_limit_s: float = 12 * HOUR_S
    layout: Literal["new", "old"] = "new"
    internet: bool = False
    queue_s: float = 0.0
    dataset_processing_s: float = 0.0
    mount_delay_s: float = 0.0
    archives: Literal["unpacked", "kept"] = "unpacked"
    outputs_of_killed: bool = False
    second_push: Literal["both", "cancels"] = "both"
    refused_slugs: Literal["free", "burnt"] = "free"
    secrets: Mapping[str, str] = field(default_factory=dict)
    gpu_library: Path | None = None
    gpu_count: int = 2
    hide: tuple[str, ...] = ()


@dataclass
class Session:
    """One run of a kernel's version on a machine.

    Attributes:
        machine: "cpu", "gpu" or "tpu": what it really got.
        shape: The machine's name; "None" for a CPU.
        status: As the API names it.
        log: Entries with stream_name, time (s) and data; the API shows them when the session has ended.
        outputs: Names of the files it left, by which the API lists them.
    """

    id: int
    ref: str
    version: int
    machine: str
    shape: str
    limit_s: float
    folder: Path
    made: float
    status: str = "QUEUED"
    failure: str = ""
    started: float | None = None
    ended: float | None = None
    log: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    stop: str = ""
    mark: str = ""

    @property
    def live(self) -> bool:
        """Whether it holds one of the account's places."""
        return self.ended is None

    @property
    def working(self) -> Path:
        """What is /kaggle/working in there."""
        return self.folder / "working"

    def billed_s(self, now: float) -> float:
        """Wall clock from start to end, in seconds; a machine's two cards are not counted twice."""
        return 0.0 if self.started is None else (self.ended or now) - self.started


@dataclass
class Version:
    """One saved version: its number, the request that made it, and its session (None: saved without running)."""

    number: int
    request: dict[str, Any]
    session: Session | None = None


@dataclass
class Kernel:
    """One notebook of an account."""

    id: int
    owner: str
    slug: str
    title: str
    versions: list[Version] = field(default_factory=list)

    @property
    def ref(self) -> str:
        """`owner/slug`."""
        return f"{self.owner}/{self.slug}"

    @property
    def status(self) -> str:
        """Status of the newest session; "" when it never ran."""
        sessions = [each.session for each in self.versions if each.session]
        return sessions[-1].status if sessions else ""

    @property
    def sessions(self) -> list[Session]:
        """Its sessions, oldest first."""
        return [each.session for each in self.versions if each.session]


@dataclass
class DatasetVersion:
    """One version of a dataset; `ready` is the time at which its files can be used."""

    number: int
    folder: Path
    made: float
    ready: float
    notes: str = ""
    failed: bool = False

    def status(self, now: float) -> str:
        """As the API names it."""
        if self.failed:
            return "FAILED"
        return "READY" if now >= self.ready else "BLOBS_RECEIVED"


@dataclass
class Dataset:
    """One dataset of an account."""

    id: int
    owner: str
    slug: str
    title: str
    licence: str
    private: bool
    versions: list[DatasetVersion] = field(default_factory=list)

    @property
    def ref(self) -> str:
        """`owner/slug`."""
        return f"{self.owner}/{self.slug}"

    def newest_ready(self, now: float) -> DatasetVersion | None:
        """The version that a notebook or a download gets."""
        ready = [each for each in self.versions if each.status(now) == "READY"]
        return ready[-1] if ready else None


@dataclass
class Blob:
    """An upload: its name, how long it will be, where its bytes lie, and whether all have come."""

    key: str
    name: str
    size: int
    path: Path
    done: bool = False
    used: bool = False


@dataclass(frozen=True)
class Seen:
    """A request that arrived: "SaveKernel", "PUT blob", "GET output", ... and its JSON body."""

    name: str
    body: Mapping[str, Any] = field(repr=False)
    at: float = field(default_factory=time.time)


class World:
    """All of it, under one lock."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder = folder
        self.options = options
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.kernels: dict[str, Kernel] = {}
        self.datasets: dict[str, Dataset] = {}
        self.blobs: dict[str, Blob] = {}
        self.seen: list[Seen] = []
        self.burnt: set[str] = set()
        self.deleted: list[Kernel] = []
        # Quota used up outside this test's sessions, in seconds by kind of machine.
        self.spent: dict[str, float] = {}
        self.closing = False
        self._number = 1000

    def number(self) -> int:
        """A number that nothing else has."""
        with self.lock:
            self._number += 1
            return self._number

    def sessions(self) -> list[Session]:
        """All sessions, oldest first, with those of deleted kernels."""
        with self.lock:
            found = [each for kernel in (*self.kernels.values(), *self.deleted) for each in kernel.sessions]
        return sorted(found, key=lambda session: session.id)

    def live(self, machine: str) -> list[Session]:
        """Sessions that hold a place on that kind of machine."""
        return [each for each in self.sessions() if each.machine == machine and each.live]

    def used_s(self, machine: str) -> float:
        """Quota used by that kind of machine, in seconds."""
        now = time.time()
        ran = sum(each.billed_s(now) for each in self.sessions() if each.machine == machine)
        return ran + self.spent.get(machine, 0.0)

    def allowed_s(self, machine: str) -> float:
        """Quota of that kind of machine in seconds; endless for CPUs."""
        options = self.options
        return {"gpu": options.quota_s, "tpu": options.tpu_quota_s}.get(machine, float("inf"))
