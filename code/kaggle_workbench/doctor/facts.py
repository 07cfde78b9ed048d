"""What checks look at: the project, the environment, the system; all of it can be another one in a test."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

COMMAND_S = 3.0
SECRETS = ("KAGGLE_API_TOKEN", "KAGGLE_USERNAME", "KAGGLE_KEY", "MONGODB_URI", "TUNE_STORAGE")


@dataclass(frozen=True)
class Facts:
    """The machine and the project as checks see them.

    Attributes:
        root: The project's folder.
        environ: Variables of the environment.
        system: Folder in which /proc, /sys, /etc, /dev, /usr are looked for; "/" but in tests.
        home: The user's home.
        machine: Processor architecture.
    """

    root: Path
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    system: Path = Path("/")
    home: Path = field(default_factory=Path.home)
    machine: str = field(default_factory=platform.machine)

    def path(self, name: str) -> Path:
        """A path of the system, such as "proc/version"."""
        return self.system / name

    def text(self, name: str) -> str:
        """The text of a file of the system; "" when there is none."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    @cached_property
    def variables(self) -> dict[str, str]:
        """variables.env by name."""
        return read_env(self.root / "variables.env")

    @cached_property
    def secrets(self) -> dict[str, str]:
        """secrets.env by name."""
        return read_env(self.root / "secrets.env")

    def setting(self, name: str) -> tuple[str, str]:
        """A setting's value and where it comes from; ("", "") when it is unset."""
        sources = (("the environment", self.environ), ("secrets.env", self.secrets), ("variables.env", self.variables))
        return next(((held[name], origin) for origin, held in sources if held.get(name)), ("", ""))

    def folder(self, name: str, usual: str) -> Path:
        """The folder that a setting names, else the usual one of the project."""
        text, _ = self.setting(name)
        path = Path(text or usual).expanduser()
        return path if path.is_absolute() else self.root / path

    def run(self, *words: str, timeout_s: float = COMMAND_S, given: str | None = None) -> tuple[int, str]:
        """A command's exit code and output; 127 when there is none, 124 when it takes too long.

        Args:
            words: The command.
            timeout_s: Longest wait.
            given: What it reads from its standard input.
        """
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                cwd=self.root,
                **({"stdin": subprocess.DEVNULL} if given is None else {"input": given}),
                env={**self.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            return 127, ""
        except subprocess.TimeoutExpired:
            return 124, ""
        return done.returncode, done.stdout + done.stderr


def read_env(path: Path) -> dict[str, str]:
    """NAME=VALUE lines of a file; what is no such line is left out (the check of settings names it)."""
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, sign, value = line.strip().partition("=")
        if sign and not name.startswith("#") and name.strip().replace("_", "").isalnum():
            found[name.strip()] = value.strip().strip("'\"")
    return found
