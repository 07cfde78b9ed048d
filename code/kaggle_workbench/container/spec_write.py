"""Write a spec exactly as AI Workbench does, so that its own rewriting changes nothing.

AI Workbench is written in Go and uses its yaml.v3: indents of four, all keys in a fixed order, long
lines unfolded, quotes only where the plain text would not come back as the same string. The rules
below are that library's, read from its behaviour; tests compare the result with files it wrote.
"""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from kaggle_workbench.container.spec_model import Spec, keys
from kaggle_workbench.files import write_atomic

_INDENT = 4
# What yaml.v3 reads as something other than text when it stands without quotes.
_NOT_TEXT = re.compile(
    r"|~|[Nn]ull|NULL|[Tt]rue|TRUE|[Ff]alse|FALSE|<<"
    r"|[yYnN]|[Yy]es|YES|[Nn]o|NO|[Oo]n|ON|[Oo]ff|OFF"
    r"|[-+]?(0[bB][01_]+|0[oO]?[0-7_]+|0[xX][0-9a-fA-F_]+|[0-9][0-9_]*)"
    r"|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    r"|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|\d{4}-\d{1,2}-\d{1,2}([Tt ]+\d{1,2}:\d{1,2}:\d{1,2}(\.\d*)?\s*([Zz]|[-+]\d\d?(:\d\d)?)?)?"
)
_STARTS_NO_PLAIN = tuple("#,[]{}&*!|>'\"%@`")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def dump_spec(spec: Spec) -> str:
    """The spec's text as AI Workbench writes it."""
    return "\n".join(_mapping(spec, 0)) + "\n"


def write_spec(path: Path, spec: Spec) -> None:
    """Write the spec in AI Workbench's form, atomically."""
    write_atomic(path, dump_spec(spec))


def _mapping(model: Any, column: int) -> list[str]:
    lines = []
    kind: Any = type(model)
    for key in keys(kind).values():
        value = getattr(model, key.attribute)
        if not value and key.omit_empty:
            continue
        head = f"{' ' * column}{key.name}:"
        if is_dataclass(value):
            lines += [head, *_mapping(value, _deeper(column))]
        elif isinstance(value, tuple) and value:
            lines += [head, *_sequence(value, _deeper(column))]
        else:
            lines += _scalar(head, value, _deeper(column))
    return lines


def _sequence(values: tuple[Any, ...], column: int) -> list[str]:
    lines = []
    for value in values:
        if is_dataclass(value):
            first, *rest = _mapping(value, column + 2)
            lines += [f"{' ' * column}- {first.lstrip(' ')}", *rest]
        else:
            lines += _scalar(f"{' ' * column}-", value, _deeper(column))
    return lines


def _deeper(column: int) -> int:
    # Inside a list item the column is two more than a multiple of four; the next level goes back to the grid.
    return (column + _INDENT) // _INDENT * _INDENT


def _scalar(head: str, value: Any, column: int) -> list[str]:
    if isinstance(value, bool):
        return [f"{head} {str(value).lower()}"]
    if isinstance(value, tuple):
        return [f"{head} []"]
    if isinstance(value, int):
        return [f"{head} {value}"]
    text = str(value)
    if "\n" in text and _fits_block(text):
        return _block(head, text, column)
    return [f"{head} {_flow(text)}"]


def _fits_block(text: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in text) and " \n" not in text and not text.isspace()


def _block(head: str, text: str, column: int) -> list[str]:
    indicator = "" if text.endswith("\n") else "-"
    if text.endswith("\n\n"):
        indicator = "+"
    start = str(_INDENT) if text[0] in " \n" else ""
    body = text[:-1] if text.endswith("\n") else text
    return [f"{head} |{start}{indicator}", *(" " * column + line if line else "" for line in body.split("\n"))]


def _flow(text: str) -> str:
    if _NOT_TEXT.fullmatch(text):
        return _double(text)
    if _is_plain(text):
        return text
    if all(char.isprintable() for char in text):
        return "'" + text.replace("'", "''") + "'"
    return _double(text)


def _is_plain(text: str) -> bool:
    if text.startswith(_STARTS_NO_PLAIN) or text.startswith(("---", "...")):
        return False
    if text[0] in "-?:" and (len(text) == 1 or text[1] in " \t"):
        return False
    if text != text.strip(" ") or ": " in text or " #" in text or text.endswith(":"):
        return False
    return all(char.isprintable() for char in text)


def _double(text: str) -> str:
    shown = "".join(
        _ESCAPES.get(char, char if char.isprintable() else f"\\u{ord(char):04X}" if ord(char) < 65536 else char)
        for char in text
    )
    return f'"{shown}"'
