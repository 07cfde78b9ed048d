"""Kaggle Workbench: a competition from data to leaderboard, in one container and everywhere the same.

In a notebook: `from kaggle_workbench import open_stage, plots, recipes, training`.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["models", "open_stage", "plots", "recipes", "training"]


def __getattr__(name: str) -> Any:
    # On demand, so that `kwb --help` and the arena's process do not pay for what they do not use.
    if name == "open_stage":
        from kaggle_workbench.stages.session import open_stage

        return open_stage
    if name in __all__:
        import importlib

        return importlib.import_module(f"kaggle_workbench.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
