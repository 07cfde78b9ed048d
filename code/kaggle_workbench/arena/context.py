"""What every request handler is given: the arena's parts, and one authenticated call."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import Response

from kaggle_workbench.arena.answers import ApiError, text
from kaggle_workbench.arena.competitions import Competition, Hosting
from kaggle_workbench.arena.signing import Signer
from kaggle_workbench.arena.store import Store
from kaggle_workbench.arena.tokens import Tokens


@dataclass(frozen=True)
class Context:
    """The arena's parts.

    Attributes:
        state: Folder of everything it keeps.
        public_url: Its own address, for requests that do not name one ("http://localhost" by proxy).
        hosts: Host names under which it answers, in lower case and without port.
        any_address: Whether it answers under any IP address too (a class network).
    """

    hosting: Hosting
    store: Store
    tokens: Tokens
    signer: Signer
    state: Path
    public_url: str
    hosts: frozenset[str]
    any_address: bool
    scoring: threading.Lock = field(default_factory=threading.Lock)

    def has_entered(self, who: str, competition: Competition) -> bool:
        """Whether a participant may download and submit: the rules are accepted, or need not be."""
        return not competition.rules_required or self.store.rules_accepted(who, competition.slug)


@dataclass(frozen=True)
class Call:
    """One call of the API: who calls, with what, and the address under which the arena was reached."""

    context: Context
    who: str
    body: Mapping[str, Any]
    base: str
    now: datetime = field(default_factory=lambda: datetime.fromtimestamp(time.time(), UTC))

    def competition(self, permission: str = "competitions.get") -> Competition:
        """The competition that the call names.

        Raises:
            ApiError: Unknown (403, as the service says it) or gone (404).
        """
        found = self.context.hosting.find(text(self.body, "competitionName"))
        if found is None:
            raise ApiError(403, f"Permission '{permission}' was denied")
        if found.gone:
            raise ApiError(404, "Not found")
        return found

    def require_rules(self, competition: Competition, sentence: str) -> None:
        """Refuse until the participant has accepted the rules.

        Raises:
            ApiError: They are not accepted (403 with the address of the rules).
        """
        if not self.context.has_entered(self.who, competition):
            raise ApiError(
                403,
                sentence,
                reason="RulesAcceptanceRequired",
                metadata={"url": f"/competitions/{competition.slug}/rules"},
            )

    def signed(self, method: str, path: str) -> str:
        """A storage address that the caller may use for an hour."""
        return self.context.signer.address(self.base, method, path)

    def to_storage(self, path: str) -> Response:
        """The redirect with which every download begins."""
        return Response(status=302, headers={"Location": self.signed("GET", path)})
