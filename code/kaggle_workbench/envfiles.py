"""variables.env and secrets.env: read by python-dotenv, checked against Docker's reading.

Docker's env-file rules split at the first "=" and keep everything behind it: quotes, inline
comments and trailing spaces become part of the value. A line that the two read differently would
mean one thing here and another in the container, so it is named with what to write instead.
"""

from __future__ import annotations

import difflib
import io
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kaggle_workbench.errors import UsageError

# A line with such a word is not shown, whatever file it stands in.
SECRET_WORD = re.compile(r"token|key|secret|passw|mongodb|KGAT_", re.IGNORECASE)
_warned_modes: set[Path] = set()


@dataclass(frozen=True)
class EnvFile:
    """One file as read: values by name, the line of each, and what the user should be told."""

    path: Path
    values: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def where(self, name: str) -> str:
        """`variables.env, line 3`."""
        return f"{self.path.name}, line {self.lines[name]}"


def read(path: Path, *, secret: bool = False) -> EnvFile:
    """Read one file; a missing one is empty.

    Args:
        path: The file.
        secret: Never show a value of it, and warn once when others can read it.

    Raises:
        UsageError: A line that is no `NAME=VALUE`, or a file that is not UTF-8.
    """
    from dotenv.parser import parse_stream

    if not path.is_file():
        return EnvFile(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text.", hint="Save it as UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", hint="Make it readable for this user.") from None
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    notes = _mode_notes(path) if secret else []
    for binding in parse_stream(io.StringIO(text)):
        number = binding.original.line + _leading_newlines(binding.original.string)
        if binding.error or (binding.key is not None and binding.value is None):
            raise UsageError(
                f"{path.name}, line {number}: this is not NAME=VALUE"
                + ("." if secret or SECRET_WORD.search(_first_line(binding)) else f": {_first_line(binding)!r}."),
                hint="Write NAME=VALUE without quotes, or start the line with # to make it a comment.",
            )
        if binding.key is None:
            continue
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", binding.key):
            raise UsageError(
                f"{path.name}, line {number}: {binding.key!r} cannot be a variable's name.",
                hint="Use letters, digits and '_' only.",
            )
        value = binding.value or ""
        if binding.key in values:
            notes.append(f"{path.name}, line {number}: {binding.key} is set a second time; this one counts.")
        values[binding.key], lines[binding.key] = value, number
        docker_name, docker_value = _as_docker(binding.original.string)
        if (docker_name, docker_value) != (binding.key, value):
            notes.append(_different(path.name, number, binding.key, value, secret=secret))
    return EnvFile(path, values, lines, tuple(notes))


def closest(name: str, known: Sequence[str]) -> str | None:
    """The known name that `name` is most likely a misspelling of, if any."""
    match = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.8)
    return match[0] if match else None


def misspellings(file: EnvFile, known: Sequence[str]) -> list[str]:
    """A sentence for each unknown name that looks like a known one."""
    return [
        f"{file.where(name)}: {name} is not a setting; did you mean {close}?"
        for name in file.values
        if name not in known and (close := closest(name, known))
    ]


def _as_docker(original: str) -> tuple[str, str]:
    line = original.strip("\n\r").split("\n")[0].rstrip("\r").lstrip()
    name, _, value = line.partition("=")
    return name, value


def _different(file: str, number: int, name: str, value: str, *, secret: bool) -> str:
    what = f"{file}, line {number}: Docker would read {name} differently (it keeps quotes, comments and spaces)."
    if "\n" in value or value != value.strip() or value.startswith("#"):
        return f"{what} Such a value cannot be written so that both agree; choose another one."
    return f"{what} Write {name}={'VALUE, plain, on one line' if secret else value}"


def _mode_notes(path: Path) -> list[str]:
    if path in _warned_modes or not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return []
    _warned_modes.add(path)
    return [f"{path.name} holds secrets and others on this machine can read it; run: chmod 600 {path.name}"]


def _leading_newlines(text: str) -> int:
    return text[: len(text) - len(text.lstrip())].count("\n") if text.strip() else 0


def _first_line(binding: object) -> str:
    return str(binding.original.string).strip().splitlines()[0]  # type: ignore[attr-defined]
