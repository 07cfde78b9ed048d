"""The connection: the only place that makes a MongoDB client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kaggle_workbench.mirror.address import COLLECTION, Address
from kaggle_workbench.mirror.problems import explained

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.collection import Collection

    Runs = Collection[dict[str, Any]]

# Milliseconds. What the address itself says wins.
LIMITS = {"serverSelectionTimeoutMS": 5000, "connectTimeoutMS": 5000, "socketTimeoutMS": 15000}
# Not authorized, command not found or supported, cannot create index, index options or key conflict.
_NO_INDEX = (13, 59, 115, 67, 85, 86)
INDEXES: tuple[list[tuple[str, int]], ...] = (
    [("competition", 1), ("created", -1)],
    [("status", 1)],
    [("cv.score", -1)],
    [("lb.public", -1)],
)


def connect(where: Address) -> MongoClient[dict[str, Any]]:
    """A client; whether the server answers shows with the first question.

    Raises:
        pymongo.errors.PyMongoError, ValueError: The address is malformed, or its name is not known.
    """
    from pymongo import MongoClient

    uri = where.uri.reveal()
    if not uri.startswith(("mongodb://", "mongodb+srv://")):
        # The client takes any other text for a host, and asks the network for it: a password pasted alone, say.
        raise ValueError("no address")
    given = {part.partition("=")[0].lower() for part in uri.partition("?")[2].split("&")}
    limits: dict[str, Any] = {name: value for name, value in LIMITS.items() if name.lower() not in given}
    return MongoClient(uri, tz_aware=True, appname="kaggle-workbench", **limits)


def runs_of(client: MongoClient[dict[str, Any]], where: Address) -> Runs:
    """The collection that holds the records."""
    return client[where.database][COLLECTION]


@contextmanager
def opened(where: Address) -> Iterator[Runs]:
    """The collection for one task; what goes wrong is told as a `MissingError`.

    Raises:
        MissingError: The server cannot be reached, or refuses.
    """
    from pymongo.errors import PyMongoError

    try:
        client = connect(where)
    except (PyMongoError, ValueError) as error:
        raise explained(error, where).as_error() from error
    try:
        yield runs_of(client, where)
    except PyMongoError as error:
        raise explained(error, where).as_error() from error
    finally:
        client.close()


def make_indexes(runs: Runs) -> None:
    """Indexes for what people look for; without the right to make them, looking is only slower."""
    from pymongo.errors import OperationFailure

    for keys in INDEXES:
        try:
            runs.create_index(keys)
        except OperationFailure as error:
            if error.code not in _NO_INDEX:
                raise
            return
