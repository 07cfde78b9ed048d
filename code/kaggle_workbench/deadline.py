"""When a session ends, and how a training is asked to save and stop before that.

Free sessions end by the clock, some when nobody looks. `Deadline` knows when; `Pause` turns Ctrl-C and SIGTERM
into a request that a training answers at its next step, with a checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from kaggle_workbench.errors import PausedError
from kaggle_workbench.settings import Settings

# Kept free at a session's end for the last upload and the notebook's own end.
RESERVE_S = 180.0
RESERVE_SHARE = 0.05
TWICE_S = 5.0
# In these places the session began with the container, long before this step.
COUNTED_FROM_PROCESS_1 = ("kaggle", "colab")


class Deadline:
    """The end of this session, if it has one.

    Args:
        settings: Their `session_hours` (by place, unless SESSION_HOURS is set) and place.
        upload_s: Asked how many seconds the last upload may take; added to what is kept free.
        age_s: Asked how many seconds ago process 1 began; None when it cannot be told.

    Attributes:
        started: When the session began, as far as it can be told.
        ends: When it ends; None: no end is known.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        upload_s: Callable[[], float] = lambda: 0.0,
        age_s: Callable[[], float | None] | None = None,
    ) -> None:
        self._settings, self._upload_s = settings, upload_s
        self.started = datetime.now(UTC)
        hours = settings.session_hours
        length_s = 3600 * hours if hours is not None else None
        if settings.place.name in COUNTED_FROM_PROCESS_1:
            age = (age_s or process_1_age_s)()
            # An age beyond the session's length is another container's: this one would have ended.
            if age is not None and (length_s is None or age < length_s):
                self.started -= timedelta(seconds=age)
        # Waits are counted on the clock that no one sets.
        self._ends_at = None
        self.ends: datetime | None = None
        self._reserve_s = 0.0
        if length_s is not None:
            self.ends = self.started + timedelta(seconds=length_s)
            self._ends_at = time.monotonic() + (self.ends - datetime.now(UTC)).total_seconds()
            self._reserve_s = min(RESERVE_S, RESERVE_SHARE * length_s)

    def left_s(self) -> float:
        """Seconds until the session's end; infinite without one, never below 0."""
        return float("inf") if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    def due(self, needed_s: float = 0.0) -> bool:
        """Whether it is time to save and stop.

        Args:
            needed_s: Seconds that the next piece of work and its checkpoint take.
        """
        if self._ends_at is None:
            return False
        return self.left_s() <= self._reserve_s + needed_s + min(self._upload_s(), 10 * RESERVE_S)

    def sentence(self) -> str:
        """What a person should know when a training begins; "" where nothing ends it."""
        place = self._settings.place
        parts = []
        if self.ends is not None:
            parts.append(
                f"This session is counted as {self._settings.session_hours:g} hours: it ends at "
                f"{self.ends:%Y-%m-%d %H:%M} UTC (in {_span(self.left_s())}). "
                "Training saves and stops before that. SESSION_HOURS says another length."
            )
        if place.idle_minutes is not None:
            parts.append(
                f"{place.title} may end a session after {place.idle_minutes:g} minutes without a person at it; "
                f"a checkpoint is written at least every {checkpoint_minutes(self._settings):g} minutes."
            )
        return " ".join(parts)


def checkpoint_minutes(settings: Settings) -> float:
    """Longest time between two checkpoints, in minutes: as set, but never over half of the place's idle limit."""
    idle = settings.place.idle_minutes
    return settings.checkpoint_minutes if idle is None else min(settings.checkpoint_minutes, idle / 2)


def process_1_age_s(proc: Path = Path("/proc")) -> float | None:
    """How many seconds ago process 1 began: the age of this container; None where it cannot be told."""
    try:
        uptime = float((proc / "uptime").read_text(encoding="ascii").split()[0])
        stat = (proc / "1" / "stat").read_text(encoding="ascii", errors="replace")
        # The 22nd field, in clock ticks since the system's start; the second one may hold blanks and brackets.
        age = uptime - int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    return max(0.0, age)


class Pause:
    """Takes Ctrl-C and SIGTERM while a training runs: the first one asks, a second within 5 s stops at once.

    Use it as a context manager, or enter and exit it from callbacks; entering twice is fine. It works in the main
    thread only (elsewhere Python cannot take signals) and puts back what was there before.

    Args:
        say: Called once with a sentence when a signal has come.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say
        self._before: dict[int, Any] = {}
        self._asked: str | None = None
        self._asked_at = float("-inf")
        self._told = False

    def asked(self) -> str | None:
        """What asked for a stop ("Ctrl-C", "SIGTERM"), or None; whoever is told stops."""
        self._told = self._told or self._asked is not None
        return self._asked

    def clear(self) -> None:
        """Forget what was asked; the next training starts without it."""
        self._asked, self._asked_at, self._told = None, float("-inf"), False

    @property
    def active(self) -> bool:
        """Whether the signals come here now."""
        return bool(self._before)

    def __enter__(self) -> Pause:
        if not self._before:
            self.clear()
        if not self._before and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.signal(number, self._take)
                # None: set by something that is not Python; it cannot be put back by Python either.
                self._before[number] = before if before is not None else signal.SIG_DFL
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.release()
        if kind is None and self._asked is not None and not self._told:
            # The training came to its end before it looked; what follows was not wanted any more.
            self._told = True
            raise KeyboardInterrupt(self._asked)

    def release(self) -> None:
        """Put back the handlers from before; fine to call at any time."""
        if threading.current_thread() is not threading.main_thread():
            return
        while self._before:
            number, before = self._before.popitem()
            if signal.getsignal(number) == self._take:
                signal.signal(number, before)

    def _take(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
        if now - self._asked_at < TWICE_S:
            self._told = True
            self.release()
            raise KeyboardInterrupt(f"{name} twice within {TWICE_S:g} s")
        self._asked, self._asked_at, self._told = name, now, False
        if self._say is not None:
            text = f"{name}: saving, then stopping. Once more within {TWICE_S:g} s stops at once, without saving."
            try:
                self._say(text)
            except RuntimeError:
                # Printing is what was interrupted, and cannot be begun twice.
                with contextlib.suppress(OSError):
                    os.write(2, f"{text}\n".encode())


def paused(run_id: str, why: str, *, store: str | None = None) -> PausedError:
    """The error a training ends with when it was saved and stopped.

    Args:
        run_id: The run.
        why: What stopped it and what is saved, as a sentence.
        store: The store's address (masked) when there is one: elsewhere one goes on from there.
    """
    hint = f"Go on with: ./kwb run train --resume {run_id}"
    hint += f"\nor in the notebook: RUN_ID = {run_id!r} in the parameters cell, then Run All."
    if store:
        hint += f"\nIn another place the same, with STORE set to {store} there."
    return PausedError(why, hint=hint)


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
