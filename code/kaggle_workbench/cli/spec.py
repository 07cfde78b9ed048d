"""`kwb spec check`."""

from __future__ import annotations

import argparse
from pathlib import Path


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of this group."""
    spec = subparsers.add_parser("spec", help="check an AI Workbench project spec")
    commands = spec.add_subparsers(title="commands", metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check",
        help="errors and warnings of a project's spec and build files",
        description="Check .project/spec.yaml and, in a project, the build files beside it. Exit code 2 when there are "
        "errors, 0 otherwise.",
    )
    check.add_argument("path", nargs="?", type=Path, help="spec file or project folder (default: this project)")
    check.add_argument("--format", choices=("table", "json"), default="table")
    check.set_defaults(handler=_check)


def _check(options: argparse.Namespace) -> int:
    from kaggle_workbench.container.spec import check
    from kaggle_workbench.settings import require_root
    from kaggle_workbench.show import note

    report = check(options.path or require_root())
    report.show(format=options.format)
    note(report.summary() + ".")
    return 2 if report.errors else 0
