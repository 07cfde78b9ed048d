"""Where the Kaggle credentials come from: looked for in the client's own order, named, never shown.

The order is the client's (a token beats a pair): with another one, the source we name would not be
the one the client sends. What only a notebook platform holds (Kaggle and Colab secrets) comes last.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import Settings

TOKEN, USERNAME, KEY = "KAGGLE_API_TOKEN", "KAGGLE_USERNAME", "KAGGLE_KEY"
KEYS_PAGE = "https://www.kaggle.com/settings/api"


@dataclass(frozen=True)
class Credentials:
    """Credentials with their source; the values come out only through `env()`.

    Attributes:
        kind: A token, a username and key, or the file of `kaggle auth login`.
        source: Where they were found, for people.
        notes: What the user should know, such as other credentials that are not used.
    """

    kind: Literal["token", "pair", "oauth"]
    source: str
    notes: tuple[str, ...] = ()
    _env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def env(self) -> dict[str, str]:
        """Variables for the client's process."""
        return dict(self._env)

    def secret_values(self) -> list[str]:
        """Values to be masked in anything that is shown; a user's name is none."""
        return [value for name, value in self._env.items() if name != USERNAME]


def find_credentials(settings: Settings) -> Credentials | None:
    """The credentials that the client will use, or None.

    Raises:
        UsageError: A credentials file that cannot be read, or a token that names a file which is not there.
    """
    found: list[Credentials] = []
    for finder in (_notebook_token, _token, _token_file, _pair, _oauth):
        # Once one is found, the others are only looked for to say that they are not used.
        found += _quietly(finder, settings) if found else _listed(finder(settings))
    if not found:
        found = [c for finder in (_kaggle_secrets, _colab_secrets) for c in _listed(finder(settings))]
    if not found:
        return None
    first, others = found[0], [other for other in found[1:] if other.env() != found[0].env()]
    unused = [f"Kaggle credentials: {first.source} is used; {other.source} is not." for other in others]
    return replace(first, notes=(*first.notes, *unused))


def half_pair(settings: Settings) -> str:
    """A sentence when a username stands without its key or the other way round, else ""."""
    values = {name: value for name, (value, _) in _pair_parts(settings).items()}
    if bool(values.get(USERNAME)) == bool(values.get(KEY)):
        return ""
    has, lacks = (USERNAME, KEY) if values.get(USERNAME) else (KEY, USERNAME)
    return f"{has} is set, but {lacks} is not."


def environment(settings: Settings) -> dict[str, str]:
    """The environment a client of Kaggle gets: this process's, over what is the user's own in variables.env."""
    return {**settings.extra, **os.environ}


def config_dir(env: Mapping[str, str]) -> Path:
    """The folder of kaggle.json, as the client computes it (without making it)."""
    if env.get("KAGGLE_CONFIG_DIR"):
        return Path(env["KAGGLE_CONFIG_DIR"])
    old = _home() / ".kaggle"
    if not sys.platform.startswith("linux") or old.exists():
        return old
    base = env.get("XDG_CONFIG_HOME")
    return (Path(base) if base else _home() / ".config") / "kaggle"


def _listed(credentials: Credentials | None) -> list[Credentials]:
    return [credentials] if credentials else []


def _quietly(finder: Callable[[Settings], Credentials | None], settings: Settings) -> list[Credentials]:
    try:
        return _listed(finder(settings))
    except UsageError:
        return []


def _notebook_token(settings: Settings) -> Credentials | None:
    env = environment(settings)
    path = env.get("KAGGLE_API_V1_TOKEN")
    if not (path and env.get("KAGGLE_KERNEL_RUN_TYPE") and env.get("KAGGLE_DATA_PROXY_URL")):
        return None
    token = _text_of(Path(path))
    return Credentials("token", "this Kaggle notebook's own token", _env={TOKEN: token}) if token else None


def _token(settings: Settings) -> Credentials | None:
    if not settings.kaggle_api_token:
        return None
    value = settings.kaggle_api_token.reveal().strip()
    source = f"{TOKEN} in {settings.origins.get(TOKEN, 'the settings')}"
    # The client takes the value for a file's name when there is such a file.
    if _is_file(value):
        token = _text_of(Path(value))
        if not token:
            raise UsageError(f"{source} names the file {value}, which is empty.", hint="Put the token into that file.")
        return Credentials("token", f"{source} (the file {value})", _env={TOKEN: token})
    if value.startswith(("/", "~", "./", "../")):
        raise UsageError(
            f"{source} names a file that is not there: {value}",
            hint=f"Correct the path, or write the token itself (made at {KEYS_PAGE}).",
        )
    return Credentials("token", source, _env={TOKEN: value})


def _token_file(settings: Settings) -> Credentials | None:
    for name in ("access_token", "access_token.txt"):
        token = _text_of(_home() / ".kaggle" / name)
        if token:
            return Credentials("token", f"~/.kaggle/{name}", _env={TOKEN: token})
    return None


def _pair(settings: Settings) -> Credentials | None:
    parts = _pair_parts(settings)
    username, key = parts[USERNAME], parts[KEY]
    if not (username[0] and key[0]):
        return None
    notes: tuple[str, ...] = ()
    source = username[1]
    if username[1] != key[1]:
        source = f"{USERNAME} in {username[1]} with {KEY} in {key[1]}"
        notes = (f"Kaggle credentials: the user's name comes from {username[1]}, the key from {key[1]}.",)
    elif not source.endswith("kaggle.json"):
        source = f"{USERNAME} and {KEY} in {source}"
    return Credentials("pair", source, notes, {USERNAME: username[0], KEY: key[0]})


def _pair_parts(settings: Settings) -> dict[str, tuple[str, str]]:
    """(value, source) of each half; the settings are laid over the file one by one, as the client does."""
    parts = {}
    for name, secret in ((USERNAME, settings.kaggle_username), (KEY, settings.kaggle_key)):
        parts[name] = (secret.reveal(), settings.origins.get(name, "the settings")) if secret else ("", "")
    if all(value for value, _ in parts.values()):
        return parts
    path = config_dir(environment(settings)) / "kaggle.json"
    document = _json_of(path)
    for name, field_name in ((USERNAME, "username"), (KEY, "key")):
        value = document.get(field_name)
        if not parts[name][0] and isinstance(value, str) and value:
            parts[name] = (value, _tilde(path))
    return parts


def _oauth(settings: Settings) -> Credentials | None:
    path = _home() / ".kaggle" / "credentials.json"
    if not _json_of(path).get("refresh_token"):
        return None
    # The client reads and renews this file itself: nothing to hand over.
    return Credentials("oauth", f"{_tilde(path)} (kaggle auth login)")


def _kaggle_secrets(settings: Settings) -> Credentials | None:
    if settings.place.name != "kaggle":
        return None
    try:
        client = importlib.import_module("kaggle_secrets").UserSecretsClient()
    except Exception:  # the platform's own module: whatever it raises means "no secrets here"
        return None
    return _from_secrets(client.get_secret, "Kaggle secrets")


def _colab_secrets(settings: Settings) -> Credentials | None:
    if settings.place.name != "colab":
        return None
    try:
        userdata = importlib.import_module("google.colab.userdata")
    except Exception:  # as above
        return None
    return _from_secrets(userdata.get, "Colab secrets")


def _from_secrets(get: Callable[[str], Any], source: str) -> Credentials | None:
    values = dict(_secrets(get))
    if values.get(TOKEN):
        return Credentials("token", f"{TOKEN} in {source}", _env={TOKEN: values[TOKEN]})
    if values.get(USERNAME) and values.get(KEY):
        return Credentials("pair", f"{USERNAME} and {KEY} in {source}", _env={n: values[n] for n in (USERNAME, KEY)})
    return None


def _secrets(get: Callable[[str], Any]) -> Iterator[tuple[str, str]]:
    for name in (TOKEN, USERNAME, KEY):
        value = None
        # Each platform has its own errors for "no such secret" and "not allowed".
        with contextlib.suppress(Exception):
            value = get(name)
        if isinstance(value, str) and value.strip():
            yield name, value.strip()


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111 (Path.home() raises without a home; the client does not)


def _tilde(path: Path) -> str:
    try:
        return f"~/{path.relative_to(_home()).as_posix()}"
    except ValueError:
        return str(path)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _text_of(path: Path) -> str:
    if not _is_file(str(path)):
        return ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise UsageError(f"{_tilde(path)} is not text.", hint="It must hold the token alone.") from None
    except OSError as error:
        raise UsageError(
            f"{_tilde(path)} cannot be read: {error.strerror}.", hint="Make it readable for this user."
        ) from None


def _json_of(path: Path) -> dict[str, Any]:
    text = _text_of(path)
    if not text:
        return {}
    try:
        document = json.loads(text)
    except ValueError:
        raise UsageError(
            f"{_tilde(path)} is not valid JSON, so no credentials can be read from it.",
            hint=f"Download it anew from {KEYS_PAGE}, or delete it.",
        ) from None
    return document if isinstance(document, dict) else {}
