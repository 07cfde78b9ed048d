"""The arena's own process: `python -m kaggle_workbench.arena`.

Prints one line of JSON when it listens (or why it does not). With `--lifeline` it ends when its
standard input is closed, so that it never outlives the process that started it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from kaggle_workbench.arena import server
from kaggle_workbench.errors import WorkbenchError


def main() -> int:
    """Serve until told to end; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m kaggle_workbench.arena", description=__doc__)
    parser.add_argument("--folder", action="append", type=Path, default=[], help="a folder with competitions")
    parser.add_argument("--state", type=Path, required=True, help="where submissions, scores and tokens are kept")
    parser.add_argument("--host", default=server.LOOPBACK)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--participants", type=Path)
    parser.add_argument("--lifeline", action="store_true", help="end when standard input is closed")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # Ctrl+C in the starter's terminal reaches the whole group; the starter decides when we end.
    if options.lifeline:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        bound = server.bind(
            options.folder, options.state, host=options.host, port=options.port, participants=options.participants
        )
    except WorkbenchError as error:
        _say({"error": error.message, "hint": error.hint, "exit_code": error.exit_code})
        return error.exit_code
    _say({"url": bound.url, "token_file": str(bound.token_file), "faults": bound.faults, "slugs": bound.slugs})
    if options.lifeline:
        threading.Thread(target=_end_with_starter, daemon=True).start()
    bound.run()
    return 0


def _say(document: object) -> None:
    print(json.dumps(document), flush=True)


def _end_with_starter() -> None:
    while sys.stdin.buffer.read(4096):
        pass
    # A signal wakes the main thread out of its wait, where a flag would only be seen a second later.
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
