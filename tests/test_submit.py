"""Submitting through the real client: refused before anything is sent, sent once, read back.

An arena behind a counting server stands for Kaggle, so that what was sent can be counted.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from arena_tools import Tiny, tiny_competition
from fault_server import FaultServer
from kaggle_workbench import cli
from kaggle_workbench.arena.launch import Arena, running
from kaggle_workbench.competition import connect
from kaggle_workbench.competition import submit as submit_function
from kaggle_workbench.competition.connect import Source
from kaggle_workbench.competition.ledger import Ledger, content_sha256, mark
from kaggle_workbench.competition.result import Result
from kaggle_workbench.competition.scores import wait_for_score
from kaggle_workbench.competition.submit import submit
from kaggle_workbench.errors import MissingError, RefusedError, UsageError, WorkError
from kaggle_workbench.kaggle_api import Client, Pace, kaggle_endpoint
from kaggle_workbench.records import Run
from kaggle_workbench.settings import Settings, load_settings

CODE = Path(__file__).resolve().parent.parent / "code"
FAST = Pace(start_s=20, call_s=20, stall_s=20, rate_limit_s=3, backoff_s=0.01, cuts=1)
SLUG = "tiny-digits"
SPENDING = ("StartSubmissionUpload", "/storage/uploads", "CreateSubmission")


@dataclass
class World:
    """The arena that stands for Kaggle, the server before it that counts, and a project."""

    arena: Arena
    server: FaultServer
    tiny: dict[str, Tiny]
    project: Path
    client: Client

    def settings(self, slug: str = SLUG, **overrides: Any) -> Settings:
        return load_settings({"COMPETITION": slug, **overrides}, start=self.project)

    @property
    def source(self) -> Source:
        return Source("kaggle", "Kaggle", self.client, "the test")

    def submit(self, file: Path, message: str = "test", *, slug: str = SLUG, **options: Any) -> Result:
        return submit(self.settings(slug), self.source, file, message, **options)

    def sent(self) -> int:
        return self.server.count("CreateSubmission")

    def nothing_was_sent(self) -> bool:
        return not any(self.server.count(route) for route in SPENDING)

    def good(self, folder: Path, *, wrong: int = 1, slug: str = SLUG) -> Path:
        return self.tiny[slug].submission(folder / "submission.csv", wrong=wrong)

    def known(self, file: Path, slug: str = SLUG) -> int:
        """How many submissions of this file the arena has."""
        tag = mark(content_sha256(file))
        return sum(tag in row.description for row in self.client.submissions(slug))


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("submit")
    hosted = folder / "hosted"
    special: dict[str, dict[str, Any]] = {
        SLUG: {"max_daily_submissions": 90},
        "one-a-day": {"max_daily_submissions": 1},
        "notebooks-only": {"notebooks_only": True},
        "closed": {"submissions_disabled": True},
        "rules-first": {"rules": {"text": "Be fair.", "acceptance_required": True}},
    }
    tiny = {
        slug: tiny_competition(hosted, slug, rows=20, test_rows=40, side=8, **settings)
        for slug, settings in special.items()
    }
    project = folder / "project"
    (project / ".project").mkdir(parents=True)
    (project / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("KAGGLE_") or name.lower().endswith("_proxy") or name in ("VERBOSE", "SOURCE"):
                patch.delenv(name)
        patch.setenv("HOME", str(folder / "home"))
        with running([hosted], folder / "state") as arena, FaultServer(arena.url) as server:
            patch.setenv("KAGGLE_API_ENVIRONMENT", "LOCALHOST")
            patch.setenv("http_proxy", server.url)
            patch.setenv("KAGGLE_API_TOKEN", arena.token.reveal())
            with Client(kaggle_endpoint(load_settings(start=project)), pace=FAST) as client:
                yield World(arena, server, tiny, project, client)


@pytest.fixture
def world(shared_world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    shared_world.server.clear()
    monkeypatch.chdir(shared_world.project)
    monkeypatch.setenv("COMPETITION", SLUG)
    monkeypatch.setattr(cli, "GROUPS", ("submit",))
    yield shared_world
    shared_world.server.clear()
    shutil.rmtree(shared_world.project / "data" / "output", ignore_errors=True)


# --- Bad files: refused with every fault, nothing sent ---


def _edit(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "column missing": (lambda t: "\n".join(line.split(",")[0] for line in t.splitlines()), ("'Label' is missing",)),
    "column extra": (lambda t: t.replace("\n", ",1\n"), ("'1' is not in the sample",)),
    "column order": (lambda t: "\n".join(",".join(x.split(",")[::-1]) for x in t.splitlines()), ("another order",)),
    "column case": (lambda t: _edit(t, "ImageId", "imageID"), ("upper and lower case count",)),
    "index column": (lambda t: _edit("," + t.replace("\n", "\n0,"), ",ImageId", ",ImageId"), ("index=False",)),
    "ids missing": (lambda t: t.rsplit("\n", 3)[0] + "\n", ("38 rows where the sample has 40", "2 ids of the sample")),
    "ids unknown": (lambda t: t + "99,1\n", ("41 rows", "line 42: '99'")),
    "ids doubled": (lambda t: t + "1,1\n", ("line 42: '1', first in line 2",)),
    "ids as decimals": (lambda t: _edit(t, "\n7,", "\n7.0,"), ("line 8: '7.0' instead of '7'",)),
    "text": (lambda t: _edit(t, "\n7,", "\n7,x"), ("not a number", "line 8 (ImageId 7)")),
    "labels as decimals": (
        lambda t: "\n".join(f"{x}.0" if i else x for i, x in enumerate(t.split())),
        ("astype(int)",),
    ),
    "probabilities": (lambda t: _edit(t, "\n7,", "\n7,0."), ("a fraction where a label is wanted",)),
    "unknown class": (lambda t: _edit(t, "\n7,", "\n7,1"), ("none of the known classes",)),
    "empty cells": (lambda t: t.replace("\n7,6", "\n7,").replace("\n8,7", "\n8,NaN"), ("left empty", "missing (NaN)")),
    "infinite": (lambda t: _edit(t, "\n7,6", "\n7,inf"), ("infinite, in 1 row",)),
    "semicolons": (lambda t: t.replace(",", ";"), ("separated by semicolons",)),
    "uneven rows": (lambda t: _edit(t, "\n7,", "\n7,7,"), ("line 8: 3 cells",)),
    "open quote": (lambda t: _edit(t, "\n7,", '\n7,"'), ("Line 8: a quote opens here",)),
    "empty file": (lambda _: "", ("an empty file",)),
    "utf-16": (lambda t: t.encode("utf-16"), ("UTF-16, not UTF-8",)),
    "not utf-8": (lambda t: _edit(t, "\n7,", "\n7,\xe9").encode("latin-1"), ("not UTF-8, in 1 line",)),
    "parquet": (lambda _: b"PAR1\x15\x04", ("Parquet",)),
    "packed, misnamed": (lambda t: gzip.compress(t.encode()), ("packed by gzip", "Rename it to end in .gz")),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_and_nothing_is_sent(
    world: World, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, words = BAD[name]
    file = world.good(tmp_path, wrong=0)
    content = make(file.read_text())
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert cli.main(["submit", str(file), "-m", "x"]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    for word in (*words, "not ready to submit", "Nothing was sent."):
        assert word in err
    assert world.nothing_was_sent()
    assert not Ledger(world.settings(), "kaggle").path.exists()
    # The check alone says the same, and asks no one.
    world.server.clear()
    assert cli.main(["check", str(file)]) == 4
    assert all(word in capsys.readouterr().out for word in words[:1])
    assert world.server.seen == []


def test_all_faults_are_told_at_once(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "submission.csv"
    file.write_text("imageid;Label\n1;7.0\n2;\n2;x\n99;12\n")
    assert cli.main(["submit", str(file), "-m", "x"]) == 4
    told = capsys.readouterr().err
    for word in ("semicolons", "'imageid'", "4 rows", "'99'", "first in line 3", "7.0", "left empty", "'x'", "'12'"):
        assert word in told, word
    assert world.nothing_was_sent()
    assert cli.main(["check", str(file), "--format", "json"]) == 4
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert len(report["faults"]) == 10


def test_faults_are_told_even_without_network(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world.submit(world.good(tmp_path), dry_run=True)
    world.server.on("/", 503)
    with pytest.raises(RefusedError, match="not ready to submit"):
        world.submit(_bad(tmp_path))
    with pytest.raises(MissingError, match="out of order"):
        world.submit(world.good(tmp_path))
    assert world.nothing_was_sent()


def test_wrong_use(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["submit", str(tmp_path / "no.csv"), "-m", "x"]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert cli.main(["submit", str(world.good(tmp_path)), "-m", " "]) == 2
    assert "needs a message" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        cli.main(["submit", str(world.good(tmp_path))])
    assert end.value.code == 2
    assert cli.main(["check", str(world.good(tmp_path)), "--competition", "Not A Slug"]) == 2
    assert world.nothing_was_sent()


# --- Good files: sent once ---


def test_sent_scored_and_ranked(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = world.good(tmp_path, wrong=2)
    before = world.client.limits(SLUG).used_today
    assert cli.main(["submit", str(file), "-m", "two wrong", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["status"] == "complete"
    assert (result["public"], result["private"]) == (0.8, 1.0)
    assert result["already"] is False
    assert 1 <= result["rank"] <= result["entries"]
    assert result["left_today"] == 90 - before - 1
    assert "submissions left today; this one leaves" in err
    assert world.sent() == 1
    ledger = Ledger(world.settings(), "kaggle").path.read_text()
    assert not any(world.arena.token.reveal() in text for text in (out, err, ledger))
    made = world.client.submission(result["ref"])
    assert made.description == f"two wrong {mark(content_sha256(file))}"
    entry = Ledger(world.settings(), "kaggle").find(content_sha256(file))
    assert entry is not None
    assert (entry.state, entry.ref, entry.public) == ("complete", made.ref, 0.8)


def test_the_same_predictions_are_sent_once(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = world.good(tmp_path, wrong=3)
    first = world.submit(file)
    again = world.submit(file, "another message")
    assert (again.already, again.ref, again.public) == (True, first.ref, first.public)
    assert "nothing is sent again" in capsys.readouterr().err
    assert "submitted before" in str(again)
    packed = tmp_path / "other-name.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert world.submit(packed).ref == first.ref
    assert world.submit(file, dry_run=True).already
    assert cli.main(["submit", str(file), "-m", "x"]) == 0
    assert world.sent() == 1


def test_another_machine_finds_it_in_the_list(world: World, tmp_path: Path) -> None:
    file = world.good(tmp_path, wrong=4)
    first = world.submit(file)
    Ledger(world.settings(), "kaggle").path.unlink()
    again = world.submit(file)
    assert (again.already, again.ref) == (True, first.ref)
    # And this machine remembers what a list does not show (any more).
    world.server.on("ListSubmissions", 200, {"submissions": []})
    last = world.submit(file)
    assert (last.already, last.ref, last.public) == (True, first.ref, first.public)
    assert world.sent() == 1


def test_a_dry_run_sends_nothing(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = world.good(tmp_path, wrong=5)
    assert cli.main(["submit", str(file), "-m", "soon", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "nothing was sent" in said
    assert "'soon'" in said
    assert "40 rows" in said
    assert world.nothing_was_sent()
    assert Ledger(world.settings(), "kaggle").find(content_sha256(file)) is None
    with pytest.raises(RefusedError):
        world.submit(_bad(tmp_path), dry_run=True)


def test_the_run_is_told(world: World, tmp_path: Path) -> None:
    run = Run.create(tmp_path, stage="submit", competition=SLUG, source="kaggle")
    result = world.submit(world.good(tmp_path, wrong=6), run=run)
    record = run.read()
    assert record["submission"]["ref"] == result.ref
    assert record["submission"]["file"] == "submission.csv"
    assert record["submission"]["sha256"] == result.sha256
    assert record["lb"]["public"] == result.public
    assert record["lb"]["rank"] == result.rank
    assert f"(run {run.id})" in world.client.submission(result.ref or 0).description


# --- Killed, broken off, at the same time ---


def _start(world: World, file: Path) -> subprocess.Popen[str]:
    program = "import sys; from kaggle_workbench import cli;"
    program += (
        f"cli.GROUPS = ('submit',); sys.exit(cli.main(['submit', {str(file)!r}, '-m', 'race', '--format', 'json']))"
    )
    env = {**os.environ, "PYTHONPATH": str(CODE)}
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=world.project, env=env, text=True, stdout=-1, stderr=-1
    )


def _kill_while_sending(world: World, file: Path) -> None:
    child = _start(world, file)
    _until(lambda: world.sent() == 1)
    child.kill()
    child.communicate()
    entry = Ledger(world.settings(), "kaggle").find(content_sha256(file))
    assert entry is not None
    assert entry.state == "sending"


def test_killed_while_sending_and_it_arrives_late(world: World, tmp_path: Path) -> None:
    file = world.good(tmp_path, wrong=7)
    world.submit(file, dry_run=True)
    # The server takes it a moment after the killed process is gone.
    world.server.on("CreateSubmission", 200, {}, delay_s=1.5, forward=True)
    _kill_while_sending(world, file)
    assert world.known(file) == 0
    with Client(world.client.endpoint, pace=Pace()) as client:
        result = submit(world.settings(), Source("kaggle", "Kaggle", client, ""), file, "race")
    assert result.already
    assert world.sent() == 1
    assert world.known(file) == 1


def test_killed_while_sending_and_it_never_arrives(world: World, tmp_path: Path) -> None:
    file = world.good(tmp_path, wrong=8)
    world.submit(file, dry_run=True)
    world.server.on("CreateSubmission", 500, {}, delay_s=1.0, times=1)
    _kill_while_sending(world, file)
    result = world.submit(file)
    assert not result.already
    assert result.status == "complete"
    assert world.known(file) == 1


def test_an_answer_that_gets_lost(world: World, tmp_path: Path) -> None:
    file = world.good(tmp_path, wrong=9)
    world.server.on("CreateSubmission", 502, {}, forward=True, times=1)
    assert world.submit(file).status == "complete"
    assert world.known(file) == 1
    assert world.sent() == 1


def test_a_refusal_is_not_remembered_as_sent(world: World, tmp_path: Path) -> None:
    file = world.good(tmp_path, wrong=10)
    reason = "Submission not allowed:  Your team has used its daily Submission allowance (5) today."
    world.server.refuse("CreateSubmission", 400, reason, times=1)
    with pytest.raises(RefusedError, match="used up"):
        world.submit(file)
    assert Ledger(world.settings(), "kaggle").find(content_sha256(file)) is None
    assert world.submit(file).already is False


def test_two_at_the_same_time(world: World, tmp_path: Path) -> None:
    file = world.good(tmp_path, wrong=11)
    world.submit(file, dry_run=True)
    world.server.on("StartSubmissionUpload", delay_s=0.3)
    children = [_start(world, file) for _ in range(2)]
    results = []
    for child in children:
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
        results.append(json.loads(out))
    assert sorted(result["already"] for result in results) == [False, True]
    assert results[0]["ref"] == results[1]["ref"]
    assert world.sent() == 1


def test_a_broken_ledger_is_put_aside(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = world.good(tmp_path, wrong=12)
    first = world.submit(file)
    path = Ledger(world.settings(), "kaggle").path
    path.write_text("{")
    assert world.submit(file).ref == first.ref
    assert path.with_suffix(".broken").read_text() == "{"
    assert "could not be read" in capsys.readouterr().err
    assert world.sent() == 1


def test_a_file_that_changes_meanwhile(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.good(tmp_path, wrong=13)
    module = sys.modules["kaggle_workbench.competition.submit"]
    check = module.check_file  # type: ignore[attr-defined]

    def slow(*args: Any, **options: Any) -> Any:
        report = check(*args, **options)
        file.write_text(file.read_text() + "x")
        return report

    monkeypatch.setattr(module, "check_file", slow)
    with pytest.raises(RefusedError, match="changed while it was checked"):
        world.submit(file)
    assert world.nothing_was_sent()


# --- Refused by the competition, before the upload ---


@pytest.mark.parametrize(
    ("slug", "words"),
    [
        ("notebooks-only", "takes notebooks, not files"),
        ("closed", "takes no submissions"),
        ("rules-first", "/competitions/rules-first/rules"),
    ],
)
def test_the_competition_refuses(world: World, tmp_path: Path, slug: str, words: str) -> None:
    for dry_run in (True, False):
        with pytest.raises(RefusedError) as refused:
            world.submit(world.good(tmp_path, slug=slug), slug=slug, dry_run=dry_run)
        assert words in str(refused.value)
    assert world.nothing_was_sent()


def test_the_daily_limit(world: World, tmp_path: Path) -> None:
    first = world.good(tmp_path, slug="one-a-day")
    assert world.submit(first, slug="one-a-day").left_today == 0
    world.server.clear()
    other = world.good(tmp_path, wrong=2, slug="one-a-day")
    with pytest.raises(RefusedError, match=r"left for today \(1 a day\).*\n.*midnight UTC"):
        world.submit(other, slug="one-a-day")
    assert world.nothing_was_sent()
    # What was sent before can still be looked up.
    assert world.submit(world.good(tmp_path, slug="one-a-day"), slug="one-a-day").already


def test_an_unknown_competition(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no competition 'tiny-digit'"):
        world.submit(world.good(tmp_path), slug="tiny-digit")
    assert world.nothing_was_sent()


# --- Scoring ---


def test_scoring_fails(world: World, tmp_path: Path) -> None:
    file = world.good(tmp_path, wrong=14)
    answer = {"ref": 1, "status": "ERROR", "errorDescription": "Submission must have 418 rows"}
    world.server.on("GetSubmission", 200, answer)
    with pytest.raises(WorkError, match=r"could not score submission 1 .*: Submission must have 418 rows"):
        world.submit(file)
    assert world.sent() == 1


def test_time_up_is_no_failure(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = world.good(tmp_path, wrong=15)
    ref = world.submit(world.good(tmp_path, wrong=16)).ref
    world.server.on("GetSubmission", 200, {"ref": ref, "status": "PENDING"})
    file = world.good(tmp_path, wrong=15)
    result = world.submit(file, timeout_s=0.2)
    assert result.status == "pending"
    assert result.public is None
    assert "Run the same command later" in str(result)
    assert "Waiting for the score" in capsys.readouterr().err
    world.server.clear()
    later = world.submit(file)
    assert (later.status, later.already) == ("complete", True)
    assert world.sent() == 0


def test_waiting_outlives_failures(world: World, tmp_path: Path) -> None:
    made = world.client.submit(SLUG, world.good(tmp_path, wrong=17), "to be waited for")
    world.server.on("GetSubmission", 503, {}, times=5)
    pending = replace(made, status="pending", public_score=None)
    assert wait_for_score(world.client, pending, timeout_s=20).public_score == made.public_score
    assert world.server.count("GetSubmission") > 5


def test_the_rank_is_taken_from_the_leaderboard_when_the_server_does_not_state_it(world: World, tmp_path: Path) -> None:
    file = world.good(tmp_path, wrong=0)
    first = world.submit(file)
    about = {"title": "T", "userHasEntered": True, "maxDailySubmissions": 90}
    world.server.on("GetCompetition", 200, about)
    again = world.submit(file)
    assert again.rank == first.rank == 1
    assert again.entries == first.entries


# --- Practice ---


def test_practice_from_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "practice project"
    (project / ".project").mkdir(parents=True)
    (project / ".project" / "spec.yaml").write_text("")
    shutil.copytree(world.tiny[SLUG].folder, project / "data" / "practice" / SLUG)
    monkeypatch.chdir(project)
    monkeypatch.setenv("SOURCE", "practice")
    file = world.good(tmp_path)
    assert cli.main(["check", str(file)]) == 0
    assert "is good to submit: 40 rows" in capsys.readouterr().out
    assert cli.main(["submit", str(file), "-m", "first"]) == 0
    said = capsys.readouterr().out
    assert "public score    0.90000" in said
    assert "rank            1 of 2" in said
    # A practice server that was reset knows nothing of it: it is sent again.
    shutil.rmtree(project / "data" / "output" / "arena")
    settings = load_settings({"COMPETITION": SLUG})
    with connect(settings) as source:
        assert submit_function(settings, source, file, "second").already is False
        assert submit_function(settings, source, file, "third").already is True
    assert world.server.seen == []


def _bad(folder: Path) -> Path:
    file = folder / "bad.csv"
    file.write_text("ImageId,Label\n1,x\n")
    return file


def _until(condition: Any, timeout_s: float = 30) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)
