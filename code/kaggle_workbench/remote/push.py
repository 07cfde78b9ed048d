"""`kwb push`: a stage of a run to Kaggle's machines. All that can be checked is checked before anything is sent."""

from __future__ import annotations

import json
import re
import secrets as randomness
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kaggle_workbench import show
from kaggle_workbench.competition import budget
from kaggle_workbench.competition.connect import Source, connect
from kaggle_workbench.errors import RefusedError, UsageError
from kaggle_workbench.kaggle_api import Client, Competition, KaggleError, datasets, kernels
from kaggle_workbench.kaggle_api.errors import NoSuchNotebookError, SessionsError
from kaggle_workbench.provenance import LOCK_FILE
from kaggle_workbench.records import Run
from kaggle_workbench.remote import bundle, travel, wheels
from kaggle_workbench.remote.ledger import Pushes
from kaggle_workbench.remote.machines import Machine, machine
from kaggle_workbench.settings import Settings, load_settings, require_root
from kaggle_workbench.stages import resume as going_on
from kaggle_workbench.stages.parameters import split

# A session shorter than that is not worth its start.
LEAST_QUOTA_S = 600.0
NAME_TRIES = 3
# After a training has paused, its notebook still lays out the results, and Kaggle collects them.
LEFT_FOR_THE_END_H = 5 / 60
# Set by the push itself.
_OURS = ("COMPETITION", "SOURCE", "RUN_ID")
POLL_S = 30.0


@dataclass(frozen=True)
class Push:
    """What was pushed, or would be.

    Attributes:
        run: The run's name.
        made: The bundle.
        kernel: Where it runs; None for a dry run.
        number: Of the push in the run's ledger; 0 for a dry run.
        folder: The run's folder.
    """

    run: str
    made: bundle.Bundle
    kernel: kernels.Saved | None
    number: int
    folder: Path


@dataclass(frozen=True)
class Plan:
    """What `push` has made up its mind to do."""

    settings: Settings
    given: Mapping[str, Any]
    run: str
    machine: Machine
    made: bundle.Bundle
    goes_on: bool
    internet: bool
    hours: float

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.settings.output_dir / "runs" / self.run


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
    plan = _plan(stage, dict(overrides or {}), competition, resume, machine_name, internet, code, with_wheels)
    with connect(plan.settings) as source:
        found = source.client.competition(plan.settings.competition)
        _check(source, found, plan)
        owner = datasets.owner(source.client)
        _tell(plan, source.client, owner)
        if dry_run:
            show.note("Dry run: nothing was sent.")
            return Push(plan.run, plan.made, None, 0, plan.folder)
        return _send(source, plan, owner, stage, wait_s=wait_hours * 3600, poll_s=poll_s, with_wheels=with_wheels)


def _plan(
    stage: str,
    given: dict[str, Any],
    competition: str | None,
    resume: str | None,
    machine_name: str,
    internet: bool,  # noqa: FBT001
    code: Literal["inside", "git"],
    with_wheels: bool,  # noqa: FBT001
) -> Plan:
    if stage != "train":
        raise UsageError(
            f"Stage {stage!r} has no use on Kaggle's machines.",
            hint="The data are there already, and ./kwb submit RUN sends what a training left; push train.",
        )
    if code == "git" and not internet:
        raise UsageError("--code git needs the internet there.", hint="Add --internet, or leave --code git out.")
    wanted = machine(machine_name)
    root = require_root()
    notebook = root / "code" / bundle.NOTEBOOKS[stage]
    if competition is not None:
        given["COMPETITION"] = competition
    known, own = split([notebook], given)
    if resume is not None:
        known = going_on.find(known, resume)
    settings = load_settings(known)
    if settings.source == "practice":
        raise RefusedError(
            f"{settings.competition} comes from the practice server here, which Kaggle's machines cannot see.",
            hint="Set SOURCE=kaggle and a competition of Kaggle's; practice runs with ./kwb run train.",
        )
    settings = load_settings({**known, "SOURCE": "kaggle"})
    goes_on = False
    if resume is not None:
        run = Run.open(settings.output_dir, settings.run_id or resume)
        goes_on = bool(travel.files(run.folder))
        taken, said = going_on.carried(settings, known, run)
        for sentence in said:
            show.warn(sentence)
        known = {**known, **taken}
        settings = load_settings({**known, "SOURCE": "kaggle"})
        run_id = run.id
    else:
        from kaggle_workbench.stages.execute import new_run_id

        run_id = settings.run_id or new_run_id(settings, [stage], claim=False)
    # The run pauses itself before its own end; the session's hard one comes later, when all is laid out.
    hours = min(wanted.hours - LEFT_FOR_THE_END_H, float(known.get("SESSION_HOURS") or wanted.hours))
    parameters = {**{name: value for name, value in known.items() if name not in _OURS}, **own}
    parameters["SESSION_HOURS"] = hours
    if wanted.kind == "cpu":
        parameters["GPU_COUNT"] = 0
    made = bundle.make(
        settings,
        stage,
        parameters=parameters,
        run_id=run_id,
        place="kaggle",
        code=code,
        travel="owner/slug" if goes_on else None,
        wheels="owner/slug" if with_wheels else None,
        gpu=wanted.kind == "gpu",
    )
    return Plan(settings, parameters, run_id, wanted, made, goes_on, internet, hours)


def _check(source: Source, found: Competition, plan: Plan) -> None:
    slug, client = plan.settings.competition, source.client
    if not found.user_has_entered:
        raise RefusedError(
            f"The rules of {slug} are not accepted yet, so a session there gets none of its data; nothing was sent.",
            hint=f"Open {budget.page(client, slug, '/rules')}, accept them there, then push again.",
        )
    if found.notebooks_only and plan.internet:
        raise RefusedError(
            f"{slug} takes notebooks that ran without the internet; nothing was sent.", hint="Leave --internet out."
        )
    if plan.machine.kind == "cpu":
        return
    try:
        quota = kernels.quota(client)
    except KaggleError as error:
        show.warn(f"The quota is not known: {error.message}")
        return
    left = quota.left_s(plan.machine.kind)
    if left is None:
        return
    show.note(f"Quota: {left / 3600:.1f} h of {plan.machine.kind.upper()} time left this week.")
    if left < LEAST_QUOTA_S:
        when = f", on {quota.refreshed:%Y-%m-%d %H:%M} UTC" if quota.refreshed else ""
        raise RefusedError(
            f"{left / 60:.0f} min of this week's {plan.machine.kind.upper()} time are left; nothing was sent.",
            hint=f"It comes back weekly{when}; --machine cpu costs none of it.",
        )


def _tell(plan: Plan, client: Client, owner: str) -> None:
    made = plan.made
    lines = [
        f"Run {plan.run}: train of {plan.settings.competition} on Kaggle, {plan.machine.title}, at most "
        f"{plan.hours:.3g} h, internet {'on' if plan.internet else 'off'}, {made.size / 1000:.0f} kB",
    ]
    if plan.goes_on:
        lines.append(f"It goes on from here: {travel.name(owner, plan.run)} ({travel.size(plan.folder) / 1e6:.1f} MB).")
    if made.missing and plan.internet:
        lines.append(f"Kaggle's image lacks {', '.join(made.missing)}: the notebook must install it.")
    elif made.missing:
        lines.append(f"Kaggle's image lacks {', '.join(made.missing)}: --wheels sends it along.")
    if made.unsent:
        lines.append(f"{', '.join(made.unsent)} of variables.env stays here; the notebook asks for it.")
    if plan.settings.mongodb_uri:
        lines.append("MONGODB_URI stays here: the record goes to MongoDB after ./kwb pull.")
    for line in lines:
        show.note(line)


def _send(
    source: Source,
    plan: Plan,
    owner: str,
    stage: str,
    *,
    wait_s: float,
    poll_s: float,
    with_wheels: bool,
) -> Push:
    client = source.client
    data = []
    made, text = plan.made, plan.made.text
    if plan.goes_on:
        dataset = travel.name(owner, plan.run)
        travel.send(client, dataset, plan.folder, poll_s=min(5.0, poll_s))
        data.append(dataset)
    if with_wheels:
        data.append(_send_wheels(client, plan, owner, poll_s))
    if data:
        # Which dataset it is was not known before the account was asked.
        made = bundle.make(
            plan.settings,
            stage,
            parameters=plan.given,
            run_id=plan.run,
            place="kaggle",
            code="inside" if plan.made.package_sha256 else "git",
            travel=data[0] if plan.goes_on else None,
            wheels=data[-1] if with_wheels else None,
            gpu=plan.machine.kind == "gpu",
        )
        text = made.text
    pushes = Pushes(plan.folder)
    facts = {"place": "kaggle", "stage": stage, "machine": plan.machine.shape, "dataset": data, "sha256": made.sha256}
    number = pushes.begin(**facts, parameters=dict(plan.given))
    kernel = kernels.Kernel(
        slug="",
        text=text,
        machine_shape=plan.machine.shape,
        internet=plan.internet,
        competitions=[plan.settings.competition],
        datasets=data,
        image=_image(plan.settings.root),
        limit_s=round((plan.hours + LEFT_FOR_THE_END_H) * 3600),
    )
    try:
        saved = _save(client, owner, kernel, plan.run, wait_s=wait_s, poll_s=poll_s)
    except BaseException as error:
        pushes.update(number, status="refused" if isinstance(error, RefusedError) else "failed", error=str(error))
        raise
    pushes.update(number, status="running", ref=saved.ref, version=saved.version, url=saved.url)
    show.note(f"It runs: {saved.url}\n`./kwb pull {plan.run}` waits for it and brings the results here.")
    return Push(plan.run, made, saved, number, plan.folder)


def _save(
    client: Client, owner: str, kernel: kernels.Kernel, run: str, *, wait_s: float, poll_s: float
) -> kernels.Saved:
    """Save it under a fresh name; wait here while as many sessions run as may."""
    ends, names, said = time.monotonic() + wait_s, 0, False
    while True:
        slug = slug_of(run)
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
