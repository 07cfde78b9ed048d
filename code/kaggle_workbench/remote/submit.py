"""`kwb push submit`: what a pushed training left, as a submission of a code competition."""

from __future__ import annotations

from datetime import UTC, datetime

from kaggle_workbench import show
from kaggle_workbench.competition.connect import connect
from kaggle_workbench.errors import RefusedError, UsageError
from kaggle_workbench.kaggle_api import KaggleError, kernels
from kaggle_workbench.kaggle_api.errors import DeniedError
from kaggle_workbench.masking import hidden
from kaggle_workbench.records import Run
from kaggle_workbench.remote.arrival import SUBMISSION_FILE
from kaggle_workbench.remote.ledger import Pushes, saved
from kaggle_workbench.settings import load_settings
from kaggle_workbench.stages import stored


def submit(run: str, *, message: str = "", dry_run: bool = False) -> int | None:
    """Submit the notebook of a run's newest push: the service takes what that version left.

    Args:
        run: The run's name, or an unambiguous beginning of it.
        message: For the list of submissions; by default the run's name.
        dry_run: Check and tell, send nothing.

    Returns:
        The submission's number; None for a dry run.

    Raises:
        UsageError: The run was never pushed.
        RefusedError: It has no finished training there, the competition takes files, or the service refuses; then the
            page where a person can press the button.
        KaggleError: Any other fault.
    """
    settings = load_settings({"SOURCE": "kaggle"})
    run_id = stored.locate(settings, run)
    held = Run.open(settings.output_dir, run_id, hide=hidden(settings))
    record = held.read()
    entry = Pushes(held.folder).newest(run_id)
    kernel, slug = saved(entry), record["competition"]
    if entry["status"] != "pulled" or entry.get("ended") != "done":
        raise RefusedError(
            f"The training of run {run_id} on Kaggle is not known to be finished; nothing was submitted.",
            hint=f"Fetch it first: ./kwb pull {run_id}",
        )
    settings = load_settings({"SOURCE": "kaggle", "COMPETITION": slug})
    with connect(settings) as source:
        client = source.client
        found = client.competition(slug)
        if not found.notebooks_only:
            raise UsageError(
                f"{slug} takes files, not notebooks.", hint=f"Submit the file: ./kwb run submit --set RUN_ID={run_id}"
            )
        show.note(f"Submission to {slug}: {kernel.ref}, version {kernel.version}, file {SUBMISSION_FILE}")
        left = client.limits(slug)
        show.note(f"Submissions left today: {left.left_now}")
        if dry_run:
            show.note("Dry run: nothing was sent.")
            return None
        try:
            ref = kernels.submit(client, slug, kernel, SUBMISSION_FILE, message or run_id)
        except DeniedError as error:
            raise RefusedError(
                f"{client.label} does not take this submission from a program; nothing was submitted. "
                f'It says: "{error.reason.rstrip(".")}."',
                hint=f"Press 'Submit to competition' at {kernel.url}",
            ) from error
        except KaggleError as error:
            if error.maybe_done:
                error.hint = f"Look at {client.endpoint.web}/competitions/{slug}/submissions before you send it again."
            raise
    sent = datetime.now(UTC).isoformat(timespec="seconds")
    held.update(submission={"ref": ref, "file": SUBMISSION_FILE, "message": message or run_id, "sent": sent})
    show.note(f"Submitted as {ref}: {client.endpoint.web}/competitions/{slug}/submissions")
    return ref
