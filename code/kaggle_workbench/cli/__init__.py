"""The command line: thin. Every option is a keyword argument of one function in a room below.

A command group is a module with `register(subparsers)`; it imports what it runs inside its
handlers, so that `kwb --help` needs nothing but the standard library.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

import kaggle_workbench
from kaggle_workbench.errors import MissingError, WorkbenchError

# In the order `kwb --help` lists them.
GROUPS = (
    "run",
    "submit",
    "runs",
    "gpus",
    "bench",
    "tune",
    "push",
    "new",
    "container",
    "spec",
    "arena",
    "doctor",
    "develop",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Words behind `kwb`; by default those of this process.

    Returns:
        The exit code: 0 done, 1 work failed, 2 wrong use, 3 something outside missing, 4 refused.
    """
    # A closed pipe (`kwb runs | head`) ends us quietly, as other commands do.
    if hasattr(signal, "SIGPIPE") and argv is None:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    options = _parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    if not hasattr(options, "handler"):
        _parser().print_help()
        return 0
    try:
        return int(options.handler(options) or 0)
    except KeyboardInterrupt:
        print("\nkwb: stopped.", file=sys.stderr)
        return 130
    except WorkbenchError as error:
        return _failed(error, debug=options.debug)
    except OSError as error:
        if options.debug:
            raise
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _failed(
            MissingError(f"{what}.", hint="The system refused this; `kwb --debug ...` shows where."), debug=False
        )
    except ModuleNotFoundError as error:
        if options.debug or (error.name or "").startswith("kaggle_workbench"):
            raise
        return _failed(
            MissingError(
                f"The Python package {error.name!r} is missing from this environment.",
                hint="Run it as ./kwb, which installs what it needs; if you did, delete .venv and run it again.",
            ),
            debug=False,
        )


def _failed(error: WorkbenchError, *, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
        return error.exit_code
    from kaggle_workbench.show import paint

    print(f"{paint('kwb:', 'red', sys.stderr)} {error.message}", file=sys.stderr)
    for line in error.hint.splitlines():
        print(f"     {line}", file=sys.stderr)
    from kaggle_workbench.doctor.explains import check_of

    if check := check_of(error):
        print(f"     More: ./kwb doctor --only {check}", file=sys.stderr)
    return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kwb", description="Any Kaggle competition from data to leaderboard, in one and the same container."
    )
    parser.add_argument("--version", action="version", version=f"kwb {kaggle_workbench.__version__}")
    parser.add_argument("--debug", action="store_true", help="show the full trace of an error")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for group in GROUPS:
        importlib.import_module(f"kaggle_workbench.cli.{group}").register(subparsers)
    return parser
