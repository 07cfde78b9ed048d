"""`kwb tune`: variants and sampled trials of the training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    tune = subparsers.add_parser("tune", help="train variants, and trials that Optuna samples")
    tune.add_argument("--trials", type=_count, metavar="N", help="how many trials to sample from the search space")
    tune.add_argument(
        "--variants", type=Path, metavar="FILE", help="a table of parameters, a trial each: CSV, JSON, TOML"
    )
    tune.add_argument(
        "--space", type=Path, metavar="FILE", help="search space (TOML) instead of 02-train's `# search:` comments"
    )
    tune.add_argument(
        "--engine", default="local", metavar="NAME", help="where trials run: local (default), ray, kaggle"
    )
    tune.add_argument("--address", metavar="A", help="address of a running Ray cluster; else one is started here")
    tune.add_argument("--machine", default="t4", metavar="NAME", help="which of Kaggle's machines: cpu, t4, ... (t4)")
    tune.add_argument("--slots", type=_count, metavar="N", help="how many trials at once (as many as fit)")
    tune.add_argument("--competition", metavar="SLUG", help="instead of COMPETITION in variables.env")
    tune.add_argument("--gpus", type=int, metavar="N", help="how many GPUs to use; 0: trials on the CPU")
    tune.add_argument(
        "--set",
        dest="assignments",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting or parameter of all trials; may be repeated",
    )
    tune.add_argument("--study", metavar="NAME", help="a name for the study")
    tune.add_argument("--resume", metavar="STUDY", help="go on with this study")
    tune.add_argument("--storage", metavar="URL", help="an Optuna storage; with a password better in TUNE_STORAGE")
    tune.add_argument("--seed", type=int, default=0, metavar="N", help="where sampling starts (0)")
    tune.add_argument("--hours", type=float, metavar="H", help="stop then; trials at work are saved")
    tune.add_argument("--direction", choices=("maximize", "minimize"), help="what is better (as the metric says)")
    tune.add_argument("--no-prune", action="store_true", help="let every trial run to its end")
    tune.add_argument("--format", choices=("table", "json"), default="table", help="how to print the table")
    tune.add_argument("--dry-run", action="store_true", help="say what would run, run nothing")
    tune.set_defaults(handler=_tune)


def _tune(options: argparse.Namespace) -> None:
    from kaggle_workbench import show
    from kaggle_workbench.cli.run import parse_assignments
    from kaggle_workbench.settings import load_settings
    from kaggle_workbench.tuning import table, tune

    study = tune(
        competition=options.competition,
        trials=options.trials,
        variants=options.variants,
        space=options.space,
        engine=options.engine,
        address=options.address,
        machine=options.machine,
        slots=options.slots,
        gpus=options.gpus,
        overrides=parse_assignments(options.assignments),
        study=options.study,
        resume=options.resume,
        storage=options.storage,
        seed=options.seed,
        hours=options.hours,
        direction=options.direction,
        prune=not options.no_prune,
        dry_run=options.dry_run,
    )
    if study is None:
        return
    rows = table.rows(study, load_settings().output_dir / "runs")
    if options.format == "json":
        show.listing(rows, "json")
    else:
        show.listing(table.shown(rows, study.metric), "table")
        show.note(table.verdict(rows, study.metric, greater_is_better=study.greater_is_better))


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
