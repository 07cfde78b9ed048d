"""What `kwb up` keeps on this machine and git never sees: chosen folders, the token, old logs.

It stands outside the project, since a project on a Windows disk could not keep a file private.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from kaggle_workbench.files import disk_errors, write_atomic, write_json

TOKEN_BYTES = 24
LOG_BYTES = 1_000_000


@dataclass
class Machine:
    """Choices for this machine, and where the running JupyterLab is.

    Attributes:
        base: Image instead of the spec's, from `--base`; "" for the spec's own.
        mounts: Target -> folder, from `--input`, `--output` and `--mount`.
        port: Port on 127.0.0.1 that was used last, taken again when it is free.
        board_port: The same for TensorBoard.
        path: Path of the app's address inside the container's server.
    """

    base: str = ""
    mounts: dict[str, str] = field(default_factory=dict)
    port: int = 0
    board_port: int = 0
    path: str = ""


class State:
    """The state folder of one project on this machine."""

    def __init__(self, project: Path) -> None:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        self.project_id = sha256(os.fsencode(project.resolve())).hexdigest()[:12]
        self.folder = base / "kaggle-workbench" / f"{project.resolve().name}-{self.project_id}"

    def open(self) -> State:
        """Make the folder, private to this user, and return the state."""
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return self

    def load(self) -> Machine:
        """The choices kept so far; a damaged file counts as none."""
        try:
            document: Any = json.loads((self.folder / "machine.json").read_text(encoding="utf-8"))
            known = {name: document[name] for name in Machine.__dataclass_fields__ if name in document}
            return Machine(**known)
        except (OSError, ValueError, TypeError):
            return Machine()

    def save(self, machine: Machine) -> None:
        """Keep the choices."""
        write_json(self.folder / "machine.json", asdict(machine), mode=0o600)

    def token(self) -> str:
        """This project's random token for JupyterLab, made on first use; its file has mode 0600."""
        path = self.folder / "token"
        try:
            token = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            token = ""
        if len(token) < TOKEN_BYTES:
            token = secrets.token_hex(TOKEN_BYTES)
            write_atomic(path, token + "\n", mode=0o600)
        return token

    def log_file(self, app: str) -> Path:
        """Where an app's log is kept once its container is gone."""
        return self.folder / f"{re.sub(r'[^A-Za-z0-9_-]+', '-', app)}.log"

    def keep_log(self, app: str, content: bytes) -> None:
        """Keep the end of an app's log."""
        write_atomic(self.log_file(app), content[-LOG_BYTES:], mode=0o600)
