"""Downloading through the real `kaggle` client: cuts, kills, bad archives, full disks, two at once."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from arena_tools import tiny_competition
from fault_server import FaultServer
from kaggle_workbench.arena.launch import Arena, running
from kaggle_workbench.competition import DataFiles, Source, download, find_data
from kaggle_workbench.competition import manifest as manifests
from kaggle_workbench.competition.archive import BrokenArchiveError, UnsafeArchiveError, is_wrapped, unpack
from kaggle_workbench.competition.folders import candidates, data_folder
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError, WorkError
from kaggle_workbench.files import sha256
from kaggle_workbench.kaggle_api import Client, Pace, local_endpoint
from kaggle_workbench.kaggle_api import errors as kinds
from kaggle_workbench.settings import Settings, load_settings

CODE = Path(__file__).resolve().parent.parent / "code"
FAST = Pace(start_s=20, call_s=20, stall_s=20, rate_limit_s=5, backoff_s=0.01, cuts=0)
SLUG = "tiny-noise"
NOISE = os.urandom(3_000_000)
SMALL = {"train.csv", "test.csv", "sample_submission.csv"}


@dataclass
class World:
    """An arena behind a fault server, and one user's project."""

    arena: Arena
    server: FaultServer
    hosted: Path
    project: Path
    settings: Settings

    @contextmanager
    def source(self, kind: Any = "practice", **pace: Any) -> Iterator[Source]:
        endpoint = local_endpoint(self.server.url, self.arena.token.reveal(), self.project / "home")
        with Client(endpoint, label="the practice server", pace=replace(FAST, **pace)) as client:
            yield Source(kind, "the practice server", client, "test")

    def download(self, kind: Any = "practice", *, roots: Any = None, **pace: Any) -> DataFiles:
        with self.source(kind, **pace) as source:
            return download(self.settings, source, roots=roots)

    @property
    def folder(self) -> Path:
        return data_folder(self.settings, "practice")

    def whole(self) -> bool:
        """Whether every file is there as the server has it, and nothing of ours among them."""
        with zipfile.ZipFile(self.hosted / SLUG / "files.zip") as content:
            wanted = {name: hashlib.sha256(content.read(name)).hexdigest() for name in content.namelist()}
        return wanted == {p.relative_to(self.folder).as_posix(): sha256(p) for p in files(self.folder)}

    def left_over(self) -> set[str]:
        """What is in our hidden folder besides manifest and lock."""
        hidden = self.settings.input_dir / ".kwb"
        return {p.relative_to(hidden).as_posix() for p in files(hidden) if p.suffix not in (".json", ".lock")}


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Arena, Path]]:
    folder = tmp_path_factory.mktemp("download")
    tiny_competition(folder / "hosted", SLUG, kind="table", rows=50, extra={"more/noise.bin": NOISE})
    with running([folder / "hosted"], folder / "state") as served:
        yield served, folder / "hosted"


@pytest.fixture
def world(arena: tuple[Arena, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("INPUT_DIR", "OUTPUT_DIR", "SOURCE", "COMPETITION"):
        monkeypatch.delenv(name, raising=False)
    project = tmp_path / "my project"
    (project / ".project").mkdir(parents=True)
    (project / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    settings = load_settings({"COMPETITION": SLUG}, start=project)
    with FaultServer(arena[0].url) as server:
        yield World(arena[0], server, arena[1], project, settings)


def zipped(members: dict[str, bytes], *, change: Callable[[zipfile.ZipInfo], None] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as content:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            if change is not None:
                change(info)
            content.writestr(info, data)
    return out.getvalue()


def storage(body: bytes) -> dict[str, Any]:
    """An archive as storage delivers it."""
    modified = {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "Accept-Ranges": "bytes", "ETag": '"x"'}
    return {"status": 200, "body": body, "headers": {"Content-Type": "application/octet-stream", **modified}}


# --- The plain way ---


def test_whole_copy_is_made_once(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    first = world.download()
    assert first.fetched
    assert first.folder == world.settings.input_dir / "practice" / SLUG
    assert {file.name for file in first.files} == SMALL | {"more/noise.bin"}
    assert all(sha256(first.folder / file.name) == file.sha256 for file in first.files)
    assert world.whole()
    assert world.left_over() == set()
    said = capsys.readouterr()
    assert said.out == ""
    assert "Downloading tiny-noise from the practice server (4 files, 3.0 MB)" in said.err
    again = world.download()
    assert not again.fetched
    assert again.files == first.files
    assert world.server.count("DownloadDataFile") == 1
    assert capsys.readouterr().err == ""


def test_the_users_own_files_stay(world: World) -> None:
    own = world.folder / "notes" / "mine.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with zipfile.ZipFile(world.hosted / SLUG / "files.zip") as content:
        (world.folder / "train.csv").write_bytes(content.read("train.csv"))
    (world.folder / "test.csv").write_text("something else")
    os.utime(world.folder / "train.csv", (1, 1))
    world.download()
    assert own.read_text() == "mine"
    # The same content is left alone, down to its time; other content under a file's name is replaced.
    assert (world.folder / "train.csv").stat().st_mtime == 1
    assert (world.folder / "test.csv").read_text().startswith("PassengerId")
    assert not world.download().fetched


def test_large_single_files_in_a_zip_of_their_own_come_out(world: World) -> None:
    inner = zipped({"big.csv": b"a,b\n1,2\n"})
    pack = zipped({"pack/a.csv": b"1", "pack/b.csv": b"2"})
    body = zipped({"big.csv.zip": inner, "pack.zip": pack, "other.zip": zipped({"different.csv": b"3"})})
    listed = [{"name": name, "totalBytes": 8} for name in ("big.csv", "pack.zip", "other.zip")]
    world.server.on("ListDataFiles", 200, {"files": listed})
    world.server.on("/storage/", **storage(body))
    found = world.download()
    assert {file.name for file in found.files} == {"big.csv", "pack.zip", "other.zip"}
    assert (found.folder / "big.csv").read_bytes() == b"a,b\n1,2\n"
    assert (found.folder / "pack.zip").read_bytes() == pack


# --- A bad line ---


def test_ten_cuts(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    # Two answers for each go: the client asks for the whole first, and drops that when it can go on.
    world.server.on("/storage/", cut_after=250_000, times=20)
    assert world.download().fetched
    assert world.whole()
    assert "broken off at" in capsys.readouterr().err
    # Each time it went on where it stopped.
    ranges = [each.headers.get("Range", "") for each in world.server.seen if "/storage/" in each.path]
    assert sum(bool(each) for each in ranges) >= 10


def test_cut_for_good_ends_and_keeps_what_has_arrived(world: World) -> None:
    world.server.on("/storage/", cut_after=500_000, times=1)
    world.server.on("DownloadDataFiles", 503)
    world.server.on("DownloadDataFiles", times=1)
    with pytest.raises(kinds.ServerError, match="have arrived and are kept") as caught:
        world.download()
    assert caught.value.exit_code == 3
    assert files(world.folder) == []
    world.server.clear()
    assert world.download().fetched
    assert world.whole()
    assert any(each.headers.get("Range") for each in world.server.seen)


def test_server_without_progress_ends(world: World) -> None:
    world.server.on("/storage/", cut_after=0)
    with pytest.raises(kinds.UnreachableError):
        world.download()
    assert world.server.count("DownloadDataFiles") == FAST.tries
    assert files(world.folder) == []


def test_stalled_line_is_given_up_and_taken_up_again(world: World) -> None:
    world.server.on("/storage/", pause_after=1_000_000, delay_s=6, times=1)
    assert world.download(stall_s=1).fetched
    assert world.whole()


def test_500_and_429_while_downloading(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.refuse("DownloadDataFiles", 500, "Internal error", times=1)
    world.server.refuse("DownloadDataFiles", 429, "Too many requests", times=1, Retry_After="1")
    world.server.refuse("/storage/", 500, "Internal error", times=1)
    start = time.monotonic()
    assert world.download().fetched
    assert time.monotonic() - start > 0.9
    assert world.whole()
    assert "asks for a pause" in capsys.readouterr().err


def test_rules_not_accepted(world: World) -> None:
    world.server.refuse("DownloadDataFiles", 403, "You must accept this competition's rules before you'll be able to.")
    with pytest.raises(kinds.RulesError) as caught:
        world.download()
    assert caught.value.exit_code == 4
    assert world.server.count("DownloadDataFiles") == 1


# --- Kills, and two at once ---

SCRIPT = """
import pathlib, sys
from kaggle_workbench.competition import Source, download
from kaggle_workbench.kaggle_api import Client, Pace, local_endpoint
from kaggle_workbench.settings import load_settings
url, token, project, slug = sys.argv[1:5]
project = pathlib.Path(project)
settings = load_settings({"COMPETITION": slug}, start=project)
with Client(local_endpoint(url, token, project / "home"), label="the practice server", pace=Pace(cuts=0)) as client:
    print("ready", flush=True)
    try:
        found = download(settings, Source("practice", "the practice server", client, "test"))
        print("fetched" if found.fetched else "found")
    except Exception as error:
        print(type(error).__name__, getattr(error, "exit_code", ""), str(error).replace(chr(10), " "))
"""


def start(world: World, *more: str, before: tuple[str, ...] = (), script: str = SCRIPT) -> subprocess.Popen[str]:
    """`script` in a process of its own, behind the command `before`, with `more` arguments."""
    where = [world.server.url, world.arena.token.reveal(), str(world.project), SLUG]
    words = [sys.executable, "-c", script, *where, *more]
    return subprocess.Popen(
        [*before, *words],
        env={**os.environ, "PYTHONPATH": str(CODE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
def test_kill_in_the_middle_then_again(world: World) -> None:
    world.server.on("/storage/", pause_after=1_500_000, delay_s=20, times=1)
    process = start(world)
    archive = world.settings.input_dir / ".kwb" / "practice" / SLUG / "archive" / f"{SLUG}.zip"
    wait_for(lambda: archive.is_file() and archive.stat().st_size > 1_000_000)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert files(world.folder) == []
    size = archive.stat().st_size
    assert 1_000_000 < size < len(NOISE)
    assert world.download().fetched
    assert world.whole()
    assert world.left_over() == set()
    assert f"bytes={size}-" in [each.headers.get("Range") for each in world.server.seen]


def test_stopped_before_the_last_step_then_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(manifests, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            world.download()
    assert world.download().fetched
    assert world.whole()
    assert world.left_over() == set()


def test_stopped_among_the_moves_is_not_taken_for_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.download()
    (world.settings.input_dir / ".kwb" / "practice" / f"{SLUG}.json").unlink()
    (world.settings.input_dir / ".kwb" / "practice" / SLUG / "unpacked").mkdir(parents=True)
    with pytest.raises(MissingError):
        find_data(world.settings, "practice")
    assert world.download().fetched


def test_two_processes_at_once(world: World) -> None:
    world.server.on("/storage/", pause_after=1_000_000, delay_s=1.5, times=1)
    both = [start(world), start(world)]
    said = sorted(process.communicate(timeout=60)[0].split()[-1] for process in both)
    assert said == ["fetched", "found"]
    assert world.server.count("DownloadDataFiles") == 1
    assert world.whole()


# --- Bad archives ---


def test_truncated_archive_is_fetched_anew(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    body = (world.hosted / SLUG / "files.zip").read_bytes()
    world.server.on("/storage/", **storage(body[: len(body) // 2]), times=1)
    assert world.download().fetched
    assert world.whole()
    assert "no sound zip archive" in capsys.readouterr().err


def test_archive_with_a_flipped_byte_is_fetched_anew(world: World) -> None:
    body = bytearray((world.hosted / SLUG / "files.zip").read_bytes())
    body[len(body) // 2] ^= 1
    world.server.on("/storage/", **storage(bytes(body)), times=1)
    assert world.download().fetched
    assert world.whole()


@pytest.mark.parametrize("body", [b"", b"<html>Sign in</html>", b"PK\x03\x04 not really"])
def test_broken_twice_is_an_error_and_leaves_nothing(world: World, body: bytes) -> None:
    world.server.on("/storage/", **storage(body))
    with pytest.raises(WorkError, match="broken, twice in a row") as caught:
        world.download()
    assert caught.value.exit_code == 1
    assert files(world.folder) == []
    assert world.left_over() == set()
    world.server.clear()
    assert world.download().fetched


def test_archive_that_leads_out_changes_nothing(world: World) -> None:
    world.server.on("/storage/", **storage(zipped({"train.csv": b"1", "../../evil.txt": b"x"})))
    with pytest.raises(WorkError, match="leads out of the folder"):
        world.download()
    assert files(world.folder) == []
    assert list(world.project.rglob("evil.txt")) == []
    assert world.left_over() == set()


def link(info: zipfile.ZipInfo) -> None:
    info.external_attr = (stat.S_IFLNK | 0o777) << 16


def device(info: zipfile.ZipInfo) -> None:
    info.external_attr = (stat.S_IFCHR | 0o666) << 16


def encrypted(info: zipfile.ZipInfo) -> None:
    info.flag_bits |= 1


@pytest.mark.parametrize(
    ("members", "change", "fault"),
    [
        ({"a/../../b": b"x"}, None, "leads out"),
        ({"..\\b": b"x"}, None, "leads out"),
        ({"/etc/b": b"x"}, None, "absolute"),
        ({"C:\\b": b"x"}, None, "absolute"),
        ({"\\\\host\\b": b"x"}, None, "absolute"),
        ({"a\nb": b"x"}, None, "control characters"),
        ({"b": b"/etc/passwd"}, link, "a link or a device"),
        ({"b": b""}, device, "a link or a device"),
        ({"a": b"x", "a/b": b"x"}, None, "two files of the name"),
    ],
)
def test_unsafe_members(tmp_path: Path, members: dict[str, bytes], change: Any, fault: str) -> None:
    archive = tmp_path / "x.zip"
    archive.write_bytes(zipped({"good.csv": b"1", **members}, change=change))
    with pytest.raises(UnsafeArchiveError, match=fault):
        unpack(archive, tmp_path / "out" / "folder", limit_bytes=1000)
    assert {path.name for path in files(tmp_path)} <= {"x.zip", "good.csv", "a"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name(tmp_path: Path) -> None:
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("a.csv", b"1")
        content.writestr("./a.csv", b"2")
    with pytest.raises(UnsafeArchiveError, match="two files of the name"):
        unpack(archive, tmp_path / "out", limit_bytes=1000)


def test_encrypted_member(tmp_path: Path) -> None:
    archive = tmp_path / "x.zip"
    body = bytearray(zipped({"a": b"x"}))
    body[body.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(bytes(body))
    with pytest.raises(UnsafeArchiveError, match="encrypted"):
        unpack(archive, tmp_path / "out", limit_bytes=1000)


def test_bomb_is_refused_before_it_is_written(tmp_path: Path) -> None:
    archive = tmp_path / "x.zip"
    archive.write_bytes(zipped({"a": bytes(10_000_000)}))
    with pytest.raises(UnsafeArchiveError, match=r"would take 10\.0 MB"):
        unpack(archive, tmp_path / "out", limit_bytes=1_000_000)
    assert not (tmp_path / "out").exists()
    nested = tmp_path / "y.zip"
    nested.write_bytes(zipped({"big.csv.zip": zipped({"big.csv": bytes(10_000_000)})}))
    with pytest.raises(UnsafeArchiveError, match=r"would take 10\.0 MB"):
        unpack(nested, tmp_path / "out", limit_bytes=1_000_000)


def test_member_larger_than_it_says_is_damage(tmp_path: Path) -> None:
    body = zipped({"a": b"x" * 1000})
    archive = tmp_path / "x.zip"
    archive.write_bytes(body.replace((1000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(BrokenArchiveError):
        unpack(archive, tmp_path / "out", limit_bytes=1_000_000)
    assert sum(path.stat().st_size for path in files(tmp_path / "out")) <= 10


def test_names_are_cleaned_and_folders_made(tmp_path: Path) -> None:
    archive = tmp_path / "x.zip"
    archive.write_bytes(zipped({"./a//b.csv": b"1", "c\\d.csv": b"2", "empty/": b"", "é.csv": b""}))
    assert [file.name for file in unpack(archive, tmp_path / "out", limit_bytes=100)] == ["a/b.csv", "c/d.csv", "é.csv"]


def test_wrapped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.zip"
    path.write_bytes(zipped({"a.csv": b"1"}))
    assert is_wrapped(path, "folder/a.csv")
    assert not is_wrapped(path, "a.csv.zip")
    path.write_bytes(zipped({"a.csv": b"1", "b.csv": b"1"}))
    assert not is_wrapped(path, "a.csv")


# --- Damage, and updates ---


def test_damaged_and_missing_files_are_fetched_one_by_one(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.download()
    noise, train = world.folder / "more" / "noise.bin", world.folder / "train.csv"
    times = {path: path.stat().st_mtime_ns for path in files(world.folder)}
    damaged = bytearray(train.read_bytes())
    damaged[-3] ^= 1
    train.write_bytes(bytes(damaged))
    os.utime(train, ns=(times[train], times[train]))
    noise.unlink()
    assert world.download().fetched
    assert world.whole()
    said = capsys.readouterr().err
    assert "Missing or not as downloaded: more/noise.bin, train.csv; fetching them anew" in said
    assert world.server.count("DownloadDataFiles") == 1
    assert [each.path.rsplit("/", 1)[-1] for each in world.server.seen].count("DownloadDataFile") == 2
    kept = world.folder / "test.csv"
    assert kept.stat().st_mtime_ns == times[kept]
    assert not world.download().fetched


def test_single_file_that_kaggle_wraps(world: World) -> None:
    world.download()
    (world.folder / "train.csv").write_text("damaged")
    with zipfile.ZipFile(world.hosted / SLUG / "files.zip") as content:
        wrapped = storage(zipped({"train.csv": content.read("train.csv")}))
    world.server.on(
        "/v1/competitions.CompetitionApiService/DownloadDataFile",
        302,
        headers={"Location": "http://localhost/storage/x/train.csv.zip?s=1"},
    )
    world.server.on("/storage/x/train.csv.zip", **wrapped)
    assert world.download().fetched
    assert world.whole()
    assert world.server.count("DownloadDataFiles") == 1


def test_single_file_that_is_another_one_now_means_all_anew(world: World) -> None:
    world.download()
    (world.folder / "train.csv").write_text("damaged")
    world.server.on("/files/", **storage(b"neither nor"))
    assert world.download().fetched
    assert world.whole()
    assert world.server.count("DownloadDataFiles") == 2


def test_updated_competition_is_fetched_again(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.download()
    capsys.readouterr()
    new = {"train.csv": b"new,train\n1,2\n", "fresh.csv": b"1\n"}
    listed = [{"name": name, "totalBytes": len(data)} for name, data in new.items()]
    world.server.on("ListDataFiles", 200, {"files": listed})
    world.server.on("/storage/", **storage(zipped(new)))
    assert world.download().fetched
    assert (world.folder / "train.csv").read_bytes() == new["train.csv"]
    said = capsys.readouterr().err
    assert "was updated at the practice server since" in said
    assert "no longer part of the competition; left in place" in said
    assert (world.folder / "test.csv").is_file()
    assert not world.download().fetched


def test_listed_files_that_the_archive_lacks_are_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    listed = [{"name": "train.csv", "totalBytes": 1}, {"name": "lost.csv", "totalBytes": 1}]
    world.server.on("ListDataFiles", 200, {"files": listed})
    world.server.on("/storage/", **storage(zipped({"train.csv": b"1"})))
    assert world.download().fetched
    assert "lost.csv: listed, but not in the archive" in capsys.readouterr().err


def test_large_copy_is_hashed_only_when_size_or_time_changed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.download()
    monkeypatch.setattr(manifests, "HASH_BYTES", 1000)
    hashed: list[Path] = []

    def count(path: Path) -> str:
        hashed.append(path)
        return sha256(path)

    monkeypatch.setattr(manifests, "sha256", count)
    assert not world.download().fetched
    assert hashed == []
    os.utime(world.folder / "train.csv")
    assert not world.download().fetched
    assert {path.name for path in hashed} == {"train.csv"}


# --- Without a server ---


def test_whole_copy_is_used_without_a_server(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.download()
    capsys.readouterr()
    world.server.on("", 503)
    assert not world.download().fetched
    assert "Using the copy of 20" in (said := capsys.readouterr().err)
    assert "out of order" in said
    (world.folder / "train.csv").write_text("damaged")
    with pytest.raises(kinds.ServerError):
        world.download()


def test_without_a_copy_the_servers_error_is_the_answer(world: World) -> None:
    world.server.on("", 503)
    with pytest.raises(kinds.ServerError):
        world.download()


# --- Files that somebody else put there ---


@pytest.mark.parametrize("layout", ["competitions", ""])
def test_files_put_there_by_hand_count(world: World, tmp_path: Path, layout: str) -> None:
    place = tmp_path / "kaggle" / "input" / layout / SLUG
    with zipfile.ZipFile(world.hosted / SLUG / "files.zip") as content:
        content.extractall(place)
    place.chmod(0o555)
    found = world.download("kaggle", roots=[tmp_path / "nothing", tmp_path / "kaggle" / "input"])
    assert (found.folder, found.fetched) == (place, False)
    assert {file.name for file in found.files} == SMALL | {"more/noise.bin"}
    assert find_data(world.settings, "kaggle", roots=[tmp_path / "kaggle" / "input"]) == place
    # Not written to, not even a manifest.
    assert not (world.settings.input_dir / ".kwb").exists()
    place.chmod(0o755)
    (place / "test.csv").write_text("another size")
    assert world.download("kaggle", roots=[tmp_path / "kaggle" / "input"]).fetched


def test_files_put_there_by_hand_without_a_server(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.folder.mkdir(parents=True)
    (world.folder / "train.csv").write_text("1")
    world.server.on("", 503)
    assert not world.download().fetched
    assert "used as they are, unchecked" in capsys.readouterr().err


def test_practice_files_are_never_taken_for_kaggles(world: World) -> None:
    assert world.folder not in candidates(world.settings, "kaggle")
    world.download()
    with pytest.raises(MissingError):
        find_data(world.settings, "kaggle", roots=[world.settings.input_dir])
    assert find_data(world.settings, "practice") == world.folder
    assert find_data(world.settings, "practice", expected=["train.csv"]) == world.folder


def test_not_found_shows_what_is_there(world: World) -> None:
    other = world.settings.input_dir / "competitions" / "another-one"
    other.mkdir(parents=True)
    (other / "train.csv").write_text("1")
    with pytest.raises(MissingError) as caught:
        find_data(world.settings, "kaggle", expected=["train.csv"])
    assert caught.value.exit_code == 3
    for part in (SLUG, "train.csv", str(other.parent), "another-one/", "kwb run data"):
        assert part in str(caught.value)


# --- The disk ---


def test_room_is_checked_before_the_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(world.project)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2_000_000))
    with pytest.raises(MissingError, match="Not enough room") as caught:
        world.download()
    assert "3.0 MB" in str(caught.value)
    assert world.server.count("DownloadDataFiles") == 0
    # Enough for the content, not for the archive besides: noticed when its size is known.
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4_000_000))
    world.server.on("/storage/", pause_after=1_000_000, delay_s=5, times=1)
    with pytest.raises(MissingError, match=r"with its archive needs 5\.\d MB"):
        world.download()
    assert files(world.folder) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert world.download().fetched


FULL_DISK = """
import os, subprocess, sys
os.makedirs(sys.argv[3] + "/data/input")
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", sys.argv[3] + "/data/input"], check=True)
ballast = sys.argv[3] + "/data/input/ballast"
if sys.argv[5] == "unforeseen":
    import importlib
    # The package's `download` is the function.
    importlib.import_module("kaggle_workbench.competition.download").require_space = lambda *_, **__: None
open(ballast, "wb").write(bytes(6_500_000))
exec(compile(DOWNLOAD, "download", "exec"))
print(os.path.getsize(f"{sys.argv[3]}/data/input/.kwb/practice/{slug}/archive/{slug}.zip"))
os.remove(ballast)
exec(compile(DOWNLOAD, "download", "exec"))
"""


def can_mount() -> bool:
    try:
        return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not can_mount() and os.environ.get("CI") != "true", reason="mounting a small disk is not allowed")
@pytest.mark.parametrize("case", ["foreseen", "unforeseen"])
def test_full_disk(world: World, case: str) -> None:
    # The list tells sizes that would fit, so that the trouble comes in the middle.
    listed = [{"name": name, "totalBytes": 1} for name in (*SMALL, "more/noise.bin")]
    world.server.on("ListDataFiles", 200, {"files": listed})
    world.server.on("/storage/", pause_after=1_000_000, delay_s=0.6)
    script = FULL_DISK.replace("DOWNLOAD", repr(SCRIPT))
    process = start(world, case, before=("unshare", "-rm"), script=script)
    out, err = process.communicate(timeout=90)
    lines = [line for line in out.splitlines() if line != "ready"]
    assert lines[0].split()[1] == "3", out + err
    assert ("Not enough room" if case == "foreseen" else "The disk is full") in lines[0]
    assert int(lines[1]) > 500_000
    assert lines[2] == "fetched", out + err
    assert any(each.headers.get("Range") for each in world.server.seen)


def test_folder_on_another_disk(world: World) -> None:
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == world.project.stat().st_dev:
        pytest.skip("no second disk here")
    elsewhere = shm / f"kwb-test-{os.getpid()}"
    elsewhere.mkdir()
    try:
        world.folder.parent.mkdir(parents=True)
        world.folder.symlink_to(elsewhere)
        assert world.download().fetched
        assert world.whole()
        assert len(files(elsewhere)) == 4
    finally:
        shutil.rmtree(elsewhere)


def test_input_dir_that_is_a_file(world: World) -> None:
    world.settings.input_dir.parent.mkdir()
    world.settings.input_dir.write_text("not a folder")
    with pytest.raises(UsageError, match="INPUT_DIR"):
        world.download()


def test_no_message_holds_the_token(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.server.on("/storage/", cut_after=100_000, times=2)
    world.download()
    world.server.refuse("", 500, f"token {world.arena.token.reveal()}")
    shutil.rmtree(world.folder)
    with pytest.raises(WorkbenchError) as caught:
        world.download()
    out, err = capfd.readouterr()
    assert world.arena.token.reveal() not in out + err + str(caught.value)
