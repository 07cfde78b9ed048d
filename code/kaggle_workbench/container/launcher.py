"""`kwb up`: from the project's files to an address that opens, and back down."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kaggle_workbench.container import folders, gpus, lock
from kaggle_workbench.container import image as images
from kaggle_workbench.container.apps import AppServer, prefix_of
from kaggle_workbench.container.board import Board
from kaggle_workbench.container.engine import Engine, connect
from kaggle_workbench.container.engine_errors import GpuRefusedError, PortTakenError
from kaggle_workbench.container.jupyter import TOKEN_FILE, answers, lab_path, lab_server, require_answer
from kaggle_workbench.container.plan import Options, Plan, describe, make_plan
from kaggle_workbench.container.running import (
    PARTS_LABEL,
    ROOT_LABEL,
    Found,
    address,
    find,
    keep_log,
    take_down,
)
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError, WorkError
from kaggle_workbench.files import locked
from kaggle_workbench.settings import require_root
from kaggle_workbench.show import note, warn

ENTRYPOINT_SECONDS = 600.0
_SHOWN_LINES = 25


@dataclass(frozen=True)
class Started:
    """A container that serves JupyterLab.

    Attributes:
        url: Address with its token.
        port: Port on 127.0.0.1.
        computes: The line that says what computes.
        tensorboard: TensorBoard's address; "" when it does not run.
        tensorboard_port: Its port on 127.0.0.1; None when it is not published.
    """

    url: str
    port: int
    container: str
    image: str
    computes: str
    tensorboard: str = ""
    tensorboard_port: int | None = None


def up(options: Options, *, require_gpu: bool = False, start: Path | None = None) -> Started:
    """Build what is missing, start what is not running, and return the address.

    Args:
        options: The command line.
        require_gpu: Refuse to start on the CPU.
        start: Folder to look for the project from.

    Raises:
        UsageError: Something the user wrote cannot be used.
        MissingError: Engine, image, registry, disk, folder, port or (with `require_gpu`) GPU is missing.
        WorkError: The build or JupyterLab failed; no container is left behind.
    """
    root = require_root(start)
    _refuse_inside()
    engine = connect()
    plan = make_plan(root, options, engine)
    if require_gpu:
        gpus.require(plan.gpu)
    for text in plan.settings.notes:
        warn(text)
    folder_notes = folders.prepare(plan.mounts, plan.owner)
    plan.state.open()
    with locked(plan.state.folder / "lock", what=f"the container of {plan.spec.meta.name}"):
        plan.state.save(plan.machine)
        found = find(engine, plan.state)
        token = plan.state.token()
        reused = _reuse(engine, plan, found, token)
        if reused is not None:
            return reused
        for text in (*folder_notes, *folders.slow_notes(plan.mounts), *_secret_notes(plan)):
            warn(text)
        if plan.machine.base:
            note(f"Base image: {plan.machine.base}, chosen for this machine (`./kwb up --base spec` goes back).")
        _ensure_image(engine, plan)
        if found is not None:
            _say_why(plan, found, token)
            take_down(engine, plan.state, found, plan.spec)
        return _start(engine, plan, token, require_gpu=require_gpu)


def dry_run(options: Options, *, require_gpu: bool = False, start: Path | None = None) -> tuple[Plan, str]:
    """The plan and its text; needs no engine, changes nothing.

    Raises:
        UsageError: Something the user wrote cannot be used.
        MissingError: A folder cannot be used, or (with `require_gpu`) no GPU is to be had.
    """
    engine: Engine | None = None
    try:
        engine = connect()
    except WorkbenchError as error:
        warn(f"No container engine to ask: {error.message}")
    plan = make_plan(require_root(start), options, engine)
    folders.check(plan.mounts, plan.owner)
    if require_gpu:
        gpus.require(plan.gpu)
    return plan, describe(plan)


def _reuse(engine: Engine, plan: Plan, found: Found | None, token: str) -> Started | None:
    """The running container, when nothing changed; JupyterLab is started again if it ended."""
    if found is None or not found.is_running or _changes(plan, found, token):
        return None
    if not images.is_current(engine, plan.recipe):
        return None
    port = found.port(plan.inner_port)
    if port is None:
        return None
    server = _server(engine, plan, found.id, token)
    if not answers(port, server.prefix, token):
        if server.is_healthy():
            return None
        note("The container runs, but JupyterLab does not; starting it ...")
        server.start()
        require_answer(port, server.prefix, token)
    note(found.computes)
    board = _board(engine, plan, found.id, token)
    return _started(plan, found, port, token, found.computes, board.revive(_board_port(plan, found)) if board else "")


def _ensure_image(engine: Engine, plan: Plan) -> None:
    reference = plan.recipe.base
    lock_path = _lock_path(plan)
    known = lock.read_lock(lock_path)
    if not images.is_current(engine, plan.recipe):
        base = images.require_base(engine, reference)
        lock.require_same(known, reference, base)
        images.build(engine, plan.recipe)
    elif engine.image(reference) is None or (known and known.is_seen and known.names(reference)):
        return
    seen = lock.with_old_knowledge(known, lock.look_inside(engine, reference))
    if seen != known:
        lock.write_lock(lock_path, seen)
        if not plan.machine.base:
            folders.give(lock_path, plan.root)
        note(f"What is inside {reference} is written to {lock_path} (see: ./kwb image show).")


def _lock_path(plan: Plan) -> Path:
    # A base chosen for this machine alone must not change the lock that every place uses.
    return plan.state.folder / "image.lock" if plan.machine.base else plan.root / lock.LOCK_FILE


def _start(engine: Engine, plan: Plan, token: str, *, require_gpu: bool) -> Started:
    name = _free_name(engine, plan)
    gpu, asked = plan.gpu, plan.ports(plan.port, None)
    ports = plan.ports(plan.port or plan.machine.port or None, plan.machine.board_port or None)
    if plan.port == plan.machine.board_port:
        ports = asked
    for _ in range(3):
        container = engine.create(plan.request(token, name=name, ports=ports, gpu=gpu))
        try:
            return _serve(engine, plan, container, token, gpu)
        except PortTakenError as error:
            engine.remove(container)
            # Ports of the last time are given up first; what is left then is the one that was asked for.
            if plan.port is not None and (ports == asked or f":{plan.port}" in error.message):
                raise PortTakenError(
                    f"Port {plan.port} of 127.0.0.1 is in use on this machine.",
                    hint="Leave --port out and a free one is taken, or name another.",
                ) from error
            ports = asked
        except GpuRefusedError as error:
            engine.remove(container)
            gpu = gpus.refused(gpu, engine, error.message)
            if require_gpu:
                gpus.require(gpu)
        except BaseException:
            keep_log(engine, plan.state, container, plan.app)
            engine.remove(container)
            raise
    raise WorkError("The container could not be started.", hint="Run the command again; see ./kwb logs.")


def _serve(engine: Engine, plan: Plan, container: str, token: str, gpu: gpus.GpuDecision) -> Started:
    engine.put_file(container, TOKEN_FILE, token.encode(), uid=plan.owner.uid, gid=plan.owner.gid)
    engine.start(container)
    _await_entrypoint(engine, container)
    _require_mounts(engine, plan, container)
    note(gpu.line)
    board = _board(engine, plan, container, token)
    if board:
        board.spawn()
    server = _server(engine, plan, container, token)
    note(f"Starting {plan.app.name} (at most {plan.app.timeout_seconds or 'half an hour'} s) ...")
    server.start()
    found = Found(engine.container(container) or {})
    port = found.port(plan.inner_port)
    if port is None:
        raise WorkError(f"The container publishes no port {plan.inner_port}.", hint="`docker ps` may tell more.")
    require_answer(port, server.prefix, token)
    board_port = _board_port(plan, found)
    plan.machine.port, plan.machine.path, plan.machine.board_port = port, lab_path(server), board_port or 0
    plan.state.save(plan.machine)
    return _started(plan, found, port, token, gpu.line, board.address(board_port) if board else "")


def _started(plan: Plan, found: Found, port: int, token: str, computes: str, board: str) -> Started:
    return Started(
        url=address(port, plan.machine.path or f"{prefix_of(plan.spec, plan.app)}/lab", token),
        port=port,
        container=found.name,
        image=plan.recipe.tag,
        computes=computes,
        tensorboard=board,
        tensorboard_port=_board_port(plan, found),
    )


def _board(engine: Engine, plan: Plan, container: str, token: str) -> Board | None:
    return Board(engine, container, plan.spec, plan.board, token) if plan.board else None


def _board_port(plan: Plan, found: Found) -> int | None:
    return found.port(plan.board_port) if plan.board_port else None


def _await_entrypoint(engine: Engine, container: str) -> None:
    """Wait until the entry point has become the idle command; apps start without sudo, as in AI Workbench."""
    end = time.monotonic() + ENTRYPOINT_SECONDS
    slow = time.monotonic() + 5
    while True:
        state = (engine.container(container) or {}).get("State", {})
        if not state.get("Running"):
            tail = engine.container_log(container, lines=_SHOWN_LINES).strip() or "(it wrote nothing)"
            raise WorkError(
                f"The container ended while starting (exit code {state.get('ExitCode')}).",
                hint=f"Its last lines (entry point, onStart.bash):\n{tail}",
            )
        try:
            first = engine.execute(container, ["cat", "/proc/1/comm"]).output.strip()
        except WorkbenchError:
            # It may have ended between the two questions: then the next look tells its last words.
            if (engine.container(container) or {}).get("State", {}).get("Running"):
                raise
            continue
        if first == "tail":
            return
        if time.monotonic() > end:
            raise WorkError(
                f"The container's entry point did not finish within {ENTRYPOINT_SECONDS:.0f} s.",
                hint="See what onStart.bash waits for.",
            )
        if time.monotonic() > slow:
            note("The container's entry point (onStart.bash) is still at work ...")
            slow = time.monotonic() + 30
        time.sleep(0.1)


def _require_mounts(engine: Engine, plan: Plan, container: str) -> None:
    if engine.execute(container, ["test", "-f", "/project/.project/spec.yaml"]).exit_code == 0:
        return
    raise MissingError(
        f"The container does not see {plan.root}: its engine ({engine.endpoint.url}, from {engine.endpoint.source}) "
        "has another file system than this machine.",
        hint="Run ./kwb up where the engine runs, or use this machine's own engine (unset DOCKER_HOST).",
    )


def _free_name(engine: Engine, plan: Plan) -> str:
    """`project-<name>`; a second folder with the same project name gets a suffix of its own."""
    holder = engine.container(plan.name)
    if holder is None:
        return plan.name
    name = f"{plan.name}-{plan.state.project_id[:6]}"
    other = Found(holder).label(ROOT_LABEL) or "something else"
    note(f"The container name {plan.name} belongs to {other}; this one is called {name}.")
    stale = engine.container(name)
    if stale is not None:
        engine.remove(stale["Id"])
    return name


def _changes(plan: Plan, found: Found, token: str) -> list[str]:
    """Parts of the running container that are not what the plan says."""
    try:
        before = json.loads(found.label(PARTS_LABEL))
    except ValueError:
        return ["its description"]
    now = plan.parts(token)
    if plan.port is None:
        now.pop("the port")
    return [part for part, mark in now.items() if before.get(part) != mark]


def _say_why(plan: Plan, found: Found, token: str) -> None:
    if not found.is_running:
        note("The container had ended; making it anew.")
        return
    changes = _changes(plan, found, token) or ["the image's base"]
    note(f"Changed: {', '.join(changes)}. The container is made anew (running notebooks end; files stay).")


def _secret_notes(plan: Plan) -> Iterator[str]:
    declared = [secret.variable for secret in plan.spec.execution.secrets]
    if declared and len(plan.variables.missing) == len(declared):
        yield (
            f"None of the secrets {', '.join(declared)} has a value: the practice competition works, Kaggle does not. "
            "Write them to secrets.env (see secrets.env.example)."
        )


def _server(engine: Engine, plan: Plan, container: str, token: str) -> AppServer:
    return lab_server(engine, container, plan.spec, plan.app, token)


def _refuse_inside() -> None:
    from kaggle_workbench.places import current_place

    place = current_place()
    if place.name != "local":
        raise UsageError(
            f"This is {place.title} already; ./kwb up starts a container on your own machine.",
            hint="Run it there, in a terminal outside the container.",
        )
