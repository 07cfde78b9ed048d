"""Reading a competition's train.csv: pandas, and this project the first time and later.

    .venv/bin/python benchmarks/loading.py train.csv [--times 5]

Each reading runs in a process of its own, in turns; libraries are imported before the clock starts. Memory is the
growth of the process' peak.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CODE = Path(__file__).resolve().parent.parent / "code"
WAYS = ("pandas", "first", "later")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, metavar="train.csv")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--child", nargs=2, metavar=("WAY", "HOME"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(*read(options.file, options.child[0], Path(options.child[1])))
        return
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(options.times):
        with tempfile.TemporaryDirectory() as home:
            for way in WAYS:
                words = [sys.executable, __file__, str(options.file), "--child", way, home]
                seconds, growth = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
                found[way].append((float(seconds), float(growth)))
    print("| way | s, median (least, most) | memory, median | of pandas: time, memory |\n|---|---|---|---|")
    base = [statistics.median(values) for values in zip(*found["pandas"], strict=True)]
    for way, some in found.items():
        times, sizes = zip(*some, strict=True)
        time_s, size = statistics.median(times), statistics.median(sizes)
        print(
            f"| {way} | {time_s:.3f} ({min(times):.3f}, {max(times):.3f}) | {size:.0f} MB "
            f"| {time_s / base[0]:.2f}, {size / base[1]:.2f} |"
        )


def read(file: Path, way: str, home: Path) -> tuple[float, float]:
    """Seconds, and MB by which the process grew."""
    sys.path.insert(0, str(CODE))
    import numpy as np  # noqa: F401  (part of what is not measured)
    import pandas as pd

    from kaggle_workbench.competition.tables import read_table
    from kaggle_workbench.provenance import peak_memory_bytes

    before, start = peak_memory_bytes() or 0, time.perf_counter()
    table = pd.read_csv(file) if way == "pandas" else read_table(file, home=home)
    seconds = time.perf_counter() - start
    if not len(table):
        raise SystemExit(f"{file} has no rows.")
    return seconds, ((peak_memory_bytes() or 0) - before) / 1e6


if __name__ == "__main__":
    main()
