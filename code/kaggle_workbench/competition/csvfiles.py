"""What a table file really is, whatever its name says: packing, encoding, separator.

Kaggle's files and people's submissions come plain, as `.gz` and as `.zip` with one member, in
UTF-8 with or without a byte order mark and, from spreadsheets, in UTF-16 or Latin-1. Both the
loader and the submission check look here first, so that they agree on what they read.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

HEAD_BYTES = 1 << 16
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "'|'"}
# NotImplementedError: a zip packed by a method that Python does not know.
DAMAGE = (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile, NotImplementedError)

_MAGIC = (
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "a Feather file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook (.xls)"),
    (b"SQLite format 3", "an SQLite database"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"\x80\x02", "a pickle file"),
    (b"\x80\x03", "a pickle file"),
    (b"\x80\x04", "a pickle file"),
    (b"\x80\x05", "a pickle file"),
)


@dataclass(frozen=True)
class Look:
    """What a first look at a file found.

    Attributes:
        packing: "", "gz" or "zip".
        member: Name inside the zip archive.
        encoding: How the text begins: "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be" or "utf-32".
        problem: Why this is no readable table ("a Parquet file, not CSV text"); empty when it is one.
    """

    packing: str = ""
    member: str = ""
    encoding: str = "utf-8"
    problem: str = ""


def look(path: Path) -> Look:
    """Find out what `path` holds from its first bytes.

    Raises:
        OSError: The file cannot be opened.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        return Look(problem="an empty file (0 bytes)")
    found = Look()
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        found = _zip(path)
    elif head.startswith(b"\x1f\x8b"):
        found = Look(packing="gz")
    if found.problem:
        return found
    if found.packing:
        try:
            with open_bytes(path, found) as inner:
                head = inner.read(HEAD_BYTES)
        except DAMAGE as error:
            return Look(found.packing, found.member, problem=f"a damaged {found.packing} archive ({error})")
        if not head:
            return Look(found.packing, found.member, problem="an archive whose file is empty (0 bytes)")
    encoding, problem = _content(head)
    return Look(found.packing, found.member, encoding, problem)


@contextmanager
def open_bytes(path: Path, seen: Look) -> Iterator[IO[bytes]]:
    """The table's bytes, unpacked as they are read."""
    if seen.packing == "gz":
        with gzip.open(path, "rb") as packed:
            yield cast("IO[bytes]", packed)
    elif seen.packing == "zip":
        with zipfile.ZipFile(path) as archive, archive.open(seen.member) as member:
            yield member
    else:
        with path.open("rb") as plain:
            yield plain


@contextmanager
def open_text(path: Path, seen: Look) -> Iterator[io.TextIOWrapper]:
    """The table's text with its line ends as they are; bytes that do not fit the encoding become lone surrogates."""
    errors = "surrogateescape" if seen.encoding.startswith("utf-8") else "replace"
    with (
        open_bytes(path, seen) as raw,
        io.TextIOWrapper(raw, encoding=seen.encoding, errors=errors, newline="") as text,
    ):
        yield text


def separator(header: str) -> str:
    """The separator of a table, judged by its header line; a comma when none is seen."""
    outside = "".join(header.split('"')[::2])
    return max(SEPARATORS, key=outside.count)


def _zip(path: Path) -> Look:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                info
                for info in archive.infolist()
                if not info.is_dir()
                and not info.filename.startswith("__MACOSX/")
                and Path(info.filename).name[:1] != "."
            ]
            names = [info.filename for info in members]
            if "[Content_Types].xml" in archive.namelist():
                return Look(problem="an Excel workbook (.xlsx), not CSV text")
    except DAMAGE as error:
        return Look(problem=f"a damaged zip archive ({error})")
    if names and all(name.endswith(".npy") for name in names):
        return Look(problem="a NumPy archive (.npz), not CSV text")
    if len(members) != 1:
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        return Look(
            "zip", problem=f"a zip archive of {len(members)} files ({shown or 'none'}); it must hold exactly one"
        )
    if members[0].flag_bits & 1:
        return Look("zip", names[0], problem="a zip archive with a password")
    return Look("zip", names[0])


def _content(head: bytes) -> tuple[str, str]:
    """Encoding and problem of unpacked bytes."""
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return "utf-8", f"{name}, not CSV text"
    if head.startswith((b"PK\x03\x04", b"\x1f\x8b")):
        return "utf-8", "packed twice"
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32", ""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", ""
    if head.startswith(b"\xef\xbb\xbf"):
        return "utf-8-sig", ""
    if b"\x00" in head:
        # ASCII written as UTF-16 without a mark has a NUL in every second byte.
        for encoding, zeros, others in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
            if zeros.count(0) > 0.9 * len(zeros) and others.count(0) == 0:
                return encoding, ""
        if head.count(0) == len(head):
            return "utf-8", "a file of zero bytes, as a copy leaves it that was broken off"
        return "utf-8", "binary data (it holds zero bytes), not CSV text"
    start = head.lstrip()[:200].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "utf-8", "a web page (HTML), not CSV text"
    if start.startswith((b"{", b"[{", b"[[")):
        return "utf-8", "JSON, not CSV text"
    return "utf-8", ""
