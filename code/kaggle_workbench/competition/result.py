"""What came of a submission, for programs and for people."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from kaggle_workbench.show import plural


@dataclass(frozen=True)
class Result:
    """What came of a submission.

    Attributes:
        competition: Slug.
        source: "kaggle" or "practice".
        file: Name of the file.
        sha256: Of the predictions as text.
        message: As asked for, without our mark.
        status: "complete", "pending" (not scored yet) or "planned" (a dry run).
        ref: The server's number; None for a dry run.
        public: Public score; None until scored.
        private: Private score, where the server tells it.
        rank: Your rank on the leaderboard, by your best submission.
        entries: Number of entries there.
        left_today: Submissions left; None when the server does not say.
        already: The same predictions were sent before; nothing was sent now.
        url: Page with your submissions; "" for practice.
        text: The result in plain words.
    """

    competition: str
    source: str
    file: str
    sha256: str
    message: str
    status: Literal["complete", "pending", "planned"]
    ref: int | None = None
    public: float | None = None
    private: float | None = None
    rank: int | None = None
    entries: int | None = None
    left_today: int | None = None
    already: bool = False
    url: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values for JSON."""
        return asdict(self)


def told(result: Result) -> str:
    """The result in plain words, for the terminal and the notebook."""
    lines = []
    if result.already:
        lines.append(f"{result.file} was submitted before (submission {result.ref}); nothing was sent now.")
    else:
        lines.append(f"{result.file} is submitted to {result.competition} (submission {result.ref}).")
    if result.status == "pending":
        where = f": {result.url}" if result.url else "."
        lines.append(f"Not scored yet. Run the same command later to read the score (nothing is sent twice){where}")
    if result.public is not None:
        lines.append(f"public score    {result.public:.5f}")
    if result.private is not None:
        lines.append(f"private score   {result.private:.5f}")
    if result.rank is not None:
        of = f" of {result.entries:,}" if result.entries else ""
        lines.append(f"rank            {result.rank:,}{of} (your best submission)")
    if result.left_today is not None:
        lines.append(f"left today      {plural(result.left_today, 'submission')}")
    return "\n".join(lines)
