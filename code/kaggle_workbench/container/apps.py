r"""The spec's apps in the container: started by their own commands, watched by their health checks.

The rule for the spec's commands is AI Workbench's: `\$` is read as `$`, then bash reads the command
once, with PROXY_PREFIX as a shell variable and for the first simple command.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kaggle_workbench.container.engine import Engine, Executed
from kaggle_workbench.container.spec_model import App, Spec
from kaggle_workbench.errors import WorkError
from kaggle_workbench.show import progress

RUN_FOLDER = "/run/kwb"
SHOWN_LINES = 25
# The spec's 0 means "no limit", and no wait is without one here.
LONGEST_WAIT_S = 1800
CHECK_SECONDS = 30
# Appends the app's output to its log; the app's command is an argument, so no second shell reads it.
_LOGGED = 'exec bash -c "$1" >> "$2" 2>&1 < /dev/null'


@dataclass(frozen=True)
class AppServer:
    """One app of the spec in one container.

    Attributes:
        prefix: The path the app serves under.
        secret: What must not be shown of its log.
        environment: Variables for its start command alone.
    """

    engine: Engine
    container: str
    spec: Spec
    app: App
    prefix: str
    secret: str = field(repr=False)
    environment: Mapping[str, str] = field(default_factory=dict)

    def spawn(self) -> str:
        """Start the app and return at once, with an id for `engine.spawned_exit_code`."""
        command = ["bash", "-c", _LOGGED, "kwb", self._command(self.app.start_command), log_path(self.app)]
        return self.engine.spawn(self.container, command, environment=self.environment)

    def start(self) -> None:
        """Start the app and wait until its health check passes.

        Raises:
            WorkError: It ended, or was not healthy in the spec's time; the hint holds its last lines.
        """
        self.wait(self.spawn(), min(self.app.timeout_seconds or LONGEST_WAIT_S, LONGEST_WAIT_S))

    def wait(self, spawned: str, limit_s: float) -> None:
        """Wait until the health check of a spawned app passes.

        Args:
            spawned: As `spawn` gave it.
            limit_s: Longest wait in seconds.

        Raises:
            WorkError: See `start`.
        """
        start = time.monotonic()
        with progress(round(limit_s), f"waiting for {self.app.name}", unit="s") as bar:
            while True:
                if self.is_healthy():
                    return
                code = self.engine.spawned_exit_code(spawned)
                # A start command may put its server in the background and end with 0.
                if code:
                    raise self._failed(f"{self.app.name} ended with exit code {code} while starting.")
                waited = time.monotonic() - start
                if waited > limit_s:
                    own = " (its limit in .project/spec.yaml)" if limit_s == self.app.timeout_seconds else ""
                    raise self._failed(f"{self.app.name} was not up after {limit_s:.0f} s{own}.")
                bar.update(int(waited) - bar.n)
                time.sleep(0.5)

    def is_healthy(self) -> bool:
        """Whether the spec's health check passes."""
        return self.run(self.app.health_check_command, limit_s=CHECK_SECONDS).exit_code == 0

    def stop(self) -> None:
        """Ask the app to end, by the spec's command; its failure is no matter, the container goes anyway."""
        if self.app.stop_command:
            self.run(self.app.stop_command, limit_s=10)

    def run(self, command: str, *, limit_s: int = LONGEST_WAIT_S) -> Executed:
        """Run one of the spec's commands and wait for it."""
        words = ["timeout", str(limit_s), "bash", "-c", self._command(command)]
        return self.engine.execute(self.container, words)

    def log_tail(self, lines: int = SHOWN_LINES) -> str:
        """The last lines of the app's own output."""
        answer = self.engine.execute(self.container, ["tail", "-n", str(lines), log_path(self.app)])
        text = answer.output.rstrip() if answer.exit_code == 0 else ""
        return text.replace(self.secret, "***") if self.secret else text

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
