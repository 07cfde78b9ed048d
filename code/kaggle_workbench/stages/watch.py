"""Watches the notebook for its stage: a cell that fails, a kernel that ends before the last cell.

A notebook has no `with` block around its cells, so how a step ends is learnt from IPython (after
each cell) and from Python (at exit). A kernel that is killed leaves "running" and its heartbeat's
last word; readers of the record conclude from that.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any, Protocol

from kaggle_workbench.errors import WorkError


class Watched(Protocol):
    """What is told: a stage."""

    def failed(self, error: BaseException) -> None:
        """A cell met an error."""

    def went_on(self) -> None:
        """A cell was run to its end."""

    def leave(self, error: BaseException) -> None:
        """Nothing more will come."""


RUN_ALL = "Run all cells of the notebook; a stage ends with its last one."
_now: Watched | None = None
_installed = False


def watch(stage: Watched) -> None:
    """Watch this stage from now on, and leave the one before."""
    global _now, _installed
    if _now is not None and _now is not stage:
        _now.leave(WorkError("The stage was opened again before its last cell was run.", hint=RUN_ALL))
    _now = stage
    if _installed:
        return
    _installed = True
    atexit.register(_at_exit)
    shell = _shell()
    if shell is not None:
        shell.events.register("post_run_cell", _after_cell)


def paused(error: BaseException) -> None:
    """The stage ends here with a pause that was caught, so that IPython tells of none."""
    global _now
    if _now is not None:
        _now.failed(error)
        _now.leave(error)
        _now = None


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def _after_cell(result: Any) -> None:
    if _now is None:
        return
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        _now.failed(error)
    else:
        _now.went_on()


def _at_exit() -> None:
    if _now is not None:
        cause = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        _now.leave(cause or WorkError("The notebook was closed before its last cell was run.", hint=RUN_ALL))
