"""One settings object with one precedence.

Command line or notebook parameter, then environment, then secrets.env, then variables.env, then
the default. The same names serve in every one of them; an empty value means unset.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaggle_workbench import envfiles
from kaggle_workbench.errors import UsageError, WorkbenchError
from kaggle_workbench.hostpaths import host_folder
from kaggle_workbench.places import Place, current_place

ROOT_MARK = Path(".project") / "spec.yaml"
# Epochs and batch size of each recipe, unless they are set.
RECIPES: Mapping[str, Mapping[str, int]] = {
    "reference": {"epochs": 20, "batch_size": 64},
    "fast": {"epochs": 3, "batch_size": 128},
}
VARIABLES_FILE = "variables.env"
# Settings of the command line, which `kwb run` hands on to a notebook's process by its environment.
HANDED_ON = "KWB_HANDED_ON"
SECRETS_FILE = "secrets.env"
# Folder of the competitions that have notebooks and settings of their own (`kwb new`).
COMPETITIONS = "competitions"
SLUG = r"[a-z0-9]+(-[a-z0-9]+)*"


class Secret:
    """A value that never prints itself; `reveal()` is called only where it is handed over."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __bool__(self) -> bool:
        return bool(self._value)


@dataclass(frozen=True)
class Settings:
    """What the user has set, read once; see docs/settings.md for the meaning of each name.

    Attributes:
        root: The project's folder; None outside a project (on Kaggle or Colab).
        place: Where this process runs.
        origins: For each setting that is not a default, where it came from (never its value).
        extra: Names in variables.env that are the user's own; passed on to the notebooks' environment.
        notes: Sentences the user should see once: likely misspellings, lines two readers read differently.
    """

    root: Path | None
    place: Place
    competition: str
    source: str
    gpu_count: int | None
    allow_cpu: bool
    precision: str
    keras_backend: str
    seed: int
    epochs: int
    batch_size: int
    recipe: str
    submit: bool
    run_id: str | None
    store: str | None
    session_hours: float | None
    checkpoint_minutes: float
    force_resume: bool
    tensorflow_build: str
    target: tuple[str, ...]
    id_column: str | None
    problem: str | None
    row_kind: str | None
    metric: str | None
    group_column: str | None
    time_column: str | None
    drop_columns: tuple[str, ...]
    train_file: str | None
    test_file: str | None
    folds: int | None
    input_dir: Path
    output_dir: Path
    mongodb_uri: Secret | None
    tune_storage: Secret | None
    kaggle_api_token: Secret | None
    kaggle_username: Secret | None
    kaggle_key: Secret | None
    origins: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def secret_values(self) -> list[str]:
        """Values that must not appear in any output, longest first (for masking)."""
        held = (self.mongodb_uri, self.tune_storage, self.kaggle_api_token, self.kaggle_username, self.kaggle_key)
        return sorted((secret.reveal() for secret in held if secret), key=len, reverse=True)


def find_root(start: Path | None = None) -> Path | None:
    """The project's folder: the first one upward from `start` that holds `.project/spec.yaml`.

    When there is none and no `start` was given: the folder of the `./kwb` that was called.
    """
    here = (start or Path.cwd()).resolve()
    found = next((folder for folder in (here, *here.parents) if (folder / ROOT_MARK).is_file()), None)
    caller = os.environ.get("KWB_ROOT")
    if found is None and start is None and caller and (Path(caller) / ROOT_MARK).is_file():
        return Path(caller)
    return found


def require_root(start: Path | None = None) -> Path:
    """Like `find_root`, but an error when there is none.

    Raises:
        UsageError: No project in this folder or above it.
    """
    root = find_root(start)
    if root is None:
        raise UsageError(
            f"No Kaggle Workbench project in {start or Path.cwd()} or above it (looked for {ROOT_MARK}).",
            hint="Change into your copy of the repository, then run the command again.",
        )
    return root


def load_settings(overrides: Mapping[str, Any] | None = None, *, start: Path | None = None) -> Settings:
    """Read the settings in force.

    Args:
        overrides: Values from the command line or a notebook's parameters cell, by setting name;
            None means "not given here".
        start: Folder to look for the project from; by default the current one.

    Raises:
        UsageError: A malformed line, an unknown override, a value that does not fit, a secret in variables.env.
    """
    place = current_place()
    root = find_root(start)
    if root is None and place.output_dir is None:
        root = require_root(start)
    notes: list[str] = []
    layers: list[tuple[str, Mapping[str, str]]] = [
        ("the command line or notebook", _given(overrides or {})),
        ("the environment", {name: os.environ[name] for name in SETTINGS if os.environ.get(name)}),
    ]
    extra: dict[str, str] = {}
    if root is not None:
        secrets = envfiles.read(root / SECRETS_FILE, secret=True)
        variables = envfiles.read(root / VARIABLES_FILE)
        for file in (secrets, variables):
            notes += file.notes
        _refuse_versioned_secrets(variables)
        layers += [(SECRETS_FILE, secrets.values), *_own_layers(root, start, layers, secrets, variables, notes)]
        layers.append((VARIABLES_FILE, variables.values))
        files = [values for _, values in layers[3:]]
        extra = {name: value for held in reversed(files) for name, value in held.items() if name not in SETTINGS}
        notes += envfiles.misspellings(variables, list(SETTINGS))
        notes += _stale_environment({name: value for held in reversed(files) for name, value in held.items()})
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, (parse, default) in SETTINGS.items():
        origin, text = next(((o, layer[name]) for o, layer in layers if layer.get(name)), ("", ""))
        values[name.lower()] = parse(name, text, origin) if text else default
        if text:
            origins[name] = origin
    base = root or place.output_dir or Path.cwd()
    values["input_dir"] = _folder(values["input_dir"] or _default_input(root, place), base)
    values["output_dir"] = _folder(values["output_dir"] or _default_output(root, place), base)
    for name, value in RECIPES[values["recipe"]].items():
        values[name] = values[name] or value
    if values["session_hours"] is None:
        values["session_hours"] = place.session_hours
    return Settings(root=root, place=place, origins=origins, extra=extra, notes=tuple(notes), **values)


def _own_layers(
    root: Path,
    start: Path | None,
    layers: list[tuple[str, Mapping[str, str]]],
    secrets: envfiles.EnvFile,
    variables: envfiles.EnvFile,
    notes: list[str],
) -> list[tuple[str, Mapping[str, str]]]:
    """Settings of the competition's own folder, when it has one; inside such a folder, also which competition it is."""
    here = (start or Path.cwd()).resolve()
    inside = here.relative_to(root / COMPETITIONS).parts[:1] if here.is_relative_to(root / COMPETITIONS) else ()
    found: list[tuple[str, Mapping[str, str]]] = []
    if inside:
        found.append((f"the folder {COMPETITIONS}/{inside[0]}", {"COMPETITION": inside[0]}))
    held = [*(layer for _, layer in layers), secrets.values, *(layer for _, layer in found), variables.values]
    slug = next((layer["COMPETITION"] for layer in held if layer.get("COMPETITION")), SETTINGS["COMPETITION"][1])
    file = root / COMPETITIONS / slug / VARIABLES_FILE
    if re.fullmatch(SLUG, slug) and file.is_file():
        own = envfiles.read(file)
        _refuse_versioned_secrets(own)
        notes += own.notes + tuple(envfiles.misspellings(own, list(SETTINGS)))
        if own.values.get("COMPETITION", slug) != slug:
            raise UsageError(
                f"{COMPETITIONS}/{slug}/{VARIABLES_FILE} sets COMPETITION={own.values['COMPETITION']}.",
                hint="Take that line out: the folder's name is the competition.",
            )
        found.append((f"{COMPETITIONS}/{slug}/{VARIABLES_FILE}", own.values))
    return found


def _given(overrides: Mapping[str, Any]) -> dict[str, str]:
    unknown = [name for name in overrides if name not in SETTINGS]
    if unknown:
        close = envfiles.closest(unknown[0], list(SETTINGS))
        raise UsageError(
            f"There is no setting {unknown[0]!r}." + (f" Did you mean {close}?" if close else ""),
            hint="The settings are: " + ", ".join(SETTINGS) + ".",
        )
    return {name: str(value) for name, value in overrides.items() if value is not None}


def _refuse_versioned_secrets(variables: envfiles.EnvFile) -> None:
    for name in SECRET_NAMES:
        if variables.values.get(name):
            raise UsageError(
                f"{name} stands in {variables.where(name)}, a file that git versions.",
                hint=f"Move that line to {SECRETS_FILE} (git ignores it); if it was ever committed, revoke the key.",
            )


def _stale_environment(variables: Mapping[str, str]) -> list[str]:
    handed_on = os.environ.get(HANDED_ON, "").split(",")
    return [
        f"{name} is {os.environ[name]!r} in the environment and {value!r} in {VARIABLES_FILE}; the environment wins. "
        "In a container, restart it to take the file's value."
        for name, value in variables.items()
        if name in SETTINGS and name not in handed_on
        if value and os.environ.get(name) and os.environ[name] != value
    ]


def _default_input(root: Path | None, place: Place) -> Path:
    return root / "data" / "input" if root else place.input_roots[0]


def _default_output(root: Path | None, place: Place) -> Path:
    return root / "data" / "output" if root else place.output_dir or Path.cwd()


def _folder(path: Path, base: Path) -> Path:
    path = path.expanduser()
    return path if path.is_absolute() else base / path


def _wrong(name: str, text: str, origin: str, wanted: str) -> UsageError:
    shown = "***" if name in SECRET_NAMES else repr(text)
    return UsageError(f"{name} is {shown} (from {origin}); it must be {wanted}.", hint=f"Correct {name} there.")


def _text(name: str, text: str, origin: str) -> str:
    return text


def _secret(name: str, text: str, origin: str) -> Secret:
    return Secret(text)


def _path(name: str, text: str, origin: str) -> Path:
    try:
        return host_folder(text)
    except WorkbenchError as error:
        raise type(error)(f"{name} (from {origin}): {error.message}", hint=error.hint) from None


def _slug(name: str, text: str, origin: str) -> str:
    if not re.fullmatch(SLUG, text):
        raise _wrong(
            name, text, origin, "a competition's slug, such as digit-recognizer (the last part of its address)"
        )
    return text


def _run_id(name: str, text: str, origin: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", text):
        raise _wrong(name, text, origin, "letters, digits, dots, '-' and '_', at most 80")
    return text


def _flag(name: str, text: str, origin: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in known:
        raise _wrong(name, text, origin, "true or false")
    return known[text.lower()]


def _names(name: str, text: str, origin: str) -> tuple[str, ...]:
    """Names of columns, separated by commas; one that holds a comma stands in double quotes, as in a CSV file."""
    return tuple(cell.strip() for cell in next(csv.reader([text], skipinitialspace=True)) if cell.strip())


def _whole(least: int) -> Any:
    def parse(name: str, text: str, origin: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
            raise _wrong(name, text, origin, f"a whole number from {least}")
        return int(text)

    return parse


def _number(unit: str, most: float) -> Any:
    def parse(name: str, text: str, origin: str) -> float:
        if not re.fullmatch(r"\d{1,4}(\.\d+)?", text) or not 0 < float(text) <= most:
            raise _wrong(name, text, origin, f"a number of {unit} above 0, at most {most:g}")
        return float(text)

    return parse


def _one_of(*choices: str) -> Any:
    def parse(name: str, text: str, origin: str) -> str:
        if text not in choices:
            raise _wrong(name, text, origin, "one of " + ", ".join(choices))
        return text

    return parse


# Name: (parser, default). The one list of names: variables.env, environment, `--set` and notebook parameters.
SETTINGS: Mapping[str, tuple[Any, Any]] = {
    "COMPETITION": (_slug, "digit-recognizer"),
    "SOURCE": (_one_of("auto", "kaggle", "practice"), "auto"),
    "GPU_COUNT": (_whole(0), None),
    "ALLOW_CPU": (_flag, False),
    "PRECISION": (_one_of("auto", "float32", "mixed_float16", "mixed_bfloat16"), "auto"),
    "KERAS_BACKEND": (_one_of("tensorflow", "jax", "torch"), "tensorflow"),
    "SEED": (_whole(0), 0),
    "EPOCHS": (_whole(1), None),
    "BATCH_SIZE": (_whole(1), None),
    "RECIPE": (_one_of("reference", "fast"), "reference"),
    "SUBMIT": (_flag, False),
    "RUN_ID": (_run_id, None),
    "STORE": (_text, None),
    "SESSION_HOURS": (_number("hours", 9999), None),
    "CHECKPOINT_MINUTES": (_number("minutes", 1440), 10.0),
    "FORCE_RESUME": (_flag, False),
    "TENSORFLOW_BUILD": (_one_of("auto", "cpu", "cuda"), "auto"),
    "TARGET": (_names, ()),
    "ID_COLUMN": (_text, None),
    "PROBLEM": (_one_of("binary", "classes", "regression", "several"), None),
    "ROW_KIND": (_one_of("table", "pixels", "images"), None),
    "METRIC": (_text, None),
    "GROUP_COLUMN": (_text, None),
    "TIME_COLUMN": (_text, None),
    "DROP_COLUMNS": (_names, ()),
    "TRAIN_FILE": (_text, None),
    "TEST_FILE": (_text, None),
    "FOLDS": (_whole(2), None),
    "INPUT_DIR": (_path, None),
    "OUTPUT_DIR": (_path, None),
    "MONGODB_URI": (_secret, None),
    "TUNE_STORAGE": (_secret, None),
    "KAGGLE_API_TOKEN": (_secret, None),
    "KAGGLE_USERNAME": (_secret, None),
    "KAGGLE_KEY": (_secret, None),
}
SECRET_NAMES = ("MONGODB_URI", "TUNE_STORAGE", "KAGGLE_API_TOKEN", "KAGGLE_USERNAME", "KAGGLE_KEY")
