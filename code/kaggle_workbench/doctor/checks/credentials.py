"""Kaggle's credentials: where they come from, what kind they are, who may read them, whether they work."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

from kaggle_workbench.doctor.check import Check, Result, closed, failed, passed, warned
from kaggle_workbench.doctor.facts import Facts

PAGE = "https://www.kaggle.com/settings, API tokens"
# Kaggle's tokens have no end that can be read from them; an old one is worth a look.
OLD_DAYS = 365


def credentials(facts: Facts) -> Result:
    """Which credentials the client will use; their value is never shown."""
    token, origin = facts.setting("KAGGLE_API_TOKEN")
    if token:
        return _token(facts, token, origin)
    for name in ("access_token", "access_token.txt"):
        path = facts.home / ".kaggle" / name
        if path.is_file() and path.stat().st_size:
            return _file(path, "a token")
    user, user_origin = facts.setting("KAGGLE_USERNAME")
    key, key_origin = facts.setting("KAGGLE_KEY")
    if bool(user) != bool(key):
        has, lacks = ("KAGGLE_USERNAME", "KAGGLE_KEY") if user else ("KAGGLE_KEY", "KAGGLE_USERNAME")
        return failed(f"{has} is set, and {lacks} is not", f"Set both, or better one token: KAGGLE_API_TOKEN ({PAGE}).")
    if user:
        return passed(
            f"the legacy pair, from {user_origin}" + (f" and {key_origin}" if key_origin != user_origin else "")
        )
    path = _config(facts) / "kaggle.json"
    if path.is_file():
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            complete = bool(held.get("username") and held.get("key"))
        except (OSError, ValueError, AttributeError):
            return failed(f"{path} cannot be read as JSON", f"Download it again, or make a token ({PAGE}).")
        if not complete:
            return failed(f"{path} has no username and key", f"Download it again, or make a token ({PAGE}).")
        return _file(path, "the legacy pair")
    if facts.setting("SOURCE")[0] == "kaggle":
        return failed(
            "none, and SOURCE=kaggle asks for some",
            f"Make a token ({PAGE}) and write KAGGLE_API_TOKEN=... into secrets.env.",
        )
    return passed("none: practice competitions work without")


def live(facts: Facts) -> Result:
    """One call that costs nothing."""
    from kaggle_workbench.doctor.checks.competition import asked

    return asked(facts, "credentials")


def _token(facts: Facts, token: str, origin: str) -> Result:
    if token.startswith(("/", "~", "./")):
        path = Path(token).expanduser()
        if not path.is_file():
            return failed(
                f"KAGGLE_API_TOKEN in {origin} names a file that is not there",
                "Write the token itself, or correct the path.",
            )
        return _file(path, "a token")
    if any(letter.isspace() for letter in token) or token[:1] in "'\"":
        return failed(
            f"KAGGLE_API_TOKEN in {origin} has spaces or quotes in it", "Write the token alone, without quotes."
        )
    if len(token) < 16:
        return failed(f"KAGGLE_API_TOKEN in {origin} is too short for a token", f"Copy it anew ({PAGE}).")
    if origin == "secrets.env":
        age = (time.time() - (facts.root / "secrets.env").stat().st_mtime) / 86400
        if age > OLD_DAYS:
            return warned(f"a token from {origin}, {age:.0f} days old", f"Make a new one and revoke the old ({PAGE}).")
    return passed(f"a token, from {origin}")


def _file(path: Path, kind: str) -> Result:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return failed(
            f"{kind} in {path}, which others may read (mode {mode:04o})", f"chmod 600 {path}", lambda: closed(path)
        )
    age = (time.time() - path.stat().st_mtime) / 86400
    if age > OLD_DAYS:
        return warned(f"{kind} in {path}, {age:.0f} days old", f"Make a new one and revoke the old ({PAGE}).")
    return passed(f"{kind}, from {path}")


def _config(facts: Facts) -> Path:
    if facts.environ.get("KAGGLE_CONFIG_DIR"):
        return Path(facts.environ["KAGGLE_CONFIG_DIR"])
    old = facts.home / ".kaggle"
    return old if old.exists() else Path(facts.environ.get("XDG_CONFIG_HOME") or facts.home / ".config") / "kaggle"


CHECKS = [
    Check("credentials", "Kaggle's credentials", credentials),
    Check("kaggle", "Kaggle answers", live, online=True),
]
