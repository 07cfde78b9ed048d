"""Checkpoints as files: whole or absent, proven whole, the newest few and the best, one training at a time."""

from __future__ import annotations

import collections
import datetime
import functools
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaggle_workbench.checkpoints import (
    BackgroundWriter,
    Checkpoint,
    CheckpointFolder,
    DamagedError,
    TrainingLock,
    checkpoint,
    digests,
    read,
    release,
    write,
)
from kaggle_workbench.checkpoints.differences import compare
from kaggle_workbench.checkpoints.values import NotPlainError, pack, unpack
from kaggle_workbench.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent


def made(epoch: int = 3, step: int = 0, size: int = 1000, **head: Any) -> Checkpoint:
    arrays: dict[str, Any] = {
        "model/0000": np.arange(size, dtype=np.float32).reshape(-1, 10),
        "model/0001": np.array(7, dtype=np.uint32),
        "optimizer/0000": np.zeros((0, 3)),
        "big": np.arange(5, dtype=">i8"),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "text": np.array(["a", "long"]),
        "flags": np.array([True, False]),
    }
    return Checkpoint(epoch, step, False, {"history": [0.1, 1e-300], "run": "r", **head}, arrays)


def child(script: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "code")}
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


# --- One file ---


def test_what_is_written_is_read_and_is_no_pickle(tmp_path: Path) -> None:
    path, before = tmp_path / "deep" / "x.ckpt", made(4, 12, best={"value": 0.1})
    digest = write(path, before)
    after = read(path)
    assert (after.epoch, after.step, after.finished, after.head) == (4, 12, False, before.head)
    assert after.arrays.keys() == before.arrays.keys()
    for name, array in before.arrays.items():
        assert after.arrays[name].shape == array.shape
        assert after.arrays[name].dtype == array.dtype.newbyteorder("<")
        assert (after.arrays[name] == array).all()
    from kaggle_workbench.files import sha256

    assert digest == sha256(path)
    assert [file.name for file in path.parent.iterdir()] == ["x.ckpt"]
    with pytest.raises(ValueError, match="object"):
        write(path, Checkpoint(1, arrays={"bad": np.array([print], dtype=object)}))


def test_any_change_and_any_cut_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    write(path, made(size=100))
    whole = path.read_bytes()
    choice = random.Random(1)
    for place in [0, 9, 13, len(whole) - 1, *(choice.randrange(len(whole)) for _ in range(40))]:
        changed = bytearray(whole)
        changed[place] ^= 1 << choice.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(DamagedError):
            read(path)
    for length in (0, 1, 30, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError):
            read(path)
    for other in (b"PK\x03\x04" + bytes(500), whole + b"x"):
        path.write_bytes(other)
        with pytest.raises(DamagedError):
            read(path)


def test_a_newer_layout_is_refused_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "epoch-0001.ckpt"
    monkeypatch.setattr(checkpoint, "VERSION", 2)
    write(path, made(1))
    monkeypatch.setattr(checkpoint, "VERSION", 1)
    with pytest.raises(UsageError, match="newer version of the workbench"):
        CheckpointFolder(tmp_path).newest()


# --- A folder of them ---


def test_the_newest_few_and_the_best_are_kept(tmp_path: Path) -> None:
    sent: list[str] = []
    folder = CheckpointFolder(tmp_path / "c", keep=3, upload=lambda path, name: sent.append(name))
    assert (folder.newest(), folder.best(), folder.names()) == (None, None, [])
    best = {"value": 0.1, "epoch": 2, "file": "epoch-0002.ckpt"}
    for epoch in range(1, 8):
        folder.write(made(epoch, best=best if epoch > 1 else None))
    folder.write(made(7, 120, best=best))
    assert folder.names() == ["epoch-0007-step-000120.ckpt", "epoch-0007.ckpt", "epoch-0006.ckpt", "epoch-0002.ckpt"]
    newest, kept = folder.newest(), folder.best()
    assert newest is not None
    assert newest.place == (7, 120)
    assert kept is not None
    assert kept.epoch == 2
    assert sent[-1] == "epoch-0007-step-000120.ckpt"
    folder.remove_after((7, 0))
    assert folder.names()[0] == "epoch-0007.ckpt"
    second = CheckpointFolder(tmp_path / "c", series=2)
    assert second.names() == []
    second.write(made(1))
    assert (second.names(), len(folder.names())) == (["fit-2-epoch-0001.ckpt"], 3)


def test_a_damaged_newest_gives_way_to_the_one_before_and_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = CheckpointFolder(tmp_path)
    for epoch in (1, 2, 3):
        folder.write(made(epoch))
    newest = tmp_path / "epoch-0003.ckpt"
    newest.write_bytes(newest.read_bytes()[:-100])
    found = folder.newest()
    assert found is not None
    assert found.epoch == 2
    assert "epoch-0003.ckpt is damaged" in capsys.readouterr().err
    (tmp_path / "epoch-0002.ckpt").write_bytes(b"something else" * 100)
    (tmp_path / "epoch-0001.ckpt").write_bytes(b"")
    assert folder.newest() is None
    assert "cut off" in capsys.readouterr().err


KILLED = """
import sys, numpy as np
from pathlib import Path
from kaggle_workbench.checkpoints import Checkpoint, CheckpointFolder
folder = CheckpointFolder(Path(sys.argv[1]))
arrays = {"a": np.zeros(2_000_000, np.float32)}
for epoch in range(1, 10_000):
    folder.write(Checkpoint(epoch, arrays=arrays))
    print(epoch, flush=True)
"""


def test_a_killed_writer_leaves_whole_files_and_its_rest_is_cleaned(tmp_path: Path) -> None:
    rests = 0
    for turn in range(6):
        process = child(KILLED, str(tmp_path))
        assert process.stdout is not None
        last = int(process.stdout.readline())
        time.sleep(0.011 * turn)
        process.kill()
        last = max([last, *(int(line) for line in process.stdout.read().split())])
        process.wait()
        folder = CheckpointFolder(tmp_path)
        rests += len([path for path in tmp_path.iterdir() if path.name.startswith(".")])
        found = folder.newest()
        assert found is not None
        assert found.epoch in (last, last + 1)
        folder.clean()
        assert all(not path.name.startswith(".") for path in tmp_path.iterdir())
        folder.remove_after((0, 0))
    assert rests, "one of the kills met a file being written"


def test_two_processes_write_side_by_side_without_harm(tmp_path: Path) -> None:
    script = KILLED.replace("10_000", "15")
    processes = [child(script, str(tmp_path)) for _ in range(2)]
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    folder = CheckpointFolder(tmp_path)
    found = folder.newest()
    assert found is not None
    assert found.epoch == 14
    assert len(folder.names()) == 3


FULL = """
import subprocess, sys, numpy as np
from pathlib import Path
from kaggle_workbench.checkpoints import Checkpoint, CheckpointFolder
from kaggle_workbench.errors import MissingError
place = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], check=True)
folder = CheckpointFolder(place)
folder.write(Checkpoint(1, arrays={"a": np.zeros(400_000, np.float32)}))
try:
    folder.write(Checkpoint(2, arrays={"a": np.zeros(400_000, np.float32)}))
except MissingError as error:
    print(error.message)
print(sorted(path.name for path in place.iterdir()), folder.newest().epoch)
"""


def can_mount() -> bool:
    try:
        return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not can_mount() and os.environ.get("CI") != "true", reason="mounting a small disk is not allowed")
def test_a_full_disk_leaves_the_checkpoint_before_as_it_is(tmp_path: Path) -> None:
    command = ["unshare", "-rm", sys.executable, "-c", FULL, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "code")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("The disk is full: ")
    assert lines[1:] == ["['epoch-0001.ckpt'] 1"]


def test_one_training_of_a_run_at_a_time(tmp_path: Path) -> None:
    hold = "import sys, time; from pathlib import Path; from kaggle_workbench.checkpoints import TrainingLock\n"
    hold += "TrainingLock(Path(sys.argv[1])).acquire(); print('held', flush=True); time.sleep(60)"
    process = child(hold, str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(UsageError, match=rf"{tmp_path.name} is being trained .* \(process {process.pid}, since 20"):
        TrainingLock(tmp_path).acquire()
    process.kill()
    process.wait()
    lock = TrainingLock(tmp_path)
    lock.acquire()
    # A training that broke off in a notebook is followed by another one in the same process.
    again = TrainingLock(tmp_path)
    again.acquire()
    release(tmp_path)
    other = child(hold, str(tmp_path))
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    other.kill()
    other.wait()


def test_work_in_the_background_is_done_one_at_a_time_and_its_error_comes_out_once() -> None:
    writer, order = BackgroundWriter(), []
    gate = threading.Event()
    writer.submit(lambda: (gate.wait(5), order.append(1)))
    assert writer.busy
    threading.Timer(0.05, gate.set).start()
    writer.submit(lambda: order.append(2))
    writer.wait()
    assert order == [1, 2]
    writer.submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        writer.wait()
    writer.wait()


# --- Values, data and code ---


def test_plain_values_come_back_as_they_were() -> None:
    generator, python = np.random.default_rng(3), random.Random(4)
    value = {
        "numbers": [1, 2.5, float("inf"), -float("inf"), 1 + 2j, True, None],
        (1, "key"): (np.float32(0.1), np.arange(6).reshape(2, 3)),
        "sets": [{3, 1}, frozenset("ab")],
        "queue": collections.deque([1, 2], maxlen=5),
        "counts": collections.Counter("aab"),
        "when": [datetime.datetime(2026, 12, 1, 4, 5), datetime.date(2026, 1, 2), datetime.timedelta(1, 2, 3)],
        "raw": b"\x00\xff",
        "where": Path("a/b"),
        "state": np.random.get_state(legacy=False),
        5: "$",
    }
    arrays: dict[str, Any] = {}
    content = json.loads(json.dumps(pack(value, arrays, "x")))
    back = unpack(content, arrays)
    assert repr(back) == repr(value)
    both = unpack(json.loads(json.dumps(pack([generator, python], arrays, "y"))), arrays)
    assert (both[0].random(), both[1].random()) == (generator.random(), python.random())
    kept = arrays[next(iter(arrays))].copy()
    value[1, "key"][1][:] = 9
    assert (arrays[next(iter(arrays))] == kept).all(), "a copy: what changes later does not change it"
    itself: list[Any] = []
    itself.append(itself)
    for odd in (threading.Lock(), object(), itself, np.array([object()])):
        with pytest.raises(NotPlainError):
            pack(odd, arrays, "z")


def shifted(amount: int, *, twice: bool = False) -> Any:
    def inner(batch: Any, rng: Any) -> Any:
        """Words."""
        # A comment.
        return np.roll(batch, amount) * (2 if twice else 1)

    return inner


def test_code_is_told_by_what_it_does() -> None:
    def same(batch: Any, rng: Any) -> Any:
        return np.roll(batch, amount) * (2 if twice else 1)

    amount, twice = 1, False
    assert digests.of_code(shifted(1)) == digests.of_code(shifted(1))
    assert digests.of_code(same) != digests.of_code(lambda batch, rng: batch)
    one, other = digests.of_code(shifted(1)), digests.of_code(shifted(2))
    assert one is not None
    assert other is not None
    assert one["code"] == other["code"]
    assert one["values"] != other["values"]
    plain: dict[str, Any] = {}
    words = 'def f(x):\n    "%s"\n    # %s\n    return x + %s\n'
    told = []
    for fill in (("a", "b", 1), ("other words", "c\n\n", 1), ("a", "b", 2)):
        exec(compile(words % fill, f"<cell {fill}>", "exec"), plain)
        told.append(digests.of_code(plain["f"]))
    assert told[0] == told[1] != told[2]
    assert digests.of_code(functools.partial(max, 1)) != digests.of_code(functools.partial(max, 2))
    assert digests.of_code(None) is None


def test_data_are_told_by_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(1).random((1000, 40))
    whole = digests.of_data(data)
    changed = data.copy()
    changed[123, 4] += 1
    assert digests.of_data(data.copy()) == whole != digests.of_data(changed)
    assert digests.of_data(data.astype("f4"))["kind"] == "float32"
    assert digests.of_data(data[::2])["shape"] == [500, 40]
    assert digests.of_data((data, None)) == [whole, None]
    monkeypatch.setattr(digests, "_WHOLE_BYTES", 1000)
    assert digests.of_data(data) == digests.of_data(data.copy()) != digests.of_data(changed)


def test_differences_are_named_for_people() -> None:
    def told(**changes: Any) -> dict[str, Any]:
        python = changes.pop("python", "3.11")
        plain = {
            "layers": [
                {"class": "Conv2D", "config": {"filters": 32, "dtype": {"config": {"name": "float32"}}}, "code": None},
                {"class": "Dropout", "config": {"rate": changes.pop("rate", 0.5)}, "code": None},
            ],
            "optimizer": {"class_name": "Adam", "learning_rate": {"config": {"decay_steps": 10}}},
            "inputs": {"kind": "float32", "shape": [4, 2], "sha256": "a"},
            "batch_size": 64,
            "augment": {"code": "c", "values": "v", "python": python},
            "backend": "tensorflow",
            "versions": {"keras": "3.8", "python": python},
        }
        return {**plain, **changes}

    assert compare(told(), told()).differences == ()
    schedule = {"class_name": "Adam", "learning_rate": {"config": {"decay_steps": 20}}}
    found = compare(told(), told(rate=0.25, optimizer=schedule, batch_size=32, backend="jax", augment=None))
    assert found.differences == (
        "layer 2 (Dropout): rate 0.5 -> 0.25",
        "the optimizer: learning_rate.decay_steps 10 -> 20",
        "the batch size: 64 -> 32",
        "augment: none now",
        "the backend: tensorflow -> jax",
    )
    assert found.sentence().endswith("64 -> 32; and 2 more")
    other = {"kind": "float32", "shape": [4, 2], "sha256": "b"}
    assert compare(told(), told(inputs=other)).differences == ("the training data: other values",)
    assert compare(told(), told(inputs={**other, "shape": [5, 2]})).sentence().endswith("shape (4, 2) -> (5, 2)")
    before, now = {**told(), "seed": 0}, {**told(inputs=other), "seed": 1}
    assert compare(before, now).differences == ("the seed: 0 -> 1", "the training data: other values")
    code = {"code": "d", "values": "v", "python": "3.11"}
    assert compare(told(), told(augment=code)).differences == ("augment: its code has changed",)
    order = told(order={"code": "x", "values": "", "python": ""}), told(order={"code": "y", "values": "", "python": ""})
    assert compare(*order).differences == ("batches.py, which orders the rows: its code has changed",)
    versions = told(versions={"kaggle-workbench": "0.1.0"}), told(versions={"kaggle-workbench": "0.2.0"})
    assert compare(*versions).differences == ("kaggle-workbench 0.1.0 -> 0.2.0",)
    # Another Python writes other bytecode; another Keras describes the same layer with other words.
    moved = told(python="3.13", augment={**code, "python": "3.13"}, versions={"keras": "3.15", "python": "3.13"})
    moved["layers"][0]["config"]["quantization_config"] = None
    result = compare(told(), moved)
    assert result.differences == ()
    assert result.notes[:2] == ("keras 3.8 -> 3.15", "python 3.11 -> 3.13")
    assert "augment: its code was not compared" in result.notes[2]
