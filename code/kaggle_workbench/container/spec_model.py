"""AI Workbench's project spec as types: one dataclass per mapping of the file.

The order of the classes' fields is the order in which AI Workbench writes the keys, and a field's
default is what a missing key means; reader, checker and writer all work from these classes.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from typing import Any, get_type_hints

APP_TYPES = ("jupyterlab", "tensorboard", "vs-code", "cursor", "custom")
APP_CLASSES = ("webapp", "process", "native")
LAYOUT_TYPES = ("code", "data", "models")
LAYOUT_STORAGES = ("git", "gitlfs", "gitignore")
MOUNT_TYPES = ("project", "volume", "host", "tmp")
NEWEST_MINOR = 2


def _as(
    default: Any = MISSING, *, key: str = "", factory: Any = MISSING, since: int = 0, omit_empty: bool = False
) -> Any:
    """A field whose key in the file differs, came with a later minor version, or is left out when empty."""
    told = {"key": key, "since": since, "omit_empty": omit_empty}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=told)
    return field(default=default, metadata=told)


@dataclass(frozen=True)
class Meta:
    """`meta`: what the project and its image are called."""

    name: str = ""
    image: str = ""
    description: str = ""
    labels: tuple[str, ...] = ()
    created_on: str = _as("", key="createdOn")
    default_branch: str = _as("", key="defaultBranch")


@dataclass(frozen=True)
class LayoutEntry:
    """One folder of `layout` and how git stores it."""

    path: str = ""
    type: str = ""
    storage: str = ""


@dataclass(frozen=True)
class Proxy:
    """`webapp_options.proxy`: whether the app is reached with or without the proxy's path."""

    trim_prefix: bool = False


@dataclass(frozen=True)
class WebappOptions:
    """Where a web app listens and how its address is found; `url` and `url_command` exclude each other."""

    autolaunch: bool = False
    port: str = ""
    proxy: Proxy = field(default_factory=Proxy)
    url: str = _as("", omit_empty=True)
    url_command: str = _as("", omit_empty=True)


@dataclass(frozen=True)
class ProcessOptions:
    """Options of an app of class `process`."""

    wait_until_finished: bool = False


@dataclass(frozen=True)
class App:
    """One app: commands to start, watch and stop it. Times are seconds; 0 means no limit."""

    name: str = ""
    type: str = ""
    class_: str = _as("", key="class")
    start_command: str = ""
    health_check_command: str = ""
    stop_command: str = ""
    user_msg: str = ""
    logfile_path: str = _as("", since=1)
    timeout_seconds: int = _as(60, since=1)
    icon_url: str = ""
    webapp_options: WebappOptions | None = field(default=None, metadata={"omit_empty": True})
    process_options: ProcessOptions | None = field(default=None, metadata={"omit_empty": True})

    @property
    def port(self) -> int | None:
        """The port inside the container, or None when the app has none."""
        text = self.webapp_options.port if self.webapp_options else ""
        return int(text) if text.isdecimal() else None


@dataclass(frozen=True)
class UserInfo:
    """The image's own user; all empty when it has none (the build then makes one)."""

    uid: str = ""
    gid: str = ""
    username: str = ""


@dataclass(frozen=True)
class PackageManager:
    """A package manager of the image; `installed_packages` is for information only."""

    name: str = ""
    binary_path: str = ""
    installed_packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackageManagerEnvironment:
    """The environment activated before each app command, such as conda at /opt/conda; empty: none."""

    name: str = ""
    target: str = ""


@dataclass(frozen=True)
class Base:
    """`environment.base`: the image the project's image is built from."""

    registry: str = ""
    image: str = ""
    build_timestamp: str = ""
    name: str = ""
    supported_architectures: tuple[str, ...] = ()
    cuda_version: str = ""
    description: str = ""
    entrypoint_script: str = ""
    labels: tuple[str, ...] = ()
    apps: tuple[App, ...] = ()
    programming_languages: tuple[str, ...] = ()
    icon_url: str = ""
    image_version: str = ""
    os: str = ""
    os_distro: str = ""
    os_distro_release: str = ""
    schema_version: str = ""
    user_info: UserInfo = field(default_factory=UserInfo)
    package_managers: tuple[PackageManager, ...] = ()
    package_manager_environment: PackageManagerEnvironment = field(default_factory=PackageManagerEnvironment)

    @property
    def reference(self) -> str:
        """The full image reference, `gcr.io/kaggle-gpu-images/python:v170`."""
        return f"{self.registry}/{self.image}"

    @property
    def tag(self) -> str:
        """The image's tag, or "" when it has none."""
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[2]

    @property
    def pip(self) -> str:
        """The pip program the build installs requirements.txt with."""
        return next((manager.binary_path for manager in self.package_managers if manager.name == "pip"), "pip")


@dataclass(frozen=True)
class Environment:
    """`environment`: the base image and, when there is one, the compose file."""

    base: Base = field(default_factory=Base)
    compose_file_path: str = _as("", since=2)


@dataclass(frozen=True)
class Gpu:
    """GPUs asked for; 0 passes none."""

    requested: int = 0


@dataclass(frozen=True)
class Resources:
    """What the container asks of the host; shared memory in MB, 0 leaves the engine's default (64 MB)."""

    gpu: Gpu = field(default_factory=Gpu)
    shared_memory_mb: int = _as(0, key="sharedMemoryMB")


@dataclass(frozen=True)
class SecretVariable:
    """The name of a secret; its value is typed in on each machine."""

    variable: str = ""
    description: str = ""


@dataclass(frozen=True)
class Mount:
    """A mount; host mounts get their source on each machine, so there is none here."""

    type: str = ""
    target: str = ""
    description: str = ""
    options: str = ""


@dataclass(frozen=True)
class Execution:
    """`execution`: apps, resources, secrets and mounts of the running container."""

    apps: tuple[App, ...] = ()
    resources: Resources = field(default_factory=Resources)
    secrets: tuple[SecretVariable, ...] = ()
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Spec:
    """The whole file."""

    spec_version: str = _as("", key="specVersion")
    spec_minor_version: int = _as(0, key="specMinorVersion")
    meta: Meta = field(default_factory=Meta)
    layout: tuple[LayoutEntry, ...] = ()
    environment: Environment = field(default_factory=Environment)
    execution: Execution = field(default_factory=Execution)

    @property
    def apps(self) -> tuple[App, ...]:
        """The image's and the project's apps; one of the project replaces one of the image of the same name."""
        apps = {app.name: app for app in (*self.environment.base.apps, *self.execution.apps)}
        return tuple(apps.values())

    def app(self, type: str) -> App | None:
        """The first app of a type ("jupyterlab"), if there is one."""
        return next((app for app in self.apps if app.type == type), None)

    @property
    def host_mounts(self) -> tuple[Mount, ...]:
        """The mounts whose source is a folder of the host."""
        return tuple(mount for mount in self.execution.mounts if mount.type == "host")

    def with_tag(self, tag: str) -> Spec:
        """The same spec on another version of the image, such as `v171`."""
        base = self.environment.base
        name = base.image.partition("@")[0]
        name = name[: len(name) - len(base.tag) - 1] if base.tag else name
        version = f"{tag[1:]}.0.0" if tag[:1] == "v" and tag[1:].isdecimal() else tag
        moved = replace(base, image=f"{name}:{tag}", image_version=version, build_timestamp="")
        return replace(self, environment=replace(self.environment, base=moved))


@dataclass(frozen=True)
class Key:
    """One key of a mapping: the attribute that holds it, its type, and how it is written."""

    name: str
    attribute: str
    type: Any
    since: int
    omit_empty: bool


@cache
def keys(model: Any) -> dict[str, Key]:
    """The keys of a dataclass's mapping, in the order AI Workbench writes them."""
    hints = get_type_hints(model)
    return {key.name: key for key in (_key(item, hints[item.name]) for item in fields(model))}


def _key(item: Field[Any], hint: Any) -> Key:
    told = item.metadata
    return Key(
        name=told.get("key") or item.name,
        attribute=item.name,
        type=hint,
        since=told.get("since", 0),
        omit_empty=told.get("omit_empty", False),
    )
