"""Make a submission: checked first, sent once, its score read back, the budget told."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kaggle_workbench.competition import budget
from kaggle_workbench.competition.check import check_file, require_file
from kaggle_workbench.competition.connect import Source
from kaggle_workbench.competition.ledger import Entry, Ledger, content_sha256, mark, now
from kaggle_workbench.competition.report import Report
from kaggle_workbench.competition.result import Result, told
from kaggle_workbench.competition.scores import standing, wait_for_score
from kaggle_workbench.errors import RefusedError, UsageError, WorkbenchError, WorkError
from kaggle_workbench.files import human_bytes, locked
from kaggle_workbench.kaggle_api import Competition, KaggleError, Submission
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import note, plural, warn

if TYPE_CHECKING:
    from kaggle_workbench.records import Run

LONGEST_MESSAGE = 400
# A submission that was cut off while it was sent may appear in the server's list only after a moment.
LOOK_AGAIN_S = (2.0, 5.0, 10.0)
LOCK_S = 1800.0


def submit(
    settings: Settings,
    source: Source,
    file: Path,
    message: str,
    *,
    run: Run | None = None,
    dry_run: bool = False,
    wait: bool = True,
    timeout_s: float | None = None,
    sample: Path | None = None,
) -> Result:
    """Check a file and submit it, unless the same predictions were submitted before.

    Args:
        settings: Settings in force.
        source: An open connection.
        file: The submission.
        message: Its description.
        run: The run it belongs to; its record gets the submission and the scores.
        dry_run: Make every check, send nothing.
        wait: Wait for the score.
        timeout_s: Longest wait for the score; by default 10 minutes at Kaggle and 1 for practice.
            Time being up is no failure: the result is then "pending".
        sample: Sample submission; by default the one among the competition's data.

    Returns:
        The scores, the rank, the budget left.

    Raises:
        RefusedError: Faults in the file, rules not accepted, no budget, closed. Nothing was sent.
        UsageError: No message, no such file.
        WorkError: The server could not score the file.
        KaggleError: The server could not be reached or refused.
    """
    return _Job(settings, source, file, message, None if dry_run else run).do(
        dry_run=dry_run, timeout_s=(timeout_s or _patience_s(source)) if wait else 0, sample=sample
    )


def _patience_s(source: Source) -> float:
    return 600.0 if source.kind == "kaggle" else 60.0


class _Job:
    def __init__(self, settings: Settings, source: Source, file: Path, message: str, run: Run | None) -> None:
        self.settings, self.source, self.client = settings, source, source.client
        self.slug = settings.competition
        self.file = file
        self.message = _one_line(message)
        self.run = run
        self.ledger = Ledger(settings, source.kind)
        self.sha = ""

    def do(self, *, dry_run: bool, timeout_s: float, sample: Path | None) -> Result:
        require_file(self.file)
        state = self._state()
        competition: Competition | KaggleError
        try:
            competition = self.client.competition(self.slug)
        except KaggleError as error:
            # Faults of the file come first; they can be told without the server.
            competition = error
        metric = competition.metric if isinstance(competition, Competition) else self.ledger.metric
        try:
            report = check_file(self.settings, self.file, source=self.source, sample=sample, metric=metric or None)
        except WorkbenchError:
            if isinstance(competition, KaggleError):
                raise competition from None
            raise
        if not report.ok:
            raise RefusedError(str(report), hint="Nothing was sent.")
        for warning in report.warnings:
            warn("\n".join(warning.lines("")).strip())
        if isinstance(competition, KaggleError):
            raise competition
        self.sha = content_sha256(self.file)
        with locked(self.ledger.lock, what=f"the submissions to {self.slug}", timeout_s=LOCK_S):
            self.ledger.keep_metric(competition.metric)
            budget.require_entered(self.client, competition)
            earlier = self._earlier()
            if earlier is None:
                left = budget.require_left(self.client, competition)
                if dry_run:
                    return self._planned(competition, report, left)
                if self._state() != state:
                    raise RefusedError(
                        f"{self.file} changed while it was checked; nothing was sent.",
                        hint="Wait until it is written, then run this again.",
                    )
                note(budget.told(left, competition))
                made = self._send()
            else:
                made = earlier
        return self._finish(competition, made, already=earlier is not None, timeout_s=0 if dry_run else timeout_s)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            facts = self.file.stat()
        except OSError:
            return None
        return facts.st_size, facts.st_mtime_ns, facts.st_ino

    def _earlier(self) -> Submission | None:
        """The submission of the same predictions that was made before, by this machine or another one."""
        entry = self.ledger.find(self.sha)
        found = self._listed()
        if found is not None or entry is None:
            return found
        if entry.state == "sending":
            for wait_s in LOOK_AGAIN_S if self.source.kind == "kaggle" else ():
                time.sleep(wait_s * self.client.pace.backoff_s)
                if (found := self._listed()) is not None:
                    return found
            note(f"An earlier attempt to send {self.file.name} broke off and did not arrive.")
            return None
        if self.source.kind == "practice":
            note("The practice server does not know the earlier submission of this file any more.")
            return None
        note("Your list at Kaggle does not show the earlier submission of this file; what was noted here counts.")
        when = datetime.fromisoformat(entry.time)
        status: Literal["complete", "error", "pending"]
        status = entry.state if entry.state in ("complete", "error") else "pending"
        return Submission(
            entry.ref, entry.file, when, entry.message, status, entry.public, entry.private, entry.error, 0
        )

    def _listed(self) -> Submission | None:
        order = {"complete": 0, "pending": 1, "error": 2}
        rows = [row for row in self.client.submissions(self.slug) if mark(self.sha) in row.description]
        return min(rows, key=lambda row: order[row.status], default=None)

    def _send(self) -> Submission:
        run = self.run.id if self.run is not None else ""
        entry = Entry("sending", self.file.name, self.message, now(), run=run)
        # The note comes before the deed: if this process dies in between, the next one knows to look.
        self.ledger.write(self.sha, entry)
        shown = f"{self.message} (run {run})" if run else self.message
        try:
            made = self.client.submit(self.slug, self.file, f"{shown} {mark(self.sha)}")
        except KaggleError as error:
            if not error.maybe_done:
                self.ledger.forget(self.sha)
            raise
        self.ledger.write(self.sha, replace(entry, state="sent", ref=made.ref))
        note(f"Submitted {self.file.name} to {self.slug} at {self.source.label}: submission {made.ref}.")
        return made

    def _finish(self, competition: Competition, made: Submission, *, already: bool, timeout_s: float) -> Result:
        self._record(submission=self._facts(made))
        if already:
            when = f" on {made.date:%Y-%m-%d %H:%M} UTC" if made.date else ""
            note(f"These predictions were submitted before{when} (submission {made.ref}); nothing is sent again.")
        made = wait_for_score(self.client, made, timeout_s=timeout_s)
        self._note_outcome(made)
        if made.status == "error":
            raise WorkError(
                f"{self._who()} could not score submission {made.ref} ({self.file.name}): "
                f"{made.error or 'no reason given'}",
                hint="Correct the file and submit it anew; the same file is not sent a second time.",
            )
        rank = entries = left = None
        try:
            left = budget.left_today(self.client, competition)
            if made.status == "complete":
                rank, entries = standing(self.client, self.slug, made)
        except KaggleError as error:
            warn(f"The submission is made, but its rank is not known: {error.message}")
        result = Result(
            competition=self.slug,
            source=self.source.kind,
            file=self.file.name,
            sha256=self.sha,
            message=self.message,
            status="complete" if made.status == "complete" else "pending",
            ref=made.ref,
            public=made.public_score,
            private=made.private_score,
            rank=rank,
            entries=entries,
            left_today=left,
            already=already,
            url=self._url(),
        )
        if made.status == "complete":
            scores = {"public": result.public, "private": result.private, "rank": rank, "entries": entries}
            self._record(lb=scores)
        return replace(result, text=told(result))

    def _planned(self, competition: Competition, report: Report, left: int | None) -> Result:
        result = Result(
            competition=self.slug,
            source=self.source.kind,
            file=self.file.name,
            sha256=self.sha,
            message=self.message,
            status="planned",
            left_today=left,
            url=self._url(),
        )
        size = human_bytes(self.file.stat().st_size)
        text = (
            f"Dry run: nothing was sent. {self.file.name} ({plural(report.rows, 'row')}, {size}) would go to "
            f"{self.slug} at {self.source.label} as {self.message!r}.\n{budget.told(left, competition)}"
        )
        return replace(result, text=text)

    def _note_outcome(self, made: Submission) -> None:
        """Write the outcome into the ledger; other processes may do so at the same time."""
        state: Any = "sent" if made.status == "pending" else made.status
        with locked(self.ledger.lock, what=f"the submissions to {self.slug}", timeout_s=LOCK_S):
            entry = self.ledger.find(self.sha) or Entry("sent", made.file_name, self.message, now())
            self.ledger.write(
                self.sha,
                replace(
                    entry,
                    state=state,
                    ref=made.ref,
                    public=made.public_score,
                    private=made.private_score,
                    error=made.error,
                ),
            )

    def _facts(self, made: Submission) -> dict[str, Any]:
        sent = made.date.isoformat(timespec="seconds") if made.date else now()
        return {
            "ref": made.ref,
            "file": self.file.name,
            "sha256": self.sha,
            "message": self.message,
            "sent": sent,
        }

    def _record(self, **fields: Any) -> None:
        if self.run is not None:
            self.run.update(**fields)

    def _url(self) -> str:
        return budget.page(self.client, self.slug, "/submissions") if self.source.kind == "kaggle" else ""

    def _who(self) -> str:
        return self.source.label[:1].upper() + self.source.label[1:]


def _one_line(message: str) -> str:
    text = " ".join(message.split())
    if not text:
        raise UsageError("A submission needs a message.", hint='Say what is new in it: -m "wider network, 30 epochs"')
    if len(text) > LONGEST_MESSAGE:
        note(f"The message is cut to {LONGEST_MESSAGE} characters.")
    return text[:LONGEST_MESSAGE]
