"""A time limit for calls that cannot be told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
MOST_STUCK = 4


class Limiter:
    """Makes calls in threads of their own, and leaves those that take too long behind.

    The threads are daemons: a call that hangs for ever hinders neither the caller nor the interpreter's end. A
    handful that hang are enough: while they do, further calls are refused at once.
    """

    def __init__(self) -> None:
        self._stuck: list[threading.Thread] = []
        self._lock = threading.Lock()

    def call(self, work: Callable[[threading.Event], Result], limit_s: float) -> Result:
        """Call `work`, wait at most `limit_s` seconds for it.

        Args:
            work: Gets an event that is set when nobody waits any more: it should then leave things as they are.
            limit_s: Longest wait in seconds.

        Raises:
            TimeoutError: No answer in time, or too many earlier calls still hang.
        """
        with self._lock:
            self._stuck = [thread for thread in self._stuck if thread.is_alive()]
            if len(self._stuck) >= MOST_STUCK:
                raise TimeoutError("earlier calls still hang")
        given_up = threading.Event()
        answers: list[Result] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                answers.append(work(given_up))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, name="store call", daemon=True)
        thread.start()
        try:
            thread.join(limit_s)
        finally:
            if thread.is_alive():
                given_up.set()
                with self._lock:
                    self._stuck.append(thread)
        if errors:
            raise errors[0]
        if not answers:
            raise TimeoutError(f"no answer within {limit_s:.0f} s")
        return answers[0]
