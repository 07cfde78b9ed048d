"""The shape of Kaggle's answers: JSON objects without default values, and the service's errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

Row = TypeVar("Row")

MAX_PAGE = 200
STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    413: "INVALID_ARGUMENT",
    416: "OUT_OF_RANGE",
    421: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}


class ApiError(Exception):
    """An answer of the service that refuses: HTTP status, the service's words, its status word.

    Args:
        code: HTTP status.
        message: What the service says; written to be read by a person.
        status: Google's status word; by default the usual one for `code`.
        reason: Machine-readable reason, such as "RulesAcceptanceRequired".
        metadata: Facts that go with the reason, such as the address of the rules.
        headers: Extra response headers, such as Retry-After.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        status: str = "",
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = dict(headers or {})
        error: dict[str, Any] = {
            "code": code,
            "message": message,
            "status": status or STATUS_WORDS.get(code, "UNKNOWN"),
        }
        if reason:
            error["details"] = [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": reason,
                    "domain": "kaggle.com",
                    "metadata": dict(metadata or {}),
                }
            ]
        self.body = {"error": error}


def failed_precondition(sentence: str) -> ApiError:
    """The 400 with which the service refuses a submission; two spaces, as the service writes it."""
    return ApiError(400, f"Submission not allowed:  {sentence}", status="FAILED_PRECONDITION")


def wire(**fields: Any) -> dict[str, Any]:
    """Fields in camelCase without those at their default (0, "", False, None, empty), as Kaggle sends them."""
    return {_camel(name): value for name, value in fields.items() if value not in (None, "", 0, False, [])}


def when(moment: datetime | float) -> str:
    """A time as Kaggle writes it: `2026-01-01T00:00:00.000Z`."""
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment, UTC)
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def score_text(score: float | None) -> str:
    """A score as Kaggle shows it, five decimals; "" when there is none."""
    return "" if score is None else f"{score:.5f}"


def whole(body: Mapping[str, Any], name: str, default: int = 0) -> int:
    """A whole number from a request.

    Raises:
        ApiError: It is something else (400).
    """
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**53:
        raise ApiError(400, f"Field {name!r} must be a whole number.")
    return value


def text(body: Mapping[str, Any], name: str, *, longest: int = 1000) -> str:
    """A text from a request; "" when it is left out.

    Raises:
        ApiError: It is something else, too long, or holds a null byte (400).
    """
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        raise ApiError(400, f"Field {name!r} must be a text of at most {longest} characters.")
    return value


def page(rows: Sequence[Row], body: Mapping[str, Any], default: int = 20) -> tuple[Sequence[Row], str]:
    """One page of `rows` and the token of the next one ("" after the last).

    The old way (`page`, from 1) and the new way (`pageToken`) both work.

    Raises:
        ApiError: A page token that this server did not give (400).
    """
    size = min(max(whole(body, "pageSize", default) or default, 1), MAX_PAGE)
    token = text(body, "pageToken")
    if token and not (token.isascii() and token.isdigit() and len(token) < 12):
        raise ApiError(400, "Invalid page token.")
    start = int(token) if token else max(whole(body, "page") - 1, 0) * size
    following = str(start + size) if start + size < len(rows) else ""
    return rows[start : start + size], following


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)
