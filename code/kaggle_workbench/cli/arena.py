"""`kwb arena`: the practice arena in the foreground, and competitions of one's own."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench.cli.words import port


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    arena = subparsers.add_parser("arena", help="the local server that hosts practice competitions")
    commands = arena.add_subparsers(title="commands", metavar="COMMAND", required=True)
    serve = commands.add_parser("serve", help="serve until Ctrl+C; says how kaggle and kagglehub are pointed at it")
    serve.add_argument("--port", type=port, default=None, metavar="N", help="port (7777 by default; 0: any free one)")
    serve.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="0.0.0.0 for a class network, with --participants"
    )
    serve.add_argument("--participants", type=Path, metavar="FILE", help="names, one a line; each gets a token")
    serve.add_argument(
        "--folder",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="competitions to host besides the project's",
    )
    serve.add_argument("--state", type=Path, metavar="DIR", help="where scores and tokens are kept (OUTPUT_DIR/arena)")
    serve.set_defaults(handler=_serve)
    add = commands.add_parser("add", help="host a competition of your own (a class, a team)")
    add.add_argument("folder", type=Path, metavar="FOLDER", help="what participants get, with sample_submission.csv")
    add.add_argument("--solution", type=Path, required=True, metavar="FILE", help="the answers; never served")
    add.add_argument("--metric", required=True, metavar="NAME", help="such as accuracy, auc, rmse (docs/metrics.md)")
    add.add_argument("--slug", default="", metavar="S", help="its name (the folder's)")
    add.add_argument("--title", default="", metavar="T", help="as people see it (from the slug)")
    add.add_argument("--deadline", type=_moment, metavar="TIME", help="no submissions after it: 2030-01-31T18:00:00Z")
    add.add_argument("--daily-limit", type=int, default=5, metavar="N", help="submissions a day and participant (5)")
    add.add_argument("--public-share", type=_share, default=0.3, metavar="X", help="part that is public (0.3)")
    add.add_argument("--reveal-private", action="store_true", help="show private scores before the deadline")
    add.add_argument("--replace", action="store_true", help="take the place of the one hosted under this name")
    add.add_argument("--dry-run", action="store_true", help="check only")
    add.set_defaults(handler=_add)
    list_ = commands.add_parser("list", help="the competitions that are hosted")
    list_.add_argument("--format", choices=("table", "json"), default="table")
    list_.set_defaults(handler=_list)
    remove = commands.add_parser("remove", help="host one of your own no more; scores are kept")
    remove.add_argument("slug", metavar="SLUG")
    remove.set_defaults(handler=_remove)


def _serve(options: argparse.Namespace) -> None:
    from kaggle_workbench.arena import launch

    folders, state = launch.hosted_folders(options.folder, options.state)
    asked = launch.DEFAULT_PORT if options.port is None else options.port
    launch.serve(folders, state, host=options.host, port=asked, participants=options.participants)


def _add(options: argparse.Namespace) -> None:
    from kaggle_workbench.arena.add import Rules, add
    from kaggle_workbench.show import note

    rules = Rules(
        options.metric,
        options.title,
        options.deadline,
        options.daily_limit,
        options.public_share,
        options.reveal_private,
    )
    target = add(
        options.folder,
        options.solution,
        _home(),
        rules,
        slug=options.slug,
        replace=options.replace,
        dry_run=options.dry_run,
    )
    if options.dry_run:
        note(f"All fits together; {target.name} would be hosted in {target}.")
        return
    note(f"{target.name} is hosted. Try it here: ./kwb run --competition {target.name} --set SOURCE=practice")
    note("For a class: ./kwb arena serve --host 0.0.0.0 --participants names.txt (docs/hosting.md)")


def _list(options: argparse.Namespace) -> None:
    from kaggle_workbench import show
    from kaggle_workbench.arena import launch
    from kaggle_workbench.arena.competitions import Hosting

    folders, _ = launch.hosted_folders([], None)
    hosting = Hosting(folders)
    rows = [
        {
            "competition": each.slug,
            "metric": each.metric.name,
            "deadline": f"{each.deadline:%Y-%m-%d %H:%M} UTC" if each.deadline else "",
            "a day": each.max_daily_submissions,
            "own": each.folder.parent == _home(),
        }
        for each in hosting.all().values()
    ]
    show.listing(rows, options.format)
    for fault in hosting.faults():
        show.warn(f"Left out: {fault}")


def _remove(options: argparse.Namespace) -> None:
    from kaggle_workbench.arena.add import remove
    from kaggle_workbench.show import note

    remove(_home(), options.slug)
    note(f"{options.slug} is hosted no more; its participants' scores are kept.")


def _home() -> Path:
    from kaggle_workbench.settings import load_settings

    return load_settings().output_dir / "arena" / "competitions"


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no moment; write it as 2030-01-31T18:00:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share from 0 to 1")
    return share
