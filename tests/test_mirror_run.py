"""A whole run with MONGODB_URI: three kernels send its record, and the password stands nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arena_tools import tiny_competition
from mongo_tools import MongoServer, documents, there
from project_tools import make_project

pytestmark = pytest.mark.slow
PASSWORD = "pw-51c77e02aa"


def test_a_whole_run_is_in_the_database_when_it_ends(tmp_path: Path) -> None:
    server = MongoServer(tmp_path / "mongo")
    with server:
        server.add_user("ann", PASSWORD)
    server.auth = True
    project = make_project(tmp_path)
    tiny_competition(project.hosted, "tiny-digits", rows=200, test_rows=100, side=8)
    (project.folder / "variables.env").write_text("COMPETITION=tiny-digits\nSOURCE=practice\nEPOCHS=2\n")
    uri = f"mongodb://ann:{PASSWORD}@127.0.0.1:{server.port}/kept?authSource=admin"
    (project.folder / "secrets.env").write_text(f"MONGODB_URI={uri}\n")
    (project.folder / "secrets.env").chmod(0o600)
    with server:
        done = project.kwb("run")
        assert done.returncode == 0, done.stderr
        (file,) = project.output.glob("runs/*/record.json")
        (document,) = documents(uri)
        assert (document["status"], document["epochs"]) == ("done", 2)
        assert [step["stage"] for step in document["steps"]] == ["data", "train", "submit"]
        written = json.loads(file.read_text())
        assert there(uri) == {written["uid"]: {key: value for key, value in written.items() if key != "id"}}
        synced = project.kwb("runs", "sync", "--format", "json")
        assert (synced.returncode, json.loads(synced.stdout)["equal"]) == (0, 1)
        listed = [project.kwb("runs", *words, "--format", "json").stdout for words in ((), ("--from", "mongodb"))]
        assert listed[0] == listed[1]
    said = done.stdout + done.stderr + synced.stdout + synced.stderr
    assert PASSWORD not in said
    for made in file.parent.rglob("*"):
        assert not made.is_file() or PASSWORD.encode() not in made.read_bytes(), made
    # And with the server down the next run goes as well, is not held up, and says so once a stage.
    done = project.kwb("run", "data")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("refuses the connection") == 1
    assert "./kwb runs sync" in done.stderr
    assert PASSWORD not in done.stderr
