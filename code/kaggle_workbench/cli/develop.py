"""`kwb test`: what a developer of the workbench, or of a copy of it, runs before a commit."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    test = subparsers.add_parser("test", help="lint, types and tests")
    test.add_argument("--all", action="store_true", help="also the slow ones (containers, browser, whole runs)")
    test.add_argument("words", nargs="*", metavar="PYTEST_WORD", help="for pytest, such as tests/test_arena.py")
    test.set_defaults(handler=_test)


def _test(options: argparse.Namespace) -> int:
    from kaggle_workbench.settings import require_root
    from kaggle_workbench.show import note

    root = require_root()
    steps = [
        ("lint", ["ruff", "check", "."]),
        ("format", ["ruff", "format", "--check", "."]),
        ("types", ["mypy"]),
        ("tests", ["pytest", "-n", "2", "--dist", "loadgroup", "-m", "not docker" if options.all else "not slow"]),
    ]
    if options.all:
        # One engine serves them all, and its start-up limits are not meant for a machine that trains beside it.
        steps.append(("container tests", ["pytest", "-m", "docker"]))
    if options.words:
        steps = [("tests", ["pytest", *([] if options.all else ["-m", "not slow"]), *options.words])]
    failed = []
    for name, words in steps:
        note(f"== {name}: {' '.join(words)}")
        if subprocess.run([sys.executable, "-m", *words], cwd=root, check=False).returncode != 0:
            failed.append(name)
    note(f"== {'failed: ' + ', '.join(failed) if failed else 'all passed'}")
    return 1 if failed else 0
