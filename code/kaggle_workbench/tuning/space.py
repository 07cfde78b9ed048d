"""The search space: which parameters are sampled, and from what.

It stands where the parameters stand, as comments in the notebook's parameters cell:

    LEARNING_RATE = 0.001  # search: 0.0001..0.01 log
    BATCH_SIZE = None  # @param {type:"raw"}  # search: 32, 64, 128
    UNITS = 128  # search: 64..512 step 64

or in a TOML file with the same texts, lists for choices, or tables {low, high, log, step}.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import UsageError
from kaggle_workbench.stages.parameters import Declared, typed

_MARK = re.compile(r"#\s*search:\s*(?P<text>[^#]*)", re.IGNORECASE)
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(
    rf"(?P<low>{_NUMBER})\s*\.\.\s*(?P<high>{_NUMBER})(?P<log>\s+log)?(?:\s+step\s+(?P<step>{_NUMBER}))?", re.IGNORECASE
)
_FORMS = "LOW..HIGH, LOW..HIGH log, LOW..HIGH step S, or choices: A, B, C"


@dataclass(frozen=True)
class Dimension:
    """One parameter that is sampled.

    Attributes:
        name: The parameter.
        low: Smallest value; None for choices.
        high: Largest value, itself included.
        log: Sampled evenly in the logarithm.
        step: Distance of neighbours; None: any number, or any whole one.
        choices: What is chosen from, when it is no range.
    """

    name: str
    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    step: float | int | None = None
    choices: tuple[Any, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are meant."""
        return all(isinstance(value, int) for value in (self.low, self.high, self.step) if value is not None)

    @property
    def examples(self) -> tuple[Any, ...]:
        """Values that a check may try: the choices, or both ends."""
        return self.choices or (self.low, self.high)

    def ask(self, trial: Any) -> Any:
        """The value an Optuna trial takes; the same one when it is asked again."""
        if self.choices:
            return trial.suggest_categorical(self.name, list(self.choices))
        if self.whole:
            return trial.suggest_int(self.name, self.low, self.high, step=self.step or 1, log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, step=self.step, log=self.log)

    def __str__(self) -> str:
        if self.choices:
            return f"{self.name}: {', '.join(str(choice) for choice in self.choices)}"
        step = f" step {self.step}" if self.step is not None else ""
        return f"{self.name}: {self.low}..{self.high}{' log' if self.log else ''}{step}"


def read_space(declared: Mapping[str, Declared], file: Path | None = None) -> list[Dimension]:
    """The search space: of a file, else of the comments in the parameters cell.

    Args:
        declared: The parameters cell of the training's notebook.
        file: A TOML file; it stands instead of the comments.

    Raises:
        UsageError: No such file, or something in it that is no range and no choice.
    """
    if file is None:
        marks = {name: _MARK.search(each.line) for name, each in declared.items()}
        return [
            parse(name, mark["text"].strip(), f"the parameters cell, {name}", declared[name].default)
            for name, mark in marks.items()
            if mark
        ]
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"The search space {file} cannot be read: {error.strerror}.", hint="Correct --space."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The search space {file} is no TOML: {error}.", hint="Correct the file.") from None
    if not entries:
        raise UsageError(f"The search space {file} is empty.", hint=f'For example: EPOCHS = "2..6". Forms: {_FORMS}.')
    space = []
    for name, entry in entries.items():
        default = declared[name].default if name in declared else None
        space.append(parse(name, entry, f"{file.name}, {name}", default))
    return space


def parse(name: str, entry: Any, where: str, default: Any = None) -> Dimension:
    """One parameter's range or choices.

    Args:
        name: The parameter.
        entry: A text, a list of choices, or a table with low, high, log, step.
        where: For the message.
        default: The notebook's value; choices are of its type.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(entry, list) and entry:
        return _checked(Dimension(name, choices=tuple(entry)), where)
    if isinstance(entry, dict) and {"low", "high"} <= entry.keys() <= {"low", "high", "log", "step"}:
        return _checked(Dimension(name, entry["low"], entry["high"], entry.get("log", False), entry.get("step")), where)
    if isinstance(entry, str):
        match = _RANGE.fullmatch(entry.strip())
        if match:
            low, high = _number(match["low"]), _number(match["high"])
            step = _number(match["step"]) if match["step"] else None
            if isinstance(low, float) or isinstance(high, float) or isinstance(default, float):
                low, high = float(low), float(high)
            return _checked(Dimension(name, low, high, bool(match["log"]), step), where)
        choices = tuple(typed(part.strip().strip("'\""), default) for part in entry.split(",") if part.strip())
        if choices and ".." not in entry:
            return _checked(Dimension(name, choices=choices), where)
    raise _wrong(where, f"{entry!r} is no range and no choice")


def _checked(dimension: Dimension, where: str) -> Dimension:
    low, high, step = dimension.low, dimension.high, dimension.step
    if dimension.choices:
        if not all(choice is None or isinstance(choice, bool | int | float | str) for choice in dimension.choices):
            raise _wrong(where, "choices must be numbers, texts, true or false")
        if len(set(map(repr, dimension.choices))) < len(dimension.choices):
            raise _wrong(where, "a choice stands there twice")
        return dimension
    numbers = [value for value in (low, high, step) if value is not None]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers):
        raise _wrong(where, "low, high and step must be numbers")
    if low is None or high is None or not low < high:
        raise _wrong(where, f"{low} is not below {high}")
    if dimension.log and low <= 0:
        raise _wrong(where, "with `log`, the smallest value must be above 0")
    if step is not None and (dimension.log or not 0 < step <= high - low):
        raise _wrong(where, "`step` must be above 0 and within the range, and goes without `log`")
    return dimension


def _number(text: str) -> float | int:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _wrong(where: str, what: str) -> UsageError:
    return UsageError(f"Search space ({where}): {what}.", hint=f"The forms are: {_FORMS}.")
