"""KernelsApiService: status, output, log, lists, quota, deleting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask import Response

from kaggle_workbench.arena.answers import ApiError, page, when, wire

from . import sessions
from .asked import Asked
from .saving import save_kernel
from .state import Kernel, Session, Version, World


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
