"""`tune`: what is asked, checked before anything runs; then the study is run to its end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.competition.connect import source_kind
from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.settings import SECRET_NAMES, SETTINGS, Settings, load_settings
from kaggle_workbench.stages import parameters
from kaggle_workbench.stages.notebooks import competition_of, notebook_of
from kaggle_workbench.tuning import objective
from kaggle_workbench.tuning.engines import ENGINES, make_engine
from kaggle_workbench.tuning.loop import Loop
from kaggle_workbench.tuning.space import Dimension, read_space
from kaggle_workbench.tuning.study import TABLE, Study, entries
from kaggle_workbench.tuning.variants import read_variants

# What decides where a trial runs and what it is: the same for all trials of a study.
NOT_TRIED = (
    *SECRET_NAMES,
    "COMPETITION", "SOURCE", "RUN_ID", "STORE", "INPUT_DIR", "OUTPUT_DIR", "SUBMIT", "FORCE_RESUME", "GPU_COUNT",
)  # fmt: skip
# Of this machine or this client; trials get them from where they run.
NOT_KEPT = (*SECRET_NAMES, "RUN_ID", "STORE", "INPUT_DIR", "OUTPUT_DIR", "GPU_COUNT", "SUBMIT", "FORCE_RESUME")


def tune(
    *,
    competition: str | None = None,
    trials: int | None = None,
    variants: Path | None = None,
    space: Path | None = None,
    engine: str = "local",
    address: str | None = None,
    machine: str = "t4",
    slots: int | None = None,
    gpus: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    study: str | None = None,
    resume: str | None = None,
    storage: str | None = None,
    seed: int = 0,
    hours: float | None = None,
    direction: str | None = None,
    prune: bool = True,
    dry_run: bool = False,
) -> Study | None:
    """Run variants and sampled trials of the training, as many at once as there is room for.

    Args:
        competition: Short for overriding COMPETITION.
        trials: How many sampled trials, beside the variants; with `resume`, how many in all if more than so far.
        variants: A table of parameters, one trial each.
        space: The search space; None: the comments in 02-train's parameters cell.
        engine: "local", "ray" or "kaggle".
        address: Of a Ray cluster.
        machine: Which of Kaggle's machines.
        slots: How many trials at once.
        gpus: Short for overriding GPU_COUNT.
        overrides: Settings and parameters of all trials.
        study: A name for the study.
        resume: Go on with this study.
        storage: Address of an Optuna storage; None: TUNE_STORAGE, else a journal in the study's folder.
        seed: Where sampling starts.
        hours: Stop then; trials at work are saved.
        direction: "maximize" or "minimize"; None: as the competition's metric says.
        prune: End trials early that are worse than the median of the others after the same epoch.
        dry_run: Say what would run, and run nothing.

    Returns:
        The study; None for a dry run.

    Raises:
        UsageError: Nothing to try, or a parameter that cannot be tried.
        MissingError: Something outside is missing: Ray, the storage.
        WorkError: No trial has come to its end.
        KeyboardInterrupt: It was stopped; trials at work are saved.
    """
    given = {"COMPETITION": competition, "GPU_COUNT": gpus, **(overrides or {})}
    common, own = parameters.split([notebook_of("train", competition_of(given))], given)
    settings = load_settings(common)
    if settings.run_id:
        raise UsageError("RUN_ID names one run, and each trial is one.", hint="Leave it out; --study names the study.")
    if engine not in ENGINES:
        raise UsageError(f"There is no engine {engine!r}.", hint="The engines are: " + ", ".join(ENGINES) + ".")
    if address and engine != "ray":
        raise UsageError(f"The engine {engine} has no address.", hint="Leave --address out, or take --engine ray.")
    if engine == "kaggle":
        from kaggle_workbench.tuning.engines.kaggle import refuse_here_only

        refuse_here_only(settings, machine)
    where = storage or (settings.tune_storage.reveal() if settings.tune_storage else None)
    if resume is not None:
        if variants or space or study or own or overrides or competition:
            raise UsageError(
                "A study goes on as it was asked for.", hint="With --resume only --trials, --engine and --hours count."
            )
        found = Study.open(settings, resume, storage=where)
        settings = load_settings({**common, "COMPETITION": found.asked["overrides"]["COMPETITION"]})
        if trials is not None and trials > found.asked["trials"]:
            if not found.space:
                raise UsageError("This study has variants only.", hint="Begin another one for sampled trials.")
            found.asked["trials"] = trials
        if dry_run:
            show.note(f"Study {found.id}: {len(found.trials())} of {found.planned} trials were started.")
            return None
        found.save()
    else:
        asked = _asked(settings, common, own, trials, variants, space, seed=seed, prune=prune)
        if dry_run:
            _say(settings, asked, engine, slots)
            return None
        metric = objective.metric_of(settings)
        asked |= {"metric": metric.name, "greater_is_better": metric.greater_is_better}
        if direction is not None:
            asked["greater_is_better"] = direction == "maximize"
        asked["elsewhere"] = where is not None
        found = Study.create(settings, study, asked, storage=where)
    _run(found, settings, engine, slots=slots, address=address, machine=machine, hours=hours)
    return found


def _run(
    study: Study,
    settings: Settings,
    engine: str,
    *,
    slots: int | None,
    address: str | None,
    machine: str,
    hours: float | None,
) -> None:
    end = time.monotonic() + hours * 3600 if hours else float("inf")
    with study.lock():
        show.note(f"Study {study.id}: {study.planned} trials of {settings.competition}, engine {engine}")
        trainer = make_engine(engine, settings, study.jobs, slots=slots, address=address, machine=machine)
        try:
            rows = Loop(study, trainer, settings.output_dir / "runs", end=end).run()
        except KeyboardInterrupt:
            show.note(
                f"Go on with: ./kwb tune --resume {study.id}" + ("" if engine == "local" else f" --engine {engine}")
            )
            raise
        finally:
            trainer.close()
    left = study.planned - sum(row["status"] != "not done" for row in rows)
    failed = [row for row in rows if row["status"] == "failed"]
    if failed:
        show.warn(
            f"{show.plural(len(failed), 'trial')} failed. What each said stands in {study.jobs} and in the table."
        )
    if left:
        show.note(f"{show.plural(left, 'trial')} left. Go on with: ./kwb tune --resume {study.id}")
    elif not any(row["status"] == "done" for row in rows):
        raise WorkError(f"No trial of study {study.id} came to its end.", hint=f"The table: {study.folder / TABLE}.csv")


def _asked(
    settings: Settings,
    common: Mapping[str, Any],
    own: Mapping[str, Any],
    trials: int | None,
    variants: Path | None,
    space: Path | None,
    *,
    seed: int,
    prune: bool,
) -> dict[str, Any]:
    """What study.json holds, checked as far as can be without running."""
    notebook = notebook_of("train", competition_of(common))
    declared = parameters.declared(notebook)
    tables = [
        _typed(row, common, notebook, number)
        for number, row in enumerate(read_variants(variants) if variants else [], 1)
    ]
    dimensions = read_space(declared, space) if trials or space else []
    if trials and not dimensions:
        raise UsageError(
            "There is no search space, so nothing can be sampled.",
            hint="Write a comment behind a parameter in 02-train's parameters cell, such as\n"
            "    EPOCHS = None  # search: 2..6\nor give --space FILE, or a table of --variants.",
        )
    if not trials and not tables:
        raise UsageError("Nothing to try.", hint="Say how many trials: --trials N; or give a table: --variants FILE.")
    for dimension in dimensions:
        for value in dimension.examples:
            _check(dimension.name, value, common, notebook, f"The search space's {dimension}")
    kept = {
        name: getattr(settings, name.lower()) for name in settings.origins if name in SETTINGS and name not in NOT_KEPT
    }
    fixed = {**kept, **own, "COMPETITION": settings.competition, "SOURCE": source_kind(settings)}
    return {
        "trials": trials or 0,
        "variants": tables,
        "space": entries(dimensions),
        "overrides": fixed,
        "seed": seed,
        "prune": prune,
    }


def _typed(row: Mapping[str, Any], common: Mapping[str, Any], notebook: Path, number: int) -> dict[str, Any]:
    """A variant's values as settings and the notebook mean them."""
    typed = {}
    for name, value in row.items():
        typed[name] = _check(name, value, common, notebook, f"Variant {number}")
    return typed


def _check(name: str, value: Any, common: Mapping[str, Any], notebook: Path, where: str) -> Any:
    """The value as it is meant.

    Raises:
        UsageError: No such parameter, one that is not tried, or a value that does not fit.
    """
    if name in NOT_TRIED:
        raise UsageError(f"{where}: {name} is the same for all trials of a study.", hint=f"Give it by --set {name}=...")
    try:
        setting, own = parameters.split([notebook], {name: value})
        if setting:
            return getattr(load_settings({**common, name: value}), name.lower())
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None
    return own[name]


def _say(settings: Settings, asked: Mapping[str, Any], engine: str, slots: int | None) -> None:
    show.note(
        f"Would try {show.plural(len(asked['variants']), 'variant')} and sample "
        f"{show.plural(asked['trials'], 'trial')} of {settings.competition}, engine {engine}"
        + (f", {slots} at once" if slots else "")
    )
    lines: Sequence[Any] = [Dimension(e["name"], **_rest(e)) for e in asked["space"]]
    for line in [*asked["variants"], *lines]:
        show.note(f"  {line}")
    show.note("Dry run: nothing was run.")


def _rest(entry: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in entry.items() if key != "name"}
    return {"choices": tuple(rest["choices"])} if "choices" in rest else rest
