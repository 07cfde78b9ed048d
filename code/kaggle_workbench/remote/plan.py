"""What a push is going to do, and all that is looked at before it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kaggle_workbench import records, show
from kaggle_workbench.competition import budget
from kaggle_workbench.competition.connect import Source
from kaggle_workbench.errors import RefusedError, UsageError
from kaggle_workbench.kaggle_api import KaggleError, kernels
from kaggle_workbench.records import Run
from kaggle_workbench.remote import bundle, travel
from kaggle_workbench.remote.ledger import Pushes
from kaggle_workbench.remote.machines import Machine, machine
from kaggle_workbench.settings import SETTINGS, Settings, load_settings, require_root
from kaggle_workbench.stages import resume as going_on
from kaggle_workbench.stages.notebooks import competition_of, notebook_of
from kaggle_workbench.stages.parameters import split

# A session shorter than that is not worth its start.
LEAST_QUOTA_S = 600.0
# After a training has paused, its notebook still lays out the results, and Kaggle collects them.
LEFT_FOR_THE_END_H = 5 / 60
# Set by the push itself.
OURS = ("COMPETITION", "SOURCE", "RUN_ID")
# In the place of names that are known only when the account has been asked.
LATER = "owner/slug"


@dataclass(frozen=True)
class Plan:
    """One run's part of a push.

    Attributes:
        settings: Settings in force.
        stage: The stage.
        given: Settings and parameters that travel.
        run: The run's name.
        machine: What it shall run on.
        made: The bundle, as far as it can be made without asking the account.
        goes_on: Whether the run so far travels with it.
        internet: Whether the session has a network.
        hours: When the run pauses itself.
        code: Where the package comes from.
    """

    settings: Settings
    stage: str
    given: Mapping[str, Any]
    run: str
    machine: Machine
    made: bundle.Bundle
    goes_on: bool
    internet: bool
    hours: float
    code: Literal["inside", "git"]

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.settings.output_dir / "runs" / self.run


def make_plan(
    stage: str,
    given: Mapping[str, Any],
    *,
    resume: str | None = None,
    machine_name: str = "t4",
    internet: bool = False,
    code: Literal["inside", "git"] = "inside",
    with_wheels: bool = False,
) -> Plan:
    """Check what is asked, and make the notebook.

    Args:
        stage: The stage.
        given: Settings and the notebook's own parameters, by name.
        resume: Go on with this run.
        machine_name: See `machines.machine`.
        internet: Give the session a network.
        code: The package inside the notebook, or from the user's own repository.
        with_wheels: Packages that the image lacks will be sent.

    Raises:
        UsageError: A wrong stage, setting, machine or run.
        RefusedError: It cannot run there, or would take a secret along.
    """
    if stage != "train":
        raise UsageError(
            f"Stage {stage!r} has no use on Kaggle's machines.",
            hint="The data are there already, and ./kwb submit RUN sends what a training left; push train.",
        )
    if code == "git" and not internet:
        raise UsageError("--code git needs the internet there.", hint="Add --internet, or leave --code git out.")
    wanted = machine(machine_name)
    root = require_root()
    slug = competition_of(
        going_on.find({n: v for n, v in given.items() if n in SETTINGS}, resume) if resume is not None else given
    )
    notebook = notebook_of(stage, slug, root=root)
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
        going_on.settle(run, stage)
        if records.trained_at(run.read()) and not given:
            raise UsageError(
                f"The training of run {run.id} is finished.",
                hint=f"Submit it: ./kwb run submit --set RUN_ID={run.id}; or give what shall be different, with --set.",
            )
        taken, said = going_on.carried(settings, known, run)
        for sentence in said:
            show.warn(sentence)
        known = {**known, **taken}
        own_taken, own_said = going_on.carried_own(own, run, notebook)
        for sentence in own_said:
            show.warn(sentence)
        own = {**own_taken, **own}
        settings = load_settings({**known, "SOURCE": "kaggle"})
        run_id = run.id
    else:
        from kaggle_workbench.stages.execute import new_run_id

        run_id = settings.run_id or new_run_id(settings, [stage], claim=False)
        if going_on.is_here(settings, run_id):
            raise UsageError(
                f"There is a run {run_id} already.", hint=f"Go on with it: --resume {run_id}; or choose another RUN_ID."
            )
    _refuse_running(settings.output_dir / "runs" / run_id, run_id)
    # The run pauses itself before its own end; the session's hard one comes later, when all is laid out.
    hours = min(wanted.hours - LEFT_FOR_THE_END_H, float(known.get("SESSION_HOURS") or wanted.hours))
    parameters = {**{name: value for name, value in known.items() if name not in OURS}, **own}
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
        travel=LATER if goes_on else None,
        wheels=LATER if with_wheels else None,
        gpu=wanted.kind == "gpu",
        chip=wanted.chip,
    )
    return Plan(settings, stage, parameters, run_id, wanted, made, goes_on, internet, hours, code)


def _refuse_running(folder: Path, run: str) -> None:
    """One run must not go on in two places at once."""
    last = (Pushes(folder).all() or [{}])[-1]
    if last.get("status") == "running":
        raise RefusedError(
            f"Run {run} was pushed already, and is not back: {last.get('url')}",
            hint=f"Fetch it first: ./kwb pull {run}",
        )


def check(source: Source, plan: Plan) -> None:
    """Ask the service whether anything stands against it.

    Raises:
        RefusedError: The rules are not accepted, the internet is not allowed, or no accelerator time is left.
        KaggleError: Any other fault.
    """
    slug, client = plan.settings.competition, source.client
    found = client.competition(slug)
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


def tell(plan: Plan, owner: str) -> None:
    """Say what is going to be sent."""
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
