"""Which settings a record keeps: those that decide a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaggle_workbench.settings import SECRET_NAMES, SETTINGS, Settings

# Machines' folders are not what decides a result, and would be absolute paths.
NOT_RECORDED = (*SECRET_NAMES, "INPUT_DIR", "OUTPUT_DIR", "STORE")


def parameters(settings: Settings, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The settings that decide a result, by name, then the notebook's own parameters."""
    known = {name: getattr(settings, name.lower()) for name in SETTINGS if name not in NOT_RECORDED}
    return {**known, **(own or {})}
