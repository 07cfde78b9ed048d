"""CompetitionApiService/CreateCodeSubmission: a submission made of a kernel's output."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from kaggle_workbench.arena import submission_calls
from kaggle_workbench.arena.answers import ApiError, failed_precondition, whole
from kaggle_workbench.arena.competitions import Competition
from kaggle_workbench.arena.context import Call
from kaggle_workbench.arena.store import Upload

from .asked import Asked


class _FromNotebook(Call):
    """A submission that a code competition takes."""

    def competition(self, permission: str = "competitions.get") -> Competition:
        return replace(super().competition(permission), notebooks_only=False)


def create_code_submission(asked: Asked) -> dict[str, Any]:
    """C/CreateCodeSubmission: scores a finished version's output file.

    The service runs the notebook again on hidden files; here the file that the version left is scored.
    """
    call, body = asked.call, asked.body
    competition = call.competition("competitions.participate")
    kernel = asked.world.kernels.get(f"{asked.text('kernelOwner')}/{asked.text('kernelSlug')}")
    if kernel is None or kernel.owner != call.who:
        raise ApiError(403, "Permission 'kernelSessions.get' was denied")
    number = whole(body, "kernelVersion") or len(kernel.versions)
    version = next((each for each in kernel.versions if each.number == number), None)
    session = version.session if version else None
    if version is None or session is None:
        raise ApiError(404, "Not found")
    if session.status != "COMPLETE":
        raise failed_precondition("Your Notebook must have run successfully before it is submitted.")
    if competition.notebooks_only and version.request.get("enableInternet"):
        raise failed_precondition("Your Notebook cannot use internet access in this competition.")
    name = asked.text("fileName")
    if name not in session.outputs:
        raise failed_precondition(f"Your Notebook has no output file named {name}.")
    key = f"notebook-{asked.world.number()}"
    token = submission_calls._key(key)
    path = submission_calls.upload_file(call.context, token)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (session.working / name).read_bytes()
    path.write_bytes(data)
    slot = Upload(token, call.who, competition.slug, Path(name).name, len(data), time.time(), 0, 0)
    call.context.store.open_upload(slot, most_open=100)
    call.context.store.received(token)
    fields = {
        "competitionName": competition.slug,
        "blobFileTokens": key,
        "submissionDescription": asked.text("submissionDescription", 10_000),
    }
    return submission_calls.create_submission(_FromNotebook(call.context, call.who, fields, call.base))
