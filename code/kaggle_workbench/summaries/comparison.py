"""Several runs side by side: what they differ in beside what came of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.files import human_bytes
from kaggle_workbench.summaries.row import greater_is_better, number, span, summary, told

# A cell of the table; JSON and CSV hold the whole value.
CELL = 34


@dataclass(frozen=True)
class Comparison:
    """What several runs differ in.

    Attributes:
        runs: Their names.
        differences: Per section ("results", "parameters", "versions", "device", "data", "code") and name the
            runs' values, in the order of `runs`; None where a run has none.
        equal: Per section the names whose value is the same in all.
        lower_is_better: Names of results of which the lower value is the better one.
    """

    runs: tuple[str, ...]
    differences: Mapping[str, Mapping[str, list[Any]]]
    equal: Mapping[str, list[str]]
    lower_is_better: frozenset[str]

    def rows(self) -> list[dict[str, Any]]:
        """One row per difference: section, name, one column per run; with two runs also `difference`."""
        found = []
        for section, names in self.differences.items():
            for name, values in names.items():
                row = {"section": section, "name": name, **dict(zip(self.runs, values, strict=True))}
                if len(values) == 2:
                    numbers = all(number(value) is not None for value in values)
                    row["difference"] = values[1] - values[0] if numbers else None
                found.append(row)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The comparison for programs."""
        return {"runs": list(self.runs), "differences": self.differences, "equal": self.equal}

    def __str__(self) -> str:
        lines = []
        for section, names in self.differences.items():
            rows = [self._row(section, name, values) for name, values in names.items()]
            lines += [show.table(rows), ""]
        if not self.differences:
            lines += ["The runs differ in nothing that their records hold.", ""]
        for section, equal in self.equal.items():
            some = ", ".join(equal[:6]) + (", ..." if len(equal) > 6 else "")
            lines.append(show.one_line(f"equal {section.ljust(10)} {len(equal):,}: {some}"))
        return "\n".join(lines).rstrip()

    def _row(self, section: str, name: str, values: Sequence[Any]) -> dict[str, str]:
        row = {section: name}
        row.update({run: _shown(name, value) for run, value in zip(self.runs, values, strict=True)})
        if len(values) == 2 and section == "results":
            row["difference"] = self._difference(name, values)
        return row

    def _difference(self, name: str, values: Sequence[Any]) -> str:
        first, second = number(values[0]), number(values[1])
        if first is None or second is None:
            return ""
        change = second - first
        text = f"{'+' if change >= 0 else '-'}{_shown(name, type(values[1])(abs(change)))}"
        if name not in SCORED and not name.startswith(("best dev", "last dev")):
            return text
        better = (change < 0) == (name in self.lower_is_better)
        return f"{text} {'better' if better else 'worse'}"


SCORED = ("CV", "public", "private")
# Differ from run to run and decide nothing; competition and source stand under "code", as they were found to be.
NO_CAUSE = ("RUN_ID", "COMPETITION", "SOURCE", "reason", "line", "warning", "proof_s")


def compare(records: Sequence[Mapping[str, Any]]) -> Comparison:
    """Put records side by side.

    Args:
        records: Two or more, in full. Parameters, versions and device are those of the last training, or of the last
            step where nothing was trained.
    """
    sections = [_facts(record) for record in records]
    metric = next((record.get("metric") for record in records if record.get("metric")), None)
    lower = {name for facts in sections for name in facts["results"] if _is_lower_better(name, metric)}
    differences: dict[str, dict[str, list[Any]]] = {}
    equal: dict[str, list[str]] = {}
    for section in sections[0]:
        names = dict.fromkeys(name for facts in sections for name in facts[section])
        for name in names:
            values = [facts[section].get(name) for facts in sections]
            if all(value == values[0] for value in values):
                if values[0] is not None:
                    equal.setdefault(section, []).append(name)
            else:
                differences.setdefault(section, {})[name] = values
    return Comparison(_names(records), differences, equal, frozenset(lower))


def _names(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The runs' names; two of one name, as databases may hold, and those that are a column's are told by their uid."""
    names = [str(record["id"]) for record in records]
    taken = {*("section", "name", "difference"), *_facts(records[0])}
    return tuple(
        f"{name} ({str(record.get('uid'))[:8]})" if name in taken or names.count(name) > 1 else name
        for name, record in zip(names, records, strict=True)
    )


def _facts(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    steps: Sequence[Mapping[str, Any]] = record["steps"]
    trained = [step for step in steps if step["stage"] == "train"]
    step: Mapping[str, Any] = (trained or list(steps) or [{}])[-1]
    git, image = step.get("git") or {}, step.get("image")
    image = image if isinstance(image, Mapping) and image.get("inside") else {}
    return {
        "results": _results(record, step),
        "parameters": {
            name: value for name, value in _flat(step.get("parameters") or {}).items() if name not in NO_CAUSE
        },
        "versions": dict(step.get("versions") or {}),
        "device": _device(step),
        "data": {name: _data(facts) for name, facts in (record.get("data") or {}).items()},
        "code": {
            "competition": record.get("competition"),
            "source": record.get("source"),
            "commit": git.get("commit"),
            "changed since": git.get("dirty"),
            "place": step.get("place"),
            "image tag": image.get("tag"),
            "image digest": image.get("digest"),
            "image commit": image.get("commit"),
            "parent": record.get("parent"),
        },
    }


def _results(record: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    row = summary(record)
    history: Sequence[Mapping[str, Any]] = record.get("history") or ()
    found: dict[str, Any] = {name: row[name] for name in ("status", "CV", "public", "private", "gap", "rank", "epochs")}
    folds = [fold for fold in row["CV_folds"] or () if number(fold) is not None]
    if len(folds) > 1:
        found["CV spread of folds"] = statistics.stdev(folds)
    for name in dict.fromkeys(name for entry in history for name in entry if name.startswith("val_")):
        values = [(entry[name], entry.get("epoch")) for entry in history if number(entry.get(name)) is not None]
        if values:
            best = max(values, key=lambda pair: pair[0] if greater_is_better(name[4:]) else -pair[0])
            found[f"best {told(name)}"], found[f"epoch of best {told(name)}"] = best
            found[f"last {told(name)}"] = values[-1][0]
    seconds = [value for entry in history if (value := number(entry.get("seconds"))) is not None]
    if seconds:
        found["seconds an epoch"] = round(statistics.median(seconds), 3)
    found["time"] = row["seconds"]
    for name, key in (
        ("CPU time", "cpu_s"),
        ("peak memory", "peak_memory_bytes"),
        ("peak GPU memory", "peak_gpu_memory_bytes"),
        ("GPU in use", "mean_gpu_utilisation"),
    ):
        found[name] = step.get(key)
    return found


def _device(step: Mapping[str, Any]) -> dict[str, Any]:
    device = step.get("device")
    if not isinstance(device, Mapping):
        return {}
    return {name: value for name, value in _flat(device).items() if name not in NO_CAUSE}


def _data(facts: Any) -> str:
    if not isinstance(facts, Mapping):
        return str(facts)
    size, sha = facts.get("size"), str(facts.get("sha256") or "")
    return f"{sha[:12]} ({human_bytes(size)})" if isinstance(size, int) else sha[:12]


def _flat(facts: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{name}."))
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            found.update(_flat({str(place): item for place, item in enumerate(value)}, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found


def _is_lower_better(name: str, metric: str | None) -> bool:
    if name in SCORED:
        return not greater_is_better(metric)
    return name.startswith(("best dev ", "last dev ")) and not greater_is_better(name[9:])


def _shown(name: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if name in ("time", "CPU time") and isinstance(value, int | float):
        return span(value)
    if name.endswith("memory") and isinstance(value, int | float):
        return human_bytes(value)
    if isinstance(value, float):
        return f"{value:.0f} %" if name == "GPU in use" else f"{value:.5f}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if name.endswith("commit"):
        return text[:12]
    return text if len(text) <= CELL else f"{text[: CELL - 3]}..."
