"""One submission, made once: no blind second try, and no false success."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.errors import UsageError
from kaggle_workbench.kaggle_api.errors import (
    KaggleError,
    RateLimitError,
    ServerError,
    UnexpectedError,
    UnreachableError,
    UploadError,
)
from kaggle_workbench.kaggle_api.explain import duration
from kaggle_workbench.kaggle_api.types import Submission
from kaggle_workbench.show import note

if TYPE_CHECKING:
    from kaggle_workbench.kaggle_api.client import Client

# Steps before CreateSubmission: what fails there has spent nothing.
HARMLESS = ("StartSubmissionUpload", "IntrospectToken", "open")


def submit(client: Client, slug: str, file: Path, message: str) -> Submission:
    """See `Client.submit`."""
    if not file.is_file():
        raise UsageError(f"There is no file {file}.", hint="Name the submission's file.")
    before = {row.ref for row in _listed(client, slug)}
    failures, waited = 0, 0.0
    while True:
        failures += 1
        try:
            answer = _send(client, slug, file, message)
            break
        except KaggleError as error:
            if error.step not in HARMLESS and (error.maybe_done or isinstance(error, RateLimitError)):
                found = _look_back(client, slug, file, message, before)
                if found is not None:
                    return found
            if error.maybe_done and error.step not in HARMLESS:
                raise _unsettled(client, slug, error) from None
            wait_s = _wait_s(client, error, failures, waited)
            if wait_s is None:
                raise
        time.sleep(wait_s)
        waited += wait_s
    if answer["ref"]:
        return _read(client, answer["ref"], file, message)
    found = _look_back(client, slug, file, message, before)
    if found is None:
        raise UnexpectedError(
            f"{client.label} answered without a number for the submission, and it is not in your list.",
            hint=f"Look at {client.endpoint.web}/competitions/{slug}/submissions before you send it again.",
            reason=answer["message"],
            maybe_done=True,
        )
    return found


def _send(client: Client, slug: str, file: Path, message: str) -> dict[str, Any]:
    limit_s = 2 * client.pace.call_s + file.stat().st_size / client.pace.upload_bytes_per_s
    answer = client.call(
        "submit", tries=1, waits=False, limit_s=limit_s, slug=slug, file=str(file.resolve()), message=message
    )
    if not answer["uploaded"]:
        # The client returns this case as if all were well; its reason is among what it printed.
        reason = " ".join(str(answer["said"]).split())[:300]
        raise UploadError(
            f"The upload of {file.name} failed; nothing was submitted."
            + (f" The client says: {reason}" if reason else ""),
            hint="Check the network connection, then run the same command again.",
            reason=reason,
        )
    return {"ref": answer.get("ref", 0), "message": answer.get("message", "")}


def _wait_s(client: Client, error: KaggleError, failures: int, waited: float) -> float | None:
    """Seconds to wait before the next try of something that was surely not done; None: no next try."""
    pace = client.pace
    if isinstance(error, RateLimitError):
        wait_s = max(pace.backoff_s, waited if error.retry_after_s is None else error.retry_after_s)
        if waited + wait_s > pace.rate_limit_s:
            return None
        note(f"{client.label} asks for a pause (too many requests): waiting {duration(wait_s)}.")
        return wait_s
    if isinstance(error, UploadError | ServerError | UnreachableError) and failures < pace.tries:
        return pace.backoff_s * 2.0 ** (failures - 1)
    return None


def _look_back(client: Client, slug: str, file: Path, message: str, before: set[int]) -> Submission | None:
    """The submission in the server's list, if it came into being after all."""
    for wait_s in (0.0, client.pace.backoff_s, 3 * client.pace.backoff_s):
        time.sleep(wait_s)
        for row in _listed(client, slug):
            if row.ref not in before and row.file_name == file.name and row.description == message:
                return row
    return None


def _listed(client: Client, slug: str) -> Iterable[Submission]:
    try:
        return client.submissions(slug, limit=200)
    except KaggleError:
        # The call that matters will say what is wrong.
        return ()


def _read(client: Client, ref: int, file: Path, message: str) -> Submission:
    try:
        return client.submission(ref)
    except KaggleError:
        # Made a moment ago, it may not be readable yet.
        return Submission(ref, file.name, datetime.now(UTC), message, "pending", None, None, "", file.stat().st_size)


def _unsettled(client: Client, slug: str, error: KaggleError) -> KaggleError:
    error.hint = (
        "It is not certain whether the submission was made: it is not in your list of submissions yet. "
        f"Look at {client.endpoint.web}/competitions/{slug}/submissions before you send it again."
    )
    return error
