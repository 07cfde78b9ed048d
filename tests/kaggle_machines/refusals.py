"""The service's refusals by name, as the protocol's tables quote them, for `Machines(refuse=...)`.

A refusal answers before anything happens, except where `done` says that the work is done all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
THROTTLED_PAGE = (
    "<!DOCTYPE html><html><head><title>429 Too Many Requests</title></head>"
    "<body><h1>Too many requests</h1><p>Please wait a while.</p></body></html>"
)


@dataclass(frozen=True)
class Refusal:
    """One refusal.

    Attributes:
        calls: The methods it answers; "*" is every call of the API but the login's check.
        status: HTTP status.
        body: JSON document, or a page's text.
        done: Do what was asked before refusing it.
        merge: Not an answer of its own: fields laid over the answer of the work done.
    """

    calls: tuple[str, ...]
    status: int = 200
    body: Any = field(default_factory=dict)
    done: bool = False
    merge: Mapping[str, Any] | None = None

    def answer(self) -> tuple[int, str, bytes]:
        """Status, content type, body."""
        if isinstance(self.body, str):
            return self.status, "text/html; charset=utf-8", self.body.encode()
        return self.status, JSON, json.dumps(self.body).encode()


def _error(code: int, message: str, status: str, **details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, **details}}


def _denied(permission: str) -> dict[str, Any]:
    return _error(403, f"Permission '{permission}' was denied", "PERMISSION_DENIED")


def _precondition(sentence: str) -> dict[str, Any]:
    return _error(400, f"Submission not allowed:  {sentence}", "FAILED_PRECONDITION")


def _push(error: str) -> dict[str, Any]:
    # As the live service sent it, with the fields that the client does not know.
    return {
        "errorNullable": error,
        "ref": "",
        "url": "",
        "versionNumber": 0,
        "hasVersionNumber": False,
        "error": error,
        "hasError": True,
        "kernelId": 0,
    }


SAVE, OUTPUT = ("SaveKernel",), ("ListKernelSessionOutput",)
DOWNLOADS = ("DownloadDataFiles", "DownloadDataFile")
SUBMITS = ("StartSubmissionUpload", "CreateSubmission")
BOTH = (*SUBMITS, "CreateCodeSubmission")
_RULES = {
    "details": [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "RulesAcceptanceRequired",
            "domain": "kaggle.com",
            "metadata": {"url": "/competitions/any/rules"},
        }
    ]
}
_DAILY = (
    "Your team has used its daily Submission allowance (5) today, please try again tomorrow UTC (7 hours from now)."
)
_MANY = _error(429, "Too many requests", "RESOURCE_EXHAUSTED")

REFUSALS: Mapping[str, Refusal] = {
    # Pushing.
    "gpu-sessions": Refusal(SAVE, body=_push("Maximum batch GPU session count of 2 reached.")),
    "tpu-sessions": Refusal(SAVE, body=_push("Maximum batch TPU session count of 1 reached.")),
    "cpu-sessions": Refusal(SAVE, body=_push("Maximum batch CPU session count of 5 reached.")),
    "gpu-quota": Refusal(SAVE, body=_push("Maximum weekly GPU quota of 30.00 hours reached.")),
    "tpu-quota": Refusal(SAVE, body=_push("Maximum weekly TPU quota of 20.00 hours reached.")),
    "slug-burnt": Refusal(SAVE, body=_push("Notebook not found")),
    "push-denied": Refusal(SAVE, 403, _denied("kernels.update")),
    "image-denied": Refusal(SAVE, 403, _denied("kernels.update")),
    "push-html": Refusal(SAVE, 200, THROTTLED_PAGE),
    "push-html-done": Refusal(SAVE, 200, THROTTLED_PAGE, done=True),
    "push-html-429": Refusal(SAVE, 429, THROTTLED_PAGE),
    "push-500-done": Refusal(SAVE, 500, _error(500, "Internal error", "INTERNAL"), done=True),
    "invalid-dataset": Refusal(SAVE, done=True, merge={"invalidDatasetSources": ["tester/missing"]}),
    "invalid-competition": Refusal(SAVE, done=True, merge={"invalidCompetitionSources": ["missing"]}),
    "invalid-kernel": Refusal(SAVE, done=True, merge={"invalidKernelSources": ["tester/missing"]}),
    "invalid-tags": Refusal(SAVE, done=True, merge={"invalidTags": ["missing"]}),
    # Following and fetching.
    "kernel-denied": Refusal(("GetKernelSessionStatus", "GetKernel", *OUTPUT), 403, _denied("kernels.get")),
    "kernel-gone": Refusal(("GetKernelSessionStatus",), 404, _error(404, "Not found", "NOT_FOUND")),
    "status-html": Refusal(("GetKernelSessionStatus",), 200, THROTTLED_PAGE),
    "delete-refused": Refusal(("DeleteKernel",), 403, _denied("kernels.delete")),
    "output-expired": Refusal(("GET output",), 403, "<Error><Code>ExpiredToken</Code></Error>"),
    "log-missing": Refusal(("log stream",), 404, _error(404, "Not found", "NOT_FOUND")),
    "quota-unknown": Refusal(("GetAcceleratorQuotaStatistics",), 500, _error(500, "Internal error", "INTERNAL")),
    # Datasets.
    "dataset-denied": Refusal(("CreateDataset", "CreateDatasetVersion"), 403, _denied("datasets.create")),
    "dataset-error": Refusal(
        ("CreateDataset", "CreateDatasetVersion"), body={"status": "error", "error": "The dataset title is taken."}
    ),
    "dataset-failed": Refusal(("GetDatasetStatus",), body={"status": "FAILED"}),
    "dataset-unready": Refusal(("DownloadDataset",), 403, _denied("datasets.get")),
    "upload-broken": Refusal(("PUT blob",), 503, "<Error><Code>ServiceUnavailable</Code></Error>"),
    "upload-refused": Refusal(("PUT blob",), 403, "<Error><Code>AccessDenied</Code></Error>"),
    "blob-refused": Refusal(("StartBlobUpload",), 403, _denied("blobs.create")),
    # Competitions.
    "rules-download": Refusal(
        DOWNLOADS,
        403,
        _error(
            403,
            "You must accept this competition's rules before you'll be able to download files.",
            "PERMISSION_DENIED",
            **_RULES,
        ),
    ),
    "rules-submit": Refusal(
        BOTH, 403, _error(403, "You cannot submit until you accept the competition rules", "PERMISSION_DENIED")
    ),
    "unknown-competition": Refusal(("GetCompetition", *DOWNLOADS), 403, _denied("competitions.get")),
    "competition-gone": Refusal(("GetCompetition", *DOWNLOADS), 404, _error(404, "Not found", "NOT_FOUND")),
    "submissions-closed": Refusal(BOTH, 400, _precondition("Submissions have been disabled for this competition.")),
    "daily-limit": Refusal(("CreateSubmission", "CreateCodeSubmission"), 400, _precondition(_DAILY)),
    "notebooks-only": Refusal(
        ("CreateSubmission",), 400, _precondition("This competition only accepts Submissions from Notebooks.")
    ),
    "wrong-accelerator": Refusal(
        ("CreateCodeSubmission",), 400, _precondition("Your Notebook cannot use P100 GPUs in this competition.")
    ),
    "code-submission-denied": Refusal(("CreateCodeSubmission",), 403, _denied("kernelSessions.get")),
    # Everything.
    "throttled": Refusal(("*",), 429, _MANY),
    "bad-token": Refusal(("*",), 401, _error(401, "Unauthenticated", "UNAUTHENTICATED")),
    "out-of-order": Refusal(("*",), 503, _error(503, "The service is currently unavailable.", "UNAVAILABLE")),
}
