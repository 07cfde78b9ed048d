"""A project of a test's own: notebooks and settings as in the repository, tiny competitions, an empty HOME."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Project:
    """A copy of the repository's parts that a run needs, and how to call `kwb` in it."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def output(self) -> Path:
        return self.folder / "data" / "output"

    @property
    def hosted(self) -> Path:
        return self.output / "arena" / "competitions"

    def kwb(self, *words: str, timeout: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `kwb` in a process of its own, in a clean environment."""
        return subprocess.run(
            [sys.executable, "-m", "kaggle_workbench", *words],
            cwd=self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


def make_project(folder: Path, *, env: Mapping[str, str] | None = None) -> Project:
    """Make a project in `folder`; its practice competitions are those put into `Project.hosted`."""
    root = folder / "project"
    (root / "code").mkdir(parents=True)
    for notebook in (ROOT / "code").glob("*.ipynb"):
        shutil.copy2(notebook, root / "code")
    shutil.copytree(ROOT / ".project", root / ".project")
    (root / "variables.env").write_text("")
    (folder / "home").mkdir()
    clean = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "PYTHONPATH": str(ROOT / "code"),
        "JUPYTER_PLATFORM_DIRS": "1",
    }
    return Project(root, {**clean, **(env or {})})
