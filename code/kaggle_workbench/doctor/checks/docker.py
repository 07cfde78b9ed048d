"""Docker: there, running, permitted, new enough, with room for the image."""

from __future__ import annotations

import json
import shutil
import socket
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from kaggle_workbench.doctor.check import Check, Result, failed, not_checked, passed, warned
from kaggle_workbench.doctor.checks.machine import existing
from kaggle_workbench.doctor.facts import Facts

OLDEST = (20, 10)
# Kaggle's GPU image unpacked, and as much again while it is pulled and built upon.
IMAGE_GB = 60
ASK_S = 2.0


class _Socket(HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=ASK_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(ASK_S)
        self.sock.connect(self._path)


def ask(facts: Facts, what: str) -> Any:
    """The engine's answer to a GET; raises OSError when it does not answer."""
    connection = _Socket(str(socket_of(facts)))
    try:
        connection.request("GET", what)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def socket_of(facts: Facts) -> Path:
    """The engine's socket: DOCKER_HOST, else the usual one, else the user's own."""
    host = facts.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://"):
        return Path(host.removeprefix("unix://"))
    usual = facts.path("var/run/docker.sock")
    own = facts.home / ".docker" / "run" / "docker.sock"
    desktop = facts.home / ".docker" / "desktop" / "docker.sock"
    return next((path for path in (usual, own, desktop) if path.exists()), usual)


def engine(facts: Facts) -> Result:
    """The engine itself."""
    path = socket_of(facts)
    client = shutil.which("docker", path=facts.environ.get("PATH"))
    if facts.environ.get("DOCKER_HOST", "").startswith(("tcp://", "ssh://")):
        return failed(
            "DOCKER_HOST names another machine; folders of this one cannot be mounted there", "unset DOCKER_HOST"
        )
    if not path.exists():
        if client is None:
            return warned(
                "not installed; everything but ./kwb up works without it",
                "Install Docker Engine (Linux, WSL: docs.docker.com/engine/install) or Docker Desktop.",
            )
        return failed(f"installed, but not running (no socket at {path})", _start(facts))
    try:
        version = ask(facts, "/version")
    except PermissionError:
        fix = "sudo usermod -aG docker $USER, then log out and in again (in WSL: wsl --shutdown)"
        return failed(f"running, but this user may not use it ({path})", fix)
    except (OSError, ValueError):
        return failed(f"installed, but not running ({path} does not answer)", _start(facts))
    said = str(version.get("Version", ""))
    numbers = tuple(int(part) for part in said.split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST:
        return failed(f"Docker {said} is too old", f"Install Docker {OLDEST[0]} or newer (docs.docker.com).")
    return passed(f"Docker {said or 'engine'} is running and permitted")


def disk(facts: Facts) -> Result:
    """Space where the engine keeps images."""
    try:
        folder = Path(str(ask(facts, "/info").get("DockerRootDir") or "/var/lib/docker"))
    except (OSError, ValueError):
        return not_checked("no engine to ask (see docker)")
    place = existing(folder)
    free = shutil.disk_usage(place).free / 1e9
    if free < IMAGE_GB:
        return warned(
            f"{free:.1f} GB free at {folder}; Kaggle's GPU image needs about {IMAGE_GB} GB to be pulled and built",
            "docker system prune (removes unused images), or move Docker's data-root to a larger disk.",
        )
    return passed(f"{free:.0f} GB free at {folder}")


def _start(facts: Facts) -> str:
    if "microsoft" in facts.text("proc/sys/kernel/osrelease").lower():
        return "Start Docker Desktop (Settings, Resources, WSL integration on), or: sudo service docker start"
    return "sudo systemctl start docker (without systemd: sudo service docker start)"


CHECKS = [
    Check("docker", "Docker", engine),
    Check("docker-disk", "Disk space for images", disk),
]
