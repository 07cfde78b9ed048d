"""How the workbench talks to people: messages on stderr, tables, progress, JSON on stdout."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO


def note(text: str) -> None:
    """Say one thing to the person, on stderr, so that stdout stays a result; in a notebook as plain output."""
    # JupyterLab shows stderr on red, as if something had failed.
    stream = sys.stdout if in_notebook() else sys.stderr
    try:
        print(text, file=stream, flush=True)
    except RuntimeError:
        # Said by a signal's handler that has interrupted printing, which cannot be begun twice.
        with contextlib.suppress(OSError, ValueError):
            os.write(2, f"{text}\n".encode())


def warn(text: str) -> None:
    """Say what may be wrong, marked as a warning (see `note`)."""
    note(f"{paint('Warning:', 'yellow', sys.stderr)} {text}")


def paint(text: str, colour: str, stream: TextIO) -> str:
    """Colour `text` where `stream` is a terminal and `NO_COLOR` is not set."""
    codes = {"red": 31, "green": 32, "yellow": 33, "bold": 1, "dim": 2}
    if os.environ.get("NO_COLOR") or not stream.isatty():
        return text
    return f"\x1b[{codes[colour]}m{text}\x1b[0m"


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as an aligned text table; numbers to the right, missing values as "-"."""
    if not rows:
        return "(none)"
    names = list(columns) if columns is not None else list(rows[0])
    heads = [one_line(name).replace("_", " ") for name in names]
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(head), *(len(line[i]) for line in cells)) for i, head in enumerate(heads)]
    right = [all(_is_number(row.get(name)) for row in rows) for name in names]
    lines = [heads, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def listing(rows: Sequence[Mapping[str, Any]], format: str, columns: Sequence[str] | None = None) -> None:
    """Print rows to stdout as `table` or `json` (JSON holds every field, not only `columns`)."""
    if format == "json":
        print(json.dumps(list(rows), indent=2, default=str))
    else:
        print(table(rows, columns))


def in_notebook() -> bool:
    """Whether this is the process behind a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def output(
    bundle: Mapping[str, Any],
    *,
    metadata: Mapping[str, Any] | None = None,
    id: str | None = None,
    update: bool = False,
) -> None:
    """Put something under the notebook's running cell.

    Args:
        bundle: Content by MIME type; a front end takes the richest one it knows.
        metadata: By MIME type.
        id: Name of the output, by which it can be replaced.
        update: Replace the output of that name instead of adding one.
    """
    from IPython import display

    publish: Any = display.publish_display_data
    publish(dict(bundle), dict(metadata or {}), transient={"display_id": id} if id else {}, update=update)


def progress(total: int | None, what: str, unit: str = "B") -> Any:
    """A progress bar (tqdm): enter it with `with`, then call its `update(n)`.

    In a terminal and in JupyterLab a bar; where a notebook is executed without a person, a line
    every ten seconds; elsewhere (a pipe, a log) nothing.

    Args:
        total: Amount of work in `unit`, or None when unknown.
        what: Short label at the left.
        unit: "B" is shown with SI prefixes; any other word as it is.
    """
    if os.environ.get("KWB_EXECUTED"):
        from tqdm import tqdm

        return tqdm(total=total, desc=what, unit=unit, unit_scale=unit == "B", mininterval=10, file=_Lines(), delay=10)
    from tqdm.auto import tqdm

    hidden = not sys.stderr.isatty() and not in_notebook()
    return tqdm(total=total, desc=what, unit=unit, unit_scale=unit == "B", leave=False, disable=hidden, file=sys.stderr)


class _Lines:
    """A stream on which each redrawing of a bar is a line of its own."""

    def write(self, text: str) -> None:
        if text.strip():
            print(text.strip(), flush=True)

    def flush(self) -> None:
        sys.stdout.flush()


def plural(count: int, noun: str) -> str:
    """`plural(1, "file") == "1 file"`, `plural(12000, "row") == "12,000 rows"`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def one_line(text: str) -> str:
    """A text without line breaks and without what steers a terminal, such as colours; each such sign becomes "?"."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else " " if sign in "\n\r\t" else "?" for sign in text)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        # With five places a number of this size would be as wide as the screen.
        return f"{value:.5f}" if abs(value) < 1e15 else f"{value:.5g}"
    return one_line(str(value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
