"""Where a stage runs: local, container, AI Workbench, Kaggle, Colab.

A place is a resolver: `is_supported()` says whether this process is there. They are asked in
the order of `PLACES`; the first that answers yes wins, and `local` always does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """One place a stage can run in.

    Attributes:
        name: As written into records.
        title: As shown to people.
        is_supported: Whether this process runs there.
        input_roots: Folders that may hold competition data besides the project's INPUT_DIR.
        output_dir: Where output goes when there is no project folder; None: the project's.
        session_hours: Length of a session in hours; None: no limit.
        idle_minutes: Minutes without a person after which a session may be ended; None: no limit.
    """

    name: str
    title: str
    is_supported: Callable[[], bool]
    input_roots: tuple[Path, ...] = ()
    output_dir: Path | None = None
    session_hours: float | None = None
    idle_minutes: float | None = None


def _on_kaggle() -> bool:
    return "KAGGLE_KERNEL_RUN_TYPE" in os.environ


def _edited_on_kaggle() -> bool:
    # "Save & Run All" says Batch, and runs without a person.
    return os.environ.get("KAGGLE_KERNEL_RUN_TYPE") == "Interactive"


def _on_colab() -> bool:
    return "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules


def _in_workbench() -> bool:
    # AI Workbench bakes NVWB_UID into its images; `kwb up` builds the same image and adds KWB_PLACE.
    return "NVWB_UID" in os.environ and os.environ.get("KWB_PLACE") != "container"


def _in_container() -> bool:
    return os.environ.get("KWB_PLACE") == "container"


# Limits as known in 2026-12, sources in docs/places.md: 12 hours on Kaggle (9 in many code competitions), 20 minutes
# idle while a notebook is edited; on Colab 12 hours, 90 minutes idle.
PLACES: tuple[Place, ...] = (
    Place("kaggle", "Kaggle", _edited_on_kaggle, (Path("/kaggle/input"),), Path("/kaggle/working"), 12.0, 20.0),
    Place("kaggle", "Kaggle", _on_kaggle, (Path("/kaggle/input"),), Path("/kaggle/working"), 12.0),
    Place("colab", "Google Colab", _on_colab, (Path("/content/input"),), Path("/content/output"), 12.0, 90.0),
    Place("container", "this container", _in_container),
    Place("workbench", "AI Workbench", _in_workbench),
    Place("local", "this machine", lambda: True),
)


def current_place() -> Place:
    """The place this process runs in."""
    return next(place for place in PLACES if place.is_supported())
