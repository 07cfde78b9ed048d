"""A store's address: a folder as people write it, or a URL; and what of it must not be shown."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kaggle_workbench.hostpaths import host_folder

# Two letters at least: one is a Windows drive.
_URL = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]+)(?:://|::)")
_LOCAL = re.compile(r"^(?:file|local)://", re.IGNORECASE)


def folder_of(address: str, base: Path | None = None) -> Path | None:
    r"""The folder an address means on this machine; None when it is another kind of store.

    Args:
        address: `/mnt/d/store`, `D:\store` (WSL), `~/store`, `store` (from `base`), `file:///store`, or any URL.
        base: Folder that relative ones start from; by default the current one.

    Raises:
        UsageError: A Windows path where there are no drives.
        MissingError: A Windows drive that is not there.
    """
    if _LOCAL.match(address):
        address = unquote(_LOCAL.sub("", address))
    elif _URL.match(address):
        return None
    path = host_folder(address)
    return path if path.is_absolute() else (base or Path.cwd()) / path


def scheme(address: str) -> str:
    """The first part of a URL, such as "s3"; "file" for a folder."""
    match = _URL.match(address)
    return match["scheme"].lower() if match else "file"


def masked(address: str) -> str:
    """An address as it may be shown: without user, password and query."""
    return re.sub(r"\?\S*$", "?***", _USERINFO.sub(r"\1***@", address))


# With a colon in front, all up to the last "@": secrets of S3 hold slashes, which people forget to encode.
_USERINFO = re.compile(r"(://)(?:[^/@\s]*:\S*|[^/\s]*)@")


def secrets_in(address: str) -> list[str]:
    """The parts of an address that `masked` takes away, as they are and decoded, longest first."""
    found = {match.group(0)[3:-1] for match in _USERINFO.finditer(address)}
    found |= {part for text in list(found) for part in text.split(":", 1)[1:]}
    try:
        query = urlsplit(address).query
    except ValueError:
        query = ""
    found |= {query, *(part.partition("=")[2] for part in query.split("&"))}
    found |= {unquote(text) for text in found}
    # Shorter ones are words of their own and would black out plain text.
    return sorted((text for text in found if len(text) > 5), key=len, reverse=True)
