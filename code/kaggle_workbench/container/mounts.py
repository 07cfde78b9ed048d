"""Which folders of this machine a container gets, and where: chosen, and refused when they cannot be meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kaggle_workbench.container.engine import Bind
from kaggle_workbench.container.spec_model import Mount, Spec
from kaggle_workbench.errors import UsageError
from kaggle_workbench.hostpaths import host_folder
from kaggle_workbench.settings import Settings

PROJECT = "/project"
# Which setting names the folder behind a target of our own spec.
SETTING_OF_TARGET = {"/project/data/input": "INPUT_DIR", "/project/data/output": "OUTPUT_DIR"}
_SYSTEM = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "opt/project/build",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "usr",
)
FORBIDDEN_TARGETS = ("/", *(f"/{name}" for name in _SYSTEM), "/var/run", "/entrypoint.sh")
FORBIDDEN_SOURCES = ("/", *(f"/{name}" for name in _SYSTEM if name != "opt/project/build"), "/var")


@dataclass(frozen=True)
class HostMount:
    """One folder of this machine in the container.

    Attributes:
        source: Absolute folder of this machine.
        target: Absolute path inside, without a trailing slash.
        origin: Who chose the folder, for messages ("--input", "INPUT_DIR in variables.env").
    """

    source: Path
    target: str
    origin: str
    read_only: bool = False

    def bind(self) -> Bind:
        """The mount as the engine takes it."""
        return Bind(str(self.source), self.target, "bind", self.read_only)


def choose(spec: Spec, settings: Settings, given: Mapping[str, str], kept: Mapping[str, str]) -> list[HostMount]:
    """The project's mount and the host mounts, outermost first.

    The order for each host mount: command line, environment, this machine's file, variables.env,
    and for a target inside the project the folder at that very place.

    Args:
        spec: The project's spec.
        settings: Settings of this machine, with the project's root.
        given: Target -> folder as written on the command line.
        kept: Target -> folder that this machine's file holds.

    Raises:
        UsageError: A target of the command line that the spec does not have, a forbidden target, a
            folder that cannot be meant, or a host mount without a folder.
        MissingError: A Windows drive that is not there.
    """
    root = settings.root
    if root is None:
        raise UsageError("There is no project here.", hint="Change into your copy of the repository.")
    declared = {_bare(mount.target): mount for mount in spec.host_mounts}
    _refuse_targets(spec)
    for target in given:
        if target not in declared:
            raise UsageError(
                f"The spec has no host mount at {target}/.",
                hint="Host mounts of .project/spec.yaml: "
                + (", ".join(f"{name}/" for name in declared) or "none")
                + ".",
            )
    mounts = [HostMount(root, PROJECT, "the project's folder")]
    for target, mount in declared.items():
        source, origin = _source(target, settings, given, kept)
        if source is None:
            raise UsageError(
                f"The host mount {target}/ ({mount.description or 'no description'}) has no folder here yet.",
                hint=f"Name one: ./kwb up --mount DIR:{target}/   (it is kept for this machine)",
            )
        _refuse_source(source, origin, root)
        mounts.append(HostMount(source, target, origin, read_only=_is_read_only(mount)))
    return sorted(mounts, key=lambda mount: len(PurePosixPath(mount.target).parts))


def other_binds(spec: Spec, project_name: str) -> list[Bind]:
    """Volumes and temporary mounts of the spec; a volume without a name gets one of the project's own."""
    binds = []
    for mount in spec.execution.mounts:
        target = _bare(mount.target)
        if mount.type == "volume":
            named = next((part[11:] for part in mount.options.split(",") if part.startswith("volumeName=")), "")
            name = named or f"{project_name}-{target.strip('/').replace('/', '-')}"
            binds.append(Bind(name, target, "volume", _is_read_only(mount)))
        elif mount.type == "tmp":
            binds.append(Bind("", target, "tmpfs"))
    return binds


def _source(
    target: str, settings: Settings, given: Mapping[str, str], kept: Mapping[str, str]
) -> tuple[Path | None, str]:
    root = settings.root or Path.cwd()
    name = SETTING_OF_TARGET.get(target, "")
    flag = {"INPUT_DIR": "--input", "OUTPUT_DIR": "--output"}.get(name, "--mount")
    from_settings = settings.input_dir if name == "INPUT_DIR" else settings.output_dir
    if target in given:
        return Path.cwd() / host_folder(given[target]), flag
    if settings.origins.get(name) == "the environment":
        return from_settings, f"{name} in the environment"
    if target in kept:
        return Path(kept[target]), f"{flag} of an earlier kwb up"
    if name in settings.origins:
        return from_settings, f"{name} in {settings.origins[name]}"
    if target.startswith(f"{PROJECT}/"):
        return root / target.removeprefix(f"{PROJECT}/"), "the project's own folder"
    return None, ""


def _refuse_targets(spec: Spec) -> None:
    for mount in spec.execution.mounts:
        target = _bare(mount.target)
        if mount.type == "project":
            continue
        system = next((name for name in FORBIDDEN_TARGETS[1:] if target == name or target.startswith(f"{name}/")), None)
        if target in ("", "/", PROJECT) or system or not target.startswith("/"):
            raise UsageError(
                f".project/spec.yaml mounts a folder on {mount.target or '(nothing)'}, a place of the container's own.",
                hint="Choose a target below /project/, or a new name such as /data/.",
            )


def _refuse_source(source: Path, origin: str, root: Path) -> None:
    real = source.resolve()
    if str(real) in FORBIDDEN_SOURCES:
        raise UsageError(
            f"{source} (from {origin}) is a folder of the system; it is not handed to a container.",
            hint="Choose a folder of your own, such as ~/kaggle/input.",
        )
    if real == root.resolve() or real in root.resolve().parents:
        raise UsageError(
            f"{source} (from {origin}) holds the project itself; it cannot be mounted inside it.",
            hint="Choose a folder of its own for the data, such as data/input.",
        )


def _is_read_only(mount: Mount) -> bool:
    return "ro" in mount.options.replace(" ", "").split(",")


def _bare(target: str) -> str:
    return target.rstrip("/") or ("/" if target else "")
