"""JupyterLab in the container: its token, the address the app itself names, and whether it answers there."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from kaggle_workbench.container.apps import RUN_FOLDER, AppServer, prefix_of
from kaggle_workbench.container.engine import Engine
from kaggle_workbench.container.spec_model import App, Spec
from kaggle_workbench.errors import MissingError, UsageError

TOKEN_FILE = f"{RUN_FOLDER}/token"


def lab_server(engine: Engine, container: str, spec: Spec, app: App, token: str) -> AppServer:
    """The spec's JupyterLab in one container."""
    # A file, not a variable: notebooks would inherit the variable and may print it.
    environment = {"JUPYTER_TOKEN_FILE": TOKEN_FILE}
    return AppServer(engine, container, spec, app, prefix_of(spec, app), token, environment)


def lab_path(server: AppServer) -> str:
    """The path to open, as the app itself names it, always under its prefix."""
    options = server.app.webapp_options
    text = options.url if options else ""
    if options and options.url_command:
        answer = server.run(options.url_command)
        words = answer.output.split()
        text = words[0] if answer.exit_code == 0 and words else ""
    path = urlsplit(text).path if "://" in text else ""
    return path if path.startswith(server.prefix) else f"{server.prefix}/lab"


def lab_app(spec: Spec) -> App:
    """The spec's JupyterLab.

    Raises:
        UsageError: The spec has none, or none with a port and a start command.
    """
    app = spec.app("jupyterlab")
    if app is None or app.port is None or not app.start_command:
        raise UsageError(
            ".project/spec.yaml has no app of type jupyterlab with a start command and a port.",
            hint="Add one under execution.apps; `./kwb spec check` shows what is missing.",
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
                hint="A firewall, or an engine on another machine behind a tunnel, may be in the way; see ./kwb logs.",
            )
        time.sleep(0.3)
