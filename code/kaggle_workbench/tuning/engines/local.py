"""Trials on this machine: a process for each free GPU, or one for each few CPU cores."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaggle_workbench import devices, provenance, show
from kaggle_workbench.errors import WorkError
from kaggle_workbench.files import make_folder, write_json
from kaggle_workbench.records import RECORD_FILE, Run
from kaggle_workbench.settings import Settings, require_root
from kaggle_workbench.tuning.engines import Progress, Slot
from kaggle_workbench.tuning.engines.worker import LOG, OUTCOME, STARTED, beside, outcome
from kaggle_workbench.tuning.trial import Trial

# A CPU training keeps about so many cores busy; more processes than that only wait for each other.
CORES_PER_TRIAL = 4
# A GPU of which someone else holds more is not free.
BUSY_BYTES = 1 << 30


class LocalEngine:
    """Trials on this machine.

    Args:
        settings: Settings in force.
        jobs: Folder for jobs, logs and outcomes.
        slots: How many trials at once; None: one for each free GPU, else one for every four CPU cores.
    """

    poll_s = 0.5

    def __init__(self, settings: Settings, jobs: Path, *, slots: int | None = None) -> None:
        self._settings, self._jobs = settings, jobs
        self._root = settings.root or require_root()
        self._slots = _gpu_slots(settings, slots) or _cpu_slots(slots)
        self._handles: list[LocalHandle] = []

    def slots(self) -> list[Slot]:
        """The room there is."""
        return list(self._slots)

    def start(self, trial: Trial, slot: Slot) -> LocalHandle:
        """Run a trial in a process of its own, which outlives this one."""
        job = write_job(self._jobs, trial, slot)
        with beside(job, LOG).open("ab") as log:
            process = subprocess.Popen(
                worker_command(job),
                cwd=self._root,
                env={**os.environ, **(slot.environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A terminal's Ctrl-C is for the loop, which stops its trials in good order.
                start_new_session=True,
            )
        return self._handle(trial, job, process)

    def attach(self, trial: Trial) -> LocalHandle | None:
        """A trial that an earlier client has started, when it runs or has ended."""
        job = job_file(self._jobs, trial)
        handle = LocalHandle(self._record_folder(trial), job, None)
        if handle.is_alive() or (outcome(job) or {}).get("status") in ("done", "failed"):
            return self._handle(trial, job, None)
        return None

    def close(self) -> None:
        """Stop what still runs."""
        for handle in self._handles:
            handle.stop()

    def _handle(self, trial: Trial, job: Path, process: subprocess.Popen[bytes] | None) -> LocalHandle:
        handle = LocalHandle(self._record_folder(trial), job, process)
        self._handles.append(handle)
        return handle

    def _record_folder(self, trial: Trial) -> Path:
        return self._settings.output_dir / "runs" / trial.run_id


class LocalHandle:
    """A trial's process.

    Args:
        folder: The run's folder.
        job: The job's file.
        process: The process, when this client has started it.
    """

    def __init__(self, folder: Path, job: Path, process: subprocess.Popen[bytes] | None) -> None:
        self._folder, self._job, self._process = folder, job, process
        self._stopped = False

    def is_alive(self) -> bool:
        """Whether the process runs."""
        if self._process is not None:
            return self._process.poll() is None
        facts = _facts(self._job)
        return bool(facts) and provenance.is_gone(facts) is False

    def poll(self) -> Progress:
        """How far the trial is."""
        alive = self.is_alive()
        record = Run(self._folder).read() if (self._folder / RECORD_FILE).is_file() else None
        if alive:
            return Progress("running", record)
        ended = outcome(self._job)
        if ended is None and self._process is not None and (self._process.returncode or 0) > 0:
            # It could not even begin.
            return Progress("failed", record, last_line(beside(self._job, LOG)))
        if ended is None:
            # Ended from outside, or stopped before it had begun: what was saved stands.
            return Progress("cut", record, "" if self._stopped else "Its process was ended from outside.")
        return Progress(ended["status"], record, ended["error"])

    def stop(self) -> None:
        """Ask it to save and end."""
        if self._stopped or not self.is_alive():
            return
        self._stopped = True
        pid = self._process.pid if self._process is not None else int(_facts(self._job)["pid"])
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def job_file(jobs: Path, trial: Trial) -> Path:
    """Where a trial's job stands."""
    return jobs / f"t{trial.number}.json"


def write_job(jobs: Path, trial: Trial, slot: Slot, *, with_parent: bool = False) -> Path:
    """Write what a trial runs; an earlier outcome goes, unless it is final."""
    make_folder(jobs)
    job = job_file(jobs, trial)
    if (outcome(job) or {}).get("status") == "cut":
        beside(job, OUTCOME).unlink(missing_ok=True)
    overrides = {**trial.overrides, **(slot.overrides or {})}
    write_json(job, {"run_id": trial.run_id, "overrides": overrides, "with_parent": with_parent})
    return job


def worker_command(job: Path) -> list[str]:
    """The command that runs a job."""
    return [sys.executable, "-m", "kaggle_workbench.tuning.engines.worker", str(job)]


def last_line(log: Path) -> str:
    """What a process said last."""
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return show.one_line(lines[-1]) if lines else "It ended without a word."
    return "It ended without a word."


def _facts(job: Path) -> Mapping[str, Any]:
    import json

    try:
        facts = json.loads(beside(job, STARTED).read_bytes())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _gpu_slots(settings: Settings, count: int | None) -> list[Slot]:
    if settings.gpu_count == 0:
        return []
    found = devices.driver_gpus()
    if not found:
        return []
    free = [gpu for gpu in found if gpu.memory is None or gpu.free is None or gpu.memory - gpu.free < BUSY_BYTES]
    if not free:
        raise WorkError(
            "All GPUs of this machine are in use.",
            hint="Wait, or end what `./kwb gpus` shows on them; or --gpus 0 for trials on the CPU.",
        )
    free = sorted(free, key=lambda gpu: -(gpu.free or 0))[: min(count or len(free), settings.gpu_count or len(free))]
    return [
        Slot(f"gpu-{gpu.index}", f"GPU {gpu.index} ({gpu.name})", {"CUDA_VISIBLE_DEVICES": gpu.uuid}, {"GPU_COUNT": 1})
        for gpu in free
    ]


def _cpu_slots(count: int | None) -> list[Slot]:
    cores = devices.cpu_cores()
    number = count or max(1, cores // CORES_PER_TRIAL)
    threads = str(max(1, cores // number))
    environment = {"OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads}
    return [
        Slot(f"cpu-{i}", f"CPU slot {i}", environment if number > 1 else {}, {"GPU_COUNT": 0}) for i in range(number)
    ]
