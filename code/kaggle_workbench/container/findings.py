"""What the checks find: one finding is one sentence about one place of one file, and what to write instead."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kaggle_workbench.show import paint, plural

_COLOURS = {"error": "red", "warning": "yellow", "note": "dim"}


class Mark(NamedTuple):
    """A place in a file; lines and columns count from 1."""

    line: int = 1
    column: int = 1


@dataclass(frozen=True, order=True)
class Finding:
    """One finding.

    Attributes:
        file: The file's name relative to the project.
        mark: Where in the file.
        severity: "error" (AI Workbench would fail, or it is plainly wrong), "warning", or "note"
            (about this machine, not about the file).
        rule: The rule's short name, the same in every version.
        message: What is wrong; true of this very file.
        fix: What to write instead.
    """

    file: str
    mark: Mark
    severity: str
    rule: str
    message: str
    fix: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.mark.line}:{self.mark.column}"
        return f"{where}: {self.severity}: {self.message} {self.fix} [{self.rule}]"

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values."""
        return {
            "severity": self.severity,
            "rule": self.rule,
            "file": self.file,
            "line": self.mark.line,
            "column": self.mark.column,
            "message": self.message,
            "fix": self.fix,
        }


@dataclass(frozen=True)
class Report:
    """All findings of one check, in the order of files and lines."""

    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Report:
        """A report of `findings`, in order and each once."""
        return cls(tuple(sorted(set(findings))))

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings with which AI Workbench would fail."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that may hurt."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    def show(self, *, format: str) -> None:
        """Print the findings to stdout, as text for people or as JSON."""
        if format == "json":
            print(json.dumps([finding.to_dict() for finding in self.findings], indent=2))
            return
        for finding in self.findings:
            severity = paint(finding.severity, _COLOURS[finding.severity], sys.stdout)
            print(f"{finding.file}:{finding.mark.line}:{finding.mark.column}: {severity} [{finding.rule}]")
            print(f"    {finding.message}\n    {finding.fix}")

    def summary(self) -> str:
        """`2 errors, 1 warning`."""
        return f"{plural(len(self.errors), 'error')}, {plural(len(self.warnings), 'warning')}"
