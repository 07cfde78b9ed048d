"""`Machines`: the stand-in as a context manager for tests."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pytest

from kaggle_workbench.arena.competitions import Hosting
from kaggle_workbench.arena.context import Context
from kaggle_workbench.arena.signing import Signer
from kaggle_workbench.arena.store import Store
from kaggle_workbench.arena.tokens import Tokens, signing_key

from . import isolation
from .sessions import CANCELLED, TOO_LONG, stop
from .state import HOUR_S, Dataset, Kernel, Options, Seen, Session, World
from .web import CHANGES, Front


class Machines:
    """Kaggle with machines, as long as the `with` block lasts; see the package's text.

    Args:
        folder: Everything it keeps lies there: sessions, datasets, uploads.
        hosted: Competitions' folders, or folders that hold some (the arena's form).
        user: The account's name, which is the owner in every `owner/slug`.
        sessions: How many sessions run at once, by kind of machine.
        quota_s: GPU time a week in seconds.
        tpu_quota_s: TPU time a week in seconds.
        session_limit_s: What a session is killed at, in seconds, if the push asks for no shorter time.
        layout: How /kaggle/input is laid out.
        refuse: Names of `refusals.REFUSALS` that hold from the start; `refuse()` adds more.
        internet: Give sessions that were pushed with the internet on this machine's network.
        queue_s: How long a session waits before it starts.
        dataset_processing_s: How long a new version of a dataset is not ready.
        mount_delay_s: How long after a session's start the files of its datasets appear.
        archives: Whether archives in datasets become folders, which is not always so at Kaggle.
        outputs_of_killed: Keep what a session had written when it was killed.
        second_push: What a push to a running kernel does to the session that runs.
        refused_slugs: "burnt": a new slug whose first push was refused is "Notebook not found" ever after.
        secrets: Values of Kaggle's secrets; only sessions with network can read them.
        gpu_library: A made-up libnvidia-ml.so.1 for sessions on GPU machines (`fake_nvml.library()`).
        gpu_count: How many GPUs that library counts.
        hide: Names in site-packages that sessions do not have.
        packages: The only distributions that sessions have, as far as they are in the tests' environment (None:
            all). Running a notebook needs nbclient, nbformat and ipykernel with what these need, as in Kaggle's image.
    """

    def __init__(
        self,
        folder: Path,
        hosted: Sequence[Path] = (),
        *,
        user: str = "tester",
        sessions: Mapping[str, int] | None = None,
        quota_s: float = 30 * HOUR_S,
        tpu_quota_s: float = 20 * HOUR_S,
        session_limit_s: float = 12 * HOUR_S,
        layout: Literal["new", "old"] = "new",
        refuse: Sequence[str] = (),
        internet: bool = False,
        queue_s: float = 0.0,
        dataset_processing_s: float = 0.0,
        mount_delay_s: float = 0.0,
        archives: Literal["unpacked", "kept"] = "unpacked",
        outputs_of_killed: bool = False,
        second_push: Literal["both", "cancels"] = "both",
        refused_slugs: Literal["free", "burnt"] = "free",
        secrets: Mapping[str, str] | None = None,
        gpu_library: Path | None = None,
        gpu_count: int = 2,
        hide: Sequence[str] = (),
        packages: Collection[str] | None = None,
    ) -> None:
        self.folder = folder
        self.user = user
        self.options = Options(
            user=user,
            sessions={"gpu": 2, "tpu": 1, "cpu": 5, **(sessions or {})},
            quota_s=quota_s,
            tpu_quota_s=tpu_quota_s,
            session_limit_s=session_limit_s,
            layout=layout,
            internet=internet,
            queue_s=queue_s,
            dataset_processing_s=dataset_processing_s,
            mount_delay_s=mount_delay_s,
            archives=archives,
            outputs_of_killed=outputs_of_killed,
            second_push=second_push,
            refused_slugs=refused_slugs,
            secrets=dict(secrets or {}),
            gpu_library=gpu_library,
            gpu_count=gpu_count,
            hide=(*hide, *(() if packages is None else isolation.outside(packages))),
        )
        self._hosted = tuple(hosted)
        self._refuse = tuple(refuse)
        self.url = ""
        self.token = ""

    def __enter__(self) -> Machines:
        from waitress.server import create_server

        if reason := isolation.why_not():
            raise RuntimeError(reason)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.world = World(self.folder, self.options)
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.token = f"KGAT_{secrets.token_hex(16)}"
        state = self.folder / "arena"
        state.mkdir(exist_ok=True)
        self.context = Context(
            hosting=Hosting(self._hosted),
            store=Store(state),
            tokens=Tokens({self.user: self.token}),
            signer=Signer(signing_key(state)),
            state=state,
            public_url=self.url,
            hosts=frozenset({"localhost", "127.0.0.1"}),
            any_address=False,
        )
        self._front = Front(self.world, self.context)
        for name in self._refuse:
            self.refuse(name)
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        # A log that is followed holds a thread for as long as its session runs.
        self._server = create_server(self._front, sockets=[listening], threads=24, asyncore_use_poll=True)
        threading.Thread(target=self._server.run, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.world.changed:
            self.world.closing = True
            for each in self.world.sessions():
                stop(self.world, each, CANCELLED)
            self.world.changed.notify_all()
            self.world.changed.wait_for(lambda: not any(each.live for each in self.world.sessions()), 20)
        # Its thread sees within a second that nothing is left to serve, and ends.
        self._server.close()

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The account's notebooks by `owner/slug`."""
        return dict(self.world.kernels)

    @property
    def datasets(self) -> dict[str, Dataset]:
        """The account's datasets by `owner/slug`."""
        return dict(self.world.datasets)

    @property
    def sessions(self) -> list[Session]:
        """Every session there was, oldest first."""
        return self.world.sessions()

    def environment(self, home: Path | None = None) -> dict[str, str]:
        """The whole environment of a process for which this is Kaggle: `env=machines.environment()`.

        For a test that patches its own environment, the names that matter are those of `variables()`.

        Args:
            home: The process's home; by default a new folder.
        """
        home = home or Path(tempfile.mkdtemp(prefix="home-", dir=self.folder))
        (home / "tmp").mkdir(parents=True, exist_ok=True)
        kept = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "TF_NUM_INTRAOP_THREADS", "CI")
        inherited = {name: os.environ[name] for name in kept if name in os.environ}
        return {**inherited, "HOME": str(home), "TMPDIR": str(home / "tmp"), **self.variables()}

    def variables(self) -> dict[str, str]:
        """What makes a `SOURCE=kaggle` client reach this and nothing else (unset no_proxy and NO_PROXY too)."""
        return {
            "KAGGLE_API_ENVIRONMENT": "LOCALHOST",
            "http_proxy": self.url,
            "KAGGLE_API_TOKEN": self.token,
        }

    def use(self, patch: pytest.MonkeyPatch, home: Path | None = None) -> None:
        """Let this test's own process, and what it starts, take this for Kaggle."""
        for name in list(os.environ):
            if name.startswith("KAGGLE_") or name.lower().endswith("_proxy") or name == "XDG_CONFIG_HOME":
                patch.delenv(name)
        home = home or Path(tempfile.mkdtemp(prefix="home-", dir=self.folder))
        for name, value in {"HOME": str(home), **self.variables()}.items():
            patch.setenv(name, value)

    def calls(self, name: str | None = None) -> list[Seen]:
        """Requests that arrived, in order; of one name ("SaveKernel", "GET output", ...) or all."""
        with self.world.lock:
            return [each for each in self.world.seen if name in (None, each.name)]

    def changes(self) -> list[Seen]:
        """Requests that would change or spend something; a dry run makes none."""
        return [each for each in self.calls() if each.name in CHANGES]

    def forget_calls(self) -> None:
        """Count from here on."""
        with self.world.lock:
            self.world.seen.clear()

    def refuse(self, name: str, *, times: int | None = None) -> None:
        """Refuse as `refusals.REFUSALS[name]` says, so many times (None: always)."""
        self._front.refuse(name, times)

    def accept_all(self) -> None:
        """Drop all refusals."""
        self._front.clear()

    def accept_rules(self, slug: str) -> None:
        """The account accepts a competition's rules, as on its page."""
        self.context.store.accept_rules(self.user, slug)

    def kill(self, ref: str, why: str = TOO_LONG) -> None:
        """End a kernel's running sessions as the session limit does, and wait until they are over."""
        for each in self.kernels[ref].sessions:
            stop(self.world, each, why)
        self.wait(ref)

    def wait(self, ref: str, timeout_s: float = 60) -> str:
        """Wait until a kernel's sessions are over; its status."""
        with self.world.changed:
            kernel = self.world.kernels[ref]
            if not self.world.changed.wait_for(lambda: not any(s.live for s in kernel.sessions), timeout_s):
                raise TimeoutError(f"{ref} still runs after {timeout_s:.0f} s.")
            return kernel.status

    def wait_for_log(self, ref: str, words: str, timeout_s: float = 60) -> None:
        """Wait until a kernel's newest session has printed these words (or has ended)."""
        session = self.kernels[ref].sessions[-1]

        def there() -> bool:
            return words in log_text(session) or not session.live

        with self.world.changed:
            if not self.world.changed.wait_for(there, timeout_s) or words not in log_text(session):
                raise TimeoutError(f"{ref} did not print {words!r}:\n{log_text(session)}")

    def process(self, ref: str) -> None:
        """Let a dataset's versions be ready now."""
        with self.world.lock:
            for each in self.world.datasets[ref].versions:
                each.ready = 0.0

    def log(self, ref: str) -> str:
        """What a kernel's newest session has printed."""
        return log_text(self.kernels[ref].sessions[-1])

    def working(self, ref: str) -> Path:
        """What is /kaggle/working of a kernel's newest session, whether or not the API shows it."""
        return self.kernels[ref].sessions[-1].working

    def spend(self, machine: str, seconds: float) -> None:
        """Let quota have been used up elsewhere this week."""
        with self.world.lock:
            self.world.spent[machine] = self.world.spent.get(machine, 0.0) + seconds


def log_text(session: Session) -> str:
    """A session's log as plain text."""
    return "".join(str(entry.get("data", "")) for entry in session.log)


def notebook(*cells: str) -> dict[str, Any]:
    """A notebook of these code cells."""
    import nbformat.v4 as v4

    return dict(v4.new_notebook(cells=[v4.new_code_cell(each) for each in cells]))
