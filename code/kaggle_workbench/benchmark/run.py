"""One call of the benchmark: each device in turn, what is done kept whatever happens to the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.benchmark import child
from kaggle_workbench.benchmark.progress import Shown
from kaggle_workbench.benchmark.result import FOLDER, Result, new_file
from kaggle_workbench.benchmark.targets import Target
from kaggle_workbench.benchmark.workload import Workload, find_digits
from kaggle_workbench.devices import cpu_cores
from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.settings import Settings

# A core that others keep busy for so large a part makes times that are not this machine's.
BUSY_SHARE = 0.4


def results_folder(settings: Settings, folder: Path | None = None) -> Path:
    """Where results are kept: the given folder, else OUTPUT_DIR/bench."""
    return folder or settings.output_dir / FOLDER


def outlook(
    settings: Settings,
    targets: Sequence[Target],
    folder: Path | None = None,
    *,
    quick: bool = False,
    workload: Workload | None = None,
) -> dict[str, Any]:
    """What a call would do, for `--dry-run`.

    Raises:
        MissingError: There are no digits to train on.
    """
    return {
        "devices": [{"device": one.device, "name": one.name, "backend": one.backend} for one in targets],
        "how": "a few hundred steps on each, the rest projected" if quick else "the whole fit on each",
        "workload": (workload or Workload()).to_dict(),
        "data": find_digits(settings).title,
        "folder": str(results_folder(settings, folder)),
    }


def outlook_text(plan: Mapping[str, Any]) -> str:
    """What `outlook` gave, for people."""
    work = plan["workload"]
    return "\n".join(
        [
            show.table(plan["devices"]),
            "",
            f"Would run {plan['how']}: {work['epochs']} epochs at batch {work['batch_size']}, "
            f"{work['train_rows']:,} pictures.",
            f"Pictures: {plan['data']}. Results: {plan['folder']}. Nothing was measured.",
        ]
    )


def bench(
    settings: Settings,
    targets: Sequence[Target],
    *,
    quick: bool = False,
    folder: Path | None = None,
    workload: Workload | None = None,
    on_event: Callable[[child.Event], None] | None = None,
) -> Result:
    """Measure devices one after the other, each in a process of its own.

    Args:
        settings: Settings in force.
        targets: What to measure; see `targets.find_targets`.
        quick: Time a few hundred steps and project.
        folder: Where the result is kept; by default OUTPUT_DIR/bench.
        workload: Another one than the published, for tests.
        on_event: Called with each thing a child tells, besides the progress shown.

    Returns:
        Own rows beside the published ones, written as JSON and picture; some may have failed.

    Raises:
        WorkbenchError: Nothing could be measured; the first device's reason.
        KeyboardInterrupt: Ctrl-C; rows that were finished are kept and shown first.
    """
    source = find_digits(settings)
    result = Result(new_file(results_folder(settings, folder)), workload or Workload(), source, settings.place.name)
    job = {
        "quick": quick,
        "workload": result.workload.to_dict(),
        "source": {"kind": source.kind, "file": str(source.file.absolute())},
    }
    result.load_before = _load()
    # Before a quarter of an hour is spent: a folder that cannot be written is met now.
    result.write()
    failures: list[WorkbenchError] = []
    try:
        for target in targets:
            with Shown(target.title) as shown:

                def tell(event: child.Event, shown: Shown = shown) -> None:
                    shown(event)
                    if on_event is not None:
                        on_event(event)

                try:
                    found = child.measure(target, job, cwd=settings.root, on_event=tell)
                except WorkbenchError as error:
                    failures.append(error)
                    result.add_failed(target, error, settings=settings)
                    # A single one's error is what the command ends with.
                    if len(targets) > 1:
                        show.warn(str(error))
                    continue
            result.add(target, found)
    except KeyboardInterrupt:
        if result.done:
            result.draw()
            show.note(f"\nStopped; what was finished is kept in {result.file}.\n{result.table()}")
        elif not result.rows:
            result.file.unlink(missing_ok=True)
        raise
    if not result.done and failures:
        raise failures[0]
    result.draw()
    return result


def _load() -> float | None:
    """How many processes wanted to compute in the last minute; said when it spoils the times."""
    try:
        load = round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None
    if load > BUSY_SHARE * cpu_cores():
        show.warn(
            f"This machine is busy (load {load} on {show.plural(cpu_cores(), 'core')}): "
            "times will be longer than on a quiet one."
        )
    return load
