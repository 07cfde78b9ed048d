"""Merging the records of this machine with those in MongoDB: both ways, without doubles, the newest revision wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kaggle_workbench import show
from kaggle_workbench.errors import WorkError
from kaggle_workbench.mirror.address import require
from kaggle_workbench.mirror.convert import to_record
from kaggle_workbench.mirror.server import make_indexes, opened
from kaggle_workbench.mirror.writing import put_many
from kaggle_workbench.records.document import RECORD_FILE, age, digest, parse, utc
from kaggle_workbench.records.listing import each_record
from kaggle_workbench.records.received import receive
from kaggle_workbench.settings import Settings

if TYPE_CHECKING:
    from kaggle_workbench.mirror.server import Runs

BATCH = 100
BATCH_BYTES = 8_000_000


@dataclass
class SyncResult:
    """What a merge did.

    Attributes:
        server: Host and database, as people may see them.
        sent: Names of the runs whose record went to the server.
        fetched: Names of the runs whose record came from there.
        equal: How many were the same on both sides.
        conflicts: Names of the runs that two machines had continued from the same record; the later one stands, the
            other is beside it in the run's folder as record.<digest>.json.
        skipped: Name and reason of those left alone.
        failed: Name and reason of those the server refused.
        dry_run: Nothing was changed; the lists say what would be.
    """

    server: str
    sent: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    equal: int = 0
    conflicts: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    dry_run: bool = False

    @property
    def exit_code(self) -> int:
        """0, or 1 when a record could not be kept."""
        return 1 if self.failed else 0

    def to_dict(self) -> dict[str, Any]:
        """The result for programs."""
        return asdict(self)

    def __str__(self) -> str:
        would = "would be " if self.dry_run else ""
        lines = [
            f"{self.server}: {would}sent {len(self.sent):,}, {would}fetched {len(self.fetched):,}, "
            f"equal {self.equal:,}, conflicts {len(self.conflicts):,}"
        ]
        for title, names in (("sent", self.sent), ("fetched", self.fetched), ("conflict", self.conflicts)):
            if names:
                more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
                lines.append(f"  {title.ljust(9)} {', '.join(sorted(names)[-3:])}{more}")
        for title, reasons in (("left alone", self.skipped), ("FAILED", self.failed)):
            lines += [f"  {title} {name}: {reason}" for name, reason in reasons.items()]
        if self.conflicts:
            lines.append(
                "  Two machines went on from the same record; the later one stands, the other is kept beside it."
            )
        return "\n".join(lines)


def sync(settings: Settings, *, dry_run: bool = False) -> SyncResult:
    """Merge the records below OUTPUT_DIR with those in MongoDB.

    Args:
        settings: Settings in force.
        dry_run: Only say what would be done.

    Raises:
        MissingError: MONGODB_URI is not set, the server cannot be reached or refuses, or a disk is full.
    """
    where = require(settings)
    result = SyncResult(f"{where}, database {where.database}", dry_run=dry_run)
    here = _here(settings.output_dir, result)
    with opened(where) as runs:
        if not dry_run:
            make_indexes(runs)
        there = _heads(runs, result)
        to_send: list[str] = []
        to_fetch: list[str] = []
        for uid, (folder, head) in here.items():
            way = _way(head, there[uid]) if uid in there else "send"
            if way == "equal":
                result.equal += 1
            else:
                (to_send if way == "send" else to_fetch).append(uid)
                if uid in there and head["revision"] == there[uid]["revision"]:
                    result.conflicts.append(folder.name)
        to_fetch += [uid for uid in there if uid not in here]
        if dry_run:
            result.sent = [here[uid][0].name for uid in to_send]
            result.fetched = [str(there[uid].get("id")) for uid in to_fetch]
            return result
        with show.progress(len(to_send) + len(to_fetch), "records", "record") as bar:
            _keep_losers(runs, [here[uid] for uid in to_send if uid in there], there)
            for batch in _batches([here[uid][0] for uid in to_send], result):
                refused = put_many(runs, [record for _, record in batch])
                for folder, record in batch:
                    if record["uid"] in refused:
                        result.failed[folder.name] = refused[record["uid"]]
                    else:
                        result.sent.append(folder.name)
                bar.update(len(batch))
            for start in range(0, len(to_fetch), BATCH):
                uids = to_fetch[start : start + BATCH]
                for document in runs.find({"_id": {"$in": uids}}):
                    folder_here = here[document["_id"]][0] if document["_id"] in here else None
                    _fetch(settings.output_dir, document, folder_here, result)
                bar.update(len(uids))
    return result


def _here(output_dir: Path, result: SyncResult) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Folder and head of each run here; with thousands of runs the records themselves are too much to hold."""
    found: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path, record in each_record(output_dir):
        folder = Path(path)
        if record is None:
            result.skipped[folder.name] = "its record is damaged"
            continue
        head = {name: record.get(name) for name in ("id", "uid", "revision", "updated", "cut")}
        mine = (folder, {**head, "digest": digest(record)})
        other = found.get(record["uid"])
        if other is None:
            found[record["uid"]] = mine
            continue
        older, newer = sorted([other, mine], key=lambda pair: (age(pair[1]), pair[0].name == pair[1]["id"]))
        result.skipped[older[0].name] = f"a copy of {newer[0].name}, which is newer or the same"
        found[record["uid"]] = newer
    return found


def _heads(runs: Runs, result: SyncResult) -> dict[str, dict[str, Any]]:
    found = {}
    for head in runs.find({}, {"id": 1, "revision": 1, "updated": 1, "digest": 1}):
        if isinstance(head["_id"], str):
            found[head["_id"]] = _plain(head)
        else:
            result.skipped[str(head.get("id") or head["_id"])] = "its document is not understood (not a run record)"
    return found


def _plain(head: Mapping[str, Any]) -> dict[str, Any]:
    updated, revision = head.get("updated"), head.get("revision")
    return {
        **head,
        "revision": int(revision) if isinstance(revision, int | float) else 0,
        "updated": utc(updated.isoformat()) if isinstance(updated, datetime) else str(updated or ""),
        "digest": str(head.get("digest") or ""),
    }


def _way(here: Mapping[str, Any], there: Mapping[str, Any]) -> Literal["send", "fetch", "equal"]:
    """Which of two copies of a run's record stands, by their heads."""
    mine, other = age(here), age(there)
    if mine != other:
        return "send" if mine > other else "fetch"
    # A record that was cut for the server and came back is the same one, as far as it was kept.
    if here["digest"] == there["digest"] or here.get("cut") or not there["digest"]:
        return "equal"
    return "send" if here["digest"] > there["digest"] else "fetch"


def _batches(folders: Sequence[Path], result: SyncResult) -> Iterator[list[tuple[Path, dict[str, Any]]]]:
    """The records of these folders, as many at once as fit one question."""
    batch: list[tuple[Path, dict[str, Any]]] = []
    length = 0
    for folder in folders:
        try:
            content = (folder / RECORD_FILE).read_bytes()
            batch.append((folder, parse(content)))
        except (OSError, ValueError, RecursionError):
            result.skipped[folder.name] = "its record is damaged"
            continue
        length += len(content)
        if len(batch) == BATCH or length > BATCH_BYTES:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _keep_losers(
    runs: Runs, pairs: Sequence[tuple[Path, dict[str, Any]]], there: Mapping[str, Mapping[str, Any]]
) -> None:
    """Where the server's copy loses against one of the same revision, keep it beside the winner."""
    from kaggle_workbench.files import write_json

    for folder, record in pairs:
        if record["revision"] != there[record["uid"]]["revision"]:
            continue
        document = runs.find_one({"_id": record["uid"]})
        try:
            loser = to_record(document or {})
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        del loser["seen"]
        write_json(folder / f"record.{digest(loser)[:8]}.json", loser)


def _fetch(output_dir: Path, document: Mapping[str, Any], folder: Path | None, result: SyncResult) -> None:
    name = str(document.get("id") or document["_id"])[:80]
    try:
        record = to_record(document)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        result.skipped[name] = f"its document is not understood ({error})"
        return
    try:
        here, outcome = receive(output_dir, record, folder)
    except WorkError as error:
        result.skipped[name] = error.message
        return
    if outcome in ("new", "newer"):
        result.fetched.append(here)
    elif outcome == "kept":
        result.equal += 1
    else:
        result.skipped[here] = "it runs here now" if outcome == "running" else "its record here is damaged"
