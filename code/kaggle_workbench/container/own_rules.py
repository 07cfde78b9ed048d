"""Rules for this project's own files: what the spec, the build files and the package must agree on."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from kaggle_workbench import envfiles
from kaggle_workbench.container.file_rules import split_note
from kaggle_workbench.container.findings import Finding, Mark
from kaggle_workbench.container.requirements import normal, parse
from kaggle_workbench.container.spec_read import Document
from kaggle_workbench.container.spec_write import dump_spec
from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import SECRET_NAMES, SECRETS_FILE, SETTINGS, VARIABLES_FILE

PACKAGE = Path("code") / "kaggle_workbench"
PACKAGE_PATH = "/project/code"
LOCK = Path(".project") / "image.lock"
EXAMPLE = f"{SECRETS_FILE}.example"
# What the container must bring of pyproject.toml's lists; the CPU build of TensorFlow is the local environment's.
_EXTRAS = ("launcher", "arena", "kaggle", "local")
_NOT_IN_CONTAINER = ("kaggle-workbench", "tensorflow-cpu")
_HOST_FOLDERS = ("/project/data/input", "/project/data/output")
_APP_PACKAGES = ("jupyterlab", "tensorboard")
_COMMANDS = {"curl": "curl", "pkill": "procps", "pgrep": "procps", "ps": "procps", "git": "git", "wget": "wget"}
_IGNORED = (SECRETS_FILE, ".project/*", "data/input/*", "data/output/*")
_KEPT = (
    "!.project/spec.yaml",
    "!.project/configpacks",
    f"!{LOCK.as_posix()}",
    "!data/input/.gitkeep",
    "!data/output/.gitkeep",
)


def is_ours(root: Path) -> bool:
    """Whether the project holds this package, so that its own agreements apply."""
    return (root / PACKAGE / "__init__.py").is_file()


def check_own(document: Document, root: Path) -> Iterator[Finding]:
    """Apply the rules for this project's own files."""
    _canonical(document)
    _image(document, root)
    _mounts(document)
    yield from _secrets(document, root)
    yield from _variables(root)
    yield from _requirements(document, root)
    yield from _apt(document, root)
    yield from _git(root)


def _canonical(document: Document) -> None:
    wanted = dump_spec(document.spec).splitlines()
    lines = document.text.splitlines()
    for number, line in enumerate(lines, start=1):
        if number > len(wanted) or line != wanted[number - 1]:
            expected = wanted[number - 1].strip() if number <= len(wanted) else "nothing more"
            break
    else:
        if len(wanted) == len(lines) and document.text.endswith("\n"):
            return
        number, expected = max(len(lines), 1), wanted[len(lines)].strip() if len(wanted) > len(lines) else "a line end"
    document.warn(
        "not-canonical",
        Mark(number),
        "From this line on the file is not as AI Workbench writes it; its next save would change it.",
        f"Here it writes: {expected}",
    )


def _image(document: Document, root: Path) -> None:
    base = document.spec.environment.base
    wanted = f"{base.tag[1:]}.0.0" if re.fullmatch(r"v\d+", base.tag) else ""
    if wanted and base.image_version != wanted:
        document.warn(
            "image-version",
            "environment.base.image_version",
            f"image_version is {base.image_version!r}, the image's tag is {base.tag}.",
            f"Write image_version: {wanted}.",
        )
    try:
        lock = json.loads((root / LOCK).read_text(encoding="utf-8"))
        locked = f"{lock['image']}:{lock['tag']}"
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError):
        document.error("image-lock", Mark(), f"{LOCK} cannot be read.", "Make it anew with `./kwb image lock`.")
        return
    if locked != base.reference:
        document.warn(
            "image-lock",
            "environment.base.image",
            f"The spec builds on {base.reference}, {LOCK} names {locked}.",
            "Move both with `./kwb image lock --tag TAG`.",
        )


def _mounts(document: Document) -> None:
    targets = [mount.target.rstrip("/") for mount in document.spec.host_mounts]
    for folder in _HOST_FOLDERS:
        if folder not in targets:
            document.error(
                "host-folder",
                "execution.mounts",
                f"There is no host mount at {folder}/.",
                f"Add one: type: host, target: {folder}/.",
            )


def _secrets(document: Document, root: Path) -> Iterator[Finding]:
    declared = [secret.variable for secret in document.spec.execution.secrets]
    for name in sorted(set(SECRET_NAMES) - set(declared)):
        document.error(
            "secret-unknown", "execution.secrets", f"The secret {name} is not listed.", f"Add - variable: {name}."
        )
    for index, name in enumerate(declared):
        if name not in SECRET_NAMES:
            document.warn(
                "secret-unknown",
                f"execution.secrets[{index}].variable",
                f"The secret {name} is none of the settings, so nothing of the workbench reads it.",
                f"If it is yours, add it to {EXAMPLE} too; the settings' secrets are {', '.join(SECRET_NAMES)}.",
            )
    try:
        example = envfiles.read(root / EXAMPLE)
    except UsageError as error:
        yield Finding(EXAMPLE, Mark(), "error", "secrets-example", error.message, error.hint)
        return
    for name in sorted(set(declared) - set(example.values)):
        yield Finding(
            EXAMPLE, Mark(), "warning", "secrets-example", f"{name} of the spec is not listed here.", f"Add {name}=."
        )
    for name, value in example.values.items():
        if value:
            yield Finding(
                EXAMPLE,
                Mark(example.lines[name]),
                "error",
                "secrets-example",
                f"{name} has a value here, in a file that git versions.",
                f"Write {name}= and revoke the key if it was ever committed.",
            )


def _variables(root: Path) -> Iterator[Finding]:
    try:
        file = envfiles.read(root / VARIABLES_FILE)
    except UsageError:
        return
    if PACKAGE_PATH not in file.values.get("PYTHONPATH", "").split(":"):
        yield Finding(
            VARIABLES_FILE,
            Mark(file.lines.get("PYTHONPATH", 1)),
            "error",
            "package-path",
            "PYTHONPATH does not hold the helper package's folder, so the notebooks cannot import it in the container.",
            f"Write PYTHONPATH={PACKAGE_PATH}.",
        )
    for note in envfiles.misspellings(file, list(SETTINGS)):
        mark, message = split_note(note)
        said, _, question = message.partition("; ")
        yield Finding(VARIABLES_FILE, mark, "warning", "misspelling", f"{said}.", question.capitalize())


def _requirements(document: Document, root: Path) -> Iterator[Finding]:
    file = root / "requirements.txt"
    listed = {requirement.name for requirement in parse(file.read_text(encoding="utf-8"))} if file.is_file() else set()
    for app in document.spec.apps:
        if app.type in _APP_PACKAGES and app.type not in listed:
            yield _unlisted(app.type, f"the app {app.name} needs it")
    for package in sorted(_package_needs(root) - listed):
        yield _unlisted(package, "the helper package needs it (pyproject.toml)")


def _unlisted(package: str, why: str) -> Finding:
    return Finding(
        "requirements.txt",
        Mark(),
        "error",
        "requirement-missing",
        f"{package} is not listed, and {why}.",
        f"Add {package} with a range that the image satisfies.",
    )


def _package_needs(root: Path) -> set[str]:
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return set()
    extras = project.get("optional-dependencies", {})
    lines = [*project.get("dependencies", []), *(line for extra in _EXTRAS for line in extras.get(extra, []))]
    return {normal(re.split(r"[\s\[<>=!~;]", line)[0]) for line in lines} - set(_NOT_IN_CONTAINER)


def _apt(document: Document, root: Path) -> Iterator[Finding]:
    file = root / "apt.txt"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    listed = {line.strip() for line in text.splitlines()}
    for app in document.spec.apps:
        options = app.webapp_options
        told = (app.start_command, app.health_check_command, app.stop_command, options.url_command if options else "")
        words = set(re.findall(r"(?:^|[;&|(]\s*|\s)(\w+)", " ; ".join(told)))
        for command in sorted(words & set(_COMMANDS)):
            if _COMMANDS[command] not in listed:
                yield Finding(
                    "apt.txt",
                    Mark(),
                    "error",
                    "apt-missing",
                    f"The app {app.name} calls {command}, and {_COMMANDS[command]} is not listed.",
                    f"Add {_COMMANDS[command]}.",
                )


def _git(root: Path) -> Iterator[Finding]:
    ignored = (root / ".gitignore").read_text(encoding="utf-8").splitlines() if (root / ".gitignore").is_file() else []
    for rule in (*_IGNORED, *_KEPT):
        if rule not in ignored:
            yield Finding(
                ".gitignore",
                Mark(),
                "error",
                "gitignore",
                f"The rule {rule} is missing.",
                f"Add the line {rule}" + (" behind the rule it takes back." if rule.startswith("!") else "."),
            )
    file = root / ".gitattributes"
    attributes = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    for number, line in enumerate(attributes, start=1):
        if "filter=lfs" in line.split():
            yield Finding(
                ".gitattributes",
                Mark(number),
                "error",
                "lfs",
                f"{line.split()[0]} goes to Git LFS; a clone without LFS gets pointers instead of notebooks and data.",
                "Delete the line, and the layout's storage: gitlfs that brought it.",
            )
    if "* text=auto eol=lf" not in attributes:
        yield Finding(
            ".gitattributes",
            Mark(),
            "error",
            "line-ends",
            "Nothing keeps the line ends LF; a clone on Windows gets scripts that bash cannot run.",
            "Add the line * text=auto eol=lf.",
        )
