"""The container engine: the only module that knows the `docker` package.

Works with Docker Engine, Docker Desktop and Podman's Docker socket. Errors come out in plain
words; nothing here decides anything.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kaggle_workbench.container.endpoints import Endpoint, find_endpoint
from kaggle_workbench.container.engine_errors import engine_error, last_words, pull_error
from kaggle_workbench.errors import MissingError

CALL_SECONDS = 60
# A build step may be silent for long (unpacking a 20 GB image, compiling a wheel), yet not for ever.
SILENT_BUILD_SECONDS = 3600


@dataclass(frozen=True)
class Executed:
    """A command's end inside a container: exit code, and its output as text."""

    exit_code: int
    output: str


@dataclass(frozen=True)
class Bind:
    """One mount of a container.

    Attributes:
        source: Folder of this machine, or a volume's name; "" for a temporary one.
        target: Absolute path inside, without a trailing slash.
        kind: `bind`, `volume` or `tmpfs`.
        read_only: Whether the container may only read it.
    """

    source: str
    target: str
    kind: Literal["bind", "volume", "tmpfs"] = "bind"
    read_only: bool = False


@dataclass(frozen=True)
class ContainerRequest:
    """All that a container is created from.

    Attributes:
        environment: Variables, secrets included; hence left out of `repr`.
        ports: Port inside -> port on 127.0.0.1; None lets the engine pick a free one.
        gpus: How many GPUs to pass; 0 for none.
        gpu_route: `nvidia` (Docker's `--gpus`) or `cdi`.
    """

    image: str
    name: str
    user: str
    environment: Mapping[str, str] = field(repr=False)
    labels: Mapping[str, str]
    mounts: Sequence[Bind]
    ports: Mapping[int, int | None]
    shm_mb: int
    gpus: int = 0
    gpu_route: str = "nvidia"


class Engine:
    """A connection to one engine; use `connect()`."""

    def __init__(self, api: Any, endpoint: Endpoint) -> None:
        self._api = api
        self.endpoint = endpoint
        with self._plain("asking the engine what it is"):
            self.info: dict[str, Any] = api.info()
            version: dict[str, Any] = api.version()
        self.is_podman = any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or [])
        options = [str(option) for option in self.info.get("SecurityOptions") or []]
        self.is_rootless = any("rootless" in option for option in options)
        self._remaps_users = any("name=userns" in option for option in options)
        self._has_selinux = any("selinux" in option for option in options)
        self.name = f"{'Podman' if self.is_podman else 'Docker'} {version.get('Version', '')}".strip()
        self.architecture = str(version.get("Arch") or "")

    # Images

    def image(self, name: str) -> dict[str, Any] | None:
        """What the engine knows of an image on this machine; None when it is not here."""
        from docker.errors import ImageNotFound

        with self._plain(f"looking for the image {name}"):
            try:
                return dict(self._api.inspect_image(name))
            except ImageNotFound:
                return None

    def pull(self, name: str) -> Iterator[dict[str, Any]]:
        """Fetch an image; yields the engine's progress events.

        Raises:
            MissingError: No such image, registry out of reach, log-in asked for, disk full.
        """
        from docker.utils import parse_repository_tag

        repository, tag = parse_repository_tag(name)
        with self._plain(f"fetching the image {name}", image=name), self._patient():
            for event in self._api.pull(repository, tag=tag or "latest", stream=True, decode=True):
                if "error" in event:
                    raise pull_error(name, str(event["error"]))
                yield event

    def platforms(self, name: str) -> list[str]:
        """Architectures of an image as its registry lists them; empty when it cannot be asked."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            answer = self._api.inspect_distribution(name)
        except (DockerException, RequestException):
            return []
        names = {str(platform.get("architecture", "")) for platform in answer.get("Platforms") or []}
        return sorted(names - {"", "unknown"})

    def build(self, context: bytes, *, tag: str, labels: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Build an image from a tar archive holding `Containerfile`; yields the engine's events.

        Raises:
            WorkbenchError: The engine could not be used. A failing step arrives as an event with `error`.
        """
        with self._plain("building the image"), self._patient():
            yield from self._api.build(
                fileobj=io.BytesIO(context),
                custom_context=True,
                dockerfile="Containerfile",
                tag=tag,
                rm=True,
                forcerm=True,
                decode=True,
                labels=dict(labels),
            )

    def run_once(self, image: str, argv: Sequence[str], *, timeout_s: int = 300) -> Executed:
        """Run one command in a throwaway container without network, as root."""
        with self._plain(f"running {argv[0]} in {image}"):
            made = self._api.create_container(
                image, command=list(argv[1:]), entrypoint=[argv[0]], user="0", network_disabled=True
            )["Id"]
            try:
                self._api.start(made)
                code = int(self._api.wait(made, timeout=timeout_s)["StatusCode"])
                return Executed(code, self._api.logs(made, stdout=True, stderr=False).decode(errors="replace"))
            finally:
                self._api.remove_container(made, force=True, v=True)

    # Containers

    def containers(self, label: str) -> list[dict[str, Any]]:
        """All containers, ended ones too, that carry `label` (`name` or `name=value`), as inspected."""
        with self._plain("looking for containers"):
            return [
                found
                for row in self._api.containers(all=True, filters={"label": [label]})
                if (found := self.container(row["Id"])) is not None
            ]

    def container(self, name: str) -> dict[str, Any] | None:
        """One container by name or id, as inspected; None when there is none."""
        from docker.errors import NotFound

        with self._plain(f"looking for the container {name}"):
            try:
                return dict(self._api.inspect_container(name))
            except NotFound:
                return None

    def create(self, request: ContainerRequest) -> str:
        """Create a container and return its id; it is not started."""
        from docker.types import DeviceRequest

        devices = []
        if request.gpus and request.gpu_route == "cdi":
            ids = [f"nvidia.com/gpu={number}" for number in range(request.gpus)]
            devices = [DeviceRequest(driver="cdi", device_ids=ids)]
        elif request.gpus:
            devices = [DeviceRequest(count=request.gpus, capabilities=[["gpu"]])]
        host = self._api.create_host_config(
            mounts=[_mount(bind) for bind in request.mounts],
            port_bindings={inner: ("127.0.0.1", outer) for inner, outer in request.ports.items()},
            shm_size=f"{request.shm_mb}m" if request.shm_mb else None,
            device_requests=devices or None,
            userns_mode=self._userns(),
            security_opt=["label=disable"] if self._has_selinux else None,
        )
        with self._plain(f"creating the container {request.name}", secrets=request.environment.values()):
            made = self._api.create_container(
                request.image,
                name=request.name,
                user=request.user,
                environment=dict(request.environment),
                labels=dict(request.labels),
                ports=list(request.ports),
                host_config=host,
            )
        return str(made["Id"])

    def start(self, container: str) -> None:
        """Start a created container.

        Raises:
            PortTakenError: Its port on this machine is in use.
            GpuRefusedError: The engine cannot give it the GPUs.
        """
        with self._plain("starting the container"):
            self._api.start(container)

    def remove(self, container: str) -> None:
        """Stop and remove a container; one that is gone already is fine."""
        from docker.errors import APIError, NotFound

        with self._plain("removing the container"):
            try:
                self._api.remove_container(container, force=True, v=True)
            except NotFound:
                pass
            except APIError as error:
                if "already in progress" not in str(error).lower():
                    raise

    def container_log(self, container: str, *, lines: int) -> str:
        """The last lines of what the container's own first process wrote."""
        with self._plain("reading the container's log"):
            return str(self._api.logs(container, tail=lines).decode(errors="replace"))

    # Inside a container

    def execute(self, container: str, argv: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Executed:
        """Run a command inside, as the container's user, and wait for it."""
        with self._plain(f"running {argv[0]} in the container"):
            made = self._api.exec_create(container, list(argv), environment=dict(environment or {}))["Id"]
            output = self._api.exec_start(made)
            code = self._api.exec_inspect(made)["ExitCode"]
        return Executed(-1 if code is None else int(code), (output or b"").decode(errors="replace"))

    def spawn(self, container: str, argv: Sequence[str], *, environment: Mapping[str, str]) -> str:
        """Start a command inside that goes on by itself; returns an id for `spawned_exit_code`."""
        with self._plain(f"starting {argv[0]} in the container"):
            made = self._api.exec_create(container, list(argv), environment=dict(environment))["Id"]
            self._api.exec_start(made, detach=True)
        return str(made)

    def spawned_exit_code(self, spawned: str) -> int | None:
        """The exit code of a spawned command; None while it runs."""
        with self._plain("asking for a command's state"):
            state = self._api.exec_inspect(spawned)
        return None if state["Running"] else int(state["ExitCode"] or 0)

    def lines(self, container: str, argv: Sequence[str]) -> Iterator[bytes]:
        """Run a command inside and yield its output as it comes (`tail -F`)."""
        with self._plain(f"running {argv[0]} in the container"), self._patient(None):
            made = self._api.exec_create(container, list(argv))["Id"]
            yield from self._api.exec_start(made, stream=True)

    def terminal(
        self, container: str, argv: Sequence[str], *, tty: bool, environment: Mapping[str, str]
    ) -> TerminalLink:
        """Start a command inside, joined to a socket (see `shell.py`)."""
        with self._plain(f"running {argv[0]} in the container"):
            made = self._api.exec_create(container, list(argv), stdin=True, tty=tty, environment=dict(environment))[
                "Id"
            ]
            return TerminalLink(self._api, made, self._api.exec_start(made, tty=tty, socket=True))

    def put_file(self, container: str, path: str, content: bytes, *, uid: int, gid: int) -> None:
        """Write a file (mode 0600, in a folder with mode 0700) into a container, without a command line."""
        target = Path(path)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            folder = tarfile.TarInfo(target.parent.name)
            folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, 0o700, uid, gid
            tar.addfile(folder)
            entry = tarfile.TarInfo(f"{target.parent.name}/{target.name}")
            entry.size, entry.mode, entry.uid, entry.gid = len(content), 0o600, uid, gid
            tar.addfile(entry, io.BytesIO(content))
        with self._plain(f"writing {path} in the container"):
            self._api.put_archive(container, str(target.parent.parent), archive.getvalue())

    def get_file(self, container: str, path: str) -> bytes | None:
        """A file's content from a container, running or ended; None when there is no such file."""
        from docker.errors import NotFound

        with self._plain(f"reading {path} in the container"):
            try:
                chunks, _ = self._api.get_archive(container, path)
            except NotFound:
                return None
            with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
                member = tar.next()
                file = tar.extractfile(member) if member else None
                return file.read() if file else None

    def close(self) -> None:
        """End the connection."""
        self._api.close()

    def _userns(self) -> str | None:
        # Rootless Podman maps this user to the same ids inside; a re-mapping Docker must not, for this container.
        if self.is_podman and self.is_rootless:
            return "keep-id"
        return "host" if self._remaps_users else None

    @contextmanager
    def _patient(self, seconds: int | None = SILENT_BUILD_SECONDS) -> Iterator[None]:
        usual, self._api.timeout = self._api.timeout, seconds
        try:
            yield
        finally:
            self._api.timeout = usual

    @contextmanager
    def _plain(self, doing: str, *, image: str = "", secrets: Any = ()) -> Iterator[None]:
        from docker.errors import DockerException
        from requests.exceptions import ReadTimeout, RequestException

        try:
            yield
        except ReadTimeout:
            raise MissingError(
                f"The container engine did not answer in time ({doing}).",
                hint="See whether `docker ps` answers; restart the engine if not.",
            ) from None
        except DockerException as error:  # before requests' errors: the engine's answers are both
            text = str(getattr(error, "explanation", "") or error).strip()
            for value in secrets:
                text = text.replace(value, "***") if len(value) > 3 else text
            raise (pull_error(image, text) if image else engine_error(doing, text)) from error
        except (RequestException, OSError) as error:
            raise MissingError(
                f"The connection to the container engine broke ({doing}): {last_words(error)}.",
                hint="See whether the engine still runs (`docker ps`), then run the same command again.",
            ) from error


class TerminalLink:
    """A running command's stdin and output."""

    def __init__(self, api: Any, exec_id: str, stream: Any) -> None:
        self._api, self._id, self._stream = api, exec_id, stream
        self.socket = getattr(stream, "_sock", stream)

    def resize(self, rows: int, columns: int) -> None:
        """Tell the command the size of the terminal."""
        self._api.exec_resize(self._id, height=rows, width=columns)

    def exit_code(self) -> int:
        """The command's exit code, once its output has ended."""
        self._stream.close()
        return int(self._api.exec_inspect(self._id)["ExitCode"] or 0)


def connect() -> Engine:
    """Connect to this machine's engine.

    Raises:
        MissingError: None answers.
        UsageError: The one chosen by the user is on another machine.
    """
    endpoint = find_endpoint()
    import docker
    from docker.errors import DockerException
    from docker.tls import TLSConfig

    try:
        tls: Any = False
        if endpoint.tls_folder is not None:
            folder = endpoint.tls_folder
            tls = TLSConfig(
                client_cert=(str(folder / "cert.pem"), str(folder / "key.pem")),
                ca_cert=str(folder / "ca.pem"),
                verify=True,
            )
        api = docker.APIClient(base_url=endpoint.url, version="auto", timeout=CALL_SECONDS, tls=tls)
    except DockerException as error:
        raise MissingError(
            f"The container engine at {endpoint.url} (from {endpoint.source}) cannot be used: {last_words(error)}.",
            hint="See whether `docker version` works in this terminal; restart the engine if not.",
        ) from error
    return Engine(api, endpoint)


def _mount(bind: Bind) -> Any:
    from docker.types import Mount

    return Mount(bind.target, bind.source or None, type=bind.kind, read_only=bind.read_only)
