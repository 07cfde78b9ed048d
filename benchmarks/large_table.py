"""Peak memory and time of `kwb run data train` on a table of two million rows.

    python benchmarks/large_table.py [--rows 2000000] [--columns 20] [--epochs 2]

Makes a competition of its own (numbers, categories, gaps), hosts it in the local arena, runs the two stages in their
usual process, and prints the largest resident memory of any process of each stage, in GB (10^9 bytes).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

import numpy as np

SLUG = "large-table"
LOOK_S = 0.1


def main() -> int:
    """Make, run, print; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--test-rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=20, help="a quarter of them categories")
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        size = host(output / "arena" / "competitions" / SLUG, options.rows, options.test_rows, options.columns)
        print(f"{options.rows:,} training rows of {options.columns} columns, {size / 1e6:.0f} MB as text", flush=True)
        for stage in ("data", "train"):
            seconds, peak, code = measured(stage, Path(folder), options.epochs)
            print(f"{stage:<6} {seconds:7.1f} s  peak {peak / 1e9:.2f} GB  exit {code}", flush=True)
            if code:
                return 1
    return 0


def measured(stage: str, folder: Path, epochs: int) -> tuple[float, int, int]:
    """Seconds, largest sum of resident memory of the stage's processes in bytes, exit code."""
    own = {"OUTPUT_DIR": str(folder / "output"), "INPUT_DIR": str(folder / "input"), "SOURCE": "practice"}
    words = [sys.executable, "-m", "kaggle_workbench", "run", stage, "--competition", SLUG, "--set", f"EPOCHS={epochs}"]
    started = time.perf_counter()
    process = subprocess.Popen(words, env={**os.environ, **own})
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(LOOK_S)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    code = process.wait()
    watcher.join()
    return time.perf_counter() - started, peak, code


def resident(pid: int) -> int:
    """Resident memory of a process and all below it, in bytes; shared pages of files count once for each."""
    total, left = 0, [pid]
    while left:
        each = left.pop()
        try:
            fields = Path(f"/proc/{each}/statm").read_text().split()
            total += int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in Path(f"/proc/{each}/task").iterdir():
                left += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return total


def host(folder: Path, rows: int, test_rows: int, columns: int) -> int:
    """Write a competition that the arena hosts; gives the size of train.csv in bytes."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    names = [f"{'kind' if place % 4 == 3 else 'size'}_{place}" for place in range(columns)]
    sizes: list[int] = []
    with zipfile.ZipFile(folder / "files.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, count, first in (("train", rows, 0), ("test", test_rows, rows)):
            head = ["id", *names, *(["target"] if name == "train" else [])]
            with archive.open(f"{name}.csv", "w", force_zip64=True) as raw:
                text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
                text.write(",".join(head) + "\n")
                for start in range(0, count, 50_000):
                    block(text, random, first + start, min(50_000, count - start), columns, answers=name == "train")
                text.flush()
                text.detach()
            sizes.append(archive.getinfo(f"{name}.csv").file_size)
        ids = range(rows, rows + test_rows)
        archive.writestr("sample_submission.csv", "id,target\n" + "".join(f"{id},0.5\n" for id in ids))
    with gzip.open(folder / "solution.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "target", "Usage"])
        writer.writerows([id, id % 2, "Public" if id % 4 == 0 else "Private"] for id in ids)
    document = {"title": "Large table", "metric": "auc", "date": "2026-01-01T00:00:00Z", "rules": {},
                "max_submission_bytes": 100_000_000}  # fmt: skip
    (folder / "competition.json").write_text(json.dumps(document))
    return sizes[0]


def block(
    text: io.TextIOWrapper, random: np.random.Generator, first: int, rows: int, columns: int, *, answers: bool
) -> None:
    """Write rows: three numbers, then a category, and so on; a tenth of the second column is missing."""
    numbers = random.normal(size=(rows, columns)).round(4)
    kinds = random.integers(0, 12, size=(rows, columns))
    target = (numbers[:, 0] + 0.1 * kinds[:, 3] + random.normal(size=rows) > 0.6).astype(int)
    gaps = random.random(rows) < 0.1
    for row in range(rows):
        cells = [f"k{kinds[row, place]}" if place % 4 == 3 else str(numbers[row, place]) for place in range(columns)]
        if gaps[row]:
            cells[1] = ""
        text.write(f"{first + row},{','.join(cells)}{f',{target[row]}' if answers else ''}\n")


if __name__ == "__main__":
    sys.exit(main())
