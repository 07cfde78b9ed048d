"""`kwb gpus`: what computes."""

from __future__ import annotations

import argparse
import json
from typing import Any


def register(subparsers: Any) -> None:
    """Add the command of this group."""
    gpus = subparsers.add_parser("gpus", help="what computes: GPUs, driver, framework, and the decision")
    gpus.add_argument(
        "--proof", action="store_true", help="also let the framework count its GPUs and compute on each (imports it)"
    )
    gpus.add_argument("--format", choices=("table", "json"), default="table", help="json for programs")
    gpus.set_defaults(handler=_gpus)


def _gpus(options: argparse.Namespace) -> int:
    from kaggle_workbench import devices
    from kaggle_workbench.settings import load_settings

    found = devices.report(load_settings(), proof=options.proof)
    print(json.dumps(found.to_dict(), indent=2) if options.format == "json" else found)
    return found.error.exit_code if found.error else 0
