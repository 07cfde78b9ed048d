"""`kwb check` and `kwb submit`: a submission file, looked at and sent."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaggle_workbench.settings import Settings


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    check = subparsers.add_parser("check", help="check a submission file; never spends a submission")
    _common(check)
    check.set_defaults(handler=_check)

    submit = subparsers.add_parser("submit", help="check a submission file, then submit it, once")
    _common(submit)
    submit.add_argument("-m", "--message", required=True, metavar="TEXT", help="what is new in it; shown in your list")
    submit.add_argument("--no-wait", action="store_true", help="do not wait for the score")
    submit.add_argument("--dry-run", action="store_true", help="make every check, send nothing")
    submit.set_defaults(handler=_submit)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the submission: .csv, .csv.gz, or .zip with one file")
    parser.add_argument("--competition", metavar="SLUG", help="instead of COMPETITION in variables.env")
    parser.add_argument("--sample", type=Path, metavar="FILE", help="sample submission, if not the one in the data")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="json for programs")


def _settings(options: argparse.Namespace) -> Settings:
    """The settings in force; a file in a run's folder belongs to that run's competition and source."""
    from kaggle_workbench.errors import UsageError, WorkError
    from kaggle_workbench.records import RECORD_FILE, Run
    from kaggle_workbench.settings import load_settings
    from kaggle_workbench.show import note, warn

    settings = load_settings({"COMPETITION": options.competition})
    folder = options.file.resolve().parent
    if options.competition is None and (folder / RECORD_FILE).is_file():
        try:
            record = Run(folder).read()
        except WorkError:
            record = {}
        slug, source = record.get("competition"), record.get("source")
        if slug and source:
            if settings.source not in ("auto", source):
                raise UsageError(
                    f"{options.file} is of run {folder.name}, trained on {slug} from {source}, and SOURCE is "
                    f"{settings.source}.",
                    hint="Correct SOURCE in variables.env, or name the competition it is for: --competition SLUG.",
                )
            if slug != settings.competition:
                note(f"{options.file.name} is of run {folder.name}: competition {slug}, from {source}.")
            settings = load_settings({"COMPETITION": slug, "SOURCE": source})
    for sentence in settings.notes:
        warn(sentence)
    return settings


def _check(options: argparse.Namespace) -> int:
    from kaggle_workbench.competition.check import check_file
    from kaggle_workbench.errors import RefusedError

    settings = _settings(options)
    report = check_file(settings, options.file, sample=options.sample)
    print(json.dumps(report.to_dict(), indent=2) if options.format == "json" else report)
    return 0 if report.ok else RefusedError.exit_code


def _submit(options: argparse.Namespace) -> None:
    from kaggle_workbench.competition.connect import connect
    from kaggle_workbench.competition.submit import submit

    settings = _settings(options)
    with connect(settings) as source:
        result = submit(
            settings,
            source,
            options.file,
            options.message,
            dry_run=options.dry_run,
            wait=not options.no_wait,
            sample=options.sample,
        )
    print(json.dumps(result.to_dict(), indent=2) if options.format == "json" else result)
