"""`kwb bench`: this machine's CPU and GPUs beside the published times."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    bench = subparsers.add_parser("bench", help="time the published workload on this machine's CPU and GPUs")
    bench.add_argument("--quick", action="store_true", help="a few hundred steps each, the rest projected")
    bench.add_argument(
        "--device",
        dest="devices",
        action="append",
        default=[],
        metavar="cpu|gpuN",
        help="only this one; may be repeated (each GPU and the CPU)",
    )
    bench.add_argument(
        "--backend",
        dest="backends",
        action="append",
        default=[],
        choices=("tensorflow", "jax", "torch"),
        help="framework; may be repeated (KERAS_BACKEND)",
    )
    bench.add_argument(
        "--backends",
        dest="every_backend",
        action="store_true",
        help="all frameworks installed, and which is fastest here",
    )
    bench.add_argument("--output", type=Path, metavar="FOLDER", help="where the result is kept (OUTPUT_DIR/bench)")
    bench.add_argument("--list", action="store_true", help="show earlier results, measure nothing")
    bench.add_argument("--dry-run", action="store_true", help="say what would be measured, measure nothing")
    bench.add_argument("--format", choices=("table", "json"), default="table", help="json for programs")
    # For tests and for checking a projection: another workload, whose times stand beside no published ones.
    bench.add_argument("--epochs", type=int, default=None, help=argparse.SUPPRESS)
    bench.add_argument("--rows", type=int, default=None, help=argparse.SUPPRESS)
    bench.set_defaults(handler=_bench)


def _bench(options: argparse.Namespace) -> int:
    from kaggle_workbench import benchmark
    from kaggle_workbench.settings import load_settings
    from kaggle_workbench.show import note, warn

    settings = load_settings()
    for sentence in settings.notes:
        warn(sentence)
    if options.list:
        rows = benchmark.earlier(benchmark.results_folder(settings, options.output))
        print(json.dumps(rows, indent=2) if options.format == "json" else benchmark.earlier_table(rows))
        return 0
    backends = benchmark.installed() if options.every_backend else options.backends
    targets = benchmark.find_targets(settings, options.devices, backends)
    workload = benchmark.other_workload(epochs=options.epochs, rows=options.rows)
    if options.dry_run:
        plan = benchmark.outlook(settings, targets, options.output, quick=options.quick, workload=workload)
        print(json.dumps(plan, indent=2) if options.format == "json" else benchmark.outlook_text(plan))
        return 0
    result = benchmark.bench(
        settings,
        targets,
        quick=options.quick,
        folder=options.output,
        workload=workload,
    )
    print(json.dumps(result.to_dict(), indent=2) if options.format == "json" else result.table())
    note(f"Kept in {result.file}, drawn in {result.picture.name} beside it.")
    return 1 if len(result.done) < len(result.rows) else 0
