"""The ledger of submissions: what was sent, written down before it is sent.

One file per source and competition, `OUTPUT_DIR/submissions/<kind>-<slug>.json`, keyed by the hash of the
predictions. Whoever reads or writes it holds `lock`. It is one of two memories: the other is the mark
`[kwb sha:...]` in the submission's description, which the server keeps and every machine can read.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from kaggle_workbench.competition.csvfiles import look, open_bytes
from kaggle_workbench.errors import MissingError
from kaggle_workbench.files import CHUNK_BYTES, locked, write_json
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import warn

SCHEMA = 1
# A submission at work holds the lock while it sends; the metric is heard again the next time.
HEAR_S = 1.0
# "sending": the answer was never seen, so it may have arrived or not.
State = Literal["sending", "sent", "complete", "error"]


@dataclass(frozen=True)
class Entry:
    """One submission as this machine remembers it; `time` is in UTC, ISO 8601."""

    state: State
    file: str
    message: str
    time: str
    ref: int = 0
    run: str = ""
    public: float | None = None
    private: float | None = None
    error: str = ""


class Ledger:
    """The submissions to one competition from this project."""

    def __init__(self, settings: Settings, kind: str) -> None:
        self.path = settings.output_dir / "submissions" / f"{kind}-{settings.competition}.json"
        self.lock = self.path.with_suffix(".lock")

    def find(self, sha: str) -> Entry | None:
        """What is remembered of predictions with this hash."""
        held = self._read()["submissions"].get(sha)
        try:
            return Entry(**held) if held is not None else None
        except TypeError:
            return None

    def write(self, sha: str, entry: Entry) -> None:
        """Remember `entry`; on the disk when this returns."""
        document = self._read()
        document["submissions"][sha] = asdict(entry)
        write_json(self.path, document)

    def forget(self, sha: str) -> None:
        """Take an entry out: it was surely not sent."""
        document = self._read()
        if document["submissions"].pop(sha, None) is not None:
            write_json(self.path, document)

    @property
    def metric(self) -> str | None:
        """The competition's metric, as the server last named it; None when it was never asked."""
        return self._read().get("metric") or None

    def hear(self, metric: str) -> None:
        """Like `keep_metric`, from outside a submission: not while another process writes."""
        if not metric or metric == self.metric:
            return
        with suppress(MissingError, OSError), locked(self.lock, what="the list of submissions", timeout_s=HEAR_S):
            self.keep_metric(metric)

    def keep_metric(self, metric: str) -> None:
        """Remember the metric, so that a check without network judges as a submission does."""
        document = self._read()
        if metric and document.get("metric") != metric:
            write_json(self.path, {**document, "metric": metric})

    def _read(self) -> dict[str, Any]:
        fresh: dict[str, Any] = {"schema": SCHEMA, "metric": "", "submissions": {}}
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return fresh
        except (OSError, ValueError):
            document = None
        if isinstance(document, dict) and isinstance(document.get("submissions"), dict):
            return document
        aside = self.path.with_suffix(".broken")
        self.path.replace(aside)
        warn(
            f"{self.path} could not be read and is now {aside.name}; the server's list of submissions is asked instead."
        )
        return fresh


def content_sha256(file: Path) -> str:
    """SHA-256 of a submission's text, so that the same predictions packed anew are the same ones."""
    digest = hashlib.sha256()
    with open_bytes(file, look(file)) as content:
        while chunk := content.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def mark(sha: str) -> str:
    """The mark in a submission's description."""
    return f"[kwb sha:{sha[:12]}]"


def now() -> str:
    """The time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
