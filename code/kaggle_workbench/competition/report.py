"""What a submission check found: faults that refuse it, warnings that do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kaggle_workbench.show import plural

SHOWN = 5
VALUE_LENGTH = 60


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a submission, wherever it occurs.

    Attributes:
        kind: Short name for programs, such as "missing ids".
        message: What is wrong, with the number of places.
        examples: The first places, each with its line in the file.
        fix: What to do about it.
        count: Number of places.
    """

    kind: str
    message: str
    examples: tuple[str, ...] = ()
    fix: str = ""
    count: int = 1

    def lines(self, mark: str) -> Iterator[str]:
        """The fault as indented lines of text, `mark` before the first."""
        yield f"  {mark} {self.message}"
        inset = " " * (len(mark) + 3)
        yield from (f"{inset}{example}" for example in self.examples)
        if self.count > len(self.examples) > 0:
            yield f"{inset}... and {self.count - len(self.examples):,} more"
        if self.fix:
            yield f"{inset}To do: {self.fix}"


@dataclass(frozen=True)
class Report:
    """The answer of a check: everything found, at once.

    Attributes:
        file: Name of the checked file.
        rows: Rows read from it; 0 when its content could not be read.
        expected_rows: Rows of the sample submission.
        columns: Columns the sample submission asks for.
        faults: What Kaggle would refuse or score wrongly. A file with a fault is not sent.
        warnings: What may be meant so; it does not hold the file back.
    """

    file: str
    rows: int
    expected_rows: int
    columns: tuple[str, ...]
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the file may be sent."""
        return not self.faults

    @property
    def verdict(self) -> str:
        """One line: good or not, and how much was looked at."""
        warned = f", {plural(len(self.warnings), 'warning')}" if self.warnings else ""
        if self.ok:
            return f"{self.file} is good to submit: {plural(self.rows, 'row')}, columns {_some(self.columns)}{warned}."
        return f"{self.file} is not ready to submit: {plural(len(self.faults), 'fault')}{warned}."

    def __str__(self) -> str:
        lines = [self.verdict]
        for number, fault in enumerate(self.faults, 1):
            lines += fault.lines(f"{number}.")
        for warning in self.warnings:
            lines += warning.lines("Warning:")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values for JSON."""
        return {"ok": self.ok, "verdict": self.verdict, **asdict(self)}


class Findings:
    """Gathers places of each kind of fault, keeping only the first ones."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    def add(self, kind: str, example: str = "", *, count: int = 1) -> None:
        """Note a place of `kind`."""
        self._counts[kind] = self._counts.get(kind, 0) + count
        examples = self._examples.setdefault(kind, [])
        if example and len(examples) < SHOWN:
            examples.append(example)

    def wants(self, kind: str) -> bool:
        """Whether another example of `kind` would be shown."""
        return len(self._examples.get(kind, ())) < SHOWN

    def count(self, kind: str) -> int:
        """Number of places of `kind` so far."""
        return self._counts.get(kind, 0)

    def fault(self, kind: str, message: str, fix: str = "") -> Fault:
        """The gathered places of `kind` as one fault."""
        return Fault(kind, message, tuple(self._examples.get(kind, ())), fix, self._counts.get(kind, 1))


def shown(value: str) -> str:
    """A cell's text for a message: quoted and not endless."""
    return repr(value) if len(value) <= VALUE_LENGTH else repr(value[:VALUE_LENGTH]) + "..."


def printable(text: str) -> str:
    """Text of a file as one line that any terminal can show."""
    text = text if len(text) <= 2 * VALUE_LENGTH else text[: 2 * VALUE_LENGTH] + "..."
    return text if text.isprintable() else repr(text)[1:-1]


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= SHOWN else ", ".join(names[:3]) + f" and {len(names) - 3} more"
