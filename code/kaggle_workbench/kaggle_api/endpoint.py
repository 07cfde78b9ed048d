"""Which server the client talks to: decided by the environment of its process, and by nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kaggle_workbench.kaggle_api import credentials as creds
from kaggle_workbench.settings import Settings

KAGGLE_WEB = "https://www.kaggle.com"

# VERBOSE makes the client print every request with its Authorization header; KAGGLE_TOKEN would be
# sent in place of the credentials we name.
_DROPPED = ("VERBOSE", "VERBOSE_OUTPUT", "KAGGLE_TOKEN")

# What a Python process needs of its host to start at all; everything else of the user's environment
# stays out of a local endpoint.
_NEEDED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "PYTHONHOME", "TZ")


@dataclass(frozen=True)
class Endpoint:
    """The environment of a client's process, with what people should be told about it.

    Attributes:
        env: The whole environment; holds secrets, so it is never shown.
        credentials_source: Where the credentials come from; "" when there are none.
        web: Address under which the server's pages are shown to people.
        secrets: Values to be masked in every message.
        folder: Working folder of the process; None: the caller's.
    """

    env: Mapping[str, str] = field(repr=False)
    credentials_source: str
    web: str
    secrets: tuple[str, ...] = field(default=(), repr=False)
    folder: Path | None = None


def kaggle_endpoint(settings: Settings, credentials: creds.Credentials | None = None) -> Endpoint:
    """Kaggle, or whatever the client's own variables point at: the user's environment plus the credentials.

    Args:
        settings: Settings in force.
        credentials: Credentials already found; by default they are looked for.
    """
    credentials = credentials or creds.find_credentials(settings)
    drop = {*_DROPPED, creds.TOKEN, creds.USERNAME, creds.KEY}
    env = {name: value for name, value in creds.environment(settings).items() if name not in drop}
    if credentials:
        env |= credentials.env()
    return Endpoint(
        env=env,
        credentials_source=credentials.source if credentials else "",
        web=KAGGLE_WEB,
        secrets=tuple(credentials.secret_values()) if credentials else (),
    )


def local_endpoint(url: str, token: str, home: Path) -> Endpoint:
    """A server of our own, in an environment made from nothing, so that no call can leave for Kaggle.

    Args:
        url: The server, such as `http://127.0.0.1:8000`.
        token: Its own token.
        home: Folder that stands for the user's home; the client writes its state there.
    """
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    env = {name: os.environ[name] for name in _NEEDED if os.environ.get(name)}
    env |= {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "TMPDIR": str(temporary),
        "TEMP": str(temporary),
        "TMP": str(temporary),
        # The client's own name for a server at http://localhost; as a proxy, ours may listen on any port.
        "KAGGLE_API_ENVIRONMENT": "LOCALHOST",
        "http_proxy": url,
        "KAGGLE_API_TOKEN": token,
    }
    return Endpoint(
        env=env, credentials_source="the practice server's own token", web=url, secrets=(token,), folder=home
    )
