"""What must not stand in a record or an output: secrets' values and this machine's folders."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaggle_workbench.settings import SECRET_NAMES, Secret, Settings
from kaggle_workbench.stores.address import folder_of, secrets_in

# Whole numbers from here on are kept by no database, and rounded by many a reader of JSON.
INT64 = 1 << 63
# Only folders that systems have at their root: an address's path or a unit such as "B/s" is no file.
_ROOTS = (
    "home|root|tmp|var|usr|opt|mnt|media|srv|etc|run|data|work|workspace|project|kaggle|content|Users|private|Volumes"
)
_STOP = r"\s/\\:'\"<>|,;()"
_PATH = re.compile(rf"(?<![\w./:~-])(?:(?:file://)?/(?:{_ROOTS})/|[A-Za-z]:\\)(?:[^{_STOP}]+[/\\])*([^{_STOP}]*)")


def hidden(settings: Settings) -> dict[str, str]:
    """Texts that must not stand in a record: secrets' values and this machine's folders."""
    folders = [
        (settings.output_dir, "OUTPUT_DIR"),
        (settings.input_dir, "INPUT_DIR"),
        (settings.root, "."),
        (Path.home(), "~"),
    ]
    store = settings.store or ""
    if store:
        folders.append((folder_of(store, settings.root), "STORE"))
    hide = {str(path): name for path, name in folders if path is not None and path != Path("/")}
    given = [*secrets_in(store), *settings.secret_values(), *(os.environ.get(name, "") for name in SECRET_NAMES)]
    given += [part for value in given if "://" in value for part in passwords(value)]
    # Shorter values are words of their own ("kaggle" as a user name) and would black out plain text.
    return {value: "***" for value in given if len(value) > 7} | hide


def passwords(uri: str) -> list[str]:
    """The secret parts of an address such as MONGODB_URI: as written and as they are meant."""
    from urllib.parse import unquote

    _, _, rest = uri.partition("://")
    user, _, _ = rest.rpartition("@")
    found = [user.partition(":")[2]]
    options = (part.partition("=") for part in rest.partition("?")[2].split("&"))
    found += [value for name, _, value in options if "password" in name.lower() or "properties" in name.lower()]
    return sorted({form for text in found if text for form in (text, unquote(text))}, key=len, reverse=True)


def plain(value: Any, hide: Mapping[str, str]) -> Any:
    """A value as every reader of JSON holds it.

    Numbers that are not finite are None, whole ones of more than 64 bits are texts, texts of `hide` are replaced, and
    paths are cut.
    """
    # A longer text may hold a shorter one, so it goes first.
    return _plain(value, {text: hide[text] for text in sorted(hide, key=len, reverse=True)})


def without_folders(text: str) -> str:
    """A text whose absolute paths have lost their folders: `"no /home/ann/x.csv"` is `"no .../x.csv"`."""
    return _PATH.sub(r".../\1", text) if "/" in text or "\\" in text else text


def _plain(value: Any, hide: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for text, instead in hide.items():
            value = value.replace(text, instead)
        return without_folders(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -INT64 <= value < INT64 else str(value)
    if isinstance(value, Mapping):
        return {_plain(str(key), hide): _plain(item, hide) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, hide) for item in value]
    if isinstance(value, Secret):
        return "***"
    if hasattr(value, "item"):
        return _plain(value.item(), hide)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _plain(str(value), hide)
