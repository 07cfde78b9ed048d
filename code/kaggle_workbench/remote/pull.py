"""`kwb pull`: wait for a pushed run, bring what it left, verify it, and join it with the run here."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.competition.connect import connect
from kaggle_workbench.errors import WorkError
from kaggle_workbench.kaggle_api import Client, KaggleError, kernels
from kaggle_workbench.masking import hidden
from kaggle_workbench.records import RECORD_FILE, Run
from kaggle_workbench.remote.join import join, verified
from kaggle_workbench.remote.ledger import Pushes, saved
from kaggle_workbench.settings import Settings, load_settings
from kaggle_workbench.stages import stored

FIRST_POLL_S = 5.0
MOST_POLL_S = 60.0
WAIT_HOURS = 14.0
# What a failed session printed last.
LOG_LINES = 15


def pull(run: str, *, wait_hours: float = WAIT_HOURS, poll_s: float = FIRST_POLL_S) -> Run:
    """Bring a pushed run back.

    Args:
        run: Its name, or an unambiguous beginning of it.
        wait_hours: How long to wait for its session, in hours.
        poll_s: First wait between two looks; each next one is longer, up to a minute.

    Returns:
        The run, with one record over all places.

    Raises:
        UsageError: It was never pushed.
        WorkError: It still runs; or its session left no whole result.
        KaggleError: The service refused or failed.
    """
    settings = load_settings({"SOURCE": "kaggle"})
    run_id = _locate(settings, run)
    folder = settings.output_dir / "runs" / run_id
    pushes = Pushes(folder)
    entry = pushes.newest(run_id)
    kernel = saved(entry)
    with connect(settings) as source:
        status = _wait(source.client, kernel, run_id, wait_s=wait_hours * 3600, poll_s=poll_s)
        with tempfile.TemporaryDirectory(prefix="kwb-") as work:
            fetched = _fetch(source.client, kernel, Path(work))
            log = _log(source.client, kernel, Path(work))
            try:
                result = verified(Path(work), run_id, kernel.url) if fetched else None
                if result is None:
                    raise _nothing(run_id, status, log, kernel.url, goes_on=(folder / RECORD_FILE).is_file())
            except WorkError as error:
                pushes.update(entry["number"], status="failed", error=error.message)
                raise
            join(settings, Path(work), run_id)
    pushes.update(entry["number"], status="pulled", ended=result["status"])
    joined = Run(folder, hide=hidden(settings))
    _say(run_id, result["status"], joined.read(), kernel.url)
    return joined


def _locate(settings: Settings, text: str) -> str:
    runs = settings.output_dir / "runs"
    found = [path.parent.name for path in runs.glob(f"{text}*/pushes.json")]
    if text in found or len(found) == 1:
        return text if text in found else found[0]
    return stored.locate(settings, text)


def _wait(client: Client, kernel: kernels.Saved, run: str, *, wait_s: float, poll_s: float) -> kernels.KernelStatus:
    ends, before = time.monotonic() + wait_s, ""
    while True:
        now = kernels.status(client, kernel)
        if now.status != before:
            show.note(f"{kernel.ref}: {now.status.lower().replace('_', ' ')}")
            before = now.status
        if now.ended:
            return now
        for line in kernels.new_lines(client, kernel):
            for part in line.splitlines():
                show.note(f"   {part.rstrip()}")
        if time.monotonic() + poll_s > ends:
            raise WorkError(
                f"Run {run} is still {now.status.lower()} on Kaggle.",
                hint=f"See {kernel.url}, and call ./kwb pull {run} again later.",
            )
        time.sleep(poll_s)
        poll_s = min(MOST_POLL_S, 1.5 * poll_s)


def _fetch(client: Client, kernel: kernels.Saved, work: Path) -> bool:
    """Fetch the files; whether there are any."""
    for last in (False, True):
        try:
            return bool(kernels.output(client, kernel, work))
        except KaggleError as error:
            # An address of a file may have expired on the way; the second listing has fresh ones.
            if last or not error.maybe_done:
                raise
    return False


def _log(client: Client, kernel: kernels.Saved, work: Path) -> str:
    for file in work.glob("*.log"):
        return kernels.as_text(file.read_text(encoding="utf-8", errors="replace"))
    try:
        return kernels.log(client, kernel)
    except KaggleError:
        return ""


def _nothing(run: str, status: kernels.KernelStatus, log: str, url: str, *, goes_on: bool) -> WorkError:
    why = f" Kaggle says: {status.message.rstrip('.')}." if status.message else ""
    last = "\n".join(line for line in log.splitlines() if line.strip()).splitlines()[-LOG_LINES:]
    hint = f"See {url}." + (f" Push again: ./kwb push train --resume {run}" if goes_on else " Push again.")
    said = "\n".join(["", "Its last words:", *(f"   {line}" for line in last)]) if last else ""
    return WorkError(
        f"The session of run {run} ended ({status.status.lower().replace('_', ' ')}) and left no result.{why}{said}",
        hint=hint,
    )


def _say(run: str, status: str, record: Mapping[str, Any], url: str) -> None:
    places = list(dict.fromkeys(step["place"] for step in record["steps"]))
    epochs = show.plural(len(record["history"]), "epoch")
    show.note(f"Run {run} is here: {status}, after {epochs}; places: {', '.join(places)}.")
    if status == "paused":
        show.note(f"It goes on with ./kwb push train --resume {run}, or here with ./kwb run train --resume {run}.")
    elif status == "done":
        show.note(f"`./kwb runs show {run}` tells it in full; ./kwb run submit --set RUN_ID={run} submits it.")
    else:
        error = (record["steps"] or [{}])[-1].get("error") or {}
        raise WorkError(
            f"The training of run {run} on Kaggle {status}: {error.get('message') or 'no reason was noted'}",
            hint=f"The executed notebook is at {url}.",
        )
