"""TensorBoard in the container, beside JupyterLab and never in its way.

TensorBoard knows no login. So its port is published on 127.0.0.1 only, and it serves under a path that ends with a
random part: web pages, other containers and other machines cannot guess it. Who may list this machine's processes can
read it there, and would see the names and curves of runs.
"""

from __future__ import annotations

import hmac
import time
import urllib.request
from hashlib import sha256

from kaggle_workbench.container.apps import AppServer, prefix_of
from kaggle_workbench.container.engine import Engine
from kaggle_workbench.container.spec_model import App, Spec
from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.show import note, warn

# It starts before JupyterLab does and has that time, too. After it nobody waits for curves.
BOARD_SECONDS = 20


def board_app(spec: Spec) -> App | None:
    """The spec's TensorBoard; None when it has none that can be started and published."""
    app = spec.app("tensorboard")
    lab = spec.app("jupyterlab")
    if app is None or app.port is None or not app.start_command or (lab and lab.port == app.port):
        return None
    return app


def board_secret(token: str) -> str:
    """The random part of the path, always the same for one project on one machine; the token cannot be told from it."""
    return hmac.new(token.encode(), b"tensorboard", sha256).hexdigest()[:32]


def board_path(spec: Spec, app: App, token: str) -> str:
    """The path TensorBoard serves under, without a slash at the end."""
    return f"{prefix_of(spec, app)}/{board_secret(token)}"


def board_address(port: int, path: str) -> str:
    """The address that opens TensorBoard."""
    return f"http://127.0.0.1:{port}{path}/"


def board_answers(port: int, path: str, *, timeout_s: float = 3.0) -> bool:
    """Whether a TensorBoard answers at 127.0.0.1:`port` under `path`."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{board_address(port, path)}data/environment", timeout=timeout_s) as response:
            return b"data_location" in response.read()
    except OSError:
        return False


class Board:
    """The TensorBoard of one container; whatever goes wrong with it is said, and stops nothing."""

    def __init__(self, engine: Engine, container: str, spec: Spec, app: App, token: str) -> None:
        self.path = board_path(spec, app, token)
        self._server = AppServer(engine, container, spec, app, self.path, board_secret(token))
        self._spawned = ""

    def spawn(self) -> None:
        """Start it and return at once."""
        try:
            self._spawned = self._server.spawn()
        except WorkbenchError as error:
            warn(f"TensorBoard could not be started; JupyterLab is not concerned. ({error.message})")

    def address(self, port: int | None) -> str:
        """Its address, once it answers on this machine's `port`; "" when it does not, and why is said."""
        if port is None or not self._spawned:
            return ""
        try:
            self._server.wait(self._spawned, BOARD_SECONDS)
        except WorkbenchError as error:
            warn(f"{error.message} JupyterLab is not concerned; ./kwb up tries again.\n{error.hint}")
            return ""
        # The engine's own forwarding may be a moment behind.
        end = time.monotonic() + 5
        while not board_answers(port, self.path):
            if time.monotonic() > end:
                warn(f"TensorBoard runs in the container, but http://127.0.0.1:{port} does not reach it.")
                return ""
            time.sleep(0.3)
        return board_address(port, self.path)

    def revive(self, port: int | None) -> str:
        """The address of a TensorBoard that ran before; one that has ended is started again."""
        if port is not None and board_answers(port, self.path):
            return board_address(port, self.path)
        note("TensorBoard does not run; starting it ...")
        self.spawn()
        return self.address(port)
