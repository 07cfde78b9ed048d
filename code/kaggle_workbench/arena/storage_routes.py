"""Storage: the addresses that downloads are redirected to and uploads are sent to. No token, a signature."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from flask import Blueprint, Response, request, send_file

from kaggle_workbench.arena import downloads
from kaggle_workbench.arena.answers import ApiError
from kaggle_workbench.arena.context import Context
from kaggle_workbench.arena.submission_calls import upload_file
from kaggle_workbench.files import disk_errors

CHUNK_BYTES = 1 << 20


def routes(context: Context) -> Blueprint:
    """The storage routes."""
    blueprint = Blueprint("storage", __name__)

    @blueprint.before_request
    def check_signature() -> None:
        method = "GET" if request.method == "HEAD" else request.method
        context.signer.check(method, request.path, request.args.get("Expires", ""), request.args.get("Signature", ""))

    @blueprint.get("/storage/competitions/<slug>/all/<name>")
    def whole(slug: str, name: str) -> Response:
        competition = context.hosting.find(slug)
        if competition is None or name != f"{slug}.zip":
            raise ApiError(404, "Not found")
        return _deliver(downloads.archive(competition))

    @blueprint.get("/storage/competitions/<slug>/files/<path:name>")
    def one(slug: str, name: str) -> Response:
        competition = context.hosting.find(slug)
        files = competition.files if competition is not None else ()
        for file in files:
            if competition is not None and downloads.delivered_name(competition, file) == name:
                return _deliver(downloads.single(competition, file, context.state))
        raise ApiError(404, "Not found")

    @blueprint.get("/storage/submissions/<int:ref>/<name>")
    def sent(ref: int, name: str) -> Response:
        submission = context.store.submission(ref)
        if submission is None or submission.file_name != name:
            raise ApiError(404, "Not found")
        path = upload_file(context, submission.upload)
        if not path.is_file():
            raise ApiError(404, "Not found")
        return _deliver(downloads.Stored(path, name, datetime.fromtimestamp(submission.at, UTC)))

    @blueprint.put("/storage/uploads/<key>")
    def receive(key: str) -> tuple[str, int]:
        slot = context.store.upload(key)
        if slot is None or slot.used:
            raise ApiError(404, "Not found")
        _receive(context, key, slot.declared)
        context.store.received(key)
        return "", 201

    return blueprint


def _deliver(stored: downloads.Stored) -> Response:
    answer = send_file(
        stored.path,
        mimetype="application/octet-stream",
        as_attachment=True,
        download_name=stored.name,
        conditional=True,
        etag=stored.etag,
        last_modified=stored.modified,
        max_age=0,
    )
    answer.headers["x-goog-hash"] = stored.google_hash
    answer.headers["Accept-Ranges"] = "bytes"
    return answer


def _receive(context: Context, key: str, declared: int) -> None:
    path = upload_file(context, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{key}.{secrets.token_hex(4)}")
    size = 0
    try:
        with disk_errors(path), part.open("wb") as file:
            while chunk := request.stream.read(CHUNK_BYTES):
                size += len(chunk)
                if size > declared:
                    raise ApiError(413, f"More bytes than the {declared:,} announced.")
                file.write(chunk)
        if size < declared:
            raise ApiError(400, f"Only {size:,} of the {declared:,} bytes announced.")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
