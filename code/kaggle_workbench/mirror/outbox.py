"""Sending records while a stage works: from a thread of its own, the newest of each run, for as long as it takes."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench import records, show
from kaggle_workbench.mirror.address import Address, address
from kaggle_workbench.settings import Settings

if TYPE_CHECKING:
    from kaggle_workbench.mirror.problems import Problem
    from kaggle_workbench.mirror.server import Runs

# More runs than this at once in one process are not expected; the oldest goes, and `kwb runs sync` brings it.
MOST_RUNS = 200
# Several writes within a moment become one.
SETTLE_S = 0.2
SEEN_EVERY_S = 60.0
WAITS_S = (2.0, 5.0, 15.0, 60.0)
EXIT_S = 3.0
DOWN_S = 2.0


class Outbox:
    """What waits to be sent, and the thread that sends it.

    Args:
        where: The server.
    """

    def __init__(self, where: Address) -> None:
        self.where = where
        self.problem: Problem | None = None
        self._waiting: dict[str, tuple[Path, Mapping[str, Any]]] = {}
        self._alive: dict[str, bool] = {}
        self._busy = self._last = self._silent = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="mongodb", daemon=True)
        self._thread.start()

    def put(self, folder: Path, document: Mapping[str, Any]) -> None:
        """Take a record to be sent; an older one of the same run that still waits is forgotten. Never blocks."""
        with self._change:
            self._waiting.pop(document["uid"], None)
            self._waiting[document["uid"]] = (folder, document)
            if len(self._waiting) > MOST_RUNS:
                del self._waiting[next(iter(self._waiting))]
            self._change.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Send what waits, at most `timeout_s` (less when the server is down), then stop; whether all was sent."""
        started, told = time.monotonic(), False
        if self.problem is not None:
            # A server that is down is not waited for at the end of each stage.
            timeout_s = min(timeout_s, DOWN_S)
        with self._change:
            self._last = True
            self._change.notify_all()
            while self._thread.is_alive() and (left := started + timeout_s - time.monotonic()) > 0:
                self._change.wait(min(left, 0.1))
                if not told and self._waiting and time.monotonic() - started > 1:
                    told = True
                    show.note(f"Waiting for {self.where} to take the record (at most {timeout_s:.0f} s).")
            # Nobody listens any more: what the thread still meets is for the one who runs the next sync.
            self._silent = True
            return not self._waiting and not self._busy

    def names(self) -> list[str]:
        """The runs whose record still waits."""
        with self._change:
            return [folder.name for folder, _ in self._waiting.values()]

    # --- In the thread ---

    def _work(self) -> None:
        from kaggle_workbench.mirror import server
        from kaggle_workbench.mirror.problems import explained

        client: Any = None
        failures = 0
        while self._next(0.0 if client is None else SEEN_EVERY_S):
            try:
                if client is None:
                    client = server.connect(self.where)
                    runs = server.runs_of(client, self.where)
                    server.make_indexes(runs)
                self._send(runs)
            except Exception as error:
                failures += 1
                problem = explained(error, self.where)
                self._say(problem)
                if problem.lasting or self._pause(WAITS_S[min(failures, len(WAITS_S)) - 1]):
                    break
            else:
                if failures and not self._silent:
                    show.note(f"{self.where} answers again; the record is kept there, too.")
                failures, self.problem = 0, None
        with contextlib.suppress(Exception):
            if client is not None:
                client.close()
        with self._change:
            self._change.notify_all()

    def _next(self, patience_s: float) -> bool:
        """Wait for something to send, or for the time to say that the runs live; False at the end."""
        with self._change:
            started = time.monotonic()
            while not self._waiting and not self._last:
                left = started + patience_s - time.monotonic() if patience_s else None
                if left is not None and left <= 0:
                    return True
                self._change.wait(left)
            if self._waiting and not self._last:
                self._change.wait_for(lambda: self._last, SETTLE_S)
            return bool(self._waiting)

    def _send(self, runs: Runs) -> None:
        from bson.errors import BSONError

        from kaggle_workbench.mirror.writing import put, touch

        with self._change:
            batch, self._busy = list(self._waiting.items()), True
        try:
            for uid, (folder, document) in batch:
                # A run in which nothing was done is taken away again; it would come back with the next sync.
                if _is_there(folder, uid):
                    try:
                        put(runs, document)
                    except BSONError as error:
                        show.warn(f"The record of {folder.name} is no document for MongoDB ({error}).")
                    self._alive[uid] = document["status"] == "running"
                with self._change:
                    if self._waiting.get(uid, (None, None))[1] is document:
                        del self._waiting[uid]
            if not batch:
                touch(runs, [uid for uid, alive in self._alive.items() if alive], datetime.now(UTC))
        finally:
            with self._change:
                self._busy = False
                self._change.notify_all()

    def _pause(self, seconds: float) -> bool:
        """Wait before trying again; True when there is no time for that any more."""
        with self._change:
            if self._last:
                return True
            self._change.wait_for(lambda: self._last, seconds)
            return False

    def _say(self, problem: Problem) -> None:
        if not self._silent and (self.problem is None or self.problem.cause != problem.cause):
            show.warn(
                f"{problem.cause} The run goes on, its record is in its folder; ./kwb runs sync sends it later. "
                f"{problem.mend}"
            )
        self.problem = problem


def _is_there(folder: Path, uid: str) -> bool:
    try:
        return uid.encode() in (folder / records.RECORD_FILE).read_bytes()
    except OSError:
        return False


_outbox: Outbox | None = None
_registered = False


def start(settings: Settings) -> None:
    """From now on send each record that is written to MONGODB_URI's server; without the setting nothing is done.

    Returns at once; trouble is said once, with cause and mend, and stops nothing.

    Args:
        settings: Settings in force.
    """
    global _outbox, _registered
    where = address(settings)
    if _outbox is not None:
        if where is not None and where.uri.reveal() == _outbox.where.uri.reveal() and _outbox.problem is None:
            return
        finish(0)
    if where is None:
        return
    _outbox = Outbox(where)
    records.listeners.append(_outbox.put)
    if not _registered:
        # What a stage writes when its notebook is left comes after its last cell.
        _registered = True
        atexit.register(finish, EXIT_S)


def finish(timeout_s: float = 10.0) -> bool:
    """Wait for what is still to be sent, and end what `start` began.

    Args:
        timeout_s: Longest wait in seconds.

    Returns:
        Whether the server holds every record; the names of others are said.
    """
    global _outbox
    outbox, _outbox = _outbox, None
    if outbox is None:
        return True
    with contextlib.suppress(ValueError):
        records.listeners.remove(outbox.put)
    done = outbox.close(timeout_s)
    if not done and timeout_s > 0:
        names = ", ".join(outbox.names()) or "a run"
        show.note(f"The record of {names} is not in MongoDB yet; ./kwb runs sync sends it.")
    return done
