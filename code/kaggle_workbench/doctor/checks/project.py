"""The project's own files: settings, secrets, spec, lock, scripts."""

from __future__ import annotations

import importlib.util
import json
import re
import stat
from pathlib import Path

from kaggle_workbench import envfiles
from kaggle_workbench.doctor.check import Check, Result, closed, failed, not_checked, passed, warned
from kaggle_workbench.doctor.facts import SECRETS, Facts
from kaggle_workbench.settings import SETTINGS

SCRIPTS = (
    "kwb",
    "preBuild.bash",
    "postBuild.bash",
    "variables.env",
    "requirements.txt",
    "apt.txt",
    ".project/spec.yaml",
)
# What AI Workbench and the container add to variables.env.
OTHERS = ("PYTHONPATH", "TF_FORCE_GPU_ALLOW_GROWTH", "XLA_PYTHON_CLIENT_PREALLOCATE")


def settings(facts: Facts) -> Result:
    """variables.env: lines that mean something, names that are known, no secrets."""
    path = facts.root / "variables.env"
    if not path.is_file():
        return warned("there is no variables.env; every setting has its default", "git checkout variables.env")
    for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, sign, value = text.partition("=")
        if not sign or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            return failed(f"variables.env, line {number} is no NAME=VALUE", "Write it so, without spaces around the =.")
        if name in SECRETS and value:
            return failed(
                f"variables.env, line {number}: {name} is a secret, and git versions this file",
                "Move that line to secrets.env; if it was ever committed, revoke the key on kaggle.com.",
            )
        if value[:1] in "'\"" and value:
            return failed(
                f"variables.env, line {number}: quotes become part of the value in Docker",
                f"Take them out: {name}={value.strip(chr(34) + chr(39))}",
            )
        if re.search(r"\s#", value):
            return failed(
                f"variables.env, line {number}: a comment behind a value becomes part of it",
                "Put the comment on a line of its own.",
            )
        if name not in SETTINGS and name not in OTHERS and (close := envfiles.closest(name, list(SETTINGS))):
            return warned(
                f"variables.env, line {number}: {name} is no setting; did you mean {close}?",
                f"Write {close}=... there.",
            )
    return passed("variables.env is sound")


def secrets(facts: Facts) -> Result:
    """secrets.env: nobody else may read it."""
    path = facts.root / "secrets.env"
    if not path.is_file():
        return passed("no secrets.env; none is needed for practice")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return failed(f"secrets.env may be read by others (mode {mode:04o})", f"chmod 600 {path}", lambda: closed(path))
    return passed("secrets.env is its owner's alone")


def spec(facts: Facts) -> Result:
    """The AI Workbench spec."""
    path = facts.root / ".project" / "spec.yaml"
    if not path.is_file():
        return failed("there is no .project/spec.yaml", "git checkout .project/spec.yaml")
    if importlib.util.find_spec("ruamel") is None:
        return not_checked("needs ruamel.yaml, which ./kwb installs", "./kwb spec check")
    from kaggle_workbench.container.spec import check

    report = check(path)
    errors = [finding for finding in report.findings if finding.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        first = errors[0]
        where = f"{first.file}, line {first.mark.line}"
        return failed(f"{where}: {first.message}{more}", f"{first.fix or 'Correct it.'} ./kwb spec check lists all.")
    return passed("spec.yaml is sound")


def lock(facts: Facts) -> Result:
    """The image lock against the spec and the frameworks asked for."""
    path = facts.root / ".project" / "image.lock"
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        wanted = f"{held['image']}:{held['tag']}"
    except OSError:
        return failed("there is no .project/image.lock", "./kwb image lock (or: git checkout .project/image.lock)")
    except (ValueError, KeyError, TypeError) as error:
        return failed(f".project/image.lock cannot be read ({error})", "git checkout .project/image.lock")
    text = _text(facts.root / ".project" / "spec.yaml")
    registry = re.search(r"^\s*registry:\s*[\"']?([^\s\"']+)", text, re.MULTILINE)
    image = re.search(r"^\s+image:\s*[\"']?([^\s\"']+:[^\s\"']+)", text, re.MULTILINE)
    if image and not f"{registry.group(1) + '/' if registry else ''}{image.group(1)}".endswith(
        wanted.partition("/")[2]
    ):
        return failed(
            f"the spec says {image.group(1)}, the lock {wanted}",
            "./kwb image lock writes the lock for the spec's image.",
        )
    for line in _text(facts.root / "requirements.txt").splitlines():
        pin = re.match(r"\s*(tensorflow|keras|torch|jax)\s*==\s*([\w.]+)", line)
        known = (held.get("packages") or {}).get(pin.group(1)) if pin else None
        if pin and known != pin.group(2):
            there = f"the image has {known}" if known else "the image brings its own"
            return failed(
                f"requirements.txt moves {pin.group(1)} to {pin.group(2)}; {there}, and the build refuses that",
                f"Take the line {line.strip()!r} out of requirements.txt.",
            )
    if not held.get("digest"):
        return warned(
            f"{wanted}, by its tag alone: what it holds may change", "./kwb image lock (with Docker and network)"
        )
    return passed(f"{wanted} by its digest")


def scripts(facts: Facts) -> Result:
    """Line ends and modes of what runs in the container."""
    crlf = [name for name in SCRIPTS if b"\r\n" in _bytes(facts.root / name)]
    if crlf:
        return failed(
            f"Windows' line ends in {', '.join(crlf)}: they do not run in the container",
            "git config core.autocrlf false, then: ./kwb doctor --fix",
            lambda: _unix(facts.root, crlf),
        )
    kwb = facts.root / "kwb"
    if kwb.is_file() and not kwb.stat().st_mode & stat.S_IXUSR:
        return failed("kwb may not be executed", f"chmod +x {kwb}", lambda: _executable(kwb))
    missing = [name for name in SCRIPTS if not (facts.root / name).is_file() and name != "variables.env"]
    if missing:
        return failed(f"missing: {', '.join(missing)}", f"git checkout {' '.join(missing)}")
    return passed("scripts are as they should be")


def left_behind(facts: Facts) -> Result:
    """What killed processes of ours left."""
    lock_folder = facts.root / ".venv.lock"
    owner = _text(lock_folder / "pid").strip() if lock_folder.is_dir() else ""
    if lock_folder.is_dir() and owner.isdigit() and not Path("/proc", owner).exists() and Path("/proc/self").exists():
        return warned(
            f".venv.lock is left from process {owner}, which is gone", "rm -r .venv.lock", lambda: _unlock(lock_folder)
        )
    return passed("nothing")


def _unix(root: Path, names: list[str]) -> str:
    for name in names:
        path = root / name
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
    return f"wrote {', '.join(names)} with Unix' line ends"


def _executable(path: Path) -> str:
    path.chmod(path.stat().st_mode | 0o111)
    return f"{path.name} may be executed now"


def _unlock(folder: Path) -> str:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    return f"removed {folder.name}"


def _text(path: Path) -> str:
    return _bytes(path).decode(errors="replace")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


CHECKS = [
    Check("settings", "variables.env", settings),
    Check("secrets", "secrets.env", secrets),
    Check("spec", "AI Workbench spec", spec),
    Check("lock", "Image lock", lock),
    Check("scripts", "Scripts", scripts),
    Check("left-behind", "Left by killed processes", left_behind),
]
