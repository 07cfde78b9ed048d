"""A session from its place in the queue to its end: prepared, run in isolation, killed at a limit, its output kept."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

from kaggle_workbench.arena.competitions import Hosting

from . import isolation
from .state import Session, Version, World

TICK_S = 0.05
TOO_LONG = "Your notebook was stopped because it exceeded the max allowed execution duration."
NO_QUOTA = "Your notebook was stopped because it exceeded your weekly accelerator quota."
# How many threads the tests may use here.
THREADS = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")
CANCELLED = "The kernel was killed due to a requested cancel."


def begin(world: World, hosting: Hosting, version: Version, session: Session) -> None:
    """Let a session run in a thread of its own."""
    session.mark = f"kaggle_{secrets.token_hex(12)}"
    threading.Thread(target=_whole, args=(world, hosting, version, session), daemon=True).start()


def stop(world: World, session: Session, why: str) -> None:
    """Ask for a session's end; its thread does it."""
    with world.changed:
        if session.live and not session.stop:
            session.stop = why
            if session.status in ("QUEUED", "RUNNING"):
                session.status = "CANCEL_REQUESTED"
            world.changed.notify_all()


def _whole(world: World, hosting: Hosting, version: Version, session: Session) -> None:
    until = time.time() + world.options.queue_s
    while time.time() < until and not session.stop and not world.closing:
        time.sleep(TICK_S)
    code: int | None = None
    try:
        if not session.stop and not world.closing:
            code = _run(world, hosting, version, session)
    except Exception as error:  # the stand-in's own fault must be seen by the test, not hang it
        _append(world, session, {"stream_name": "stderr", "time": 0.0, "data": f"stand-in: {error!r}\n"})
        code = 99
    with world.changed:
        session.ended = time.time()
        if session.stop:
            # Kaggle gives all that it ends itself this status, a time limit too.
            session.status, session.failure = "CANCEL_ACKNOWLEDGED", session.stop
        else:
            session.status = "COMPLETE" if code == 0 else "ERROR"
        if not session.stop or world.options.outputs_of_killed:
            session.outputs = _files(session.working)
        world.changed.notify_all()


def _run(world: World, hosting: Hosting, version: Version, session: Session) -> int | None:
    options = world.options
    session.working.mkdir(parents=True)
    root, source = session.folder / "root", session.folder / "src"
    root.mkdir()
    source.mkdir()
    notebook = str(version.request.get("kernelType", "")) == "notebook"
    name = "notebook.ipynb" if notebook else "script.py"
    (source / name).write_text(str(version.request.get("text", "")), encoding="utf-8")
    network = options.internet and bool(version.request.get("enableInternet"))
    gpu = session.machine == "gpu" and options.gpu_library is not None
    room = isolation.Room(
        root=root,
        working=session.working,
        source=source,
        inputs=_inputs(world, hosting, version, session),
        extra={"/opt/gpu": options.gpu_library.parent} if gpu and options.gpu_library else {},
        hide=options.hide,
        network=network,
    )
    command = isolation.command(room, isolation.python(), "-u", "/kaggle/lib/run_kernel.py")
    environment = _environment(world, version, session, network=network, gpu=gpu)
    with tempfile.TemporaryFile() as said:
        with world.changed:
            if session.stop:
                return None
            child = subprocess.Popen(
                command,
                env=environment,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
            session.started, session.status = time.time(), "RUNNING"
            world.changed.notify_all()
        reader = threading.Thread(target=_read, args=(world, session, child), daemon=True)
        reader.start()
        while child.poll() is None:
            ran = time.time() - session.started
            if ran >= session.limit_s:
                stop(world, session, TOO_LONG)
            elif world.used_s(session.machine) >= world.allowed_s(session.machine):
                stop(world, session, NO_QUOTA)
            if session.stop or world.closing:
                kill_all(session.mark)
            time.sleep(TICK_S)
        # A process that the notebook started lives no longer than its machine.
        kill_all(session.mark)
        reader.join(5)
        if child.stdin:
            child.stdin.close()
        said.seek(0)
        if text := said.read().decode(errors="replace"):
            (session.folder / "machine.log").write_text(text)
            if child.returncode not in (0, 1) and not session.stop:
                _append(world, session, {"stream_name": "stderr", "time": 0.0, "data": text[-4000:]})
    return child.returncode


def kill_all(mark: str) -> None:
    """Kill every process that carries a session's mark in its environment, until none is left."""
    for _ in range(20):
        found = False
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.01)


def _read(world: World, session: Session, child: subprocess.Popen[bytes]) -> None:
    for line in child.stdout or ():
        with contextlib.suppress(ValueError):
            _append(world, session, json.loads(line))


def _append(world: World, session: Session, entry: dict[str, Any]) -> None:
    with world.changed:
        session.log.append(entry)
        world.changed.notify_all()


def _environment(world: World, version: Version, session: Session, *, network: bool, gpu: bool) -> dict[str, str]:
    """Kaggle's own variables and nothing of this machine's."""
    path = f"{Path(isolation.python()).parent}:{isolation.SYSTEM_PATH}"
    environment = {
        "PATH": path,
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": "/kaggle/lib",
        "PYTHONUSERBASE": "/root/.local",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "agg",
        "KAGGLE_KERNEL_RUN_TYPE": "Batch",
        "KAGGLE_URL_BASE": "https://www.kaggle.com",
        "KAGGLE_DATA_PROXY_URL": "https://dp.kaggle.net",
        "KAGGLE_DATA_PROXY_PROJECT": "kaggle-161607",
        "KAGGLE_DATA_PROXY_TOKEN": "made-up",
        "KAGGLE_USER_SECRETS_TOKEN": "made-up",
        "KAGGLE_KERNEL_INTEGRATIONS": "",
        "KAGGLE_DOCKER_IMAGE": str(version.request.get("dockerImage", "")),
        "KAGGLE_CONTAINER_NAME": session.mark,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "STANDIN_NETWORK": "1" if network else "",
        # Read by the stand-in for kaggle_secrets alone.
        "KAGGLE_STANDIN_ONLINE": "1" if network else "",
        "KAGGLE_STANDIN_SECRETS": json.dumps(dict(world.options.secrets)),
    }
    if gpu:
        environment |= {"LD_LIBRARY_PATH": "/opt/gpu", "FAKE_GPUS": str(world.options.gpu_count)}
    # The machine shares its cores with all other sessions here.
    environment |= {name: os.environ[name] for name in THREADS if name in os.environ}
    return environment


def _inputs(world: World, hosting: Hosting, version: Version, session: Session) -> dict[str, Path]:
    """Folders under /kaggle/input by their name there: what the version has attached."""
    new = world.options.layout == "new"
    found: dict[str, Path] = {}
    with world.lock:
        now = time.time()
        for slug in version.request.get("competitionDataSources", []):
            found[f"competitions/{slug}" if new else slug] = _competition(world, hosting, slug)
        for ref in version.request.get("datasetDataSources", []):
            owner, slug = ref.split("/")[:2]
            dataset = world.datasets.get(f"{owner}/{slug}")
            ready = dataset.newest_ready(now) if dataset else None
            if ready is not None:
                found[f"datasets/{owner}/{slug}" if new else slug] = _mounted(world, session, ready.folder)
        for ref in version.request.get("kernelDataSources", []):
            owner, slug = ref.split("/")[:2]
            source = world.kernels.get(f"{owner}/{slug}")
            done = [each for each in source.sessions if each.status == "COMPLETE"] if source else []
            if done:
                found[f"notebooks/{owner}/{slug}" if new else slug] = done[-1].working
    return found


def _mounted(world: World, session: Session, folder: Path) -> Path:
    """A dataset's folder as the session sees it; where that is asked for, empty at first."""
    delay_s = world.options.mount_delay_s
    if not delay_s:
        return folder
    number = len(list(session.folder.glob("late-*")))
    late, ready = session.folder / f"late-{number}", session.folder / f".late-{number}"
    late.mkdir()

    def appear() -> None:
        shutil.copytree(folder, ready)
        for path in ready.iterdir():
            path.rename(late / path.name)

    timer = threading.Timer(delay_s, appear)
    timer.daemon = True
    timer.start()
    return late


def _competition(world: World, hosting: Hosting, slug: str) -> Path:
    """A competition's files, unpacked once."""
    folder = world.folder / "competitions" / slug
    competition = hosting.find(slug)
    if competition is not None and not folder.exists():
        part = folder.with_name(f".{slug}")
        shutil.rmtree(part, ignore_errors=True)
        with zipfile.ZipFile(competition.archive) as archive:
            archive.extractall(part)
        part.replace(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _files(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
