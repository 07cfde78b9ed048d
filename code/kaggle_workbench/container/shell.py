"""A command in the running container, joined to this terminal."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kaggle_workbench.container.engine import Engine, TerminalLink


def run(engine: Engine, container: str, argv: Sequence[str]) -> int:
    """Run a command inside; returns its exit code. On a terminal it gets a terminal of its own."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _without_terminal(engine, container, argv)
    environment = {"TERM": os.environ.get("TERM", "xterm")}
    link = engine.terminal(container, argv, tty=True, environment=environment)
    with _raw_terminal(link):
        _copy(link)
    return link.exit_code()


def _without_terminal(engine: Engine, container: str, argv: Sequence[str]) -> int:
    answer = engine.execute(container, argv)
    sys.stdout.write(answer.output)
    sys.stdout.flush()
    return answer.exit_code


def _copy(link: TerminalLink) -> None:
    keys, output = sys.stdin.fileno(), link.socket.fileno()
    watched = [keys, output]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if output in ready:
            data = os.read(output, 65536)
            if not data:
                return
            os.write(sys.stdout.fileno(), data)
        if keys in ready:
            typed = os.read(keys, 65536)
            if typed:
                link.socket.sendall(typed)
            else:
                watched.remove(keys)


@contextmanager
def _raw_terminal(link: TerminalLink) -> Iterator[None]:
    import termios
    import tty

    def resize(*_: Any) -> None:
        size = os.get_terminal_size(sys.stdin.fileno())
        link.resize(size.lines, size.columns)

    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    resized = signal.signal(signal.SIGWINCH, resize)
    try:
        tty.setraw(keys)
        resize()
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, resized)
