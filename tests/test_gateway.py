"""The gateway through the real `kaggle` client, against an arena with faults before it."""

from __future__ import annotations

import email.utils
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from arena_tools import Tiny, tiny_competition
from fault_server import FaultServer
from kaggle_workbench.arena.launch import Arena, running
from kaggle_workbench.competition import connect
from kaggle_workbench.errors import UsageError, WorkbenchError
from kaggle_workbench.kaggle_api import Client, Pace, kaggle_endpoint, local_endpoint
from kaggle_workbench.kaggle_api import errors as kinds
from kaggle_workbench.settings import Settings, load_settings

CODE = Path(__file__).resolve().parent.parent / "code"
FAST = Pace(start_s=20, call_s=20, stall_s=20, rate_limit_s=3, backoff_s=0.01, cuts=1)
SLUG = "tiny-table"


@dataclass
class World:
    """An arena behind a fault server, and a client for which that is Kaggle."""

    arena: Arena
    server: FaultServer
    tiny: Tiny
    project: Path
    client: Client

    def settings(self, **overrides: Any) -> Settings:
        return load_settings({"COMPETITION": SLUG, **overrides}, start=self.project)


@pytest.fixture(scope="module")
def module_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        clean(patch, tmp_path_factory.mktemp("home"))
        yield patch


def clean(patch: pytest.MonkeyPatch, home: Path) -> None:
    """An environment that knows nothing of Kaggle, and a home without credentials."""
    for name in list(os.environ):
        if name.startswith("KAGGLE_") or name.lower().endswith("_proxy") or name in ("VERBOSE", "XDG_CONFIG_HOME"):
            patch.delenv(name)
    patch.setenv("HOME", str(home))


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory, module_environment: pytest.MonkeyPatch) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("gateway")
    project = folder / "project"
    (project / ".project").mkdir(parents=True)
    (project / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    tiny = tiny_competition(folder / "hosted", SLUG, kind="table", rows=30, test_rows=20)
    with running([folder / "hosted"], folder / "state") as arena, FaultServer(arena.url) as server:
        module_environment.setenv("KAGGLE_API_ENVIRONMENT", "LOCALHOST")
        module_environment.setenv("http_proxy", server.url)
        module_environment.setenv("KAGGLE_API_TOKEN", arena.token.reveal())
        settings = load_settings({"COMPETITION": SLUG}, start=project)
        with Client(kaggle_endpoint(settings), pace=FAST) as client:
            yield World(arena, server, tiny, project, client)


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    shared_world.server.clear()
    yield shared_world
    shared_world.server.clear()


def submission_file(world: World, tmp_path: Path) -> Path:
    return world.tiny.submission(tmp_path / "submission.csv", wrong=2)


# --- What the client answers ---


def test_typed_answers(world: World, tmp_path: Path) -> None:
    client = world.client
    competition = client.competition(SLUG)
    assert (competition.slug, competition.metric) == (SLUG, "Categorization Accuracy")
    assert competition.max_daily_submissions == 20
    assert {file.name for file in client.files(SLUG)} == {"train.csv", "test.csv", "sample_submission.csv"}
    before = client.limits(SLUG)
    made = client.submit(SLUG, submission_file(world, tmp_path), "first [kwb sha:0123456789ab]")
    assert made.ref > 0
    assert made.description == "first [kwb sha:0123456789ab]"
    deadline = time.monotonic() + 10
    while (read := client.submission(made.ref)).status == "pending" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert read.status == "complete"
    assert read.public_score is not None
    assert 0 < read.public_score < 1
    assert read.date is not None
    assert read.date.tzinfo is not None
    assert read in client.submissions(SLUG)
    after = client.limits(SLUG)
    assert (after.used_today, after.left_now) == (before.used_today + 1, before.left_now - 1)
    rows = client.leaderboard(SLUG)
    assert [row.rank for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 2


def test_all_pages_are_read_and_a_repeated_page_ends_it(world: World) -> None:
    page = [{"name": f"{i}.png", "totalBytes": i} for i in range(3)]
    world.server.on("ListDataFiles", 200, {"files": page, "nextPageToken": "same"})
    assert len(world.client.files(SLUG)) == 6
    assert world.server.count("ListDataFiles") == 2
    assert len(world.client.files(SLUG, limit=2)) == 2


def test_nothing_the_client_prints_gets_through(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.server.on("GetCompetition", 200, {"title": "T"}, headers={"X-Kaggle-ApiVersion": "99.0.0"})
    with Client(world.client.endpoint, pace=FAST) as client:
        assert client.competition(SLUG).title == "T"
    assert capfd.readouterr() == ("", "")


# --- Every error of the protocol's table, and those around it ---

FLAT = '{"code": 403, "message": "You must accept this competition\'s rules before you\'ll be able to download files."}'
NOT_ALLOWED = "Submission not allowed:  "
Call = Callable[[Client, Path], Any]


def get(client: Client, file: Path) -> Any:
    return client.competition(SLUG)


def fetch(client: Client, file: Path) -> Any:
    return client.download_archive(SLUG, file.parent / "fetched")


def send(client: Client, file: Path) -> Any:
    return client.submit(SLUG, file, "text")


ERRORS: list[tuple[str, Call, str, int, Any, type[kinds.KaggleError], int, list[str]]] = [
    (
        "DownloadDataFiles",
        fetch,
        "rules, download",
        403,
        "You must accept this competition's rules before you'll be able to download files.",
        kinds.RulesError,
        4,
        [f"The rules of {SLUG} are not accepted", f"https://www.kaggle.com/competitions/{SLUG}/rules"],
    ),
    (
        "CreateSubmission",
        send,
        "rules, submit",
        403,
        "You cannot submit until you accept the competition rules",
        kinds.RulesError,
        4,
        [f"https://www.kaggle.com/competitions/{SLUG}/rules"],
    ),
    (
        "DownloadDataFiles",
        fetch,
        "rules, flat form of old threads",
        403,
        json.loads(FLAT),
        kinds.RulesError,
        4,
        [f"https://www.kaggle.com/competitions/{SLUG}/rules"],
    ),
    (
        "DownloadDataFiles",
        fetch,
        "phone",
        403,
        "You need to verify your phone number to take part in this competition.",
        kinds.PhoneError,
        4,
        ["https://www.kaggle.com/settings"],
    ),
    (
        "GetCompetition",
        get,
        "gone",
        404,
        "NotFound",
        kinds.GoneError,
        2,
        ["is not there (any more)", f"https://www.kaggle.com/competitions/{SLUG}"],
    ),
    (
        "CreateSubmission",
        send,
        "closed",
        400,
        f"{NOT_ALLOWED}Submissions have been disabled for this competition.",
        kinds.ClosedError,
        4,
        ["takes no submissions any more", "nothing was submitted"],
    ),
    (
        "CreateSubmission",
        send,
        "daily limit",
        400,
        f"{NOT_ALLOWED}Your team has used its daily Submission allowance (5) today, "
        "please try again tomorrow UTC (7 hours from now).",
        kinds.DailyLimitError,
        4,
        ["Today's submissions", "Try again in 7 hours"],
    ),
    (
        "CreateSubmission",
        send,
        "notebooks only",
        400,
        f"{NOT_ALLOWED}This competition only accepts Submissions from Notebooks. "
        "Your team has used its daily Submission allowance (1) today.",
        kinds.NotebooksOnlyError,
        4,
        ["takes notebooks, not files", f"https://www.kaggle.com/competitions/{SLUG}/code"],
    ),
    (
        "CreateSubmission",
        send,
        "accelerator",
        400,
        f"{NOT_ALLOWED}Your Notebook cannot use P100 GPUs in this competition.",
        kinds.AcceleratorError,
        4,
        ["accelerator", "notebook's settings"],
    ),
    (
        "GetCompetition",
        get,
        "rate limit",
        429,
        "Too many requests",
        kinds.RateLimitError,
        3,
        ["too many requests", "half an hour"],
    ),
    (
        "GetCompetition",
        get,
        "token",
        401,
        b"",
        kinds.CredentialsRefusedError,
        3,
        ["does not accept your credentials (KAGGLE_API_TOKEN in the environment)", "settings/api"],
    ),
    (
        "GetCompetition",
        get,
        "server error with a page",
        502,
        "<html><head><title>502 Bad Gateway</title></head><body><h1>x</h1></body></html>",
        kinds.ServerError,
        3,
        ["out of order", "502 Bad Gateway"],
    ),
    ("GetCompetition", get, "server error", 500, "Internal error", kinds.ServerError, 3, ["HTTP 500", "try again"]),
    (
        "GetCompetition",
        get,
        "a sign-in page instead of an answer",
        200,
        "<html><title>Hotel Wi-Fi</title></html>",
        kinds.ServerError,
        3,
        ["cannot be read", "in a browser"],
    ),
    ("GetCompetition", get, "other refusal", 403, "No.", kinds.DeniedError, 4, ["HTTP 403", SLUG]),
    ("/storage/", fetch, "storage refuses", 403, b"<Error/>", kinds.ServerError, 3, ["storage", "HTTP 403"]),
]


@pytest.mark.parametrize(("route", "call", "case", "status", "body", "kind", "code", "parts"), ERRORS)
def test_every_error_says_what_why_and_what_to_do(
    world: World,
    tmp_path: Path,
    route: str,
    call: Call,
    case: str,
    status: int,
    body: Any,
    kind: type[kinds.KaggleError],
    code: int,
    parts: list[str],
) -> None:
    if isinstance(body, str) and not body.startswith("<"):
        world.server.refuse(route, status, body)
    else:
        world.server.on(route, status, body)
    file = submission_file(world, tmp_path)
    with pytest.raises(WorkbenchError) as caught:
        call(world.client, file)
    error = caught.value
    assert type(error) is kind, str(error)
    assert error.exit_code == code
    for part in parts:
        assert part in str(error)
    if isinstance(body, str) and not body.startswith("<"):
        # The server's own words are always there.
        assert " ".join(body.split()).rstrip(".") in " ".join(str(error).split())
    assert error.hint
    assert "\n" not in error.message
    assert "Traceback" not in str(error)
    assert world.server.count("CreateSubmission") <= 1


def test_misspelt_slug_gets_close_matches(world: World) -> None:
    with pytest.raises(kinds.UnknownCompetitionError) as caught:
        world.client.competition("tinny-table")
    assert caught.value.exit_code == 2
    assert "no competition 'tinny-table'" in str(caught.value)
    assert f"Did you mean {SLUG}?" in caught.value.hint
    assert "Permission 'competitions.get' was denied" in str(caught.value)


def test_denied_though_it_exists_means_not_joined(world: World) -> None:
    world.server.refuse("GetSubmissionLimits", 403, "Permission 'competitions.participate' was denied")
    with pytest.raises(kinds.RulesError, match=f"competitions/{SLUG}/rules"):
        world.client.limits(SLUG)


def test_unknown_slug_without_a_working_search(world: World) -> None:
    world.server.refuse("ListCompetitions", 500, "no")
    with pytest.raises(kinds.UnknownCompetitionError, match="Check COMPETITION"):
        world.client.competition("nothing-like-it")


# --- Waiting and trying again ---


def test_429_waits_the_seconds_it_is_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.server.refuse("GetCompetition", 429, "Too many requests", times=1, Retry_After="1")
    start = time.monotonic()
    assert world.client.competition(SLUG).slug == SLUG
    assert time.monotonic() - start > 0.9
    assert "asks for a pause (too many requests): waiting 1 s" in capsys.readouterr().err


def test_429_waits_until_the_date_it_is_told(world: World) -> None:
    date = email.utils.formatdate(time.time() + 2, usegmt=True)
    world.server.refuse("GetCompetition", 429, "Too many requests", times=1, Retry_After=date)
    start = time.monotonic()
    assert world.client.competition(SLUG).slug == SLUG
    assert time.monotonic() - start > 0.5


def test_429_that_asks_for_too_long_is_an_error_at_once(world: World) -> None:
    world.server.refuse("GetCompetition", 429, "Too many requests", Retry_After="3600")
    with pytest.raises(kinds.RateLimitError, match="asks to wait 60 min") as caught:
        world.client.competition(SLUG)
    assert caught.value.retry_after_s == 3600
    assert world.server.count("GetCompetition") == 1


def test_5xx_is_tried_again_a_few_times(world: World) -> None:
    world.server.refuse("GetCompetition", 503, "Busy", times=2)
    assert world.client.competition(SLUG).slug == SLUG
    assert world.server.count("GetCompetition") == 3
    world.server.clear()
    world.server.refuse("GetCompetition", 503, "Busy")
    with pytest.raises(kinds.ServerError):
        world.client.competition(SLUG)
    assert world.server.count("GetCompetition") == 3


def test_hung_server_ends_in_time_and_the_next_call_works(world: World) -> None:
    world.server.on("GetCompetition", delay_s=6, times=1)
    with Client(world.client.endpoint, pace=replace(FAST, call_s=1)) as client:
        start = time.monotonic()
        with pytest.raises(kinds.TimeLimitError, match="did not answer within 1 s") as caught:
            client.competition(SLUG)
        assert time.monotonic() - start < 5
        assert caught.value.exit_code == 3
        assert client.competition(SLUG).slug == SLUG


def test_no_network(world: World) -> None:
    dead = replace(world.client.endpoint, env={**world.client.endpoint.env, "http_proxy": "http://127.0.0.1:9"})
    with Client(dead, pace=FAST) as client, pytest.raises(kinds.UnreachableError) as caught:
        client.competition(SLUG)
    assert caught.value.exit_code == 3
    assert "cannot be reached" in str(caught.value)
    assert "SOURCE=practice" in caught.value.hint or "proxy" in caught.value.hint


def test_practice_server_that_is_gone_is_not_blamed_on_a_proxy(tmp_path: Path) -> None:
    endpoint = local_endpoint("http://127.0.0.1:9", "t", tmp_path)
    client = Client(endpoint, label="the practice server", pace=FAST)
    with client, pytest.raises(kinds.UnreachableError, match="The practice server does not answer any more"):
        client.competition(SLUG)


def test_cut_connection_is_tried_again(world: World) -> None:
    world.server.on("GetCompetition", 200, b"{}" + b" " * 100, cut_after=1, times=2)
    assert world.client.competition(SLUG).title == "Tiny table"


# --- Submitting once ---


def test_failed_upload_is_no_success(world: World, tmp_path: Path) -> None:
    world.server.on("/storage/uploads/", 500)
    with pytest.raises(kinds.UploadError, match="nothing was submitted") as caught:
        send(world.client, submission_file(world, tmp_path))
    assert caught.value.exit_code == 3
    assert not caught.value.maybe_done
    assert world.server.count("CreateSubmission") == 0


def test_upload_that_fails_once_is_made_again(world: World, tmp_path: Path) -> None:
    world.server.on("/storage/uploads/", 503, times=1)
    assert send(world.client, submission_file(world, tmp_path)).ref > 0
    assert world.server.count("CreateSubmission") == 1


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 200, "body": b"x" * 99, "cut_after": 1}])
def test_submission_made_behind_a_fault_is_read_back(world: World, tmp_path: Path, fault: dict[str, Any]) -> None:
    world.server.on("CreateSubmission", **fault, forward=True)
    message = f"behind a fault {fault['status']} [kwb sha:{os.getpid()}]"
    made = world.client.submit(SLUG, submission_file(world, tmp_path), message)
    assert made.ref > 0
    assert made.description == message
    assert world.server.count("CreateSubmission") == 1


def test_submission_that_cannot_be_settled_says_so(world: World, tmp_path: Path) -> None:
    world.server.refuse("CreateSubmission", 500, "Internal error")
    with pytest.raises(kinds.ServerError, match="not certain whether the submission was made") as caught:
        send(world.client, submission_file(world, tmp_path))
    assert caught.value.maybe_done
    assert world.server.count("CreateSubmission") == 1


def test_server_that_hangs_at_the_decisive_step(world: World, tmp_path: Path) -> None:
    world.server.on("CreateSubmission", delay_s=8)
    client = Client(world.client.endpoint, pace=replace(FAST, call_s=1))
    with client, pytest.raises(kinds.TimeLimitError) as caught:
        client.submit(SLUG, submission_file(world, tmp_path), "hangs")
    assert caught.value.maybe_done
    assert world.server.count("CreateSubmission") == 1


def test_login_that_fails_has_submitted_nothing_for_certain(world: World, tmp_path: Path) -> None:
    world.server.on("IntrospectToken", delay_s=8)
    client = Client(world.client.endpoint, pace=replace(FAST, start_s=1))
    with client, pytest.raises(kinds.TimeLimitError) as caught:
        client.submit(SLUG, submission_file(world, tmp_path), "x")
    assert "not certain" not in str(caught.value)
    assert world.server.count("StartSubmissionUpload") == 0


def test_answer_without_a_number_is_looked_up(world: World, tmp_path: Path) -> None:
    world.server.on("CreateSubmission", 200, {"message": "Successfully submitted"}, forward=True)
    message = "no number"
    assert world.client.submit(SLUG, submission_file(world, tmp_path), message).description == message


def test_429_before_and_at_the_decisive_step(world: World, tmp_path: Path) -> None:
    world.server.refuse("StartSubmissionUpload", 429, "Too many requests", times=1, Retry_After="0")
    world.server.refuse("CreateSubmission", 429, "Too many requests", times=1, Retry_After="0")
    before = len(world.client.submissions(SLUG))
    assert send(world.client, submission_file(world, tmp_path)).ref > 0
    assert len(world.client.submissions(SLUG)) == before + 1


def test_a_missing_file_is_the_users(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        world.client.submit(SLUG, tmp_path / "missing.csv", "x")


# --- Credentials at work ---


def test_no_credentials(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAGGLE_API_TOKEN")
    monkeypatch.setenv("KAGGLE_USERNAME", "somebody")
    with pytest.raises(kinds.CredentialsMissingError) as caught, connect(world.settings(SOURCE="kaggle")):
        pass
    assert caught.value.exit_code == 3
    assert "KAGGLE_USERNAME is set, but KAGGLE_KEY is not" in str(caught.value)
    assert "https://www.kaggle.com/settings/api" in str(caught.value)
    monkeypatch.delenv("KAGGLE_USERNAME")
    with Client(kaggle_endpoint(world.settings()), pace=FAST) as client, pytest.raises(kinds.CredentialsMissingError):
        client.competition(SLUG)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_stale_token_is_named_even_beside_a_good_pair(
    world: World, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("KAGGLE_API_TOKEN", "stale-token-value")
    monkeypatch.setenv("KAGGLE_USERNAME", "somebody")
    monkeypatch.setenv("KAGGLE_KEY", "good-key-value")
    world.server.refuse("IntrospectToken", status, "bad token stale-token-value")
    with connect(world.settings(SOURCE="kaggle")) as source:
        source.client.pace = FAST
        with pytest.raises(kinds.CredentialsRefusedError) as caught:
            source.client.competition(SLUG)
    assert caught.value.exit_code == 3
    assert "KAGGLE_API_TOKEN in the environment" in str(caught.value)
    assert "stale-token-value" not in str(caught.value)


def test_server_error_while_logging_in(world: World) -> None:
    world.server.refuse("IntrospectToken", 503, "Busy")
    with Client(world.client.endpoint, pace=FAST) as client, pytest.raises(kinds.ServerError, match="HTTP 503"):
        client.competition(SLUG)


def test_the_pair_is_sent_as_basic_credentials(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAGGLE_API_TOKEN")
    monkeypatch.setenv("KAGGLE_USERNAME", "somebody")
    monkeypatch.setenv("KAGGLE_KEY", "key")
    world.server.on("GetCompetition", 200, {"title": "T"})
    with Client(kaggle_endpoint(world.settings()), pace=FAST) as client:
        assert client.competition(SLUG).title == "T"
    assert world.server.seen[-1].headers["Authorization"].startswith("Basic ")


# --- Secrets ---


def test_no_secret_in_arguments_messages_or_output(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    token = "KGAT_very-secret-value"
    monkeypatch.setenv("KAGGLE_API_TOKEN", token)
    monkeypatch.setenv("VERBOSE", "1")
    monkeypatch.setenv("VERBOSE_OUTPUT", "true")
    world.server.on("IntrospectToken", 200, {"active": True, "username": "somebody"})
    world.server.refuse("GetCompetition", 403, f"Odd token {token} at http://me:{token}@proxy/ https://s/x?Sig={token}")
    endpoint = kaggle_endpoint(world.settings())
    with Client(endpoint, pace=FAST) as client:
        with pytest.raises(kinds.DeniedError) as caught:
            client.competition(SLUG)
        assert client._worker is not None
        if Path("/proc").is_dir():
            assert token not in Path(f"/proc/{client._worker.pid}/cmdline").read_text()
        last_words = client._worker._last_words
        last_words.seek(0)
        assert token.encode() not in last_words.read()
    assert token not in str(caught.value) + repr(caught.value) + repr(endpoint) + caught.value.reason
    out, err = capfd.readouterr()
    assert token not in out + err
    assert world.server.seen[-1].headers["Authorization"] == f"Bearer {token}"


# --- The client's process ---


def script(text: str, folder: Path, *args: object, **env: str) -> subprocess.Popen[str]:
    """Run a Python text in a process of its own; it finds `args` in sys.argv."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    return subprocess.Popen(
        [sys.executable, str(path), *map(str, args)],
        env={**os.environ, "PYTHONPATH": str(CODE), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Where nobody collects it, an ended process stays as a zombie.
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.is_file() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def gone(pid: int, within_s: float = 5) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
@pytest.mark.parametrize("busy", [False, True])
def test_the_process_ends_with_its_parent(world: World, tmp_path: Path, busy: bool) -> None:
    world.server.on("ListSubmissions", delay_s=30)
    parent = script(
        """
        import os, pathlib, sys, threading, time
        from kaggle_workbench.kaggle_api import Client, kaggle_endpoint
        from kaggle_workbench.settings import load_settings
        project, slug, busy = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True"
        client = Client(kaggle_endpoint(load_settings(start=project)))
        client.competition(slug)
        # A fork holds the pipe open beyond our death.
        if os.fork() == 0:
            time.sleep(8)
            os._exit(0)
        if busy:
            threading.Thread(target=client.submissions, args=(slug,)).start()
            time.sleep(0.5)
        print(client._worker.pid, flush=True)
        time.sleep(60)
        """,
        tmp_path,
        world.project,
        SLUG,
        busy,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert gone(pid)


def test_close_ends_the_process_and_a_call_starts_another(world: World) -> None:
    client = Client(world.client.endpoint, pace=FAST)
    client.competition(SLUG)
    assert client._worker is not None
    first = client._worker.pid
    client.close()
    assert gone(first)
    assert client.competition(SLUG).slug == SLUG
    client.close()


def test_a_process_that_dies_is_an_error_with_its_last_words(world: World, tmp_path: Path) -> None:
    (tmp_path / "kaggle.py").write_text("import os, sys\nprint('out of memory', file=sys.__stderr__)\nos._exit(9)\n")
    broken = replace(world.client.endpoint, env={**world.client.endpoint.env, "PYTHONPATH": str(tmp_path)})
    with Client(broken, pace=FAST) as client, pytest.raises(kinds.UnexpectedError, match="ended by itself"):
        client.competition(SLUG)


def test_missing_package_is_named(world: World, tmp_path: Path) -> None:
    (tmp_path / "kaggle.py").write_text("raise ModuleNotFoundError(\"No module named 'six'\", name='six')\n")
    broken = replace(world.client.endpoint, env={**world.client.endpoint.env, "PYTHONPATH": str(tmp_path)})
    with (
        Client(broken, pace=FAST) as client,
        pytest.raises(kinds.ClientError, match="'six' is not installed") as caught,
    ):
        client.competition(SLUG)
    assert caught.value.exit_code == 3
    assert "pip install" in caught.value.hint


def test_a_kaggle_py_in_the_current_folder_is_not_taken(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kaggle.py").write_text("raise RuntimeError('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    with Client(world.client.endpoint, pace=FAST) as client:
        assert client.competition(SLUG).slug == SLUG


# --- Practice never reaches Kaggle ---


def test_practice_after_importing_kaggle_against_another_server(world: World, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".project").mkdir(parents=True)
    (project / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    tiny = tiny_competition(project / "data" / "practice", "tiny-other", kind="table", rows=10, test_rows=8)
    file = tiny.submission(tmp_path / "submission.csv")
    with FaultServer() as stranger:
        stranger.on("ListCompetitions", 200, {"competitions": []})
        process = script(
            """
            import pathlib, sys
            import kaggle
            project, file = map(pathlib.Path, sys.argv[1:])
            kaggle.api.competitions_list()
            from kaggle_workbench.competition import connect
            from kaggle_workbench.settings import load_settings
            settings = load_settings({"COMPETITION": "tiny-other", "SOURCE": "practice"}, start=project)
            with connect(settings) as source:
                made = source.client.submit("tiny-other", file, "practice")
                rows = source.client.submissions("tiny-other")
                try:
                    source.client.competition("titanic")
                except Exception as error:
                    print(error.exit_code, error, file=sys.stderr)
            print(source.kind, made.ref, len(rows), flush=True)
            """,
            tmp_path,
            project,
            file,
            http_proxy=stranger.url,
            HTTP_PROXY=stranger.url,
            https_proxy=stranger.url,
            KAGGLE_API_TOKEN="the-users-real-token",
            KAGGLE_USERNAME="somebody",
            KAGGLE_KEY="key",
        )
        out, err = process.communicate(timeout=60)
        assert out.split() == ["practice", "1", "1"], err
        assert "It has: tiny-other. For Kaggle's own competitions, make a token" in err
        assert {each.path.rsplit("/", 1)[-1] for each in stranger.seen} == {"IntrospectToken", "ListCompetitions"}
        assert (project / "data" / "output" / "arena").is_dir()


def test_local_environment_is_made_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAGGLE_KEY", "KAGGLE_CONFIG_DIR", "https_proxy", "no_proxy", "NO_PROXY", "VERBOSE", "SECRET"):
        monkeypatch.setenv(name, "x")
    env = local_endpoint("http://127.0.0.1:5", "t", tmp_path).env
    kaggle = {name for name in env if name.startswith("KAGGLE_")}
    assert kaggle == {"KAGGLE_API_ENVIRONMENT", "KAGGLE_API_TOKEN"}
    assert {name for name in env if name.lower().endswith("_proxy")} == {"http_proxy"}
    assert not {"VERBOSE", "SECRET"} & set(env)
    assert env["HOME"] == str(tmp_path)


def test_kaggle_environment_keeps_the_users_own_variables(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    own = {"KAGGLE_API_ENVIRONMENT": "LOCALHOST", "https_proxy": "http://p", "no_proxy": "x", "REQUESTS_CA_BUNDLE": "c"}
    for name, value in {**own, "VERBOSE": "1", "VERBOSE_OUTPUT": "1", "KAGGLE_TOKEN": "trap"}.items():
        monkeypatch.setenv(name, value)
    env = kaggle_endpoint(world.settings()).env
    assert {name: env[name] for name in own} == own
    assert not {"VERBOSE", "VERBOSE_OUTPUT", "KAGGLE_TOKEN"} & set(env)


def test_auto_says_which_source_and_why(world: World, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    with connect(world.settings()) as source:
        assert source.kind == "kaggle"
    assert "Source: Kaggle (credentials: KAGGLE_API_TOKEN in the environment)" in capsys.readouterr().err
    monkeypatch.delenv("KAGGLE_API_TOKEN")
    with connect(world.settings()) as source:
        assert source.kind == "practice"
    assert "Source: practice" in (said := capsys.readouterr().err)
    assert "no Kaggle credentials found" in said


def test_the_host_never_imports_the_client(world: World, tmp_path: Path) -> None:
    process = script(
        """
        import pathlib, sys
        from kaggle_workbench.kaggle_api import Client, kaggle_endpoint
        from kaggle_workbench.settings import load_settings
        import kaggle_workbench.competition, kaggle_workbench.kaggle_api.worker
        with Client(kaggle_endpoint(load_settings(start=pathlib.Path(sys.argv[1])))) as client:
            client.competition(sys.argv[2])
        heavy = ("kaggle", "kagglesdk", "requests", "tensorflow", "pandas", "flask")
        print([name for name in heavy if name in sys.modules])
        """,
        tmp_path,
        world.project,
        SLUG,
    )
    out, err = process.communicate(timeout=60)
    assert out.strip() == "[]", err
