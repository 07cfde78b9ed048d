"""Every error says what to do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kaggle_workbench.errors import UsageError
from kaggle_workbench.metrics import METRICS
from kaggle_workbench.metrics.metric import HINT

PACKAGE = Path(__file__).resolve().parent.parent / "code" / "kaggle_workbench"
KINDS = ("WorkError", "UsageError", "MissingError", "RefusedError")


def test_every_error_that_is_raised_has_a_hint() -> None:
    without = []
    for file in PACKAGE.rglob("*.py"):
        if file.parent.name == "metrics":
            continue
        calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
        errors = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in KINDS]
        silent = [call for call in errors if not any(word.arg in ("hint", None) for word in call.keywords)]
        without += [f"{file.relative_to(PACKAGE)}:{call.lineno}" for call in silent]
    assert without == []


def test_a_metric_that_refuses_says_what_to_do() -> None:
    """Whatever its function says: a hint of its own, or the one for all."""
    for metric in METRICS.values():
        with pytest.raises(UsageError) as error:
            metric.score([], [])
        assert error.value.hint
    with pytest.raises(UsageError, match="takes 0 and 1") as error:
        METRICS["f1"].score([-1, 1], [1, 1])
    assert error.value.hint == HINT
