"""What must not stand in a record or an output: secrets' values and this machine's folders."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaggle_workbench.settings import SECRET_NAMES, Secret, Settings


def hidden(settings: Settings) -> dict[str, str]:
    """Texts that must not stand in a record: secrets' values and this machine's folders."""
    folders = [
        (settings.output_dir, "OUTPUT_DIR"),
        (settings.input_dir, "INPUT_DIR"),
        (settings.root, "."),
        (Path.home(), "~"),
    ]
    hide = {str(path): name for path, name in folders if path is not None and path != Path("/")}
    given = [*settings.secret_values(), *(os.environ.get(name, "") for name in SECRET_NAMES)]
    # Shorter values are words of their own ("kaggle" as a user name) and would black out plain text.
    return {value: "***" for value in given if len(value) > 7} | hide


def plain(value: Any, hide: Mapping[str, str]) -> Any:
    """A value as JSON holds it: numbers that are not finite are None, texts of `hide` are replaced."""
    if isinstance(value, str):
        for text in sorted(hide, key=len, reverse=True):
            value = value.replace(text, hide[text])
        return value
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, hide) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, hide) for item in value]
    if isinstance(value, Secret):
        return "***"
    if hasattr(value, "item"):
        return plain(value.item(), hide)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return plain(str(value), hide)
