"""Stores: whole files at any address, bounded waits, and uploads that never hinder a training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from faulty_store import Faulty, Hanging, Remote
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.stores import NotStoredError, Uploader, masked, open_store, secrets_in
from project_tools import ROOT

for kind in (Faulty, Hanging, Remote):
    fsspec.register_implementation(kind.protocol, kind, clobber=True)

QUICK = {"first_pause_s": 0.02, "longest_pause_s": 0.1, "gap_s": 0.0}


@pytest.fixture(params=["folder", "relative", "file", "memory", "remote"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    fsspec.filesystem("memory").store.clear()
    return {
        "folder": str(tmp_path / "a store"),
        "relative": "in the project",
        "file": f"file://{tmp_path}/url",
        "memory": "memory://kwb/store",
        "remote": f"remote://{tmp_path}/remote",
    }[request.param]


def test_files_are_put_listed_fetched_and_deleted_at_every_kind_of_address(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the first file counts as a large one.
    monkeypatch.setattr("kaggle_workbench.stores.store.IN_MEMORY_BYTES", 1000)
    store = open_store(address, base=tmp_path)
    assert store.names() == store.names("nothing") == []
    with pytest.raises(NotStoredError):
        store.get("run/record.json")
    with pytest.raises(NotStoredError):
        store.fetch("run/record.json", tmp_path / "x")
    made = tmp_path / "made"
    made.write_bytes(b"first" * 1000)
    store.put("run/checkpoints/c1", made)
    store.put("run/record.json", b"one")
    store.put("run/record.json", b"two")
    assert store.get("run/record.json") == b"two"
    assert store.names() == ["run/checkpoints/c1", "run/record.json"]
    assert [(e.name, e.size) for e in store.entries("run/checkpoints")] == [("run/checkpoints/c1", 5000)]
    assert [e.name for e in store.entries("", depth=2)] == ["run/record.json"]
    assert all(e.modified is None or abs(e.modified.timestamp() - time.time()) < 3600 for e in store.entries())
    store.fetch("run/checkpoints/c1", tmp_path / "there" / "c1")
    assert (tmp_path / "there" / "c1").read_bytes() == made.read_bytes()
    store.delete("run/record.json")
    store.delete("run/record.json")
    assert store.names() == ["run/checkpoints/c1"]
    for name in ("../outside", "/etc/x", "a/../../b", ".hidden", "", "a\\b"):
        with pytest.raises(UsageError):
            store.put(name, b"")


def test_addresses_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="s3fs") as missing:
        open_store("s3://AKIA55:topsecret/slash@bucket/folder?token=querysecret")
    assert "pip install s3fs" in missing.value.hint
    assert "secret" not in str(missing.value)
    with pytest.raises(UsageError, match="nosuch"):
        open_store("nosuch://x/y")
    with pytest.raises(UsageError, match="no WSL"):
        open_store("D:\\store")
    (tmp_path / "a-file").write_text("")
    with pytest.raises(MissingError, match="a-file"):
        open_store(str(tmp_path / "a-file")).put("run/x", b"")
    # There no folder can be made, and the system calls it absent.
    with pytest.raises(MissingError, match="could not write run/x") as refused:
        open_store("/proc/nothing").put("run/x", b"")
    assert not isinstance(refused.value, NotStoredError)
    shown = masked("sftp://me:pa/ss@host/dir?key=verysecret")
    assert shown == "sftp://***@host/dir?***"
    assert {"pa/ss", "me:pa/ss", "verysecret"} - set(secrets_in("sftp://me:pa/ss@host/dir?key=verysecret")) == {"pa/ss"}
    assert masked("s3://bucket/a@b") == "s3://bucket/a@b"


def test_a_store_that_hangs_is_left_in_time_and_does_not_keep_python_from_ending(tmp_path: Path) -> None:
    program = f"""
import sys, time
sys.path[:0] = [{str(ROOT / "code")!r}, {str(ROOT / "tests")!r}]
import fsspec, faulty_store
fsspec.register_implementation("hanging", faulty_store.Hanging, clobber=True)
from pathlib import Path
from kaggle_workbench.stores import Uploader, open_store
from kaggle_workbench.errors import MissingError
store = open_store("hanging://x", limit_s=0.3)
began = time.monotonic()
try:
    store.get("run/x")
except MissingError as error:
    print(error.message)
uploader = Uploader(store, first_pause_s=0.01)
Path("f").write_text("x")
began = time.monotonic()
for number in range(300):
    uploader.put(f"run/{{number}}", Path("f"))
print("put", time.monotonic() - began < 0.5)
print("finished", uploader.finish(1.5), len(uploader.problems()) > 250)
print("threads", sum("store call" in t.name for t in __import__("threading").enumerate()) <= 4)
"""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "no answer within 0 s" in done.stdout
    assert "put True" in done.stdout
    assert "finished False True" in done.stdout
    assert "threads True" in done.stdout
    assert time.monotonic() - began < 30
    assert done.stderr.count("Warning:") == 1, done.stderr


@pytest.fixture
def faulty() -> Iterator[type[Faulty]]:
    Faulty.store.clear()
    Faulty.down = False
    yield Faulty
    Faulty.down = False


def test_every_other_write_fails_and_all_arrives_with_the_failures_counted(
    faulty: type[Faulty], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = open_store("faulty://store")
    uploader = Uploader(store, **QUICK)
    for number in range(10):
        (tmp_path / f"{number}").write_text(f"content {number}")
        uploader.put(f"run/{number}", tmp_path / f"{number}")
    assert uploader.finish(20)
    assert [store.get(f"run/{n}") for n in range(10)] == [f"content {n}".encode() for n in range(10)]
    assert uploader.problems() == []
    facts = uploader.facts()
    assert facts is not None
    assert 5 <= facts["problems"] <= 12
    assert "503" in facts["last"]
    assert "Warning" not in capsys.readouterr().err, "what the next attempt mends need not be said"


def test_trouble_is_said_once_when_it_begins_and_once_when_it_ends(
    faulty: type[Faulty], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty.down = True
    uploader = Uploader(open_store("faulty://store"), **QUICK)
    (tmp_path / "a").write_text("a")
    uploader.put("run/a", tmp_path / "a")
    assert not uploader.finish(0.5)
    assert uploader.problems()[0] == "run/a is not uploaded to faulty://store yet"
    faulty.down = False
    assert uploader.finish(10)
    said = capsys.readouterr().err
    assert said.count("503") == 1
    assert said.count("takes files again") == 1


class Slow:
    """A store in memory whose writes wait until they are let through; keeps their order."""

    def __init__(self) -> None:
        self.address, self.order, self.gate = "slow", [], threading.Event()
        self.files: dict[str, bytes] = {}

    def put(self, name: str, content: Path | bytes) -> None:
        content = content.read_bytes() if isinstance(content, Path) else content
        self.gate.wait(10)
        self.order.append(name)
        self.files[name] = content

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


def test_newest_wins_a_record_goes_after_what_it_names_and_pruning_follows(tmp_path: Path) -> None:
    store = Slow()
    uploader = Uploader(store, **QUICK)  # type: ignore[arg-type]
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    record = tmp_path / "record.json"
    for number in range(6):
        (folder / f"c{number}").write_text(str(number))
        uploader.put(f"run/checkpoints/c{number}", folder / f"c{number}")
        record.write_text(f"names c{number}")
        uploader.put("run/record.json", record)
        if number >= 2:
            (folder / f"c{number - 2}").unlink()
    assert len(uploader.waiting()) < 9
    store.gate.set()
    assert uploader.finish(10)
    assert store.files["run/record.json"] == b"names c5"
    assert {name for name in store.files if "checkpoints" in name} == {"run/checkpoints/c4", "run/checkpoints/c5"}
    assert store.order.count("run/record.json") <= 2
    assert store.order[-1] == "run/record.json"
    began = time.monotonic()
    for _ in range(10_000):
        uploader.put("run/record.json", record)
    assert time.monotonic() - began < 2
    uploader.close()


def test_a_run_of_many_files_goes_whole_and_one_too_many_keeps_no_record_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"file-{number}" for number in range(600)]
    for path in paths:
        path.write_text("x")
    store = Slow()
    uploader = Uploader(store, **QUICK)  # type: ignore[arg-type]
    for path in paths:
        uploader.put(f"run/{path.name}", path)
    store.gate.set()
    assert uploader.finish(20), uploader.problems()
    assert len(store.files) == 600
    uploader.close()

    monkeypatch.setattr("kaggle_workbench.stores.uploader.MOST_WAITING", 3)
    store = Slow()
    uploader = Uploader(store, **QUICK)  # type: ignore[arg-type]
    uploader.put("run/first", paths[0])
    while uploader._busy is None:
        time.sleep(0.001)
    for name, path in (("a", paths[1]), ("b", paths[2]), ("record.json", paths[3])):
        uploader.put(f"run/{name}", path)
    # The record is held until a and b are there; a is given up for the fourth of those that wait.
    with uploader._changed:
        assert uploader._hold(uploader._waiting["run/record.json"])
    for path in paths[4:6]:
        uploader.put(f"run/{path.name}", path)
    store.gate.set()
    assert not uploader.finish(5)
    assert set(store.files) == {"run/first", "run/b", "run/file-4", "run/file-5", "run/record.json"}
    assert "too many files" in " ".join(uploader.problems())
    uploader.close()


def test_a_writer_that_is_killed_leaves_the_old_file_whole(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    program = f"""
import os, sys
sys.path.insert(0, {str(ROOT / "code")!r})
from kaggle_workbench.stores import open_store
store = open_store({str(tmp_path / "store")!r})
number = 0
while True:
    store.put("run/file", bytes([number % 256]) * 20_000_000)
    number += 1
    print(number, flush=True)
"""
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.013)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        content = store.get("run/file")
        assert len(content) == 20_000_000
        assert len(set(content[::1000])) == 1
        assert store.names() == ["run/file"]
    left = [file for file in (tmp_path / "store" / "run").iterdir() if file.name != "file"]
    for file in left:
        os.utime(file, (0, 0))
    store.put("run/other", b"")
    assert sorted(file.name for file in (tmp_path / "store" / "run").iterdir()) == ["file", "other"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk and be another user")
def test_a_full_disk_and_another_user(tmp_path: Path) -> None:
    # Not below tmp_path, which pytest closes to other users.
    small = Path(tempfile.mkdtemp(prefix="small-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "tmpfs", str(small)], check=True)
    try:
        store = open_store(str(small))
        store.put("run/file", b"old" * 1000)
        with pytest.raises(MissingError, match="no space is left there"):
            store.put("run/file", b"n" * 3_000_000)
        assert store.get("run/file") == b"old" * 1000
        assert [file.name for file in (small / "run").iterdir()] == ["file"]
        big = tmp_path / "big"
        big.write_bytes(b"n" * 3_000_000)
        uploader = Uploader(store, **QUICK)
        uploader.put("run/big", big)
        assert not uploader.finish(1)
        assert "no space" in str(uploader.facts())
        uploader.close()
        end = time.monotonic() + 20
        while uploader._busy is not None:
            # An attempt under way fills the disk until it has failed.
            assert time.monotonic() < end
            time.sleep(0.01)
        # A store folder that others may write stays so further down.
        as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"]
        words = f"test -r {small}/run/file && echo x > {small}/run/x && rm -f {small}/run/file"
        subprocess.run([*as_nobody, words], check=True)
        assert store.names() == ["run/x"]
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
        small.rmdir()
