"""The gateway: typed answers from the real `kaggle` client, which runs in a process of its own."""

from __future__ import annotations

import difflib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from kaggle_workbench.kaggle_api.credentials import KEYS_PAGE
from kaggle_workbench.kaggle_api.endpoint import KAGGLE_WEB, Endpoint
from kaggle_workbench.kaggle_api.errors import (
    KaggleError,
    RateLimitError,
    RulesError,
    ServerError,
    UnknownCompetitionError,
    UnreachableError,
)
from kaggle_workbench.kaggle_api.explain import About, duration, explain
from kaggle_workbench.kaggle_api.process import Fault, Worker
from kaggle_workbench.kaggle_api.types import Competition, LeaderboardRow, Limits, RemoteFile, Submission, last_part
from kaggle_workbench.show import note

OnProgress = Callable[[int, int | None], None]
# The step of an error that came before the call itself.
OPENING = "open"


@dataclass(frozen=True)
class Pace:
    """How long to wait, and how often to try again.

    Attributes:
        start_s: Limit for starting the client and logging in, in seconds.
        call_s: Limit for one call, in seconds.
        stall_s: Limit for a download that brings no byte, in seconds.
        upload_bytes_per_s: An upload slower than this is given up.
        rate_limit_s: Longest wait in all for one call when the server says "too many requests", in seconds.
        tries: Tries of a call that may be repeated, when the server fails or the connection breaks.
        backoff_s: First wait between them, in seconds; each next one is twice as long.
        cuts: Broken connections that the client itself mends within one download.
    """

    start_s: float = 60
    call_s: float = 60
    stall_s: float = 120
    upload_bytes_per_s: float = 50_000
    rate_limit_s: float = 600
    tries: int = 3
    backoff_s: float = 1
    cuts: int = 3


class Client:
    """Calls to one server, which the endpoint decides.

    The client's process starts with the first call and ends with `close()`, with the `with` block, or
    with this process. Every method raises a `KaggleError` that says what, why and what to do.
    """

    def __init__(self, endpoint: Endpoint, *, label: str = "Kaggle", pace: Pace | None = None) -> None:
        self.endpoint = endpoint
        self.label = label
        self.pace = pace or Pace()
        self._worker: Worker | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the client's process; the next call would start another one."""
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None

    def competition(self, slug: str) -> Competition:
        """What the server says about a competition."""
        return Competition.parse(self.call("get_competition", slug=slug), slug=slug)

    def close_matches(self, slug: str) -> list[str]:
        """Slugs that `slug` may be a misspelling of, best first; empty when the search fails."""
        return difflib.get_close_matches(slug, self._search(slug), n=3, cutoff=0.6)

    def _search(self, slug: str) -> list[str]:
        """Slugs of competitions that a search for the slug's words brings up, and of the list's first page."""
        found: dict[str, None] = {}
        words = slug.replace("-", " ")
        for search in dict.fromkeys((words, max(words.split(), key=len, default=words), "")):
            try:
                answer = self.call("list_competitions", about=slug, plain=True, search=search)
            except KaggleError:
                break
            found |= dict.fromkeys(last_part(c.get("ref", "")) for c in answer.get("competitions", []))
            if slug in found or difflib.get_close_matches(slug, found, n=1, cutoff=0.7):
                break
        return list(found)

    def files(self, slug: str, *, limit: int | None = None) -> list[RemoteFile]:
        """The competition's files, by default all of them; listing works before the rules are accepted."""
        rows = self._pages("list_files", "files", slug, limit)
        return [RemoteFile.parse(row) for row in rows]

    def download_archive(self, slug: str, folder: Path, *, on_progress: OnProgress | None = None) -> Path:
        """One download of all files as one archive, going on with what an earlier one left in `folder`.

        Args:
            slug: The competition.
            folder: Folder for the archive and the client's marker of an unfinished one.
            on_progress: Called with the bytes there are and the total (None as long as it is unknown);
                what it raises ends the download.

        Returns:
            The archive. Whether it is whole and right is for the caller to check.
        """
        return self._download("download_archive", folder, on_progress, slug=slug)

    def download_file(self, slug: str, name: str, folder: Path, *, on_progress: OnProgress | None = None) -> Path:
        """Like `download_archive`, for one file; Kaggle may wrap a big one as `<name>.zip`."""
        return self._download("download_file", folder, on_progress, slug=slug, name=name)

    def submit(self, slug: str, file: Path, message: str) -> Submission:
        """Upload a file and make a submission of it, once.

        When the connection breaks at the decisive moment, the list of submissions is read back instead of
        sending again; an error with `maybe_done` set means that even that could not settle it.
        """
        from kaggle_workbench.kaggle_api.submit import submit

        return submit(self, slug, file, message)

    def submission(self, ref: int) -> Submission:
        """One submission by its number."""
        return Submission.parse(self.call("get_submission", ref=ref))

    def submissions(self, slug: str, *, limit: int | None = None) -> list[Submission]:
        """Your submissions to a competition, newest first, by default all of them."""
        return [Submission.parse(row) for row in self._pages("list_submissions", "submissions", slug, limit)]

    def limits(self, slug: str) -> Limits:
        """Submissions used and left; all zero before the first one."""
        return Limits.parse(self.call("get_limits", slug=slug))

    def leaderboard(self, slug: str, *, limit: int = 1000) -> list[LeaderboardRow]:
        """The leaderboard from the top, at most `limit` rows (a page of 200 costs a call)."""
        rows = self._pages("get_leaderboard", "submissions", slug, limit)
        return [LeaderboardRow.parse(row, rank=rank) for rank, row in enumerate(rows, start=1)]

    def _pages(self, call: str, field: str, slug: str, limit: int | None) -> list[dict[str, Any]]:
        return list(self._rows(call, field, slug, limit))[:limit]

    def _rows(self, call: str, field: str, slug: str, limit: int | None) -> Iterator[dict[str, Any]]:
        page, seen, count = "", {""}, 0
        while True:
            answer = self.call(call, slug=slug, page=page)
            rows = answer.get(field, [])
            yield from rows
            count += len(rows)
            page = answer.get("nextPageToken", "")
            # A server that ignores the token would be asked for ever.
            if page in seen or (limit is not None and count >= limit):
                return
            seen.add(page)

    def _download(self, call: str, folder: Path, on_progress: OnProgress | None, **args: Any) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        watch = _Watch(folder, on_progress)
        args |= {"folder": str(folder.resolve()), "retries": self.pace.cuts}
        # The caller goes on after a cut, since it sees whether bytes arrive.
        path = self.call(call, tries=1, limit_s=self.pace.stall_s, moved=watch.moved, **args)
        watch.moved()
        return Path(path)

    def call(
        self,
        call: str,
        *,
        about: str = "",
        tries: int | None = None,
        waits: bool = True,
        plain: bool = False,
        limit_s: float | None = None,
        moved: Callable[[], bool] | None = None,
        **args: Any,
    ) -> Any:
        """Make a call of the worker, again where that is harmless, and wait where the server asks for it.

        Args:
            call: The worker's method.
            about: The competition it is about, when that is not among the arguments.
            tries: Tries when the server fails or the connection breaks; by default the pace's.
            waits: Wait when the server says "too many requests", instead of giving up.
            plain: Give the error as it is, without a search for close matches.
            limit_s: Time limit in seconds.
            moved: See `Worker.ask`.
            **args: The method's arguments.
        """
        slug = str(args.get("slug", about))
        waited, failures = 0.0, 0
        while True:
            try:
                return self._once(call, slug, limit_s or self.pace.call_s, moved, args)
            except RateLimitError as error:
                wait_s = max(self.pace.backoff_s, waited if error.retry_after_s is None else error.retry_after_s)
                if not waits or waited + wait_s > self.pace.rate_limit_s:
                    raise
                note(f"{self.label} asks for a pause (too many requests): waiting {duration(wait_s)}.")
                waited += wait_s
            except (ServerError, UnreachableError):
                failures += 1
                if failures >= (tries or self.pace.tries):
                    raise
                wait_s = self.pace.backoff_s * 2.0 ** (failures - 1)
            except UnknownCompetitionError as error:
                if plain:
                    raise
                raise self._with_matches(error, slug) from None
            time.sleep(wait_s)

    def _once(
        self, call: str, slug: str, limit_s: float, moved: Callable[[], bool] | None, args: dict[str, Any]
    ) -> Any:
        step = OPENING
        with self._lock:
            try:
                if self._worker is None or not self._worker.alive:
                    self._worker = Worker(self.endpoint)
                self._worker.ask("open", {}, limit_s=self.pace.start_s)
                step = ""
                return self._worker.ask(call, args, limit_s=limit_s, moved=moved)
            except Fault as fault:
                error = explain(fault, self._about(slug))
                error.step = error.step or step
                raise error from None

    def _about(self, slug: str) -> About:
        endpoint = self.endpoint
        return About(self.label, slug, endpoint.web, endpoint.credentials_source, endpoint.secrets)

    def _with_matches(self, error: UnknownCompetitionError, slug: str) -> KaggleError:
        found = self._search(slug)
        if slug in found:
            # It exists, so what was denied is taking part.
            return RulesError(
                f'You have not joined {slug} yet. {self.label} says: "{error.reason.rstrip(".")}."',
                hint=f"Open {self.endpoint.web}/competitions/{slug}/rules, accept the rules, then run this again.",
                reason=error.reason,
            )
        if self.endpoint.web != KAGGLE_WEB:
            error.hint = (
                f"It has: {', '.join(found[:10]) or 'none'}. For Kaggle's own competitions, make a token at "
                f"{KEYS_PAGE} and write it into secrets.env as KAGGLE_API_TOKEN=..."
            )
        matches = difflib.get_close_matches(slug, found, n=3, cutoff=0.6)
        if matches:
            error.hint = f"Did you mean {' or '.join(matches)}? {error.hint}"
        return error


class _Watch:
    """Looks at a folder while the client writes a download into it."""

    def __init__(self, folder: Path, on_progress: OnProgress | None) -> None:
        self._folder = folder
        self._on_progress = on_progress
        self._last = -1

    def moved(self) -> bool:
        """Report the size of the unfinished file; True when it has changed since the last time."""
        now, total = partial(self._folder)
        if now == self._last:
            return False
        self._last = now
        if self._on_progress is not None:
            self._on_progress(now, total)
        return True


def partial(folder: Path) -> tuple[int, int | None]:
    """Bytes of a download in `folder`, and its total size where the client's marker tells it."""
    for marker in folder.rglob("*.kaggle-partial"):
        with suppress(OSError, ValueError):
            file = marker.with_suffix("")
            return file.stat().st_size, json.loads(marker.read_text())["size"]
    with suppress(OSError):
        sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
        return max(sizes, default=0), None
    return 0, None
