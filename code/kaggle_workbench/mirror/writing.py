"""Writing records into the collection, never over a newer one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kaggle_workbench.mirror.cut import fitting

if TYPE_CHECKING:
    from kaggle_workbench.mirror.server import Runs

DUPLICATE_KEY = 11000


def older(document: Mapping[str, Any]) -> dict[str, Any]:
    """A filter for the run's document where it is older than this one.

    Where it is as new or newer, nothing is found, the upsert tries to insert, and the server says that the `_id` is
    there: so no reader's moment lies between looking and writing.
    """
    revision, updated = document["revision"], document["updated"]
    later = [
        {"revision": {"$lt": revision}},
        {"revision": revision, "updated": {"$lt": updated}},
        # Two machines in the same millisecond: any rule does, if all follow it.
        {"revision": revision, "updated": updated, "digest": {"$lt": document["digest"]}},
    ]
    return {"_id": document["_id"], "$or": later}


def put(runs: Runs, record: Mapping[str, Any]) -> bool:
    """Write one record; False when the server has one that is as new.

    Raises:
        pymongo.errors.PyMongoError: The server cannot be reached, or refuses.
    """
    from pymongo.errors import DuplicateKeyError

    document = fitting(record)
    # Asked twice: the first time an older one may have been inserted between the server's look and its insert.
    for _ in range(2):
        try:
            runs.replace_one(older(document), document, upsert=True)
        except DuplicateKeyError:
            continue
        return True
    return False


def put_many(runs: Runs, batch: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write several records in one question.

    Returns:
        For each uid that was refused, why.

    Raises:
        pymongo.errors.PyMongoError: The server cannot be reached, or refuses altogether.
    """
    from pymongo import ReplaceOne
    from pymongo.errors import BulkWriteError

    documents = [fitting(record) for record in batch]
    try:
        runs.bulk_write([ReplaceOne(older(one), one, upsert=True) for one in documents], ordered=False)
    except BulkWriteError as error:
        faults = [fault for fault in error.details.get("writeErrors", ()) if fault.get("code") != DUPLICATE_KEY]
        if not faults and error.details.get("writeConcernErrors"):
            raise
        for fault in error.details.get("writeErrors", ()):
            if fault.get("code") == DUPLICATE_KEY:
                put(runs, batch[fault["index"]])
        return {documents[fault["index"]]["_id"]: str(fault.get("errmsg", "refused"))[:200] for fault in faults}
    return {}


def touch(runs: Runs, uids: Sequence[str], moment: datetime) -> None:
    """Say that these runs still run."""
    if uids:
        runs.update_many({"_id": {"$in": list(uids)}}, {"$max": {"seen": moment}})
