"""Starting the arena: as a child process for a `with` block, or in the foreground for people."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import kaggle_workbench
from kaggle_workbench.arena.tokens import LOCAL_NAME
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError
from kaggle_workbench.settings import Secret, find_root, load_settings
from kaggle_workbench.show import note, warn

START_S = 20.0
STOP_S = 5.0
DEFAULT_PORT = 7777
# What the child must not inherit: it needs none of it, and a secret it does not have cannot leak.
WITHHELD = ("KAGGLE_", "MONGODB_URI", "AWS_")


@dataclass(frozen=True)
class Arena:
    """A running arena.

    Attributes:
        url: `http://127.0.0.1:PORT`.
        token: Its local token (reveal it only where it is handed over).
        name: The participant that token belongs to, as on the leaderboard.
        slugs: The competitions it hosts.
    """

    url: str
    token: Secret
    name: str
    slugs: tuple[str, ...]


@contextmanager
def running(practice_dirs: Sequence[Path], state_dir: Path, *, timeout_s: float = START_S) -> Iterator[Arena]:
    """An arena on this machine for as long as the block lasts.

    It is a child process on 127.0.0.1 and a free port; it ends with the block, or with this process,
    however that ends. Several may serve one state folder at the same time.

    Args:
        practice_dirs: Competitions' folders, or folders that hold some; a later one wins.
        state_dir: Where submissions, scores and the token are kept.
        timeout_s: Longest wait for its start, in seconds.

    Raises:
        WorkbenchError: It did not start; the message says why.
    """
    command = [sys.executable, "-m", "kaggle_workbench.arena", "--lifeline", "--state", str(state_dir.absolute())]
    for folder in practice_dirs:
        command += ["--folder", str(folder.absolute())]
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_child_environment(),
            # Ctrl-C in a terminal, and a kernel that ends its process group before its own clean-up, are not meant
            # for the server: it ends when the pipe does.
            start_new_session=True,
        )
        try:
            ready = _ready(child, errors, timeout_s)
            for fault in ready["faults"]:
                warn(f"A practice competition is left out. {fault}")
            token = Secret(Path(ready["token_file"]).read_text(encoding="utf-8").strip())
            yield Arena(ready["url"], token, LOCAL_NAME, tuple(ready["slugs"]))
        finally:
            _stop(child)


def serve(
    folders: Sequence[Path],
    state: Path,
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    participants: Path | None = None,
) -> None:
    """Serve until interrupted, after saying how `kaggle` and kagglehub are pointed here.

    Args:
        folders: Competitions' folders, or folders that hold some; a later one wins.
        state: Where submissions, scores and tokens are kept.
        host: Address to listen on; other than this machine's own it needs `participants`.
        port: Port; 0 takes a free one.
        participants: List of names, one a line; each gets a token of its own.

    Raises:
        WorkbenchError: Wrong options, a taken port, an unwritable folder.
    """
    from kaggle_workbench.arena import server

    bound = server.bind(folders, state, host=host, port=port, participants=participants)
    for fault in bound.faults:
        warn(f"Left out: {fault}")
    note(f"The arena answers at {bound.url} and hosts: {', '.join(bound.slugs) or 'nothing'}.")
    place = "" if participants is not None else f", opened in {Path.cwd()}"
    note(f"Point kaggle and kagglehub at it, in a terminal of their own{place}:\n")
    note(
        "\n".join(f"    {line}" for line in client_lines(bound.url, bound.token_file, shared=participants is not None))
    )
    if participants is not None:
        note(f"\nEach participant's token stands in {bound.token_file}; give each only their own.")
        note("Traffic is not encrypted: use it in a network you trust.")
    note("\nStop it with Ctrl+C.")
    bound.run()
    note("The arena has stopped; scores and tokens are kept.")


def hosted_folders(given: Sequence[Path], state: Path | None = None) -> tuple[list[Path], Path]:
    """Which folders an arena for people hosts, and where its state is kept.

    Args:
        given: Folders from the command line; they win over the project's own.
        state: State folder from the command line; by default OUTPUT_DIR/arena.

    Returns:
        Folders with competitions (the project's practice, the user's own, the given ones), and the state folder.

    Raises:
        UsageError: A given folder does not exist, or there is no project and one of the two is not given.
    """
    for folder in given:
        if not folder.is_dir():
            raise UsageError(
                f"There is no folder {folder}.", hint="--folder names a folder with a competition, or several."
            )
    if given and state is not None and find_root() is None:
        return list(given), state
    settings = load_settings()
    own = settings.output_dir / "arena"
    shipped = [settings.root / "data" / "practice"] if settings.root else []
    return [*shipped, own / "competitions", *given], state or own


def client_lines(url: str, token_file: Path, *, shared: bool = False) -> list[str]:
    """Shell lines that point the `kaggle` client and kagglehub at an arena.

    Args:
        url: The arena's address.
        token_file: File that holds the token; its value is never shown.
        shared: Whether each participant has a token of their own.
    """
    token = "'your own token'" if shared else f'"$(cat {_quoted(token_file)})"'
    # Without it a terminal answers "kaggle: command not found": ./kwb installs the client into .venv alone.
    activate = Path(sys.prefix) / "bin" / "activate"
    return [
        *([f". {_quoted(activate)}"] if activate.is_file() and not shared else []),
        "unset no_proxy NO_PROXY KAGGLE_USERNAME KAGGLE_KEY",
        "export KAGGLE_API_ENVIRONMENT=LOCALHOST",
        f"export http_proxy={url}",
        f"export KAGGLE_API_TOKEN={token}",
        "kaggle competitions list",
    ]


def _child_environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(WITHHELD)}
    # The child must find this very package, also where it is only on this process's path.
    package = str(Path(kaggle_workbench.__file__).resolve().parent.parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (package, environment.get("PYTHONPATH", ""))))
    return environment


def _ready(child: subprocess.Popen[bytes], errors: IO[bytes], timeout_s: float) -> Mapping[str, Any]:
    """What the child says once it listens: one line of JSON."""
    lines: list[bytes] = []
    pipe = child.stdout
    if pipe is None:
        raise MissingError("The practice arena has no output to read its address from.", hint="Try again.")
    # A thread, because not every system can wait on a pipe with a limit.
    reader = threading.Thread(target=lambda: lines.append(pipe.readline()), daemon=True)
    reader.start()
    reader.join(timeout_s)
    if not lines:
        raise MissingError(
            f"The practice arena did not start within {timeout_s:.0f} s.",
            hint="Try again; if it stays so, restart the machine.",
        )
    try:
        said = json.loads(lines[0])
    except ValueError:
        child.wait(STOP_S)
        errors.seek(0)
        last = errors.read()[-2000:].decode(errors="replace").strip()
        raise MissingError(
            f"The practice arena ended at once (exit code {child.returncode}).\n{last}",
            hint="Try again; ./kwb arena serve starts it in the open.",
        ) from None
    if "error" in said:
        kind = {each.exit_code: each for each in WorkbenchError.__subclasses__()}.get(said["exit_code"], MissingError)
        raise kind(f"The practice arena did not start: {said['error']}", hint=said["hint"])
    return dict(said)


def _stop(child: subprocess.Popen[bytes]) -> None:
    if child.stdin is not None:
        child.stdin.close()
    for action in (None, child.terminate, child.kill):
        if action is not None:
            action()
        try:
            child.wait(STOP_S)
            break
        except subprocess.TimeoutExpired:
            continue
    if child.stdout is not None:
        child.stdout.close()


def _quoted(path: Path) -> str:
    with suppress(ValueError):
        path = path.relative_to(Path.cwd())
    return shlex.quote(str(path))
