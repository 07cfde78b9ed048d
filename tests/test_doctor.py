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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kaggle_workbench.doctor import CHECKS, Check, Facts, Result, check_of, examine, mend
from kaggle_workbench.doctor.check import passed
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError

ROOT = Path(__file__).resolve().parent.parent
OLD, NEW = "470.82.01", "570.86.15"


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


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "x")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def look(facts: Facts, check: str) -> Result:
    # Facts read files once; a second look is at new ones.
    return examine(replace(facts), only=[check])[0][1]


def run_mend(facts: Facts, command: str) -> None:
    """A command of the mend, as a person would paste it."""
    subprocess.run(["sh", "-c", command], cwd=facts.root, check=True, timeout=60, env={**os.environ, **facts.environ})


@dataclass
class Broken:
    """One set-up: what breaks it, which check names it how, and its mend.

    `mended` does what the mend says ("fix": `--fix` itself; text: a command that stands in the mend).
    """

    check: str
    break_it: Callable[[Facts], Facts | None]
    found: str
    mended: str | Callable[[Facts, Result], Facts | None]
    state: str = "failed"


def system(**files: str) -> Callable[[Facts], None]:
    def change(facts: Facts) -> None:
        for name, text in files.items():
            write(facts.path(name.replace("__", "/")), text)

    return change


def driver(version: str) -> str:
    return f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Wed Jan 1 00:00:00 UTC 2026\n"


def gpu_machine(facts: Facts, version: str = NEW, libraries: str = NEW) -> Facts:
    write(facts.path("sys/bus/pci/devices/0000:01:00.0/vendor"), "0x10de\n")
    write(facts.path("sys/bus/pci/devices/0000:01:00.0/class"), "0x030200\n")
    if version:
        write(facts.path("proc/driver/nvidia/version"), driver(version))
    if libraries:
        write(facts.path(f"usr/lib64/libnvidia-ml.so.{libraries}"), "")
    return facts


def changed(facts: Facts, **environ: str) -> Facts:
    return replace(facts, environ={**facts.environ, **environ})


def baked_in(facts: Facts) -> None:
    gpu_machine(facts)
    write(facts.path("usr/lib/x86_64-linux-gnu/libcuda.so.515.43.04"), "")


def stubs(facts: Facts) -> Facts:
    folder = write(facts.path("usr/local/cuda/lib64/stubs/libcuda.so"), "").parent
    return changed(facts, LD_LIBRARY_PATH=f"{folder}:/other")


def outputs_committed(facts: Facts) -> None:
    path = facts.root / "code" / "01-data.ipynb"
    document = json.loads(path.read_text())
    cell = next(cell for cell in document["cells"] if cell["cell_type"] == "code")
    cell["outputs"], cell["execution_count"] = [{"output_type": "stream", "name": "stdout", "text": ["x"]}], 1
    path.write_text(json.dumps(document))
    commit(facts.root)


def secret_committed(facts: Facts) -> None:
    write(facts.root / "secrets.env", "KAGGLE_KEY=0123456789abcdef\n")
    git(facts.root, "add", "-f", "secrets.env")
    git(facts.root, "commit", "-q", "-m", "oops")


def secret_in_history(facts: Facts) -> None:
    secret_committed(facts)
    git(facts.root, "rm", "-q", "--cached", "secrets.env")
    git(facts.root, "commit", "-q", "-m", "out again")


def own_token_in_a_notebook(facts: Facts) -> None:
    write(facts.root / "secrets.env", "KAGGLE_API_TOKEN=tok_0123456789abcdef0123\n").chmod(0o600)
    write(facts.root / "code" / "notes.py", 'TOKEN = "tok_0123456789abcdef0123"\n')
    commit(facts.root)


def token_shape(facts: Facts) -> None:
    write(facts.root / "code" / "notes.py", f'TOKEN = "KGAT_{"a1" * 16}"\n')
    commit(facts.root)


def drop_ignored(facts: Facts) -> None:
    path = facts.root / ".gitignore"
    path.write_text(path.read_text().replace("secrets.env\n", ""))


def lfs_pointer(facts: Facts) -> None:
    write(facts.root / "code" / "02-train.ipynb", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


def lfs_rule(facts: Facts) -> None:
    write(facts.root / ".gitattributes", "* text=auto\n*.ipynb filter=lfs diff=lfs merge=lfs -text\n")


def line(name: str, text: str) -> Callable[[Facts], None]:
    def change(facts: Facts) -> None:
        path = facts.root / name
        path.write_text((path.read_text() if path.is_file() else "") + text + "\n")

    return change


def without_line(name: str, text: str) -> Callable[[Facts, Result], None]:
    def change(facts: Facts, _: Result) -> None:
        path = facts.root / name
        path.write_text(path.read_text().replace(text + "\n", ""))

    return change


def other_line(name: str, old: str, new: str) -> Callable[[Facts, Result], None]:
    def change(facts: Facts, _: Result) -> None:
        path = facts.root / name
        path.write_text(path.read_text().replace(old, new))

    return change


def crlf(facts: Facts) -> None:
    path = facts.root / "preBuild.bash"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def other_image(facts: Facts) -> None:
    path = facts.root / ".project" / "image.lock"
    path.write_text(path.read_text().replace('"v170"', '"v149"'))


def locked_image(facts: Facts, _: Result) -> None:
    # What `kwb image lock` writes; the engine it would ask is tested in test_container.py.
    path = facts.root / ".project" / "image.lock"
    path.write_text(path.read_text().replace('"v149"', '"v170"'))


def broken_spec(facts: Facts) -> None:
    path = facts.root / ".project" / "spec.yaml"
    path.write_text(path.read_text().replace("specVersion: v2", "specVersion: v9", 1))


def moved_venv(facts: Facts) -> None:
    (facts.root / ".venv" / "bin").mkdir(parents=True)
    (facts.root / ".venv" / "bin" / "python").symlink_to("/nowhere/python3")


def dangling(facts: Facts) -> None:
    folder = facts.root / "data" / "input"
    folder.rmdir()
    folder.symlink_to(facts.root / "gone")


def file_in_place(facts: Facts) -> None:
    folder = facts.root / "data" / "output"
    folder.rmdir()
    folder.write_text("")


def moved_away(facts: Facts, _: Result) -> None:
    (facts.root / "data" / "output").rename(facts.root / "data" / "output.old")
    (facts.root / "data" / "output").mkdir()


def missing_folder(facts: Facts) -> None:
    shutil.rmtree(facts.root / "data" / "output")


def wsl(facts: Facts, release: str = "5.15.153.1-microsoft-standard-WSL2", **files: str) -> Facts:
    write(facts.path("proc/sys/kernel/osrelease"), release + "\n")
    for name, text in files.items():
        write(facts.path(name.replace("__", "/")), text)
    return facts


def windows_disk(facts: Facts) -> None:
    wsl(facts, proc__mounts=f"none / ext4 rw 0 0\nC: {facts.root} 9p rw 0 0\n")


def linux_disk(facts: Facts, _: Result) -> None:
    write(facts.path("proc/mounts"), "none / ext4 rw 0 0\n")


def token_file(facts: Facts) -> None:
    write(facts.home / ".kaggle" / "access_token", "tok_0123456789abcdef").chmod(0o644)


def old_token(facts: Facts) -> None:
    path = write(facts.home / ".kaggle" / "access_token", "tok_0123456789abcdef")
    path.chmod(0o600)
    os.utime(path, (0, 0))


def new_token(facts: Facts, _: Result) -> None:
    os.utime(facts.home / ".kaggle" / "access_token")


def half_json(facts: Facts) -> None:
    write(facts.home / ".kaggle" / "kaggle.json", '{"username": "a"').chmod(0o600)


def whole_json(facts: Facts, _: Result) -> None:
    write(facts.home / ".kaggle" / "kaggle.json", '{"username": "a", "key": "b"}').chmod(0o600)


def killed_install(facts: Facts) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    write(facts.root / ".venv.lock" / "pid", f"{child.pid}\n")


BROKEN = {
    "environment whose Python is gone": Broken("venv", moved_venv, "no working Python", "rm -rf .venv"),
    "an ARM processor": Broken(
        "architecture", lambda facts: replace(facts, machine="aarch64"), "x86_64 alone",
        lambda facts, _: replace(facts, machine="x86_64"), "warned",
    ),
    "little memory": Broken(
        "memory", system(proc__meminfo="MemTotal:        2000000 kB\n"), "2.0 GB",
        lambda facts, _: system(proc__meminfo="MemTotal:       16000000 kB\n")(facts), "warned",
    ),
    "a GPU without a driver": Broken(
        "nvidia-driver", lambda facts: gpu_machine(facts, version=""), "no driver is loaded",
        lambda facts, _: gpu_machine(facts),
    ),
    "an old driver": Broken(
        "nvidia-driver", lambda facts: gpu_machine(facts, OLD), f"driver {OLD} is older",
        lambda facts, _: gpu_machine(facts, NEW),
    ),
    "a missing driver library": Broken(
        "nvidia-library", lambda facts: gpu_machine(facts, libraries=""), "libnvidia-ml.so.1 is missing",
        lambda facts, _: gpu_machine(facts),
    ),
    "a baked-in driver library": Broken("nvidia-library", baked_in, "libcuda.so.515.43.04 is of another version",
        lambda facts, result: run_mend(facts, result.fix.partition("(")[2].partition(")")[0]),
    ),
    "stubs on the path": Broken(
        "nvidia-library", stubs, "empty stubs", lambda facts, _: changed(facts, LD_LIBRARY_PATH="/other")
    ),
    "containers without a route to the GPU": Broken(
        "nvidia-runtime", gpu_machine, "toolkit is not installed",
        lambda facts, _: system(etc__docker__daemon_json="")(facts)
        or (write(facts.path("etc/cdi/nvidia.yaml"), "cdiVersion: 0.5.0\n") and None),
    ),
    "Docker that does not know the runtime": Broken(
        "nvidia-runtime", lambda facts: write(gpu_machine(facts).path("usr/bin/nvidia-ctk"), "") and None,
        "does not know NVIDIA's runtime",
        lambda facts, _: write(facts.path("etc/docker/daemon.json"), '{"runtimes": {"nvidia": {}}}') and None,
    ),
    "GPU_COUNT and no GPU": Broken(
        "gpu-count", line("variables.env", "GPU_COUNT=2"), "there is no GPU",
        other_line("variables.env", "GPU_COUNT=2", "GPU_COUNT=0"), "warned",
    ),
    "GPU_COUNT that is no number": Broken(
        "gpu-count", line("variables.env", "GPU_COUNT=all"), "'all'", without_line("variables.env", "GPU_COUNT=all")
    ),
    "WSL 1": Broken(
        "wsl", lambda facts: wsl(facts, "4.4.0-19041-Microsoft"), "WSL 1", lambda facts, _: wsl(facts)
    ),
    "project on a Windows disk": Broken("mounts", windows_disk, "9p); a small file", linux_disk, "warned"),
    "WSL with little memory": Broken(
        "wsl-memory",
        lambda facts: wsl(facts, proc__meminfo="MemTotal: 4000000 kB\n",
                          **{"mnt__c__Users__me__.wslconfig": "[wsl2]\nmemory=4GB\n"}),
        "memory=4GB",
        lambda facts, _: wsl(facts, proc__meminfo="MemTotal: 16000000 kB\n"), "warned",
    ),
    "Windows path on Linux": Broken(
        "folders", line("variables.env", "INPUT_DIR=D:\\kaggle"), "path of Windows",
        other_line("variables.env", "D:\\kaggle", "data/input"),
    ),
    "folder that is a broken link": Broken(
        "folders", dangling, "leads nowhere",
        lambda facts, result: run_mend(facts, result.fix.partition(": ")[2])
        or (facts.root / "data" / "input").mkdir(),
    ),
    "folder that is a file": Broken("folders", file_in_place, "is a file", moved_away),
    "folder that is missing": Broken("folders", missing_folder, "is missing", "fix", "warned"),
    "secrets that others may read": Broken(
        "secrets", lambda facts: write(facts.root / "secrets.env", "KAGGLE_KEY=x\n").chmod(0o644), "mode 0644", "fix"
    ),
    "secret in variables.env": Broken(
        "settings", line("variables.env", "KAGGLE_KEY=0123456789abcdef"), "KAGGLE_KEY is a secret",
        without_line("variables.env", "KAGGLE_KEY=0123456789abcdef"),
    ),
    "misspelt setting": Broken(
        "settings", line("variables.env", "COMPETITON=titanic"), "did you mean COMPETITION",
        without_line("variables.env", "COMPETITON=titanic"), "warned",
    ),
    "quotes in variables.env": Broken(
        "settings", line("variables.env", 'SEED="3"'), "quotes", other_line("variables.env", 'SEED="3"', "SEED=3")
    ),
    "line that is no setting": Broken(
        "settings", line("variables.env", "SEED 3"), "no NAME=VALUE", other_line("variables.env", "SEED 3", "SEED=3")
    ),
    "broken spec": Broken(
        "spec", broken_spec, "spec.yaml, line", lambda facts, _: run_mend(facts, "git checkout .project/spec.yaml")
    ),
    "missing spec": Broken(
        "spec", lambda facts: (facts.root / ".project" / "spec.yaml").unlink(), "no .project/spec.yaml",
        "git checkout .project/spec.yaml",
    ),
    "lock of another image": Broken("lock", other_image, "the lock", locked_image),
    "requirement that moves TensorFlow": Broken(
        "lock", line("requirements.txt", "tensorflow==2.16.1"), "moves tensorflow",
        without_line("requirements.txt", "tensorflow==2.16.1"),
    ),
    "Windows' line ends": Broken("scripts", crlf, "preBuild.bash", "fix"),
    "script that may not be executed": Broken(
        "scripts", lambda facts: (facts.root / "kwb").chmod(0o644), "may not be executed", "fix"
    ),
    "missing script": Broken(
        "scripts", lambda facts: (facts.root / "postBuild.bash").unlink(), "missing: postBuild.bash",
        "git checkout postBuild.bash",
    ),
    "installation that was killed": Broken("left-behind", killed_install, "which is gone", "fix", "warned"),
    "outputs committed": Broken(
        "notebooks", outputs_committed, "outputs are in git in code/01-data.ipynb",
        lambda facts, result: mend([(named("notebooks"), result)]) and commit(facts.root),
    ),
    "secret file committed": Broken(
        "git-secrets", secret_committed, "secrets.env is versioned", "git rm --cached secrets.env"
    ),
    "own token in a file": Broken(
        "git-secrets", own_token_in_a_notebook, "a secret of yours stands in code/notes.py",
        lambda facts, _: (facts.root / "code" / "notes.py").unlink() or commit(facts.root),
    ),
    "what looks like a token": Broken(
        "git-secrets", token_shape, "looks like a secret",
        lambda facts, _: (facts.root / "code" / "notes.py").unlink() or commit(facts.root),
    ),
    "secret in the history": Broken(
        "git-history", secret_in_history, "is in the history",
        lambda facts, result: run_mend(facts, result.fix.rpartition(": ")[2]),
    ),
    "secrets not ignored": Broken("git-ignore", drop_ignored, "secrets.env", "fix"),
    "notebook that is an LFS pointer": Broken(
        "git-lfs", lfs_pointer, "pointer of Git LFS",
        lambda facts, _: run_mend(facts, "git checkout code/02-train.ipynb"),
    ),
    "rule that puts notebooks into LFS": Broken(
        "git-lfs", lfs_rule, "puts notebooks into LFS",
        without_line(".gitattributes", "*.ipynb filter=lfs diff=lfs merge=lfs -text"),
    ),
    "token file that others may read": Broken("credentials", token_file, "mode 0644", "fix"),
    "stale token": Broken("credentials", old_token, "days old", new_token, "warned"),
    "broken kaggle.json": Broken("credentials", half_json, "cannot be read as JSON", whole_json),
    "half a pair": Broken(
        "credentials", line("secrets.env", "KAGGLE_USERNAME=a"), "KAGGLE_KEY is not",
        lambda facts, _: line("secrets.env", "KAGGLE_KEY=b")(facts),
    ),
    "Kaggle wanted without credentials": Broken(
        "credentials", line("variables.env", "SOURCE=kaggle"), "SOURCE=kaggle asks for some",
        without_line("variables.env", "SOURCE=kaggle"),
    ),
}  # fmt: skip


def named(check: str) -> Check:
    return next(each for each in CHECKS if each.id == check)


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
        Check("hangs", "", lambda _: (waits.wait(30) and passed("")) or passed("")),
        Check("breaks", "", wrong),
        Check("fine", "", lambda _: passed("yes")),
    )
    import importlib

    examining = importlib.import_module("kaggle_workbench.doctor.examine")
    monkeypatch.setattr(examining, "CHECKS", checks)
    monkeypatch.setattr(examining, "LIMIT_S", 0.3)
    found = {check.id: result for check, result in module(facts)}
    waits.set()
    assert (found["hangs"].state, "took longer" in found["hangs"].found) == ("not checked", True)
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
