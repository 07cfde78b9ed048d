"""What becomes of a submission: waiting for its score, and its place on the leaderboard."""

from __future__ import annotations

import sys
import time

from kaggle_workbench.competition.budget import is_over
from kaggle_workbench.kaggle_api import Client, KaggleError, Submission
from kaggle_workbench.kaggle_api.errors import GoneError
from kaggle_workbench.show import note, progress

SLOWEST_POLL_S = 15.0
TELL_EVERY_S = 30.0


def wait_for_score(client: Client, submission: Submission, *, timeout_s: float) -> Submission:
    """Ask for a submission's score until it is there or the time is up.

    Failures of single questions are waited out: the submission is made, only its score is asked for.

    Args:
        client: An open connection.
        submission: As it was made.
        timeout_s: Longest wait in seconds.

    Returns:
        The submission; still "pending" when the time is up.
    """
    if submission.status != "pending" or timeout_s <= 0:
        return submission
    started = told = time.monotonic()
    poll_s = client.pace.backoff_s
    waited = ""
    note(f"Waiting for the score of submission {submission.ref} (at most {timeout_s / 60:.0f} min).")
    with progress(round(timeout_s), "scoring", "s") as bar:
        while submission.status == "pending" and (left := started + timeout_s - time.monotonic()) > 0:
            until = time.monotonic() + min(poll_s, left)
            while (pause := until - time.monotonic()) > 0:
                time.sleep(min(pause, 1.0))
                bar.update(round(time.monotonic() - started) - bar.n)
            poll_s = min(1.5 * poll_s, SLOWEST_POLL_S)
            try:
                submission = client.submission(submission.ref)
            except GoneError:
                # A submission made a moment ago may not be readable yet.
                continue
            except KaggleError as error:
                if error.message != waited:
                    note(f"{error.message} The submission is made; asking again for its score.")
                    waited = error.message
            if not sys.stderr.isatty() and time.monotonic() - told > TELL_EVERY_S:
                told = time.monotonic()
                note(f"Still being scored after {told - started:.0f} s.")
    return submission


def standing(client: Client, slug: str, submission: Submission) -> tuple[int | None, int | None]:
    """Your rank and the number of entries; None where the server does not tell.

    The rank is that of your best submission, as the server states it; where it does not, it is the place of this
    score on the leaderboard, as far as that is read.
    """
    competition = client.competition(slug)
    entries = competition.team_count or None
    if competition.user_rank:
        return competition.user_rank, entries
    if is_over(competition) or submission.public_score is None:
        return None, entries
    rows = client.leaderboard(slug)
    rank = next((row.rank for row in rows if row.score == submission.public_score), None)
    return rank, entries or len(rows) or None
