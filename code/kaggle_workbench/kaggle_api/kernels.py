"""Notebooks on Kaggle's machines: save and run one, follow it, fetch what it left, stop it.

The service refuses with HTTP 200 and a sentence in `error`; here every refusal is an error of its own kind.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.kaggle_api.errors import (
    DeniedError,
    KaggleError,
    NoSuchNotebookError,
    QuotaError,
    ServerError,
    SessionsError,
    SourcesError,
)
from kaggle_workbench.kaggle_api.types import when

if TYPE_CHECKING:
    from kaggle_workbench.kaggle_api.client import Client

# What the service calls a session without an accelerator.
NO_ACCELERATOR = "None"
METADATA_FILE = "kernel-metadata.json"
CODE_FILE = "notebook.ipynb"
ENDED = ("COMPLETE", "ERROR", "CANCEL_ACKNOWLEDGED")
OUTPUT_S = 1800.0


@dataclass(frozen=True)
class Kernel:
    """What is to be saved and run.

    Attributes:
        slug: Its name within the account; the title must spell it the same way.
        text: The notebook.
        machine_shape: One of Kaggle's ids, `NO_ACCELERATOR` for none; always sent.
        internet: Whether the session has a network; always sent.
        competitions: Slugs whose files it sees.
        datasets: "owner/slug" of datasets it sees.
        image: A Kaggle image by digest; "" for the newest.
        limit_s: After so many seconds the session is ended.
    """

    slug: str
    text: str
    machine_shape: str
    internet: bool
    competitions: Sequence[str] = ()
    datasets: Sequence[str] = ()
    image: str = ""
    limit_s: int | None = None


@dataclass(frozen=True)
class Saved:
    """A kernel that was taken: "owner/slug", its version, its page."""

    ref: str
    version: int
    url: str


@dataclass(frozen=True)
class KernelStatus:
    """How a session stands: the service's word, and why when it failed."""

    status: str
    message: str

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ENDED


@dataclass(frozen=True)
class Quota:
    """Accelerator time of this week in seconds; None where the service does not say."""

    gpu_used_s: float | None
    gpu_total_s: float | None
    tpu_used_s: float | None
    tpu_total_s: float | None
    refreshed: datetime | None

    def left_s(self, kind: str) -> float | None:
        """Seconds left of "gpu" or "tpu"; None when not known."""
        used, total = (self.gpu_used_s, self.gpu_total_s) if kind == "gpu" else (self.tpu_used_s, self.tpu_total_s)
        return None if total is None else max(0.0, total - (used or 0.0))


def save(client: Client, owner: str, kernel: Kernel) -> Saved:
    """Save and run a kernel, once.

    When the answer cannot be read, the list of kernels is read back instead of saving again.

    Raises:
        SessionsError: As many sessions run as may.
        QuotaError: The week's accelerator time is used up.
        NoSuchNotebookError: The slug cannot be used (any more); another one can.
        SourcesError: The service knows some of the sources not; the kernel was taken back.
        KaggleError: Any other refusal or fault.
    """
    metadata = {
        "id": f"{owner}/{kernel.slug}",
        "title": kernel.slug.replace("-", " "),
        "code_file": CODE_FILE,
        "language": "python",
        "kernel_type": "notebook",
        "is_private": True,
        "enable_gpu": kernel.machine_shape.startswith("Nvidia"),
        "enable_tpu": kernel.machine_shape.startswith("Tpu"),
        "enable_internet": kernel.internet,
        "machine_shape": kernel.machine_shape,
        "competition_sources": list(kernel.competitions),
        "dataset_sources": list(kernel.datasets),
    }
    if kernel.image:
        metadata |= {"docker_image": kernel.image, "docker_image_pinning_type": "original"}
    with tempfile.TemporaryDirectory(prefix="kwb-") as folder:
        (Path(folder) / METADATA_FILE).write_text(json.dumps(metadata), encoding="utf-8")
        (Path(folder) / CODE_FILE).write_text(kernel.text, encoding="utf-8")
        try:
            answer = client.call("save_kernel", tries=1, waits=False, folder=folder, session_s=kernel.limit_s)
        except KaggleError as error:
            found = _look_back(client, f"{owner}/{kernel.slug}") if error.maybe_done else None
            if found is None:
                raise
            return found
    if answer.get("error"):
        raise _refused(client, str(answer["error"]))
    saved = _saved(client, str(metadata["id"]), answer)
    lost = {name: answer[field] for name, field in _SOURCES.items() if answer.get(field)}
    if lost:
        _take_back(client, saved, lost)
    return saved


def status(client: Client, saved: Saved) -> KernelStatus:
    """How the session of this version stands."""
    answer = client.call("kernel_status", kernel=_label(saved))
    return KernelStatus(str(answer.get("status") or "QUEUED").upper(), str(answer.get("failureMessage") or ""))


def output(client: Client, saved: Saved, folder: Path) -> list[Path]:
    """Fetch all files that a session left, and its log as `<slug>.log`.

    Raises:
        KaggleError: A file could not be fetched.
    """
    names = client.call("kernel_output", kernel=_label(saved), folder=str(folder.resolve()), limit_s=OUTPUT_S)
    return [Path(name) for name in names]


def log(client: Client, saved: Saved) -> str:
    """What the session has printed, as text; empty while it runs, where only `new_lines` sees it."""
    return as_text(str(client.call("kernel_log", kernel=_label(saved))))


def new_lines(client: Client, saved: Saved) -> list[str]:
    """What the running session has printed since the last call; [] when it cannot be followed."""
    try:
        return [str(line) for line in client.call("kernel_lines", kernel=_label(saved), tries=1)]
    except KaggleError:
        return []


def as_text(log: str) -> str:
    """Kaggle's log, a list of entries as JSON, as the text that was printed."""
    try:
        entries = json.loads(log)
    except ValueError:
        return log
    return "".join(str(entry.get("data", "")) for entry in entries if isinstance(entry, Mapping))


def delete(client: Client, saved: Saved) -> None:
    """Delete a kernel, which also stops its session (cancelling is denied to tokens)."""
    client.call("delete_kernel", kernel=saved.ref)


def mine(client: Client) -> list[str]:
    """This account's kernels as "owner/slug", those that ran last first (at most 20)."""
    return [str(row["ref"]) for row in client.call("my_kernels") if row and row.get("ref")]


def quota(client: Client) -> Quota:
    """The week's accelerator time."""
    wire = client.call("get_quota", tries=1)
    spans = {f"{kind}_{name}_s": wire.get(f"{kind}_{name}_s") for kind in ("gpu", "tpu") for name in ("used", "total")}
    return Quota(**spans, refreshed=when(wire.get("refreshed")))


def submit(client: Client, slug: str, saved: Saved, file_name: str, message: str) -> int:
    """Submit what a version of a kernel left, in a code competition; the submission's number."""
    args: dict[str, Any] = {"slug": slug, "kernel": saved.ref, "version": saved.version}
    args |= {"file": file_name, "message": message}
    return int(client.call("submit_kernel", tries=1, waits=False, **args).get("ref", 0))


_SOURCES = {
    "datasets": "invalidDatasetSources",
    "competitions": "invalidCompetitionSources",
    "notebooks": "invalidKernelSources",
    "models": "invalidModelSources",
}


def _refused(client: Client, reason: str) -> KaggleError:
    who = client.label
    sessions = re.search(r"(GPU|TPU|CPU) session count of (\d+)", reason)
    if sessions:
        kind, most = sessions[1], int(sessions[2])
        return SessionsError(
            f"{most} {kind} session{'s run' if most > 1 else ' runs'} already, as many as {who} allows at once; "
            f'nothing was started. {who} says: "{reason.rstrip(".")}."',
            hint="Wait for one to end (--wait-hours N waits for you), or stop one on its page.",
            reason=reason,
        )
    if re.search(r"quota", reason, re.IGNORECASE):
        return QuotaError(
            f'The week\'s accelerator time is used up; nothing was started. {who} says: "{reason.rstrip(".")}."',
            hint="It comes back weekly (./kwb push ... --dry-run shows when); --machine cpu costs none of it.",
            reason=reason,
        )
    if re.search(r"notebook not found", reason, re.IGNORECASE):
        return NoSuchNotebookError(
            f'{who} does not take this notebook\'s name; nothing was started. It says: "{reason.rstrip(".")}."',
            hint="Push again: another name is used.",
            reason=reason,
        )
    return DeniedError(
        f'{who} refused the notebook; nothing was started. It says: "{reason.rstrip(".")}."',
        hint=f"Look at {client.endpoint.web}/settings for what the account may do.",
        reason=reason,
    )


def _take_back(client: Client, saved: Saved, lost: Mapping[str, Any]) -> None:
    what = "; ".join(f"{name}: {', '.join(map(str, refs))}" for name, refs in lost.items())
    try:
        delete(client, saved)
        after = "The notebook was taken back; nothing runs."
        hint = "Check the names, and that this account may see them, then push again."
    except KaggleError as error:
        after = f"It could not be taken back ({error.reason or error.message}) and may run without them."
        hint = f"Stop it at {saved.url}, then push again."
    raise SourcesError(f"{client.label} does not know some sources of this notebook ({what}). {after}", hint=hint)


def _look_back(client: Client, ref: str) -> Saved | None:
    try:
        return Saved(ref, 1, f"{client.endpoint.web}/code/{ref}") if ref in mine(client) else None
    except KaggleError:
        return None


def _saved(client: Client, ref: str, answer: Mapping[str, Any]) -> Saved:
    if not answer.get("versionNumber"):
        raise ServerError(
            f"{client.label} neither took nor refused the notebook.",
            hint=f"Look at {client.endpoint.web}/code before you push again.",
            maybe_done=True,
        )
    # A kernel is filed under its title; where that is, the answer says.
    told = re.sub(r"^/?code/|^/", "", str(answer.get("ref") or "")) or ref
    return Saved(told, int(answer["versionNumber"]), str(answer.get("url") or f"{client.endpoint.web}/code/{told}"))


def _label(saved: Saved) -> str:
    return f"{saved.ref}/{saved.version}"
