"""What a notebook's cell shows when it is not a picture: a card of facts, or a small table.

Both are readable as plain text, too: in a terminal, in a log, and for those who cannot see colours.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kaggle_workbench import show

Mood = Literal["plain", "good", "bad"]
# In the middle of the scale, so that they show on light and on dark pages.
COLOURS: Mapping[Mood, str] = {"plain": "#4f8fc4", "good": "#3f9b5b", "bad": "#d0562f"}
_CELL = "text-align:left;vertical-align:top;padding:2px 16px 2px 0;border:none;background:none"
_NUMBER = _CELL.replace("text-align:left", "text-align:right")


@dataclass(frozen=True)
class Link:
    """A value that leads somewhere."""

    text: str
    url: str

    def __str__(self) -> str:
        return f"{self.text} ({self.url})"


@dataclass(frozen=True)
class Card:
    """A title, facts by name, and sentences below them.

    Attributes:
        title: One line.
        facts: Value by name; what is None or empty is left out.
        notes: Sentences the person should read.
        mood: Colour of the mark at the left.
    """

    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    mood: Mood = "plain"

    def __repr__(self) -> str:
        facts = self._shown()
        width = max((len(name) for name in facts), default=0)
        lines = [f"  {name.ljust(width)}  {value}" for name, value in facts.items()]
        return "\n".join([self.title, *lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr style="background:none"><td style="{_CELL};opacity:.7">{_safe(name)}</td>'
            f'<td style="{_CELL}">{_value(value)}</td></tr>'
            for name, value in self._shown().items()
        )
        return _frame(self.title, rows, self.notes, self.mood)

    def _shown(self) -> dict[str, Any]:
        return {name: value for name, value in self.facts.items() if value not in (None, "")}


@dataclass(frozen=True)
class Grid:
    """A title and a small table.

    Attributes:
        title: One line.
        rows: The table's rows, all with the same names.
        notes: Sentences below it.
        mood: Colour of the mark at the left.
    """

    title: str
    rows: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    mood: Mood = "plain"

    def __repr__(self) -> str:
        return "\n".join([self.title, show.table(self.rows), *self.notes])

    def _repr_html_(self) -> str:
        names = list(self.rows[0]) if self.rows else []
        right = [all(isinstance(row[name], int | float) for row in self.rows) for name in names]
        styles = [_NUMBER if number else _CELL for number in right]
        head = "".join(
            f'<th style="{style};opacity:.7;font-weight:normal">{_safe(name)}</th>'
            for name, style in zip(names, styles, strict=True)
        )
        body = "".join(
            '<tr style="background:none">'
            + "".join(
                f'<td style="{style}">{_value(row[name])}</td>' for name, style in zip(names, styles, strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        return _frame(self.title, f'<tr style="background:none">{head}</tr>{body}', self.notes, self.mood)


def _frame(title: str, rows: str, notes: Sequence[str], mood: Mood) -> str:
    below = "".join(f'<div style="margin:2px 0">{_safe(note)}</div>' for note in notes)
    table = f'<table style="margin:4px 0;border:none;table-layout:auto">{rows}</table>' if rows else ""
    return (
        f'<div style="border-left:4px solid {COLOURS[mood]};padding:2px 0 2px 14px;margin:4px 0">'
        f"<b>{_safe(title)}</b>{table}{below}</div>"
    )


def _value(value: Any) -> str:
    if isinstance(value, Link):
        return f'<a href="{html.escape(value.url)}" target="_blank" rel="noopener">{_safe(value.text)}</a>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return _safe(f"{value:.4f}" if isinstance(value, float) else str(value))


def _safe(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
