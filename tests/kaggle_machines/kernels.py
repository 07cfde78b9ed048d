"""KernelsApiService: saving, status, output, log, quota, deleting; and a submission made of a kernel's output."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask import Response

from kaggle_workbench.arena import submission_calls
from kaggle_workbench.arena.answers import ApiError, failed_precondition, page, text, when, whole, wire
from kaggle_workbench.arena.competitions import Competition
from kaggle_workbench.arena.context import Call
from kaggle_workbench.arena.store import Upload

from . import sessions
from .state import GPU_SHAPES, HOUR_S, RETIRED, TPU_SHAPES, Kernel, Session, Version, World

MAX_SOURCE = 1_000_000
KAGGLE = "https://www.kaggle.com"
DENIED = "Permission 'kernels.get' was denied"


@dataclass(frozen=True)
class Asked:
    """One call, with the stand-in's memory."""

    call: Call
    world: World

    @property
    def body(self) -> Mapping[str, Any]:
        """The request."""
        return self.call.body

    def text(self, name: str, longest: int = 1000) -> str:
        """A text of the request."""
        return text(self.body, name, longest=longest)

    def kernel(self) -> Kernel:
        """The kernel that the request names.

        Raises:
            ApiError: Unknown or somebody else's (403), or its slug was burnt by a refused push (404).
        """
        ref = f"{self.text('userName')}/{self.text('kernelSlug')}"
        if ref in self.world.burnt:
            raise ApiError(404, "Not found")
        found = self.world.kernels.get(ref)
        if found is None or found.owner != self.call.who:
            raise ApiError(403, DENIED)
        return found

    def version(self) -> Version:
        """The version that the request names (`v3`), by default the newest.

        Raises:
            ApiError: There is none of that number (404).
        """
        kernel, label = self.kernel(), self.text("versionLabel").removeprefix("v")
        found = [each for each in kernel.versions if not label or str(each.number) == label]
        if not found:
            raise ApiError(404, "Not found")
        return found[-1]


def save_kernel(asked: Asked) -> dict[str, Any]:
    """K/SaveKernel: makes a version and starts it; a refusal for want of machines is a 200 with `error`."""
    body, world = asked.body, asked.world
    with world.changed:
        owner, slug, title = _named(asked)
        ref = f"{owner}/{slug}"
        if ref in world.burnt:
            return wire(error="Notebook not found")
        if len(str(body.get("text", ""))) > MAX_SOURCE:
            raise ApiError(400, "The source is over the limit of 1 MB.")
        image = str(body.get("dockerImage", ""))
        if "kaggle-private-byod" in image:
            raise ApiError(403, "Permission 'kernels.update' was denied")
        shape = _shape(body)
        if not shape:
            return wire(error="Invalid machine shape")
        machine = "gpu" if shape in GPU_SHAPES else "tpu" if shape in TPU_SHAPES else "cpu"
        runs = body.get("kernelExecutionType") != "QUICK_SAVE"
        existing = world.kernels.get(ref)
        if runs and existing and world.options.second_push == "cancels":
            for each in existing.sessions:
                sessions.stop(world, each, sessions.CANCELLED)
        if runs and (error := _no_room(world, machine)):
            if existing is None and world.options.refused_slugs == "burnt":
                world.burnt.add(ref)
            return wire(error=error)
        bad = _invalid(asked)
        kernel = existing or Kernel(world.number(), owner, slug, title)
        world.kernels[ref] = kernel
        version = Version(len(kernel.versions) + 1, dict(body))
        for name, values in bad.items():
            kept = [each for each in version.request.get(name, []) if each not in values]
            version.request[name] = kept
        kernel.versions.append(version)
        if runs:
            limit = world.options.session_limit_s
            wanted = whole(body, "sessionTimeoutSeconds")
            number = world.number()
            version.session = Session(
                id=number,
                ref=ref,
                version=version.number,
                machine=machine,
                # A pinned image for CPU or GPU wins over the wish for a TPU.
                shape="None" if machine == "tpu" and image else shape,
                limit_s=min(limit, wanted) if wanted else limit,
                folder=world.folder / "sessions" / str(number),
                made=time.time(),
            )
            sessions.begin(world, asked.call.context.hosting, version, version.session)
        return wire(
            ref=f"/code/{ref}",
            url=f"{KAGGLE}/code/{ref}",
            version_number=version.number,
            kernel_id=kernel.id,
            invalid_dataset_sources=bad.get("datasetDataSources", []),
            invalid_competition_sources=bad.get("competitionDataSources", []),
            invalid_kernel_sources=bad.get("kernelDataSources", []),
            invalid_model_sources=bad.get("modelDataSources", []),
        )


def get_status(asked: Asked) -> dict[str, Any]:
    """K/GetKernelSessionStatus: without a version, the newest session."""
    session = asked.version().session
    if session is None:
        return wire(status="NEW_SCRIPT")
    # QUEUED is the default and is left out, as the service does.
    status = "" if session.status == "QUEUED" else session.status
    return wire(status=status, failure_message=session.failure)


def list_output(asked: Asked) -> dict[str, Any]:
    """K/ListKernelSessionOutput: files and log of a session that has ended; of a running one, nothing."""
    session = asked.version().session
    if session is None or session.live:
        return {}
    rows, following = page(session.outputs, asked.body)
    files = [
        wire(file_name=name, url=asked.call.signed("GET", f"/machines/outputs/{session.id}/{name}")) for name in rows
    ]
    return wire(files=files, log=_log(session), next_page_token=following)


def list_files(asked: Asked) -> dict[str, Any]:
    """K/ListKernelFiles: names and sizes of the output."""
    session = asked.version().session
    if session is None or session.live:
        return {}
    rows, following = page(session.outputs, asked.body)
    files = [
        wire(name=name, size=(session.working / name).stat().st_size, creation_date=when(session.ended or 0))
        for name in rows
    ]
    return wire(files=files, next_page_token=following)


def get_kernel(asked: Asked) -> dict[str, Any]:
    """K/GetKernel: the source and its settings."""
    kernel, version = asked.kernel(), asked.version()
    request = version.request
    blob = wire(
        source=str(request.get("text", "")),
        language=str(request.get("language", "")),
        kernel_type=str(request.get("kernelType", "")),
        slug=kernel.slug,
    )
    return {"metadata": _described(kernel, version), "blob": blob}


def list_kernels(asked: Asked) -> dict[str, Any]:
    """K/ListKernels: the caller's own (group PROFILE), by the time of their last run where asked."""
    world, body = asked.world, asked.body
    found = [each for each in world.kernels.values() if each.owner == asked.call.who and each.versions]
    wanted = asked.text("search").lower()
    found = [each for each in found if wanted in f"{each.slug} {each.title}".lower()]
    if competition := asked.text("competition"):
        found = [each for each in found if competition in each.versions[-1].request.get("competitionDataSources", [])]
    if asked.text("group") not in ("PROFILE", "PUBLIC_AND_USERS_PRIVATE"):
        found = [each for each in found if not each.versions[-1].request.get("isPrivate", True)]
    found.sort(key=lambda each: -max([session.made for session in each.sessions], default=0))
    rows, following = page(found, body)
    return wire(kernels=[_described(each, each.versions[-1]) for each in rows], next_page_token=following)


def delete_kernel(asked: Asked) -> dict[str, Any]:
    """K/DeleteKernel: also stops what runs."""
    kernel = asked.kernel()
    with asked.world.changed:
        for each in kernel.sessions:
            sessions.stop(asked.world, each, sessions.CANCELLED)
        del asked.world.kernels[kernel.ref]
        asked.world.deleted.append(kernel)
    return {}


def cancel_session(asked: Asked) -> dict[str, Any]:
    """K/CancelKernelSession: the service denies it to API tokens, and no call tells a session's number anyhow."""
    raise ApiError(403, "Permission 'kernelSessions.cancel' was denied")


def get_quota(asked: Asked) -> dict[str, Any]:
    """K/GetAcceleratorQuotaStatistics: used and allowed in this week."""
    world = asked.world
    now = datetime.now(UTC)
    ahead = (5 - now.weekday()) % 7 or 7
    refresh = (now + timedelta(days=ahead)).replace(hour=0, minute=0, second=0, microsecond=0)
    answer: dict[str, Any] = {"quotaRefreshTime": when(refresh)}
    for machine in ("gpu", "tpu"):
        answer[f"{machine}Quota"] = {
            "timeUsed": _seconds(world.used_s(machine)),
            "timeReserved": "0s",
            "totalTimeAllowed": _seconds(world.allowed_s(machine)),
            "minimumTimeAllowed": _seconds(world.allowed_s(machine)),
            "hasEverRun": any(each.machine == machine for each in world.sessions()),
        }
    return answer


def stream_log(asked: Asked) -> Response:
    """The log: a stream of events as long as the session runs, a JSON array afterwards."""
    session, world = asked.version().session, asked.world
    if session is None:
        raise ApiError(404, "Not found")
    if not session.live:
        return Response(_log(session), mimetype="application/json")

    def events() -> Iterator[str]:
        sent = 0

        def moved() -> bool:
            return len(session.log) > sent or not session.live or world.closing

        while True:
            with world.changed:
                world.changed.wait_for(moved, 10)
                fresh, live = session.log[sent:], session.live and not world.closing
            for entry in fresh:
                yield f"data: {json.dumps(entry)}\n\n"
            sent += len(fresh)
            if not live:
                yield "data: END_OF_LOG\n\n"
                return
            if not fresh:
                yield ": still there\n\n"

    return Response(events(), mimetype="text/event-stream")


def output_file(world: World, session_id: int, name: str) -> Path:
    """A file that a session left.

    Raises:
        ApiError: There is none of that name (404).
    """
    for session in world.sessions():
        if session.id == session_id and name in session.outputs:
            return session.working / name
    raise ApiError(404, "Not found")


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


def _named(asked: Asked) -> tuple[str, str, str]:
    """Owner, slug and title. A new kernel is filed under its title, whatever its id says."""
    owner, _, slug = asked.text("slug").partition("/")
    title = asked.text("newTitle")
    if number := whole(asked.body, "id"):
        found = next((each for each in asked.world.kernels.values() if each.id == number), None)
        if found is None:
            raise ApiError(404, "Not found")
        owner, slug = found.owner, found.slug
    if owner != asked.call.who:
        raise ApiError(403, "Permission 'kernels.update' was denied")
    if title and len(title) < 5:
        raise ApiError(400, "The title must have at least five characters.")
    if f"{owner}/{slug}" not in asked.world.kernels and title:
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if len(slug) < 5:
        raise ApiError(400, "The slug must have at least five characters.")
    return owner, slug, title or slug


def _shape(body: Mapping[str, Any]) -> str:
    asked = str(body.get("machineShape", "") or "")
    if not asked:
        return "NvidiaTeslaT4" if body.get("enableGpu") else "TpuV5E8" if body.get("enableTpu") else "None"
    if asked.lower() in RETIRED:
        return RETIRED[asked.lower()]
    known = (*GPU_SHAPES, *TPU_SHAPES, "None")
    if asked in known:
        return asked
    # Another spelling is taken without a word, and gets a CPU; a name that is none at all is refused.
    return "None" if asked.lower() in {name.lower() for name in known} else ""


def _no_room(world: World, machine: str) -> str:
    """The service's sentence when the account may start no such session now."""
    most = world.options.sessions.get(machine, 0)
    if len(world.live(machine)) >= most:
        return f"Maximum batch {machine.upper()} session count of {most} reached."
    allowed = world.allowed_s(machine)
    if world.used_s(machine) >= allowed:
        return f"Maximum weekly {machine.upper()} quota of {allowed / HOUR_S:.2f} hours reached."
    return ""


def _invalid(asked: Asked) -> dict[str, list[str]]:
    """Sources that cannot be attached, by the request's field."""
    world, body = asked.world, asked.body
    now = time.time()
    hosting, context, who = asked.call.context.hosting, asked.call.context, asked.call.who

    def competition(slug: str) -> bool:
        found = hosting.find(slug)
        return found is not None and not found.gone and context.has_entered(who, found)

    def dataset(ref: str) -> bool:
        found = world.datasets.get("/".join(ref.split("/")[:2]))
        return found is not None and found.newest_ready(now) is not None

    def kernel(ref: str) -> bool:
        return "/".join(ref.split("/")[:2]) in world.kernels

    checks: dict[str, Callable[[str], bool]] = {
        "competitionDataSources": competition,
        "datasetDataSources": dataset,
        "kernelDataSources": kernel,
        "modelDataSources": lambda _: False,
    }
    found = {name: [ref for ref in body.get(name, []) if not sound(ref)] for name, sound in checks.items()}
    return {name: refs for name, refs in found.items() if refs}


def _described(kernel: Kernel, version: Version) -> dict[str, Any]:
    request = version.request
    last = max([each.made for each in kernel.sessions], default=0)
    session = version.session
    return wire(
        id=kernel.id,
        ref=kernel.ref,
        title=kernel.title,
        author=kernel.owner,
        slug=kernel.slug,
        last_run_time=when(last) if last else None,
        language=str(request.get("language", "")),
        kernel_type=str(request.get("kernelType", "")),
        is_private=bool(request.get("isPrivate", True)),
        enable_gpu=session is not None and session.machine == "gpu",
        enable_tpu=session is not None and session.machine == "tpu",
        enable_internet=bool(request.get("enableInternet")),
        dataset_data_sources=request.get("datasetDataSources", []),
        competition_data_sources=request.get("competitionDataSources", []),
        kernel_data_sources=request.get("kernelDataSources", []),
        model_data_sources=request.get("modelDataSources", []),
        current_version_number=kernel.versions[-1].number,
        docker_image=str(request.get("dockerImage", "")),
        machine_shape=session.shape if session else "",
    )


def _log(session: Session) -> str:
    return json.dumps(session.log) if session.log else ""


def _seconds(value: float) -> str:
    return f"{value:.3f}s".replace(".000s", "s")


METHODS: Mapping[str, Callable[[Asked], dict[str, Any]]] = {
    "SaveKernel": save_kernel,
    "GetKernelSessionStatus": get_status,
    "ListKernelSessionOutput": list_output,
    "ListKernelFiles": list_files,
    "GetKernel": get_kernel,
    "ListKernels": list_kernels,
    "DeleteKernel": delete_kernel,
    "CancelKernelSession": cancel_session,
    "GetAcceleratorQuotaStatistics": get_quota,
}
