"""`kwb demo`, `kwb run`, `kwb lab`: stages and the notebooks."""

from __future__ import annotations

import argparse
from typing import Any

from kaggle_workbench.cli.words import port


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    demo = subparsers.add_parser("demo", help="the three stages on the practice digits; no account needed")
    demo.set_defaults(handler=_demo)

    run = subparsers.add_parser("run", help="run stages: data, train, submit (all three when none is named)")
    run.add_argument("stages", nargs="*", metavar="STAGE", help="data, train or submit")
    run.add_argument("--competition", metavar="SLUG", help="instead of COMPETITION in variables.env")
    run.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any setting of docs/settings.md, for this run only; may be repeated",
    )
    run.add_argument("--gpus", type=int, metavar="N", help="how many GPUs to use; 0 forces the CPU")
    run.add_argument(
        "--resume",
        metavar="RUN",
        help="go on with this run, here or in the store: the stages named, or those that are not done",
    )
    run.add_argument(
        "--force", action="store_true", help="go on also from a checkpoint of another model, data or version"
    )
    run.add_argument("--dry-run", action="store_true", help="say what would run, run nothing")
    run.set_defaults(handler=_run)

    lab = subparsers.add_parser("lab", help="open the notebooks in JupyterLab on this machine, without a container")
    lab.add_argument("--port", type=port, default=None, metavar="N", help="port to listen on (a free one by default)")
    lab.add_argument("--no-browser", action="store_true", help="print the address only")
    lab.set_defaults(handler=_lab)


def parse_assignments(assignments: list[str]) -> dict[str, str]:
    """`["EPOCHS=5"]` as `{"EPOCHS": "5"}`.

    Raises:
        UsageError: An entry without "=".
    """
    from kaggle_workbench.errors import UsageError

    pairs = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {assignment!r} is not NAME=VALUE.", hint="For example: --set EPOCHS=5")
        pairs[name] = value
    return pairs


def _demo(options: argparse.Namespace) -> None:
    from kaggle_workbench.stages.demo import demo

    demo()


def _run(options: argparse.Namespace) -> None:
    from kaggle_workbench.stages.execute import run_stages
    from kaggle_workbench.stages.verdict import verdict

    run = run_stages(
        options.stages,
        overrides=parse_assignments(options.assignments),
        competition=options.competition,
        gpus=options.gpus,
        resume=options.resume,
        force=options.force,
        dry_run=options.dry_run,
    )
    if run is None:
        return
    record = run.read()
    if record["cv"] or record["lb"]:
        print(verdict(record, run.folder))


def _lab(options: argparse.Namespace) -> int:
    from kaggle_workbench.stages.lab import lab

    return lab(port=options.port, browser=not options.no_browser)
