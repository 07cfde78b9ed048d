"""Starting, ending, restarting and sharing arenas; what lasts; `kwb arena serve`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena_tools import (
    Hosted,
    hosted_arena,
    path_of,
    raw,
    rpc,
    submit,
    tiny_competition,
)
from kaggle_workbench.arena.launch import Arena, running
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted_arena(tmp_path_factory.mktemp("arena")) as hosted:
        yield hosted


def test_restart_and_two_arenas_at_once_keep_scores_and_limits(hosted: Hosted, tmp_path: Path) -> None:
    folders, state = [hosted.folder / "hosted"], hosted.folder / "state"
    content = hosted.tiny["tiny-race"].submission(tmp_path / "s.csv").read_bytes()
    with running(folders, state) as other:
        assert other.token.reveal() == hosted.arena.token.reveal()
        answers: list[int] = []

        def enter(arena: Arena) -> None:
            answers.append(submit(arena, "tiny-race", content)[0])

        threads = [threading.Thread(target=enter, args=(arena,)) for arena in (hosted.arena, other) * 5]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [200] * 5 + [400] * 5
        address = rpc(hosted.arena, "DownloadDataFiles", competitionName="tiny-race")[1]["location"]
        assert raw(other, "GET", path_of(address))[0] == 200
    with running(folders, state) as again:
        rows = rpc(again, "ListSubmissions", competitionName="tiny-race")[1]["submissions"]
        assert [row["publicScore"] for row in rows] == ["1.00000"] * 5
        limits = rpc(again, "GetSubmissionLimits", competitionName="tiny-race")[1]
        assert limits == {"numToday": 5, "numTotal": 5}


def test_first_starts_at_the_same_moment_agree_on_one_token(tmp_path: Path) -> None:
    found: list[str] = []

    def start() -> None:
        with running([], tmp_path / "state") as arena:
            found.append(arena.token.reveal())

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["arena.sqlite", "signing-key", "token"]


def test_what_a_killed_arena_left_pending_is_scored_later(hosted: Hosted, tmp_path: Path) -> None:
    content = hosted.tiny["tiny-table"].submission(tmp_path / "s.csv").read_bytes()
    ref = submit(hosted.arena, "tiny-table", content)[1]["ref"]
    with sqlite3.connect(hosted.folder / "state" / "arena.sqlite") as db:
        db.execute(
            "UPDATE submissions SET status = 'PENDING', public = NULL, claimed = claimed - 100 WHERE ref = ?", (ref,)
        )
    db.close()
    assert rpc(hosted.arena, "GetSubmission", ref=ref)[1]["publicScore"] == "1.00000"


def test_another_solution_begins_another_leaderboard(tmp_path: Path) -> None:
    tiny = tiny_competition(tmp_path / "a", "tiny-table", kind="table")
    other = tiny_competition(tmp_path / "b", "tiny-table", kind="table", test_rows=60)
    content = tiny.submission(tmp_path / "s.csv").read_bytes()
    with running([tmp_path / "a"], tmp_path / "state") as arena:
        submit(arena, "tiny-table", content)
        assert len(rpc(arena, "ListSubmissions", competitionName="tiny-table")[1]["submissions"]) == 1
    with running([tmp_path / "a", other.folder], tmp_path / "state") as arena:
        assert rpc(arena, "ListSubmissions", competitionName="tiny-table")[1] == {}


def test_arena_ends_with_its_starter_even_when_that_is_killed(tmp_path: Path) -> None:
    script = f"""
import sys, time
from pathlib import Path
from kaggle_workbench.arena.launch import running
with running([], Path({str(tmp_path / "state")!r})) as arena:
    print(arena.url, flush=True)
    time.sleep(60)
"""
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    url = starter.stdout.readline().strip()
    arena = Arena(url, None, "you", ())  # type: ignore[arg-type]
    assert raw(arena, "GET", "/")[0] == 200
    starter.kill()
    starter.wait()
    starter.stdout.close()
    for _ in range(50):
        try:
            raw(arena, "GET", "/")
        except OSError:
            return
        time.sleep(0.1)
    pytest.fail("the arena outlived its starter")


def test_start_fails_with_a_reason_and_in_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkbenchError, match="file"), running([], tmp_path / "file"):
        pass
    state = tmp_path / "state"
    state.mkdir()
    (state / "arena.sqlite").write_text("no database " * 100)
    with pytest.raises(MissingError, match="memory"), running([], state):
        pass
    with pytest.raises(MissingError, match="within"), running([], tmp_path / "other", timeout_s=0.001):
        pass


def test_start_is_quick_and_light() -> None:
    code = (
        "import sys, kaggle_workbench.arena.launch;"
        "early = {'flask', 'numpy', 'waitress'} & set(sys.modules);"
        "import kaggle_workbench.arena.app, kaggle_workbench.arena.store;"
        "print(sorted(early | ({'numpy', 'pandas', 'sklearn', 'kaggle', 'tensorflow'} & set(sys.modules))))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_faulty_competitions_are_left_out_and_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "hosted"
    tiny_competition(folder, "sound-one", kind="table")
    tiny_competition(folder, "no-metric", kind="table", metric="guesswork")
    tiny_competition(folder, "bad-deadline", kind="table", deadline="tomorrow")
    tiny_competition(folder, "no-title", kind="table", title=5)
    tiny_competition(folder, "climbing", kind="table", extra={"../up.csv": b"x"})
    linked = tiny_competition(folder, "linked", kind="table").folder
    shutil.move(linked / "files.zip", tmp_path / "elsewhere.zip")
    (linked / "files.zip").symlink_to(tmp_path / "elsewhere.zip")
    lost = tiny_competition(folder, "lost", kind="table").folder
    (lost / "solution.csv.gz").unlink()
    broken = tiny_competition(folder, "broken", kind="table").folder
    (broken / "files.zip").write_bytes(b"no zip")
    (folder / "Not A Slug").mkdir()
    shutil.copy(lost / "competition.json", folder / "Not A Slug")
    with running([folder], tmp_path / "state") as arena:
        assert arena.slugs == ("sound-one",)
    said = capfd.readouterr().err
    for words in (
        "guesswork",
        "tomorrow",
        "'title' is 5",
        "'../up.csv'",
        "leads out",
        "solution.csv.gz is missing",
        "zip",
    ):
        assert words in said


def test_kwb_arena_serve_tells_how_to_point_clients_and_keeps_the_token(tmp_path: Path) -> None:
    tiny = tiny_competition(tmp_path / "hosted", "tiny-table", kind="table")
    state = tmp_path / "state"
    command = [sys.executable, "-m", "kaggle_workbench", "arena", "serve", "--port", "0", "--state", str(state)]
    served = subprocess.Popen([*command, "--folder", str(tiny.folder)], stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert served.stderr is not None
    lines = []
    while "Ctrl+C" not in "".join(lines):
        lines.append(served.stderr.readline())
        assert lines[-1], lines
    said = "".join(lines)
    url = re.search(r"http_proxy=(\S+)", said)
    assert url
    token = (state / "token").read_text().strip()
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    assert token not in said
    # The printed lines, pasted into a shell, are all it takes.
    pasted = [line.strip() for line in lines if line.startswith("    ")]
    shell = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "no_proxy": "localhost",
    }
    result = subprocess.run(["sh", "-ec", "\n".join(pasted)], env=shell, cwd=ROOT, capture_output=True, text=True)
    assert "tiny-table" in result.stdout, result.stderr
    port = url[1].rpartition(":")[2]
    taken = subprocess.run([*command[:6], port, *command[7:]], capture_output=True, text=True, cwd=ROOT)
    assert taken.returncode == 3
    assert f"Port {port}" in taken.stderr
    served.send_signal(signal.SIGINT)
    _, rest = served.communicate(timeout=20)
    assert served.returncode == 0
    assert token not in rest


def test_serve_refuses_wrong_options(tmp_path: Path) -> None:
    from kaggle_workbench.arena import launch, server

    with pytest.raises(UsageError, match="no folder"):
        launch.hosted_folders([tmp_path / "none"])
    with pytest.raises(UsageError, match="not an address"):
        server.bind([], tmp_path, host="no.such.host.invalid", participants=tmp_path)
    (tmp_path / "names.txt").write_text("anna\nanna\n")
    with pytest.raises(UsageError, match="anna"):
        server.bind([], tmp_path / "s", participants=tmp_path / "names.txt")
    with pytest.raises(UsageError, match="cannot be read"):
        server.bind([], tmp_path / "s", participants=tmp_path / "nobody.txt")
