"""Runs in a store: what is there, bringing one here, and sending what a stage made.

`<STORE>/<run>/` holds what the run's folder holds: record.json, submission.csv, executed notebooks, pictures,
checkpoints. The store's copy and the folder here are two copies of one run; whichever goes on from the other wins.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench import records, show
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.files import human_bytes, sha256, write_atomic, write_json
from kaggle_workbench.records import RECORD_FILE, Run
from kaggle_workbench.settings import Settings
from kaggle_workbench.stores import NotStoredError, Store, Uploader, open_store

CHECKPOINTS = "checkpoints"
LEDGER_FILE = ".stored.json"
# Begins the names of folders that hold what another copy of the run has replaced.
KEPT = "kept-"
# A look must not delay a stage for long; what is sent has the store's own limit.
LOOK_S = 20.0
MOST_LOOKED_AT = 200


def store_of(settings: Settings, *, limit_s: float | None = None) -> Store | None:
    """The store of the settings; None without one.

    Raises:
        UsageError: STORE is no address.
        MissingError: What it needs is not installed.
    """
    if not settings.store:
        return None
    limits = {} if limit_s is None else {"limit_s": limit_s}
    return open_store(settings.store, base=settings.root or settings.output_dir, **limits)


def stored_record(store: Store, run_id: str) -> dict[str, Any] | None:
    """A run's record in the store; None when there is none.

    Raises:
        MissingError: The store does not answer, or holds something else under that name.
    """
    try:
        return records.parse(store.get(f"{run_id}/{RECORD_FILE}"), run_id)
    except NotStoredError:
        return None
    except ValueError as error:
        raise MissingError(
            f"The record of run {run_id} in the store {store.address} cannot be read ({error}).",
            hint="A newer version of this package may have written it; else delete the run there.",
        ) from error


def locate(settings: Settings, text: str) -> str:
    """The full name of a run, here or in the store, from an unambiguous beginning of it.

    Raises:
        UsageError: No such run, or several.
        MissingError: It is not here, and the store does not answer.
    """
    runs = settings.output_dir / "runs"
    here = {file.parent.name for file in runs.glob(f"*/{RECORD_FILE}") if file.parent.name.startswith(text)}
    store = store_of(settings, limit_s=LOOK_S)
    if text in here or store is None:
        return Run.open(settings.output_dir, text).id
    try:
        found = here | {name for name in _stored_ids(store) if name.startswith(text)}
    except MissingError as error:
        if not here:
            raise
        show.warn(f"{error.message} Only this machine's runs are known.")
        found = here
    if text in found or len(found) == 1:
        return text if text in found else found.pop()
    if found:
        raise UsageError(
            f"{text!r} could be {len(found)} runs: {', '.join(sorted(found)[-5:])}.", hint="Write more of the name."
        )
    raise UsageError(
        f"There is no run {text!r} in {runs}, nor in the store {store.address}.", hint="`./kwb runs` lists them."
    )


def newest_trained(store: Store, competition: str, source: str, than: str) -> str | None:
    """The run in the store that was trained last.

    Args:
        store: The store.
        competition: Slug.
        source: "practice" or "kaggle".
        than: Only if its training ended after this time (as `records.trained_at` gives it).

    Raises:
        MissingError: The store does not answer.
    """
    entries = [entry for entry in store.entries(depth=2) if entry.name.endswith(f"/{RECORD_FILE}")]
    unknown = datetime.max.replace(tzinfo=UTC)
    entries.sort(key=lambda entry: (entry.modified or unknown, entry.name), reverse=True)
    best, newest = None, than
    for entry in entries[:MOST_LOOKED_AT]:
        # A record is written after its training has ended; a minute for clocks that differ.
        if entry.modified and newest and (entry.modified.timestamp() + 60 < datetime.fromisoformat(newest).timestamp()):
            break
        try:
            record = stored_record(store, entry.name.partition("/")[0])
        except MissingError as error:
            show.warn(error.message)
            continue
        if record is None or (record.get("competition"), record.get("source")) != (competition, source):
            continue
        if records.trained_at(record) > newest:
            best, newest = record["id"], records.trained_at(record)
    return best


def trained_last(settings: Settings, kind: str) -> str:
    """The name of the run of this competition that was trained last; fetched when the store has a newer one.

    Args:
        settings: Settings in force.
        kind: "practice" or "kaggle".

    Raises:
        UsageError: Nothing is trained yet.
    """
    run = Run.newest(settings.output_dir, competition=settings.competition, source=kind, trained=True)
    found = run.id if run else None
    store = store_of(settings, limit_s=LOOK_S)
    where = f"{settings.output_dir / 'runs'}"
    if store is not None:
        where += f", nor in the store {store.address}"
        try:
            than = records.trained_at(run.read()) if run else ""
            newer = newest_trained(store, settings.competition, kind, than=than)
            if newer is not None:
                bring(settings, store, newer, checkpoints=False)
                found = newer
        except MissingError as error:
            show.warn(f"{error.message} Only this machine's runs are known.")
    if found is None:
        raise UsageError(
            f"No trained run of {settings.competition} was found in {where}.", hint="Train first: ./kwb run data train"
        )
    return found


def bring(settings: Settings, store: Store, run_id: str, *, checkpoints: bool, origin: str = "") -> None:
    """Have a run here as the store knows it, unless the copy here is the newer one.

    Of two copies that went different ways, the one with a finished training, else with the higher revision wins;
    what the other one holds is kept in a folder of its own, and said.

    Args:
        settings: Settings in force.
        store: The store.
        run_id: The run's full name.
        checkpoints: Fetch its checkpoints, too.
        origin: The store's name for people; by default its address.

    Raises:
        UsageError: The store's run of that name is another one.
        MissingError: The store does not answer.
    """
    theirs = stored_record(store, run_id)
    if theirs is None:
        return
    folder = settings.output_dir / "runs" / run_id
    ours = Run(folder).read() if (folder / RECORD_FILE).is_file() else None
    if ours is None:
        _fetch(store, folder, theirs, checkpoints=checkpoints, origin=origin)
        return
    if ours["uid"] != theirs["uid"]:
        raise UsageError(
            f"Two different runs are named {run_id}: one here, one in the store {store.address}.",
            hint="Choose another RUN_ID, or rename the folder of the one here.",
        )
    if _goes_on_from(ours, theirs):
        if ours["revision"] >= theirs["revision"] or not _goes_on_from(theirs, ours):
            return
    elif not _goes_on_from(theirs, ours):
        if _weight(ours) >= _weight(theirs):
            aside = folder / f"{KEPT}store-{theirs['revision']}"
            if not aside.exists():
                _fetch(store, aside, theirs, checkpoints=True, origin=origin)
            show.warn(f"Run {run_id} went on here and elsewhere. This copy is kept; the store's lies in {aside.name}.")
            return
        _set_aside(folder, f"{KEPT}here-{ours['revision']}")
        show.warn(
            f"Run {run_id} went on here and elsewhere. The store's copy is taken; what was here lies in "
            f"{KEPT}here-{ours['revision']} in the run's folder."
        )
    _fetch(store, folder, theirs, checkpoints=checkpoints, origin=origin)
    if ours["revision"] > theirs["revision"]:
        # Copies elsewhere (a database) go by the number alone.
        Run(folder).update(revision=ours["revision"])


class Ledger:
    """Which of a run's files the store holds as they are here: `.stored.json` in the run's folder.

    Args:
        folder: The run's folder.
        store: The store; of another one, nothing is known.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._key = hashlib.sha256(store.address.encode()).hexdigest()[:12]
        self._lock = threading.Lock()

    def note(self, name: str, path: Path, facts: tuple[int, int]) -> None:
        """Note an upload: the file's size and time of change when it was read."""
        if not self._folder.is_dir():
            return
        with self._lock:
            known = self._read()
            known.setdefault(self._key, {})[name] = list(facts)
            write_json(self._folder / LEDGER_FILE, known)

    def holds(self, name: str, path: Path) -> bool:
        """Whether this very file was uploaded or fetched."""
        facts = path.stat()
        return bool(self._read().get(self._key, {}).get(name) == [facts.st_size, facts.st_mtime_ns])

    def _read(self) -> dict[str, dict[str, list[int]]]:
        try:
            known = json.loads((self._folder / LEDGER_FILE).read_bytes())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def uploader_for(run: Run, store: Store) -> Uploader:
    """An uploader that keeps the run's ledger."""
    uploader = Uploader(store, sent=Ledger(run.folder, store).note)
    for path in (run.folder / CHECKPOINTS).glob("*"):
        uploader.knows(stored_name(run, path), path)
    return uploader


def stored_name(run: Run, path: Path) -> str:
    """A file's name in the store."""
    return f"{run.id}/{path.relative_to(run.folder).as_posix()}"


def send(run: Run, uploader: Uploader) -> None:
    """Hand all files of a run to its uploader that the store does not hold yet; the record last."""
    ledger = Ledger(run.folder, uploader.store)
    there: dict[str, int] = {}
    # A store that does not answer is not asked once more.
    if not uploader.in_trouble:
        with contextlib.suppress(MissingError):
            there = {entry.name: entry.size for entry in uploader.store.entries(run.id)}
    for path in sorted(run.folder.rglob("*")):
        parts = path.relative_to(run.folder).parts
        if any(part.startswith((".", KEPT)) for part in parts) or not path.is_file() or parts == (RECORD_FILE,):
            continue
        name = stored_name(run, path)
        try:
            if not (there.get(name) == path.stat().st_size and ledger.holds(name, path)):
                uploader.put(name, path)
        except FileNotFoundError:
            continue
    uploader.put(f"{run.id}/{RECORD_FILE}", run.folder / RECORD_FILE)


# --- Inside ---


def _stored_ids(store: Store) -> list[str]:
    return [e.name.partition("/")[0] for e in store.entries(depth=2) if e.name.endswith(f"/{RECORD_FILE}")]


def _fetch(store: Store, folder: Path, record: Mapping[str, Any], *, checkpoints: bool, origin: str = "") -> None:
    run_id = str(record["id"])
    wanted = []
    # The newest checkpoint first: it is the one that is needed.
    for entry in sorted(store.entries(run_id), key=lambda entry: entry.name, reverse=True):
        inner = entry.name.removeprefix(f"{run_id}/")
        if inner == RECORD_FILE or inner.startswith(KEPT):
            continue
        path = folder / inner
        is_checkpoint = inner.startswith(f"{CHECKPOINTS}/")
        if is_checkpoint and (not checkpoints or (path.is_file() and path.stat().st_size == entry.size)):
            continue
        wanted.append((entry, path))
    size = sum(entry.size for entry, _ in wanted)
    files = show.plural(len(wanted) + 1, "file")
    show.note(f"Fetching run {run_id} from {origin or store.address}: {files}, {human_bytes(size)}")
    ledger = Ledger(folder, store)
    folder.mkdir(parents=True, exist_ok=True)
    with show.progress(size, f"run {run_id}") as bar:
        for entry, path in wanted:
            try:
                store.fetch(entry.name, path)
            except NotStoredError:
                # Pruned since the list was made.
                continue
            facts = path.stat()
            ledger.note(entry.name, path, (facts.st_size, facts.st_mtime_ns))
            bar.update(entry.size)
    _verify(folder, record, store)
    # Last: a folder with a record is a whole one.
    write_atomic(folder / RECORD_FILE, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _verify(folder: Path, record: Mapping[str, Any], store: Store) -> None:
    """Compare what was fetched with the checksums in the record."""
    known: dict[str, str] = {}
    checkpoint = record.get("checkpoint") or {}
    if checkpoint.get("file") and checkpoint.get("sha256"):
        known[f"{CHECKPOINTS}/{Path(str(checkpoint['file'])).name}"] = str(checkpoint["sha256"])
    for step in record["steps"]:
        known |= {str(file["name"]): str(file["sha256"]) for file in step.get("files") or () if file.get("sha256")}
    for name, digest in known.items():
        path = folder / name
        if path.is_file() and sha256(path) != digest:
            if not name.startswith(f"{CHECKPOINTS}/"):
                path.unlink()
            show.warn(
                f"{name} in the store {store.address} is not the file that the run's record names (its SHA-256 "
                "differs): its upload may not be complete."
                + ("" if path.exists() else " It is left out; run 02-train in this run to write it anew.")
            )


def _goes_on_from(later: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    """Whether all steps of `earlier` stand at the beginning of `later`'s."""
    first, second = ([(step["stage"], step.get("started")) for step in each["steps"]] for each in (earlier, later))
    return second[: len(first)] == first


def _weight(record: Mapping[str, Any]) -> tuple[bool, int]:
    return bool(records.trained_at(record)), int(record["revision"])


def _set_aside(folder: Path, name: str) -> None:
    aside = folder / name
    aside.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if not path.name.startswith((".", KEPT)):
            path.replace(aside / path.name)
