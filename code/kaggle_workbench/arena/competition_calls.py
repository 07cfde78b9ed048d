"""CompetitionApiService, the reading half: competitions, their pages, files and downloads."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from flask import Response

from kaggle_workbench.arena import downloads, leaderboard
from kaggle_workbench.arena.answers import ApiError, page, text, when, wire
from kaggle_workbench.arena.competitions import Competition
from kaggle_workbench.arena.context import Call

RULES_FIRST = "You must accept this competition's rules before you'll be able to download files."


def list_competitions(call: Call) -> dict[str, Any]:
    """C/ListCompetitions: search, tab, category, order, paging."""
    wanted = text(call.body, "search").lower()
    found: Iterable[Competition] = call.context.hosting.all().values()
    found = [each for each in found if not each.gone and wanted in f"{each.slug} {each.title} {each.category}".lower()]
    tab = text(call.body, "group").removeprefix("COMPETITION_LIST_TAB_")
    if tab == "ENTERED":
        found = [each for each in found if call.context.has_entered(call.who, each)]
    elif tab not in ("", "GENERAL", "EVERYTHING", "COMMUNITY"):
        found = []
    segment = text(call.body, "category").removeprefix("HOST_SEGMENT_")
    if segment not in ("", "UNSPECIFIED"):
        found = [each for each in found if each.category.upper().replace(" ", "_") == segment]
    order: dict[str, Callable[[Competition], Any]] = {
        "EARLIEST_DEADLINE": lambda each: each.deadline.timestamp() if each.deadline else float("inf"),
        "LATEST_DEADLINE": lambda each: -each.deadline.timestamp() if each.deadline else float("-inf"),
        "RECENTLY_CREATED": lambda each: -each.date.timestamp(),
    }
    key = order.get(text(call.body, "sortBy").removeprefix("COMPETITION_SORT_BY_"), lambda each: each.title.lower())
    rows, following = page(sorted(found, key=key), call.body)
    return wire(competitions=[_described(call, each) for each in rows], next_page_token=following)


def get_competition(call: Call) -> dict[str, Any]:
    """C/GetCompetition: one competition."""
    return _described(call, call.competition())


def list_pages(call: Call) -> dict[str, Any]:
    """C/ListCompetitionPages: description and rules."""
    competition = call.competition()
    texts = {"description": competition.description, "evaluation": competition.metric.title, "rules": competition.rules}
    name = text(call.body, "pageName")
    pages = [
        wire(name=each, content=content, is_published=True, mime_type="text/markdown")
        for each, content in texts.items()
        if content and name in ("", each)
    ]
    return wire(pages=pages)


def list_data_files(call: Call) -> dict[str, Any]:
    """C/ListDataFiles: works before the rules are accepted, as at Kaggle."""
    competition = call.competition()
    rows, following = page(competition.files, call.body)
    files = [
        wire(ref=each.name, name=each.name, total_bytes=each.size, creation_date=when(competition.date))
        for each in rows
    ]
    return wire(files=files, next_page_token=following)


def download_data_files(call: Call) -> Response:
    """C/DownloadDataFiles: redirect to the archive."""
    competition = call.competition()
    call.require_rules(competition, RULES_FIRST)
    return call.to_storage(f"/storage/competitions/{competition.slug}/all/{competition.slug}.zip")


def download_data_file(call: Call) -> Response:
    """C/DownloadDataFile: redirect to one file, or to `name.zip` when it is large."""
    competition = call.competition()
    file = competition.file(text(call.body, "fileName"))
    if file is None:
        raise ApiError(404, "Not found")
    call.require_rules(competition, RULES_FIRST)
    name = downloads.delivered_name(competition, file)
    return call.to_storage(f"/storage/competitions/{competition.slug}/files/{name}")


def _described(call: Call, competition: Competition) -> dict[str, Any]:
    address = f"{call.base}/competitions/{quote(competition.slug)}"
    context = call.context
    rows = leaderboard.standings(context, competition)
    return wire(
        id=_number(competition.slug),
        ref=address,
        url=address,
        title=competition.title,
        description=competition.description,
        category=competition.category,
        reward=competition.reward,
        organization_name="Kaggle Workbench",
        deadline=when(competition.deadline) if competition.deadline else None,
        enabled_date=when(competition.date),
        date_created=when(competition.date),
        team_count=len(rows),
        user_has_entered=context.has_entered(call.who, competition),
        user_rank=next((row.rank for row in rows if row.team == call.who and not row.is_reference), None),
        max_daily_submissions=competition.max_daily_submissions,
        max_team_size=1,
        evaluation_metric=competition.metric.title,
        is_kernels_submissions_only=competition.notebooks_only,
        submissions_disabled=competition.submissions_disabled or competition.over(call.now),
        license_name=competition.licence,
    )


def _number(slug: str) -> int:
    # Any stable number does: clients only show it.
    return zlib.crc32(slug.encode()) % 900_000 + 100_000


METHODS: dict[str, Callable[[Call], dict[str, Any] | Response]] = {
    "ListCompetitions": list_competitions,
    "GetCompetition": get_competition,
    "ListCompetitionPages": list_pages,
    "ListDataFiles": list_data_files,
    "DownloadDataFiles": download_data_files,
    "DownloadDataFile": download_data_file,
}
