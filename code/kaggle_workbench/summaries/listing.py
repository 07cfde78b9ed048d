"""Listings of runs: which ones, in what order, and the table that fits a terminal."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.errors import UsageError
from kaggle_workbench.records.document import STATUSES, utc
from kaggle_workbench.summaries.row import greater_is_better

Row = Mapping[str, Any]

# What `--sort` takes; each puts the best first: newest, best score, smallest gap, shortest, most epochs.
SORTS = ("created", "updated", "CV", "public", "private", "gap", "rank", "took", "epochs", "run", "status")
COLUMNS = ("run", "status", "stages", "competition", "source", "device", "epochs", "CV", "public", "private", "gap")
# Left out first when the table is too wide; what is not named here always stays.
SPARE = ("device", "stages", "epochs", "source", "private", "took")
WIDTH = 100
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def chosen(
    rows: Sequence[Row], *, status: str | None = None, since: str | None = None, source: str | None = None
) -> list[Row]:
    """The rows that a listing is about.

    Args:
        rows: As `summary` gives them.
        status: One status, or several with commas between.
        since: "7d", "12h", "30m", "2w", or a day or time in UTC such as "2026-11-30".
        source: "practice" or "kaggle".

    Raises:
        UsageError: No such status, or no such time.
    """
    wanted = [word.strip() for word in status.split(",")] if status else []
    unknown = [word for word in wanted if word not in STATUSES]
    if unknown:
        raise UsageError(f"There is no status {unknown[0]!r}.", hint=f"The statuses are: {', '.join(STATUSES)}.")
    earliest = _moment(since) if since else ""
    return [
        row
        for row in rows
        if (not wanted or row["status"] in wanted)
        and (row["created"] >= earliest)
        and source in (None, row.get("source"))
    ]


def sort(rows: Sequence[Row], by: str) -> list[Row]:
    """The rows with the best first; those that lack the value come last, newest first.

    A score is only compared within its competition: with several of them each one's runs stand together.

    Args:
        rows: As `summary` gives them.
        by: One of `SORTS`, in upper or lower case.

    Raises:
        UsageError: Runs cannot be sorted by that.
    """
    known = {name.lower(): name for name in SORTS}
    if by.lower() not in known:
        raise UsageError(f"Runs cannot be sorted by {by!r}.", hint=f"--sort takes one of: {', '.join(SORTS)}.")
    by = known[by.lower()]
    # Python's sort is stable, so the last key sorted by is the first one that counts.
    rows = sorted(rows, key=lambda row: (row["created"], row["run"]), reverse=True)
    if by in ("created", "updated"):
        return sorted(rows, key=lambda row: row.get(by) or "", reverse=True)
    if by in ("run", "status"):
        return sorted(rows, key=lambda row: str(row[by]))
    rows = sorted(rows, key=lambda row: _worth(row, by))
    if by not in ("CV", "public", "private", "rank"):
        return rows
    order = {key: place for place, (key, _) in enumerate(groups(sorted(rows, key=_newest_first)))}
    return sorted(rows, key=lambda row: order[_group(row)])


def groups(rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str], list[Row]]]:
    """The rows by competition and source, in the order of each one's first row."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault(_group(row), []).append(row)
    yield from found.items()


def table(rows: Sequence[Row], *, width: int | None = None) -> str:
    """The rows as a table that fits: what all have in common stands above it, what none has is left out.

    Args:
        rows: As `summary` gives them.
        width: Signs in a line; by default the terminal's, and 100 where there is none.
    """
    if not rows:
        return "(none)"
    # Narrower than this no table of runs is of use.
    width = max(80, width or shutil.get_terminal_size((WIDTH, 24)).columns)
    lines = []
    names = [*COLUMNS, "took"]
    for name in ("competition", "source"):
        if len({row.get(name) for row in rows}) == 1:
            names.remove(name)
    if "competition" not in names and rows[0].get("competition"):
        source = f" ({rows[0]['source']})" if "source" not in names else ""
        lines.append(show.one_line(f"{rows[0]['competition']}{source}"))
    names = [name for name in names if name in ("CV", "public") or any(row.get(name) is not None for row in rows)]
    # The second line of a table is its rule, as long as the column is wide.
    widths = {name: len(show.table(rows, [name]).split("\n", 2)[1]) for name in names}
    for spare in SPARE:
        if _width(names, widths) > width and spare in names:
            names.remove(spare)
    over = _width(names, widths) - width
    if over > 0 and "competition" in names:
        most = widths["competition"] - over
        rows = [{**row, "competition": _cut(row.get("competition"), most)} for row in rows]
    return "\n".join([*lines, show.table(rows, names)])


def _width(names: Sequence[str], widths: Mapping[str, int]) -> int:
    return sum(widths[name] for name in names) + 2 * (len(names) - 1)


def _cut(text: str | None, most: int) -> str | None:
    most = max(most, 10)
    return text if text is None or len(text) <= most else f"{text[: most - 2]}.."


def _group(row: Row) -> tuple[str, str]:
    return (str(row.get("competition") or ""), str(row.get("source") or ""))


def _newest_first(row: Row) -> float:
    try:
        return -datetime.fromisoformat(row["created"]).timestamp()
    except ValueError:
        return 0.0


def _worth(row: Row, by: str) -> float:
    """Smaller is better; what is missing is the worst."""
    value = row.get("seconds" if by == "took" else by)
    if not isinstance(value, int | float):
        return float("inf")
    if by in ("CV", "public", "private"):
        return -value if greater_is_better(row.get("metric")) else value
    return {"gap": abs(value), "epochs": -value}.get(by, value)


def _moment(text: str) -> str:
    match = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip())
    if match:
        past = timedelta(**{_UNITS[match[2]]: int(match[1])})
        return utc((datetime.now(UTC) - past).isoformat())
    try:
        return utc(datetime.fromisoformat(text.strip()).isoformat())
    except ValueError:
        raise UsageError(
            f"{text!r} is neither a day nor a length of time.",
            hint="Write --since 7d (also m, h, w) or --since 2026-11-30 (UTC).",
        ) from None
