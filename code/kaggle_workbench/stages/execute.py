"""Running stages without a person: papermill executes the notebooks, the executed copies stay with the run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench import errors, show
from kaggle_workbench.errors import UsageError, WorkbenchError, WorkError
from kaggle_workbench.files import disk_errors, make_folder, write_json
from kaggle_workbench.masking import hidden
from kaggle_workbench.records import Run
from kaggle_workbench.settings import Settings, load_settings, require_root

STAGES: Mapping[str, str] = {"data": "01-data.ipynb", "train": "02-train.ipynb", "submit": "03-submit.ipynb"}


def run_stages(
    stages: Sequence[str] = (),
    *,
    overrides: Mapping[str, Any] | None = None,
    competition: str | None = None,
    gpus: int | None = None,
    dry_run: bool = False,
) -> Run | None:
    """Run stages one after the other, as one run.

    Args:
        stages: Names from `STAGES`, in any order; none means all. They run in their own order.
        overrides: Settings by name, as of the command line.
        competition: Short for overriding COMPETITION.
        gpus: Short for overriding GPU_COUNT.
        dry_run: Say what would run, and run nothing.

    Returns:
        The run, or None for a dry run.

    Raises:
        UsageError: An unknown stage or setting, or nothing trained that could be submitted.
        WorkbenchError: What stopped a stage, with its own exit code.
    """
    unknown = [stage for stage in stages if stage not in STAGES]
    if unknown:
        raise UsageError(f"There is no stage {unknown[0]!r}.", hint="The stages are: " + ", ".join(STAGES) + ".")
    wanted = [stage for stage in STAGES if stage in stages or not stages]
    given = {"COMPETITION": competition, "GPU_COUNT": gpus, **(overrides or {})}
    given = {name: value for name, value in given.items() if value is not None}
    settings = load_settings(given)
    root = settings.root or require_root()
    run_id = settings.run_id or new_run_id(settings, wanted[0], claim=not dry_run)
    for sentence in settings.notes:
        show.warn(sentence)
    show.note(f"Run {run_id}: {', '.join(wanted)} of {settings.competition}, on {settings.place.title}")
    if dry_run:
        for stage in wanted:
            show.note(f"  would run code/{STAGES[stage]}")
        show.note("Dry run: nothing was run." + ("" if "submit" not in wanted else f" {_would_submit(settings)}"))
        return None
    folder = settings.output_dir / "runs" / run_id
    make_folder(folder)
    for stage in wanted:
        _execute(root / "code" / STAGES[stage], folder, {**given, "RUN_ID": run_id}, settings)
    show.note(f"Done: {folder}\n`kwb runs show {run_id}` tells it in full.")
    return Run.open(settings.output_dir, run_id)


def new_run_id(settings: Settings, first: str, *, claim: bool) -> str:
    """The run that stages beginning with `first` belong to: a new one, or for "submit" the one trained last.

    Args:
        settings: Settings in force.
        first: The first stage.
        claim: Take a new run's folder at once, so that no other run gets it.

    Raises:
        UsageError: Nothing is trained yet that could be submitted.
    """
    if first == "submit":
        from kaggle_workbench.competition.connect import source_kind

        run = Run.newest(
            settings.output_dir, competition=settings.competition, source=source_kind(settings), trained=True
        )
        if run is None:
            raise UsageError(
                f"No trained run of {settings.competition} was found in {settings.output_dir / 'runs'}.",
                hint="Train first: kwb run data train",
            )
        return run.id
    base = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{first}"
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


def _execute(notebook: Path, folder: Path, given: Mapping[str, Any], settings: Settings) -> None:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    declared = papermill.inspect_notebook(str(notebook))
    parameters = {name: _typed(name, value, settings) for name, value in given.items() if name in declared}
    executed = folder / notebook.name
    started = time.monotonic()
    show.note(f"== {notebook.stem}")
    try:
        with _environment(given):
            papermill.execute_notebook(
                str(notebook),
                str(executed),
                parameters=parameters,
                cwd=str(notebook.parent),
                kernel_name="python3",
                progress_bar=False,
                stdout_file=_Indented(),
                # Else kernels tell of their unencrypted connection to themselves, and of the interrupt with which
                # they are ended; what a cell meets arrives as an error of the notebook.
                extra_arguments=["--log-level=CRITICAL"],
            )
    except PapermillExecutionError as error:
        raise _told(error.ename, error.evalue, notebook, executed) from error
    except DeadKernelError as error:
        dead = WorkError(
            f"{notebook.name} was ended from outside: its kernel died, most often because memory ran out.",
            hint="Close other programs or lower BATCH_SIZE, then run the stage again.",
        )
        _settle(folder, dead, settings)
        raise dead from error
    except KeyboardInterrupt as stop:
        _settle(folder, stop, settings)
        raise
    finally:
        _forget_paths(executed)
    show.note(f"   done in {time.monotonic() - started:.0f} s")


def _typed(name: str, value: Any, settings: Settings) -> Any:
    # The injected cell should read `EPOCHS = 5`, not `EPOCHS = "5"`.
    parsed = getattr(settings, name.lower()) if name != "RUN_ID" else value
    return parsed if isinstance(parsed, bool | int | float | str) else value


@contextmanager
def _environment(given: Mapping[str, Any]) -> Iterator[None]:
    """The overrides as environment of the kernel, so that settings without a parameter arrive, too."""
    before = dict(os.environ)
    # A kernel is told apart from a person's by this name; papermill's stage must not open progress widgets.
    os.environ.update({name: str(value) for name, value in given.items()}, KWB_EXECUTED="1")
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
    document = json.loads(executed.read_text(encoding="utf-8"))
    facts = document.get("metadata", {}).get("papermill", {})
    for key in ("input_path", "output_path"):
        if facts.get(key):
            facts[key] = Path(facts[key]).name
    write_json(executed, document)
