"""The arena against the real clients: Kaggle's own command line, kagglehub, and raw requests."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from arena_tools import Cutter, Tiny, client_env, kaggle, tiny_competition
from kaggle_workbench.arena.launch import Arena, running
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError

ROOT = Path(__file__).resolve().parent.parent
NOISE = os.urandom(5_000_000)
C = "competitions.CompetitionApiService"


class Hosted:
    """One arena with all kinds of tiny competitions, for the whole file."""

    def __init__(self, arena: Arena, folder: Path, tiny: dict[str, Tiny]) -> None:
        self.arena = arena
        self.folder = folder
        self.tiny = tiny
        self.env = client_env(arena, folder / "home")

    def kaggle(self, *words: str) -> subprocess.CompletedProcess[str]:
        return kaggle(self.env, "competitions", *words)


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("arena")
    kinds: dict[str, dict[str, Any]] = {
        "tiny-digits": {"extra": {"more/noise.bin": NOISE}, "side": 8, "wrap_bytes": 20_000},
        "tiny-table": {"kind": "table"},
        "tiny-rules": {"kind": "table", "rules": {"text": "Play <fair>.", "acceptance_required": True}},
        "tiny-limit": {"kind": "table", "max_daily_submissions": 2},
        "tiny-closed": {"kind": "table", "submissions_disabled": True},
        "tiny-over": {"kind": "table", "deadline": "2026-02-01T00:00:00Z", "reveal_private": False},
        "tiny-notebooks": {"kind": "table", "notebooks_only": True},
        "tiny-gone": {"kind": "table", "gone": True},
        "tiny-race": {"kind": "table", "max_daily_submissions": 5},
        "tiny-hidden": {"kind": "table", "reveal_private": False},
    }
    tiny = {slug: tiny_competition(folder / "hosted", slug, **kind) for slug, kind in kinds.items()}
    with running([folder / "hosted"], folder / "state") as arena:
        yield Hosted(arena, folder, tiny)


def raw(
    arena: Arena, method: str, target: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """One request as it is, without a client's tidying."""
    where = urlsplit(arena.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    try:
        connection.putrequest(method, target, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        if body is not None and "Content_Length" not in headers:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def rpc(arena: Arena, method: str, token: str | None = None, **body: Any) -> tuple[int, Any]:
    """One call of the API; the answer's JSON, or its headers for a redirect."""
    bearer = f"Bearer {token or arena.token.reveal()}"
    status, data, headers = raw(arena, "POST", f"/api/v1/{C}/{method}", json.dumps(body).encode(), Authorization=bearer)
    return status, headers if status == 302 else json.loads(data)


def upload(arena: Arena, slug: str, content: bytes, *, token: str | None = None, name: str = "s.csv") -> str:
    status, slot = rpc(
        arena, "StartSubmissionUpload", token, competitionName=slug, fileName=name, contentLength=len(content)
    )
    assert status == 200, slot
    assert raw(arena, "PUT", path_of(slot["createUrl"]), content)[0] == 201
    return str(slot["token"])


def submit(arena: Arena, slug: str, content: bytes, *, token: str | None = None) -> tuple[int, Any]:
    return rpc(
        arena,
        "CreateSubmission",
        token,
        competitionName=slug,
        blobFileTokens=upload(arena, slug, content, token=token),
        submissionDescription="raw",
    )


def path_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}"


# --- reading and downloading ------------------------------------------------------------------------------------------


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


# --- submitting -------------------------------------------------------------------------------------------------------


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


# --- who may ----------------------------------------------------------------------------------------------------------


def test_tokens_and_pairs(hosted: Hosted, tmp_path: Path) -> None:
    wrong = client_env(hosted.arena, tmp_path / "wrong", token="kwb_wrong")
    result = kaggle(wrong, "competitions", "list")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    pair = client_env(hosted.arena, tmp_path / "pair")
    token = pair.pop("KAGGLE_API_TOKEN")
    assert kaggle(pair | {"KAGGLE_USERNAME": "you", "KAGGLE_KEY": token}, "competitions", "list").returncode == 0
    assert kaggle(pair | {"KAGGLE_USERNAME": "me", "KAGGLE_KEY": token}, "competitions", "list").returncode == 1
    assert kaggle(pair | {"KAGGLE_USERNAME": "you", "KAGGLE_KEY": "x"}, "competitions", "list").returncode == 1
    for header in (
        "",
        "Bearer",
        "Bearer x",
        "Basic !!",
        "Basic " + base64.b64encode(b"you").decode(),
        f"Digest {token}",
    ):
        status, body, _ = raw(hosted.arena, "POST", f"/api/v1/{C}/ListCompetitions", b"{}", Authorization=header)
        assert (status, json.loads(body)["error"]["status"]) == (401, "UNAUTHENTICATED")
    for body in (b'{"token":"x"}', b"{}"):
        assert raw(hosted.arena, "POST", "/api/v1/security.OAuthService/IntrospectToken", body)[:2] == (200, b"{}")


def test_class_network_has_a_token_for_each_participant(tmp_path: Path) -> None:
    tiny = tiny_competition(tmp_path / "hosted", "tiny-table", kind="table")
    names = tmp_path / "names.txt"
    names.write_text("# class 7b\nanna\nbert  # left\n")
    state = tmp_path / "state"
    with running([tmp_path / "hosted"], state) as local:
        local_token = local.token.reveal()
    refused = subprocess.run([*ARENA, "--state", str(state), "--host", "0.0.0.0"], capture_output=True, timeout=20)
    assert refused.returncode == 2
    assert "--participants" in json.loads(refused.stdout)["hint"]
    command = [
        *ARENA,
        "--state",
        str(state),
        "--folder",
        str(tiny.folder),
        "--host",
        "0.0.0.0",
        "--participants",
        str(names),
    ]
    child = subprocess.Popen([*command, "--lifeline"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        ready = json.loads(child.stdout.readline())
        file = Path(ready["token_file"])
        assert file.stat().st_mode & 0o777 == 0o600
        tokens = json.loads(file.read_text())
        assert set(tokens) == {"anna", "bert"}
        port = urlsplit(ready["url"]).port
        arena = Arena(f"http://127.0.0.1:{port}", local.token, "anna", ())
        good = tiny.submission(tmp_path / "s.csv").read_bytes()
        assert rpc(arena, "ListCompetitions", local_token)[0] == 401
        ref = submit(arena, "tiny-table", good, token=tokens["anna"])[1]["ref"]
        assert rpc(arena, "GetSubmission", tokens["anna"], ref=ref)[1]["submittedBy"] == "anna"
        assert rpc(arena, "GetSubmission", tokens["bert"], ref=ref)[0] == 403
        assert rpc(arena, "DownloadSubmission", tokens["bert"], submissionId=ref)[0] == 403
        assert rpc(arena, "ListSubmissions", tokens["bert"], competitionName="tiny-table")[1] == {}
        stolen = upload(arena, "tiny-table", good, token=tokens["anna"])
        body = {"competitionName": "tiny-table", "blobFileTokens": stolen}
        assert rpc(arena, "CreateSubmission", tokens["bert"], **body)[0] == 400
        assert raw(arena, "GET", "/", Host="192.168.7.7:80")[0] == 200
        assert raw(arena, "GET", "/", Host="evil.example")[0] == 421
        env = client_env(arena, tmp_path / "home", token=tokens["bert"])
        assert "anna" in kaggle(env, "competitions", "leaderboard", "tiny-table", "--show").stdout
    finally:
        child.stdin.close()  # type: ignore[union-attr]
        assert child.wait(10) == 0
        child.stdout.close()  # type: ignore[union-attr]
    names.write_text("anna\ncleo\n")
    again = subprocess.Popen([*command, "--lifeline"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    again.communicate(timeout=20)
    assert json.loads(file.read_text())["anna"] == tokens["anna"]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1:1", "a@localhost", "[", "10.0.0.1"]
)
def test_foreign_hosts_are_refused(hosted: Hosted, host: str) -> None:
    status, body, _ = raw(hosted.arena, "GET", "/", Host=host)
    assert (status, json.loads(body)["error"]["code"]) == (421, 421)
    with contextlib.suppress(http.client.RemoteDisconnected):
        # An address that is none at all ends the connection before it reaches the application.
        assert raw(hosted.arena, "GET", f"http://{host}/", Host="localhost")[0] == 421
    assert raw(hosted.arena, "GET", "/")[0] == 200


def test_own_names_are_answered(hosted: Hosted) -> None:
    port = urlsplit(hosted.arena.url).port
    for host in ("localhost", f"localhost:{port}", f"127.0.0.1:{port}"):
        assert raw(hosted.arena, "GET", "/", Host=host)[0] == 200
        assert raw(hosted.arena, "GET", f"http://{host}/", Host=host)[0] == 200


@pytest.mark.parametrize(
    "target",
    [
        "/storage/competitions/tiny-digits/files/../../../state/token",
        "/storage/competitions/tiny-digits/files/%2e%2e/solution.csv.gz",
        "/storage/competitions/tiny-digits/files/..%2fsolution.csv.gz",
        "/storage/competitions/tiny-digits/files/a%00b",
        "/storage/competitions/tiny-digits/files/a%5cb",
        "/storage/competitions/tiny-digits/files/%252e%252e/x",
        "//storage/competitions/tiny-digits",
        "/competitions/./tiny-digits",
        "http://localhost/competitions/../tiny-digits",
    ],
)
def test_odd_paths_are_refused(hosted: Hosted, target: str) -> None:
    assert raw(hosted.arena, "GET", target, Host="localhost")[0] == 400


def test_bodies_over_limits_and_nonsense_are_refused(hosted: Hosted) -> None:
    bearer = f"Bearer {hosted.arena.token.reveal()}"
    target = f"/api/v1/{C}/ListCompetitions"
    assert raw(hosted.arena, "POST", target, bytes(1_000_001), Authorization=bearer)[0] == 413
    assert raw(hosted.arena, "POST", target, b"{}", Authorization=bearer, Content_Length=str(10**13))[0] == 413
    for body in (b"{", b"[]", b"[" * 100_000, b'{"page":"x"}', b'{"search":5}', b'{"pageToken":"\\u0000"}', b"\xff"):
        status, answer, _ = raw(hosted.arena, "POST", target, body, Authorization=bearer)
        assert (status, json.loads(answer)["error"]["status"]) == (400, "INVALID_ARGUMENT"), body[:20]
    assert raw(hosted.arena, "POST", f"/api/v1/{C}/NoSuchMethod", b"{}", Authorization=bearer)[0] == 404
    assert raw(hosted.arena, "DELETE", target, Authorization=bearer)[0] == 405
    assert raw(hosted.arena, "CONNECT", "localhost:443", Host="localhost:443")[0] in (400, 421)


def test_uploads_are_bounded_and_used_once(hosted: Hosted, tmp_path: Path) -> None:
    arena = hosted.arena
    content = hosted.tiny["tiny-table"].submission(tmp_path / "s.csv").read_bytes()
    start = {"competitionName": "tiny-table", "fileName": "s.csv", "contentLength": len(content)}
    assert rpc(arena, "StartSubmissionUpload", **(start | {"contentLength": 10**12}))[0] == 400
    for name in ("../s.csv", "a/b", "", "a\nb", ".."):
        assert rpc(arena, "StartSubmissionUpload", **(start | {"fileName": name}))[0] == 400
    slot = rpc(arena, "StartSubmissionUpload", **start)[1]
    target = path_of(slot["createUrl"])
    create = {"competitionName": "tiny-table", "blobFileTokens": slot["token"]}
    assert rpc(arena, "CreateSubmission", **create)[0] == 400
    assert raw(arena, "PUT", target, content + b"x")[0] == 413
    assert raw(arena, "PUT", target, content[:-1])[0] == 400
    assert rpc(arena, "CreateSubmission", **create)[0] == 400
    assert raw(arena, "PUT", target[:-1] + ("0" if target[-1] != "0" else "1"), content)[0] == 403
    assert raw(arena, "GET", target)[0] in (403, 405)
    assert raw(arena, "PUT", target, content)[0] == 201
    assert rpc(arena, "CreateSubmission", **create)[0] == 200
    assert rpc(arena, "CreateSubmission", **create)[0] == 400
    assert raw(arena, "PUT", target, content)[0] == 404


def test_too_many_open_uploads_are_refused(tmp_path: Path) -> None:
    tiny_competition(tmp_path / "hosted", "tiny-table", kind="table")
    with running([tmp_path / "hosted"], tmp_path / "state") as arena:
        start = {"competitionName": "tiny-table", "fileName": "s.csv", "contentLength": 3}
        answers = [rpc(arena, "StartSubmissionUpload", **start) for _ in range(21)]
    assert [status for status, _ in answers] == [200] * 20 + [429]
    assert answers[-1][1]["error"]["status"] == "RESOURCE_EXHAUSTED"


def test_failed_submissions_are_bounded_too(hosted: Hosted) -> None:
    ref = submit(hosted.arena, "tiny-hidden", b"nonsense")[1]["ref"]
    with sqlite3.connect(hosted.folder / "state" / "arena.sqlite") as db:
        columns = "slug, edition, name, file_name, description, size, upload, at, claimed, status"
        copy = f"INSERT INTO submissions ({columns}) SELECT {columns} FROM submissions WHERE ref = {ref}"
        db.executescript(";".join([copy] * 199))
    db.close()
    status, answer = submit(hosted.arena, "tiny-hidden", b"nonsense")
    assert (status, answer["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")


def test_storage_addresses_are_signed_and_expire(hosted: Hosted) -> None:
    _, headers = rpc(hosted.arena, "DownloadDataFiles", competitionName="tiny-table")
    target = path_of(headers["location"])
    assert raw(hosted.arena, "GET", target)[0] == 200
    assert raw(hosted.arena, "GET", target.partition("?")[0])[0] == 403
    assert raw(hosted.arena, "GET", target.replace("Expires=1", "Expires=2"))[0] == 403
    assert raw(hosted.arena, "GET", target.replace("tiny-table", "tiny-rules"))[0] == 403
    assert raw(hosted.arena, "PUT", target, b"x")[0] in (403, 405)
    from kaggle_workbench.arena import signing

    signer = signing.Signer((hosted.folder / "state" / "signing-key").read_text().strip().encode())
    path = "/storage/competitions/tiny-table/all/tiny-table.zip"
    past = int(time.time()) - 5
    assert raw(hosted.arena, "GET", f"{path}?Expires={past}&Signature={signer._signature('GET', path, past)}")[0] == 403
    # Even a signed address leads to nothing but the archive and its members.
    for name in ("solution.csv.gz", "competition.json", "references/all-one-class.csv.gz", "files.zip"):
        for kind in ("files", "all"):
            signed = signer.address("", "GET", f"/storage/competitions/tiny-table/{kind}/{name}")
            assert raw(hosted.arena, "GET", signed)[0] in (403, 404)


def test_solution_is_out_of_reach(hosted: Hosted) -> None:
    folder = hosted.tiny["tiny-table"].folder
    hidden = {(folder / "solution.csv.gz").read_bytes(), gzip.decompress((folder / "solution.csv.gz").read_bytes())}
    for name in ("solution.csv.gz", "solution.csv", "../solution.csv.gz", "references/all-one-class.csv.gz"):
        assert rpc(hosted.arena, "DownloadDataFile", competitionName="tiny-table", fileName=name)[0] == 404
    targets = ["/solution.csv.gz", "/competitions/tiny-table/solution.csv.gz", "/competitions/tiny-table/solution"]
    targets += ["/static/solution.csv.gz", "/hosted/tiny-table/solution.csv.gz", "/state/token", "/token"]
    for target in targets:
        status, body, _ = raw(hosted.arena, "GET", target)
        assert status == 404
        assert body not in hidden


# --- lasting ----------------------------------------------------------------------------------------------------------


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


ARENA = [sys.executable, "-m", "kaggle_workbench.arena"]


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
    rest = served.stderr.read()
    served.stderr.close()
    assert served.wait(10) == 0
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


# --- the practice competition -----------------------------------------------------------------------------------------


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
    import hashlib

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
