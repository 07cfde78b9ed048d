"""Merging records with MongoDB, and reading them from there: a real server (SecantusDB) and the real client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from kaggle_workbench import cli, mirror, records
from kaggle_workbench.mirror.sync import SyncResult
from kaggle_workbench.records import Run, list_runs
from mongo_tools import MongoServer, World, database, documents, raw, there, trained

CODE = Path(__file__).resolve().parent.parent / "code"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with MongoServer(tmp_path_factory.mktemp("mongo")) as one:
        yield one


@pytest.fixture(autouse=True)
def _quiet_end() -> Iterator[None]:
    yield
    mirror.finish(0)
    records.listeners.clear()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


# --- Merging ---


def test_two_machines_have_the_same_records_after_sync(world: World, server: MongoServer) -> None:
    uri = database(server, "both")
    here, other = world.settings(uri), world.settings(uri, "other")
    mine = [trained(here) for _ in range(3)]
    trained(other, "elsewhere")
    assert sorted(mirror.sync(here).sent) == sorted(run.id for run in mine)
    result = mirror.sync(other)
    assert (result.sent, len(result.fetched), result.exit_code) == (["elsewhere"], 3, 0)
    assert mirror.sync(here).fetched == ["elsewhere"]
    assert raw(here) == raw(other) == there(uri)
    for settings in (here, other):
        assert mirror.sync(settings) == SyncResult(mirror.sync(settings).server, equal=4)
    # A run goes on elsewhere: the higher revision wins, in whichever order they meet.
    Run.open(other.output_dir, mine[0].id).update(metric="accuracy")
    assert mirror.sync(here).equal == 4
    assert mirror.sync(other).sent == [mine[0].id]
    assert mirror.sync(here).fetched == [mine[0].id]
    assert raw(here) == raw(other) == there(uri)


def test_a_dry_run_changes_nothing(world: World, server: MongoServer, capsys: pytest.CaptureFixture[str]) -> None:
    uri = database(server, "dry")
    run = trained(world.settings(uri))
    assert cli.main(["runs", "sync", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "would be sent 1" in told
    assert run.id in told
    assert documents(uri) == []
    assert cli.main(["runs", "sync", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["sent"] == [run.id]


def test_a_newer_document_is_never_overwritten(world: World, server: MongoServer) -> None:
    uri = database(server, "newer")
    settings = world.settings(uri)
    run = trained(settings)
    mirror.sync(settings)
    with MongoClient[dict[str, Any]](uri) as client:
        client.get_default_database().runs.update_one({}, {"$inc": {"revision": 50}, "$set": {"metric": "theirs"}})
    mirror.start(settings)
    run.update(metric="mine")
    assert mirror.finish(20)
    (document,) = documents(uri)
    assert document["metric"] == "theirs"
    assert mirror.sync(settings).fetched == [run.id]
    assert run.read()["metric"] == "theirs"


def test_two_machines_that_went_on_from_one_record_lose_nothing(world: World, server: MongoServer) -> None:
    uri = database(server, "conflict")
    here, other = world.settings(uri), world.settings(uri, "other")
    run = trained(here, "shared")
    mirror.sync(here)
    mirror.sync(other)
    Run.open(here.output_dir, "shared").update(metric="earlier")
    time.sleep(0.01)
    Run.open(other.output_dir, "shared").update(metric="later")
    assert mirror.sync(other).sent == ["shared"]
    result = mirror.sync(here)
    assert (result.conflicts, result.fetched) == (["shared"], ["shared"])
    assert "kept beside it" in str(result)
    assert run.read()["metric"] == "later"
    (loser,) = run.folder.glob("record.*.json")
    assert json.loads(loser.read_text())["metric"] == "earlier"
    assert raw(here) == raw(other) == there(uri)
    assert mirror.sync(here).equal == 1
    # The other way round: the later one is here, and the server's copy is kept beside it.
    Run.open(other.output_dir, "shared").update(metric="theirs")
    mirror.sync(other)
    time.sleep(0.01)
    run.update(metric="ours")
    result = mirror.sync(here)
    assert (result.conflicts, result.sent) == (["shared"], ["shared"])
    assert sorted(json.loads(file.read_text())["metric"] for file in run.folder.glob("record.*.json")) == [
        "earlier",
        "theirs",
    ]
    assert documents(uri)[0]["metric"] == "ours"


def test_names_from_elsewhere_take_folders_of_their_own_and_lead_nowhere(world: World, server: MongoServer) -> None:
    uri = database(server, "names")
    here, other = world.settings(uri), world.settings(uri, "other")
    mine, theirs = trained(here, "best"), trained(other, "best")
    mirror.sync(here)
    assert mirror.sync(other).fetched == ["best-2"]
    assert mirror.sync(here).fetched == ["best-2"]
    assert Run.open(here.output_dir, "best-2").read()["uid"] == theirs.read()["uid"]
    assert Run.open(here.output_dir, "best").read()["uid"] == mine.read()["uid"]
    assert raw(here) == raw(other) == there(uri)
    assert mirror.sync(here).equal == 2
    with MongoClient[dict[str, Any]](uri) as client:
        runs = client.get_default_database().runs
        evil = {**documents(uri)[0], "_id": "f" * 32, "id": "../../evil"}
        runs.insert_many([evil, {"_id": "not a run", "hello": 1}, {"_id": 7, "id": "x"}, {**evil, "_id": "a/../../b"}])
    result = mirror.sync(here)
    assert result.fetched == ["f" * 32]
    assert len(result.skipped) == 3
    inside = {path.name for path in (here.output_dir / "runs").iterdir()}
    assert inside == {"best", "best-2", "f" * 32}
    assert not list(world.folder.rglob("*evil*"))
    assert cli.main(["runs", "--from", "mongodb"]) == 0


def test_what_cannot_be_merged_is_named(world: World, server: MongoServer) -> None:
    import shutil

    uri = database(server, "odd")
    settings = world.settings(uri)
    run = trained(settings, "original")
    shutil.copytree(run.folder, run.folder.with_name("a-copy"))
    (settings.output_dir / "runs" / "bad").mkdir()
    (settings.output_dir / "runs" / "bad" / "record.json").write_text("{")
    result = mirror.sync(settings)
    assert result.sent == ["original"]
    assert result.skipped == {
        "bad": "its record is damaged",
        "a-copy": "a copy of original, which is newer or the same",
    }
    # A run that works here is not changed under its hands.
    step = run.start("train")
    with MongoClient[dict[str, Any]](uri) as client:
        client.get_default_database().runs.update_one({}, {"$inc": {"revision": 50}})
    assert mirror.sync(settings).skipped["original"] == "it runs here now"
    step.end()


def test_three_hundred_records_are_merged_both_ways(world: World, server: MongoServer) -> None:
    uri = database(server, "many")
    here, other = world.settings(uri), world.settings(uri, "other")
    document = trained(here, "r0", epochs=20).read()
    for number in range(1, 300):
        folder = here.output_dir / "runs" / f"r{number}"
        folder.mkdir()
        (folder / "record.json").write_text(json.dumps({**document, "uid": f"{number:032x}", "id": f"r{number}"}))
    assert len(mirror.sync(here).sent) == 300
    assert len(mirror.sync(other).fetched) == 300
    assert raw(here) == raw(other)
    assert len(mirror.list_runs(here, competition="digits")) == 300
    assert mirror.list_runs(here, competition="titanic") == []
    assert mirror.sync(other).equal == 300


def test_two_processes_write_at_the_same_time(world: World, server: MongoServer) -> None:
    uri = database(server, "processes")
    settings = world.settings(uri)
    shared = trained(settings, "shared")
    code = (
        "import sys\n"
        "from kaggle_workbench import mirror\n"
        "from kaggle_workbench.records import Run\n"
        "from kaggle_workbench.settings import load_settings\n"
        "settings = load_settings()\n"
        "mirror.start(settings)\n"
        "facts = {'stage': 'train', 'competition': 'digits', 'source': 'practice'}\n"
        "own = Run.create(settings.output_dir, run_id=sys.argv[1], **facts)\n"
        "shared = Run.open(settings.output_dir, 'shared')\n"
        "with own.step('train'):\n"
        "    for n in range(30):\n"
        "        for run in (own, shared):\n"
        "            run.change(lambda record: record['data'].update({f'{sys.argv[1]}{n}': {'size': n}}))\n"
        "sys.exit(0 if mirror.finish(30) else 'not sent')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(CODE)}
    writers = [subprocess.Popen([sys.executable, "-c", code, name], env=environment) for name in ("one", "two")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(shared.read()["data"]) == 60
    assert there(uri) == raw(settings)
    assert mirror.sync(settings).equal == 3


# --- Reading ---


def test_list_show_and_compare_from_the_server(
    world: World, server: MongoServer, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = database(server, "read")
    settings = world.settings(uri)
    one = trained(settings, "wide-net", cv={"metric": "accuracy", "score": 0.98, "method": "hold-out", "rows": 9})
    trained(settings, "wider-net", cv={"metric": "accuracy", "score": 0.97, "method": "hold-out", "rows": 9})
    assert cli.main(["runs", "--format", "json"]) == 0
    files = json.loads(capsys.readouterr().out)
    mirror.sync(settings)
    world.settings(uri, "empty")
    assert cli.main(["runs", "--from", "mongodb", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == files
    assert [run["status"] for run in mirror.list_runs(settings)] == [
        run["status"] for run in list_runs(settings.output_dir)
    ]
    assert cli.main(["runs", "show", "--from", "mongodb", one.read()["uid"], "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["history"] == one.read()["history"]
    assert cli.main(["runs", "--from", "mongodb", "show", "wide-"]) == 0
    assert "Run wide-net: done" in capsys.readouterr().out
    assert cli.main(["runs", "compare", "wide-net", "wider", "--from", "mongodb"]) == 0
    assert "-0.01000 worse" in capsys.readouterr().out
    for name, said in (("wid", "could be 2 runs"), ("w.*", "no run 'w.*'")):
        assert cli.main(["runs", "show", name, "--from", "mongodb"]) == 2
        assert said in capsys.readouterr().err
    world.settings(None)
    for words in (("runs", "sync"), ("runs", "--from", "mongodb")):
        assert cli.main(list(words)) == 3
        assert "secrets.env" in capsys.readouterr().err
