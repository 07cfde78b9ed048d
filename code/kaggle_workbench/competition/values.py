"""The predicted values of a submission: numbers where numbers are wanted, labels that exist, probabilities."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from kaggle_workbench import metrics
from kaggle_workbench.competition.report import Fault, Findings, printable, shown
from kaggle_workbench.competition.sample import INTEGER, NUMBER, Column, Row, Sample, numbers
from kaggle_workbench.show import plural

NOT_A_NUMBER = {"nan", "-nan", "na", "n/a", "#n/a", "null", "none", "<na>", "nat"}
SUM_TOLERANCE = 0.01
# Metrics that rank or threshold each column alone do not ask for probabilities.
RANKING = re.compile(r"auc|\broc\b|area under|gini|precision|map@|ndcg", re.IGNORECASE)
# Masks and lists of boxes: an empty cell is an answer ("nothing found").
MAY_BE_EMPTY = re.compile(r"rle|encoded|pixels|predictionstring|prediction_?string|annotation|boxes", re.IGNORECASE)


class ValueCheck:
    """Checks every value of the columns to predict.

    Args:
        sample: The sample submission.
        places: Column of each of the sample's names in the file.
        classes: Known labels of the training data; None: unknown.
        metric: The competition's metric as Kaggle names it; None: unknown.
        id_place: Column of the ids, for the examples.
    """

    def __init__(
        self,
        sample: Sample,
        places: Mapping[str, int],
        *,
        classes: Iterable[object] | None,
        metric: str | None,
        id_place: int | None,
    ) -> None:
        self._id, self._id_place = sample.id, id_place
        known = frozenset(map(_label, classes)) if classes is not None else None
        self._classes: Sequence[str] = _in_order(known or ())
        ranking = bool(metric and RANKING.search(metric))
        self._checks = [
            _ColumnCheck(
                column,
                places[column.name],
                known if len(sample.targets) == 1 else None,
                sample.sums_to_one and not ranking,
                amounts=_takes_fractions(metric),
            )
            for column in sample.targets
            if column.name in places
        ]
        self._sums = sample.sums_to_one and not ranking and len(self._checks) == len(sample.targets)
        # Two columns of 0.5 may be two questions, or two quantities, as well as two classes.
        self._two_columns = len(sample.targets) == 2
        self._found = Findings()
        self._columns: dict[str, list[str]] = {}
        self._rows = 0

    def add(self, block: list[Row]) -> None:
        """Take in a block of rows that all have the header's number of cells."""
        if not block:
            return
        self._rows += len(block)
        cells = list(zip(*(row for _, row in block), strict=True))
        parsed: list[list[float]] = []
        for check in self._checks:
            values = cells[check.place]
            bad, plain = check.judge(values)
            if plain is not None:
                parsed.append(plain)
            if bad:
                for (line, row), value in zip(block, values, strict=True):
                    if kind := bad.get(value):
                        self._note(kind, check.column.name, line, row, value)
        if self._sums and len(parsed) == len(self._checks):
            for (line, row), total in zip(block, map(sum, zip(*parsed, strict=True)), strict=True):
                if abs(total - 1) > SUM_TOLERANCE:
                    self._found.add("sum", f"line {line}{self._named(row)}: {total:.4f}")

    def result(self) -> tuple[list[Fault], list[Fault]]:
        """Faults and warnings."""
        faults: list[Fault] = []
        warnings: list[Fault] = []
        for check in self._checks:
            if check.looks_like_indices(self._rows):
                message = f"{check.column.name}: every value is a number, where the sample has text."
                fix = "If these are places of labels, write the labels themselves, as the training data do."
                faults.append(Fault("numbers for text", message, fix=fix, count=self._rows))
        for kind, (message, fix) in _KINDS.items():
            if not (count := self._found.count(kind)):
                continue
            columns = self._columns[kind]
            where = ", ".join(columns[:3]) + (f" and {len(columns) - 3} more columns" if len(columns) > 3 else "")
            places = plural(count, "row" if len(columns) == 1 else "value")
            text = f"{where}: {message.format(classes=_some(self._classes))}, in {places}."
            doubtful = kind in _WARNINGS or (kind == "probability" and self._two_columns)
            (warnings if doubtful else faults).append(self._found.fault(kind, text, fix))
        if count := self._found.count("sum"):
            message = f"{plural(count, 'row')} whose probabilities do not sum to 1, as the sample's do."
            found = self._found.fault("sum", message, "Divide each row by its sum (a softmax does it).")
            (warnings if self._two_columns else faults).append(found)
        if self._rows > 1 and self._checks and all(len(check.seen) == 1 for check in self._checks):
            value = next(iter(self._checks[0].seen))
            message = f"Every row has the same prediction ({shown(value)})."
            warnings.append(
                Fault("constant", message, fix="Make sure that the model was trained and the right column written.")
            )
        return faults, warnings

    def _note(self, kind: str, column: str, line: int, row: Sequence[str], value: str) -> None:
        names = self._columns.setdefault(kind, [])
        if column not in names:
            names.append(column)
        example = ""
        if self._found.wants(kind):
            example = f"line {line}{self._named(row)}: {column} is {shown(value)}{_guess(kind, value, self._classes)}"
        self._found.add(kind, example)

    def _named(self, row: Sequence[str]) -> str:
        return f" ({self._id} {printable(row[self._id_place])})" if self._id_place is not None else ""


class _ColumnCheck:
    """What one column may hold."""

    def __init__(
        self,
        column: Column,
        place: int,
        classes: frozenset[str] | None,
        probability: bool,  # noqa: FBT001
        *,
        amounts: bool,
    ) -> None:
        self.column, self._amounts = column, amounts
        self.place = place
        self.seen: set[str] = set()
        self._probability = probability
        # The sample is the authority: labels that do not cover it are those of something else.
        fits = classes is not None and column.values is not None and set(map(_label, column.values)) <= classes
        self._classes = classes if fits else None
        self._indices = 0
        texts = column.values or frozenset()
        self._all_text = column.kind == "text" and bool(texts) and not any(map(NUMBER.fullmatch, texts))

    def judge(self, values: Sequence[str]) -> tuple[dict[str, str], list[float] | None]:
        """The kinds of fault by value, and the values as numbers when all of them are plain ones."""
        distinct = set(values)
        if len(self.seen) < 2:
            self.seen |= set(list(distinct)[:2])
        plain = numbers(values) if self.column.kind != "text" else None
        free = self._classes is None and self.column.kind == "number"
        if plain is not None and free and not (self._probability and (min(plain) < 0 or max(plain) > 1)):
            return {}, plain
        bad = {value: kind for value in distinct if (kind := self._kind(value))}
        if self._all_text:
            self._indices += (
                sum(map(values.count, filter(NUMBER.fullmatch, distinct)))
                if len(distinct) < 50
                else sum(1 for value in values if NUMBER.fullmatch(value))
            )
        return bad, plain

    def looks_like_indices(self, rows: int) -> bool:
        """Whether every value is a number although the sample has only text and the labels are not known."""
        return self._classes is None and rows > 0 and self._indices == rows

    def _kind(self, value: str) -> str:
        # No further: a non-breaking space makes text of a number for pandas, and so for a scorer.
        text = value.strip(" \t\r\n")
        column = self.column
        if self._classes is not None and text in self._classes:
            return ""
        if not text:
            allowed = column.blank or (column.kind == "text" and MAY_BE_EMPTY.search(column.name))
            return "" if allowed else "empty"
        if text.lower() in NOT_A_NUMBER and not (column.values and value in column.values):
            return "nan"
        if column.kind != "text":
            if (kind := self._number_kind(text)) or self._classes is None:
                return kind
            return "" if _label(text) in self._classes else "class"
        return "class" if self._classes is not None else ""

    def _number_kind(self, text: str) -> str:
        if re.fullmatch(r"[+-]?inf(inity)?", text, re.IGNORECASE):
            return "infinite"
        if not NUMBER.fullmatch(text):
            return "text"
        number = float(text)
        if math.isinf(number):
            return "infinite"
        if self._probability and not 0 <= number <= 1:
            return "probability"
        if self.column.kind == "integer" and not self._probability and not INTEGER.fullmatch(text):
            if self._classes is None:
                return "" if self._amounts else "decimals"
            return "label as float" if number.is_integer() else "label as fraction"
        return ""


def _takes_fractions(title: str | None) -> bool:
    """Whether the metric is known and calculates with numbers, whatever the sample happens to hold."""
    known = metrics.find(title) if title else None
    return known is not None and known.values in ("number", "probability")


def _label(value: object) -> str:
    """A label as text, so that 7, 7.0 of numpy and "7" are the same one."""
    text = re.sub(r"^([+-]?\d+)\.0$", r"\1", str(value).strip())
    return text.lstrip("+") if INTEGER.fullmatch(text) else text


def _in_order(labels: Iterable[str]) -> list[str]:
    labels = list(labels)
    return sorted(labels, key=float) if all(map(NUMBER.fullmatch, labels)) else sorted(labels)


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= 12 else ", ".join(labels[:6]) + ", ..., " + labels[-1]


def _guess(kind: str, value: str, classes: Sequence[str]) -> str:
    """What most likely happened to this value, for kinds where it can be seen."""
    text = value.strip()
    if kind == "class":
        meant = next((label for label in classes if label.lower() == text.lower()), None)
        return f" (meant {meant!r}?)" if meant else ""
    if kind != "text":
        return ""
    if re.fullmatch(r"[+-]?\d*,\d+", text):
        return " (a decimal comma: write a point)"
    if text.lower() in ("true", "false"):
        return " (write 1 or 0: .astype(int))"
    if text.endswith("%"):
        return " (a percentage: write the number alone)"
    if text[:1] in "[(" or "array" in text or "tensor" in text:
        return " (a whole array: take its one value)"
    return ""


_WARNINGS = {"decimals"}
_KINDS = {
    "empty": ("left empty", "Predict a value for every row; DataFrame.isna() finds them."),
    "nan": ("missing (NaN)", "Predict a value for every row; DataFrame.isna() finds them."),
    "infinite": ("infinite", "Clip the predictions to finite numbers."),
    "text": ("not a number, as the sample has", "Write plain numbers with a decimal point."),
    "label as float": ("a whole label written as a decimal number", "Turn the labels into integers: .astype(int)."),
    "label as fraction": (
        "a fraction where a label is wanted (one of {classes})",
        "Take the most likely label, not its probability: probabilities.argmax(axis=1).",
    ),
    "class": ("none of the known classes ({classes})", "Write the labels exactly as the training data do."),
    "probability": ("outside 0 to 1, where the sample has probabilities", "Apply softmax or sigmoid to the output."),
    "decimals": (
        "decimals where the sample has whole numbers",
        "Right for a probability or a quantity; if a label is wanted, round or take the argmax.",
    ),
}
