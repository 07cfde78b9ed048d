"""Where a competition's notebooks are: its own folder, when `kwb new` made one, else `code/`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaggle_workbench.settings import COMPETITIONS, SETTINGS, load_settings, require_root

STAGES: Mapping[str, str] = {"data": "01-data.ipynb", "train": "02-train.ipynb", "submit": "03-submit.ipynb"}


def notebook_of(stage: str, competition: str, *, root: Path | None = None) -> Path:
    """The notebook of a stage of a competition.

    Args:
        stage: "data", "train" or "submit".
        competition: Slug.
        root: The project's folder; by default the one of the current folder.

    Raises:
        UsageError: No project in this folder or above it.
    """
    root = root or require_root()
    own = root / COMPETITIONS / competition / STAGES[stage]
    return own if own.is_file() else root / "code" / STAGES[stage]


def competition_of(given: Mapping[str, Any]) -> str:
    """The slug in force when these settings are given; names that are no settings do not count.

    Raises:
        UsageError: A wrong setting, or no project.
    """
    return load_settings({name: value for name, value in given.items() if name in SETTINGS}).competition
