"""The leaderboard: each participant's best score, with the reference entries among them, marked."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

from kaggle_workbench.arena.competitions import Competition
from kaggle_workbench.arena.context import Context
from kaggle_workbench.arena.scoring import BadSubmissionError, Scores, score
from kaggle_workbench.errors import WorkError

REFERENCE_MARK = " (reference)"
# Far above any team's number, so that both kinds of row keep distinct ones.
FIRST_REFERENCE_TEAM = 9_000_001

_lock = threading.Lock()
_references: dict[tuple[str, str, str, float], Scores] = {}


@dataclass(frozen=True)
class Standing:
    """One row: rank from 1, the team, its best score and when that was submitted."""

    rank: int
    team_id: int
    team: str
    score: float
    date: datetime
    entries: int
    is_reference: bool


def standings(context: Context, competition: Competition, *, private: bool = False) -> list[Standing]:
    """The leaderboard, best first; on a tie the earlier submission stands above.

    Args:
        context: Holds the submissions.
        competition: Whose leaderboard.
        private: By private instead of public score.
    """
    better = 1 if competition.metric.greater_is_better else -1
    best: dict[str, Standing] = {}
    counts: dict[str, int] = {}
    for each in reversed(context.store.submissions(competition.slug, competition.edition)):
        value = each.private if private else each.public
        if each.status != "COMPLETE" or value is None:
            continue
        counts[each.name] = counts.get(each.name, 0) + 1
        held = best.get(each.name)
        if held is None or better * value > better * held.score:
            date = datetime.fromtimestamp(each.at, UTC)
            best[each.name] = Standing(0, 0, each.name, value, date, 0, is_reference=False)
    found = [
        Standing(0, context.store.team(name), name, row.score, row.date, counts[name], is_reference=False)
        for name, row in best.items()
    ]
    for number, reference in enumerate(competition.references):
        scores = reference_scores(competition, number)
        value = scores.private if private else scores.public
        if value is not None:
            name = reference.name + REFERENCE_MARK
            found.append(
                Standing(0, FIRST_REFERENCE_TEAM + number, name, value, competition.date, 1, is_reference=True)
            )
    found.sort(key=lambda row: (-better * row.score, row.date))
    return [
        Standing(rank, row.team_id, row.team, row.score, row.date, row.entries, row.is_reference)
        for rank, row in enumerate(found, 1)
    ]


def reference_scores(competition: Competition, number: int) -> Scores:
    """Scores of a reference entry, computed from its stored predictions and kept in memory.

    Raises:
        WorkError: The stored predictions cannot be scored.
    """
    file = competition.references[number].file
    key = (competition.slug, competition.edition, str(file), file.stat().st_mtime)
    with _lock:
        if key not in _references:
            try:
                _references[key] = score(competition, file)
            except BadSubmissionError as error:
                raise WorkError(
                    f"The reference {file} cannot be scored: {error}",
                    hint="Take it out of references in the competition's competition.json, or correct it.",
                ) from None
        return _references[key]


def rank_of(context: Context, competition: Competition, who: str) -> int:
    """A participant's rank on the public leaderboard; 0 without a score."""
    return next((row.rank for row in standings(context, competition) if not row.is_reference and row.team == who), 0)
