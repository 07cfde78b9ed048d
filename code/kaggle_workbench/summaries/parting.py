"""When CV and the leaderboard part: what is better here is not better there.

Two signs are looked for, over the runs of one competition (and source) that have both scores, at least three of them:

- order: the newest run, or the one that is best by CV, beats another run by CV and loses against it on the
  leaderboard (against the best earlier one by CV, and against the best on the leaderboard);
- gap: the newest run's gap (CV minus public) lies further from the usual one than twice its usual spread.

Usual is the median of the other runs, spread the median distance from it (times 1.4826, so that it is a standard
deviation for normally distributed gaps; Rousseeuw and Croux 1993). No difference counts that chance makes: it must be
larger than the standard error of the CV scores, from their folds, or for accuracy from the number of rows; where
neither is known, than the spread of the gaps and a thousandth of the score.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kaggle_workbench.summaries.listing import groups
from kaggle_workbench.summaries.row import greater_is_better

Row = Mapping[str, Any]

FEWEST = 3
MAD_TO_SD = 1.4826
WIDER = 2.0
ADVICE = (
    "Trust neither alone: look for rows that stand in both parts, and for a held-back part unlike the test data "
    "(docs/runs.md)."
)


def partings(rows: Sequence[Row]) -> list[str]:
    """One sentence for each competition in which CV and leaderboard part; none means that they agree.

    Args:
        rows: As `summary` gives them, in any order.
    """
    found = []
    for (competition, _), runs in groups(rows):
        scored = [row for row in runs if row["CV"] is not None and row["public"] is not None]
        # A metric that was changed in between makes the scores incomparable.
        newest = max(scored, key=lambda row: row["created"], default=None)
        same = [row for row in scored if newest is not None and row.get("metric") == newest.get("metric")]
        if len(same) < FEWEST:
            continue
        signs = [*_order(same), *_gap(same)]
        if signs:
            found.append(f"{competition}: CV and leaderboard part. {' '.join(signs)} {ADVICE}")
    return found


def _order(rows: Sequence[Row]) -> list[str]:
    sign = 1 if greater_is_better(rows[0].get("metric")) else -1
    newest = max(rows, key=lambda row: row["created"])
    earlier = max((row for row in rows if row is not newest), key=lambda row: sign * row["CV"])
    by_cv, by_lb = (max(rows, key=lambda row: sign * row[name]) for name in ("CV", "public"))
    told: list[str] = []
    seen: set[tuple[str, str]] = set()
    for one, other in ((newest, earlier), (by_cv, by_lb)):
        least = _chance(one, other, rows)
        better = sign * (one["CV"] - other["CV"]) > least
        worse = sign * (other["public"] - one["public"]) > least
        if better and worse and (one["run"], other["run"]) not in seen:
            seen.add((one["run"], other["run"]))
            told.append(
                f"By CV {one['run']} ({one['CV']:.5f}) beats {other['run']} ({other['CV']:.5f}); on the leaderboard "
                f"it is the other way round ({one['public']:.5f} against {other['public']:.5f})."
            )
    return told


def _gap(rows: Sequence[Row]) -> list[str]:
    newest = max(rows, key=lambda row: row["created"])
    others = [row for row in rows if row is not newest]
    usual = statistics.median(row["gap"] for row in others)
    spread = max(_spread(others), _error(newest) or 0.0, abs(newest["CV"]) / 1000)
    distance = newest["gap"] - usual
    if abs(distance) <= WIDER * spread:
        return []
    promised = distance if greater_is_better(newest.get("metric")) else -distance
    side = "worse" if promised > 0 else "better"
    return [
        f"The newest run {newest['run']} is {side} on the leaderboard than its CV says: its gap is "
        f"{newest['gap']:.5f}, usually it is {usual:.5f} (spread {spread:.5f})."
    ]


def _chance(one: Row, other: Row, rows: Sequence[Row]) -> float:
    """The difference of two scores that chance alone makes."""
    errors = [_error(row) for row in (one, other)]
    if errors[0] is not None and errors[1] is not None:
        return math.hypot(errors[0], errors[1])
    return max(_spread(rows), abs(float(one["CV"])) / 1000)


def _spread(rows: Sequence[Row]) -> float:
    gaps: list[float] = [row["gap"] for row in rows]
    middle = statistics.median(gaps)
    return MAD_TO_SD * statistics.median(abs(gap - middle) for gap in gaps)


def _error(row: Row) -> float | None:
    """The standard error of a CV score; None when it is not known."""
    folds = [float(fold) for fold in row.get("CV_folds") or () if isinstance(fold, int | float)]
    if len(folds) > 1:
        return statistics.stdev(folds) / math.sqrt(len(folds))
    count = row.get("CV_rows")
    if row.get("metric") != "accuracy" or not isinstance(count, int) or count < 1:
        return None
    # Agresti and Coull 1998: two right and two wrong rows more, so that a score of 1 has an error, too.
    share = (float(row["CV"]) * count + 2) / (count + 4)
    return math.sqrt(max(share * (1 - share), 0.0) / (count + 4))
