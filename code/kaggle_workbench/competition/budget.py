"""What a submission may cost: whether it would be taken at all, and how many are left."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kaggle_workbench.kaggle_api import Client, Competition
from kaggle_workbench.kaggle_api.errors import (
    ClosedError,
    DailyLimitError,
    DeniedError,
    GoneError,
    NotebooksOnlyError,
    RulesError,
)
from kaggle_workbench.show import note


def require_entered(client: Client, competition: Competition) -> None:
    """Refuse when the rules are not accepted.

    Raises:
        RulesError: You have not joined.
    """
    if not competition.user_has_entered:
        raise RulesError(
            f"You have not joined {competition.slug}: its rules are not accepted yet. Nothing was sent.",
            hint=f"Open {page(client, competition.slug, '/rules')}, accept them there, then run this again.",
        )


def require_left(client: Client, competition: Competition) -> int | None:
    """Refuse what the server would refuse only after the upload.

    Returns:
        Submissions left now; None when the server does not say.

    Raises:
        NotebooksOnlyError: It takes no files.
        ClosedError: It takes no submissions.
        DailyLimitError: None is left.
    """
    slug = competition.slug
    if competition.notebooks_only:
        raise NotebooksOnlyError(
            f"{slug} takes notebooks, not files. Nothing was sent.",
            hint=f"Submit from a notebook on Kaggle itself: {page(client, slug, '/code')}",
        )
    if competition.submissions_disabled:
        raise ClosedError(
            f"{slug} takes no submissions (any more). Nothing was sent.",
            hint=f"See {page(client, slug)} for its dates; another competition is chosen with COMPETITION.",
        )
    if is_over(competition) and competition.deadline is not None:
        note(f"The deadline was {competition.deadline:%Y-%m-%d}: a late submission is scored, but not ranked.")
    left = left_today(client, competition)
    if left == 0:
        now = datetime.now(UTC)
        midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        allowed = f" ({competition.max_daily_submissions} a day)" if competition.max_daily_submissions else ""
        raise DailyLimitError(
            f"No submission to {slug} is left for today{allowed}. Nothing was sent.",
            hint=f"Try again after midnight UTC, in {(midnight - now).total_seconds() / 3600:.1f} h.",
        )
    return left


def left_today(client: Client, competition: Competition) -> int | None:
    """Submissions left now; None when the server does not say."""
    try:
        limits = client.limits(competition.slug)
    except (DeniedError, GoneError):
        # Before the first submission there may be nothing to answer with.
        return competition.max_daily_submissions or None
    if not (limits.left_now or limits.used_today or limits.used_total):
        # All zero means "none made yet", not "none left".
        return competition.max_daily_submissions or None
    return limits.left_now


def is_over(competition: Competition) -> bool:
    """Whether the deadline has passed: a late submission is scored, but not ranked."""
    return competition.deadline is not None and competition.deadline < datetime.now(UTC)


def told(left: int | None, competition: Competition) -> str:
    """The budget in one line."""
    if left is None:
        return "Budget: the server does not say how many submissions are left."
    of = f" of {competition.max_daily_submissions}" if competition.max_daily_submissions else ""
    return f"Budget: {left}{of} submissions left today; this one leaves {left - 1}."


def page(client: Client, slug: str, tail: str = "") -> str:
    """Address of a competition's page."""
    return f"{client.endpoint.web}/competitions/{slug}{tail}"
