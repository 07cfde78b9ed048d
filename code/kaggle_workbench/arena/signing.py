"""Signed addresses: storage asks for no token, so every address carries its own proof and its end."""

from __future__ import annotations

import hashlib
import hmac
import time
from urllib.parse import quote, urlencode

from kaggle_workbench.arena.answers import ApiError

LIFETIME_S = 3600


class Signer:
    """Signs and checks paths with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def address(self, base: str, method: str, path: str) -> str:
        """The full address of `path` (unquoted, from "/"), good for one HTTP method and one hour."""
        ends = int(time.time()) + LIFETIME_S
        query = urlencode({"Expires": ends, "Signature": self._signature(method, path, ends)})
        return f"{base}{quote(path)}?{query}"

    def check(self, method: str, path: str, expires: str, signature: str) -> None:
        """Let a request pass whose address was signed for it and has not expired.

        Raises:
            ApiError: It was not, or has (403).
        """
        sound = expires.isascii() and expires.isdigit() and len(expires) < 12
        ends = int(expires) if sound else 0
        if not hmac.compare_digest(self._signature(method, path, ends).encode(), signature.encode()):
            raise ApiError(403, "This storage address is not signed by the arena.")
        if time.time() > ends:
            raise ApiError(403, "This storage address has expired; ask the API for a new one.")

    def _signature(self, method: str, path: str, ends: int) -> str:
        return hmac.new(self._key, f"{method}\n{path}\n{ends}".encode(), hashlib.sha256).hexdigest()
