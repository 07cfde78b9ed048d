r"""JupyterLab in the container: started by the spec's own command, watched by its health check, its address.

The rule for the spec's commands is AI Workbench's: `\$` is read as `$`, then bash reads the command
once, with PROXY_PREFIX as a shell variable and for the first simple command.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import urlsplit

from kaggle_workbench.container.engine import Engine
from kaggle_workbench.container.spec_model import App, Spec
from kaggle_workbench.errors import MissingError, UsageError, WorkError
from kaggle_workbench.show import progress

RUN_FOLDER = "/run/kwb"
TOKEN_FILE = f"{RUN_FOLDER}/token"
SHOWN_LINES = 25
# The spec's 0 means "no limit", and no wait is without one here.
LONGEST_WAIT_S = 1800
CHECK_SECONDS = 30
# Appends the app's output to its log; the app's command is an argument, so no second shell reads it.
_LOGGED = 'exec bash -c "$1" >> "$2" 2>&1 < /dev/null'


@dataclass(frozen=True)
class LabServer:
    """One app of the spec in one container."""

    engine: Engine
    container: str
    spec: Spec
    app: App
    token: str

    @property
    def prefix(self) -> str:
        """The path the app serves under."""
        return prefix_of(self.spec, self.app)

    @property
    def log_path(self) -> str:
        """The app's log inside the container."""
        return log_path(self.app)

    def start(self) -> None:
        """Start the app and wait until its health check passes.

        Raises:
            WorkError: It ended, or was not healthy in the spec's time; the hint holds its last lines.
        """
        command = self._command(self.app.start_command)
        # A file, not a variable: notebooks would inherit the variable and may print it.
        environment = {"JUPYTER_TOKEN_FILE": TOKEN_FILE}
        spawned = self.engine.spawn(
            self.container, ["bash", "-c", _LOGGED, "kwb", command, self.log_path], environment=environment
        )
        limit = min(self.app.timeout_seconds or LONGEST_WAIT_S, LONGEST_WAIT_S)
        start = time.monotonic()
        with progress(limit, f"waiting for {self.app.name}", unit="s") as bar:
            while True:
                if self.is_healthy():
                    return
                code = self.engine.spawned_exit_code(spawned)
                # A start command may put its server in the background and end with 0.
                if code:
                    raise self._failed(f"{self.app.name} ended with exit code {code} while starting.")
                waited = time.monotonic() - start
                if waited > limit:
                    raise self._failed(f"{self.app.name} was not up after {limit} s (its limit in .project/spec.yaml).")
                bar.update(int(waited) - bar.n)
                time.sleep(0.5)

    def is_healthy(self) -> bool:
        """Whether the spec's health check passes."""
        check = ["timeout", str(CHECK_SECONDS), "bash", "-c", self._command(self.app.health_check_command)]
        return self.engine.execute(self.container, check).exit_code == 0

    def stop(self) -> None:
        """Ask the app to end, by the spec's command; its failure is no matter, the container goes anyway."""
        if self.app.stop_command:
            stop = ["timeout", "10", "bash", "-c", self._command(self.app.stop_command)]
            self.engine.execute(self.container, stop)

    def path(self) -> str:
        """The path to open, as the app itself names it, always under its prefix."""
        options = self.app.webapp_options
        text = options.url if options else ""
        if options and options.url_command:
            answer = self.engine.execute(self.container, ["bash", "-c", self._command(options.url_command)])
            words = answer.output.split()
            text = words[0] if answer.exit_code == 0 and words else ""
        path = urlsplit(text).path if "://" in text else ""
        return path if path.startswith(self.prefix) else f"{self.prefix}/lab"

    def log_tail(self, lines: int = SHOWN_LINES) -> str:
        """The last lines of the app's own output."""
        answer = self.engine.execute(self.container, ["tail", "-n", str(lines), self.log_path])
        text = answer.output.rstrip() if answer.exit_code == 0 else ""
        return text.replace(self.token, "***") if self.token else text

    def _command(self, text: str) -> str:
        environment = self.spec.environment.base.package_manager_environment
        activate = f"source activate {environment.target}; " if environment.target else ""
        prefix = f'PROXY_PREFIX="{self.prefix}"'
        return f"{prefix}; {activate}{prefix} {text.replace(chr(92) + '$', '$')}"

    def _failed(self, message: str) -> WorkError:
        tail = self.log_tail() or "(it wrote nothing)"
        return WorkError(message, hint=f"Its start command: {self.app.start_command.strip()}\nIts last lines:\n{tail}")


def prefix_of(spec: Spec, app: App) -> str:
    """The path under which AI Workbench's proxy shows an app."""
    return f"/projects/{spec.meta.name}/applications/{app.name}"


def log_path(app: App) -> str:
    """Where an app's output goes inside the container."""
    return f"{RUN_FOLDER}/{app.name.replace(' ', '-')}.log"


def lab_app(spec: Spec) -> App:
    """The spec's JupyterLab.

    Raises:
        UsageError: The spec has none, or none with a port and a start command.
    """
    app = spec.app("jupyterlab")
    if app is None or app.port is None or not app.start_command:
        raise UsageError(
            ".project/spec.yaml has no app of type jupyterlab with a start command and a port.",
            hint="Add one under execution.apps; `kwb spec check` shows what is missing.",
        )
    return app


def answers(port: int, prefix: str, token: str, *, timeout_s: float = 3.0) -> bool:
    """Whether a JupyterLab answers at 127.0.0.1:`port` under `prefix` and takes `token`."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{prefix}/api/status", headers={"Authorization": f"token {token}"}
    )
    # The user's proxy must not be asked for this machine's own address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return "started" in json.loads(response.read())
    except (OSError, ValueError, urllib.error.HTTPError):
        return False


def require_answer(port: int, prefix: str, token: str, *, wait_s: float = 10.0) -> None:
    """Check that the printed address will open from this machine.

    Raises:
        MissingError: Nobody answers there, although the app is healthy inside.
    """
    end = time.monotonic() + wait_s
    while not answers(port, prefix, token):
        if time.monotonic() > end:
            raise MissingError(
                f"JupyterLab runs in the container, but http://127.0.0.1:{port} does not reach it.",
                hint="A firewall, or an engine on another machine behind a tunnel, may be in the way; see kwb logs.",
            )
        time.sleep(0.3)
