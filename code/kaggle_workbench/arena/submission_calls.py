"""CompetitionApiService, the submitting half: uploads, submissions, limits."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Response

from kaggle_workbench.arena import scoring
from kaggle_workbench.arena.answers import ApiError, failed_precondition, page, score_text, text, when, whole, wire
from kaggle_workbench.arena.competitions import Competition
from kaggle_workbench.arena.context import Call, Context
from kaggle_workbench.arena.store import DAY_S, LimitReachedError, Submission, Upload, UploadUnknownError
from kaggle_workbench.errors import WorkError

RULES_FIRST = "You cannot submit until you accept the competition rules"
MAX_OPEN_UPLOADS = 20
MAX_FAILED_PER_DAY = 200
UPLOAD_KEPT_S = 2 * 3600
STALE_S = 60


def start_upload(call: Call) -> dict[str, Any]:
    """C/StartSubmissionUpload: a slot for one file, and the address to PUT it to."""
    competition = call.competition("competitions.participate")
    call.require_rules(competition, RULES_FIRST)
    name, size = text(call.body, "fileName", longest=255), whole(call.body, "contentLength")
    if not name or not name.isprintable() or set(name) & set("/\\") or name in (".", ".."):
        raise ApiError(400, f"{name!r} is not a usable file name.")
    if size < 0 or size > competition.max_submission_bytes:
        raise ApiError(400, f"A submission may have at most {competition.max_submission_bytes:,} bytes.")
    store = call.context.store
    for key in store.drop_uploads(time.time() - UPLOAD_KEPT_S):
        upload_file(call.context, key).unlink(missing_ok=True)
    token = secrets.token_urlsafe(32)
    slot = Upload(_key(token), call.who, competition.slug, name, size, time.time(), 0, 0)
    if not store.open_upload(slot, most_open=MAX_OPEN_UPLOADS):
        raise ApiError(429, "Too many requests: uploads without a submission.", headers={"Retry-After": "600"})
    return wire(token=token, create_url=call.signed("PUT", f"/storage/uploads/{slot.key}"))


def create_submission(call: Call) -> dict[str, Any]:
    """C/CreateSubmission: takes the uploaded file within the day's allowance and scores it."""
    competition = call.competition("competitions.participate")
    call.require_rules(competition, RULES_FIRST)
    if competition.submissions_disabled or competition.over(call.now):
        raise failed_precondition("Submissions have been disabled for this competition.")
    if competition.notebooks_only:
        raise failed_precondition("This competition only accepts Submissions from Notebooks.")
    store = call.context.store
    today = call.now.timestamp() // DAY_S * DAY_S
    if store.count(competition.slug, competition.edition, call.who, since=today, failed=True) >= MAX_FAILED_PER_DAY:
        raise ApiError(429, "Too many requests: submissions that could not be scored.", headers={"Retry-After": "3600"})
    key = _key(text(call.body, "blobFileTokens"))
    try:
        ref = store.create_submission(
            key=key,
            name=call.who,
            slug=competition.slug,
            edition=competition.edition,
            description=text(call.body, "submissionDescription", longest=10_000),
            limit=competition.max_daily_submissions,
        )
    except UploadUnknownError:
        raise ApiError(400, "The uploaded file is unknown, incomplete, or was submitted before.") from None
    except LimitReachedError:
        hours = max(1, round((today + DAY_S - call.now.timestamp()) / 3600))
        raise failed_precondition(
            f"Your team has used its daily Submission allowance ({competition.max_daily_submissions}) today,"
            f" please try again tomorrow UTC ({hours} hours from now)."
        ) from None
    submission = store.submission(ref)
    if submission is not None:
        _score(call.context, competition, submission)
    return wire(message=f"Successfully submitted to {competition.title}", ref=ref)


def get_submission(call: Call) -> dict[str, Any]:
    """C/GetSubmission: one of the caller's submissions."""
    submission = own_submission(call.context, call.who, whole(call.body, "ref"))
    competition = call.context.hosting.find(submission.slug)
    if submission.status == "PENDING":
        _rescue(call.context)
        submission = own_submission(call.context, call.who, submission.ref)
    return _described(call, competition, submission)


def list_submissions(call: Call) -> dict[str, Any]:
    """C/ListSubmissions: the caller's submissions, newest first unless asked otherwise."""
    competition = call.competition()
    _rescue(call.context)
    rows = call.context.store.submissions(competition.slug, competition.edition, call.who)
    if text(call.body, "group").endswith("SUCCESSFUL"):
        rows = [each for each in rows if each.status == "COMPLETE"]
    better = -1 if competition.metric.greater_is_better else 1
    order: dict[str, Callable[[Submission], Any]] = {
        "NAME": lambda each: each.file_name,
        "PUBLIC_SCORE": lambda each: (each.public is None, better * (each.public or 0)),
        "PRIVATE_SCORE": lambda each: (each.private is None, better * (each.private or 0)),
    }
    by = text(call.body, "sortBy").removeprefix("SUBMISSION_SORT_BY_")
    if by in order and (by != "PRIVATE_SCORE" or _shows_private(call, competition)):
        rows = sorted(rows, key=order[by])
    shown, following = page(rows, call.body)
    return wire(submissions=[_described(call, competition, each) for each in shown], next_page_token=following)


def get_limits(call: Call) -> dict[str, Any]:
    """C/GetSubmissionLimits: used today, used in all, left now."""
    competition = call.competition()
    store, key = call.context.store, (competition.slug, competition.edition, call.who)
    today = store.count(*key, since=call.now.timestamp() // DAY_S * DAY_S)
    return wire(
        num_today=today,
        num_total=store.count(*key),
        num_allowed_now=max(0, competition.max_daily_submissions - today),
    )


def download_submission(call: Call) -> Response:
    """C/DownloadSubmission: redirect to the file as it was sent."""
    submission = own_submission(call.context, call.who, whole(call.body, "submissionId"))
    return call.to_storage(f"/storage/submissions/{submission.ref}/{submission.file_name}")


def own_submission(context: Context, who: str, ref: int) -> Submission:
    """A submission of that participant.

    Raises:
        ApiError: Unknown (404) or somebody else's (403).
    """
    found = context.store.submission(ref)
    if found is None:
        raise ApiError(404, "Not found")
    if found.name != who:
        raise ApiError(403, "Permission 'submissions.get' was denied")
    return found


def upload_file(context: Context, key: str) -> Path:
    """Where an upload's bytes lie; `key` is the hash of its token, so no request can choose a path."""
    return context.state / "uploads" / key


def _key(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _rescue(context: Context) -> None:
    """Score what another arena, ended in the middle, has left pending."""
    for submission in context.store.claim_stale(STALE_S):
        competition = context.hosting.find(submission.slug)
        if competition is not None and competition.edition == submission.edition:
            _score(context, competition, submission)


def _score(context: Context, competition: Competition, submission: Submission) -> None:
    file = upload_file(context, submission.upload)
    scores, error = scoring.Scores(None, None), ""
    # One at a time: scoring holds a file's whole text in memory.
    with context.scoring:
        try:
            scores = scoring.score(competition, file)
        except scoring.BadSubmissionError as fault:
            error = str(fault)
        except (WorkError, OSError) as fault:
            error = f"The arena could not score this submission: {fault}"
    context.store.finish(submission.ref, public=scores.public, private=scores.private, error=error)


def _shows_private(call: Call, competition: Competition) -> bool:
    return competition.reveal_private or competition.over(call.now)


def _described(call: Call, competition: Competition | None, submission: Submission) -> dict[str, Any]:
    private = submission.private if competition is not None and _shows_private(call, competition) else None
    return wire(
        ref=submission.ref,
        file_name=submission.file_name,
        date=when(submission.at),
        description=submission.description,
        status=submission.status,
        public_score=score_text(submission.public),
        private_score=score_text(private),
        error_description=submission.error,
        total_bytes=submission.size,
        team_name=submission.name,
        submitted_by=submission.name,
        submitted_by_ref=submission.name,
        url=f"{call.base}/competitions/{submission.slug}/submissions#{submission.ref}",
    )


METHODS: dict[str, Callable[[Call], dict[str, Any] | Response]] = {
    "StartSubmissionUpload": start_upload,
    "CreateSubmission": create_submission,
    "GetSubmission": get_submission,
    "ListSubmissions": list_submissions,
    "GetSubmissionLimits": get_limits,
    "DownloadSubmission": download_submission,
}
