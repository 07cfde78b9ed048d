"""The project's container on this machine: found again by its label, shown, read, entered, taken down."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaggle_workbench.container import shell as terminal
from kaggle_workbench.container.apps import log_path, prefix_of
from kaggle_workbench.container.board import board_address, board_answers, board_app, board_path, board_secret
from kaggle_workbench.container.endpoints import user_name
from kaggle_workbench.container.engine import Engine, connect
from kaggle_workbench.container.jupyter import answers, lab_app, lab_server
from kaggle_workbench.container.spec import read_spec
from kaggle_workbench.container.spec_model import App, Spec
from kaggle_workbench.container.state import State
from kaggle_workbench.errors import MissingError, WorkbenchError
from kaggle_workbench.settings import ROOT_MARK, load_settings, require_root
from kaggle_workbench.show import note, warn

PROJECT_LABEL = "kwb.project"
ROOT_LABEL = "kwb.root"
PARTS_LABEL = "kwb.parts"
COMPUTES_LABEL = "kwb.computes"
_NOT_RUNNING_HINT = "Start it: ./kwb up"


@dataclass(frozen=True)
class Found:
    """A container as the engine describes it."""

    document: dict[str, Any]

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.document["Id"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document["Name"]).lstrip("/")

    @property
    def is_running(self) -> bool:
        """Whether its first process runs."""
        return bool(self.document["State"]["Running"])

    @property
    def computes(self) -> str:
        """The line that says what computes in it."""
        return self.label(COMPUTES_LABEL)

    def label(self, name: str) -> str:
        """One of its labels, "" when it has none of that name."""
        return str((self.document["Config"].get("Labels") or {}).get(name, ""))

    def port(self, inner: int) -> int | None:
        """The port of this machine behind a port inside; None when it is not published."""
        ports = (self.document.get("NetworkSettings") or {}).get("Ports") or {}
        bindings = ports.get(f"{inner}/tcp") or []
        return int(bindings[0]["HostPort"]) if bindings else None


@dataclass(frozen=True)
class Status:
    """What `kwb status` shows; the address comes without its token, and TensorBoard's, itself a secret, not at all."""

    project: str
    container: str
    state: str
    jupyterlab: str
    tensorboard: str
    address: str
    computes: str
    image: str
    since: str
    engine: str
    kept_in: str


def find(engine: Engine, state: State) -> Found | None:
    """This project's container on this machine, running or ended."""
    found = [Found(document) for document in engine.containers(f"{PROJECT_LABEL}={state.project_id}")]
    return next((one for one in found if one.is_running), found[0] if found else None)


def address(port: int, path: str, token: str) -> str:
    """The address that opens JupyterLab."""
    return f"http://127.0.0.1:{port}{path}?token={token}"


def remote_hint(*ports: int) -> str:
    """On a machine reached by ssh: the line that brings the addresses to the desk; "" elsewhere."""
    parts = os.environ.get("SSH_CONNECTION", "").split()
    if len(parts) != 4:
        return ""
    _, _, server, ssh_port = parts
    option = "" if ssh_port == "22" else f"-p {ssh_port} "
    forwards = " ".join(f"-L {port}:127.0.0.1:{port}" for port in ports)
    return f"ssh -N {forwards} {option}{user_name()}@{server}"


def down(*, start: Path | None = None) -> bool:
    """Stop and remove the container; folders of this machine stay.

    Returns:
        Whether there was one.
    """
    root = require_root(start)
    state = State(root)
    engine = connect()
    found = find(engine, state)
    if found is None:
        return False
    spec: Spec | None = None
    try:
        spec = read_spec(root / ROOT_MARK)
    except WorkbenchError as error:
        warn(f"{ROOT_MARK} cannot be read; the container is removed all the same. ({error.message})")
    take_down(engine, state, found, spec)
    return True


def take_down(engine: Engine, state: State, found: Found, spec: Spec | None) -> None:
    """Stop JupyterLab by the spec's command, keep its log, remove the container."""
    app = spec.app("jupyterlab") if spec else None
    if spec and app:
        if found.is_running:
            try:
                lab_server(engine, found.id, spec, app, state.token()).stop()
            except WorkbenchError as error:
                warn(f"JupyterLab did not end by itself: {error.message}")
        keep_log(engine, state, found.id, app)
        board = board_app(spec)
        if board:
            keep_log(engine, state, found.id, board)
    engine.remove(found.id)


def keep_log(engine: Engine, state: State, container: str, app: App) -> None:
    """Copy the app's log out of a container that is about to go."""
    try:
        content = engine.get_file(container, log_path(app))
    except WorkbenchError:
        return
    if content:
        state.open().keep_log(app.name, content)


def status(*, start: Path | None = None) -> Status:
    """What runs for this project on this machine."""
    root = require_root(start)
    state = State(root)
    spec = read_spec(root / ROOT_MARK)
    app = lab_app(spec)
    engine = connect()
    found = find(engine, state)
    if found is None:
        return Status(spec.meta.name, "", "not running", "", "", "", "", "", "", engine.name, str(state.folder))
    port = found.port(app.port or 0)
    prefix = prefix_of(spec, app)
    up = found.is_running and port is not None and answers(port, prefix, state.token())
    details = found.document["State"]
    return Status(
        project=spec.meta.name,
        container=found.name,
        state="running" if found.is_running else f"ended (exit code {details.get('ExitCode')})",
        jupyterlab="up" if up else "down",
        tensorboard=_board_state(spec, state, found),
        address=f"http://127.0.0.1:{port}{state.load().path}" if up else "",
        computes=found.computes,
        image=str(found.document["Config"].get("Image", "")),
        since=str(details.get("StartedAt", ""))[:19],
        engine=engine.name,
        kept_in=str(state.folder),
    )


def url(*, start: Path | None = None) -> str:
    """JupyterLab's address with its token.

    Raises:
        MissingError: No container, or no JupyterLab in it.
    """
    root = require_root(start)
    state = State(root)
    spec = read_spec(root / ROOT_MARK)
    app = lab_app(spec)
    found = _running(connect(), state)
    port = found.port(app.port or 0)
    prefix, token = prefix_of(spec, app), state.token()
    if port is None or not answers(port, prefix, token):
        raise MissingError("The container runs, but JupyterLab in it does not answer.", hint="./kwb up starts it anew.")
    return address(port, state.load().path or f"{prefix}/lab", token)


def board_url(*, start: Path | None = None) -> str:
    """TensorBoard's address.

    Raises:
        MissingError: No container, or no TensorBoard in it.
    """
    root = require_root(start)
    state = State(root)
    spec = read_spec(root / ROOT_MARK)
    found = _running(connect(), state)
    address = _board_address(spec, state, found)
    if not address:
        raise MissingError(
            "The container runs, but TensorBoard in it does not answer.",
            hint="./kwb up starts it again; ./kwb logs tensorboard shows its own output.",
        )
    return address


def _board_address(spec: Spec, state: State, found: Found) -> str:
    app = board_app(spec)
    port = found.port(app.port or 0) if app and found.is_running else None
    if app is None or port is None:
        return ""
    path = board_path(spec, app, state.token())
    return board_address(port, path) if board_answers(port, path) else ""


def _board_state(spec: Spec, state: State, found: Found) -> str:
    if board_app(spec) is None:
        return "not in the spec"
    return "up" if _board_address(spec, state, found) else "down"


def logs(app_name: str = "", *, lines: int = 100, follow: bool = False, start: Path | None = None) -> Iterator[str]:
    """An app's own output, line by line, with secrets masked; of the last container when none runs.

    Args:
        app_name: An app of the spec, by default JupyterLab; `container` for the idle process itself.
        lines: How many of the last lines.
        follow: Go on as new lines come.
        start: Folder to look for the project from.
    """
    root = require_root(start)
    state = State(root)
    spec = read_spec(root / ROOT_MARK)
    settings = load_settings(start=root)
    hidden = [
        value for value in (*settings.secret_values(), state.token(), board_secret(state.token())) if len(value) > 3
    ]
    for line in _lines(root, state, spec, app_name, lines=lines, follow=follow):
        for value in hidden:
            line = line.replace(value, "***")
        yield line


def shell(argv: Sequence[str] = (), *, start: Path | None = None) -> int:
    """A shell in the container, or one command; returns its exit code.

    Raises:
        MissingError: The container is not running.
    """
    root = require_root(start)
    engine = connect()
    return terminal.run(engine, _running(engine, State(root)).id, list(argv) or ["bash"])


def _lines(root: Path, state: State, spec: Spec, app_name: str, *, lines: int, follow: bool) -> Iterator[str]:
    engine = connect()
    found = find(engine, state)
    if app_name == "container":
        if found is None:
            raise MissingError("There is no container.", hint=_NOT_RUNNING_HINT)
        yield from engine.container_log(found.id, lines=lines).splitlines()
        return
    app = next((app for app in spec.apps if app.name == app_name), None) if app_name else lab_app(spec)
    if app is None:
        raise MissingError(
            f"The spec has no app {app_name!r}.", hint="Its apps: " + ", ".join(app.name for app in spec.apps)
        )
    if found is None or not found.is_running:
        content = engine.get_file(found.id, log_path(app)) if found else None
        kept = state.log_file(app.name)
        if content is None and not kept.is_file():
            raise MissingError(f"{app.name} has not run here yet.", hint=_NOT_RUNNING_HINT)
        note(f"No container runs; the log of the last one{'' if content else f' ({kept})'}:")
        text = (content or kept.read_bytes()).decode(errors="replace")
        yield from text.splitlines()[-lines:]
        return
    if not follow:
        answer = engine.execute(found.id, ["tail", "-n", str(lines), log_path(app)])
        yield from answer.output.splitlines()
        return
    rest = b""
    for chunk in engine.lines(found.id, ["tail", "-n", str(lines), "-F", log_path(app)]):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace").rstrip("\r") for line in whole)
    yield from [rest.decode(errors="replace")] if rest else []


def _running(engine: Engine, state: State) -> Found:
    found = find(engine, state)
    if found is None or not found.is_running:
        raise MissingError("This project's container is not running.", hint=_NOT_RUNNING_HINT)
    return found
