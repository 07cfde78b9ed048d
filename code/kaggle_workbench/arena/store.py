"""What the arena remembers: uploads, submissions, scores, accepted rules, in one SQLite file.

Every operation opens its own connection and transaction, so that threads and several processes may
share the file; the rollback journal is used because it also works on network and shared folders.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kaggle_workbench.errors import MissingError

DAY_S = 86_400
SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS teams (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS rules (name TEXT NOT NULL, slug TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (name, slug));
CREATE TABLE IF NOT EXISTS uploads (
    key TEXT PRIMARY KEY, name TEXT NOT NULL, slug TEXT NOT NULL, file_name TEXT NOT NULL,
    declared INTEGER NOT NULL, at REAL NOT NULL, received INTEGER NOT NULL DEFAULT 0, used INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS submissions (
    ref INTEGER PRIMARY KEY AUTOINCREMENT, slug TEXT NOT NULL, edition TEXT NOT NULL, name TEXT NOT NULL,
    file_name TEXT NOT NULL, description TEXT NOT NULL, size INTEGER NOT NULL, upload TEXT NOT NULL,
    at REAL NOT NULL, claimed REAL NOT NULL, status TEXT NOT NULL,
    public REAL, private REAL, error TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS submissions_by_slug ON submissions (slug, edition, name);
"""


@dataclass(frozen=True)
class Submission:
    """One submission as stored; `status` is PENDING, COMPLETE or ERROR, `at` and `claimed` are Unix times."""

    ref: int
    slug: str
    edition: str
    name: str
    file_name: str
    description: str
    size: int
    upload: str
    at: float
    claimed: float
    status: str
    public: float | None
    private: float | None
    error: str


@dataclass(frozen=True)
class Upload:
    """One upload slot: who may fill it, with what, and whether that has happened."""

    key: str
    name: str
    slug: str
    file_name: str
    declared: int
    at: float
    received: int
    used: int


class UploadUnknownError(Exception):
    """No such upload of this participant for this competition, not complete, or used already."""


class LimitReachedError(Exception):
    """The daily allowance is used up."""


class Store:
    """The arena's memory in `folder`; see the module's text.

    Raises:
        MissingError: The file is of a newer version of this program, or cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "arena.sqlite"
        try:
            with self._transaction() as db:
                version = db.execute("PRAGMA user_version").fetchone()["user_version"]
                if version > SCHEMA_VERSION:
                    raise MissingError(
                        f"{self._path} was written by a newer version of this program.",
                        hint="Update the program, or choose another folder for the arena's state.",
                    )
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except sqlite3.Error as error:
            raise MissingError(
                f"The arena's memory {self._path} cannot be opened: {error}.",
                hint="Make its folder writable; if the file is damaged, move it away (its scores are lost then).",
            ) from None

    def team(self, name: str) -> int:
        """The number of a participant's team, made on first use."""
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO teams (name) VALUES (?)", (name,))
            return int(db.execute("SELECT id FROM teams WHERE name = ?", (name,)).fetchone()["id"])

    def accept_rules(self, name: str, slug: str) -> None:
        """Remember that a participant accepts a competition's rules."""
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO rules (name, slug, at) VALUES (?, ?, ?)", (name, slug, time.time()))

    def rules_accepted(self, name: str, slug: str) -> bool:
        """Whether that has happened."""
        with self._transaction() as db:
            return db.execute("SELECT 1 FROM rules WHERE name = ? AND slug = ?", (name, slug)).fetchone() is not None

    def open_upload(self, upload: Upload, *, most_open: int) -> bool:
        """Make an upload slot; False when the participant has `most_open` unused ones already."""
        with self._transaction() as db:
            held = db.execute("SELECT key FROM uploads WHERE name = ? AND used = 0", (upload.name,)).fetchall()
            if len(held) >= most_open:
                return False
            db.execute(
                "INSERT INTO uploads (key, name, slug, file_name, declared, at) VALUES (?, ?, ?, ?, ?, ?)",
                (upload.key, upload.name, upload.slug, upload.file_name, upload.declared, upload.at),
            )
            return True

    def upload(self, key: str) -> Upload | None:
        """The upload slot of that key."""
        with self._transaction() as db:
            row = db.execute("SELECT * FROM uploads WHERE key = ?", (key,)).fetchone()
            return Upload(**row) if row else None

    def received(self, key: str) -> None:
        """Remember that an upload's bytes have all arrived."""
        with self._transaction() as db:
            db.execute("UPDATE uploads SET received = 1 WHERE key = ?", (key,))

    def drop_uploads(self, before: float) -> list[str]:
        """Forget unused upload slots older than `before` (Unix time); returns their keys."""
        with self._transaction() as db:
            rows = db.execute("DELETE FROM uploads WHERE used = 0 AND at < ? RETURNING key", (before,)).fetchall()
            return [row["key"] for row in rows]

    def create_submission(self, *, key: str, name: str, slug: str, edition: str, description: str, limit: int) -> int:
        """Turn an upload into a pending submission, within the day's allowance.

        Args:
            key: The upload's key.
            name: The participant.
            slug: The competition.
            edition: Edition of its solution.
            description: The participant's words.
            limit: Submissions a day (UTC) that may be pending or scored.

        Returns:
            The new submission's number.

        Raises:
            UploadUnknownError: No such upload of this participant and competition, or used before.
            LimitReachedError: The allowance is used up; the upload stays usable.
        """
        now = time.time()
        with self._transaction() as db:
            row = db.execute(
                "SELECT * FROM uploads WHERE key = ? AND name = ? AND slug = ? AND received = 1 AND used = 0",
                (key, name, slug),
            ).fetchone()
            if row is None:
                raise UploadUnknownError
            if _count(db, slug, edition, name, since=now - now % DAY_S) >= limit:
                raise LimitReachedError
            db.execute("UPDATE uploads SET used = 1 WHERE key = ?", (key,))
            cursor = db.execute(
                "INSERT INTO submissions (slug, edition, name, file_name, description, size, upload, at, claimed,"
                " status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'PENDING')",
                (slug, edition, name, row["file_name"], description, row["declared"], key, now, now),
            )
            return int(cursor.lastrowid or 0)

    def finish(self, ref: int, *, public: float | None, private: float | None, error: str) -> None:
        """Store a submission's scores, or the error that kept it from having any."""
        with self._transaction() as db:
            db.execute(
                "UPDATE submissions SET status = ?, public = ?, private = ?, error = ? WHERE ref = ?",
                ("ERROR" if error else "COMPLETE", public, private, error, ref),
            )

    def claim_stale(self, older_s: float) -> list[Submission]:
        """Pending submissions that nobody has worked on for `older_s` seconds, now claimed by the caller."""
        now = time.time()
        with self._transaction() as db:
            rows = db.execute(
                "UPDATE submissions SET claimed = ? WHERE status = 'PENDING' AND claimed < ? RETURNING *",
                (now, now - older_s),
            ).fetchall()
            return [Submission(**row) for row in rows]

    def submission(self, ref: int) -> Submission | None:
        """One submission."""
        with self._transaction() as db:
            row = db.execute("SELECT * FROM submissions WHERE ref = ?", (ref,)).fetchone()
            return Submission(**row) if row else None

    def submissions(self, slug: str, edition: str, name: str | None = None) -> list[Submission]:
        """A competition's submissions, newest first; of one participant when `name` is given."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT * FROM submissions WHERE slug = ? AND edition = ? AND (? IS NULL OR name = ?)"
                " ORDER BY ref DESC",
                (slug, edition, name, name),
            ).fetchall()
            return [Submission(**row) for row in rows]

    def count(self, slug: str, edition: str, name: str, *, since: float = 0, failed: bool = False) -> int:
        """How many submissions counted (or, `failed`, ended in an error) since a Unix time."""
        with self._transaction() as db:
            return _count(db, slug, edition, name, since=since, failed=failed)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        try:
            db.row_factory = _as_dict
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        finally:
            # An open transaction is rolled back by closing.
            db.close()


def _count(db: sqlite3.Connection, slug: str, edition: str, name: str, *, since: float, failed: bool = False) -> int:
    row = db.execute(
        "SELECT COUNT(*) AS number FROM submissions"
        " WHERE slug = ? AND edition = ? AND name = ? AND at >= ? AND (status = 'ERROR') = ?",
        (slug, edition, name, since, failed),
    ).fetchone()
    return int(row["number"])


def _as_dict(cursor: sqlite3.Cursor, row: tuple[object, ...]) -> dict[str, object]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}
