"""A writer in the background, so that a training does not wait for the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class BackgroundWriter:
    """Runs one piece of work at a time in a thread; a second one waits for the first.

    The thread is no daemon: at the end of the process Python waits until a begun file is whole.

    Attributes:
        longest_s: The longest time one piece of work has taken, in seconds.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def submit(self, work: Callable[[], Any]) -> None:
        """Begin `work` in the background; waits for the one before.

        Raises:
            BaseException: What the work before has raised.
        """
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), name="checkpoint writer")
        self._thread.start()

    def wait(self) -> None:
        """Wait for the work at hand.

        Raises:
            BaseException: What it has raised; once.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    @property
    def busy(self) -> bool:
        """Whether work is at hand."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self, work: Callable[[], Any]) -> None:
        started = time.perf_counter()
        try:
            work()
        except BaseException as error:
            self._error = error
        self.longest_s = max(self.longest_s, time.perf_counter() - started)
