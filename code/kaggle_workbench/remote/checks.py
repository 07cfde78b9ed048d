"""What is looked at before anything leaves this machine: secrets, its folders, packages that are not there."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from kaggle_workbench import envfiles
from kaggle_workbench.errors import RefusedError
from kaggle_workbench.kaggle_api import find_credentials
from kaggle_workbench.masking import hidden
from kaggle_workbench.remote.bundle import package
from kaggle_workbench.settings import SECRET_NAMES, SECRETS_FILE, Settings

LIST = Path(__file__).with_name("image_packages.txt")
FOLDER = "folder"
# Shorter folders ("/root") stand in many a text that names nobody's machine.
LEAST = 8


def refuse_secrets(texts: Mapping[str, str], settings: Settings) -> None:
    """Look for every secret that is known here, and for this machine's folders.

    Args:
        texts: What would leave, by a name for people ("02-train.ipynb, cell 5").
        settings: Settings in force.

    Raises:
        RefusedError: One of them stands there; which, but never its value.
    """
    for place, text in texts.items():
        for value, title in _forbidden(settings).items():
            if value in text:
                what = "a folder of this machine" if title == FOLDER else f"the value of {title}"
                raise RefusedError(
                    f"{place} holds {what}, and would take it to another machine.",
                    hint="Take it out of the notebook; "
                    + (
                        "write paths from the notebook's folder, or take them from the stage."
                        if title == FOLDER
                        else "read it from the environment here, and add it to the place's own secrets there."
                    ),
                )


def missing(sources: Iterable[str]) -> list[str]:
    """Modules that these pieces of Python import and Kaggle's image does not hold, sorted."""
    found = {name for source in sources for name in _imports(source)}
    return sorted(found - image_packages() - set(sys.stdlib_module_names) - {package.NAME, "google", "__future__"})


def unsent(settings: Settings, sources: Iterable[str]) -> list[str]:
    """Names of the user's own variables that a notebook mentions; they stay here, since they may be secrets."""
    return sorted(name for name in settings.extra if any(name in source for source in sources))


@cache
def image_packages() -> frozenset[str]:
    """What Kaggle's image holds, by the name it is imported by."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return frozenset(name for line in lines if not line.startswith("#") for name in line.split())


def _imports(source: str) -> set[str]:
    # A line for IPython's own magic imports nothing.
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        return package.imports("\n".join(lines))
    except SyntaxError:
        return set()


def _forbidden(settings: Settings) -> dict[str, str]:
    """Texts that must not leave, with what they are: FOLDER, or a secret's name for people."""
    hide = hidden(settings)
    found = {value: FOLDER if name != "***" else "a secret" for value, name in hide.items()}
    if settings.root is not None:
        secrets = envfiles.read(settings.root / SECRETS_FILE, secret=True)
        found |= {value: f"{name} ({SECRETS_FILE})" for name, value in secrets.values.items()}
    credentials = find_credentials(settings)
    if credentials is not None:
        found |= dict.fromkeys(credentials.secret_values(), f"the credentials ({credentials.source})")
    for name in SECRET_NAMES:
        secret = getattr(settings, name.lower())
        if secret:
            found[secret.reveal()] = name
    # A name of an account is shown on every page.
    if settings.kaggle_username:
        found.pop(settings.kaggle_username.reveal(), None)
    return {value: name for value, name in found.items() if len(value) >= (LEAST if name == FOLDER else 6)}
