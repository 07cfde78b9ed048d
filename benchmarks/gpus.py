"""How long `kwb gpus --format json` takes: runs it as a process and prints the best and the middle time.

    .venv/bin/python benchmarks/gpus.py       ten times
    .venv/bin/python benchmarks/gpus.py 30    another number

The time is that of the whole process, from its start to its end. Without `--proof` no framework is imported, and it
should stay under a second.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 1.0


def main() -> int:
    """Run it so many times; 1 when the best is over the limit."""
    took = []
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "kaggle_workbench", "gpus", "--format", "json"],
            env={**os.environ, "KWB_ROOT": str(ROOT), "PYTHONPATH": str(ROOT / "code")},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        took.append(time.perf_counter() - started)
    print(f"best {min(took):.2f} s, middle {statistics.median(took):.2f} s, limit {LIMIT_S:.0f} s")
    return int(min(took) > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
