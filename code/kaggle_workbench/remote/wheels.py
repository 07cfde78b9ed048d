"""Packages that Kaggle's image lacks, as a folder of wheels that can be installed there without a network."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from kaggle_workbench import provenance
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.remote import checks

# Python of Kaggle's image since 2026, where the image lock does not know it.
PYTHON = "3.12"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
DOWNLOAD_S = 900.0


def image_python(root: Path | None) -> str:
    """The image's Python as "3.12": from the image lock, else `PYTHON`."""
    try:
        locked = json.loads((root / provenance.LOCK_FILE).read_bytes()).get("python") if root else None
    except (OSError, ValueError):
        locked = None
    return ".".join(str(locked).split(".")[:2]) if locked else PYTHON


def build(packages: Sequence[str], folder: Path, *, python: str) -> list[Path]:
    """Fetch wheels of packages and of what they need, but for what the image holds, and try them offline.

    Args:
        packages: As pip takes them: "rarepackage", "rarepackage==1.2".
        folder: An empty folder to put them into.
        python: The image's Python, such as "3.12".

    Returns:
        The wheels.

    Raises:
        UsageError: No package is named.
        MissingError: The package index has no wheels that fit, or cannot be reached; or they do not install.
    """
    if not packages:
        raise UsageError("No package is named for --wheels.", hint="The notebook imports nothing that the image lacks.")
    folder.mkdir(parents=True, exist_ok=True)
    fitting = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    for platform in PLATFORMS:
        fitting += ["--platform", platform]
    _pip(["download", "--dest", str(folder), *fitting, *packages], packages, python)
    named = {_distribution(package) for package in packages}
    for wheel in folder.glob("*.whl"):
        if _distribution(wheel.name) not in named and modules(wheel) <= checks.image_packages():
            wheel.unlink()
    wheels = sorted(folder.glob("*.whl"))
    with tempfile.TemporaryDirectory(prefix="kwb-") as target:
        # What the image holds is not here, so dependencies are not asked for; each wheel is still checked.
        offline = ["install", "--no-index", "--no-deps", "--target", target, *fitting, *map(str, wheels)]
        _pip(offline, packages, python)
    return wheels


def modules(wheel: Path) -> set[str]:
    """Top-level names that a wheel installs."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name and ".data/" not in name]
    return {name.partition("/")[0].partition(".")[0] for name in names}


def _distribution(text: str) -> str:
    name = text.partition("-")[0] if text.endswith(".whl") else text
    for mark in "=<>!~[; ":
        name = name.partition(mark)[0]
    return name.replace("-", "_").replace(".", "_").lower()


def _pip(words: Sequence[str], packages: Sequence[str], python: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise MissingError(
            f"The package index gave no wheels within {DOWNLOAD_S:.0f} s.", hint="Try again on a better connection."
        ) from error
    if done.returncode:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("ERROR:")), "")
        raise MissingError(
            f"{', '.join(packages)} cannot be made ready for the image's Python {python}: "
            f"{reason.removeprefix('ERROR: ') or done.stderr.strip()[-200:]}",
            hint="Look at the package's name on the index; one without wheels for Linux cannot be sent this way.",
        )
