"""Records in MongoDB: a real server (SecantusDB) and the real client, with every trouble a server can make."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson.int64 import Int64
from pymongo import MongoClient, errors

from kaggle_workbench import cli, mirror, records
from kaggle_workbench.errors import MissingError
from kaggle_workbench.mirror import address, convert, cut, outbox, writing
from kaggle_workbench.mirror.problems import explained
from kaggle_workbench.records import Run
from kaggle_workbench.records.document import digest
from kaggle_workbench.settings import Secret
from mongo_tools import MongoServer, World, certificates, database, documents, free_port, raw, there, trained

CODE = Path(__file__).resolve().parent.parent / "code"
PASSWORD = "s3cret/p@ss"
ENCODED = "s3cret%2Fp%40ss"


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


# --- Sending while a run works ---


def test_each_run_is_one_document_that_compass_shows_well(world: World, server: MongoServer) -> None:
    uri = database(server, "shown")
    settings = world.settings(uri)
    mirror.start(settings)
    sent = {"ref": 7, "file": "s.csv", "sha256": "0", "message": "m", "sent": "2026-12-01T10:00:00+00:00"}
    data = {"train.csv": {"size": 76_775_041, "sha256": "ab"}}
    run = trained(settings, cv={"score": 0.98, "rows": 12}, submission=sent, data=data)
    assert mirror.finish(20)
    (document,) = documents(uri)
    record = run.read()
    assert (document["_id"], document["id"], document["status"]) == (record["uid"], run.id, "done")
    for moment in (
        document["created"],
        document["seen"],
        document["submission"]["sent"],
        document["steps"][0]["ended"],
    ):
        assert isinstance(moment, datetime)
    assert document["data"] == [{"file": "train.csv", "size": 76_775_041, "sha256": "ab"}]
    for whole in (document["revision"], document["epochs"], document["cv"]["rows"], document["data"][0]["size"]):
        assert isinstance(whole, Int64)
    assert isinstance(document["cv"]["score"], float)
    assert document["epochs"] == 3
    assert there(uri) == raw(settings)
    with MongoClient[dict[str, Any]](uri) as client:
        indexes = client.get_default_database().runs.index_information()
    assert {"competition_1_created_-1", "status_1", "cv.score_-1", "lb.public_-1"} <= indexes.keys()


def test_without_the_setting_nothing_is_done(world: World) -> None:
    mirror.start(world.settings(None))
    assert records.listeners == []
    assert mirror.finish(0)


def test_a_server_that_stops_in_the_middle_is_made_good_by_sync(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outbox, "WAITS_S", (0.1,))
    uri_options = "runs?serverSelectionTimeoutMS=1500&connectTimeoutMS=1500"
    with MongoServer(tmp_path / "mongo") as server:
        uri = f"{server.uri}{uri_options}"
        settings = world.settings(uri)
        mirror.start(settings)
        run = Run.create(settings.output_dir, stage="train", competition="digits", source="practice")
        step = run.start("train")
        for epoch in range(4):
            run.change(lambda record, n=epoch: record["history"].append({"epoch": n + 1, "loss": 0.1}))
            if epoch == 1:
                wait_for(lambda: documents(uri)[0]["epochs"] == 2)
                server.stop()
                wait_for(
                    lambda: "./kwb runs sync" in capsys.readouterr().err, nudge=lambda: run.update(metric="accuracy")
                )
        step.end()
        assert not mirror.finish(1)
        assert "is not in MongoDB yet; ./kwb runs sync sends it" in capsys.readouterr().err
        assert run.read()["status"] == "done"
        server.start()
        other = trained(world.settings(None, "here"))
        result = mirror.sync(world.settings(uri))
        assert sorted(result.sent) == sorted([run.id, other.id])
        assert there(uri) == raw(settings)
        # And when it comes back while the run works, nobody has to do anything.
        mirror.start(settings)
        step = run.start("train")
        wait_for(lambda: there(uri) == raw(settings))
        server.stop()
        wait_for(lambda: "goes on" in capsys.readouterr().err, nudge=lambda: run.update(metric="accuracy"))
        server.start()
        step.end()
        wait_for(lambda: there(uri) == raw(settings))
        assert mirror.finish(20)
        assert "answers again" in capsys.readouterr().err


def wait_for(done: Any, *, nudge: Any = None, timeout_s: float = 20) -> None:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if nudge:
            nudge()
        with contextlib.suppress(IndexError):
            if done():
                return
        time.sleep(0.1)
    raise AssertionError("waited in vain")


def test_a_port_that_refuses_or_hangs_does_not_slow_a_run(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen(16)
        for port, cause in ((free_port(), "refuses the connection"), (hanging.getsockname()[1], "does not answer")):
            settings = world.settings(f"mongodb://ann:{ENCODED}@127.0.0.1:{port}/?serverSelectionTimeoutMS=700")
            started = time.monotonic()
            mirror.start(settings)
            run = trained(settings, epochs=30)
            spent = time.monotonic() - started
            mirror.finish(0)
            alone = time.monotonic()
            trained(settings, epochs=30)
            assert spent < 2 * (time.monotonic() - alone) + 1
            capsys.readouterr()
            mirror.start(settings)
            run.update(metric="accuracy")
            started = time.monotonic()
            assert not mirror.finish(1.5)
            assert time.monotonic() - started < 3
            said = capsys.readouterr().err
            assert said.count(cause) == 1
            assert f"MongoDB at 127.0.0.1:{port}" in said
            assert "s3cret" not in said
            assert run.read()["status"] == "done"
            assert cli.main(["runs", "sync"]) == 3
            said = capsys.readouterr()
            assert (said.out, cause in said.err, "s3cret" in said.err) == ("", True, False)


def test_a_run_that_was_taken_away_again_is_not_sent(world: World, server: MongoServer) -> None:
    import shutil

    uri = database(server, "taken")
    settings = world.settings(uri)
    mirror.start(settings)
    run = trained(settings)
    shutil.rmtree(run.folder)
    kept = trained(settings)
    assert mirror.finish(20)
    assert [document["id"] for document in documents(uri)] == [kept.id]


def test_a_silent_run_is_told_from_one_that_lives(
    world: World, server: MongoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "SEEN_EVERY_S", 0.2)
    uri = database(server, "alive")
    settings = world.settings(uri)
    mirror.start(settings)
    run = Run.create(settings.output_dir, stage="train", competition="digits", source="practice")
    step = run.start("train", process={"host": "elsewhere"})
    wait_for(lambda: len(documents(uri)) == 1)
    first = documents(uri)[0]["seen"]
    wait_for(lambda: documents(uri)[0]["seen"] > first)
    assert [record["status"] for record in mirror.list_runs(settings)] == ["running"]
    mirror.finish(5)
    with MongoClient[dict[str, Any]](uri) as client:
        client.get_default_database().runs.update_many({}, {"$set": {"seen": datetime.now(UTC) - timedelta(hours=1)}})
    assert [record["status"] for record in mirror.list_runs(settings)] == ["died"]
    step.end()


# --- Login and TLS ---


def test_with_a_login_and_with_tls(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = certificates(tmp_path / "keys")
    server = MongoServer(tmp_path / "mongo")
    with server:
        server.add_user("ann", PASSWORD)
    server.auth, server.tls = True, keys
    limits = "serverSelectionTimeoutMS=700"
    host = f"127.0.0.1:{server.port}/kept"
    with server:
        tls = f"tls=true&tlsCAFile={keys / 'ca.pem'}"
        good = f"mongodb://ann:{ENCODED}@{host}?{tls}&authSource=admin"
        settings = world.settings(good)
        mirror.start(settings)
        run = trained(settings)
        assert mirror.finish(20)
        assert there(good) == raw(settings)
        assert mirror.sync(settings).equal == 1
        said = ""
        for uri, cause in {
            f"mongodb://ann:wrong-{ENCODED}@{host}?{tls}&authSource=admin": "refuses this user or password",
            f"mongodb://{host}?{tls}": "does not let this user read and write",
            f"mongodb://ann:{ENCODED}@{host}?tls=true&{limits}": "no secure connection (TLS)",
            f"mongodb://ann:{ENCODED}@{host}?{limits}": "MongoDB at",
            f"mongodb://ann:{PASSWORD}@{host}": "MONGODB_URI is not a MongoDB address",
        }.items():
            settings = world.settings(uri)
            mirror.start(settings)
            run.update(metric="accuracy")
            mirror.finish(10)
            told = capsys.readouterr().err
            assert cause in told, f"{uri}: {told}"
            assert cli.main(["runs", "sync"]) == 3
            told += capsys.readouterr().err
            assert told.count(cause) >= 2
            said += told
        assert run.read()["status"] == "done"
        assert "s3cret" not in said
        assert "p@ss" not in said
        assert "s3cret" not in "".join(file.read_text() for file in run.folder.iterdir() if file.is_file())


def test_problems_are_told_with_cause_and_mend() -> None:
    atlas = address.read(Secret(f"mongodb+srv://ann:{ENCODED}@cluster0.ab1cd.mongodb.net/?retryWrites=true"))
    own = address.read(Secret(f"mongodb://ann:{ENCODED}@db.example.org:27017/mine"))
    assert (atlas.host, atlas.database) == ("cluster0.ab1cd.mongodb.net", "kaggle_workbench")
    assert (own.host, own.database) == ("db.example.org:27017", "mine")
    handshake = (
        "SSL handshake failed: ac-1.mongodb.net:27017: [SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert internal error"
    )
    for error, where, cause, mend in (
        (
            errors.ServerSelectionTimeoutError(handshake),
            atlas,
            "does not let this machine's address in",
            "IP Access List",
        ),
        (
            errors.ServerSelectionTimeoutError("ac-1.mongodb.net:27017: timed out"),
            atlas,
            "does not answer",
            "IP Access",
        ),
        (errors.OperationFailure("bad auth : authentication failed", 8000), atlas, "refuses this user", "%40"),
        (
            errors.OperationFailure("user is not allowed to do action", 8000),
            atlas,
            "does not let this user",
            "readWrite",
        ),
        (errors.OperationFailure("you are over your space quota", 8000), atlas, "no space left", "larger tier"),
        (errors.ConfigurationError("The DNS query name does not exist: _mongodb._tcp.x."), atlas, "DNS", "internet"),
        (errors.ServerSelectionTimeoutError("db:1: [Errno -2] Name or service not known"), own, "no such host", "host"),
        (errors.AutoReconnect(f"connection closed ann:{PASSWORD}"), own, "does not answer", "firewalls"),
        (
            errors.InvalidURI(f"Username and password must be escaped: ann:{PASSWORD}"),
            own,
            "not a MongoDB address",
            "%40",
        ),
        (ValueError("Port must be an integer: p@ss"), own, "not a MongoDB address", "27017"),
    ):
        problem = explained(error, where)
        assert cause in problem.cause
        assert mend in problem.mend
        assert "p@ss" not in problem.cause + problem.mend
        assert problem.as_error().exit_code == 3


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://ann:pa/ss@host/db",
        "mongodb://ann:pa?ss@host/db",
        "mongodb://ann:pa@ss@host/db",
        "mongodb://ann:pa#ss@host",
        "nonsense",
        "mongodb://host/?tlsCertificateKeyFilePassword=pass&authMechanismProperties=TOKEN:pass@1",
    ],
)
def test_no_part_of_a_password_is_shown(uri: str) -> None:
    shown = str(address.read(Secret(uri)))
    assert "ss" not in shown
    assert "ann" not in shown


def test_what_is_no_address_is_not_asked_for_in_the_network(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def asks(*words: Any, **_: Any) -> list[Any]:
        asked.append(words)
        return []

    monkeypatch.setattr("socket.getaddrinfo", asks)
    for uri in ("s3cretpassw0rd", "https://ann:s3cretpassw0rd@host/", "//ann:s3cretpassw0rd@host"):
        with pytest.raises(MissingError, match="MONGODB_URI is not a MongoDB address") as raised:
            mirror.sync(world.settings(uri))
        assert "s3cret" not in raised.value.message + raised.value.hint
    assert asked == []


# --- Documents ---


def test_documents_and_records_turn_into_each_other_without_loss(world: World) -> None:
    record = trained(world.settings(None)).read()
    record["history"] = [{"epoch": 1, "val_top.5": 0.5, "$odd": 1.0, "100%": 2, "a%2Eb": None}]
    record["data"] = {"train.csv": {"size": 1, "sha256": "x"}, "images/0.png": {"size": 2, "sha256": "y"}, "n": 3}
    record["steps"][0]["parameters"] = {"nested": {"a.b": [1, 2.0, "x", None, True]}, "day": "2026-12-01"}
    record["submission"] = {"ref": 1, "file": "s", "sha256": "", "message": "2026-12-01T10:00:00.000Z", "sent": "today"}
    document = convert.to_document(record)
    assert isinstance(document["submission"]["message"], str)
    back = convert.to_record(document)
    del back["seen"]
    assert back == record
    assert digest(back) == document["digest"] == digest({**record, "id": "another-name"})
    record["steps"][0]["parameters"] = {"huge": 1 << 80, "half a pair": "\ud800"}
    assert cut.size(convert.to_document(record)) > 0


def test_a_document_over_16_mb_is_cut_with_a_note(
    world: World, server: MongoServer, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = database(server, "long")
    settings = world.settings(uri)
    run = trained(settings, "long")
    # Few but long epochs: the server is written in Python, and slow with many values.
    epochs = [{"epoch": n + 1, "loss": 0.1, "note": "x" * 6000} for n in range(3000)]
    long = {**run.read(), "history": epochs}
    (run.folder / "record.json").write_text(json.dumps(long))
    assert mirror.sync(settings).sent == ["long"]
    (document,) = documents(uri)
    assert document["epochs"] == 3000
    assert "of 3,000 epochs" in document["cut"]
    assert 100 < len(document["history"]) < 3000
    assert (document["history"][0]["epoch"], document["history"][-1]["epoch"]) == (1, 3000)
    assert len(run.read()["history"]) == 3000
    # The whole record and its cut copy are the same one, here and on a machine that has only the copy.
    assert mirror.sync(settings).equal == 1
    other = world.settings(uri, "other")
    assert mirror.sync(other).fetched == ["long"]
    assert mirror.sync(other).equal == 1
    assert cli.main(["runs", "show", "long"]) == 0
    assert "Too long for MongoDB" in capsys.readouterr().out


def test_whatever_makes_a_record_long_it_fits_in_the_end(world: World) -> None:
    record = trained(world.settings(None)).read()
    long_text = {**record, "submission": {"message": "x" * 500_000}}
    document = cut.fitting(long_text, 40_000)
    assert "signs of each text" in document["cut"]
    assert cut.size(document) <= 40_000
    many = {
        **record,
        "data": {f"{n}.png": {"size": n, "sha256": "0" * 64} for n in range(20_000)},
        "lb": {"public": 0.5},
    }
    document = cut.fitting(many, 40_000)
    assert document["cut"].endswith("kept: name, times and scores.")
    assert (document["id"], document["lb"]["public"]) == (record["id"], 0.5)
    assert cut.size(document) <= 40_000
    assert convert.to_record(document)["status"] == "done"


def test_an_older_document_that_came_first_by_a_hair_is_replaced(
    world: World, server: MongoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = database(server, "hair")
    settings = world.settings(uri)
    run = trained(settings)
    older = run.read()
    run.update(metric="newer")
    with MongoClient[dict[str, Any]](uri) as client:
        runs = client.get_default_database().runs
        look = writing.older
        asked = []

        def and_meanwhile(document: Any) -> Any:
            # The filter that found nothing is the one the insert then fails by.
            asked.append(document)
            if len(asked) > 1:
                return look(document)
            runs.insert_one(convert.to_document(older))
            return {**look(document), "revision": -1}

        monkeypatch.setattr(writing, "older", and_meanwhile)
        assert writing.put(runs, run.read())
    assert documents(uri)[0]["metric"] == "newer"
