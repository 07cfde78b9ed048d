"""KernelsApiService/SaveKernel: a push, with all that can be wrong about it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from kaggle_workbench.arena.answers import ApiError, whole, wire

from . import sessions
from .asked import KAGGLE, Asked
from .state import GPU_SHAPES, HOUR_S, RETIRED, TPU_SHAPES, Kernel, Session, Version, World

MAX_SOURCE = 1_000_000


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
