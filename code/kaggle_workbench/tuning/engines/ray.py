"""Trials on a Ray cluster: each is a task, on whatever node has room; GPUs are Ray resources.

Checkpoints and records go to STORE, which all nodes reach, so that the trial of a node that died goes on elsewhere from
its last checkpoint: Ray starts the task again, and the run does the rest. Each node needs the project in the same
folder and an environment that can train, as in the container.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path
from typing import Any

import kaggle_workbench
from kaggle_workbench import records, show
from kaggle_workbench.errors import MissingError, WorkbenchError
from kaggle_workbench.records import RECORD_FILE, Run
from kaggle_workbench.settings import Settings, load_settings, require_root
from kaggle_workbench.stages import stored
from kaggle_workbench.tuning.engines import Progress, Slot
from kaggle_workbench.tuning.engines.local import CORES_PER_TRIAL
from kaggle_workbench.tuning.trial import Trial

AUTH = "RAY_AUTH_MODE"
# How often Ray takes a task up again whose node or process has died.
RETRIES = 20
# A trial that is asked to stop writes its checkpoint first.
STOP_S = 130.0
_LOOK_S = 5.0


class RayEngine:
    """Trials on a Ray cluster.

    Args:
        settings: Settings in force; without STORE, the study's folder holds it.
        jobs: Folder for jobs, logs and outcomes, on nodes that reach it.
        slots: How many trials at once; None: as many as the cluster has GPUs, else one for every four CPU cores.
        address: Of a running cluster; None: that of RAY_ADDRESS, else one is started on this machine, for this study.

    Raises:
        MissingError: Ray is not installed, or there is no cluster at the address.
    """

    poll_s = 0.5

    def __init__(self, settings: Settings, jobs: Path, *, slots: int | None = None, address: str | None = None) -> None:
        root = settings.root or require_root()
        place = settings.store or str(jobs.parent / "store")
        if not settings.store:
            show.note(f"STORE is not set: checkpoints go to {place}, which every node must reach.")
        self._settings = load_settings({"STORE": place})
        self._jobs, self._count = jobs, slots
        store = stored.store_of(self._settings, limit_s=stored.LOOK_S)
        if store is None:
            raise MissingError("There is no STORE.", hint="Set STORE to a folder or address that all nodes reach.")
        self._store = store
        self._overrides = {"STORE": place, "OUTPUT_DIR": str(settings.output_dir), "INPUT_DIR": str(settings.input_dir)}
        self._ray = _connect(address)
        self._where = {
            "root": str(root),
            "package": str(Path(kaggle_workbench.__file__).parent.parent),
            "jobs": str(jobs.resolve()),
        }
        self._handles: list[RayHandle] = []

    def slots(self) -> list[Slot]:
        """The room of the nodes that are alive."""
        found = self._ray.cluster_resources()
        gpus = 0 if self._settings.gpu_count == 0 else int(found.get("GPU", 0))
        if gpus:
            return [
                Slot(f"gpu-{i}", "a GPU", overrides={"GPU_COUNT": 1}) for i in range(min(gpus, self._count or gpus))
            ]
        cores = int(found.get("CPU", 0))
        number = min(self._count or max(1, cores // CORES_PER_TRIAL), max(1, cores))
        return [Slot(f"cpu-{i}", "CPU cores", overrides={"GPU_COUNT": 0}) for i in range(number)]

    def start(self, trial: Trial, slot: Slot) -> RayHandle:
        """Hand a trial to the cluster, which finds a node for it."""
        on_gpu = slot.id.startswith("gpu")
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        each = max(1, min(CORES_PER_TRIAL, cores // max(1, len(self.slots()))))
        job = {
            "run_id": trial.run_id,
            "overrides": {**trial.overrides, **(slot.overrides or {}), **self._overrides},
            "with_parent": True,
        }
        task = self._ray.remote(_task()).options(
            name=trial.run_id, num_cpus=1 if on_gpu else each, num_gpus=1 if on_gpu else 0, max_retries=RETRIES
        )
        handle = RayHandle(self, trial, task.remote(job, self._where, f"t{trial.number}"))
        self._handles.append(handle)
        return handle

    def attach(self, trial: Trial) -> RayHandle | None:
        """A trial that is done already; tasks of a client that is gone are ended by Ray."""
        record = self.record(trial, final=True)
        return RayHandle(self, trial, None) if record is not None and records.trained_at(record) else None

    def close(self) -> None:
        """Stop what still runs, wait for its checkpoints, and leave the cluster."""
        for handle in self._handles:
            handle.stop()
        left = [handle.ref for handle in self._handles if handle.ref is not None]
        with contextlib.suppress(Exception):
            self._ray.wait(left, num_returns=len(left), timeout=STOP_S)
        self._ray.shutdown()

    def record(self, trial: Trial, *, final: bool) -> dict[str, Any] | None:
        """A trial's record, from the store; `final` has the whole run brought here."""
        folder = self._settings.output_dir / "runs" / trial.run_id
        try:
            if final:
                stored.bring(self._settings, self._store, trial.run_id, checkpoints=False)
                return Run(folder).read() if (folder / RECORD_FILE).is_file() else None
            return stored.stored_record(self._store, trial.run_id)
        except WorkbenchError as error:
            # What a store does not say now, it may say at the next look.
            if final:
                show.warn(error.message)
            return Run(folder).read() if (folder / RECORD_FILE).is_file() else None


class RayHandle:
    """A trial's task.

    Args:
        engine: Its engine.
        trial: The trial.
        ref: Ray's reference to the outcome; None: it is done already.
    """

    def __init__(self, engine: RayEngine, trial: Trial, ref: Any) -> None:
        self.ref = ref
        self._engine, self._trial = engine, trial
        self._known: dict[str, Any] | None = None
        self._looked = float("-inf")
        self._ended: Progress | None = None

    def poll(self) -> Progress:
        """How far the trial is; its record is read every few seconds."""
        if self._ended is None and self.ref is None:
            self._ended = Progress("done", self._engine.record(self._trial, final=True))
        if self._ended is not None:
            return self._ended
        ray = self._engine._ray
        if ray.wait([self.ref], timeout=0)[0]:
            outcome = _outcome(ray, self.ref)
            self._ended = Progress(
                outcome["status"], self._engine.record(self._trial, final=True), outcome.get("error") or ""
            )
            return self._ended
        if time.monotonic() - self._looked > _LOOK_S:
            self._known = self._engine.record(self._trial, final=False)
            self._looked = time.monotonic()
        return Progress("running", self._known)

    def stop(self) -> None:
        """Ask it to save and end."""
        if self._ended is None and self.ref is not None:
            self._engine._ray.cancel(self.ref, force=False)


def _outcome(ray: Any, ref: Any) -> dict[str, Any]:
    try:
        return dict(ray.get(ref))
    except (ray.exceptions.TaskCancelledError, KeyboardInterrupt):
        return {"status": "cut"}
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return {"status": "cut", "error": f"Ray: {lines[-1]}"}


def _connect(address: str | None) -> Any:
    # Whoever reaches a cluster without a token runs code on all its nodes. `disabled` is the user's own word.
    os.environ.setdefault(AUTH, "token")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingError("Ray is not installed.", hint='Install it: .venv/bin/pip install "ray>=2.9"') from error
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"include_dashboard": False} if where == "local" else {}
    try:
        ray.init(address=where, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise MissingError(
            f"Ray's cluster ({where}) does not answer: {lines[0]}",
            hint=f"Is it running (`ray status`)? All nodes and this machine need the same {AUTH} (here: "
            f"{os.environ[AUTH]}), and with `token` the same token (docs/tuning.md).",
        ) from error
    return ray


def _task() -> Any:
    """The function that a node runs; made here, so that Ray sends it whole and a node need not import it."""

    def run_job(job: dict[str, Any], where: dict[str, str], name: str) -> dict[str, Any]:
        import json
        import os
        import subprocess
        import sys
        import tempfile
        import time
        from pathlib import Path

        root, folder = Path(where["root"]), Path(where["jobs"])
        if not (root / ".project" / "spec.yaml").is_file():
            return {"status": "failed", "error": f"The node {os.uname().nodename} has no project in {root}."}
        # Folders of the machine that asked, where this node has them; else its own settings hold.
        for setting in ("OUTPUT_DIR", "INPUT_DIR"):
            if not Path(job["overrides"][setting]).is_dir():
                del job["overrides"][setting]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            folder = Path(tempfile.mkdtemp(prefix="kwb-tune-"))
        outcome = folder / f"{name}.outcome.json"

        def ended() -> Any:
            try:
                return json.loads(outcome.read_bytes())
            except (OSError, ValueError):
                return {}

        if ended().get("status") == "cut":
            outcome.unlink(missing_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(job))
        path = os.pathsep.join(filter(None, (where["package"], os.environ.get("PYTHONPATH"))))
        words = [sys.executable, "-m", "kaggle_workbench.tuning.engines.worker", str(folder / f"{name}.json")]
        with (folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                words,
                cwd=root,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            while process.poll() is None:
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=125)
                except subprocess.TimeoutExpired:
                    process.kill()
        if process.returncode > 0 and not ended():
            said = (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            return {"status": "failed", "error": said[-1] if said else "It ended without a word."}
        return ended() or {"status": "cut", "error": "Its process was ended from outside."}

    return run_job
