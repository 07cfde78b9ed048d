"""requirements.txt: its lines as AI Workbench reads them, and pip's refusals in one sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*"
    r"(?P<versions>\(?\s*(?:(?:===|~=|==|!=|<=|>=|<|>)\s*[^\s,;()]+\s*,?\s*)*\)?)(?P<marker>\s*;.*)?"
)
_NOISE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|^#\d+ (?:\d+\.\d+ )?", re.MULTILINE)
_CONFLICT = re.compile(r"The conflict is caused by:\s*\n((?:[ \t]+\S.*\n?)+)")
_CONSTRAINT = re.compile(r"The user requested \(constraint\) (\S+?)==(\S+)")
_ASKED = re.compile(r"The user requested (?!\(constraint\))(.+)")
_NEEDED = re.compile(r"(\S+(?: \S+)?) depends on (.+)")
_NO_VERSION = re.compile(
    r"Could not find a version that satisfies the requirement (.+?) \(from versions: (?!none\))(.+?)\)"
)


@dataclass(frozen=True)
class Requirement:
    """One line of requirements.txt that names a package."""

    line: int
    text: str
    name: str
    versions: str


def normal(name: str) -> str:
    """A package's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_line(number: int, text: str) -> Requirement | None:
    """One line as a package with its versions; None when it is something else (an option, a path, an address)."""
    match = _LINE.fullmatch(text.strip())
    if match is None:
        return None
    return Requirement(number, text.strip(), normal(match["name"]), match["versions"].strip(" ()"))


def parse(text: str) -> list[Requirement]:
    """The packages that requirements.txt names; comments and lines of other kinds are left out."""
    lines = enumerate(text.splitlines(), start=1)
    found = (parse_line(number, line) for number, line in lines if line.strip() and not line.strip().startswith("#"))
    return [requirement for requirement in found if requirement is not None]


def explain_pip_conflict(build_output: str) -> str | None:
    """What pip refused, as one sentence that names both sides.

    Args:
        build_output: Output of the build, or of its failing step, with or without the engine's line prefixes.

    Returns:
        The sentence; None when the output shows no such refusal.
    """
    text = _NOISE.sub("", build_output.replace("\r", ""))
    conflicts = list(_CONFLICT.finditer(text))
    if conflicts:
        return _conflict([line.strip() for line in conflicts[-1][1].splitlines() if line.strip()])
    missing = _NO_VERSION.search(text)
    if missing:
        newest = missing[2].split(", ")[-1]
        return (
            f"requirements.txt asks for {missing[1]}, and no such version fits this Python; the newest one is {newest}."
        )
    return None


def _conflict(lines: list[str]) -> str:
    frozen = next((match for match in map(_CONSTRAINT.match, lines) if match), None)
    kept = f"{frozen[1]}=={frozen[2]}" if frozen else ""
    sides = [side for side in (_side(line) for line in lines) if side and not (kept and side.endswith(f" {kept}"))]
    if frozen:
        return (
            f"{'; '.join(sides) or 'requirements.txt asks for another one'}, but the image holds {frozen[1]} "
            f"{frozen[2]}, which must stay as it is. Change or delete that line of requirements.txt."
        )
    return f"pip cannot have all of requirements.txt at once: {'; '.join(sides or lines)}. Loosen one of them."


def _side(line: str) -> str:
    asked = _ASKED.match(line)
    if asked:
        return f"requirements.txt asks for {asked[1]}"
    needed = _NEEDED.match(line)
    return f"{needed[1]} needs {needed[2]}" if needed else ""
