"""Who may use the arena, and what it refuses: tokens, hosts, paths, bodies, addresses, the solution."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.client
import json
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from arena_tools import (
    API,
    Hosted,
    client_env,
    hosted_arena,
    kaggle,
    path_of,
    raw,
    rpc,
    submit,
    tiny_competition,
    upload,
)
from kaggle_workbench.arena.launch import Arena, running

ROOT = Path(__file__).resolve().parent.parent
ARENA = [sys.executable, "-m", "kaggle_workbench.arena"]


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    with hosted_arena(tmp_path_factory.mktemp("arena")) as hosted:
        yield hosted


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
        status, body, _ = raw(hosted.arena, "POST", f"/api/v1/{API}/ListCompetitions", b"{}", Authorization=header)
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
    target = f"/api/v1/{API}/ListCompetitions"
    assert raw(hosted.arena, "POST", target, bytes(1_000_001), Authorization=bearer)[0] == 413
    assert raw(hosted.arena, "POST", target, b"{}", Authorization=bearer, Content_Length=str(10**13))[0] == 413
    for body in (b"{", b"[]", b"[" * 100_000, b'{"page":"x"}', b'{"search":5}', b'{"pageToken":"\\u0000"}', b"\xff"):
        status, answer, _ = raw(hosted.arena, "POST", target, body, Authorization=bearer)
        assert (status, json.loads(answer)["error"]["status"]) == (400, "INVALID_ARGUMENT"), body[:20]
    assert raw(hosted.arena, "POST", f"/api/v1/{API}/NoSuchMethod", b"{}", Authorization=bearer)[0] == 404
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


def test_many_unfinished_requests_leave_room_for_others(hosted: Hosted) -> None:
    where = urlsplit(hosted.arena.url)
    with contextlib.ExitStack() as held:
        for _ in range(150):
            slow = held.enter_context(socket.create_connection((where.hostname or "", where.port or 0)))
            slow.sendall(b"POST / HTTP/1.1\r\nX: ")
        assert raw(hosted.arena, "GET", "/")[0] == 200
