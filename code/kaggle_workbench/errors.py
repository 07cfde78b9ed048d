"""The one root error and its kinds: every message says what, where and what to do.

A kind is an exit code. Raise the kind that tells the caller what to change: his input
(`UsageError`), something outside (`MissingError`), or nothing, because nothing was spent
(`RefusedError`).
"""

from __future__ import annotations


class WorkbenchError(Exception):
    """Root of all errors this package raises on purpose.

    Args:
        message: What went wrong and where, in one plain sentence. Never a secret's value.
        hint: What to do next; empty when the message says it already.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this: in a notebook the person needs the sentence, not the stack below it.
        return [f"\x1b[31m{type(self).__name__}\x1b[0m: {self.message}", *self.hint.splitlines()]


class WorkError(WorkbenchError):
    """The work itself failed (exit code 1)."""

    exit_code = 1


class PausedError(WorkbenchError):
    """The work was saved and stopped before its end, and goes on from there (exit code 1).

    Not a fault: a session that ends, or a person who stops it. The message says how to go on.
    """

    exit_code = 1


class UsageError(WorkbenchError):
    """Wrong use or a wrong setting (exit code 2)."""

    exit_code = 2


class MissingError(WorkbenchError):
    """Something outside is missing: network, credentials, Docker, disk space (exit code 3)."""

    exit_code = 3


class RefusedError(WorkbenchError):
    """Refused before anything was spent: bad submission, no budget, rules (exit code 4)."""

    exit_code = 4
