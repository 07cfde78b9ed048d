"""Files as storage delivers them: the archive, single files (wrapped when large), submissions.

Single files are unpacked once into the state folder; names are looked up in the list of the
archive's members, never joined to a path that a request named.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import shutil
import zipfile
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from kaggle_workbench.arena.competitions import Competition, DataFile
from kaggle_workbench.files import disk_errors

# Members of wrapping zips carry a fixed time, so that the same file is always the same bytes.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Stored:
    """One downloadable file: where it lies, the name it is delivered under, and when it last changed."""

    path: Path
    name: str
    modified: datetime

    @property
    def md5(self) -> bytes:
        """MD5 of the content, 16 bytes, as Google's storage states it."""
        facts = self.path.stat()
        return _md5(self.path, facts.st_mtime_ns, facts.st_size)

    @property
    def etag(self) -> str:
        """Identity of the content, without quotes."""
        return self.md5.hex()

    @property
    def google_hash(self) -> str:
        """The value of `x-goog-hash`."""
        return "md5=" + base64.b64encode(self.md5).decode()


def archive(competition: Competition) -> Stored:
    """All files of a competition as one zip."""
    return Stored(competition.archive, f"{competition.slug}.zip", competition.date)


def delivered_name(competition: Competition, file: DataFile) -> str:
    """The name under which a single file arrives: large ones come as `name.zip`."""
    return f"{file.name}.zip" if file.size > competition.wrap_bytes else file.name


def single(competition: Competition, file: DataFile, state: Path) -> Stored:
    """One file of a competition, unpacked (or packed by itself) into the state folder on first use."""
    name = delivered_name(competition, file)
    key = hashlib.sha256(f"{archive(competition).etag}\n{name}".encode()).hexdigest()[:32]
    path = state / "unpacked" / competition.slug / key
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{key}.{secrets.token_hex(4)}")
        try:
            with disk_errors(path), zipfile.ZipFile(competition.archive) as whole, whole.open(file.name) as content:
                if name == file.name:
                    with part.open("wb") as out:
                        shutil.copyfileobj(content, out, 1 << 20)
                else:
                    info = zipfile.ZipInfo(file.name.rpartition("/")[2], ZIP_TIME)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    with zipfile.ZipFile(part, "w") as wrapping, wrapping.open(info, "w", force_zip64=True) as out:
                        shutil.copyfileobj(content, out, 1 << 20)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    return Stored(path, name.rpartition("/")[2], competition.date)


@lru_cache(maxsize=256)
def _md5(path: Path, modified_ns: int, size: int) -> bytes:
    with path.open("rb") as file:
        # The protocol's checksum, not a guard against anybody.
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
