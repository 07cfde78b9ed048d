"""`kwb runs`: what was run here, and what came of it."""

from __future__ import annotations

import argparse
import json
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    runs = subparsers.add_parser("runs", help="list the runs, newest first; `kwb runs show RUN` tells one in full")
    _format(runs)
    runs.add_argument("--competition", metavar="SLUG", help="only runs of this one")
    runs.set_defaults(handler=_list)
    actions = runs.add_subparsers(metavar="show")

    shown = actions.add_parser("show", help="one run in full: steps, parameters, versions, scores, epochs")
    shown.add_argument("run", metavar="RUN", help="its name, or an unambiguous beginning of it")
    _format(shown)
    shown.set_defaults(handler=_show)


def _format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("table", "json"), default="table", help="json for programs")


def _list(options: argparse.Namespace) -> None:
    from kaggle_workbench import records, show, summaries
    from kaggle_workbench.settings import load_settings

    found = records.list_runs(load_settings().output_dir, competition=options.competition)
    show.listing([summaries.summary(record) for record in found], options.format, summaries.COLUMNS)


def _show(options: argparse.Namespace) -> None:
    from kaggle_workbench import records, summaries
    from kaggle_workbench.settings import load_settings

    run = records.Run.open(load_settings().output_dir, options.run)
    record = run.read()
    record["status"] = records.true_status(record, run.folder)
    print(json.dumps(record, indent=2) if options.format == "json" else summaries.details(record))
