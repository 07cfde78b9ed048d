"""What the gateway answers with: small frozen records in our own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

Status = Literal["pending", "complete", "error"]


@dataclass(frozen=True)
class Competition:
    """A competition as its server describes it; `deadline` is in UTC."""

    slug: str
    title: str
    url: str
    metric: str
    deadline: datetime | None
    max_daily_submissions: int
    user_has_entered: bool
    notebooks_only: bool
    submissions_disabled: bool
    team_count: int
    reward: str
    category: str
    user_rank: int | None = None

    @classmethod
    def parse(cls, wire: Mapping[str, Any], *, slug: str = "") -> Competition:
        """Read the client's answer; `slug` is used when the answer holds none."""
        return cls(
            slug=last_part(wire.get("ref", "") or wire.get("url", "")) or slug,
            title=wire.get("title", ""),
            url=wire.get("url", ""),
            metric=wire.get("evaluationMetric", ""),
            deadline=when(wire.get("deadline")),
            max_daily_submissions=wire.get("maxDailySubmissions", 0),
            user_has_entered=wire.get("userHasEntered", False),
            notebooks_only=wire.get("isKernelsSubmissionsOnly", False),
            submissions_disabled=wire.get("submissionsDisabled", False),
            team_count=wire.get("teamCount", 0),
            reward=wire.get("reward", ""),
            category=wire.get("category", ""),
            user_rank=wire.get("userRank"),
        )


@dataclass(frozen=True)
class RemoteFile:
    """One file of a competition as listed by the server; `size` is of the content, in bytes, 0 when not told."""

    name: str
    size: int
    created: str

    @classmethod
    def parse(cls, wire: Mapping[str, Any]) -> RemoteFile:
        """Read the client's answer."""
        name = wire.get("name") or wire.get("ref", "")
        return cls(name=name, size=wire.get("totalBytes", 0), created=wire.get("creationDate", ""))


@dataclass(frozen=True)
class Submission:
    """One submission; scores are None until they are known, `date` is in UTC, `size` in bytes."""

    ref: int
    file_name: str
    date: datetime | None
    description: str
    status: Status
    public_score: float | None
    private_score: float | None
    error: str
    size: int

    @classmethod
    def parse(cls, wire: Mapping[str, Any]) -> Submission:
        """Read the client's answer; a missing status means pending."""
        return cls(
            ref=wire.get("ref", 0),
            file_name=wire.get("fileName", ""),
            date=when(wire.get("date")),
            description=wire.get("description", ""),
            status=_status(wire.get("status", "PENDING")),
            public_score=_number(wire.get("publicScore")),
            private_score=_number(wire.get("privateScore")),
            error=wire.get("errorDescription", ""),
            size=wire.get("totalBytes", 0),
        )


@dataclass(frozen=True)
class Limits:
    """Submissions used and left; `limited_by_total` when the whole competition's cap is what binds."""

    used_today: int
    used_total: int
    left_now: int
    limited_by_total: bool = False

    @classmethod
    def parse(cls, wire: Mapping[str, Any]) -> Limits:
        """Read the client's answer."""
        return cls(
            wire.get("numToday", 0),
            wire.get("numTotal", 0),
            wire.get("numAllowedNow", 0),
            wire.get("limitedByTotal", False),
        )


@dataclass(frozen=True)
class LeaderboardRow:
    """One line of the leaderboard, `rank` from 1."""

    rank: int
    team: str
    score: float | None
    date: datetime | None

    @classmethod
    def parse(cls, wire: Mapping[str, Any], *, rank: int) -> LeaderboardRow:
        """Read the client's answer; the wire holds no rank, the order is it."""
        return cls(rank, wire.get("teamName", ""), _number(wire.get("score")), when(wire.get("submissionDate")))


def when(text: str | None) -> datetime | None:
    """A time of the wire (UTC, `2026-01-01T00:00:00.000Z`), None when absent or unreadable."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def last_part(address: str) -> str:
    """The slug at the end of a competition's address."""
    return address.split("?")[0].rstrip("/").rsplit("/", 1)[-1]


def _status(name: str) -> Status:
    short = name.upper().removeprefix("SUBMISSION_STATUS_")
    return "complete" if short == "COMPLETE" else "error" if short == "ERROR" else "pending"


def _number(text: str | None) -> float | None:
    # Scores travel as text, "" when there is none yet.
    try:
        return float(text) if text not in (None, "") else None
    except ValueError:
        return None
