"""Where credentials are looked for: the client's own order, every source named, no value shown."""

from __future__ import annotations

import json
import os
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench.errors import UsageError
from kaggle_workbench.kaggle_api import Credentials, find_credentials, kaggle_endpoint
from kaggle_workbench.kaggle_api.credentials import config_dir, half_pair
from kaggle_workbench.places import PLACES
from kaggle_workbench.settings import Settings, load_settings

TOKEN, NAME, KEY = "KAGGLE_API_TOKEN", "KAGGLE_USERNAME", "KAGGLE_KEY"


class Person:
    """A home, a project and an environment that hold no credentials yet."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.patch = patch
        (self.project / ".project").mkdir(parents=True)
        (self.project / ".project" / "spec.yaml").write_text("specVersion: v2\n")
        self.home.mkdir()
        for name in list(os.environ):
            if name.startswith("KAGGLE_") or name in ("XDG_CONFIG_HOME", "https_proxy"):
                patch.delenv(name)
        patch.setenv("HOME", str(self.home))

    def puts(self, name: str, text: str | dict[str, Any]) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    def secrets(self, *lines: str) -> None:
        path = self.project / "secrets.env"
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o600)

    def settings(self, place: str = "local") -> Settings:
        loaded = load_settings(start=self.project)
        return replace(loaded, place=next(each for each in PLACES if each.name == place))

    def finds(self, place: str = "local") -> Credentials:
        found = find_credentials(self.settings(place))
        assert found is not None
        assert not any(value in repr(found) for value in found.secret_values())
        return found


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(tmp_path, monkeypatch)


def test_nothing_anywhere(person: Person) -> None:
    assert find_credentials(person.settings()) is None


def test_each_source_in_the_clients_order(person: Person) -> None:
    person.puts(".kaggle/credentials.json", {"refresh_token": "r", "access_token": "a"})
    found = person.finds()
    assert (found.kind, found.source) == ("oauth", "~/.kaggle/credentials.json (kaggle auth login)")
    assert found.env() == {}
    person.puts(".kaggle/kaggle.json", {"username": "ann", "key": "key-1"})
    found = person.finds()
    assert (found.kind, found.source) == ("pair", "~/.kaggle/kaggle.json")
    assert found.env() == {NAME: "ann", KEY: "key-1"}
    person.puts(".kaggle/access_token.txt", " token-1\n")
    assert person.finds().source == "~/.kaggle/access_token.txt"
    person.puts(".kaggle/access_token", "token-2")
    assert person.finds().source == "~/.kaggle/access_token"
    person.secrets(f"{TOKEN}=token-3")
    found = person.finds()
    assert found.source == f"{TOKEN} in secrets.env"
    assert found.env() == {TOKEN: "token-3"}
    person.patch.setenv(TOKEN, "token-4")
    assert person.finds().source == f"{TOKEN} in the environment"
    person.patch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    person.patch.setenv("KAGGLE_DATA_PROXY_URL", "http://proxy")
    person.patch.setenv("KAGGLE_API_V1_TOKEN", str(person.puts("notebook", "token-5")))
    assert person.finds().source == "this Kaggle notebook's own token"


def test_token_and_pair_says_which_is_used(person: Person) -> None:
    person.secrets(f"{NAME}=ann", f"{KEY}=key-1", f"{TOKEN}=token-1")
    found = person.finds()
    assert found.kind == "token"
    assert found.env() == {TOKEN: "token-1"}
    assert len(found.notes) == 1
    assert f"{TOKEN} in secrets.env is used; {NAME} and {KEY} in secrets.env is not" in found.notes[0]


def test_pair_of_two_sources_is_said(person: Person) -> None:
    person.puts(".kaggle/kaggle.json", {"username": "ann", "key": "key-1"})
    person.patch.setenv(KEY, "key-2")
    found = person.finds()
    assert found.env() == {NAME: "ann", KEY: "key-2"}
    assert "kaggle.json" in found.notes[0]
    assert "the environment" in found.notes[0]


def test_half_a_pair_is_none_and_said(person: Person) -> None:
    person.patch.setenv(KEY, "key-2")
    assert find_credentials(person.settings()) is None
    assert half_pair(person.settings()) == f"{KEY} is set, but {NAME} is not."


def test_config_dir_moves_the_pair_and_not_the_token_file(person: Person) -> None:
    person.puts("elsewhere/kaggle.json", {"username": "ann", "key": "key-1"})
    person.puts("elsewhere/access_token", "token-1")
    person.patch.setenv("KAGGLE_CONFIG_DIR", str(person.home / "elsewhere"))
    found = person.finds()
    assert (found.kind, found.source) == ("pair", "~/elsewhere/kaggle.json")


def test_variables_env_counts_like_the_environment(person: Person) -> None:
    path = person.puts("elsewhere/kaggle.json", {"username": "ann", "key": "key-1"})
    (person.project / "variables.env").write_text(f"KAGGLE_CONFIG_DIR={path.parent}\nVERBOSE=1\nhttps_proxy=http://p\n")
    assert person.finds().source == "~/elsewhere/kaggle.json"
    env = kaggle_endpoint(person.settings()).env
    assert (env["https_proxy"], env[KEY], "VERBOSE" in env) == ("http://p", "key-1", False)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="XDG folders are Linux's")
def test_xdg_folder_counts_when_there_is_no_dot_kaggle(person: Person) -> None:
    person.puts(".config/kaggle/kaggle.json", {"username": "ann", "key": "key-1"})
    assert person.finds().source == "~/.config/kaggle/kaggle.json"
    person.patch.setenv("XDG_CONFIG_HOME", str(person.home / "xdg"))
    assert config_dir(os.environ) == person.home / "xdg" / "kaggle"
    assert not config_dir(os.environ).exists()


def test_broken_kaggle_json_is_named_and_only_when_it_is_needed(person: Person) -> None:
    person.puts(".kaggle/kaggle.json", '{"username": "ann", "key": secret-value}')
    with pytest.raises(UsageError, match=r"~/\.kaggle/kaggle\.json is not valid JSON") as caught:
        find_credentials(person.settings())
    assert "secret-value" not in str(caught.value)
    person.patch.setenv(TOKEN, "token-1")
    assert person.finds().kind == "token"


def test_token_may_name_a_file(person: Person) -> None:
    path = person.puts("my-token", "token-1\n")
    person.patch.setenv(TOKEN, str(path))
    found = person.finds()
    assert found.env() == {TOKEN: "token-1"}
    assert str(path) in found.source
    path.unlink()
    with pytest.raises(UsageError, match="a file that is not there"):
        find_credentials(person.settings())


def test_kaggle_secrets(person: Person) -> None:
    held = {NAME: "ann", KEY: "key-1"}

    class UserSecretsClient:
        def get_secret(self, name: str) -> str:
            return held[name]

    module = types.ModuleType("kaggle_secrets")
    module.UserSecretsClient = UserSecretsClient  # type: ignore[attr-defined]
    person.patch.setitem(sys.modules, "kaggle_secrets", module)
    assert find_credentials(person.settings()) is None
    assert person.finds("kaggle").source == f"{NAME} and {KEY} in Kaggle secrets"
    held[TOKEN] = "token-1"
    assert person.finds("kaggle").env() == {TOKEN: "token-1"}
    module.UserSecretsClient = None  # type: ignore[attr-defined]
    assert find_credentials(person.settings("kaggle")) is None


def test_colab_secrets(person: Person) -> None:
    userdata = types.ModuleType("google.colab.userdata")
    userdata.get = {TOKEN: "token-1"}.__getitem__  # type: ignore[attr-defined]
    colab = types.ModuleType("google.colab")
    colab.userdata = userdata  # type: ignore[attr-defined]
    person.patch.setitem(sys.modules, "google.colab", colab)
    person.patch.setitem(sys.modules, "google.colab.userdata", userdata)
    assert person.finds("colab").source == f"{TOKEN} in Colab secrets"
    # Outside of their places, or without the platform's modules, nobody is asked.
    assert find_credentials(person.settings("local")) is None
    assert find_credentials(person.settings("kaggle")) is None
