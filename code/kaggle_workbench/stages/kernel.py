"""Stopping a notebook that `kwb run` executes: its kernel is asked, waited for, and ended only when it must be."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.deadline import TWICE_S

# A training writes its checkpoint and uploads it; other stages have nothing to save.
TRAIN_WAIT_S = 120.0
OTHER_WAIT_S = 20.0
AT_ONCE_WAIT_S = 4.0
_TICK_S = 0.05


class Stopper:
    """Takes Ctrl-C and SIGTERM while a notebook runs, and hands them to its kernel.

    The kernel lives in a session of its own, so a terminal's Ctrl-C does not reach it. The first signal asks it: a
    training saves and stops, other cells stop where they are. A second one within 5 s stops without saving. When the
    kernel has not answered in time, it is ended.

    Args:
        stage: Name of the stage.

    Attributes:
        asked: Whether a signal has come.
        killed: Whether the kernel was ended because it did not answer.
    """

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.asked = self.killed = False
        self._wait_s = TRAIN_WAIT_S if stage == "train" else OTHER_WAIT_S
        self._managers: list[Any] = []
        self._ready = False
        self._last = float("-inf")
        self._kill_at = float("inf")
        self._over = threading.Event()
        self._before: dict[int, Any] = {}

    def options(self) -> dict[str, Any]:
        """What papermill must be told, so that the kernel is known here."""
        from jupyter_client.manager import AsyncKernelManager

        managers = self._managers

        class Known(AsyncKernelManager):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                managers.append(self)

        return {"kernel_manager_class": Known, "on_cell_start": self._cell_begins}

    def __enter__(self) -> Stopper:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._take) or signal.SIG_DFL
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        for manager in self._managers:
            # Left in the temporary folder when a kernel is ended while it starts.
            manager.cleanup_connection_file()
        for number, before in self._before.items():
            signal.signal(number, before)

    # --- Inside ---

    def _cell_begins(self, **_: Any) -> None:
        self._ready = True

    def _take(self, number: int, frame: FrameType | None) -> None:
        name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
        now, twice = time.monotonic(), time.monotonic() - self._last < TWICE_S
        self._last = now
        pid = self._pid()
        if pid is None or not self._ready:
            # Nothing is open in it yet. A kernel that is interrupted while it starts would print a trace.
            if pid is not None:
                _end(pid)
            self.asked = True
            raise KeyboardInterrupt(name)
        if twice:
            show.note(f"{name} again: stopping at once.")
            self._kill_at = now + AT_ONCE_WAIT_S
        elif self.asked:
            show.note(f"{name}: still waiting for the notebook. Twice within {TWICE_S:g} s stops it at once.")
            return
        elif self.stage == "train":
            show.note(
                f"{name}: a training that runs saves and stops (at most {self._wait_s:.0f} s). "
                f"Once more within {TWICE_S:g} s stops at once, without saving."
            )
            self._kill_at = now + self._wait_s
        else:
            show.note(f"{name}: stopping.")
            self._kill_at = now + self._wait_s
        threading.Thread(target=self._ask, args=(pid,), daemon=True).start()
        if not self.asked:
            self.asked = True
            threading.Thread(target=self._watch, args=(pid,), daemon=True).start()

    def _ask(self, pid: int) -> None:
        # Between two cells a kernel ignores the signal; a cell comes in a moment, or the notebook ends.
        while _ignores_interrupt(pid) and not self._over.wait(_TICK_S):
            continue
        if not self._over.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)

    def _watch(self, pid: int) -> None:
        while not self._over.wait(_TICK_S):
            if time.monotonic() > self._kill_at:
                self.killed = True
                _end(pid)
                return

    def _pid(self) -> int | None:
        provisioner = getattr(self._managers[-1], "provisioner", None) if self._managers else None
        return getattr(provisioner, "pid", None)


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _ignores_interrupt(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        mask = int(status.partition("SigIgn:")[2].split()[0], 16)
    except (OSError, ValueError, IndexError):
        return False
    return bool(mask >> (signal.SIGINT - 1) & 1)
