"""Time to accuracy of the recipes of 02-train, against the field's literal training.

    .venv/bin/python benchmarks/recipes.py MNIST [--pairs 2] [--seeds 5]

MNIST is a folder with the four files of the MNIST database (train-images-idx3-ubyte.gz and so on). Its
70,000 pictures, shuffled, become 42,000 for training, a tenth of them held back, and 28,000 for the test, as
in Kaggle's Digit Recognizer. Each training runs in a process of its own, alone, in turns: literal, fast,
longer, literal, ... Time is that of `fit`: compilation and validation included, import and data not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CODE = Path(__file__).resolve().parent.parent / "code"
# Name: (recipe, epochs, batch size).
BARE = "literal, TensorFlow's iterators as they are"
TRAININGS = {
    "literal": ("reference", 20, 64),
    BARE: ("reference", 20, 64),
    "fast, 2 epochs": ("fast", 2, 128),
    "fast": ("fast", 3, 128),
    "fast, 12 epochs": ("fast", 12, 128),
}
FILES = {
    "images": ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"),
    "labels": ("train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}


def main() -> None:
    """Measure, print a table, write the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=Path, metavar="MNIST")
    parser.add_argument("--pairs", type=int, default=2, help="literal trainings, each with all others beside it")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of the other trainings")
    parser.add_argument(
        "--only", nargs="*", default=[name for name in TRAININGS if name != BARE], help="names of trainings"
    )
    parser.add_argument("--output", type=Path, default=Path("recipes.json"))
    parser.add_argument("--child", nargs=2, metavar=("NAME", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(train(options.mnist, options.child[0], int(options.child[1]))))
        return
    found: list[dict[str, Any]] = []
    for seed in range(max(options.pairs, options.seeds)):
        for name in options.only:
            if seed >= (options.pairs if name.startswith("literal") else options.seeds):
                continue
            words = [sys.executable, __file__, str(options.mnist), "--child", name, str(seed)]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            found.append({"training": name, "seed": seed, "load": os.getloadavg()[0], **json.loads(done.stdout)})
            print(found[-1], file=sys.stderr, flush=True)
            options.output.write_text(json.dumps(found, indent=1))
    print(table(found))


def train(mnist: Path, name: str, seed: int) -> dict[str, Any]:
    """One training: seconds of wall and processor, accuracies in percent, GFLOP and speed."""
    os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3")
    sys.path.insert(0, str(CODE))
    import keras
    import numpy as np
    from sklearn.model_selection import train_test_split

    from kaggle_workbench import devices, models, recipes
    from kaggle_workbench.batches import Batches

    recipe, epochs, batch_size = TRAININGS[name]
    bare = name == BARE
    pictures, labels = read(mnist)
    order = np.random.default_rng(0).permutation(len(labels))
    pictures, labels = pictures[order], labels[order]
    rows, test = np.arange(42_000), slice(42_000, None)
    fit, dev = train_test_split(rows, test_size=0.1, stratify=labels[rows], random_state=seed)
    mean, spread = pictures[fit].mean(), pictures[fit].std()

    def preprocess(some: Any) -> Any:
        return ((pictures[some] - mean) / spread).astype("float32")[..., np.newaxis]

    x, y, held = preprocess(fit), labels[fit], (preprocess(dev), labels[dev])
    if not bare:
        devices.end_iterators_at_once()
    keras.utils.set_random_seed(seed)
    peak = matrix_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    if recipe == "reference":
        model = models.reference_cnn()
        model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        history = model.fit(x, y, epochs=epochs, batch_size=batch_size, validation_data=held, verbose=0)
    else:
        model = recipes.fast.build_model(x.shape[1:], 10)
        batches = Batches(x, y, batch_size, seed=seed, augment=recipes.fast.augment)
        recipes.fast.learn(model, epochs * len(batches))
        history = model.fit(batches, epochs=epochs, validation_data=held, shuffle=False, verbose=0)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    right = model.predict(preprocess(test), batch_size=512, verbose=0).argmax(axis=1) == labels[test]
    gflop = 6e-9 * multiply_adds(model) * len(x) * epochs
    return {
        "wall_s": round(wall, 2),
        "cpu_s": round(cpu, 2),
        "dev": round(100 * history.history["val_accuracy"][-1], 3),
        "test": round(100 * float(right.mean()), 3),
        "gflop": round(gflop),
        "gflop_per_s": round(gflop / wall),
        "matrix_peak_gflop_per_s": round(peak),
    }


def read(folder: Path) -> tuple[Any, Any]:
    """All 70,000 pictures (rows, 28, 28) and labels (rows,)."""
    import numpy as np

    def content(name: str, head: int) -> Any:
        with gzip.open(folder / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=head)

    images = np.concatenate([content(name, 16) for name in FILES["images"]]).reshape(-1, 28, 28)
    return images, np.concatenate([content(name, 8) for name in FILES["labels"]]).astype("int32")


def multiply_adds(model: Any) -> int:
    """Multiply-adds of the convolutions and dense layers for one picture, forward."""
    found = 0
    for layer in model.layers:
        if type(layer).__name__ == "Conv2D":
            _, height, width, _ = layer.output.shape
            found += height * width * layer.kernel.shape.num_elements()
        elif type(layer).__name__ == "Dense":
            found += layer.kernel.shape.num_elements()
    return found


def matrix_peak(size: int = 2048, times: int = 5) -> float:
    """GFLOP per second of a float32 matrix product, the best of a few: what this machine can do at most."""
    import tensorflow

    a = tensorflow.random.normal((size, size))
    tensorflow.linalg.matmul(a, a).numpy()
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        tensorflow.linalg.matmul(a, a).numpy()
        best = min(best, time.perf_counter() - start)
    return 2e-9 * size**3 / best


def table(found: list[dict[str, Any]]) -> str:
    """Medians with their spread, and the ratio to the literal training's median, as a Markdown table."""
    lines = [
        "| training | seeds | test accuracy, mean (least, most) | wall s, median (least, most) | CPU s "
        "| wall of literal's | of the machine's peak |",
        "|---|---|---|---|---|---|---|",
    ]
    literal = [one["wall_s"] for one in found if one["training"] == "literal"]
    for name in TRAININGS:
        some = [one for one in found if one["training"] == name]
        if not some:
            continue
        test, wall = [one["test"] for one in some], [one["wall_s"] for one in some]
        ratio = f"1/{statistics.median(literal) / statistics.median(wall):.1f}" if literal else "-"
        of_peak = statistics.median(one["gflop_per_s"] / one["matrix_peak_gflop_per_s"] for one in some)
        lines.append(
            f"| {name} | {len(some)} | {statistics.mean(test):.2f} % ({min(test):.2f}, {max(test):.2f}) "
            f"| {statistics.median(wall):.1f} ({min(wall):.1f}, {max(wall):.1f}) "
            f"| {statistics.median(one['cpu_s'] for one in some):.1f} | {ratio} | {of_peak:.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
