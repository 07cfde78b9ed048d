"""Where a competition comes from: Kaggle, or the practice server of this project."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kaggle_workbench.kaggle_api import Client, find_credentials, kaggle_endpoint, local_endpoint
from kaggle_workbench.kaggle_api.credentials import half_pair
from kaggle_workbench.kaggle_api.explain import credentials_missing
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import note

Kind = Literal["kaggle", "practice"]
PRACTICE_LABEL = "the practice server"


@dataclass(frozen=True)
class Source:
    """An open connection.

    Attributes:
        kind: "kaggle" or "practice"; folders and ledgers keep the two apart.
        label: Its name for people.
        client: The client that talks to it.
        credentials_source: Where the credentials come from, for people.
    """

    kind: Kind
    label: str
    client: Client
    credentials_source: str


@contextmanager
def connect(settings: Settings) -> Iterator[Source]:
    """Open the source that `SOURCE` asks for, and close it at the end of the `with` block.

    `auto` means Kaggle when credentials are found, else practice; which one and why is said on stderr.
    Nothing is sent to Kaggle yet. Practice starts the practice server for the length of the block.

    Raises:
        MissingError: Kaggle is asked for and there are no credentials.
        UsageError: A credentials file that cannot be read.
    """
    credentials = find_credentials(settings) if settings.source != "practice" else None
    if credentials is not None:
        for line in credentials.notes:
            note(line)
        if settings.source == "auto":
            note(f"Source: Kaggle (credentials: {credentials.source}).")
        with Client(kaggle_endpoint(settings, credentials), label="Kaggle") as client:
            yield Source("kaggle", "Kaggle", client, credentials.source)
        return
    if settings.source == "kaggle":
        raise credentials_missing(half_pair(settings))
    if settings.source == "auto":
        half = half_pair(settings)
        note(f"Source: practice, on this machine (no Kaggle credentials found{f': {half[:-1]}' if half else ''}).")
    with _practice(settings) as source:
        yield source


def source_kind(settings: Settings) -> Kind:
    """Which source `connect` would open, without opening it."""
    if settings.source == "auto":
        return "kaggle" if find_credentials(settings) is not None else "practice"
    return "kaggle" if settings.source == "kaggle" else "practice"


def practice_folders(settings: Settings) -> list[Path]:
    """Folders of practice competitions: the project's, then the user's own."""
    shipped = [settings.root / "data" / "practice"] if settings.root else []
    return [*shipped, settings.output_dir / "arena" / "competitions"]


@contextmanager
def _practice(settings: Settings) -> Iterator[Source]:
    from kaggle_workbench.arena.launch import running

    with (
        running(practice_folders(settings), settings.output_dir / "arena") as arena,
        # On Windows, a file may still be held for a moment by the process that wrote it.
        tempfile.TemporaryDirectory(prefix="kwb-", ignore_cleanup_errors=True) as home,
    ):
        endpoint = local_endpoint(arena.url, arena.token.reveal(), Path(home))
        with Client(endpoint, label=PRACTICE_LABEL) as client:
            yield Source("practice", PRACTICE_LABEL, client, endpoint.credentials_source)
