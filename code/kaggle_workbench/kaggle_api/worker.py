"""The client's own process: the only place where `kaggle` is imported.

Requests come as JSON lines on stdin, answers go as JSON lines to what was stdout; whatever the client
prints goes elsewhere. The process ends with its parent: when stdin closes, or when it is orphaned.
Run as `python -m kaggle_workbench.kaggle_api.worker`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import queue
import re
import sys
import threading
import time
from typing import Any, TextIO

PAGE_SIZE = 200
OUTPUT_RETRIES = 3
# The client writes whole blocks only, and what a broken connection leaves of a block is lost.
BLOCK_BYTES = 1 << 16


def main() -> None:
    """Answer requests until the parent is gone."""
    questions, answers = _take_pipes()
    waiting: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(questions, waiting), daemon=True).start()
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    calls = _Calls()
    while True:
        request = waiting.get()
        said = io.StringIO()
        answer: dict[str, Any]
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                answer = {"ok": getattr(calls, request["call"])(**request["args"])}
        except (Exception, SystemExit) as error:  # whatever the client does, the parent gets an answer
            answer = {"fault": describe(error, calls.last)}
        answer |= {"id": request["id"], "said": said.getvalue()[-2000:]}
        answers.write(json.dumps(answer, default=str) + "\n")
        answers.flush()


class _Calls:
    """One method for each call, named as on the wire; arguments and answers are plain JSON."""

    def __init__(self) -> None:
        self._api: Any = None
        self._path = ""
        self.last: Any = None
        self._lines: dict[str, queue.SimpleQueue[str]] = {}

    def open(self) -> None:
        """Import the client and log in; done once, and again only after a failure."""
        if self._api is not None:
            return
        if "kaggle" not in sys.modules:
            self._remember_answers()
        import kaggle  # logs in on its own, and hides the reason when that fails
        from kaggle.api.kaggle_api_extended import KaggleApi

        calls = self

        class Api(KaggleApi):  # type: ignore[misc]
            retries = 0

            def download_needed(self, response: Any, outfile: str, quiet: bool = True) -> bool:  # noqa: FBT001, FBT002
                calls._path = outfile
                return bool(super().download_needed(response, outfile, quiet))

            def download_file(self, *args: Any, **kwargs: Any) -> None:
                super().download_file(*args, **kwargs, chunk_size=BLOCK_BYTES, max_retries=self.retries)

        api = Api()
        if kaggle.api._authenticated:
            api.config_values = kaggle.api.config_values
        else:
            api.authenticate()
        self._api = api

    def _remember_answers(self) -> None:
        """Keep the last HTTP answer: the client loses its status when the body is not the JSON it claims to be."""
        import requests

        send = requests.Session.send

        def remembered(*args: Any, **kwargs: Any) -> Any:
            self.last = None
            self.last = send(*args, **kwargs)
            return self.last

        requests.Session.send = remembered  # type: ignore[method-assign]

    def get_competition(self, slug: str) -> Any:
        from kagglesdk.competitions.types.competition_api_service import ApiGetCompetitionRequest

        request = ApiGetCompetitionRequest()
        request.competition_name = slug
        with self._api.build_kaggle_client() as kaggle:
            return kaggle.competitions.competition_api_client.get_competition(request).to_dict()

    def list_competitions(self, search: str) -> Any:
        return self._api.competitions_list(search=search).to_dict()

    def list_files(self, slug: str, page: str) -> Any:
        return self._api.competition_list_files(slug, page_token=page, page_size=PAGE_SIZE).to_dict()

    def download_archive(self, slug: str, folder: str, retries: int) -> str:
        self._api.retries = retries
        self._api.competition_download_files(slug, path=folder, force=False, quiet=True)
        return self._path

    def download_file(self, slug: str, name: str, folder: str, retries: int) -> str:
        self._api.retries = retries
        self._api.competition_download_file(slug, name, path=folder, force=False, quiet=True)
        return self._path

    def submit(self, slug: str, file: str, message: str) -> Any:
        answer = self._api.competition_submit(file, message, slug, quiet=True)
        return answer.to_dict() | {"uploaded": answer.message != self._api.COMPETITION_SUBMIT_UPLOAD_FAILED_MESSAGE}

    def get_submission(self, ref: int) -> Any:
        # Not the client's own method: it waits as long as a 429 says, without a limit.
        from kagglesdk.competitions.types.competition_api_service import ApiGetSubmissionRequest

        request = ApiGetSubmissionRequest()
        request.ref = ref
        with self._api.build_kaggle_client() as kaggle:
            return kaggle.competitions.competition_api_client.get_submission(request).to_dict()

    def list_submissions(self, slug: str, page: str) -> Any:
        # The client's own method drops the token of the next page.
        from kagglesdk.competitions.types.competition_api_service import ApiListSubmissionsRequest

        request = ApiListSubmissionsRequest()
        request.competition_name, request.page_token, request.page_size = slug, page, PAGE_SIZE
        with self._api.build_kaggle_client() as kaggle:
            return kaggle.competitions.competition_api_client.list_submissions(request).to_dict()

    def get_limits(self, slug: str) -> Any:
        return self._api.competition_get_submission_limits(slug).to_dict()

    def get_leaderboard(self, slug: str, page: str) -> Any:
        # As above: the client's own method prints the token of the next page instead of returning it.
        from kagglesdk.competitions.types.competition_api_service import ApiGetLeaderboardRequest

        request = ApiGetLeaderboardRequest()
        request.competition_name, request.page_token, request.page_size = slug, page, PAGE_SIZE
        with self._api.build_kaggle_client() as kaggle:
            return kaggle.competitions.competition_api_client.get_leaderboard(request).to_dict()

    def whoami(self) -> str:
        return str(self._api.config_values.get(self._api.CONFIG_NAME_USER) or "")

    def save_kernel(self, folder: str, session_s: int | None) -> Any:
        return self._api.kernels_push(folder, timeout=session_s).to_dict()

    def kernel_status(self, kernel: str) -> Any:
        return self._api.kernels_status(kernel).to_dict()

    def kernel_output(self, kernel: str, folder: str) -> list[str]:
        self._api.retries = OUTPUT_RETRIES
        return list(self._api.kernels_output(kernel, folder, force=True, quiet=True, page_size=PAGE_SIZE)[0])

    def kernel_log(self, kernel: str) -> str:
        return str(self._api.kernels_logs(kernel))

    def kernel_lines(self, kernel: str) -> list[str]:
        """Lines of a running session that were not given yet; a thread of its own reads them."""
        if kernel not in self._lines:
            self._lines[kernel] = queue.SimpleQueue()
            threading.Thread(target=self._follow, args=(kernel, self._lines[kernel]), daemon=True).start()
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._lines[kernel].get_nowait())
        return found

    def _follow(self, kernel: str, lines: queue.SimpleQueue[str]) -> None:
        # A log that cannot be followed is read at the end; a session is not lost by it.
        with contextlib.suppress(Exception):
            for event in self._api.kernels_logs_stream(kernel):
                lines.put(str(event.get("data", "")))

    def delete_kernel(self, kernel: str) -> None:
        self._api.kernels_delete(kernel, no_confirm=True)

    def my_kernels(self) -> list[Any]:
        return [
            one.to_dict() for one in self._api.kernels_list(mine=True, sort_by="dateRun", page_size=20) or [] if one
        ]

    def get_quota(self) -> Any:
        answer = self._api.quota_view()
        # The client's own to_dict() loses the days of a time span: 30 hours become 6.
        return {
            f"{kind}_{name}_s": span.total_seconds()
            for kind in ("gpu", "tpu")
            for name, field in (("used", "time_used"), ("total", "total_time_allowed"))
            if (span := getattr(getattr(answer, f"{kind}_quota"), field, None)) is not None
        } | {"refreshed": str(answer.quota_refresh_time or "")}

    def dataset_status(self, dataset: str) -> str:
        return str(self._api.dataset_status(dataset))

    def create_dataset(self, folder: str, notes: str) -> Any:
        return self._api.dataset_create_new(folder, public=False, quiet=True, convert_to_csv=False).to_dict()

    def version_dataset(self, folder: str, notes: str) -> Any:
        return self._api.dataset_create_version(folder, notes, quiet=True, convert_to_csv=False).to_dict()

    def submit_kernel(self, slug: str, kernel: str, version: int, file: str, message: str) -> Any:
        return self._api.competition_submit_code(file, message, slug, kernel, version, quiet=True).to_dict()


def describe(error: BaseException, last: Any = None) -> dict[str, Any]:
    """What went wrong, as plain JSON: `kind`, `reason` and what the kind needs besides.

    Args:
        error: What the client raised.
        last: The last HTTP answer, if any.
    """
    if isinstance(error, SystemExit):
        return {"kind": "login", "reason": ""}
    if isinstance(error, ModuleNotFoundError):
        return {"kind": "install", "reason": error.name or str(error)}
    reason = f"{type(error).__name__}: {error}"
    try:
        import requests
        import urllib3
    except ImportError:
        return {"kind": "other", "reason": reason}
    if isinstance(error, ValueError) and isinstance(error.__context__, requests.exceptions.HTTPError):
        # For kernels the client puts its own guess in the place of the server's reason.
        error = error.__context__
    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return _describe_http(error.response, str(error))
    if isinstance(error, requests.exceptions.JSONDecodeError | json.JSONDecodeError):
        if last is not None and last.status_code >= 400:
            return _describe_http(last, last.reason or "")
        return {"kind": "garbled", "reason": "the answer is not JSON", "step": _step(getattr(last, "request", None))}
    if isinstance(error, requests.exceptions.RequestException | urllib3.exceptions.HTTPError):
        kinds = ((requests.exceptions.SSLError, "certificate"), (requests.exceptions.ProxyError, "proxy"))
        kind = next((name for type_, name in kinds if isinstance(error, type_)), "network")
        return {"kind": kind, "reason": str(error), "step": _step(getattr(error, "request", None))}
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        return {"kind": "disk", "reason": error.strerror or "", "errno": error.errno, "path": error.filename}
    if isinstance(error, OSError):
        return {"kind": "network", "reason": reason}
    return {"kind": "other", "reason": reason}


def _describe_http(response: Any, text: str) -> dict[str, Any]:
    """The server's own reason stands in the body, which the client does not show."""
    status = response.status_code
    if status == 200:
        # Answers in the old shape carry their code in the body.
        status = _body_code(response) or status
    return {
        "kind": "http",
        "status": status,
        "reason": _body_reason(response) or text,
        "codes": _body_codes(response),
        "step": _step(response.request),
        "storage": "/v1/" not in (response.request.url or ""),
        "retry_after": response.headers.get("Retry-After"),
    }


def _step(request: Any) -> str:
    """The server's method that a request asked for: the last part of its address."""
    return (getattr(request, "url", None) or "").split("?")[0].rsplit("/", 1)[-1]


def _body(response: Any) -> dict[str, Any]:
    try:
        document = response.json()
    except Exception:  # an HTML page, an empty body, a stream already closed
        return {}
    return document if isinstance(document, dict) else {}


def _body_code(response: Any) -> int | None:
    code = _body(response).get("code")
    return code if isinstance(code, int) else None


def _body_reason(response: Any) -> str:
    document = _body(response)
    inner = document.get("error")
    for holder in (inner, document):
        if isinstance(holder, dict) and isinstance(holder.get("message"), str):
            return str(holder["message"]).strip()
    if isinstance(inner, str):
        return inner.strip()
    if "html" in response.headers.get("Content-Type", ""):
        return _page_title(response)
    return ""


def _body_codes(response: Any) -> list[str]:
    """The machine-readable reasons in the answer, such as RulesAcceptanceRequired."""
    inner = _body(response).get("error")
    details = inner.get("details") if isinstance(inner, dict) else None
    return [str(each.get("reason", "")) for each in details or [] if isinstance(each, dict)]


def _page_title(response: Any) -> str:
    try:
        found = re.search(r"<title[^>]*>(.*?)</title>", response.text[:20000], re.IGNORECASE | re.DOTALL)
    except Exception:  # the body may be gone
        return ""
    return " ".join(found.group(1).split())[:200] if found else ""


def _take_pipes() -> tuple[TextIO, TextIO]:
    """Keep stdin and stdout for ourselves and give the client others, at the level of file descriptors too."""
    questions = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return questions, answers


def _read(questions: TextIO, waiting: queue.Queue[dict[str, Any]]) -> None:
    for line in questions:
        waiting.put(json.loads(line))
    os._exit(0)


def _watch_parent(parent: int) -> None:
    # A process forked by the parent may hold our pipe open after the parent's death.
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main()
