"""`kwb doctor`: what is wrong with this machine and this project, and the mend."""

from __future__ import annotations

import argparse
from typing import Any


def register(subparsers: Any) -> None:
    """Add the commands of this group."""
    doctor = subparsers.add_parser("doctor", help="one line a check, each with its fix")
    doctor.add_argument("--format", choices=("table", "json"), default="table")
    doctor.add_argument("--only", nargs="+", default=[], metavar="ID", help="these checks alone")
    doctor.add_argument("--fix", action="store_true", help="do the harmless mends, and say what was done")
    doctor.add_argument("--online", action="store_true", help="also ask Kaggle: credentials, rules, what is left")
    doctor.set_defaults(handler=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    import json
    import sys

    from kaggle_workbench.doctor import Facts, examine, mend
    from kaggle_workbench.settings import require_root
    from kaggle_workbench.show import note, paint, plural

    facts = Facts(require_root())
    found = examine(facts, only=options.only, online=options.online)
    if options.fix:
        done = mend(found)
        for sentence in done:
            note(sentence)
        if done:
            found = examine(Facts(facts.root), only=options.only, online=options.online)
    failures = sum(result.state == "failed" for _, result in found)
    if options.format == "json":
        rows = [
            {
                "check": check.id,
                "title": check.title,
                "state": result.state,
                "found": result.found,
                "fix": result.fix,
                "fixable": result.harmless is not None,
            }
            for check, result in found
        ]
        print(json.dumps(rows, indent=2))
        return int(failures > 0)
    width = max(len(check.id) for check, _ in found)
    signs = {"passed": ("ok", "green"), "warned": ("!", "yellow"), "failed": ("x", "red"), "not checked": ("-", "dim")}
    for check, result in found:
        sign, colour = signs[result.state]
        print(f"{paint(sign.ljust(2), colour, sys.stdout)}  {check.id.ljust(width)}  {result.found}")
        if result.fix and result.state != "passed":
            print(f"{' ' * (width + 6)}{paint('mend:', 'dim', sys.stdout)} {result.fix}")
    warnings = sum(result.state == "warned" for _, result in found)
    verdict = f"{plural(len(found), 'check')}: {failures} failed, {warnings} with a warning."
    fixable = any(result.harmless for _, result in found)
    print(f"\n{verdict}" + (" ./kwb doctor --fix does the harmless mends." if fixable else ""))
    return int(failures > 0)
