"""CompetitionApiService, the leaderboard."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable
from typing import Any

from flask import Response

from kaggle_workbench.arena import leaderboard
from kaggle_workbench.arena.answers import page, score_text, when, wire
from kaggle_workbench.arena.context import Call

COLUMNS = ["Rank", "TeamId", "TeamName", "LastSubmissionDate", "Score", "SubmissionCount", "TeamMemberUserNames"]


def get_leaderboard(call: Call) -> dict[str, Any]:
    """C/GetLeaderboard: private after the deadline, unless the public one is asked for."""
    competition = call.competition()
    private = competition.over(call.now) and not call.body.get("overridePublic")
    rows, following = page(leaderboard.standings(call.context, competition, private=private), call.body)
    shown = [
        wire(team_id=row.team_id, team_name=row.team, submission_date=when(row.date), score=score_text(row.score))
        for row in rows
    ]
    return wire(submissions=shown, next_page_token=following)


def download_leaderboard(call: Call) -> Response:
    """C/DownloadLeaderboard: the public leaderboard as a zip with one CSV, columns as Kaggle's."""
    competition = call.competition()
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in leaderboard.standings(call.context, competition):
        date = row.date.strftime("%Y-%m-%d %H:%M:%S")
        member = "" if row.is_reference else row.team
        writer.writerow([row.rank, row.team_id, row.team, date, score_text(row.score), row.entries, member])
    content = io.BytesIO()
    name = f"{competition.slug}-publicleaderboard-{call.now:%Y-%m-%dT%H:%M:%S}.csv"
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, "\ufeff" + table.getvalue())
    return Response(
        content.getvalue(),
        mimetype="application/zip",
        headers={"Content-Disposition": f'attachment; filename="{competition.slug}.zip"'},
    )


METHODS: dict[str, Callable[[Call], dict[str, Any] | Response]] = {
    "GetLeaderboard": get_leaderboard,
    "DownloadLeaderboard": download_leaderboard,
}
