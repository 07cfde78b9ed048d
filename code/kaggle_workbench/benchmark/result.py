"""The result: own rows beside the published ones, as table, JSON document and files."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kaggle_workbench
from kaggle_workbench import show
from kaggle_workbench.benchmark import published
from kaggle_workbench.benchmark.targets import Target
from kaggle_workbench.benchmark.workload import Source, Workload
from kaggle_workbench.devices import FRAMEWORKS
from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.files import human_bytes, write_atomic, write_json
from kaggle_workbench.settings import Settings

FOLDER = "bench"
# A ratio below this is within what one machine gives from one time to the next.
CLOSE = 1.25
SCHEMA = 1
COLUMNS = ("processor", "how", "framework", "wall", "CPU_time", "s/epoch", "images/s", "memory", "accuracy", "speed")
EARLIER = ("date", "processor", "how", "framework", "epochs", "wall", "s/epoch", "images/s", "accuracy")


@dataclass
class Result:
    """What was measured in one call.

    Attributes:
        file: The JSON file it is kept in; the picture lies beside it.
        workload: What was computed.
        source: Where the pictures came from.
        place: Name of the place it was measured in.
        rows: Own rows, in the order they were measured; a failed one has its error.
        load_before: Processes that wanted to compute before it began, on average over a minute.
        created: When it began.
    """

    file: Path
    workload: Workload
    source: Source
    place: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    load_before: float | None = None
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))

    @property
    def picture(self) -> Path:
        """Where the bar chart lies."""
        return self.file.with_suffix(".png")

    @property
    def done(self) -> list[dict[str, Any]]:
        """Own rows that were measured."""
        return [row for row in self.rows if row["status"] == "done"]

    def add(self, target: Target, found: Mapping[str, Any]) -> None:
        """Keep a measured row, at once on disk, so that nothing later can lose it."""
        self.rows.append(self._row(target) | {"status": "done", **found})
        self.write()

    def add_failed(self, target: Target, error: WorkbenchError, *, settings: Settings) -> None:
        """Keep that a device could not be measured, and why."""
        # A result is there to be shown around: no folder of this machine stands in it.
        said = error.message
        for folder in (settings.input_dir, settings.output_dir, settings.root, Path.home()):
            if folder is not None and folder != folder.parent:
                said = said.replace(str(folder), "...")
        self.rows.append(self._row(target) | {"status": "failed", "error": said})
        self.write()

    def to_dict(self) -> dict[str, Any]:
        """The document: machine facts only as one would publish them; no names of hosts or users, no paths."""
        return {
            "schema": SCHEMA,
            "created": self.created,
            "workbench": kaggle_workbench.__version__,
            "place": self.place,
            "system": f"{platform.system()} {platform.machine()}",
            "load_before": self.load_before,
            "workload": {
                **self.workload.to_dict(),
                "is_published": self.workload.is_published,
                "network": "reference CNN, 887,530 parameters",
                "optimizer": "Adam with its defaults",
                "loss": "sparse categorical cross-entropy",
            },
            "rows": self.rows,
            "published": {"note": published.NOTE, "rows": [row.to_row() for row in published.PUBLISHED]},
        }

    def table(self) -> str:
        """Own and published rows by their wall time, and what must be known to read them."""
        return "\n".join([_aligned(table_rows(self.to_dict()), COLUMNS), "", *notes(self.to_dict())])

    def write(self) -> None:
        """Write the document, whole or not at all."""
        write_json(self.file, self.to_dict())

    def draw(self) -> Path:
        """Draw the bar chart beside the document.

        Returns:
            The picture.
        """
        from kaggle_workbench import plots
        from kaggle_workbench.benchmark.chart import bars

        write_atomic(self.picture, plots.png(bars(self.to_dict())))
        return self.picture

    def _row(self, target: Target) -> dict[str, Any]:
        return {
            "own": True,
            "device": target.device,
            "name": target.name,
            "backend": target.backend,
            "epochs": self.workload.epochs,
            "train_rows": self.workload.train_rows,
            "data": self.source.title,
            "facts": dict(target.facts),
        }


def new_file(folder: Path) -> Path:
    """A file name made of the time, which no earlier result has."""
    stem = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    names = (f"{stem}{'' if count == 1 else f'-{count}'}.json" for count in range(1, 1000))
    return next(file for file in (folder / name for name in names) if not file.exists())


def table_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a document as cells of text, the fastest first, failed ones last."""
    own = document["rows"]
    # Only the whole workload's time can stand beside the published ones.
    times = [row["wall_s"] for row in own if row["status"] == "done"] if document["workload"]["is_published"] else []
    rows = sorted([*own, *document["published"]["rows"]], key=lambda row: row.get("wall_s") or float("inf"))
    return [_cells(row, min(times, default=None)) for row in rows]


def notes(document: Mapping[str, Any]) -> list[str]:
    """The sentences under a table: what was computed, on which pictures, what is projected, what a ratio means."""
    work, done = document["workload"], [row for row in document["rows"] if row["status"] == "done"]
    said = [
        f"Workload: {work['network']}, {work['epochs']} epochs, batch {work['batch_size']}, {work['train_rows']:,} "
        f"digits of 28x28 and {work['dev_rows']:,} held back; compilation included."
    ]
    if not work["is_published"]:
        said.append("This is not the published workload, so its times do not stand beside the published ones.")
    if done:
        said.append(f"Pictures: {pictures(done[0])}.")
    if any(row["projected"] for row in done):
        said.append(
            "projected: from a few hundred steps after a warm-up; in brackets, were all blocks like the fastest "
            "or the slowest one."
        )
    said += backends(done)
    fastest = "speed: against the fastest row measured here. " if done and work["is_published"] else ""
    return [*said, fastest + document["published"]["note"]]


def backends(done: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each device that several frameworks were measured on: the fastest, and the others against it.

    Args:
        done: Own rows that were measured.
    """
    said = []
    for device in dict.fromkeys(row["device"] for row in done):
        rows = sorted((row for row in done if row["device"] == device), key=lambda row: row["wall_s"])
        if len({row["backend"] for row in rows}) < 2:
            continue
        first = rows[0]
        others = ", ".join(f"{FRAMEWORKS[row['backend']]} {row['wall_s'] / first['wall_s']:.1f}x" for row in rows[1:])
        close = " That is too close to tell." if rows[1]["wall_s"] < CLOSE * first["wall_s"] else ""
        said.append(
            f"Fastest on {device}: {FRAMEWORKS[first['backend']]} (KERAS_BACKEND={first['backend']}); "
            f"its time goes into that of {others}.{close}"
        )
    return said


def earlier(folder: Path) -> list[dict[str, Any]]:
    """Own rows of earlier results, the newest first, each with the time of its result.

    Args:
        folder: Where results are kept.
    """
    found = []
    for file in sorted(folder.glob("*.json"), reverse=True):
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            rows = [{"file": file.name, "created": document["created"], **row} for row in document["rows"]]
            # A row that cannot be shown is met here, where its file can be named.
            earlier_table(rows)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            show.warn(f"{file.name} is no result of kwb bench; it is left out.")
            continue
        found += rows
    return found


def earlier_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of `earlier` as text."""
    cells = [
        _cells(row, None) | {"date": row["created"][:16].replace("T", " "), "epochs": str(row["epochs"])}
        for row in rows
    ]
    return _aligned(cells, EARLIER) if cells else "No results yet; ./kwb bench --quick makes one."


def pictures(row: Mapping[str, Any]) -> str:
    """Which pictures a row was measured with; repeated ones are said, since the accuracy is of the different ones."""
    different = row["different_rows"]
    if different["train"] == row["train_rows"]:
        return str(row["data"])
    return (
        f"{row['data']}, {different['train']:,} different ones repeated ({different['dev']:,} held back): "
        "the time is the same, the accuracy is of these"
    )


def seconds(value: float) -> str:
    """A wall time for a table: tenths where they matter. `seconds(386) == "386 s"`."""
    return f"{value:.1f} s" if value < 10 else f"{value:,.0f} s"


def spread(row: Mapping[str, Any]) -> str:
    """The least and the most a projected row could be, in seconds: "638 to 1,244"."""
    digits = 1 if row["wall_high_s"] < 10 else 0
    return f"{row['wall_low_s']:,.{digits}f} to {row['wall_high_s']:,.{digits}f}"


def clock(value: float) -> str:
    """A long time as the published table writes it: `clock(5760) == "1:36:00"`."""
    minutes, rest = divmod(round(value), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def how(row: Mapping[str, Any]) -> str:
    """Where a row's time comes from: measured, projected, published, or why there is none."""
    if not row["own"]:
        return f"published {row['date']}"
    if row["status"] != "done":
        return str(row["status"])
    return "projected" if row["projected"] else "measured"


def _cells(row: Mapping[str, Any], fastest_s: float | None) -> dict[str, Any]:
    wall = row.get("wall_s")
    text = seconds(wall) if wall else None
    if row.get("projected") and wall:
        text = f"{text} ({spread(row)})"
    memory = row.get("peak_gpu_memory_bytes") or row.get("peak_memory_bytes")
    accuracy = row.get("accuracy")
    numbered = f"{row['device']} " if row["own"] and row["device"] != "cpu" else ""
    return {
        "processor": f"{numbered}{row['name']}",
        "how": how(row),
        "framework": _framework(row),
        "wall": text,
        "CPU_time": clock(row["cpu_s"]) if row.get("cpu_s") else None,
        "s/epoch": f"{row['epoch_s']:.1f}" if row.get("epoch_s") else None,
        "images/s": f"{row['images_per_s']:,.0f}" if row.get("images_per_s") else None,
        "memory": human_bytes(memory) if memory else None,
        "accuracy": f"{accuracy:.2%}" if accuracy is not None else None,
        # A hint only, where the published data size is not known.
        "speed": _ratio(fastest_s / wall, hint=not row["own"]) if fastest_s and wall else None,
    }


def _framework(row: Mapping[str, Any]) -> str | None:
    backend = row.get("backend")
    if backend is None:
        return None
    versions = row.get("versions") or {}
    version = next((version for name, version in versions.items() if name.startswith(backend)), "")
    return f"{FRAMEWORKS[backend]} {version}".strip()


def _ratio(value: float, *, hint: bool) -> str:
    return f"{'about ' if hint else ''}{value:.1f}x" if value < 10 else f"{'about ' if hint else ''}{value:.0f}x"


def _aligned(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """A text table whose columns but names stand to the right."""
    left = ("date", "processor", "how", "framework")
    widths = {name: max(len(name), *(len(row[name] or "-") for row in rows)) for name in columns}
    padded = [
        {name: (row[name] or "-") if name in left else (row[name] or "-").rjust(widths[name]) for name in columns}
        for row in rows
    ]
    head, rule, *body = show.table(padded, columns).splitlines()
    titles = (name.replace("_", " ") for name in columns)
    head = "  ".join(
        title.ljust(widths[name]) if name in left else title.rjust(widths[name])
        for name, title in zip(columns, titles, strict=True)
    )
    return "\n".join([head.rstrip(), rule, *body])
