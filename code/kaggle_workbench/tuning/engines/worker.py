"""One trial in a process of its own: `python -m kaggle_workbench.tuning.engines.worker JOB`.

JOB is a JSON file: {run_id, overrides, with_parent}. A lock beside it holds as long as the process lives, so that no
trial runs twice at once, whoever started it; the outcome is written beside it: {status, error}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kaggle_workbench import provenance
from kaggle_workbench.errors import PausedError, WorkbenchError
from kaggle_workbench.files import locked, write_json
from kaggle_workbench.records import RECORD_FILE, Run, trained_at
from kaggle_workbench.settings import load_settings

LOCK, OUTCOME, LOG, STARTED = ".lock", ".outcome.json", ".log", ".process.json"
_WAIT_S = 24 * 3600.0
# A notebook's kernel that has lost its parent ends by itself within a second or two.
_KERNEL_S = 30.0
_TICK_S = 0.5


def beside(job: Path, ending: str) -> Path:
    """A file that belongs to a job."""
    return job.with_suffix(ending)


def outcome(job: Path) -> dict[str, Any] | None:
    """What a job ended with; None when it has not."""
    try:
        document = json.loads(beside(job, OUTCOME).read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def main(job: Path) -> int:
    """Run the job, unless it is done already."""
    # Ray's processes, and those started in the background, hand down "Ctrl-C is ignored" to the notebook's kernel.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    asked = json.loads(job.read_bytes())
    parent = os.getppid()
    with locked(beside(job, LOCK), what=f"trial {asked['run_id']}", timeout_s=_WAIT_S):
        if (outcome(job) or {}).get("status") in ("done", "failed"):
            return 0
        write_json(beside(job, STARTED), provenance.this_process())
        if asked.get("with_parent"):
            threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        result = _run(asked)
        write_json(beside(job, OUTCOME), result)
    return 0 if result["status"] == "done" else 1


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    from kaggle_workbench.stages.execute import run_stages

    run_id = asked["run_id"]
    try:
        folder = load_settings({"OUTPUT_DIR": asked["overrides"].get("OUTPUT_DIR")}).output_dir / "runs" / run_id
        _wait_for_kernel(folder)
        if _is_trained(folder):
            # The worker before was killed between the end of the training and its own last word.
            return {"status": "done", "error": ""}
        run_stages(["train"], overrides={**asked["overrides"], "RUN_ID": run_id})
    except (PausedError, KeyboardInterrupt) as error:
        return {"status": "cut", "error": getattr(error, "message", "") or "It was stopped."}
    except WorkbenchError as error:
        return {"status": "failed", "error": error.message}
    except Exception as error:
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return {"status": "done", "error": ""}


def _wait_for_kernel(folder: Path) -> None:
    """The notebook's process of a worker that was killed may live for a moment more."""
    until = time.monotonic() + _KERNEL_S
    while time.monotonic() < until and (folder / RECORD_FILE).is_file():
        running = [step for step in Run(folder).read()["steps"] if step["status"] == "running"]
        if all(provenance.is_gone(step["process"]) is not False for step in running):
            return
        time.sleep(_TICK_S)


def _is_trained(folder: Path) -> bool:
    return (folder / RECORD_FILE).is_file() and bool(trained_at(Run(folder).read()))


def _end_with(parent: int) -> None:
    """Save and stop when the process that asked for this is gone: the trial goes on elsewhere."""
    while os.getppid() == parent:
        time.sleep(_TICK_S)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
