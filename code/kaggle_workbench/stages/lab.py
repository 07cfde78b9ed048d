"""JupyterLab on this machine, for those who work without a container."""

from __future__ import annotations

import os
import subprocess
import sys

from kaggle_workbench.settings import require_root


def lab(*, port: int | None = None, browser: bool = True) -> int:
    """Run JupyterLab at the first notebook until it is stopped.

    Args:
        port: Port to ask for; JupyterLab takes the next free one when it is taken.
        browser: Open a browser window; the address is printed in any case.

    Returns:
        JupyterLab's exit code.
    """
    root = require_root()
    words = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        f"--ServerApp.root_dir={root}",
        str(root / "code" / "01-data.ipynb"),
    ]
    if port is not None:
        words.append(f"--ServerApp.port={port}")
    if not browser:
        words.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        words.append("--allow-root")
    return subprocess.run(words, cwd=root, check=False).returncode
