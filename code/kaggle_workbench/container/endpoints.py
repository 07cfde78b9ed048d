"""Where the container engine listens: DOCKER_HOST, docker's contexts, then the usual sockets.

Docker's own order: the variable, the context that was picked, the default socket. Behind it come
the sockets of Docker Desktop, of a rootless Docker and of Podman, which need no set-up then.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kaggle_workbench.errors import MissingError, UsageError

DEFAULT_SOCKET = Path("/var/run/docker.sock")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Endpoint:
    """One address of an engine.

    Attributes:
        url: As Docker writes it: `unix:///var/run/docker.sock`, `tcp://127.0.0.1:2375`.
        source: Who named it, for messages.
        tls_folder: Folder with ca.pem, cert.pem and key.pem, for a tcp address that asks for them.
    """

    url: str
    source: str
    tls_folder: Path | None = None

    @property
    def socket_path(self) -> Path | None:
        """The socket's file, for `unix://`."""
        return Path(self.url.removeprefix("unix://")) if self.url.startswith("unix://") else None


def find_endpoint() -> Endpoint:
    """The engine to use on this machine.

    Raises:
        MissingError: No engine answers; the message says why (none installed, not running, not permitted).
        UsageError: The engine that the user chose runs on another machine.
    """
    chosen = _from_environment() or _from_context()
    if chosen is not None:
        _refuse_remote(chosen)
        trouble = _trouble(chosen)
        if trouble is not None:
            raise trouble
        return chosen
    troubles: list[MissingError] = []
    for endpoint in _usual_sockets():
        trouble = _trouble(endpoint)
        if trouble is None:
            return endpoint
        troubles.append(trouble)
    # The first socket that exists tells more than those that do not.
    raise troubles[0] if troubles else _no_engine()


def user_name() -> str:
    """The caller's name, or his id where he has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _from_environment() -> Endpoint | None:
    host = os.environ.get("DOCKER_HOST", "")
    if not host:
        return None
    tls = os.environ.get("DOCKER_TLS_VERIFY") or os.environ.get("DOCKER_TLS")
    folder = Path(os.environ.get("DOCKER_CERT_PATH") or _config_folder()) if tls else None
    return Endpoint(host if "://" in host else f"tcp://{host}", "DOCKER_HOST", folder)


def _from_context() -> Endpoint | None:
    name = os.environ.get("DOCKER_CONTEXT", "")
    source = f"the Docker context {name!r} (DOCKER_CONTEXT)"
    if not name:
        name = str(_read_json(_config_folder() / "config.json").get("currentContext") or "")
        source = f"the Docker context {name!r}"
    if name in ("", "default"):
        return None
    folder = sha256(name.encode()).hexdigest()
    meta = _read_json(_config_folder() / "contexts" / "meta" / folder / "meta.json")
    host = meta.get("Endpoints", {}).get("docker", {}).get("Host", "")
    if not host:
        raise UsageError(
            f"{source[0].upper()}{source[1:]} does not exist or names no engine.",
            hint="See `docker context ls`; pick one with `docker context use NAME`, or unset DOCKER_CONTEXT.",
        )
    tls = _config_folder() / "contexts" / "tls" / folder / "docker"
    return Endpoint(host, source, tls if tls.is_dir() else None)


def _usual_sockets() -> list[Endpoint]:
    home = Path.home()
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    usual = (
        (DEFAULT_SOCKET, "Docker's socket"),
        (home / ".docker/run/docker.sock", "Docker Desktop's socket"),
        (home / ".docker/desktop/docker.sock", "Docker Desktop's socket"),
        (runtime / "docker.sock", "the socket of your rootless Docker"),
        (runtime / "podman/podman.sock", "Podman's socket"),
        (Path("/run/podman/podman.sock"), "Podman's socket"),
        (home / ".local/share/containers/podman/machine/podman.sock", "the Podman machine's socket"),
    )
    return [Endpoint(f"unix://{path}", source) for path, source in usual if _exists(path)]


def _exists(path: Path) -> bool:
    try:
        return path.is_socket()
    except PermissionError:
        return True  # it is there or not: the attempt to use it says which


def _refuse_remote(endpoint: Endpoint) -> None:
    parts = urlsplit(endpoint.url)
    if parts.scheme in ("unix", "npipe") or (parts.scheme in ("tcp", "http", "https") and parts.hostname in LOOPBACK):
        return
    raise UsageError(
        f"The engine named by {endpoint.source} runs on another machine ({parts.hostname or endpoint.url}); "
        "it cannot bind this machine's folders into a container.",
        hint="Log in there with ssh, clone the project there and run `./kwb up` in it (it prints the line that brings "
        "JupyterLab to your desk).\nOr use this machine's engine: unset DOCKER_HOST DOCKER_CONTEXT; "
        "docker context use default",
    )


def _trouble(endpoint: Endpoint) -> MissingError | None:
    """Why nobody answers at this address; None when somebody does."""
    path = endpoint.socket_path
    if path is None:
        parts = urlsplit(endpoint.url)
        try:
            socket.create_connection((parts.hostname or "", parts.port or 2375), ANSWER_SECONDS).close()
        except OSError as error:
            return MissingError(
                f"No container engine answers at {endpoint.url} (from {endpoint.source}): {error.strerror or error}.",
                hint="Start that engine, or unset DOCKER_HOST to use this machine's own.",
            )
        return None
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(ANSWER_SECONDS)
            probe.connect(str(path))
    except PermissionError:
        user = user_name()
        return MissingError(
            f"The user {user} may not use the container engine: {path} ({endpoint.source}) refuses access.",
            hint=f"Run: sudo usermod -aG docker {user}   then log out and in again. (Members of that group can become "
            "root on this machine; rootless Docker or Podman avoid this.)",
        )
    except FileNotFoundError:
        return MissingError(
            f"The container engine's socket {path} (from {endpoint.source}) does not exist: the engine is not running.",
            hint=_start_hint(),
        )
    except OSError as error:
        return MissingError(
            f"The container engine is not running: nobody answers at {path} ({error.strerror or error}).",
            hint=_start_hint(),
        )
    return None


def _no_engine() -> MissingError:
    if shutil.which("docker") or shutil.which("dockerd") or shutil.which("podman"):
        return MissingError("The container engine is not running: none of its sockets exists.", hint=_start_hint())
    return MissingError(
        "There is no container engine on this machine.",
        hint="Install Docker Engine, Docker Desktop or Podman (Debian, Ubuntu: sudo apt install docker.io).\n"
        "Without one, `./kwb run` and `./kwb lab` work in a local environment.",
    )


def _start_hint() -> str:
    if shutil.which("podman") and not shutil.which("dockerd"):
        return "Start Podman's Docker socket: systemctl --user enable --now podman.socket"
    return "Start it: sudo systemctl start docker   (or open Docker Desktop), then run the same command again."


def _config_folder() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
