"""`kwb arena serve`: the practice arena in the foreground."""

from __future__ import annotations

import argparse
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


def _serve(options: argparse.Namespace) -> None:
    from kaggle_workbench.arena import launch

    folders, state = launch.hosted_folders(options.folder, options.state)
    asked = launch.DEFAULT_PORT if options.port is None else options.port
    launch.serve(folders, state, host=options.host, port=asked, participants=options.participants)
