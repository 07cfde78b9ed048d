"""The stand-in as a WSGI application: counts, refuses, answers its own services, leaves the rest to the arena."""

from __future__ import annotations

import io
import json
import mimetypes
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from flask import Flask, Response, g, request, send_file
from werkzeug.exceptions import HTTPException

from kaggle_workbench.arena import guard
from kaggle_workbench.arena.answers import ApiError
from kaggle_workbench.arena.app import create_app
from kaggle_workbench.arena.context import Call, Context

from . import datasets, kernels, submissions
from .asked import Asked
from .refusals import REFUSALS, Refusal
from .state import Seen, World

SERVICES: Mapping[str, Mapping[str, Callable[[Asked], dict[str, Any] | Response]]] = {
    "kernels.KernelsApiService": kernels.METHODS,
    "datasets.DatasetApiService": datasets.METHODS,
    "blobs.BlobApiService": datasets.BLOBS,
    "competitions.CompetitionApiService": {"CreateCodeSubmission": submissions.create_code_submission},
}
# Calls that change something on Kaggle's side, or spend something.
CHANGES = (
    "SaveKernel",
    "DeleteKernel",
    "CancelKernelSession",
    "CreateDataset",
    "CreateDatasetVersion",
    "DeleteDataset",
    "StartBlobUpload",
    "PUT blob",
    "StartSubmissionUpload",
    "PUT submission",
    "CreateSubmission",
    "CreateCodeSubmission",
)
API = "/api/v1/"


class Front:
    """What waitress calls: it remembers each request, refuses what it was told to, and hands the rest on."""

    def __init__(self, world: World, context: Context) -> None:
        self._world = world
        self._arena = create_app(context)
        self._own = _own_app(world, context)
        self._lock = threading.Lock()
        self._refusals: list[list[Any]] = []

    def refuse(self, name: str, times: int | None) -> None:
        """Answer with a refusal of the table, so many times (None: always)."""
        with self._lock:
            self._refusals.append([REFUSALS[name], times])

    def clear(self) -> None:
        """Drop all refusals."""
        with self._lock:
            self._refusals.clear()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        path = str(environ.get("PATH_INFO", ""))
        name = _name(path, str(environ.get("REQUEST_METHOD", "")))
        body: Mapping[str, Any] = {}
        if path.startswith(API) and environ.get("REQUEST_METHOD") == "POST":
            data = environ["wsgi.input"].read()
            environ["wsgi.input"] = io.BytesIO(data)
            try:
                body = json.loads(data or b"{}")
            except ValueError:
                body = {}
        with self._world.lock:
            self._world.seen.append(Seen(name, body))
        refusal = self._take(name, rpc=path.startswith(API))
        if refusal is not None and not refusal.done:
            return _answer(start, *refusal.answer())
        application = self._own if _is_own(path) else self._arena
        if refusal is None:
            return application(environ, start)
        done = b"".join(application(environ, lambda *_: None))
        if refusal.merge is None:
            return _answer(start, *refusal.answer())
        return _answer(start, 200, "application/json", json.dumps({**json.loads(done), **refusal.merge}).encode())

    def _take(self, name: str, *, rpc: bool) -> Refusal | None:
        with self._lock:
            for entry in self._refusals:
                refusal, times = entry
                fits = name in refusal.calls or ("*" in refusal.calls and rpc and name != "IntrospectToken")
                if fits and times != 0:
                    entry[1] = None if times is None else times - 1
                    return refusal
        return None


def _own_app(world: World, context: Context) -> Flask:
    app = Flask(__name__, static_folder=None)

    @app.before_request
    def refuse_odd() -> None:
        guard.check_target(str(request.environ.get("REQUEST_URI", request.path)))
        g.base = guard.base_address(context, request.environ)
        if request.path.startswith("/machines/"):
            given = (request.args.get("Expires", ""), request.args.get("Signature", ""))
            context.signer.check("GET" if request.method == "HEAD" else request.method, request.path, *given)

    def asked(body: Mapping[str, Any]) -> Asked:
        who = context.tokens.authenticate(request.headers.get("Authorization"))
        return Asked(Call(context, who, body, g.base), world)

    @app.post("/api/v1/<service>/<method>")
    def api(service: str, method: str) -> Response:
        handler = SERVICES.get(service, {}).get(method)
        question = asked(request.get_json(force=True, silent=True) or {})
        if handler is None:
            raise ApiError(404, f"The stand-in has no method {service}/{method}.")
        answer = handler(question)
        return answer if isinstance(answer, Response) else _json(answer)

    @app.get("/api/v1/kernels/logs/stream/<owner>/<slug>")
    def stream(owner: str, slug: str) -> Response:
        body = {"userName": owner, "kernelSlug": slug, "versionLabel": request.args.get("versionLabel", "")}
        return kernels.stream_log(asked(body))

    @app.put("/machines/blobs/<key>")
    def put(key: str) -> Response:
        return datasets.receive(world, key)

    @app.get("/machines/outputs/<int:session>/<path:name>")
    def output(session: int, name: str) -> Response:
        return _deliver(kernels.output_file(world, session, name))

    @app.get("/machines/datasets/<owner>/<slug>/<int:number>/all/<name>")
    def archive(owner: str, slug: str, number: int, name: str) -> Response:
        return _deliver(datasets.stored(world, f"{owner}/{slug}", number, ""))

    @app.get("/machines/datasets/<owner>/<slug>/<int:number>/files/<path:name>")
    def file(owner: str, slug: str, number: int, name: str) -> Response:
        return _deliver(datasets.stored(world, f"{owner}/{slug}", number, name))

    @app.errorhandler(ApiError)
    def refused(error: ApiError) -> Response:
        return _json(error.body, error.code, error.headers)

    @app.errorhandler(HTTPException)
    def wrong(error: HTTPException) -> Response:
        code = error.code or 500
        return _json(ApiError(code, error.name).body, code)

    return app


def _is_own(path: str) -> bool:
    service, _, method = path.removeprefix(API).partition("/")
    known = service in SERVICES and (method in SERVICES[service] or "competitions" not in service)
    return path.startswith(("/machines/", f"{API}kernels/")) or known


def _name(path: str, method: str) -> str:
    if path.startswith(f"{API}kernels/logs/"):
        return "log stream"
    if path.startswith(API):
        return path.rpartition("/")[2]
    kinds = {
        "/machines/blobs/": "blob",
        "/machines/outputs/": "output",
        "/machines/datasets/": "dataset",
        "/storage/uploads/": "submission",
        "/storage/": "file",
    }
    return f"{method} {next((kind for start, kind in kinds.items() if path.startswith(start)), path)}"


def _deliver(path: Path) -> Response:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    answer = send_file(path, mimetype=kind, as_attachment=True, download_name=path.name, conditional=True, max_age=0)
    answer.headers["Accept-Ranges"] = "bytes"
    return answer


def _json(body: Mapping[str, Any], code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(body), code, dict(headers or {}), mimetype="application/json")


def _answer(start: Callable[..., Any], status: int, kind: str, body: bytes) -> list[bytes]:
    start(f"{status} X", [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]
