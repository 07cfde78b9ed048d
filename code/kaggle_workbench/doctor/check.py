"""What a check is, what it may look at, and running all of them side by side with a limit each.

Standard library only: the doctor also runs where nothing has been installed yet.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from kaggle_workbench import settings as setting_names
from kaggle_workbench.doctor.plain_env import read_plain
from kaggle_workbench.errors import UsageError, WorkbenchError

State = Literal["passed", "warned", "failed", "not checked"]
# All checks run at once; with this limit for each the whole stays under 5 seconds.
LIMIT_S = 4.0
# Waiting for a server is another thing: only `--online` does so.
ONLINE_LIMIT_S = 60.0


@dataclass(frozen=True)
class Result:
    """What one check found.

    Attributes:
        state: "warned" may hurt, "failed" will; "not checked" says why in `found`.
        found: What is there, in one line; never a secret's value.
        fix: What to do, exactly; a command stands on a line of its own. "" when there is nothing to do.
        harmless: Does it, for `--fix`, and returns what it did. Only for what loses nothing.
    """

    state: State
    found: str
    fix: str = ""
    harmless: Callable[[], str] | None = None


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        id: Short name, for `--only` and for the errors that point to it.
        title: What it is about, in two or three words.
        run: Looks; what it raises makes it "not checked".
        limit_s: After so many seconds it is "not checked".
    """

    id: str
    title: str
    run: Callable[[Facts], Result]
    limit_s: float = LIMIT_S


class Answer(NamedTuple):
    """What a command said."""

    code: int
    output: str
    error: str


@dataclass(frozen=True)
class Facts:
    """What a check may look at.

    Attributes:
        root: The project's folder.
        environ: The process's environment.
        settings: Values by name: the environment, then secrets.env, the competition's own file, variables.env. Only
            what is set; unchecked text.
        origins: Where each of them came from.
        system: The folder that stands for `/`; tests put another one here.
        online: Servers may be asked.
    """

    root: Path
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    settings: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    system: Path = Path("/")
    online: bool = False

    @classmethod
    def of(
        cls,
        root: Path,
        environ: Mapping[str, str] | None = None,
        *,
        system: Path = Path("/"),
        online: bool = False,
    ) -> Facts:
        """The facts of a project; files that cannot be read count as empty (a check of their own names them)."""
        environ = dict(os.environ) if environ is None else environ
        known = setting_names.SETTINGS
        layers: list[tuple[str, Mapping[str, str]]] = [
            ("the environment", {name: environ[name] for name in known if environ.get(name)}),
            (setting_names.SECRETS_FILE, read_plain(root / setting_names.SECRETS_FILE)),
        ]
        variables = read_plain(root / setting_names.VARIABLES_FILE)
        slug = next((layer["COMPETITION"] for _, layer in layers if layer.get("COMPETITION")), "")
        slug = slug or variables.get("COMPETITION", "")
        own = Path(setting_names.COMPETITIONS) / slug / setting_names.VARIABLES_FILE
        if slug and "/" not in slug and slug not in (".", ".."):
            layers.append((own.as_posix(), read_plain(root / own)))
        layers.append((setting_names.VARIABLES_FILE, variables))
        values: dict[str, str] = {}
        origins: dict[str, str] = {}
        for origin, layer in layers:
            for name, value in layer.items():
                if value and name not in values:
                    values[name], origins[name] = value, origin
        return cls(root, environ, values, origins, system, online)

    def at(self, path: str) -> Path:
        """A path of this system, such as `/proc/meminfo`."""
        return self.system / path.lstrip("/")

    def run(self, command: Sequence[str], timeout: float = 3.0, *, folder: Path | None = None) -> Answer:
        """Run a command in the project (or `folder`), without input, and give back what it said.

        Raises:
            FileNotFoundError: There is no such command.
            subprocess.TimeoutExpired: It took longer than `timeout` seconds.
        """
        done = subprocess.run(
            list(command),
            cwd=folder or self.root,
            env={**self.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return Answer(done.returncode, *(text.decode("utf-8", errors="replace") for text in (done.stdout, done.stderr)))


def examine(facts: Facts, checks: Sequence[Check], only: Iterable[str] = ()) -> list[tuple[Check, Result]]:
    """Run the checks, all at once, each within its own limit; results stand in the checks' order.

    Args:
        facts: What they look at.
        checks: All checks.
        only: Names of those to run; all when empty.

    Raises:
        UsageError: A name in `only` that no check has.
    """
    wanted = list(only)
    known = [check.id for check in checks]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UsageError(f"The doctor has no check {unknown[0]!r}.", hint="The checks are: " + ", ".join(known) + ".")
    chosen = [check for check in checks if not wanted or check.id in wanted]
    start = time.monotonic()
    waiting = [(check, _begin(check, facts)) for check in chosen]
    return [(check, _wait(check, answers, start)) for check, answers in waiting]


def mend(results: Sequence[tuple[Check, Result]]) -> list[tuple[Check, str]]:
    """Do what is harmless of the results' mends, and say for each check what was done or why it could not be."""
    done = []
    for check, result in results:
        if result.harmless is None or result.state not in ("warned", "failed"):
            continue
        try:
            done.append((check, result.harmless()))
        except (OSError, WorkbenchError) as error:
            done.append((check, f"could not be mended: {error}"))
    return done


def _begin(check: Check, facts: Facts) -> queue.SimpleQueue[Result]:
    answers: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def look() -> None:
        try:
            answers.put(check.run(facts))
        except subprocess.TimeoutExpired as error:
            name = Path(str(error.cmd[0] if isinstance(error.cmd, list) else error.cmd)).name
            answers.put(Result("not checked", f"{name} did not answer within {error.timeout:.0f} s."))
        except ModuleNotFoundError as error:
            answers.put(
                Result(
                    "not checked",
                    f"The Python package {error.name!r} is not installed here.",
                    "Any other command of ./kwb installs what it needs, such as\n./kwb spec check",
                )
            )
        except Exception as error:  # one check that breaks must not hide what the others found
            said = error.message if isinstance(error, WorkbenchError) else f"{type(error).__name__}: {error}"
            answers.put(Result("not checked", f"The check itself failed: {said}"))

    # A daemon: one that hangs must not keep the process from ending.
    threading.Thread(target=look, name=f"doctor-{check.id}", daemon=True).start()
    return answers


def _wait(check: Check, answers: queue.SimpleQueue[Result], start: float) -> Result:
    try:
        return answers.get(timeout=max(0.0, start + check.limit_s - time.monotonic()))
    except queue.Empty:
        return Result("not checked", f"It took longer than {check.limit_s:.0f} s.")
