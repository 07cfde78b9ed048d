"""Getting bytes over a bad line: progress, going on as long as bytes arrive, room on the disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from kaggle_workbench.errors import MissingError
from kaggle_workbench.files import human_bytes
from kaggle_workbench.kaggle_api import Pace, partial
from kaggle_workbench.kaggle_api.errors import KaggleError, ServerError, TimeLimitError, UnreachableError
from kaggle_workbench.show import note, progress

# One attempt at a download, such as `Client.download_archive` without its last argument: `on_progress` is given.
Attempt = Callable[..., Path]
# Where there is no bar (logs), a line now and then.
LINE_S = 30


def fetch(
    download: Attempt,
    folder: Path,
    *,
    what: str,
    pace: Pace,
    check: Callable[[int, int | None], None],
) -> Path:
    """Call `download` until it is through; it goes on from what it left in `folder` the last time.

    Args:
        download: One attempt.
        folder: Where it writes.
        what: Short name of the file, for the bar.
        pace: Tries without a single new byte, and the waits between them.
        check: Called with bytes and total on every report; what it raises ends the attempt.

    Returns:
        What `download` returned.

    Raises:
        KaggleError: It broke off `pace.tries` times in a row without a new byte; what has arrived is kept.
    """
    best, idle = partial(folder)[0], 0
    with progress(None, what) as bar:
        lines = _Lines(what, silent=not bar.disable)

        def report(now: int, total: int | None) -> None:
            check(now, total)
            bar.total, bar.n = total, now
            bar.refresh()
            lines.report(now, total)

        while True:
            try:
                return download(on_progress=report)
            except (UnreachableError, ServerError, TimeLimitError) as error:
                now, total = partial(folder)
                idle = 0 if now > best else idle + 1
                best = max(best, now)
                if idle >= pace.tries:
                    raise _kept(error, now) from None
                got = f" at {_share(now, total)}" if now else ""
                note(f"{what}: broken off{got}; trying again. ({error.message})")
                time.sleep(pace.backoff_s * 2.0 ** min(idle, 5))


def require_space(folder: Path, needed: int, *, what: str) -> None:
    """Refuse when the disk has not enough room.

    Args:
        folder: A folder on that disk; it or one above it exists.
        needed: Bytes still to be written.
        what: What they are, for the message.

    Raises:
        MissingError: There is not enough room.
    """
    free = free_bytes(folder)
    if needed > free:
        raise MissingError(
            f"Not enough room on the disk of {folder}: {what} needs {human_bytes(needed)}, "
            f"{human_bytes(free)} are free.",
            hint=f"Free {human_bytes(needed - free)}, or set INPUT_DIR to a folder on another disk, then run this "
            "again; what has arrived is kept.",
        )


def free_bytes(folder: Path) -> int:
    """Room on the disk of a folder that may still be missing."""
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


class _Lines:
    def __init__(self, what: str, *, silent: bool) -> None:
        self._what = what
        self._silent = silent
        self._last = time.monotonic()

    def report(self, now: int, total: int | None) -> None:
        if not self._silent and time.monotonic() - self._last > LINE_S:
            self._last = time.monotonic()
            note(f"{self._what}: {_share(now, total)}")


def _share(now: int, total: int | None) -> str:
    return f"{human_bytes(now)} of {human_bytes(total)}" if total else human_bytes(now)


def _kept(error: KaggleError, now: int) -> KaggleError:
    if now:
        error.hint = (
            f"{error.hint} {human_bytes(now)} have arrived and are kept: the next run goes on from there.".strip()
        )
    return error
