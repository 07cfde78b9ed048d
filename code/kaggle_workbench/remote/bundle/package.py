"""The helper package as one text: the modules that a stage can reach, zipped the same way each time."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NAME = "kaggle_workbench"
ROOT = Path(__file__).resolve().parent.parent.parent
# What a stage on another machine begins with; everything else is found from there.
FIRST = ("", "remote.arrival", "stages.session", "kaggle_api.worker")
# Rooms that work on this machine only: a stage there serves no practice competition and starts no container.
HERE_ONLY = ("__main__", "arena", "cli", "container", "remote.bundle", "stages.execute", "stages.demo", "stages.lab")
# Any date will do that is always the same; it is the first that a zip can hold.
DATE = (1980, 1, 1, 0, 0, 0)
_DOTTED = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")


@dataclass(frozen=True)
class Package:
    """The package, packed.

    Attributes:
        text: Base64 of a zip file, in lines.
        sha256: Of the names and contents in it, so of what matters: zlib's versions pack differently.
        files: Contents by name inside the zip.
    """

    text: str
    sha256: str
    files: dict[str, bytes]


def packed() -> Package:
    """The modules that stages need, with what they import, wherever in their code."""
    files = {f"{NAME}/{path.relative_to(ROOT).as_posix()}": path.read_bytes() for path in sorted(reachable())}
    total = hashlib.sha256()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(entry, content)
            total.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    text = base64.b64encode(buffer.getvalue()).decode()
    lines = "\n".join(text[start : start + 120] for start in range(0, len(text), 120))
    return Package(lines, total.hexdigest(), files)


def reachable() -> set[Path]:
    """Files of the modules a stage can come to, each with the packages it lies in."""
    waiting, found = list(FIRST), set[str]()
    while waiting:
        module = waiting.pop()
        if module in found or _is_here_only(module) or _file(module) is None:
            continue
        found.add(module)
        waiting += [*_parents(module), *_named(module)]
    return {file for module in found if (file := _file(module)) is not None}


def imports(source: str) -> set[str]:
    """Top-level names of the modules that a piece of Python imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _named(module: str) -> Iterator[str]:
    """Modules of the package that one names: by import, or as a text such as "callbacks.progress"."""
    file = _file(module)
    if file is None:
        return
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from _own(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            base = list(_own([node.module]))
            yield from base
            yield from (f"{base[0]}.{alias.name}".lstrip(".") for alias in node.names if base)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            yield node.value
            yield from _own([node.value])


def _own(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        top, _, rest = name.partition(".")
        if top == NAME:
            yield rest


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return ["", *(".".join(parts[:count]) for count in range(1, len(parts)))]


def _is_here_only(module: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in HERE_ONLY)


@cache
def _file(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split(".")) if module else ROOT
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)
