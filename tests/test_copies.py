"""Binary copies of tables: equal to what the text holds, dropped when the text changes, harmless when damaged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kaggle_workbench.competition import copies, tables
from kaggle_workbench.competition.tables import read_table

CODE = Path(__file__).resolve().parent.parent / "code"


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "LEAST_BYTES", 1)


def pixels(path: Path, rows: int = 3000, *, last: str = "7") -> Path:
    values = np.random.default_rng(rows).integers(0, 256, (rows, 64))
    lines = [",".join(map(str, [row % 10, *value])) for row, value in enumerate(values)]
    lines[-1] = lines[-1].rpartition(",")[0] + f",{last}"
    path.write_text("label," + ",".join(f"pixel{n}" for n in range(64)) + "\n" + "\n".join(lines) + "\n")
    return path


def mixed(path: Path) -> Path:
    path.write_text('id,name,price,flag,code\n1,"Ünal, A",0.5,True,007\n2,,1.25,False,010\n3,"two\nlines",,True,011\n')
    return path


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """From now on, every reading of a table's text."""
    read: list[Path] = []
    real = tables.look

    def look(path: Path) -> tables.Look:
        read.append(path)
        return real(path)

    monkeypatch.setattr(tables, "look", look)
    return read


@pytest.mark.parametrize("make", [pixels, mixed])
def test_a_copy_is_what_the_text_holds(tmp_path: Path, make, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "train.csv")
    plain = read_table(path)
    first = read_table(path, home=tmp_path / "home")
    read = count_reads(monkeypatch)
    second = read_table(path, home=tmp_path / "home")
    assert read == [], "the second time, the text is not read"
    for table in (first, second):
        pd.testing.assert_frame_equal(table, plain)
    second.iloc[0, 0] = 5
    assert read_table(path, home=tmp_path / "home").iloc[0, 0] == plain.iloc[0, 0], "a changed table changes no copy"


@pytest.mark.parametrize(
    ("last", "kind"), [("7", "uint8"), ("-7", "int16"), ("40000", "uint16"), ("70000", "int32"), ("0.5", "float64")]
)
def test_the_smallest_type_that_holds_all(tmp_path: Path, last: str, kind: str) -> None:
    path = pixels(tmp_path / "train.csv", last=last)
    for home in (None, tmp_path / "home", tmp_path / "home"):
        table = read_table(path, home=home)
        assert str(table["pixel63"].dtype) == kind
        assert table["pixel63"].iloc[-1] == float(last)
        assert str(table["label"].dtype) == "int64"
    pd.testing.assert_frame_equal(
        table, tables._read(path, tables.look(path), None, None), check_dtype=kind != "float64"
    )


def test_an_id_with_leading_zeros_late_in_a_table_of_pixels_stays_text(tmp_path: Path) -> None:
    path = pixels(tmp_path / "train.csv")
    path.write_text(path.read_text() + "007" + ",1" * 64 + "\n")
    for _ in range(2):
        assert read_table(path, home=tmp_path / "home")["label"].iloc[-1] == "007"


def test_a_changed_source_drops_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, home = pixels(tmp_path / "train.csv", 50), tmp_path / "home"
    read_table(path, home=home)
    pixels(path, 60)
    assert len(read_table(path, home=home)) == 60
    content = path.read_text()
    swapped = content.replace("1", "x").replace("2", "1").replace("x", "2")
    path.write_text(swapped.replace("pixel2", "pixelA").replace("pixel1", "pixel2").replace("pixelA", "pixel1"))
    assert len(swapped) == len(content)
    expected = read_table(path)
    pd.testing.assert_frame_equal(read_table(path, home=home), expected)
    # Touched only: hashed once, then known again.
    os.utime(path, ns=(1, 1))
    read = count_reads(monkeypatch)
    pd.testing.assert_frame_equal(read_table(path, home=home), expected)
    assert read == []
    assert [entry.name for entry in home.iterdir()] == ["train.csv"], "no old copy is left behind"


@pytest.mark.parametrize("damage", ["flip", "cut", "no head", "half a head", "another version"])
def test_a_damaged_copy_is_made_anew(tmp_path: Path, damage: str) -> None:
    path, home = pixels(tmp_path / "train.csv"), tmp_path / "home"
    expected = read_table(path, home=home)
    expected = expected.copy()
    block = max((home / "train.csv").glob("*.bin"), key=lambda file: file.stat().st_size)
    head = home / "train.csv" / copies.HEAD_FILE
    content = bytearray(block.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "flip":
        block.write_bytes(content)
    elif damage == "cut":
        block.write_bytes(content[:-1])
    elif damage == "no head":
        head.unlink()
    elif damage == "half a head":
        head.write_text(head.read_text()[:40])
    else:
        head.write_text(head.read_text().replace('"version": 1', '"version": 99'))
    for _ in range(2):
        pd.testing.assert_frame_equal(read_table(path, home=home), expected)


def test_where_none_can_be_kept_the_table_is_read_all_the_same(tmp_path: Path) -> None:
    path = pixels(tmp_path / "train.csv", 50)
    (tmp_path / "file").write_text("")
    assert len(read_table(path, home=tmp_path / "file" / "home")) == 50


def test_two_processes_at_once(tmp_path: Path) -> None:
    path = pixels(tmp_path / "train.csv")
    script = (
        "import sys; from pathlib import Path\n"
        "from kaggle_workbench.competition import copies, tables\n"
        "copies.LEAST_BYTES = 1\n"
        "print(int(tables.read_table(Path(sys.argv[1]), home=Path(sys.argv[2])).to_numpy().sum()))\n"
    )

    def one(_: int) -> str:
        words = [sys.executable, "-c", script, str(path), str(tmp_path / "home")]
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "PYTHONPATH": str(CODE)}
        )
        return done.stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        sums = set(pool.map(one, range(3)))
    assert sums == {str(int(read_table(path).to_numpy().sum()))}
    assert [entry.name for entry in (tmp_path / "home").iterdir()] == ["train.csv"]


def test_a_copy_that_another_process_takes_away_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the move of one process lies the whole work of the other."""
    path, home = pixels(tmp_path / "train.csv"), tmp_path / "home"
    read_table(path, home=home)
    os.utime(path, ns=(1, 1))
    path.write_text(path.read_text() + "\n")
    made = copies.tempfile.mkdtemp

    def slow(*, prefix: str, dir: Path) -> str:
        folder = made(prefix=prefix, dir=dir)
        if ".old." in prefix:
            shutil.rmtree(home / "train.csv")
        return folder

    monkeypatch.setattr(copies.tempfile, "mkdtemp", slow)
    read_table(path, home=home)
    assert [entry.name for entry in home.iterdir() if entry.name != "train.csv"] == []


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    path, home = pixels(tmp_path / "train.csv"), tmp_path / "home"
    for name, age in ((".train.csv.dead", 2 * copies.LEFT_BEHIND_S), (".train.csv.alive", 0.0)):
        (home / name).mkdir(parents=True)
        os.utime(home / name, (time.time() - age,) * 2)
    read_table(path, home=home)
    assert sorted(entry.name for entry in home.iterdir()) == [".train.csv.alive", "train.csv"]


def test_a_table_is_read_in_pieces(tmp_path: Path) -> None:
    """Ten times the rows must not need ten times the memory beside the table itself."""
    script = (
        "import sys, tracemalloc; from pathlib import Path\n"
        "import numpy, pandas\n"
        "from kaggle_workbench.competition import copies, tables\n"
        "copies.LEAST_BYTES = 1\n"
        "tracemalloc.start()\n"
        "table = tables.read_table(Path(sys.argv[1]), home=Path(sys.argv[2]))\n"
        "print(tracemalloc.get_traced_memory()[1])\n"
    )
    peaks = []
    for rows in (3000, 30000):
        path = pixels(tmp_path / f"train{rows}.csv", rows)
        words = [sys.executable, "-c", script, str(path), str(tmp_path / "home")]
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "PYTHONPATH": str(CODE)}
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.5 * peaks[0], peaks
