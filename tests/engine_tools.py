"""A real container engine for the tests, and a base image that stands in for Kaggle's.

No image can be fetched where the tests run, so they make one: Debian from debootstrap, Python with
a pip that installs as Kaggle's does (as root into /usr/local, not "externally managed"), JupyterLab
and what else the notebooks need from the package index, and a stand-in for TensorFlow's metadata.
This machine's own set-up for the package index is copied in at run time; nothing of it is in git.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
DOCKERD_SECONDS = 60
ROOT_IMAGE = "kwb-test-root"
BASE_IMAGE = "kwb-test-base"
STAND_IN_TENSORFLOW = "2.19.0"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PACKAGES = (
    "jupyterlab",
    "ipywidgets",
    "pandas",
    "matplotlib",
    "scikit-learn",
    "kaggle",
    "kagglehub",
    "papermill",
    "psutil",
    "flask",
    "waitress",
    "python-dotenv",
    "filelock",
    "tqdm",
    "ruamel.yaml",
    "nvidia-ml-py",
    "docker",
    "keras",
    "tensorboard",
)
_DOCKERFILE = f"""
FROM {ROOT_IMAGE}:@root@
COPY apt/ /etc/apt/
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    python3 python3-pip git curl procps ca-certificates
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY pip.conf /etc/pip.conf
RUN rm -f /usr/lib/python3*/EXTERNALLY-MANAGED && python3 -m pip install --upgrade pip && \
    ln -s /usr/bin/python3 /usr/local/bin/python3 && test -x /usr/local/bin/pip
RUN pip install --no-cache-dir {" ".join(_PACKAGES)}
COPY stand-in/ /usr/local/lib/stand-in/
RUN pip install --no-cache-dir --no-build-isolation --no-deps /usr/local/lib/stand-in || \
    pip install --no-cache-dir --no-deps /usr/local/lib/stand-in
RUN useradd -u 1000 -m ubuntu && echo 0123456789abcdef > /etc/git_commit && echo 20260801-000000 > /etc/build_date
ENTRYPOINT ["/usr/bin/env"]
"""
_STAND_IN = f"""
[project]
name = "tensorflow"
version = "{STAND_IN_TENSORFLOW}"
description = "Stand-in of the tests for the TensorFlow of Kaggle's image"
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[tool.setuptools]
packages = []
"""


def require_engine() -> None:
    """Make sure that an engine answers; elsewhere than in CI the test is skipped when none can be had."""
    if _answers():
        return
    reason = "no container engine answers here"
    if os.geteuid() == 0 and shutil.which("dockerd"):
        if start_dockerd(Path("/tmp/kwb-test-dockerd.log")) is not None:
            return
        reason = "dockerd does not start; see /tmp/kwb-test-dockerd.log"
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; in CI the container tests must run")
    pytest.skip(reason)


def start_dockerd(
    log: Path, *arguments: str, socket: str = "unix:///var/run/docker.sock", before: Sequence[str] = ()
) -> subprocess.Popen[bytes] | None:
    """Start a dockerd of our own, ended with this process; None when it does not come up."""
    with log.open("wb") as file:
        daemon = subprocess.Popen(
            [*before, "dockerd", "--host", socket, *arguments], stdout=file, stderr=file, start_new_session=True
        )
    atexit.register(stop, daemon)
    end = time.monotonic() + DOCKERD_SECONDS
    while time.monotonic() < end and daemon.poll() is None:
        if _answers(socket):
            return daemon
        time.sleep(0.3)
    stop(daemon)
    return None


def stop(daemon: subprocess.Popen[bytes]) -> None:
    """End a process that we started."""
    if daemon.poll() is None:
        daemon.terminate()
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait(10)


def api(socket: str | None = None) -> Any:
    """The `docker` package's client, for looking at what kwb did."""
    import docker

    return docker.APIClient(
        base_url=socket or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock", timeout=600
    )


def base_image() -> str:
    """The stand-in base, made once a machine; its tag comes from what it is made of."""
    client = api()
    root = sha256(_codename().encode()).hexdigest()[:12]
    files = _base_files(root)
    tag = sha256(json.dumps({name: sha256(text).hexdigest() for name, text in sorted(files.items())}).encode())
    name = f"{BASE_IMAGE}:{tag.hexdigest()[:12]}"
    if not client.images(name=name):
        if not client.images(name=f"{ROOT_IMAGE}:{root}"):
            _import_root(client, f"{ROOT_IMAGE}:{root}")
        build(client, files, name)
    return name


def build(client: Any, files: dict[str, bytes], tag: str) -> None:
    """Build an image from a context in memory."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    archive.seek(0)
    output = []
    for event in client.build(fileobj=archive, custom_context=True, tag=tag, rm=True, forcerm=True, decode=True):
        output.append(event.get("stream", ""))
        if "error" in event:
            pytest.fail("the stand-in base could not be built:\n" + "".join(output)[-3000:] + event["error"])


def make_project(
    folder: Path, name: str, base: str, *, files: dict[str, str] | None = None, owner: int | None = None
) -> Path:
    """A small project: our own spec under another name on the stand-in base, with only the given build files."""
    (folder / ".project").mkdir(parents=True)
    (folder / ".project/spec.yaml").write_text(_spec(name, base))
    (folder / "variables.env").write_text("COLOUR=blue\n")
    for path, text in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    if owner is not None:
        give(folder, owner)
    return folder


def copy_repository(folder: Path, name: str, base: str, *, owner: int) -> Path:
    """This repository as a person clones it, under another name on the stand-in base."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    for path in filter(None, listed.stdout.decode().split("\0")):
        if (REPOSITORY / path).is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / path, folder / path)
    (folder / ".project/spec.yaml").write_text(_spec(name, base))
    give(folder, owner)
    return folder


def give(folder: Path, owner: int) -> None:
    """Make everything in a folder belong to a user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)


def kwb(
    project: Path,
    *words: str,
    state: Path,
    user: int | None = None,
    env: dict[str, str] | None = None,
    groups: list[int] | None = None,
    timeout: int = 400,
) -> subprocess.CompletedProcess[str]:
    """Run the command in a project, in a clean environment, as this user or another one."""
    variables = {**environment(state), **(env or {})}
    python, identity = sys.executable, {}
    if user is not None:
        wanted = [Path("/var/run/docker.sock").stat().st_gid] if groups is None else groups
        identity = {"user": user, "group": user, "extra_groups": wanted}
        if not _may_run(python, user):
            # This environment's Python lies in root's home; the system's own can use the same packages.
            python = "/usr/bin/python3"
            packages = next(path for path in sys.path if path.endswith("site-packages"))
            variables["PYTHONPATH"] += os.pathsep + packages
    return subprocess.run(
        [python, "-m", "kaggle_workbench", *words],
        cwd=project,
        env=variables,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
        **identity,
    )


def environment(state: Path) -> dict[str, str]:
    """A clean environment for the command, with its state in a folder of its own."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(state),
        "XDG_STATE_HOME": str(state),
        "PYTHONPATH": str(REPOSITORY / "code"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
    kept = {name: os.environ[name] for name in ("DOCKER_HOST",) if os.environ.get(name)}
    return variables | kept


@contextmanager
def small_engine(client: Any, folder: Path, image: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A second engine whose disk is a small one in memory and holds one image: Debian with sudo and gosu."""
    root = sha256(_codename().encode()).hexdigest()[:12]
    if not client.images(name=image):
        install = "apt-get update && apt-get install -y --no-install-recommends sudo gosu"
        build(client, {"Dockerfile": f"FROM {ROOT_IMAGE}:{root}\nRUN {install}\n".encode()}, image)
    disk = folder / "small-engine"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1400m", "tmpfs", str(disk)], check=True)
    url = f"unix://{disk}/docker.sock"
    daemon = None
    try:
        arguments = ["--data-root", f"{disk}/data", "--exec-root", f"{disk}/exec", "--pidfile", f"{disk}/pid"]
        # In a network of its own: a dockerd takes the bridge of any other on the machine away.
        apart = ["unshare", "--net"]
        daemon = start_dockerd(folder / "small-engine.log", *arguments, "--bridge=none", socket=url, before=apart)
        assert daemon is not None, (folder / "small-engine.log").read_text()[-2000:]
        api(url).load_image(b"".join(client.get_image(image)))
        yield url, daemon
    finally:
        if daemon is not None:
            stop(daemon)
        subprocess.run(["umount", "--recursive", "--lazy", str(disk)], check=False)
        disk.rmdir()


def _may_run(program: str, user: int) -> bool:
    try:
        done = subprocess.run([program, "-c", ""], user=user, group=user, extra_groups=[], check=False)
    except PermissionError:
        return False
    return done.returncode == 0


def _spec(name: str, base: str) -> str:
    spec = (REPOSITORY / ".project/spec.yaml").read_text()
    registry, _, image = f"docker.io/library/{base}".partition("/")
    spec = spec.replace("name: kaggle-workbench", f"name: {name}", 1)
    spec = spec.replace("image: project-kaggle-workbench", f"image: project-{name}", 1)
    spec = spec.replace("registry: gcr.io", f"registry: {registry}", 1)
    old = next(line.strip() for line in spec.splitlines() if "kaggle-gpu-images/python" in line)
    return spec.replace(old, f"image: {image}", 1)


def _answers(socket: str | None = None) -> bool:
    import docker
    from docker.errors import DockerException

    try:
        url = socket or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        return bool(docker.APIClient(base_url=url, timeout=5).ping())
    except (DockerException, OSError):
        return False


def _import_root(client: Any, name: str) -> None:
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        reason = "the stand-in base image needs debootstrap and root"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = Path("/var/tmp") / f"kwb-test-root-{os.getpid()}"
    try:
        words = ["debootstrap", "--variant=minbase", _codename(), str(folder), _mirror()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            pytest.fail("debootstrap failed:\n" + (done.stdout + done.stderr)[-3000:])
        repository, tag = name.split(":")
        with subprocess.Popen(["tar", "-C", str(folder), "-c", "."], stdout=subprocess.PIPE) as tar:
            client.import_image_from_data(tar.stdout, repository=repository, tag=tag)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _base_files(root: str) -> dict[str, bytes]:
    files = {
        "Dockerfile": _DOCKERFILE.replace("@root@", root).encode(),
        "stand-in/pyproject.toml": _STAND_IN.encode(),
        "pip.conf": _pip_config().encode(),
        "ca-certificates.crt": CERTIFICATES.read_bytes(),
    }
    for path in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")):
        if path.is_file() and path.suffix in (".list", ".sources") and "debian" in path.read_text():
            files[f"apt/{path.relative_to('/etc/apt')}"] = path.read_bytes()
    for path in Path("/etc/apt/apt.conf.d").glob("*"):
        if any(word in path.read_text(errors="replace") for word in ("Proxy", "Check-Valid-Until")):
            files[f"apt/apt.conf.d/{path.name}"] = path.read_bytes()
    return files


def _pip_config() -> str:
    """This machine's pip settings that mean something in another file system."""
    words = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    lines = ["[global]", f"cert = {CERTIFICATES}", "root-user-action = ignore", "disable-pip-version-check = true"]
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        value = value.strip("'\"")
        remote = name in ("index-url", "extra-index-url") and "file:" not in value
        if remote or name in ("trusted-host", "proxy", "default-timeout", "timeout"):
            lines.append(f"{name} = {value}")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _codename() -> str:
    text = Path("/etc/os-release").read_text()
    return next(
        (line.split("=")[1].strip('"') for line in text.splitlines() if line.startswith("VERSION_CODENAME")), "stable"
    )


def _mirror() -> str:
    for path in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))):
        if not path.is_file() or path.suffix not in (".list", ".sources"):
            continue
        for line in path.read_text().splitlines():
            words = line.split()
            url = next((word for word in words if word.startswith("http")), "")
            if words[:1] in (["URIs:"], ["deb"]) and url.rstrip("/").endswith(("/debian", "/ubuntu")):
                return url
    return "http://deb.debian.org/debian"
