"""Make the practice competition digit-recognizer from the four MNIST files.

    python make.py FOLDER                       the small competition, into this folder
    python make.py FOLDER --full --out DIR      the full-size one (42,000 / 28,000), into DIR/digit-recognizer

FOLDER holds train-images-idx3-ubyte.gz and the other three. The same input gives the same bytes on
every machine with the same zlib; checksums.json lists what has come out here. The predictions in
references/ are made by references.py and are left as they are.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

# MD5 of the unpacked files, as published with MNIST.
MNIST = {
    "train-images-idx3-ubyte.gz": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte.gz": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte.gz": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte.gz": "27ae3e4e09519cfbb04c329615203637",
}
SEED = 20_161
CLASSES = 10
# Kaggle's own leaderboard is computed on about a quarter of the test rows.
PUBLIC_SHARE = 0.25
ZIP_TIME = (2026, 1, 1, 0, 0, 0)
FULL_TITLE = "Digit Recognizer (practice, full size)"
FULL_DESCRIPTION = (
    "Learn to recognise handwritten digits. Each row is a 28 by 28 picture in grey levels from 0 to 255; the label is "
    "the digit it shows. All 70,000 MNIST digits in the sizes of Kaggle's Digit Recognizer: 42,000 training rows and "
    "28,000 test rows, split at random. A quarter of the test rows makes the public score."
)


@dataclass(frozen=True)
class Draw:
    """Which of the 70,000 pictures (60,000 first, then 10,000) go where; `public` marks rows of `test`."""

    train: np.ndarray
    test: np.ndarray
    public: np.ndarray


def main() -> int:
    """Make the files; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=Path, help="folder with the four MNIST files")
    parser.add_argument("--full", action="store_true", help="42,000 training and 28,000 test rows")
    parser.add_argument("--out", type=Path, help="folder that gets digit-recognizer/ (needed with --full)")
    options = parser.parse_args()
    if options.full and options.out is None:
        parser.error("--full needs --out DIR: the full competition is too large for this repository")
    here = Path(__file__).resolve().parent
    folder = options.out / here.name if options.out else here
    try:
        images, labels = read_mnist(options.mnist)
    except (OSError, ValueError) as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 3
    drawn = draw_full(len(labels)) if options.full else draw_balanced(labels, 1_200, 400)
    write(folder, images, labels, drawn)
    if folder != here:
        write_settings(here, folder, full=options.full)
    write_checksums(folder)
    print(f"{folder}: {len(drawn.train):,} training and {len(drawn.test):,} test rows.")
    return 0


def read_mnist(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All 70,000 pictures, (70000, 784) from 0 to 255, and their labels.

    Raises:
        OSError: A file is missing or not gzip.
        ValueError: A file is not MNIST's (MD5).
    """
    content: dict[str, bytes] = {}
    for name, md5 in MNIST.items():
        content[name] = gzip.decompress((folder / name).read_bytes())
        found = hashlib.md5(content[name], usedforsecurity=False).hexdigest()
        if found != md5:
            raise ValueError(f"{folder / name} has MD5 {found} (unpacked); MNIST's is {md5}.")
    # idx files: 16 bytes of header before pictures, 8 before labels.
    images = [np.frombuffer(content[name][16:], np.uint8).reshape(-1, 784) for name in MNIST if "images" in name]
    labels = [np.frombuffer(content[name][8:], np.uint8) for name in MNIST if "labels" in name]
    return np.concatenate(images), np.concatenate(labels)


def draw_balanced(labels: np.ndarray, train_each: int, test_each: int) -> Draw:
    """As many pictures of each digit, drawn and shuffled with the fixed seed; the public part is balanced too."""
    # RandomState's streams are frozen: every numpy gives the same draw.
    random = np.random.RandomState(SEED)
    train, test, public = [], [], []
    for digit in range(CLASSES):
        chosen = random.permutation(np.flatnonzero(labels == digit))[: train_each + test_each]
        train.append(chosen[:train_each])
        test.append(chosen[train_each:])
        public.append(np.arange(test_each) < test_each * PUBLIC_SHARE)
    order = random.permutation(CLASSES * test_each)
    return Draw(random.permutation(np.concatenate(train)), np.concatenate(test)[order], np.concatenate(public)[order])


def draw_full(count: int) -> Draw:
    """42,000 and 28,000 of all pictures, as in Kaggle's competition (its own order is not known)."""
    random = np.random.RandomState(SEED)
    order = random.permutation(count)
    return Draw(order[:42_000], order[42_000:], random.permutation(28_000) < 28_000 * PUBLIC_SHARE)


def write(folder: Path, images: np.ndarray, labels: np.ndarray, drawn: Draw) -> None:
    """Write files.zip, solution.csv.gz and the all-one-class reference."""
    (folder / "references").mkdir(parents=True, exist_ok=True)
    pixels = [f"pixel{i}" for i in range(784)]
    ids = range(1, len(drawn.test) + 1)
    train = csv_bytes(["label", *pixels], ([labels[i], *images[i]] for i in drawn.train))
    test = csv_bytes(pixels, (images[i] for i in drawn.test))
    sample = csv_bytes(["ImageId", "Label"], ([id, 0] for id in ids))
    with zipfile.ZipFile(folder / "files.zip", "w") as archive:
        for name, content in (("sample_submission.csv", sample), ("test.csv", test), ("train.csv", train)):
            info = zipfile.ZipInfo(name, ZIP_TIME)
            info.external_attr = 0o644 << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED, 9)
    usage = ["Public" if public else "Private" for public in drawn.public]
    solution = csv_bytes(["ImageId", "Label", "Usage"], zip(ids, labels[drawn.test], usage, strict=True))
    (folder / "solution.csv.gz").write_bytes(gzip.compress(solution, 9, mtime=0))
    (folder / "references" / "all-one-class.csv.gz").write_bytes(gzip.compress(sample, 9, mtime=0))


def write_settings(here: Path, folder: Path, *, full: bool) -> None:
    """The competition.json of another folder: ours, with the references that exist there."""
    settings: dict[str, Any] = json.loads((here / "competition.json").read_text(encoding="utf-8"))
    if full:
        settings |= {"title": FULL_TITLE, "description": FULL_DESCRIPTION}
    settings["references"] = [each for each in settings["references"] if (folder / each["file"]).is_file()]
    (folder / "competition.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def write_checksums(folder: Path) -> None:
    """List the SHA-256 of every file made here, and of each file inside the archive."""
    made = [folder / "files.zip", folder / "solution.csv.gz", *sorted((folder / "references").glob("*.csv.gz"))]
    sums = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    sums |= {f"files.zip:{name}": digest for name, digest in member_sums(folder / "files.zip").items()}
    (folder / "checksums.json").write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")


def member_sums(archive: Path) -> dict[str, str]:
    """SHA-256 of each file in the archive."""
    with zipfile.ZipFile(archive) as content:
        return {name: hashlib.sha256(content.read(name)).hexdigest() for name in content.namelist()}


def csv_bytes(header: list[str], rows: Any) -> bytes:
    """Rows as CSV with plain line ends."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


if __name__ == "__main__":
    sys.exit(main())
