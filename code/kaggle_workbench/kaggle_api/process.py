"""The parent's side of the client's process: start it, ask it, end it in time."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kaggle_workbench.kaggle_api.endpoint import Endpoint

TICK_S = 0.2


class Fault(Exception):  # noqa: N818 (not an error for people yet: `errors.explain` makes one of it)
    """A call that failed, as the worker describes it (see `worker.describe`)."""

    def __init__(self, kind: str, reason: str = "", **details: Any) -> None:
        super().__init__(kind)
        self.kind = kind
        self.reason = reason
        self.details = details


class Worker:
    """One process of the real client, with the environment of an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        package = str(Path(__file__).resolve().parents[2])
        inherited = endpoint.env.get("PYTHONPATH")
        env = {
            **endpoint.env,
            "PYTHONPATH": os.pathsep.join([package, *([inherited] if inherited else [])]),
            "PYTHONUTF8": "1",
        }
        self._last_words = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            # -P: a kaggle.py in the current folder must not stand for the client.
            [sys.executable, "-P", "-m", "kaggle_workbench.kaggle_api.worker"],
            env=env,
            cwd=endpoint.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._last_words,
            # Ctrl-C is for us; we end the process ourselves.
            start_new_session=True,
        )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._count = 0
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    def ask(self, call: str, args: dict[str, Any], *, limit_s: float, moved: Callable[[], bool] | None = None) -> Any:
        """Make one call.

        Args:
            call: A method of the worker's `_Calls`.
            args: Its arguments.
            limit_s: Longest wait in seconds; the process is killed when it is over.
            moved: Asked several times a second; a True starts the wait anew (bytes have arrived).

        Returns:
            The answer as plain JSON, with what the client printed under "said" when it is an object.

        Raises:
            Fault: The call failed, took too long ("time"), or the process died ("died").
        """
        self._count += 1
        try:
            self._send({"id": self._count, "call": call, "args": args})
            answer = self._wait(limit_s, moved)
        except BaseException:
            # Whatever it was doing, it must not go on with it.
            self.kill()
            raise
        if "fault" in answer:
            raise Fault(**answer["fault"], said=answer["said"])
        value = answer["ok"]
        return value | {"said": answer["said"]} if isinstance(value, dict) else value

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()
        self._close_pipes()
        self._last_words.close()

    def close(self) -> None:
        """Let the process end; it is idle, so it does so at once."""
        self._close_pipes()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._last_words.close()

    def _send(self, request: dict[str, Any]) -> None:
        if self._process.stdin is None:
            raise Fault("died")
        try:
            self._process.stdin.write((json.dumps(request) + "\n").encode())
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise Fault("died", self._words()) from None

    def _wait(self, limit_s: float, moved: Callable[[], bool] | None) -> dict[str, Any]:
        deadline = time.monotonic() + limit_s
        while True:
            try:
                answer = self._answers.get(timeout=TICK_S if moved else min(limit_s, 1.0))
            except queue.Empty:
                if moved and moved():
                    deadline = time.monotonic() + limit_s
                if time.monotonic() > deadline:
                    raise Fault("time", limit_s=limit_s) from None
                continue
            if answer is None:
                raise Fault("died", self._words())
            if answer["id"] == self._count:
                return answer

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is not None:
            with stream, contextlib.suppress(OSError, ValueError):
                for line in stream:
                    self._answers.put(json.loads(line))
        self._answers.put(None)

    def _words(self) -> str:
        """The last line that the process wrote to its stderr, such as the end of a traceback."""
        with contextlib.suppress(OSError, ValueError):
            self._last_words.seek(0)
            lines = self._last_words.read()[-4000:].decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def _close_pipes(self) -> None:
        # The reading thread closes the other one when it comes to its end.
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
