"""Uploads in the background: a slow or failing store neither slows a training nor keeps Python from ending."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.stores.store import Store

# What names other files goes after those it names.
GOES_LAST = "record.json"
# A folder of which the store holds what the local one does: what is pruned here is pruned there.
MIRRORED = "checkpoints"
# Names only; a run with more files than that is none of a training.
MOST_WAITING = 10_000
MOST_TRIES = 8
GAP_S = 2.0
SAY_EVERY_S = 10.0
# A store that has failed for so long is not waited for at the end of a stage, but for a last attempt.
DEAD_S = 30.0
LAST_ATTEMPT_S = 10.0


@dataclass
class _Job:
    name: str
    path: Path
    tries: int = 0
    # For a file that goes last: its content when its turn came, and the names it still waits for.
    content: bytes | None = None
    after: set[str] = field(default_factory=set)


class Uploader:
    """Puts files into a store, one after the other, in a thread of its own.

    Of a name that is put again while it waits, only the newest content goes. A run's record goes after all files
    that were put before it, so that a store's record names nothing that is not there: put a file first, then
    change the record, then put the record. What fails is tried again, with growing pauses; what was deleted here
    meanwhile is left out. Trouble is said once when it begins and once when it ends.

    Args:
        store: Where to.
        sent: Called in the thread after each upload with name, path, and the file's size and time of change.
        first_pause_s: Pause after a first failure; doubled with each further one.
        longest_pause_s: Longest such pause.
        gap_s: Shortest time between two uploads of one name (stores limit that).
    """

    def __init__(
        self,
        store: Store,
        *,
        sent: Callable[[str, Path, tuple[int, int]], None] | None = None,
        first_pause_s: float = 1.0,
        longest_pause_s: float = 60.0,
        gap_s: float = GAP_S,
    ) -> None:
        self.store = store
        self.slowest_s = 0.0
        self._sent, self._gap_s = sent, gap_s
        self._first_pause_s, self._longest_pause_s = first_pause_s, longest_pause_s
        self._waiting: dict[str, _Job] = {}
        self._held: dict[str, _Job] = {}
        self._busy: _Job | None = None
        self._last_sent: dict[str, float] = {}
        self._mirrored: dict[str, Path] = {}
        self._failures, self._in_a_row, self._last_error = 0, 0, ""
        self._since = 0.0
        self._said = False
        self._given_up: list[str] = []
        self._not_before = 0.0
        self._finishing = self._closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._work, name="uploads", daemon=True).start()

    def put(self, name: str, path: Path) -> None:
        """Have a file uploaded; never waits for the store.

        Args:
            name: Its name in the store, as in `<run>/checkpoints/x`.
            path: The file, read when its turn comes.
        """
        with self._changed:
            if len(self._waiting) >= MOST_WAITING and name not in self._waiting:
                oldest = next((each for each in self._waiting if not _goes_last(each)), next(iter(self._waiting)))
                self._give_up(oldest, "too many files are waiting")
                del self._waiting[oldest]
                self._not_waited_for(oldest)
            # Behind the others: what it names was put before it.
            self._waiting.pop(name, None)
            self._waiting[name] = _Job(name, path)
            self._changed.notify_all()

    def knows(self, name: str, path: Path) -> None:
        """Say that the store holds this file already; a mirrored one goes there when it goes here."""
        with self._changed:
            if PurePosixPath(name).parent.name == MIRRORED:
                self._mirrored[name] = path

    def waiting(self) -> list[str]:
        """Names not uploaded yet."""
        with self._changed:
            busy = [self._busy.name] if self._busy else []
            return list(dict.fromkeys([*busy, *self._held, *self._waiting]))

    def problems(self) -> list[str]:
        """Sentences: what was not uploaded, and why; empty when all is there."""
        found = [f"{name} was not uploaded to {self.store.address}" for name in dict.fromkeys(self._given_up)]
        found += [f"{name} is not uploaded to {self.store.address} yet" for name in self.waiting()]
        return [*found, self._last_error] if found and self._last_error else found

    def facts(self) -> dict[str, Any] | None:
        """For the record: how many attempts failed, the last cause, what is missing; None when nothing failed."""
        missing = [*dict.fromkeys(self._given_up), *self.waiting()]
        if not self._failures and not missing:
            return None
        return {"problems": self._failures, "last": self._last_error or None, "missing": missing}

    def finish(self, timeout_s: float) -> bool:
        """Wait until all is uploaded.

        Args:
            timeout_s: Longest wait in seconds; what waits then goes on in the background while the process lives.

        Returns:
            Whether everything is in the store.
        """
        began = time.monotonic()
        end = began + timeout_s
        say_at = time.monotonic() + SAY_EVERY_S / 5
        with self._changed:
            self._finishing = True
            self._not_before = 0.0
            self._changed.notify_all()
        try:
            while (left := self.waiting()) and time.monotonic() < end:
                if time.monotonic() >= say_at:
                    say_at = time.monotonic() + SAY_EVERY_S
                    show.note(
                        f"Uploading to {self.store.address}: {show.plural(len(left), 'file')} left "
                        f"(at most {end - time.monotonic():.0f} s more)."
                    )
                if self.in_trouble and time.monotonic() - max(self._since + DEAD_S, began + LAST_ATTEMPT_S) > 0:
                    break
                with self._changed:
                    self._changed.wait(0.2)
        finally:
            self._finishing = False
        return not self.waiting() and not self._given_up

    @property
    def in_trouble(self) -> bool:
        """Whether the last attempts all failed."""
        return self._in_a_row >= 2

    def close(self) -> None:
        """End the thread; what still waits is left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # --- In the thread ---

    def _work(self) -> None:
        while True:
            with self._changed:
                while (job := self._next()) is None:
                    if self._closed:
                        return
                    self._changed.wait(0.2 if self._waiting or self._held else None)
                if self._closed:
                    return
                self._busy = job
            began = time.monotonic()
            try:
                self._upload(job)
            except FileNotFoundError:
                # Replaced by a newer one before its turn came.
                self._settled(job)
            except Exception as error:
                self._failed(job, error, began)
            else:
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self._done(job)

    def _next(self) -> _Job | None:
        """The next upload whose time has come; called with the lock."""
        now = time.monotonic()
        if now < self._not_before:
            return None
        for name, job in self._held.items():
            if not job.after:
                return self._held.pop(name)
        for name, job in list(self._waiting.items()):
            if name in self._held or (
                not self._finishing and now - self._last_sent.get(name, float("-inf")) < self._gap_s
            ):
                continue
            if _goes_last(name) and self._hold(job):
                continue
            return self._waiting.pop(name)
        return None

    def _hold(self, job: _Job) -> bool:
        """Whether a record has to wait; its content is read now, and what it may name is what waits now."""
        try:
            job.content = job.path.read_bytes()
        except OSError:
            return False
        after = {name for name in self._waiting if not _goes_last(name)}
        if not after:
            return False
        job.after = after
        self._held[job.name] = self._waiting.pop(job.name)
        return True

    def _upload(self, job: _Job) -> None:
        if job.content is not None:
            self.store.put(job.name, job.content)
            return
        facts = job.path.stat()
        self.store.put(job.name, job.path)
        if self._sent is not None:
            self._sent(job.name, job.path, (facts.st_size, facts.st_mtime_ns))
        if PurePosixPath(job.name).parent.name == MIRRORED:
            with self._changed:
                self._mirrored[job.name] = job.path
                gone = [name for name, path in self._mirrored.items() if not path.exists() and path.parent.is_dir()]
            for name in gone:
                self.store.delete(name)
                self._mirrored.pop(name, None)

    def _settled(self, job: _Job) -> None:
        with self._changed:
            self._busy = None
            self._not_waited_for(job.name)
            self._changed.notify_all()

    def _not_waited_for(self, name: str) -> None:
        """Let records go without this file; called with the lock."""
        for held in self._held.values():
            held.after.discard(name)

    def _done(self, job: _Job) -> None:
        self._last_sent[job.name] = time.monotonic()
        self._in_a_row = 0
        self._given_up = [name for name in self._given_up if name != job.name]
        self._settled(job)
        if self._said:
            self._said = False
            show.note(f"The store {self.store.address} takes files again.")

    def _failed(self, job: _Job, error: Exception, began: float) -> None:
        job.tries += 1
        self._failures += 1
        if not self._in_a_row:
            self._since = began
        # A call without an answer tells as much as several refusals.
        self._in_a_row += 1 if time.monotonic() - began < DEAD_S / 2 else 2
        self._last_error = error.message if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {error}"
        with self._changed:
            pause = min(self._first_pause_s * 2 ** (self._in_a_row - 1), self._longest_pause_s)
            self._not_before = time.monotonic() + (min(pause, 2.0) if self._finishing else pause)
            if job.name in self._waiting or job.name in self._held:
                pass  # A newer one waits.
            elif job.tries >= MOST_TRIES and self._in_a_row < MOST_TRIES:
                # The store takes others: it is this one.
                self._give_up(job.name, self._last_error)
            elif job.content is not None:
                self._held[job.name] = job
            else:
                self._waiting[job.name] = job
            self._busy = None
            if job.name not in self._waiting:
                self._not_waited_for(job.name)
            self._changed.notify_all()
        # One failure that the next attempt mends is in the record; a person need not know.
        if self.in_trouble and not self._said:
            self._said = True
            show.warn(f"{self._last_error} It is tried again in the background; local copies stand.")

    def _give_up(self, name: str, why: str) -> None:
        self._given_up.append(name)
        self._last_error = why


def _goes_last(name: str) -> bool:
    return PurePosixPath(name).name == GOES_LAST
