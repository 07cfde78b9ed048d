"""`kwb push`: runs to Kaggle's machines, one notebook each or two side by side on a machine with two GPUs."""

from __future__ import annotations

import json
import re
import secrets as randomness
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kaggle_workbench import show
from kaggle_workbench.competition.connect import connect
from kaggle_workbench.errors import RefusedError
from kaggle_workbench.kaggle_api import Client, datasets, kernels
from kaggle_workbench.kaggle_api.errors import NoSuchNotebookError, SessionsError
from kaggle_workbench.provenance import LOCK_FILE
from kaggle_workbench.remote import bundle, travel, wheels
from kaggle_workbench.remote.ledger import Pushes
from kaggle_workbench.remote.plan import LEFT_FOR_THE_END_H, Plan, check, make_plan, tell

NAME_TRIES = 3
POLL_S = 30.0


@dataclass(frozen=True)
class Push:
    """What was pushed, or would be.

    Attributes:
        run: The run's name.
        kernel: Where it runs; None for a dry run.
        folder: The run's folder.
    """

    run: str
    kernel: kernels.Saved | None
    folder: Path


def push(
    stage: str = "train",
    *,
    overrides: Mapping[str, Any] | None = None,
    competition: str | None = None,
    resume: str | None = None,
    machine_name: str = "t4",
    internet: bool = False,
    code: Literal["inside", "git"] = "inside",
    with_wheels: bool = False,
    wait_hours: float = 0.0,
    dry_run: bool = False,
    poll_s: float = POLL_S,
) -> Push:
    """Push a stage to Kaggle and start it there.

    Args:
        stage: "train"; Kaggle has the data there, and the submission is made from here (`kwb submit`).
        overrides: Settings and the notebook's own parameters, by name.
        competition: Short for overriding COMPETITION.
        resume: Go on with this run; its record and checkpoints travel as a private dataset.
        machine_name: One of `machines.MACHINES`, or the service's id.
        internet: Give the session a network.
        code: The package inside the notebook, or from the user's own repository.
        with_wheels: Send modules that the image lacks as wheels.
        wait_hours: How long to wait for a free session, in hours.
        dry_run: Check and tell, send nothing.
        poll_s: How often to ask while waiting.

    Returns:
        The push.

    Raises:
        RefusedError: Something stands against it; nothing was sent.
        WorkbenchError: Any other fault.
    """
    given = {**(overrides or {}), **({"COMPETITION": competition} if competition is not None else {})}
    plan = make_plan(
        stage,
        given,
        resume=resume,
        machine_name=machine_name,
        internet=internet,
        code=code,
        with_wheels=with_wheels,
    )
    return _push([plan], with_wheels=with_wheels, wait_hours=wait_hours, dry_run=dry_run, poll_s=poll_s)[0]


def push_together(
    trials: Sequence[tuple[Mapping[str, Any], str | None]],
    *,
    machine_name: str,
    wait_hours: float = 0.0,
    poll_s: float = POLL_S,
    quiet: bool = False,
) -> list[Push]:
    """Push trainings that share one session, each with a GPU of its own.

    Args:
        trials: For each, its settings and parameters (RUN_ID among them), and the run it goes on with.
        machine_name: One of `machines.MACHINES`.
        wait_hours: How long to wait for a free session, in hours.
        poll_s: How often to ask while waiting.
        quiet: Do not say again what is sent.

    Returns:
        The pushes, in the order of the trials.

    Raises:
        WorkbenchError: See `push`; then none of them was started.
    """
    plans = [make_plan("train", given, resume=resume, machine_name=machine_name) for given, resume in trials]
    return _push(plans, wait_hours=wait_hours, poll_s=poll_s, quiet=quiet)


def _push(
    plans: Sequence[Plan],
    *,
    with_wheels: bool = False,
    wait_hours: float = 0.0,
    dry_run: bool = False,
    poll_s: float = POLL_S,
    quiet: bool = False,
) -> list[Push]:
    first = plans[0]
    with connect(first.settings) as source:
        check(source, first)
        owner = datasets.owner(source.client)
        for plan in plans if not quiet else ():
            tell(plan, owner)
        if dry_run:
            show.note("Dry run: nothing was sent.")
            return [Push(plan.run, None, plan.folder) for plan in plans]
        saved = _send(source.client, plans, owner, wait_s=wait_hours * 3600, poll_s=poll_s, with_wheels=with_wheels)
    show.note(f"It runs: {saved.url}")
    for plan in plans:
        show.note(f"`./kwb pull {plan.run}` waits for it and brings the results here.")
    return [Push(plan.run, saved, plan.folder) for plan in plans]


def _send(
    client: Client, plans: Sequence[Plan], owner: str, *, wait_s: float, poll_s: float, with_wheels: bool
) -> kernels.Saved:
    first = plans[0]
    sent: list[str] = []
    made = []
    for plan in plans:
        dataset = travel.name(owner, plan.run) if plan.goes_on else None
        if dataset is not None:
            travel.send(client, dataset, plan.folder, poll_s=min(5.0, poll_s))
            sent.append(dataset)
        extra = _send_wheels(client, plan, owner, poll_s) if with_wheels else None
        sent += [extra] if extra else []
        # Which datasets they are was not known before the account was asked.
        made.append(_again(plan, dataset, extra) if dataset or extra else plan.made)
    whole = made[0] if len(made) == 1 else bundle.together(made, [plan.run for plan in plans])
    kernel = kernels.Kernel(
        slug="",
        text=whole.text,
        machine_shape=first.machine.shape,
        internet=first.internet,
        competitions=[first.settings.competition],
        datasets=sent,
        image=_image(first.settings.root),
        limit_s=round((first.hours + LEFT_FOR_THE_END_H) * 3600),
    )
    facts = {"place": "kaggle", "stage": first.stage, "machine": first.machine.shape, "dataset": sent}
    noted = [(Pushes(plan.folder), plan) for plan in plans]
    numbers = [
        pushes.begin(**facts, sha256=whole.sha256, parameters=dict(plan.given), runs=[one.run for one in plans])
        for pushes, plan in noted
    ]

    def note(**told: Any) -> None:
        for (pushes, _), number in zip(noted, numbers, strict=True):
            pushes.update(number, **told)

    try:
        saved = _save(client, owner, kernel, first.run, note, wait_s=wait_s, poll_s=poll_s)
    except BaseException as error:
        note(status="refused" if isinstance(error, RefusedError) else "failed", error=str(error))
        raise
    note(status="running", ref=saved.ref, version=saved.version, url=saved.url)
    return saved


def _again(plan: Plan, dataset: str | None, extra: str | None) -> bundle.Bundle:
    return bundle.make(
        plan.settings,
        plan.stage,
        parameters=plan.given,
        run_id=plan.run,
        place="kaggle",
        code=plan.code,
        travel=dataset,
        wheels=extra,
        gpu=plan.machine.kind == "gpu",
        chip=plan.machine.chip,
    )


def _save(
    client: Client,
    owner: str,
    kernel: kernels.Kernel,
    run: str,
    note: Callable[..., None],
    *,
    wait_s: float,
    poll_s: float,
) -> kernels.Saved:
    """Save it under a fresh name; wait here while as many sessions run as may."""
    ends, names, said = time.monotonic() + wait_s, 0, False
    while True:
        slug = slug_of(run)
        # Noted before: a client that is killed here must find what it has sent.
        note(slug=f"{owner}/{slug}")
        try:
            return kernels.save(client, owner, replace(kernel, slug=slug))
        except NoSuchNotebookError:
            names += 1
            if names >= NAME_TRIES:
                raise
        except SessionsError as error:
            if time.monotonic() + poll_s > ends:
                raise
            if not said:
                show.note(f"{error.message} Waiting for one to end (at most {wait_s / 3600:g} h) ...")
                said = True
            time.sleep(poll_s)


def slug_of(run: str) -> str:
    """A name for a notebook that no other push has had: a session of an earlier one may still run."""
    plain = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")[:36].strip("-")
    return f"kwb-{plain}-{randomness.token_hex(3)}"


def _send_wheels(client: Client, plan: Plan, owner: str, poll_s: float) -> str:
    packages = list(plan.made.missing)
    python = wheels.image_python(plan.settings.root)
    ref = f"{owner}/kwb-wheels-{re.sub(r'[^a-z0-9]+', '-', '-'.join(packages).lower())[:30].strip('-')}"
    with tempfile.TemporaryDirectory(prefix="kwb-") as work:
        made = wheels.build(packages, Path(work), python=python)
        show.note(f"Sending {show.plural(len(made), 'wheel')} for Python {python} as the private dataset {ref} ...")
        datasets.send(client, ref, Path(work), ", ".join(packages))
    datasets.wait_ready(client, ref, poll_s=min(5.0, poll_s))
    return ref


def _image(root: Path | None) -> str:
    """The image of the lock by its digest, "" while the lock does not know it."""
    try:
        lock = json.loads((root / LOCK_FILE).read_bytes()) if root else {}
    except (OSError, ValueError):
        lock = {}
    return f"{lock['image']}@{lock['digest']}" if lock.get("digest") else ""
