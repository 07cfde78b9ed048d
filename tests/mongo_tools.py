"""A MongoDB server of a test's own: SecantusDB, which speaks MongoDB's protocol, as a process on a free port."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from pymongo import MongoClient

from kaggle_workbench.mirror import convert
from kaggle_workbench.records import Run
from kaggle_workbench.settings import Settings, load_settings

STARTS_IN_S = 60


class MongoServer:
    """The server; stopped and started again it has the same port and data.

    Args:
        folder: Where its data lie.
        auth: Ask for a login.
        tls: Folder made by `certificates`; the server then speaks TLS alone.
    """

    def __init__(self, folder: Path, *, auth: bool = False, tls: Path | None = None) -> None:
        self.folder, self.auth, self.tls = folder, auth, tls
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MongoServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    @property
    def uri(self) -> str:
        """Its address, without a login."""
        return f"mongodb://127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it and wait until it answers."""
        beside = Path(sys.executable).with_name("secantusd-py")
        command = [str(beside) if beside.exists() else shutil.which("secantusd-py") or "secantusd-py"]
        command += ["--port", str(self.port), "--storage-path", str(self.folder / "data"), "--cache-size", "256M"]
        command += ["--auth"] if self.auth else []
        if self.tls:
            command += ["--tls-cert-file", str(self.tls / "server.pem"), "--tls-key-file", str(self.tls / "server.key")]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        until = time.monotonic() + STARTS_IN_S
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return
        raise TimeoutError((self.folder / "log").read_text())

    def stop(self) -> None:
        """End it; what it has taken is on the disk."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(15)
            self._process = None

    def add_user(self, name: str, password: str) -> None:
        """Make a user; the server must not yet ask for a login."""
        with MongoClient[dict[str, Any]](self.uri) as client:
            client.admin.command("createUser", name, pwd=password, roles=["root"])


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def certificates(folder: Path) -> Path:
    """A certificate authority and a certificate for 127.0.0.1, made with openssl: ca.pem, server.pem, server.key."""
    folder.mkdir(parents=True, exist_ok=True)

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    ca = ("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl(*new, "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem", *ca)
    openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"
    )
    (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl(
        *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-days", "2", "-extfile", "extensions", "-out", "server.pem"),
    )
    return folder


class World:
    """A project whose records go to a server; several machines are several output folders."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        (folder / ".project").mkdir()
        (folder / ".project" / "spec.yaml").write_text("specVersion: v2\n")
        monkeypatch.chdir(folder)

    def settings(self, uri: str | None, machine: str = "here") -> Settings:
        self.monkeypatch.setenv("OUTPUT_DIR", str(self.folder / machine))
        if uri is None:
            self.monkeypatch.delenv("MONGODB_URI", raising=False)
        else:
            self.monkeypatch.setenv("MONGODB_URI", uri)
        return load_settings()


def database(server: MongoServer, name: str) -> str:
    """An address with a database of the test's own."""
    return f"{server.uri}{name}"


def documents(uri: str) -> list[dict[str, Any]]:
    with MongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        return list(client.get_default_database().runs.find())


def trained(settings: Settings, name: str | None = None, *, epochs: int = 3, **fields: Any) -> Run:
    run = Run.create(settings.output_dir, stage="train", competition="digits", source="practice", run_id=name)
    with run.step("train", parameters={"SEED": 0}):
        for epoch in range(epochs):
            run.change(lambda record, n=epoch: record["history"].append({"epoch": n + 1, "loss": 1 / (n + 1)}))
        run.update(**fields)
    return run


def raw(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every record below the folder as it is written, by uid, without the run's name there."""
    found = [json.loads(file.read_text()) for file in settings.output_dir.glob("runs/*/record.json")]
    assert len({record["uid"] for record in found}) == len(found)
    return {record["uid"]: {key: value for key, value in record.items() if key != "id"} for record in found}


def there(uri: str) -> dict[str, dict[str, Any]]:
    """The same of every document on the server."""
    found = [convert.to_record(document) for document in documents(uri)]
    return {record["uid"]: {k: v for k, v in record.items() if k not in ("id", "seen")} for record in found}
