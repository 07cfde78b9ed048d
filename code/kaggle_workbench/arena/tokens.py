"""Who may use the arena: one local token, or one token for each participant of a class network.

Tokens are made once and kept in the state folder in files only the owner can read. They are
compared in constant time and never printed.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from kaggle_workbench.arena.answers import ApiError
from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import disk_errors, locked, make_folder, write_json

LOCAL_NAME = "you"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
TOKEN_FILE = "token"  # noqa: S105 - a file's name
PARTICIPANTS_FILE = "participants.json"
KEY_FILE = "signing-key"


class Tokens:
    """Tokens by participant."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = dict(tokens)

    def owner(self, token: str) -> str | None:
        """The participant whose token this is."""
        found = None
        for name, held in self._tokens.items():
            if hmac.compare_digest(held.encode(), token.encode()):
                found = name
        return found

    def authenticate(self, header: str | None) -> str:
        """The participant who sends this Authorization header (Bearer token, or Basic name and token).

        Raises:
            ApiError: None, or not a known one (401).
        """
        scheme, _, value = (header or "").partition(" ")
        token, claimed = value.strip(), None
        if scheme.lower() == "basic":
            try:
                claimed, _, token = base64.b64decode(token, validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                token = ""
        elif scheme.lower() != "bearer":
            token = ""
        owner = self.owner(token) if token else None
        if owner is None or claimed not in (None, owner):
            raise ApiError(401, "Unauthenticated: this arena does not know that token.")
        return owner


def local_tokens(state: Path) -> Tokens:
    """The one token of this machine's arena, for the participant "you"."""
    return Tokens({LOCAL_NAME: _secret_file(state / TOKEN_FILE)})


def signing_key(state: Path) -> bytes:
    """The key that signs storage addresses, shared by all arenas on this state folder."""
    return _secret_file(state / KEY_FILE).encode()


def participant_tokens(state: Path, listed: Path) -> Tokens:
    """One token for each name in a list; tokens made before are kept.

    Args:
        state: The arena's folder; the tokens are in its participants.json, readable by its owner alone.
        listed: Text file, one name a line; "#" starts a comment.

    Raises:
        UsageError: No such file, no names, a name twice or with other than letters, digits, ".", "-", "_".
    """
    names = _names(listed)
    path = state / PARTICIPANTS_FILE
    with locked(state / ".participants.lock", what="the list of participants", timeout_s=30):
        held = _read_json(path)
        held |= {name: _new_token() for name in names if name not in held}
        write_json(path, held, mode=0o600)
    return Tokens({name: held[name] for name in names})


def _names(listed: Path) -> list[str]:
    try:
        lines = listed.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The list of participants {listed} cannot be read: {error}.", hint="Write one name a line in UTF-8."
        ) from None
    names = [name for line in lines if (name := line.partition("#")[0].strip())]
    for number, name in enumerate(names):
        if not NAME.fullmatch(name) or name in names[:number]:
            raise UsageError(
                f"{listed}: {name!r} is not a usable name, or stands there twice.",
                hint='Names are unique and have letters, digits, ".", "-" and "_", at most 50.',
            )
    if not names:
        raise UsageError(f"{listed} lists no participants.", hint="Write one name a line.")
    return names


def _read_json(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}.", hint="Move it away to have new tokens made.") from None
    return {str(name): str(token) for name, token in held.items()}


def _new_token() -> str:
    return "kwb_" + secrets.token_urlsafe(32)


def _secret_file(path: Path) -> str:
    """The secret in a file that only its owner can read; made at the first call, by one process only."""
    make_folder(path.parent)
    with disk_errors(path):
        if not path.exists():
            part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(_new_token() + "\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                # Unlike a rename, a link never replaces what another process has just made.
                os.link(part, path)
            except FileExistsError:
                pass
            except OSError:
                # A file system without hard links (some shared folders): the last one wins there.
                part.replace(path)
            part.unlink(missing_ok=True)
        path.chmod(0o600)
        secret = path.read_text(encoding="utf-8").strip()
    if len(secret) < 16:
        raise UsageError(f"{path} holds no usable token.", hint="Delete it; a new one is made at the next start.")
    return secret
