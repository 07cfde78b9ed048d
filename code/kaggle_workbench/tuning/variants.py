"""Variants: trials given by hand, a table of parameters (CSV, JSON or TOML), one row each."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import UsageError

_HINT = (
    "A CSV has a heading of names and a row for each variant; JSON is a list of objects; TOML has [[variant]] tables. "
    "An empty cell means: as set."
)


def read_variants(file: Path) -> list[dict[str, Any]]:
    """The variants of a table, each its parameters by name; empty cells are left out.

    Raises:
        UsageError: No such file, no table, no row, or a name twice.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"The variants {file} cannot be read: {error.strerror}.", hint="Correct --variants.") from None
    except UnicodeDecodeError:
        raise UsageError(f"The variants {file} are not UTF-8 text.", hint="Save the file as UTF-8.") from None
    readers: dict[str, Callable[[str], Any]] = {".csv": _csv, ".json": json.loads, ".toml": _toml}
    if file.suffix.lower() not in readers:
        raise UsageError(f"The variants {file.name} must be a .csv, .json or .toml file.", hint=_HINT)
    try:
        rows = readers[file.suffix.lower()](text)
    except ValueError as error:
        raise UsageError(f"The variants {file.name} cannot be read: {error}.", hint=_HINT) from None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and row for row in rows):
        raise UsageError(f"The variants {file.name} hold no table with rows.", hint=_HINT)
    return [{str(name): value for name, value in row.items() if value is not None and value != ""} for row in rows]


def _csv(text: str) -> list[dict[str, Any]]:
    dialect: Any = csv.excel
    heading = text.partition("\n")[0]
    if ";" in heading and "," not in heading:
        dialect = type("Semicolons", (csv.excel,), {"delimiter": ";"})
    lines = [line for line in csv.reader(io.StringIO(text), dialect) if any(cell.strip() for cell in line)]
    if not lines:
        return []
    names = [name.strip() for name in lines[0]]
    if "" in names or len(set(names)) < len(names):
        raise ValueError("each column needs a name of its own")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(names):
            raise ValueError(f"row {number} has {len(line)} cells, the heading {len(names)}")
    return [dict(zip(names, (cell.strip() for cell in line), strict=True)) for line in lines[1:]]


def _toml(text: str) -> Any:
    document = tomllib.loads(text)
    tables = [value for value in document.values() if isinstance(value, list)]
    return tables[0] if len(document) == len(tables) == 1 else None
