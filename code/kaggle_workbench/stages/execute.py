"""Running stages without a person: papermill executes the notebooks, the executed copies stay with the run."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench import errors, show
from kaggle_workbench.errors import MissingError, PausedError, UsageError, WorkbenchError, WorkError
from kaggle_workbench.files import disk_errors, make_folder, write_json
from kaggle_workbench.masking import hidden
from kaggle_workbench.records import RECORD_FILE, Run
from kaggle_workbench.settings import HANDED_ON, SETTINGS, Settings, load_settings
from kaggle_workbench.stages import parameters, stored
from kaggle_workbench.stages import resume as going_on
from kaggle_workbench.stages.kernel import Stopper
from kaggle_workbench.stages.notebooks import STAGES, competition_of, notebook_of
from kaggle_workbench.stores import Store

# Longest wait for the last uploads of a stage.
SEND_S = 300.0
LAST_SEND_S = 15.0


def run_stages(
    stages: Sequence[str] = (),
    *,
    overrides: Mapping[str, Any] | None = None,
    competition: str | None = None,
    gpus: int | None = None,
    resume: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Run | None:
    """Run stages one after the other, as one run.

    Args:
        stages: Names from `STAGES`, in any order; none means all, with `resume` those that are not done. They run in
            their own order.
        overrides: Settings and the notebooks' own parameters by name, as of the command line.
        competition: Short for overriding COMPETITION.
        gpus: Short for overriding GPU_COUNT.
        resume: Go on with this run (its name or an unambiguous beginning), here or in the store.
        force: Go on also from a checkpoint of another model, data or version; short for overriding FORCE_RESUME.
        dry_run: Say what would run, and run nothing.

    Returns:
        The run, or None for a dry run.

    Raises:
        UsageError: An unknown stage, setting, parameter or run, or nothing trained that could be submitted.
        PausedError: A training was saved and stopped; the message says how to go on.
        KeyboardInterrupt: It was stopped without anything to save.
        WorkbenchError: What stopped a stage, with its own exit code.
    """
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown:
        raise UsageError(f"There is no stage {unknown[0]!r}.", hint="The stages are: " + ", ".join(STAGES) + ".")
    given: dict[str, Any] = {"COMPETITION": competition, "GPU_COUNT": gpus, **(overrides or {})}
    wanted = [stage for stage in STAGES if stage in stages or not stages]
    slug = competition_of(going_on.find(_settings(given), resume) if resume is not None else given)
    given, own = parameters.split([notebook_of(stage, slug) for stage in wanted], given)
    if force:
        given["FORCE_RESUME"] = True
    if resume is not None:
        given = going_on.find(given, resume)
    settings = load_settings(given)
    store = stored.store_of(settings)
    if settings.run_id and resume is None and store is not None:
        going_on.look(settings, settings.run_id, checkpoints="train" in wanted)
    notes: list[str] = list(settings.notes)
    if settings.run_id and going_on.is_here(settings, settings.run_id):
        run = Run.open(settings.output_dir, settings.run_id, hide=hidden(settings))
        if resume is not None and not stages:
            wanted = going_on.left_to_do(run.read())
        if "train" in wanted:
            if not dry_run:
                going_on.settle(run, "train")
            taken, said = going_on.carried(settings, given, run)
            kept, differs = going_on.carried_own(own, run, notebook_of("train", slug))
            given, own, notes = {**given, **taken}, {**own, **kept}, notes + said + differs
            settings = load_settings(given)
    run_id = settings.run_id or new_run_id(settings, wanted, claim=not dry_run)
    for sentence in notes:
        show.warn(sentence)
    if not wanted:
        show.note(f"Run {run_id} is done: trained and submitted. Nothing is left to do.")
        return Run.open(settings.output_dir, run_id)
    show.note(f"Run {run_id}: {', '.join(wanted)} of {settings.competition}, on {settings.place.title}")
    if dry_run:
        for stage in wanted:
            notebook = notebook_of(stage, slug)
            show.note(f"  would run {notebook.relative_to(settings.root) if settings.root else notebook}")
        show.note("Dry run: nothing was run." + ("" if "submit" not in wanted else f" {_would_submit(settings)}"))
        return None
    folder = settings.output_dir / "runs" / run_id
    make_folder(folder)
    is_new = not any(folder.iterdir())
    for stage in wanted:
        try:
            # From here on a stop is answered, also while papermill is being imported.
            with Stopper(stage) as stopper:
                _execute(stopper, notebook_of(stage, slug), folder, {**given, "RUN_ID": run_id}, own, settings)
        except KeyboardInterrupt:
            if stage == "train" and going_on.goes_on(_record(folder), folder):
                show.note(f"What was saved before stands. Go on with: ./kwb run train --resume {run_id}")
            raise
        finally:
            if is_new and not (folder / RECORD_FILE).is_file():
                # Stopped before its first cell: there is no run.
                shutil.rmtree(folder, ignore_errors=True)
            _keep(folder, settings, store)
    show.note(f"Done: {folder}\n`./kwb runs show {run_id}` tells it in full.")
    return Run.open(settings.output_dir, run_id)


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in SETTINGS}


def new_run_id(settings: Settings, stages: Sequence[str], *, claim: bool) -> str:
    """The run that these stages belong to: a new one, or for "submit" alone the one trained last.

    A new run is named by its start (UTC) and its stage, or by the competition when it has several stages.

    Args:
        settings: Settings in force.
        stages: The stages, in their order.
        claim: Take a new run's folder at once, so that no other run gets it.

    Raises:
        UsageError: Nothing is trained yet that could be submitted.
    """
    if stages[0] == "submit":
        from kaggle_workbench.competition.connect import source_kind

        return stored.trained_last(settings, source_kind(settings))
    base = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{stages[0] if len(stages) == 1 else settings.competition[:50]}"
    number = 1
    while not _is_free(settings.output_dir / "runs" / (base if number == 1 else f"{base}-{number}"), claim=claim):
        number += 1
    return base if number == 1 else f"{base}-{number}"


def _is_free(folder: Path, *, claim: bool) -> bool:
    """Whether no run has this folder; `claim` takes it at once, since another run may begin in the same second."""
    if not claim:
        return not folder.exists()
    make_folder(folder.parent)
    try:
        with disk_errors(folder):
            folder.mkdir()
    except FileExistsError:
        return False
    return True


def _would_submit(settings: Settings) -> str:
    if settings.source == "practice":
        return "The submit stage would submit to the practice arena."
    return (
        f"The submit stage would spend a submission of {settings.competition} on Kaggle."
        if settings.submit
        else "The submit stage would only check the file on Kaggle (SUBMIT is false); practice always submits."
    )


def _execute(
    stopper: Stopper,
    notebook: Path,
    folder: Path,
    given: Mapping[str, Any],
    own: Mapping[str, Any],
    settings: Settings,
) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    names = parameters.declared(notebook)
    own = {name: value for name, value in own.items() if name in names}
    injected = {name: _typed(name, value, settings) for name, value in given.items() if name in names}
    executed = folder / notebook.name
    started = time.monotonic()
    show.note(f"== {notebook.stem}")
    try:
        with _environment(given, own), disk_errors(executed):
            papermill.execute_notebook(
                str(notebook),
                str(executed),
                parameters={**injected, **own},
                cwd=str(notebook.parent),
                kernel_name="python3",
                progress_bar=False,
                stdout_file=_Indented(),
                # Else kernels tell of their unencrypted connection to themselves, and of the interrupt with which
                # they are ended; what a cell meets arrives as an error of the notebook.
                extra_arguments=["--log-level=CRITICAL"],
                **stopper.options(),
            )
    except PapermillExecutionError as error:
        if error.ename == "KeyboardInterrupt":
            _raise_if_paused(folder)
            # An interrupt may come just after the stage wrote itself down, and before it watches for one.
            _settle(folder, KeyboardInterrupt(), settings)
            raise KeyboardInterrupt from None
        raise _told(error.ename, error.evalue, notebook, executed) from error
    except DeadKernelError as error:
        dead = _dead(notebook, stopper)
        _settle(folder, dead, settings)
        if stopper.asked:
            show.warn(str(dead))
            raise KeyboardInterrupt from None
        raise dead from error
    except KeyboardInterrupt as stop:
        _settle(folder, stop, settings)
        raise
    finally:
        _forget_paths(executed)
    show.note(f"   done in {time.monotonic() - started:.0f} s")
    if stopper.asked:
        # It came to its end before it was asked; what comes next was not wanted any more.
        raise KeyboardInterrupt


def _record(folder: Path) -> dict[str, Any]:
    """A run's record; one without steps when it was stopped before there was one."""
    return Run(folder).read() if (folder / RECORD_FILE).is_file() else {"steps": []}


def _raise_if_paused(folder: Path) -> None:
    """A stop that came when the training was at its end is a pause, too."""
    step = (_record(folder)["steps"] or [{}])[-1]
    if step.get("status") == "paused" and step.get("error"):
        raise PausedError(step["error"]["message"], hint=step["error"]["hint"])


def _dead(notebook: Path, stopper: Stopper) -> WorkError:
    if stopper.killed:
        return WorkError(
            f"{notebook.name} did not stop in time and was ended.",
            hint="Its newest checkpoint stands: go on with --resume RUN." if stopper.stage == "train" else "",
        )
    return WorkError(
        f"{notebook.name} was ended from outside: its kernel died, most often because memory ran out.",
        hint="Close other programs or lower BATCH_SIZE, then run the stage again"
        + ("; a training goes on from its newest checkpoint with --resume RUN." if stopper.stage == "train" else "."),
    )


def _keep(folder: Path, settings: Settings, store: Store | None) -> None:
    """After a stage, however it ended: the run as one page, and all files into the store."""
    if not (folder / RECORD_FILE).is_file():
        return
    _report(folder)
    if store is None:
        return
    run = Run(folder, hide=hidden(settings))
    uploader = stored.uploader_for(run, store)
    # What the stage itself could not send in all its time is not waited for as long again.
    missing = ((run.read()["steps"] or [{}])[-1].get("store") or {}).get("missing")
    try:
        stored.send(run, uploader)
        if not uploader.finish(LAST_SEND_S if missing else SEND_S):
            for sentence in uploader.problems():
                show.warn(sentence)
            show.warn(f"All of it stands in {folder}.")
    except KeyboardInterrupt:
        show.warn(f"Not waiting for the store any longer. All of it stands in {folder}.")
    finally:
        uploader.close()


def _report(folder: Path) -> None:
    try:
        from kaggle_workbench.stages.report import write_report
    except ImportError:
        return
    try:
        write_report(folder)
    except Exception as error:
        # The page is a view of what is there; a run must not fail by it.
        show.warn(f"report.html was not written ({error}).")


def _typed(name: str, value: Any, settings: Settings) -> Any:
    # The injected cell should read `EPOCHS = 5`, not `EPOCHS = "5"`.
    parsed = getattr(settings, name.lower()) if name != "RUN_ID" else value
    return parsed if isinstance(parsed, bool | int | float | str) else value


@contextmanager
def _environment(given: Mapping[str, Any], own: Mapping[str, Any]) -> Iterator[None]:
    """The overrides as environment of the kernel, so that settings without a parameter arrive, too."""
    before = dict(os.environ)
    # A kernel is told apart from a person's by this name; papermill's stage must not open progress widgets.
    os.environ.update({name: str(value) for name, value in given.items() if value is not None}, KWB_EXECUTED="1")
    os.environ[HANDED_ON] = ",".join(given)
    os.environ.update(parameters.to_environment(own))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class _Indented:
    """What the notebook prints, shown on stderr as it comes, set off from our own lines."""

    def write(self, text: str) -> None:
        for line in text.splitlines():
            if line.strip():
                print(f"   {line.rstrip()}", file=sys.stderr, flush=True)

    def flush(self) -> None:
        sys.stderr.flush()


def _told(name: str, text: str, notebook: Path, executed: Path) -> WorkbenchError:
    """The error a notebook ended with, as the same kind of error here."""
    message, _, hint = text.partition("\n")
    if name == PausedError.__name__:
        return PausedError(message, hint=hint)
    where = f"The executed notebook shows the cell: {executed}"
    for kind in _kinds():
        if kind.__name__ == name:
            told = WorkbenchError(f"{notebook.name} stopped: {message}", hint="\n".join(filter(None, (hint, where))))
            told.exit_code = kind.exit_code
            return told
    return WorkError(f"{notebook.name} stopped with {name}: {message}", hint=where)


def _kinds() -> list[type[WorkbenchError]]:
    import kaggle_workbench.kaggle_api.errors  # noqa: F401  (so that its kinds are known)

    found: list[type[WorkbenchError]] = [errors.WorkbenchError]
    for kind in found:
        found += kind.__subclasses__()
    return found


def _settle(folder: Path, error: BaseException, settings: Settings) -> None:
    if (folder / "record.json").is_file():
        Run(folder, hide=hidden(settings)).settle(error)


def _forget_paths(executed: Path) -> None:
    """Papermill writes the notebooks' absolute paths into the executed copy; a name is enough there."""
    if not executed.is_file():
        return
    try:
        document = json.loads(executed.read_text(encoding="utf-8"))
    except ValueError:
        # Cut off by a full disk.
        return
    facts = document.get("metadata", {}).get("papermill", {})
    for key in ("input_path", "output_path"):
        if facts.get(key):
            facts[key] = Path(facts[key]).name
    try:
        write_json(executed, document)
    except MissingError as error:
        # The notebook itself stands; what it ended with must not be hidden by this.
        show.warn(error.message)
