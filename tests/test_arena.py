"""The arena against the real clients: Kaggle's own command line and kagglehub."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from arena_tools import (
    NOISE,
    Cutter,
    Hosted,
    client_env,
    hosted_arena,
    kaggle,
    path_of,
    raw,
    rpc,
    submit,
)
from kaggle_workbench.arena.launch import running

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted_arena(tmp_path_factory.mktemp("arena")) as hosted:
        yield hosted


def test_list_shows_hosted_competitions_and_search_finds_one(hosted: Hosted) -> None:
    assert "tiny-digits" in hosted.kaggle("list").stdout
    found = hosted.kaggle("list", "-s", "tiny-table").stdout
    assert "tiny-table" in found
    assert "tiny-digits" not in found
    assert hosted.kaggle("list", "-s", "nothing-of-that-name").stdout.strip() == "No competitions found"
    assert "tiny-gone" not in hosted.kaggle("list").stdout


def test_files_come_in_pages(hosted: Hosted) -> None:
    first = hosted.kaggle("files", "tiny-digits", "--page-size", "3", "--csv")
    token = re.search(r"Next Page Token = (\S+)", first.stdout)
    assert token, first.stdout
    second = hosted.kaggle("files", "tiny-digits", "--page-size", "3", "--page-token", token[1], "--csv")
    assert "more/noise.bin,5000000" in first.stdout
    assert "train.csv" in second.stdout
    assert "train.csv" not in first.stdout
    assert "Next Page" not in second.stdout


def test_download_all_then_again_is_skipped(hosted: Hosted, tmp_path: Path) -> None:
    assert hosted.kaggle("download", "tiny-digits", "-p", str(tmp_path), "-q").returncode == 0
    got = tmp_path / "tiny-digits.zip"
    assert got.read_bytes() == (hosted.tiny["tiny-digits"].folder / "files.zip").read_bytes()
    assert "Skipping" in hosted.kaggle("download", "tiny-digits", "-p", str(tmp_path)).stdout


def test_single_files_keep_their_folder_and_large_ones_come_wrapped(hosted: Hosted, tmp_path: Path) -> None:
    for name in ("sample_submission.csv", "more/noise.bin", "train.csv"):
        assert hosted.kaggle("download", "tiny-digits", "-f", name, "-p", str(tmp_path), "-q").returncode == 0
    assert (tmp_path / "sample_submission.csv").read_text().startswith("ImageId,Label\n1,0\n")
    with zipfile.ZipFile(tmp_path / "more" / "noise.bin.zip") as wrapped:
        assert wrapped.read("noise.bin") == NOISE
    with zipfile.ZipFile(tmp_path / "train.csv.zip") as wrapped:
        assert wrapped.read("train.csv").startswith(b"label,pixel0,")


def test_cut_downloads_are_resumed_with_ranges(hosted: Hosted, tmp_path: Path) -> None:
    with Cutter(hosted.arena.url, [1_500_000, 2_500_000]) as cutter:
        env = client_env(hosted.arena, hosted.folder / "home", proxy=cutter.url)
        result = kaggle(env, "competitions", "download", "tiny-digits", "-p", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert cutter.cut == 2
    assert "Resuming from 1048576 bytes" in result.stdout
    whole = (hosted.tiny["tiny-digits"].folder / "files.zip").read_bytes()
    assert (tmp_path / "tiny-digits.zip").read_bytes() == whole
    assert not (tmp_path / "tiny-digits.zip.kaggle-partial").exists()


def test_kagglehub_downloads_resumes_and_keeps_its_cache(hosted: Hosted, tmp_path: Path) -> None:
    script = tmp_path / "hub.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys, kagglehub, requests
            for attempt in range(3):
                try:
                    print("PATH", kagglehub.competition_download(sys.argv[1]))
                except requests.exceptions.RequestException as error:
                    print("CUT", type(error).__name__)
            # kagglehub 1.0.3 takes an unpacked file that is larger than the wrapped one for a partial download.
            os.environ["KAGGLEHUB_CACHE"] += "-2"
            print("FILE", kagglehub.competition_download(sys.argv[1], "train.csv"))
            """
        )
    )
    home = tmp_path / "home"
    with Cutter(hosted.arena.url, [2_500_000]) as cutter:
        env = client_env(hosted.arena, home, proxy=cutter.url) | {"KAGGLEHUB_CACHE": str(home / "cache")}
        command = [sys.executable, str(script), "tiny-digits"]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    words = [line.split()[0] for line in result.stdout.splitlines() if line.startswith(("CUT", "PATH", "FILE"))]
    assert words == ["CUT", "PATH", "PATH", "FILE"]
    folder = home / "cache" / "competitions" / "tiny-digits"
    assert (folder / "more" / "noise.bin").read_bytes() == NOISE
    single = home / "cache-2" / "competitions" / "tiny-digits" / "train.csv"
    assert single.read_bytes() == (folder / "train.csv").read_bytes()
    assert (folder / "train.csv").read_bytes().startswith(b"label,")


def test_storage_speaks_ranges_etags_and_hashes(hosted: Hosted) -> None:
    status, headers = rpc(hosted.arena, "DownloadDataFiles", competitionName="tiny-digits")
    assert status == 302
    target = path_of(headers["location"])
    assert urlsplit(target).path.endswith("/tiny-digits.zip")
    whole = (hosted.tiny["tiny-digits"].folder / "files.zip").read_bytes()
    status, data, facts = raw(hosted.arena, "GET", target)
    assert (status, data) == (200, whole)
    assert facts["content-length"] == str(len(whole))
    assert facts["accept-ranges"] == "bytes"
    assert facts["last-modified"] == "Thu, 01 Jan 2026 00:00:00 GMT"
    assert facts["x-goog-hash"].startswith("md5=")
    assert len(base64.b64decode(facts["x-goog-hash"][4:])) == 16
    tag = facts["etag"]
    status, data, facts = raw(hosted.arena, "GET", target, Range="bytes=1000-", If_Range=tag)
    assert (status, data, facts["content-range"]) == (206, whole[1000:], f"bytes 1000-{len(whole) - 1}/{len(whole)}")
    assert raw(hosted.arena, "GET", target, Range="bytes=10-19")[:2] == (206, whole[10:20])
    assert raw(hosted.arena, "GET", target, Range="bytes=-7")[:2] == (206, whole[-7:])
    assert raw(hosted.arena, "GET", target, Range="bytes=1000-", If_Range='"other"')[:2] == (200, whole)
    status, _, facts = raw(hosted.arena, "GET", target, Range=f"bytes={len(whole)}-")
    assert (status, facts["content-range"]) == (416, f"bytes */{len(whole)}")
    assert raw(hosted.arena, "HEAD", target)[1] == b""


def test_submit_wait_list_limits_leaderboard(hosted: Hosted, tmp_path: Path) -> None:
    tiny = hosted.tiny["tiny-digits"]
    good = tiny.submission(tmp_path / "my file.csv", wrong=5)
    result = hosted.kaggle("submit", tiny.slug, "-f", str(good), "-m", "first", "--wait")
    assert result.returncode == 0, result.stderr
    assert "Submission scored. Public score: 0.80000" in result.stdout
    assert "19 submissions remaining today." in result.stdout
    ref = re.search(r"Submission ref: (\d+)", result.stdout)
    assert ref
    rows = hosted.kaggle("submissions", tiny.slug, "--csv").stdout.splitlines()
    assert "my file.csv" in rows[1]
    assert "first" in rows[1]
    assert rows[1].endswith("0.80000,1.00000")
    assert "Remaining today: 19" in hosted.kaggle("submission-limits", tiny.slug).stdout
    board = hosted.kaggle("leaderboard", tiny.slug, "--show", "--csv").stdout.splitlines()
    assert [line.split(",")[1] for line in board[1:]] == ["you", "All one class (reference)"]
    assert hosted.kaggle("leaderboard", tiny.slug, "--download", "-p", str(tmp_path)).returncode == 0
    with zipfile.ZipFile(tmp_path / "tiny-digits.zip") as table:
        text = table.read(table.namelist()[0]).decode("utf-8-sig").splitlines()
    assert text[0].startswith("Rank,TeamId,TeamName")
    assert text[1].startswith("1,1,you,")
    assert hosted.kaggle("submission-download", ref[1], "-p", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back" / "my%20file.csv").read_bytes() == good.read_bytes()
    assert "first" in hosted.kaggle("submission", ref[1]).stdout


def test_private_score_stays_hidden_where_the_competition_says_so(hosted: Hosted, tmp_path: Path) -> None:
    content = hosted.tiny["tiny-hidden"].submission(tmp_path / "s.csv").read_bytes()
    ref = submit(hosted.arena, "tiny-hidden", content)[1]["ref"]
    answer = rpc(hosted.arena, "GetSubmission", ref=ref)[1]
    assert answer["publicScore"] == "1.00000"
    assert "privateScore" not in answer


def test_bad_submission_is_an_error_with_a_reason_and_costs_nothing(hosted: Hosted, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("PassengerId,Survived\n1,0\n201,x\n201,\n")
    before = rpc(hosted.arena, "GetSubmissionLimits", competitionName="tiny-table")[1]
    result = hosted.kaggle("submit", "tiny-table", "-f", str(bad), "-m", "bad", "--wait")
    assert result.returncode == 1
    assert "failed to score" in result.stderr
    for words in ("There are 3 rows; the solution has 100", "1 PassengerIds stand more than once: 201", "99 Passenger"):
        assert words in result.stderr
    assert rpc(hosted.arena, "GetSubmissionLimits", competitionName="tiny-table")[1] == before
    assert "ERROR" in hosted.kaggle("submissions", "tiny-table").stdout


def test_empty_file_is_told(hosted: Hosted, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    result = hosted.kaggle("submit", "tiny-table", "-f", str(tmp_path / "empty.csv"), "-m", "empty", "--wait")
    assert result.returncode == 1
    assert "The file is empty." in result.stderr


def test_gzip_and_zip_are_scored_and_bombs_are_not(hosted: Hosted, tmp_path: Path) -> None:
    content = hosted.tiny["tiny-table"].submission(tmp_path / "s.csv").read_bytes()
    packed = tmp_path / "s.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("s.csv", content)
    for body in (gzip.compress(content), packed.read_bytes()):
        ref = submit(hosted.arena, "tiny-table", body)[1]["ref"]
        assert rpc(hosted.arena, "GetSubmission", ref=ref)[1]["publicScore"] == "1.00000"
    for body in (gzip.compress(bytes(60_000_000)), gzip.compress(content)[:-9], b"PK\x03\x04 no zip"):
        ref = submit(hosted.arena, "tiny-table", body)[1]["ref"]
        answer = rpc(hosted.arena, "GetSubmission", ref=ref)[1]
        assert answer["status"] == "ERROR"
        assert re.search("over the limit|cannot be unpacked", answer["errorDescription"])


def test_daily_limit_says_when_to_try_again(hosted: Hosted, tmp_path: Path) -> None:
    tiny = hosted.tiny["tiny-limit"]
    good = tiny.submission(tmp_path / "s.csv")
    for _ in range(2):
        assert hosted.kaggle("submit", tiny.slug, "-f", str(good), "-m", "x", "-q").returncode == 0
    refused = hosted.kaggle("submit", tiny.slug, "-f", str(good), "-m", "x")
    assert refused.returncode == 1
    status, answer = submit(hosted.arena, tiny.slug, good.read_bytes())
    assert status == 400
    assert answer["error"]["status"] == "FAILED_PRECONDITION"
    assert re.fullmatch(
        r"Submission not allowed:  Your team has used its daily Submission allowance \(2\) today, "
        r"please try again tomorrow UTC \(\d+ hours from now\)\.",
        answer["error"]["message"],
    )


@pytest.mark.parametrize(
    ("slug", "sentence"),
    [
        ("tiny-closed", "Submission not allowed:  Submissions have been disabled for this competition."),
        ("tiny-over", "Submission not allowed:  Submissions have been disabled for this competition."),
        ("tiny-notebooks", "Submission not allowed:  This competition only accepts Submissions from Notebooks."),
    ],
)
def test_closed_and_notebooks_only_refuse_at_create(hosted: Hosted, slug: str, sentence: str, tmp_path: Path) -> None:
    good = hosted.tiny[slug].submission(tmp_path / "s.csv")
    assert hosted.kaggle("submit", slug, "-f", str(good), "-m", "x").returncode == 1
    status, answer = submit(hosted.arena, slug, good.read_bytes())
    assert (status, answer["error"]["message"], answer["error"]["code"]) == (400, sentence, 400)
    facts = rpc(hosted.arena, "GetCompetition", competitionName=slug)[1]
    assert facts.get("submissionsDisabled", False) == (slug != "tiny-notebooks")
    assert facts.get("isKernelsSubmissionsOnly", False) == (slug == "tiny-notebooks")


def test_unknown_and_gone_competitions(hosted: Hosted, tmp_path: Path) -> None:
    good = hosted.tiny["tiny-table"].submission(tmp_path / "s.csv")
    assert "403" in hosted.kaggle("files", "no-such").stderr
    assert "403" in hosted.kaggle("submit", "no-such", "-f", str(good), "-m", "x").stderr
    assert "404" in hosted.kaggle("files", "tiny-gone").stderr
    get = rpc(hosted.arena, "ListDataFiles", competitionName="../state")
    assert get == (
        403,
        {"error": {"code": 403, "message": "Permission 'competitions.get' was denied", "status": "PERMISSION_DENIED"}},
    )
    participate = rpc(hosted.arena, "StartSubmissionUpload", competitionName="no-such")[1]
    assert participate["error"]["message"] == "Permission 'competitions.participate' was denied"


def test_rules_are_asked_for_until_accepted_in_the_browser(hosted: Hosted, tmp_path: Path) -> None:
    good = hosted.tiny["tiny-rules"].submission(tmp_path / "s.csv")
    assert hosted.kaggle("files", "tiny-rules").returncode == 0
    assert hosted.kaggle("download", "tiny-rules", "-p", str(tmp_path)).returncode == 1
    assert hosted.kaggle("submit", "tiny-rules", "-f", str(good), "-m", "x").returncode == 1
    status, answer = rpc(hosted.arena, "DownloadDataFiles", competitionName="tiny-rules")
    assert status == 403
    assert answer["error"]["message"].startswith("You must accept this competition's rules before")
    assert answer["error"]["details"][0]["reason"] == "RulesAcceptanceRequired"
    assert answer["error"]["details"][0]["metadata"]["url"] == "/competitions/tiny-rules/rules"
    assert "userHasEntered" not in rpc(hosted.arena, "GetCompetition", competitionName="tiny-rules")[1]

    status, page, headers = raw(hosted.arena, "GET", "/competitions/tiny-rules/rules")
    assert b"Play &lt;fair&gt;." in page
    assert "default-src 'none'" in headers["content-security-policy"]
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    assert raw(hosted.arena, "POST", "/competitions/tiny-rules/rules", b"token=guess", **form)[0] == 401
    token = f"token={hosted.arena.token.reveal()}".encode()
    assert raw(hosted.arena, "POST", "/competitions/tiny-rules/rules", token, **form)[0] == 200

    assert hosted.kaggle("download", "tiny-rules", "-p", str(tmp_path), "-q").returncode == 0
    assert hosted.kaggle("submit", "tiny-rules", "-f", str(good), "-m", "x", "--wait").returncode == 0


def test_pages_for_a_browser(hosted: Hosted) -> None:
    assert b"tiny-table" in raw(hosted.arena, "GET", "/")[1]
    assert raw(hosted.arena, "GET", "/competitions/tiny-table")[0] == 200
    assert raw(hosted.arena, "GET", "/competitions/no-such")[0] == 404
    assert "For tests." in hosted.kaggle("pages", "tiny-table", "list", "tiny-table", "--content").stdout


def test_practice_digits_are_hosted_with_honest_references(tmp_path: Path) -> None:
    practice = ROOT / "data" / "practice"
    folder = practice / "digit-recognizer"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 5_000_000
    started = time.monotonic()
    with running([practice], tmp_path / "state") as arena:
        assert time.monotonic() - started < 5
        assert "digit-recognizer" in arena.slugs
        board = rpc(arena, "GetLeaderboard", competitionName="digit-recognizer")[1]["submissions"]
        files = rpc(arena, "ListDataFiles", competitionName="digit-recognizer")[1]["files"]
    assert [row["teamName"] for row in board] == [
        "Reference CNN (reference)",
        "Linear model (reference)",
        "All one class (reference)",
    ]
    assert float(board[0]["score"]) > 0.98 > 0.95 > float(board[1]["score"]) > 0.85
    assert board[2]["score"] == "0.10000"
    assert [each["name"] for each in files] == ["sample_submission.csv", "test.csv", "train.csv"]


def test_practice_digits_are_as_kaggle_lays_them_out() -> None:
    folder = ROOT / "data" / "practice" / "digit-recognizer"
    sums = json.loads((folder / "checksums.json").read_text())
    with zipfile.ZipFile(folder / "files.zip") as archive:
        tables = {name: archive.read(name) for name in archive.namelist()}
    for name, digest in sums.items():
        path, _, member = name.partition(":")
        data = tables[member] if member else (folder / path).read_bytes()
        assert hashlib.sha256(data).hexdigest() == digest, name
    train, test = (tables[name].decode().splitlines() for name in ("train.csv", "test.csv"))
    pixels = ",".join(f"pixel{i}" for i in range(784))
    assert (train[0], test[0], len(train), len(test)) == (f"label,{pixels}", pixels, 12_001, 4_001)
    labels = [line.partition(",")[0] for line in train[1:]]
    assert [labels.count(str(digit)) for digit in range(10)] == [1_200] * 10
    assert not {line.partition(",")[2] for line in train[1:]} & set(test[1:])
    with gzip.open(folder / "solution.csv.gz", "rt") as file:
        solution = [line.strip().split(",") for line in file][1:]
    assert [row[0] for row in solution] == [str(i) for i in range(1, 4_001)]
    assert [sum(row[1:] == [str(d), "Public"] for row in solution) for d in range(10)] == [100] * 10
    assert [sum(row[1] == str(d) for row in solution) for d in range(10)] == [400] * 10
