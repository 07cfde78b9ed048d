"""read_table: exact, sparing, and clear about what it cannot read."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kaggle_workbench.competition.tables import read_table
from kaggle_workbench.errors import UsageError, WorkError

PLAIN = "id,name,score\n1,Ann,0.5\n2,Bob,1.5\n"


def _file(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(tmp_path: Path, separator: str) -> None:
    table = read_table(_file(tmp_path, PLAIN.replace(",", separator)))
    assert list(table.columns) == ["id", "name", "score"]
    assert table["score"].tolist() == [0.5, 1.5]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings_are_found(tmp_path: Path, encoding: str) -> None:
    table = read_table(_file(tmp_path, PLAIN.replace("Bob", "Bo").encode(encoding)))
    assert table["name"].tolist() == ["Ann", "Bo"]


def test_latin_1_is_said_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = read_table(_file(tmp_path, "id,name\n1,café\n".encode("latin-1")))
    assert table["name"].tolist() == ["café"]
    assert "Latin-1" in capsys.readouterr().err


def test_packed_files_are_read(tmp_path: Path) -> None:
    packed = _file(tmp_path, gzip.compress(PLAIN.encode()), "table.csv.gz")
    with zipfile.ZipFile(tmp_path / "table.csv.zip", "w") as archive:
        archive.writestr("table.csv", PLAIN)
        archive.writestr("__MACOSX/._table.csv", "junk")
    for path in (packed, tmp_path / "table.csv.zip"):
        assert read_table(path)["id"].tolist() == [1, 2]


def test_ids_stay_exact(tmp_path: Path) -> None:
    late = "".join(f"{number},1\n" for number in range(1000, 3000))
    table = read_table(_file(tmp_path, f"id,x\n{late}0004,2\n"))
    assert table["id"].tolist()[-1] == "0004"
    table = read_table(_file(tmp_path, "id,x\n9007199254740993,1\n,2\n"))
    assert table["id"].tolist()[0] == 9007199254740993
    table = read_table(_file(tmp_path, "id,x\n9223372036854775807,1\n1,2\n"))
    assert table["id"].tolist() == [9223372036854775807, 1]
    table = read_table(_file(tmp_path, "id,x\n99999999999999999999,1\n,2\n"))
    assert table["id"].tolist()[0] == "99999999999999999999"
    table = read_table(_file(tmp_path, "x\n1e300\n2\n"))
    assert table["x"].tolist() == [1e300, 2.0]


def test_pixels_take_a_byte(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (30, 100))
    header = "label," + ",".join(f"pixel{i}" for i in range(100))
    rows = "\n".join(f"{i % 10}," + ",".join(map(str, row)) for i, row in enumerate(values))
    table = read_table(_file(tmp_path, f"{header}\n{rows}\n"))
    assert (table.drop(columns="label").to_numpy() == values).all()
    assert set(table.drop(columns="label").dtypes.astype(str)) == {"uint8"}
    # What people calculate with keeps room: label - 1 must not become 255.
    assert str(table["label"].dtype) == "int64"


def test_a_value_that_does_not_fit_late_widens_the_type(tmp_path: Path) -> None:
    header = ",".join(f"f{i}" for i in range(64))
    rows = [",".join(["7"] * 64)] * 1500
    for last, kind in (("-3", "int16"), ("40000", "uint16"), ("70000", "int32"), ("0.5", "float64"), ("", "float64")):
        table = read_table(_file(tmp_path, "\n".join([header, *rows, ",".join(["7"] * 63 + [last])]) + "\n"))
        assert str(table["f63"].dtype) == kind, last
        assert table["f62"].tolist() == [7] * 1501


def test_quoted_line_ends_and_decimal_commas(tmp_path: Path) -> None:
    table = read_table(_file(tmp_path, 'id,text\n1,"two\nlines, one cell"\n2,x\n'))
    assert table["text"].tolist() == ["two\nlines, one cell", "x"]
    assert read_table(_file(tmp_path, "id;x\n1;0,5\n2;1,5\n"))["x"].tolist() == [0.5, 1.5]


def test_columns_and_rows(tmp_path: Path) -> None:
    path = _file(tmp_path, PLAIN)
    assert read_table(path, columns=["score"], rows=1).to_dict("list") == {"score": [0.5]}
    with pytest.raises(UsageError, match=r"no column 'scores'. Did you mean 'score'"):
        read_table(path, columns=["scores"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,x\n1,2\n3,4,5\n", r"table.csv, line 3: 3 cells where the header has 2"),
        ('id,x\n1,"a\nb"\n3,4,5\n', r"table.csv, line 4"),
        ('id,x\n1,2\n3,"4\n5,6\n', r"table.csv, line 3: a quote opens"),
        ("", r"empty file"),
        ("\n\n", r"no header"),
        (b"PAR1\x00\x01", r"Parquet"),
        (b"\x1f\x8b\x08broken", r"damaged gz"),
        (gzip.compress(PLAIN.encode() * 9000)[:-10], r"damaged"),
        (b"<!DOCTYPE html><html>", r"web page"),
    ],
)
def test_faults_name_the_place(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(WorkError, match=words):
        read_table(_file(tmp_path, content))


def test_a_missing_file_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(UsageError, match="is a folder"):
        read_table(tmp_path)
