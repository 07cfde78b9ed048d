"""Thirty broken set-ups: the doctor names each, and its mend, done as it says, makes the check pass."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from doctor_cases import BROKEN, ROOT, changed, commit, git, gpu_machine, look, named, run_mend, write
from kaggle_workbench.doctor import CHECKS, Check, Facts, Result, check_of, mend
from kaggle_workbench.doctor.check import passed
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    """A sound project in git, a quiet system, and an empty home."""
    root, system, home = tmp_path / "project", tmp_path / "system", tmp_path / "home"
    for folder in (root / "data" / "input", root / "data" / "output", root / "code", root / ".project", system, home):
        folder.mkdir(parents=True)
    for name in (
        "kwb",
        "variables.env",
        "preBuild.bash",
        "postBuild.bash",
        "requirements.txt",
        "apt.txt",
        ".gitignore",
    ):
        shutil.copy(ROOT / name, root / name)
    for name in ("spec.yaml", "image.lock"):
        shutil.copy(ROOT / ".project" / name, root / ".project" / name)
    for path in (ROOT / "code").glob("*.ipynb"):
        shutil.copy(path, root / "code")
    git(root, "init", "-q")
    git(root, "config", "user.email", "a@b.c")
    git(root, "config", "user.name", "A")
    commit(root)
    return Facts(root, {"PATH": os.environ["PATH"], "HOME": str(home)}, system, home, "x86_64")


@pytest.mark.parametrize("name", BROKEN)
def test_the_doctor_names_what_is_broken_and_its_mend_works(name: str, facts: Facts) -> None:
    case = BROKEN[name]
    assert look(facts, case.check).state in ("passed", "warned"), "sound before"
    facts = case.break_it(facts) or facts
    result = look(facts, case.check)
    assert (result.state, case.found in result.found) == (case.state, True), result
    assert result.fix, "every finding has a mend"
    if case.mended == "fix":
        said = mend([(named(case.check), result)])
        assert said
        assert "could not" not in said[0]
    elif isinstance(case.mended, str):
        assert case.mended in result.fix, result.fix
        run_mend(facts, case.mended)
    else:
        facts = case.mended(facts, result) or facts
    after = look(facts, case.check)
    assert after.state == "passed" or (case.check == "lock" and "by its tag alone" in after.found), after


def test_there_are_thirty_broken_set_ups_and_more() -> None:
    assert len(BROKEN) >= 30
    assert {case.check for case in BROKEN.values()} <= {check.id for check in CHECKS}


class Engine(BaseHTTPRequestHandler):
    """What an engine answers to the two questions."""

    version = "29.1.0"
    runtimes: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        answers: dict[str, Any] = {
            "/version": {"Version": self.version},
            "/info": {"DockerRootDir": "/", "Runtimes": self.runtimes},
        }
        body = json.dumps(answers[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def address_string(self) -> str:
        return "local"


@contextlib.contextmanager
def engine(path: Path) -> Iterator[None]:
    """An HTTP server on a Unix socket, as Docker's is."""

    class Server(HTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self) -> None:
            self.socket.bind(str(path))

        def get_request(self) -> tuple[socket.socket, Any]:
            return self.socket.accept()[0], ("local", 0)

    server = Server(("local", 0), Engine, bind_and_activate=False)
    server.server_bind()
    server.server_activate()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def test_docker_not_installed_stopped_too_old_and_running(
    facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    facts = changed(facts, PATH=str(bare))
    assert look(facts, "docker").state == "warned"
    assert "works without it" in look(facts, "docker").found
    write(bare / "docker", "#!/bin/sh\n").chmod(0o755)
    stopped = look(facts, "docker")
    assert (stopped.state, "not running" in stopped.found) == ("failed", True)
    assert "systemctl start docker" in stopped.fix
    # A Unix socket's path is short.
    folder = Path(os.path.realpath("/tmp"), f"kwb-{os.getpid()}")
    folder.mkdir(mode=0o700)
    try:
        asked = changed(facts, DOCKER_HOST=f"unix://{folder}/d.sock")
        with engine(folder / "d.sock"):
            assert "29.1.0 is running" in look(asked, "docker").found
            monkeypatch.setattr(Engine, "version", "19.3.1")
            assert (look(asked, "docker").state, "too old" in look(asked, "docker").found) == ("failed", True)
            assert look(asked, "docker-disk").state in ("passed", "warned")
            gpu_machine(asked)
            monkeypatch.setattr(Engine, "runtimes", {"nvidia": {}})
            assert look(asked, "nvidia-runtime").found == "Docker knows NVIDIA's runtime"
        assert "does not answer" in look(asked, "docker").found, "a socket that nobody listens to"
        if os.getuid():
            (folder / "d.sock").chmod(0)
            refused = look(asked, "docker")
            assert "may not use it" in refused.found
            assert "usermod -aG docker" in refused.fix
    finally:
        shutil.rmtree(folder)
    remote = look(changed(facts, DOCKER_HOST="tcp://10.0.0.1:2375"), "docker")
    assert (remote.state, remote.fix) == ("failed", "unset DOCKER_HOST")


def test_a_folder_that_may_not_be_written_is_named_with_its_owner(facts: Facts) -> None:
    """As root another user looks; as a user, at a folder without the right to write."""
    folder = facts.root / "data" / "output"
    if os.getuid():
        folder.chmod(0o555)
        result = look(facts, "folders")
        folder.chmod(0o755)
        assert "may not be written" in result.found
        return
    for path in (folder, *folder.parents):
        if path.is_relative_to(Path(os.path.realpath("/tmp"))):
            path.chmod(path.stat().st_mode | 0o055)
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from kaggle_workbench.doctor import Facts, examine\n"
        "from kaggle_workbench.doctor.checks.folders import folders\n"
        f"facts = Facts(Path({str(facts.root)!r}), {{}}, home=Path('/'))\n"
        "facts.variables, facts.secrets\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "result = folders(facts)\n"
        "print(result.found, '|', result.fix)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert "belongs to user 0, and this is user 65534" in done.stdout, done.stderr
    assert "sudo chown -R" in done.stdout


def test_a_full_disk_is_named(facts: Facts, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("this user may not mount")
    try:
        full = changed(facts, OUTPUT_DIR=str(small))
        result = look(full, "disk")
        assert (result.state, "0.0 GB free for OUTPUT_DIR" in result.found) == ("failed", True)
        (small / "fill").write_bytes(b"x" * 2**20)
        assert "cannot be written: No space left" in look(full, "folders").found
        assert look(changed(facts, OUTPUT_DIR=str(tmp_path)), "folders").state == "passed"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_port_that_is_taken_is_named(facts: Facts) -> None:
    with socket.socket() as held:
        try:
            held.bind(("127.0.0.1", 7777))
            held.listen()
        except OSError:
            pass  # taken already: as good
        result = look(facts, "ports")
        assert (result.state, "7777 (the practice arena" in result.found) == ("warned", True)


@pytest.mark.parametrize(
    ("environ", "state", "words"),
    [
        ({"FAKE_GPUS": "2"}, "passed", "2 GPUs"),
        ({"FAKE_GPUS": "1", "FAKE_NVML_INIT": "18"}, "failed", "updated, and the old one is still loaded"),
        ({"FAKE_GPUS": "1", "FAKE_NVML_INIT": "999"}, "failed", "error 999"),
        ({"FAKE_GPUS": "0"}, "failed", "counts no GPU"),
    ],
)
def test_gpus_are_counted_by_the_drivers_own_library(
    facts: Facts, environ: dict[str, str], state: str, words: str
) -> None:
    from fake_nvml import library

    result = look(changed(facts, LD_LIBRARY_PATH=str(library().parent), **environ), "gpus")
    assert (result.state, words in result.found) == (state, True), result


# --- The command ---


def doctor(root: Path, *words: str, plain: bool = False, **env: str) -> subprocess.CompletedProcess[str]:
    # -S -E: no packages but the standard library's, as before any installation.
    start = [sys.executable, "-S", "-E", "-c", _PLAIN] if plain else [sys.executable, "-m", "kaggle_workbench"]
    environ = {**{k: v for k, v in os.environ.items() if not k.startswith("KAGGLE")}, **env}
    command = [*start, "doctor", *words]
    return subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=60)


_PLAIN = (
    f"import sys; sys.path.insert(0, {str(ROOT / 'code')!r}); "
    "from kaggle_workbench.cli import main; sys.exit(main(sys.argv[1:]))"
)


def test_it_runs_with_the_standard_library_alone(facts: Facts) -> None:
    done = doctor(facts.root, "--format", "json", plain=True, HOME=str(facts.home))
    assert done.stderr == ""
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    assert list(rows) == [check.id for check in CHECKS]
    assert rows["spec"]["state"] == "not checked", "its reader is not installed, and that is said"
    assert "./kwb" in rows["spec"]["found"]
    strange = [row for row in rows.values() if "the check itself met" in row["found"]]
    assert not strange
    assert all(row["fix"] for row in rows.values() if row["state"] in ("failed", "warned"))


def test_fix_says_what_it_did_and_the_exit_code_tells(facts: Facts) -> None:
    write(facts.root / "secrets.env", "KAGGLE_KEY=x\nKAGGLE_USERNAME=y\n").chmod(0o644)
    only = ("--only", "secrets", "scripts")
    first = doctor(facts.root, *only)
    assert first.returncode == 1
    assert "mend: chmod 600" in first.stdout
    assert max(map(len, first.stdout.splitlines())) < 400
    second = doctor(facts.root, *only, "--fix")
    assert second.returncode == 0, second.stdout
    assert "secrets.env is mode 0600 now" in second.stderr
    assert stat.S_IMODE((facts.root / "secrets.env").stat().st_mode) == 0o600
    wrong = doctor(facts.root, "--only", "dokcer")
    assert (wrong.returncode, "no check 'dokcer'" in wrong.stderr) == (2, True)


def test_no_secret_is_ever_shown(facts: Facts) -> None:
    value = "tok_never_to_be_seen_0123456789"
    write(facts.root / "secrets.env", f"KAGGLE_API_TOKEN={value}\nMONGODB_URI=mongodb://a:{value}@h/d\n").chmod(0o600)
    write(facts.root / "code" / "notes.py", f'T = "{value}"\n')
    commit(facts.root)
    done = doctor(facts.root)
    assert "a secret of yours stands in code/notes.py" in done.stdout
    assert value not in done.stdout + done.stderr


def test_a_check_that_hangs_or_fails_is_not_the_end(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    from kaggle_workbench.doctor import examine as module

    def wrong(_: Facts) -> Result:
        raise ZeroDivisionError("oh")

    waits = threading.Event()
    checks = (
        *(Check(f"hangs {number}", "", lambda _: (waits.wait(30) and passed("")) or passed("")) for number in range(9)),
        Check("breaks", "", wrong),
        Check("fine", "", lambda _: passed("yes")),
    )
    import importlib

    examining = importlib.import_module("kaggle_workbench.doctor.examine")
    monkeypatch.setattr(examining, "CHECKS", checks)
    monkeypatch.setattr(examining, "LIMIT_S", 1.0)
    began = time.monotonic()
    found = {check.id: result for check, result in module(facts)}
    assert time.monotonic() - began < 4, "nine that hang take no longer than one"
    waits.set()
    for number in range(9):
        hangs = found[f"hangs {number}"]
        assert (hangs.state, "took longer" in hangs.found) == ("not checked", True)
    assert (found["breaks"].state, "ZeroDivisionError" in found["breaks"].found) == ("not checked", True)
    assert found["fine"].state == "passed"


def test_an_error_names_the_check_that_explains_it(facts: Facts) -> None:
    def caught(action: Callable[[], object]) -> WorkbenchError:
        with pytest.raises(WorkbenchError) as error:
            action()
        return error.value

    from kaggle_workbench import envfiles
    from kaggle_workbench.container.endpoints import find_endpoint
    from kaggle_workbench.hostpaths import host_folder

    write(facts.root / "odd.env", "no setting\n")
    assert check_of(caught(lambda: envfiles.read(facts.root / "odd.env"))) == "settings"
    assert check_of(caught(lambda: host_folder("D:\\x", wsl=False))) == "folders"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{facts.root}/none.sock")
        assert check_of(caught(find_endpoint)) == "docker"
    assert check_of(UsageError("of no room")) == ""
    assert check_of(MissingError("of no room")) == ""
    done = subprocess.run(
        [sys.executable, "-m", "kaggle_workbench", "gpus"],
        cwd=facts.root, env={**os.environ, "GPU_COUNT": "many"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "More: ./kwb doctor --only settings" in done.stderr
    known = {check.id for check in CHECKS}
    from kaggle_workbench.doctor import explains

    assert {check for _, check in explains._ROOMS} <= known


def test_online_asks_kaggle_what_only_it_can_tell(tmp_path: Path) -> None:
    """The real client against the stand-in for Kaggle: credentials, rules, submissions and GPU hours left."""
    from arena_tools import tiny_competition
    from kaggle_machines import Machines
    from project_tools import make_project

    tiny_competition(tmp_path / "hosted", "tiny-digits", side=8, rules={"text": "x", "acceptance_required": True})
    with Machines(tmp_path / "kaggle", [tmp_path / "hosted"], quota_s=3600) as machines:
        made = make_project(tmp_path, env=machines.environment(tmp_path / "client"))
        made.env["PYTHONPATH"] = str(ROOT / "code")
        (made.folder / "variables.env").write_text("COMPETITION=tiny-digits\n")
        words = ("doctor", "--format", "json", "--only", "kaggle", "rules", "submissions", "quota")
        quiet = {row["check"]: row for row in json.loads(made.kwb(*words).stdout)}
        assert {row["state"] for row in quiet.values()} == {"not checked"}
        assert machines.calls("GetCompetition") == []
        found = {row["check"]: row for row in json.loads(made.kwb(*words, "--online").stdout)}
        assert (found["kaggle"]["state"], "knows these credentials" in found["kaggle"]["found"]) == ("passed", True)
        assert found["rules"]["state"] == "failed"
        assert "/competitions/tiny-digits/rules" in found["rules"]["fix"]
        assert (found["submissions"]["state"], "left today" in found["submissions"]["found"]) == ("passed", True)
        assert (found["quota"]["state"], "1.0 of 1 GPU hours left" in found["quota"]["found"]) == ("warned", True)
        made.env["KAGGLE_API_TOKEN"] = "KGAT_" + "0" * 32
        refused = {row["check"]: row for row in json.loads(made.kwb(*words, "--online").stdout)}
        assert refused["kaggle"]["state"] == "failed"
        assert refused["kaggle"]["fix"]
        assert machines.changes() == []
