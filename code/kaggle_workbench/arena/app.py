"""The arena as a WSGI application: guards, the API's dispatch, and the service's shape of errors."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from kaggle_workbench.arena import (
    competition_calls,
    guard,
    leaderboard_calls,
    page_routes,
    storage_routes,
    submission_calls,
)
from kaggle_workbench.arena.answers import ApiError, text, wire
from kaggle_workbench.arena.context import Call, Context
from kaggle_workbench.errors import WorkbenchError

Handler = Callable[[Call], dict[str, Any] | Response]

# One entry a service; a new service of the API is a new module with METHODS.
SERVICES: Mapping[str, Mapping[str, Handler]] = {
    "competitions.CompetitionApiService": {
        **competition_calls.METHODS,
        **submission_calls.METHODS,
        **leaderboard_calls.METHODS,
    },
}
SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
log = logging.getLogger(__name__)


def create_app(context: Context) -> Flask:
    """The application that serves what `context` holds."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_FORM_MEMORY_SIZE"] = guard.MAX_RPC_BYTES

    @app.before_request
    def refuse_odd() -> None:
        guard.check_target(str(request.environ.get("REQUEST_URI", request.path)))
        g.base = guard.base_address(context, request.environ)
        if request.method != "PUT":
            request.max_content_length = guard.MAX_RPC_BYTES

    @app.after_request
    def add_headers(answer: Response) -> Response:
        for name, value in SAFE_HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    @app.post("/api/v1/security.OAuthService/IntrospectToken")
    def introspect() -> Response:
        # Asked without a login, and never answered with 401: the client does not expect that here.
        who = context.tokens.owner(text(_body(), "token"))
        return _json(wire(active=True, username=who, user_id=context.store.team(who)) if who else {})

    @app.post("/api/v1/<service>/<method>")
    def api(service: str, method: str) -> Response:
        who = context.tokens.authenticate(request.headers.get("Authorization"))
        handler = SERVICES.get(service, {}).get(method)
        if handler is None:
            raise ApiError(404, f"This arena has no method {service}/{method}.")
        answer = handler(Call(context, who, _body(), g.base))
        return answer if isinstance(answer, Response) else _json(answer)

    app.register_blueprint(storage_routes.routes(context))
    app.register_blueprint(page_routes.routes(context))
    app.register_error_handler(ApiError, lambda error: _json(error.body, error.code, error.headers))
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unexpected)
    return app


def _body() -> dict[str, Any]:
    data = request.get_data(cache=False)
    try:
        body = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        raise ApiError(400, "The request is not JSON.") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The request must be a JSON object.")
    return body


def _json(body: Mapping[str, Any], code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(body), code, dict(headers or {}), mimetype="application/json")


def _http_error(error: HTTPException) -> Response:
    code = error.code or 500
    kept = {name: value for name, value in error.get_headers() if name in ("Allow", "Content-Range", "Location")}
    if code < 400:
        return Response(status=code, headers=kept)
    words = {404: "Not found", 413: "The request is too large.", 416: "The requested range is outside the file."}
    return _json(ApiError(code, words.get(code, error.name)).body, code, kept)


def _unexpected(error: Exception) -> Response:
    if isinstance(error, WorkbenchError):
        log.error("%s", error)
        return _json(ApiError(500, error.message).body, 500)
    log.exception("The arena failed to answer %s %s.", request.method, request.path)
    return _json(ApiError(500, "The arena failed to answer; its log says why.").body, 500)
