"""What a check is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from kaggle_workbench.doctor.facts import Facts

State = Literal["passed", "warned", "failed", "not checked"]


@dataclass(frozen=True)
class Result:
    """What a check found.

    Attributes:
        state: "passed", "warned" (works, but see), "failed" (does not work), or "not checked" (why stands in `found`).
        found: One sentence of what is there.
        fix: The exact mend, a command where there is one; needed when it did not pass.
        harmless: Does the mend, where that can spoil nothing; returns what it did. `--fix` calls it.
    """

    state: State
    found: str
    fix: str = ""
    harmless: Callable[[], str] | None = None


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        id: Its name on the command line and in errors.
        title: What it looks at.
        run: Looks.
        online: Whether it asks Kaggle; then it runs with `--online` only.
    """

    id: str
    title: str
    run: Callable[[Facts], Result]
    online: bool = False


def passed(found: str) -> Result:
    """All is well."""
    return Result("passed", found)


def warned(found: str, fix: str, harmless: Callable[[], str] | None = None) -> Result:
    """It works, but a person should know."""
    return Result("warned", found, fix, harmless)


def failed(found: str, fix: str, harmless: Callable[[], str] | None = None) -> Result:
    """It does not work until it is mended."""
    return Result("failed", found, fix, harmless)


def not_checked(why: str, fix: str = "") -> Result:
    """It could not be looked at."""
    return Result("not checked", why, fix)


def closed(path: Path) -> str:
    """A harmless mend: a file of secrets is its owner's alone."""
    path.chmod(0o600)
    return f"{path} is mode 0600 now"
