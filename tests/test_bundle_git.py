"""Bundles whose package comes from the user's own repository, a private one, too."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench.errors import RefusedError, UsageError
from kaggle_workbench.remote.bundle import source
from project_tools import make_project

TOKEN = "ghp_0123456789abcdef0123456789abcdef"


# --- From the user's own repository ---


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("git@github.com:ann/work.git", "https://github.com/ann/work.git"),
        ("ssh://git@host.example:2222/ann/work.git", "https://host.example/ann/work.git"),
        ("https://ann:ghp_secret@github.com/ann/work", "https://github.com/ann/work"),
        ("https://github.com/ann/work.git", "https://github.com/ann/work.git"),
        ("../work.git", ""),
        ("file:///srv/work.git", ""),
    ],
)
def test_a_repositorys_address_loses_its_credentials(address: str, plain: str) -> None:
    assert source.without_credentials(address) == plain


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, "-C", str(folder), *words], check=True, capture_output=True, timeout=60)


def test_code_from_git_only_at_a_commit_that_was_pushed(tmp_path: Path) -> None:
    root = make_project(tmp_path).folder
    with pytest.raises(UsageError, match="no git repository"):
        source.repository(root)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "code", ".project")
    git(root, "commit", "-qm", "one")
    with pytest.raises(UsageError, match="no remote `origin`"):
        source.repository(root)
    git(root, "remote", "add", "origin", "https://ann:key@example.com/ann/work.git")
    with pytest.raises(RefusedError, match="was not pushed"):
        source.repository(root)
    git(tmp_path, "init", "-q", "--bare", "there.git")
    git(root, "push", "-q", str(tmp_path / "there.git"), "main")
    git(root, "fetch", "-q", str(tmp_path / "there.git"), "main:refs/remotes/origin/main")
    found = source.repository(root)
    assert found.address == "https://example.com/ann/work.git"
    text = source.from_git(found)
    compile(text, "cell", "exec")
    assert "key" not in text.replace("keys", "")
    (root / "code" / "02-train.ipynb").write_text("{}")
    with pytest.raises(RefusedError, match="not committed"):
        source.repository(root)


# --- A private repository ---


@pytest.fixture
def private_repository(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A repository behind a password, served by git's own program: its address and newest commit."""
    work = tmp_path / "work"
    (work / "code" / "kaggle_workbench").mkdir(parents=True)
    (work / "code" / "kaggle_workbench" / "__init__.py").write_text("HERE = 'from git'\n")
    git(tmp_path, "init", "-q", "-b", "main", "work")
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    git(tmp_path, "clone", "-q", "--bare", "work", "there.git")
    git(tmp_path / "there.git", "config", "uploadpack.allowAnySHA1InWant", "true")
    commit = subprocess.run(["git", "-C", str(work), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    backend = Path(subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip())
    wanted = "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", "Basic realm=git")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(tmp_path),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "REMOTE_USER": "x",
            }
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            done = subprocess.run([backend / "git-http-backend"], env=env, input=body, capture_output=True, check=True)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            lines = [line.split(": ", 1) for line in head.decode().splitlines()]
            status = next((value.split()[0] for name, value in lines if name == "Status"), "200")
            self.send_response(int(status))
            for name, value in lines:
                if name != "Status":
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815  (the library's name)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/there.git", commit.stdout.strip()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("token", [TOKEN, "wrong-token", None])
def test_code_comes_from_a_private_repository_by_the_places_secret(
    tmp_path: Path, private_repository: tuple[str, str], token: str | None
) -> None:
    address, commit = private_repository
    (tmp_path / "place").mkdir()
    found = f"return {token!r}" if token else "raise LookupError(name)"
    (tmp_path / "place" / "kaggle_secrets.py").write_text(
        "class UserSecretsClient:\n    def get_secret(self, name):\n"
        f"        assert name == 'GITHUB_TOKEN'\n        {found}\n"
    )
    cell = (
        source.from_git(source.Repository(address, commit)) + "\nimport kaggle_workbench; print(kaggle_workbench.HERE)"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "place"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", cell], capture_output=True, text=True, env=env, cwd=tmp_path, timeout=60, check=False
    )
    said = done.stdout + done.stderr
    assert TOKEN not in said
    if token == TOKEN:
        assert done.stdout.splitlines() == [f"kaggle_workbench is at commit {commit[:10]}", "from git"], said
    else:
        assert done.returncode != 0
        assert "git fetch of" in said
