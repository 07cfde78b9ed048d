"""What 02-train costs beside the bare line: callbacks, record, checkpoints and batches in seeded order.

    .venv/bin/python benchmarks/overhead.py [--epochs 3] [--pairs 3]

Four notebooks are executed in turns on the same competition (COMPETITION, SOURCE and INPUT_DIR as set): 02-train
as it is, the same without its checkpoints, and two with the same data, network and compilation whose training is
`model.fit(X, Y, ...)` alone: once as a bare notebook does it, once without the wait at the end of each epoch that
02-train takes away (devices/iterators.py). Told are wall time and the processor's time of the cell that trains; the
processor's time hardly depends on what else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARE, PLAIN = "bare notebook", "bare, without the wait"
LINE = """model.fit(
    X_train, Y_train, batch_size=BATCH_SIZE, epochs=EPOCHS, validation_data=(X_dev, Y_dev), verbose=0
)
"""
AS_IT_IS = """import tensorflow
tensorflow.data.Dataset.__iter__ = tensorflow.data.Dataset.__iter__.__wrapped__
"""
CLOCK = "import time\n_wall, _cpu = time.perf_counter(), time.process_time()\n{}\n" + (
    'print("MEASURED", time.perf_counter() - _wall, time.process_time() - _cpu)'
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "code"))
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in (BARE, PLAIN, "no checkpoints", "02-train")}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.pairs):
            for way, some in found.items():
                some.append(measure(Path(folder), way, options.epochs))
                print(way, *(f"{seconds:.2f} s" for seconds in some[-1]), file=sys.stderr, flush=True)
    print("| notebook | wall s, median (least, most) | CPU s, median (least, most) |\n|---|---|---|")
    for way, some in found.items():
        spread = (f"{statistics.median(one):.2f} ({min(one):.2f}, {max(one):.2f})" for one in zip(*some, strict=True))
        print(f"| {way} |", " | ".join(spread), "|")
    for other in (BARE, PLAIN, "no checkpoints"):
        pairs = zip(found["02-train"], found[other], strict=True)
        ratios = [(ours[0] / others[0], ours[1] / others[1]) for ours, others in pairs]
        wall, cpu = (statistics.median(one) for one in zip(*ratios, strict=True))
        print(f"\n02-train to {other}, median of pairs: wall {wall:.3f}, CPU {cpu:.3f}")


def measure(folder: Path, way: str, epochs: int) -> tuple[float, float]:
    """Wall and CPU seconds of the training cell."""
    import nbformat
    import papermill

    notebook = nbformat.read(ROOT / "code" / "02-train.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.id == "fit":
            own = cell.source.rstrip().rstrip(";")
            if way == "no checkpoints":
                # The Checkpointer is the first of them; without it the batches keep their own order.
                own = own.replace("training.callbacks(stage, batches)", "training.callbacks(stage, batches)[1:]")
            if way in (BARE, PLAIN):
                own = LINE
            if way == BARE:
                own = AS_IT_IS + own
            cell.source = CLOCK.format(own)
    last = next(index for index, cell in enumerate(notebook.cells) if cell.id == "fit")
    notebook.cells = notebook.cells[: last + 1]
    source, executed = folder / f"{way}.ipynb", folder / f"{way}-executed.ipynb"
    nbformat.write(notebook, source)
    os.environ.update(OUTPUT_DIR=str(folder / "output"), KWB_EXECUTED="1", PYTHONPATH=str(ROOT / "code"))
    papermill.execute_notebook(
        str(source),
        str(executed),
        {"EPOCHS": epochs},
        cwd=str(ROOT / "code"),
        kernel_name="python3",
        progress_bar=False,
    )
    outputs = next(cell for cell in json.loads(executed.read_text())["cells"] if cell["id"] == "fit")["outputs"]
    text = "".join("".join(output.get("text", "")) for output in outputs)
    line = next(line for line in text.splitlines() if line.startswith("MEASURED"))
    wall, cpu = map(float, line.split()[1:])
    return wall, cpu


if __name__ == "__main__":
    main()
