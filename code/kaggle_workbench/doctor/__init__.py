"""`kwb doctor`: what may be wrong with this machine and this project, one line a check, each with its mend."""

from __future__ import annotations

import importlib
import pkgutil

from kaggle_workbench.doctor import checks
from kaggle_workbench.doctor.check import Check, Facts, Result, examine, mend

__all__ = ["Check", "Facts", "Result", "all_checks", "examine", "mend"]


def all_checks() -> list[Check]:
    """The checks of all topics: first those of `checks.ORDER`, then any other topic by name."""
    topics = sorted(module.name for module in pkgutil.iter_modules(checks.__path__))
    ordered = [topic for topic in checks.ORDER if topic in topics]
    found: list[Check] = []
    for topic in [*ordered, *(topic for topic in topics if topic not in ordered)]:
        found += importlib.import_module(f"kaggle_workbench.doctor.checks.{topic}").CHECKS
    return found
