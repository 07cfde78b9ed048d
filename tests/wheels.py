"""Tiny wheels, written by hand, that stand in for packages of an image and of the index."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, *, module: str = "", requires: Sequence[str] = ()) -> Path:
    """A wheel of one empty module.

    Args:
        folder: Where to put it.
        name: Distribution's name.
        version: Its version.
        module: What it imports as; by default its name.
        requires: Requirements of its own.
    """
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    files = {
        f"{module or plain}/__init__.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    wheel = folder / f"{plain}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel
