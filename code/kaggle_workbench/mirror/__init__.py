"""Run records in MongoDB: a copy of each record, one document per run, that MongoDB Compass shows well.

With `MONGODB_URI` set, `start` sends each record that is written from then on, from a thread of its own; `finish`
waits a bounded time for what is still under way. `sync` merges both ways, `list_runs` and `find_run` read. The file in
the run's folder is the record; no trouble with a server ever stops or slows a run.

A document: `_id` the record's uid, dates as dates, numbers as 64 bit integers and doubles, `data` as a list; besides
the record's own fields `epochs` (their number), `digest` (of the record), `seen` (when the run was last heard of) and,
where the record was too long for MongoDB, `cut` (what was left out).
"""

from __future__ import annotations

from kaggle_workbench.mirror.outbox import finish, start
from kaggle_workbench.mirror.reading import find_run, list_runs
from kaggle_workbench.mirror.sync import SyncResult, sync

__all__ = ["SyncResult", "find_run", "finish", "list_runs", "start", "sync"]
