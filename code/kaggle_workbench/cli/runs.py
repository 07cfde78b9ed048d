"""`kwb runs`: what was run, what came of it, and what made the difference."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    runs = subparsers.add_parser(
        "runs", help="list the runs; show, compare, report or sync them", description="List the runs, newest first."
    )
    _format(runs, "table", "json", "csv", default="table")
    _from(runs, default="files")
    runs.add_argument("--competition", metavar="SLUG", help="only runs of this one")
    runs.add_argument("--source", choices=("practice", "kaggle"), help="only runs with data from there")
    runs.add_argument("--status", metavar="S[,S]", help="only running, paused, done, failed, died or damaged ones")
    runs.add_argument(
        "--since", metavar="WHEN", help="only runs begun since then: 7d, 12h, or a day such as 2026-11-30"
    )
    runs.add_argument(
        "--sort", metavar="BY", default="created", help="best first: created, CV, public, private, gap, ..."
    )
    runs.add_argument("--group", action="store_true", help="a table for each competition")
    runs.add_argument("--limit", metavar="N", type=_count, help="only the first N")
    runs.set_defaults(handler=_list)
    actions = runs.add_subparsers(metavar="show | compare | report | sync")

    shown = actions.add_parser("show", help="one run in full: steps, parameters, versions, scores, epochs")
    shown.add_argument("run", metavar="RUN", help="its name, or an unambiguous beginning of it")
    _format(shown, "table", "json")
    _from(shown)
    shown.set_defaults(handler=_show)

    compared = actions.add_parser("compare", help="what runs differ in, beside what came of it")
    compared.add_argument("runs", metavar="RUN", nargs="+", help="two or more")
    _format(compared, "table", "json", "csv")
    _from(compared)
    compared.set_defaults(handler=_compare)

    report = actions.add_parser("report", help="a run as one page, report.html in its folder")
    report.add_argument("run", metavar="RUN", help="its name, or an unambiguous beginning of it")
    report.set_defaults(handler=_report)

    synced = actions.add_parser("sync", help="merge the records here and in MongoDB, both ways")
    synced.add_argument("--dry-run", action="store_true", help="only say what would be done")
    _format(synced, "table", "json")
    synced.set_defaults(handler=_sync)


# What stands before the action counts for it, too, so there the option has no default of its own.
def _format(parser: argparse.ArgumentParser, *choices: str, default: str = argparse.SUPPRESS) -> None:
    parser.add_argument("--format", choices=choices, default=default, help="json or csv for programs")


def _from(parser: argparse.ArgumentParser, default: str = argparse.SUPPRESS) -> None:
    parser.add_argument(
        "--from", dest="origin", choices=("files", "mongodb"), default=default, help="where the records are read"
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _list(options: argparse.Namespace) -> None:
    from kaggle_workbench import mirror, records, show, summaries
    from kaggle_workbench.settings import load_settings

    settings = load_settings()
    rows = [
        summaries.summary(record)
        for record in (
            mirror.list_runs(settings, competition=options.competition)
            if options.origin == "mongodb"
            else records.each_run(settings.output_dir, competition=options.competition)
        )
    ]
    chosen = summaries.chosen(rows, status=options.status, since=options.since, source=options.source)
    found = summaries.sort(chosen, options.sort)[: options.limit]
    if options.format == "json":
        show.listing(found, "json")
    elif options.format == "csv":
        # Without runs there is still a head.
        nothing = summaries.summary({"id": "", "status": "", "created": "", "steps": []})
        _csv(found, list(nothing))
    elif options.group and found:
        print("\n\n".join(summaries.table(group) for _, group in summaries.groups(found)))
    else:
        print(summaries.table(found))
    shown = {(row["competition"], row["source"]) for row in found}
    for sentence in summaries.partings([row for row in rows if (row["competition"], row["source"]) in shown]):
        show.warn(sentence)


def _show(options: argparse.Namespace) -> None:
    from kaggle_workbench import summaries

    record = _record(options, options.run)
    print(json.dumps(record, indent=2) if options.format == "json" else summaries.details(record))


def _compare(options: argparse.Namespace) -> None:
    from kaggle_workbench import show, summaries
    from kaggle_workbench.errors import UsageError

    if len(options.runs) < 2:
        raise UsageError("One run cannot be compared.", hint="Name two or more: ./kwb runs compare RUN RUN.")
    found = [_record(options, name) for name in options.runs]
    names = [record["id"] for record in found]
    if len({(record["id"], record.get("uid")) for record in found}) < len(found):
        raise UsageError(f"A run cannot be compared with itself: {', '.join(names)}.", hint="Name different runs.")
    comparison = summaries.compare(found)
    if options.format == "json":
        print(json.dumps(comparison.to_dict(), indent=2, default=str))
    elif options.format == "csv":
        rows = comparison.rows()
        _csv(rows, list(rows[0]) if rows else ["section", "name", *comparison.runs])
    else:
        print(comparison)
    if len({(record.get("competition"), record.get("source")) for record in found}) > 1:
        show.warn("The runs are of different competitions or sources: their scores cannot be compared.")


def _report(options: argparse.Namespace) -> None:
    from kaggle_workbench import records
    from kaggle_workbench.settings import load_settings
    from kaggle_workbench.stages.report import write_report

    print(write_report(records.Run.open(load_settings().output_dir, options.run).folder))


def _sync(options: argparse.Namespace) -> int:
    from kaggle_workbench import mirror
    from kaggle_workbench.settings import load_settings

    result = mirror.sync(load_settings(), dry_run=options.dry_run)
    print(json.dumps(result.to_dict(), indent=2) if options.format == "json" else result)
    return result.exit_code


def _record(options: argparse.Namespace, name: str) -> dict[str, Any]:
    from kaggle_workbench import mirror, records
    from kaggle_workbench.settings import load_settings

    settings = load_settings()
    if options.origin == "mongodb":
        return mirror.find_run(settings, name)
    run = records.Run.open(settings.output_dir, name)
    record = run.read()
    record["status"] = records.true_status(record, run.folder)
    return record


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)


def _harmless(value: Any) -> Any:
    # Spreadsheets would calculate what begins so, and records may come from other people's machines.
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
