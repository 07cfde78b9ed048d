"""The child process that measures one device: its framework, its memory and its crashes are its own.

Started by `child`, with a job as one line of JSON on stdin; answers in lines of JSON on stdout. It
ends when stdin does, however its parent ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from kaggle_workbench import devices, provenance
from kaggle_workbench.errors import WorkbenchError, WorkError
from kaggle_workbench.settings import load_settings

# Names that set how many threads a framework starts; recorded, since they change the result.
THREAD_NAMES = (
    "OMP_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "XLA_FLAGS",
)
FLAG_NAMES = ("TF_ENABLE_ONEDNN_OPTS", "NVIDIA_TF32_OVERRIDE", "TF_XLA_FLAGS")
PACKAGES = {"tensorflow": ("tensorflow", "tensorflow-cpu"), "jax": ("jax",), "torch": ("torch",)}


def main() -> int:
    """Measure what the job asks for; the exit code is 0 when an answer was given, be it an error."""
    answers = _private_stdout()

    def tell(event: str, **facts: Any) -> None:
        answers.write(json.dumps({"event": event, **facts}) + "\n")
        answers.flush()

    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        tell("result", **_measure(job, tell))
    except WorkbenchError as error:
        tell("error", message=error.message, hint=error.hint, exit_code=error.exit_code)
    except Exception as error:
        traceback.print_exc()
        first = next(iter(str(error).strip().splitlines()), "")[:300]
        tell("error", message=f"{type(error).__name__}: {first}", hint="", exit_code=WorkError.exit_code)
    return 0


def _measure(job: dict[str, Any], tell: Any) -> dict[str, Any]:
    from kaggle_workbench.benchmark import measure
    from kaggle_workbench.benchmark.workload import Source, Workload, load_digits

    settings = load_settings()
    tell("said", text="starting")
    devices.prepare(settings)
    decision = devices.decide(settings)
    if settings.keras_backend == "tensorflow":
        devices.end_iterators_at_once()
    wanted = "cpu" if settings.gpu_count == 0 else "gpu"
    if decision.kind != wanted:
        raise WorkError(
            f"The {wanted.upper()} was to be measured, but what computes is {decision.line}.",
            hint="./kwb gpus --proof shows what the driver and the framework count.",
        )
    workload = Workload(**job["workload"])
    digits = load_digits(Source(job["source"]["kind"], Path(job["source"]["file"])), workload)
    watch = devices.GpuWatch(decision)
    watch.start()
    try:
        found = (measure.quick if job["quick"] else measure.full)(digits, workload, tell)
    except Exception:
        # Of a GPU that is gone the framework says something else each time; this names it.
        watch.check()
        raise
    finally:
        used = watch.stop()
    return {
        **found,
        "peak_memory_bytes": provenance.peak_memory_bytes(),
        "peak_gpu_memory_bytes": used["peak_gpu_memory_bytes"],
        "mean_gpu_utilisation": used["mean_gpu_utilisation"],
        "precision": "float32",
        "decision": decision.line,
        "different_rows": {"train": digits.different_train, "dev": digits.different_dev},
        "versions": _versions(settings.keras_backend),
        "threads": {
            "usable": devices.cpu_cores(),
            "set": {name: os.environ[name] for name in (*THREAD_NAMES, *FLAG_NAMES) if os.environ.get(name)},
        },
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def _versions(backend: str) -> dict[str, str]:
    names = ("python", "kaggle-workbench", "keras", "numpy", *PACKAGES[backend])
    found = provenance.versions()
    return {name: found[name] for name in names if name in found}


def _private_stdout() -> IO[str]:
    """Our own stdout for answers; what libraries print goes to stderr instead."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _end_with_parent() -> None:
    while sys.stdin.buffer.read(1):
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
