"""The parent's side of a measurement: start the child, hear it out, end it in time.

The parent never imports a framework, so a device that takes its process down takes no other row with
it, and no device's set-up is seen by the next.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from kaggle_workbench.benchmark.targets import Target
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError, WorkError
from kaggle_workbench.settings import SECRET_NAMES

Event = Mapping[str, Any]
# A child tells of each half second of steps; only starting and compiling are silent for long.
SILENCE_S = 900.0
STOP_S = 5.0
LAST_LINES = 5
KINDS: Mapping[int, type[WorkbenchError]] = {2: UsageError, 3: MissingError}


def measure(
    target: Target,
    job: Mapping[str, Any],
    *,
    cwd: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    silence_s: float = SILENCE_S,
) -> dict[str, Any]:
    """Measure one device in a process of its own.

    Args:
        target: The device and the framework.
        job: What the worker is asked: workload, source, quick.
        cwd: The project's folder.
        on_event: Called with each thing the child tells.
        silence_s: Longest time without any word from it, in seconds.

    Returns:
        The child's result.

    Raises:
        WorkbenchError: The child says why it could not, has crashed, or has fallen silent.
    """
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            # -P: a keras.py in the current folder must not stand for Keras.
            [sys.executable, "-P", "-m", "kaggle_workbench.benchmark.worker"],
            env=_environment(target),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            # Ctrl-C is for us; we end the process ourselves.
            start_new_session=True,
        )
        try:
            return _listen(process, job, words, target, on_event, silence_s)
        finally:
            _end(process)


def _listen(
    process: subprocess.Popen[bytes],
    job: Mapping[str, Any],
    words: IO[bytes],
    target: Target,
    on_event: Callable[[Event], None] | None,
    silence_s: float,
) -> dict[str, Any]:
    heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_read, args=(process.stdout, heard), daemon=True).start()
    with contextlib.suppress(OSError):
        # Not closed afterwards: its end is what tells the child that we are gone.
        if process.stdin is not None:
            process.stdin.write((json.dumps(job) + "\n").encode())
            process.stdin.flush()
    deadline = time.monotonic() + silence_s
    while True:
        try:
            event = heard.get(timeout=min(1.0, silence_s))
        except queue.Empty:
            if time.monotonic() > deadline:
                raise WorkError(
                    f"{target.title}: nothing was heard for {silence_s / 60:.0f} minutes; the measurement was ended.",
                    hint=_last(words) or "Look at the machine: ./kwb gpus --proof",
                ) from None
            continue
        deadline = time.monotonic() + silence_s
        if event is None:
            raise _crash(process, words, target)
        kind = event.pop("event", "")
        if kind == "result":
            return event
        if kind == "error":
            raise KINDS.get(event["exit_code"], WorkError)(
                f"{target.title}: {event['message']}", hint=event["hint"] or _last(words)
            )
        if on_event is not None:
            on_event({"event": kind, **event})


def _read(stream: IO[bytes] | None, heard: queue.Queue[dict[str, Any] | None]) -> None:
    if stream is not None:
        with stream, contextlib.suppress(OSError, ValueError):
            for line in stream:
                heard.put(json.loads(line))
    heard.put(None)


def _crash(process: subprocess.Popen[bytes], words: IO[bytes], target: Target) -> WorkError:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=STOP_S)
    code = process.poll()
    how = f"ended with code {code}"
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            how = f"was ended by {signal.Signals(-code).name}"
    if code == -signal.SIGKILL:
        how += " (often: the machine is out of memory)"
    return WorkError(f"{target.title}: the measuring process {how}.", hint=_last(words))


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _last(words: IO[bytes]) -> str:
    """The last lines that the process wrote to its stderr, such as the end of a traceback."""
    words.seek(0)
    lines = words.read()[-20_000:].decode(errors="replace").strip().splitlines()
    return "\n".join(["Its last lines:", *(f"  {line[:200]}" for line in lines[-LAST_LINES:])]) if lines else ""


def _environment(target: Target) -> dict[str, str]:
    package = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    # A secret that the child does not have cannot leak.
    kept = {name: value for name, value in os.environ.items() if name not in SECRET_NAMES}
    return {
        **kept,
        **target.env,
        "PYTHONPATH": os.pathsep.join([package, *([inherited] if inherited else [])]),
        "PYTHONUTF8": "1",
    }
