"""variables.env and secrets.env read as Docker reads them: for the doctor, which must do without python-dotenv."""

from __future__ import annotations

from pathlib import Path


def read_plain(path: Path) -> dict[str, str]:
    """Values by name; a file that is missing or cannot be read is empty, a line that is no `NAME=VALUE` is left out."""
    return {name: value for _, name, value in plain_lines(path) if name}


def plain_lines(path: Path) -> list[tuple[int, str, str]]:
    """(line, name, value) of each line that is neither empty nor a comment; the name is "" where there is none."""
    try:
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError:
        return []
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.strip()
        if words and not words.startswith("#"):
            name, sign, value = words.partition("=")
            found.append((number, name if sign and name.isidentifier() else "", value))
    return found
