"""Run records: one folder and one JSON document per run, complete without any database.

`OUTPUT_DIR/runs/<id>/record.json`, schema 2:

    schema       2; schema 1 is still read, and becomes 2 with the next write
    uid          32 hexadecimal digits: the run on every machine and in MongoDB, whatever its name there
    id           the run's name: its start (UTC) and first stage, or RUN_ID; always its folder's name
    revision     grows by one with each write; of two copies the higher one is the newer
    status       that of the last step: running, paused, done or failed. A reader adds "died": it says
                 running, but its process is gone
    competition  slug                       source    practice or kaggle
    created, updated                        times in UTC, ISO 8601
    parent       the run it was started by (a search, a resume); else null
    metric       what is scored, such as "accuracy"
    cv           {metric, score, method, rows, folds, model} from data held back, else null; folds: each one's score, or
                 null; model: which one it is, when several were compared
    lb           {public, private, rank, entries} as the server scored it, else null
    submission   {ref, file, sha256, message, sent}, else null
    checkpoint   the newest: {epoch, step, file, sha256, written, best}, else null
    history      one entry per epoch: {epoch, seconds, loss, accuracy, val_loss, ...}
    data         per file of the competition: {size, sha256}
    pictures     [{name, file, text}], files relative to the run's folder
    steps        one entry per execution of a stage:
                 stage, status, place, started, ended, wall_s, cpu_s, peak_memory_bytes,
                 peak_gpu_memory_bytes, mean_gpu_utilisation (percent), seed, parameters, device, versions,
                 git {commit, dirty}, image {image, tag, digest, commit, inside}, process,
                 error {kind, message, hint, exit_code}

Numbers that are not finite are null. No absolute path and no secret's value is ever written:
what `hide` holds is replaced in every text, and other machines' folders are cut from paths.
"""

from __future__ import annotations

from kaggle_workbench.records.document import (
    RECORD_FILE,
    SCHEMA,
    STATUSES,
    now,
    parse,
    trained_at,
    uid_of,
)
from kaggle_workbench.records.heartbeat import HEARTBEAT_FILE, HEARTBEAT_S, SILENT_S, true_status
from kaggle_workbench.records.listing import each_run, list_runs
from kaggle_workbench.records.recorded import NOT_RECORDED, parameters
from kaggle_workbench.records.run import Run, listeners
from kaggle_workbench.records.shape import SHAPE, STEP_SHAPE
from kaggle_workbench.records.step import Step

__all__ = [
    "HEARTBEAT_FILE",
    "HEARTBEAT_S",
    "NOT_RECORDED",
    "RECORD_FILE",
    "SCHEMA",
    "SHAPE",
    "SILENT_S",
    "STATUSES",
    "STEP_SHAPE",
    "Run",
    "Step",
    "each_run",
    "list_runs",
    "listeners",
    "now",
    "parameters",
    "parse",
    "trained_at",
    "true_status",
    "uid_of",
]
