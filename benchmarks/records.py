"""How long `kwb runs` takes with many records: makes them, runs the command as a process, prints the times.

    .venv/bin/python benchmarks/records.py            200 and 10,000 records of 20 epochs
    .venv/bin/python benchmarks/records.py 3000       another number
    .venv/bin/python benchmarks/records.py --keep DIR 10000   and leave them in DIR

The time is that of the whole process, from its start to its last line, with the table written into a
pipe: the best and the middle of five, and the processor's time in the middle (what other jobs on the machine
do not change). Records are about as long as those of whole runs (three steps, 20 epochs, 10 kB).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIMITS_S = {200: 0.5, 10_000: 3.0}
COMPETITIONS = ("digit-recognizer", "titanic", "spaceship-titanic", "house-prices")
STATUSES = ("done", "done", "done", "done", "failed", "paused")
VERSIONS = {
    "python": "3.11.9",
    "kaggle-workbench": "0.4.0",
    "keras": "3.15.1",
    "tensorflow": "2.21.0",
    "numpy": "2.3.1",
    "pandas": "2.3.1",
    "scikit-learn": "1.7.0",
    "kaggle": "2.2.5",
}


def record(number: int, *, epochs: int = 20, dice: random.Random | None = None) -> dict[str, Any]:
    """One record as three stages leave it.

    Args:
        number: Counts the runs; decides name and start.
        epochs: Length of its history.
        dice: Where its scores come from.
    """
    dice = dice or random.Random(number)
    begun = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=7 * number)
    score, status = 0.97 + 0.02 * dice.random(), dice.choice(STATUSES)
    sent = status == "done"
    return {
        "schema": 2,
        "uid": f"{dice.getrandbits(128):032x}",
        "id": f"{begun:%Y%m%d-%H%M%S}-data",
        "revision": epochs + 9,
        "status": status,
        "competition": COMPETITIONS[number % len(COMPETITIONS)],
        "source": "kaggle",
        "created": _text(begun),
        "updated": _text(begun + timedelta(minutes=5)),
        "parent": None,
        "metric": "accuracy",
        "cv": {"metric": "accuracy", "score": score, "method": "hold-out", "rows": 8400, "folds": None},
        "lb": {"public": score - 0.002 * dice.random(), "private": None, "rank": 9, "entries": 900} if sent else None,
        "submission": _submission(number, begun) if sent else None,
        "checkpoint": {
            "epoch": epochs,
            "step": 0,
            "file": f"epoch-{epochs}.ckpt",
            "sha256": f"{dice.getrandbits(256):064x}",
            "written": _text(begun + timedelta(minutes=4)),
            "best": {"epoch": epochs - 1, "value": score},
        },
        "history": [_epoch(epoch, score, dice) for epoch in range(1, epochs + 1)],
        "data": {
            name: {"size": 76_775_041, "sha256": f"{dice.getrandbits(256):064x}"} for name in ("train.csv", "test.csv")
        },
        "pictures": [
            {"name": name, "file": f"pictures/{name}.png", "text": f"What the {name} look like, in one sentence."}
            for name in ("curves", "confusion", "examples", "mistakes")
        ],
        "steps": [_step(stage, begun, status, dice) for stage in ("data", "train", "submit")],
    }


def write(output: Path, count: int, *, epochs: int = 20) -> None:
    """Write `count` records below `output/runs`."""
    for number in range(count):
        document = record(number, epochs=epochs)
        folder = output / "runs" / document["id"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "record.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def measure(output: Path, *words: str, times: int = 5) -> tuple[list[float], list[float]]:
    """Seconds of the whole process `kwb runs WORDS`, on the clock and on the processor, each sorted."""
    environment = {**os.environ, "OUTPUT_DIR": str(output), "PYTHONPATH": str(ROOT / "code")}
    command = [sys.executable, "-m", "kaggle_workbench", "runs", *words]
    taken, worked = [], []
    for _ in range(times):
        started, before = time.perf_counter(), os.times()
        subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
        taken.append(time.perf_counter() - started)
        after = os.times()
        worked.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return sorted(taken), sorted(worked)


def main() -> None:
    """Make records, list them, print a table of times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", nargs="*", type=int, default=[200, 10_000], metavar="COUNT")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write them there and leave them")
    options = parser.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{os.cpu_count()} cores, load {load:.1f} at the start, Python {sys.version.split()[0]}")
    print(f"{'records':>8}  {'command':<28}  {'best':>7}  {'middle':>7}  {'CPU':>7}  {'goal':>6}")
    for count in options.counts:
        with tempfile.TemporaryDirectory() as scratch:
            output = options.keep or Path(scratch)
            write(output, count)
            for words in ((), ("--sort", "CV", "--group"), ("--format", "json")):
                taken, worked = measure(output, *words)
                goal = f"{LIMITS_S[count]:.1f} s" if count in LIMITS_S else "-"
                line = f"{count:>8,}  {'kwb runs ' + ' '.join(words):<28}  {taken[0]:>5.2f} s  "
                print(
                    f"{line}{statistics.median(taken):>5.2f} s  {statistics.median(worked):>5.2f} s  {goal:>6}",
                    flush=True,
                )


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _epoch(epoch: int, score: float, dice: random.Random) -> dict[str, Any]:
    loss = 1 / (epoch + 1) + dice.random() / 100
    return {
        "epoch": epoch,
        "seconds": round(6 + dice.random(), 3),
        "loss": loss,
        "accuracy": score - loss / 10,
        "val_loss": loss + 0.01,
        "val_accuracy": score - loss / 9,
        "learning_rate": 0.001 * 0.9**epoch,
    }


def _submission(number: int, begun: datetime) -> dict[str, Any]:
    sent = _text(begun + timedelta(minutes=5))
    return {"ref": number, "file": "submission.csv", "sha256": "0" * 64, "message": "a message", "sent": sent}


def _step(stage: str, begun: datetime, status: str, dice: random.Random) -> dict[str, Any]:
    return {
        "stage": stage,
        "status": status if stage == "submit" else "done",
        "place": "local",
        "started": _text(begun),
        "ended": _text(begun + timedelta(minutes=1)),
        "wall_s": 60 + round(dice.random(), 3),
        "cpu_s": 110 + round(dice.random(), 3),
        "peak_memory_bytes": 1_300_000_000,
        "peak_gpu_memory_bytes": None,
        "mean_gpu_utilisation": None,
        "seed": 0,
        "parameters": {
            "COMPETITION": "digit-recognizer",
            "SOURCE": "kaggle",
            "GPU_COUNT": None,
            "ALLOW_CPU": False,
            "PRECISION": "auto",
            "KERAS_BACKEND": "tensorflow",
            "SEED": 0,
            "EPOCHS": 20,
            "BATCH_SIZE": 64,
            "RECIPE": "reference",
            "SUBMIT": False,
            "RUN_ID": None,
            "SESSION_HOURS": None,
            "CHECKPOINT_MINUTES": 10.0,
            "FORCE_RESUME": False,
            "TENSORFLOW_BUILD": "auto",
        },
        "device": {"kind": "cpu", "count": 1, "name": "a processor", "reason": "no GPU was found", "warning": None},
        "versions": VERSIONS,
        "git": {"commit": "0" * 40, "dirty": False},
        "image": {
            "image": "gcr.io/kaggle-gpu-images/python",
            "tag": "v170",
            "digest": None,
            "commit": None,
            "inside": False,
        },
        "process": {"host": "elsewhere", "space": "0-0", "pid": 4711, "started": 1},
        "error": None
        if status != "failed" or stage != "submit"
        else {"kind": "E", "message": "m", "hint": "", "exit_code": 1},
    }


if __name__ == "__main__":
    main()
