"""The notebooks' own parameters: what `--set` may give beside the settings.

A notebook's parameters cell (tagged `parameters`) declares them. Papermill writes what was given below that cell, and
the environment carries it to `open_stage`, so that the record holds it whether the notebook hands it over or not.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaggle_workbench import envfiles
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.settings import SETTINGS

TAG = "parameters"
# Holds, as JSON, the own parameters that a notebook is executed with.
VARIABLE = "KWB_PARAMETERS"
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class Declared:
    """A name that a parameters cell assigns.

    Attributes:
        name: The name.
        default: The value written there, when it is a plain one; else None.
        line: The whole line, with its comments.
    """

    name: str
    default: Any
    line: str


def declared(notebook: Path) -> dict[str, Declared]:
    """What a notebook's parameters cell declares, by name, in its order; empty without such a cell.

    Raises:
        WorkError: The file is no notebook, or the cell is no Python.
    """
    source = _cell(notebook)
    # What IPython understands beside Python has no names to set.
    lines = ["pass" if line.startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError as error:
        raise WorkError(
            f"The parameters cell of {notebook.name} is no Python: {error.msg} (its line {error.lineno}).",
            hint="Correct that line in the notebook.",
        ) from error
    found: dict[str, Declared] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                line = lines[(node.end_lineno or node.lineno) - 1]
                found[target.id] = Declared(target.id, _literal(value), line)
    return found


def split(notebooks: Sequence[Path], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide what was given into settings and the notebooks' own parameters.

    Args:
        notebooks: The notebooks that will be executed.
        given: Values by name, as of the command line; None means not given.

    Returns:
        Settings by name, as they were given; own parameters by name, as Python values.

    Raises:
        UsageError: A name that is no setting and stands in no parameters cell.
    """
    given = {name: value for name, value in given.items() if value is not None}
    settings = {name: value for name, value in given.items() if name in SETTINGS}
    if len(settings) == len(given):
        return settings, {}
    known: dict[str, Declared] = {}
    for notebook in notebooks:
        known = {**declared(notebook), **known}
    own = {}
    for name, value in given.items():
        if name in settings:
            continue
        if name not in known:
            raise _unknown(name, known, notebooks)
        own[name] = typed(value, known[name].default)
    return settings, own


def typed(value: Any, default: Any = None) -> Any:
    """A text of the command line as the Python value it means, by the default that the notebook has.

    `0.1`, `[1, 2]`, `true` and `None` are values; anything else is text, and so is everything when the default is one.
    """
    if not isinstance(value, str):
        parsed = value
    elif isinstance(default, str):
        return value
    elif value.strip().lower() in _FLAGS:
        parsed = _FLAGS[value.strip().lower()]
    else:
        try:
            parsed = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value
    if isinstance(parsed, tuple):
        parsed = list(parsed)
    if not _is_plain(parsed):
        return value
    if isinstance(default, float) and isinstance(parsed, int) and not isinstance(parsed, bool):
        return float(parsed)
    return parsed


def of_record(record: Mapping[str, Any], notebook: Path) -> dict[str, Any]:
    """The own parameters a run was last trained with, as far as the notebook still has them."""
    step = next((step for step in reversed(record["steps"]) if step["stage"] == "train"), None)
    if step is None:
        return {}
    names = declared(notebook)
    return {
        name: value
        for name, value in (step.get("parameters") or {}).items()
        if name not in SETTINGS and name in names and value is not None
    }


def to_environment(own: Mapping[str, Any]) -> dict[str, str]:
    """The variable that carries own parameters to `open_stage`; empty text for none."""
    return {VARIABLE: json.dumps(dict(own)) if own else ""}


def from_environment() -> dict[str, Any]:
    """The own parameters this notebook is executed with.

    Raises:
        UsageError: The variable holds something else.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return {}
    try:
        own = json.loads(text)
    except ValueError:
        own = None
    if not isinstance(own, dict):
        raise UsageError(
            f"{VARIABLE} in the environment is no JSON object.",
            hint="`kwb` sets it for the notebooks it executes; unset it elsewhere.",
        )
    return own


# --- Inside ---


def _cell(notebook: Path) -> str:
    try:
        document = json.loads(notebook.read_text(encoding="utf-8"))
        for cell in document["cells"]:
            if TAG in cell.get("metadata", {}).get("tags", ()):
                source = cell["source"]
                return source if isinstance(source, str) else "".join(source)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorkError(
            f"{notebook} cannot be read as a notebook ({type(error).__name__}: {error}).",
            hint="Restore it, for example with git.",
        ) from error
    return ""


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _is_plain(value: Any) -> bool:
    """Whether JSON can carry it unchanged."""
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, bool | int | float | str)


def _unknown(name: str, known: Iterable[str], notebooks: Sequence[Path]) -> UsageError:
    own = [other for other in known if other not in SETTINGS]
    close = envfiles.closest(name, [*own, *SETTINGS])
    where = " or ".join(notebook.name for notebook in notebooks)
    return UsageError(
        f"{name!r} is no setting, and stands in no parameters cell of {where}."
        + (f" Did you mean {close}?" if close else ""),
        hint=(f"The notebook's own parameters are: {', '.join(own)}. " if own else "")
        + f"To add one, write `{name if name.isidentifier() else 'NAME'} = ...` into the cell tagged `{TAG}`.\n"
        + "The settings are: "
        + ", ".join(SETTINGS)
        + ".",
    )
