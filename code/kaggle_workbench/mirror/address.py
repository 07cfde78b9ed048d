"""MONGODB_URI for people: its host and database, never its user or password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kaggle_workbench.errors import MissingError
from kaggle_workbench.masking import passwords
from kaggle_workbench.settings import Secret, Settings

DATABASE = "kaggle_workbench"
COLLECTION = "runs"


@dataclass(frozen=True)
class Address:
    """Where the records go.

    Attributes:
        uri: The whole address.
        host: Host and port, as people may see it; "the server of MONGODB_URI" where it cannot be told safely.
        database: Name of the database.
    """

    uri: Secret
    host: str
    database: str
    _hide: tuple[str, ...] = field(repr=False, default=())

    def __str__(self) -> str:
        return f"MongoDB at {self.host}"

    @property
    def is_atlas(self) -> bool:
        """Whether it is MongoDB's own cloud, which has an IP access list."""
        return self.host.endswith(".mongodb.net") or ".mongodb.net:" in self.host

    def mask(self, text: str) -> str:
        """A text without the address' secret parts."""
        for secret in self._hide:
            text = text.replace(secret, "***")
        return text


def address(settings: Settings) -> Address | None:
    """The address in force; None when MONGODB_URI is not set."""
    return read(settings.mongodb_uri) if settings.mongodb_uri else None


def require(settings: Settings) -> Address:
    """Like `address`.

    Raises:
        MissingError: MONGODB_URI is not set.
    """
    found = address(settings)
    if found is None:
        raise MissingError(
            "MONGODB_URI is not set, so there is no database to ask.",
            hint="Write it into secrets.env: MONGODB_URI=mongodb+srv://USER:PASSWORD@HOST/ "
            "(docs/mongodb.md shows where to find it).",
        )
    return found


def read(uri: Secret) -> Address:
    """Take an address apart, without asking anybody."""
    text = uri.reveal()
    rest = text.partition("://")[2]
    body = rest.partition("?")[0]
    host, _, path = body.rpartition("@")[2].partition("/")
    # An "@" that comes later belongs to a password that is not written as it must be: nothing of it may be shown.
    whole = body.count("@") == rest.count("@") and re.fullmatch(r"[\w.,:\[\]-]+", host)
    # "admin" in an address is where the user is kept; records do not belong there.
    database = path if re.fullmatch(r"[\w-]{1,60}", path) and path not in ("admin", "local", "config") else DATABASE
    hide = (text, *(secret for secret in passwords(text) if len(secret) > 3))
    return Address(uri, host if whole else "the server of MONGODB_URI", database, hide)
