"""`kwb push`, `kwb pull`: a training on Kaggle's machines, and its results back here."""

from __future__ import annotations

import argparse
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    push = subparsers.add_parser("push", help="train on Kaggle's or Colab's machines")
    push.add_argument("stage", metavar="STAGE", help="train; or submit, for a code competition")
    push.add_argument("--to", choices=("kaggle", "colab"), default="kaggle", help="where to (kaggle)")
    push.add_argument("--drive", metavar="FOLDER", help="Colab: a folder of Google Drive that serves as STORE")
    push.add_argument("-m", "--message", default="", metavar="TEXT", help="submit: for the list of submissions")
    push.add_argument("--competition", metavar="SLUG", help="instead of COMPETITION in variables.env")
    push.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting or a parameter of the notebook, for this push only; may be repeated",
    )
    push.add_argument("--resume", metavar="RUN", help="go on there with this run")
    push.add_argument(
        "--machine",
        default="t4",
        metavar="NAME",
        help="cpu, t4 (two GPUs), l4, l4x1, a100, h100 (t4)",
    )
    push.add_argument("--internet", action="store_true", help="give the session a network")
    push.add_argument(
        "--code", choices=("inside", "git"), default="inside", help="git: the package from your own repository"
    )
    push.add_argument("--wheels", action="store_true", help="send packages that Kaggle's image lacks")
    push.add_argument(
        "--wait-hours", type=float, default=0.0, metavar="N", help="wait so long for a free session (0: not at all)"
    )
    push.add_argument("--dry-run", action="store_true", help="check and tell, send nothing")
    push.set_defaults(handler=_push)

    pull = subparsers.add_parser("pull", help="wait for a pushed run and bring its results here")
    pull.add_argument("run", metavar="RUN", help="the run's name, or an unambiguous beginning of it")
    pull.add_argument("--wait-hours", type=float, default=14.0, metavar="N", help="wait so long for its session (14)")
    pull.set_defaults(handler=_pull)


def _push(options: argparse.Namespace) -> None:
    from kaggle_workbench.cli.run import parse_assignments
    from kaggle_workbench.errors import UsageError
    from kaggle_workbench.remote.push import push

    if options.to == "colab":
        from kaggle_workbench.remote import colab

        if options.resume or options.wheels or options.code == "git":
            raise UsageError(
                "--resume, --wheels and --code are for Kaggle.",
                hint="On Colab a run goes on from its STORE: --drive FOLDER, and RUN_ID by --set.",
            )
        colab.push(
            options.stage,
            overrides=parse_assignments(options.assignments),
            competition=options.competition,
            machine_name=options.machine,
            drive=options.drive,
            dry_run=options.dry_run,
        )
        return
    if options.stage == "submit":
        from kaggle_workbench.remote.submit import submit

        if not options.resume:
            raise UsageError("Which run is to be submitted?", hint="./kwb push submit --resume RUN")
        submit(options.resume, message=options.message, dry_run=options.dry_run)
        return
    push(
        options.stage,
        overrides=parse_assignments(options.assignments),
        competition=options.competition,
        resume=options.resume,
        machine_name=options.machine,
        internet=options.internet,
        code=options.code,
        with_wheels=options.wheels,
        wait_hours=options.wait_hours,
        dry_run=options.dry_run,
    )


def _pull(options: argparse.Namespace) -> None:
    from kaggle_workbench.remote.pull import pull

    pull(options.run, wait_hours=options.wait_hours)
