"""`kwb new`: a competition's own folder of notebooks and settings."""

from __future__ import annotations

import argparse
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    new = subparsers.add_parser("new", help="a competition's own notebooks and settings, beside those in code/")
    new.add_argument("slug", metavar="SLUG", help="the last part of the competition's address, such as titanic")
    new.add_argument("--source", choices=("kaggle", "practice"), help="where it is served from")
    new.add_argument("--dry-run", action="store_true", help="say what would be written")
    new.set_defaults(handler=_new)


def _new(options: argparse.Namespace) -> None:
    from kaggle_workbench.settings import require_root
    from kaggle_workbench.show import note
    from kaggle_workbench.stages.new import new

    root = require_root()
    made = new(options.slug, source=options.source, root=root, dry_run=options.dry_run)
    for path in made:
        note(f"  {'would write' if options.dry_run else 'wrote'} {path.relative_to(root)}")
    if options.dry_run:
        note("Dry run: nothing was written.")
        return
    note(f"Edit them in JupyterLab, or run them: ./kwb run --competition {options.slug}")
