"""What `kwb up` decides without an engine: variables, Containerfile, which engine, GPUs, image lock."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kaggle_workbench.container import gpus, lock, relock
from kaggle_workbench.container.board import board_app, board_path
from kaggle_workbench.container.endpoints import find_endpoint
from kaggle_workbench.container.engine_errors import GpuRefusedError, PortTakenError, engine_error, pull_error
from kaggle_workbench.container.environment import collect, read_as_docker
from kaggle_workbench.container.folders import Owner
from kaggle_workbench.container.image import recipe
from kaggle_workbench.container.plan import Options, describe, make_plan
from kaggle_workbench.container.running import remote_hint
from kaggle_workbench.container.spec import read_spec
from kaggle_workbench.container.spec_model import Spec
from kaggle_workbench.container.state import State
from kaggle_workbench.errors import MissingError, UsageError, WorkError
from kaggle_workbench.settings import SETTINGS, load_settings

REPOSITORY = Path(__file__).resolve().parents[1]
ME = Owner(os.getuid(), os.getgid())


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*SETTINGS, "DOCKER_HOST", "DOCKER_CONTEXT", "SSH_CONNECTION", "KWB_PLACE", "NVWB_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".project").mkdir(parents=True)
    for name in (
        ".project/spec.yaml",
        ".project/image.lock",
        "requirements.txt",
        "apt.txt",
        "preBuild.bash",
        "postBuild.bash",
    ):
        (root / name).write_bytes((REPOSITORY / name).read_bytes())
    (root / "variables.env").write_text("COMPETITION=titanic\n")
    return root


@pytest.fixture
def spec(project: Path) -> Spec:
    return read_spec(project / ".project/spec.yaml")


# Variables


def test_env_files_are_read_as_docker_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "variables.env"
    file.write_text('# comment\n\nA=1\n  B="two"\nC=a=b # not a comment\nD=\n')
    assert read_as_docker(file) == {"A": "1", "B": '"two"', "C": "a=b # not a comment", "D": ""}


def test_variables_and_secrets_of_a_container(project: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "variables.env").write_text("COMPETITION=titanic\nINPUT_DIR=/data/in\nMINE=1\nGPU_COUNT=2\n")
    (project / "secrets.env").write_text("KAGGLE_KEY=abc\nOTHER_SECRET=xyz\nKAGGLE_USERNAME=\n")
    (project / "secrets.env").chmod(0o600)
    monkeypatch.setenv("KAGGLE_API_TOKEN", "from-environment")
    monkeypatch.setenv("EPOCHS", "3")
    settings = load_settings(start=project)
    ask = gpus.asked_for(spec, settings, None)
    assert (ask.count, ask.origin) == (2, "GPU_COUNT in variables.env")
    variables = collect(spec, settings, gpus.decide(ask, None, 0))
    assert variables.plain == {
        "COMPETITION": "titanic",
        "MINE": "1",
        "EPOCHS": "3",
        "GPU_COUNT": "0",
        "KWB_PLACE": "container",
        "INPUT_DIR": "/project/data/input",
    }
    assert variables.secret == {"KAGGLE_KEY": "abc", "OTHER_SECRET": "xyz", "KAGGLE_API_TOKEN": "from-environment"}
    assert variables.missing == ("KAGGLE_USERNAME", "MONGODB_URI", "TUNE_STORAGE")
    assert "abc" not in repr(variables)


def test_a_plan_shows_secrets_by_name_only(project: Path) -> None:
    (project / "secrets.env").write_text("KAGGLE_KEY=abc123secret\n")
    plan = make_plan(project, Options(gpus=0, port=9000), None)
    text = describe(plan) + json.dumps(plan.to_dict()) + repr(plan)
    assert "KAGGLE_KEY" in text
    assert "abc123secret" not in text
    assert "--publish 127.0.0.1:9000:8888" in text
    assert "--publish 127.0.0.1::6006" in text
    assert "COMPETITION=titanic" in text
    token = plan.state.open().token()
    assert "abc123secret" not in json.dumps(plan.labels(token))
    (project / "secrets.env").write_text("KAGGLE_KEY=abc123changed\n")
    now = make_plan(project, Options(gpus=0, port=9000), None).parts(token)
    assert [part for part, mark in plan.parts(token).items() if now[part] != mark] == ["secrets"]


def test_tensorboard_is_published_beside_jupyterlab_under_a_path_that_is_a_secret(project: Path, spec: Spec) -> None:
    plan = make_plan(project, Options(gpus=0), None)
    token = plan.state.open().token()
    assert plan.ports(1, 2) == {8888: 1, 6006: 2}
    assert [port["app"] for port in plan.to_dict()["ports"]] == ["jupyterlab", "tensorboard"]
    app = board_app(spec)
    assert app is not None
    path = board_path(spec, app, token)
    assert re.fullmatch(r"/projects/kaggle-workbench/applications/tensorboard/[0-9a-f]{32}", path)
    assert path == board_path(spec, app, token) != board_path(spec, app, "another token")
    shown = describe(plan) + json.dumps(plan.to_dict()) + json.dumps(plan.labels(token)) + repr(plan)
    assert path.rpartition("/")[2] not in shown
    # A spec without it, or with both apps at one port: then JupyterLab alone is published.
    text = (project / ".project/spec.yaml").read_text()
    for changed in (text.replace("type: tensorboard", "type: custom"), text.replace('port: "6006"', 'port: "8888"')):
        (project / ".project/spec.yaml").write_text(changed)
        alone = make_plan(project, Options(gpus=0), None)
        assert (alone.board, alone.ports(1, 2)) == (None, {8888: 1})
        assert "TensorBoard's port" in [
            name for name, mark in alone.parts(token).items() if plan.parts(token)[name] != mark
        ]


def test_the_state_folder_is_private_and_survives_damage(project: Path) -> None:
    state = State(project).open()
    token = state.token()
    assert (state.token(), len(token)) == (token, 48)
    assert (state.folder.stat().st_mode & 0o777, (state.folder / "token").stat().st_mode & 0o777) == (0o700, 0o600)
    (state.folder / "machine.json").write_text("{broken")
    assert state.load().mounts == {}
    (state.folder / "token").write_text("")
    assert len(state.token()) == 48


# The image


def test_the_containerfile_has_the_steps_in_order_and_is_deterministic(project: Path, spec: Spec) -> None:
    made = recipe(project, spec, owner=Owner(1001, 1002))
    text = made.containerfile
    wanted = [
        "FROM gcr.io/kaggle-gpu-images/python:v",
        "WORKDIR /opt/project/build/",
        "useradd -u 1001 -g 1002",
        "install -y sudo gosu",
        "ENV NVWB_UID=1001",
        'RUN ["/bin/bash", "/opt/project/build/preBuild.bash"]',
        'COPY ["entrypoint.sh", "/"]',
        "install -y curl git procps",
        "RUN /usr/local/bin/pip install --user -r /opt/project/build/requirements.txt",
        'RUN ["/bin/bash", "/opt/project/build/postBuild.bash"]',
        "USER workbench\nWORKDIR /project",
        'ENTRYPOINT ["/entrypoint.sh"]\nCMD ["tail", "-f", "/dev/null"]',
    ]
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    assert "--chmod" not in text
    again = recipe(project, spec, owner=Owner(1001, 1002))
    assert (again.tag, sha256(again.context()).digest()) == (made.tag, sha256(made.context()).digest())
    with tarfile.open(fileobj=BytesIO(made.context())) as context:
        names = context.getnames()
    assert names == sorted(
        ["Containerfile", "apt.txt", "entrypoint.sh", "postBuild.bash", "preBuild.bash", "requirements.txt"]
    )
    (project / "notes.txt").write_text("not a build file")
    assert recipe(project, spec, owner=Owner(1001, 1002)).tag == made.tag
    (project / "requirements.txt").write_text("tqdm\n")
    assert recipe(project, spec, owner=Owner(1001, 1002)).tag != made.tag
    assert recipe(project, spec, owner=Owner(1, 1)).tag != again.tag


def test_build_files_that_say_nothing_are_left_out(project: Path, spec: Spec) -> None:
    for name in ("requirements.txt", "apt.txt", "preBuild.bash", "postBuild.bash"):
        (project / name).write_text("#!/bin/bash\n# nothing yet\n\n")
    text = recipe(project, spec, owner=ME).containerfile
    assert not any(
        f"/opt/project/build/{name}" in text for name in ("requirements.txt", "preBuild.bash", "postBuild.bash")
    )
    (project / "apt.txt").write_text("# tools\ngit  curl\n")
    with pytest.raises(UsageError, match=r"apt\.txt, line 2"):
        recipe(project, spec, owner=ME)
    (project / "apt.txt").write_bytes(b"git\r\n")
    with pytest.raises(UsageError, match="Windows line ends"):
        recipe(project, spec, owner=ME)


def test_users_of_other_kinds(project: Path, spec: Spec) -> None:
    base = spec.environment.base
    own = replace(base, user_info=replace(base.user_info, username="rapids", uid="1001", gid="1000"))
    rapids = replace(spec, environment=replace(spec.environment, base=own))
    text = recipe(project, rapids, owner=Owner(1234, 1234)).containerfile
    assert "usermod -u 1234 -g 1234 rapids" in text
    assert "USER rapids" in text
    same = recipe(project, rapids, owner=Owner(1001, 1000)).containerfile
    assert "usermod" not in same
    assert "useradd" not in same
    rootless = recipe(project, spec, owner=Owner(0, 0)).containerfile
    assert "ENV NVWB_USERNAME=root" in rootless
    assert "useradd" not in rootless


# Where the engine is


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield f"unix://{path}"


def test_docker_host_then_context(listening: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    meta = tmp_path / "docker/contexts/meta" / sha256(b"mine").hexdigest() / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": "mine", "Endpoints": {"docker": {"Host": listening}}}))
    (tmp_path / "docker/config.json").write_text(json.dumps({"currentContext": "mine"}))
    found = find_endpoint()
    assert (found.url, found.source) == (listening, "the Docker context 'mine'")
    monkeypatch.setenv("DOCKER_CONTEXT", "nobody")
    with pytest.raises(UsageError, match="nobody"):
        find_endpoint()
    monkeypatch.setenv("DOCKER_HOST", listening)
    assert find_endpoint().source == "DOCKER_HOST"


@pytest.mark.parametrize("host", ["ssh://me@far.example", "tcp://192.0.2.1:2375"])
def test_an_engine_on_another_machine_is_told_apart(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(UsageError, match="another machine") as caught:
        find_endpoint()
    assert "unset DOCKER_HOST" in caught.value.hint


def test_a_local_tcp_engine_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
    with pytest.raises(MissingError, match="No container engine answers"):
        find_endpoint()


def test_the_line_for_a_remote_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    assert remote_hint(8888) == ""
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.9 22")
    assert remote_hint(8888).startswith("ssh -N -L 8888:127.0.0.1:8888 ")
    assert remote_hint(8888).endswith("@192.0.2.9")
    assert remote_hint(8888, 6006).startswith("ssh -N -L 8888:127.0.0.1:8888 -L 6006:127.0.0.1:6006 ")


def test_what_an_engines_words_mean() -> None:
    assert isinstance(engine_error("x", "Bind for 127.0.0.1:80 failed: port is already allocated"), PortTakenError)
    assert isinstance(
        engine_error("x", 'could not select device driver "" with capabilities: [[gpu]]'), GpuRefusedError
    )
    assert "is full" in str(engine_error("x", "write /a: no space left on device"))
    assert "File sharing" in str(engine_error("x", "invalid mount: bind source path does not exist: /a"))
    away = pull_error("gcr.io/a/b:v1", "dial tcp: lookup gcr.io: no such host")
    assert "gcr.io cannot be reached" in str(away)
    assert "has no image" in str(pull_error("gcr.io/a/b:v1", "manifest for gcr.io/a/b:v1 not found: manifest unknown"))
    assert "docker login ghcr.io" in str(pull_error("ghcr.io/a/b:1", "unauthorized: authentication required"))


# GPUs


def engine(*, podman: bool = False, **info: Any) -> Any:
    return SimpleNamespace(info=info, is_podman=podman, name="Podman 5" if podman else "Docker 28")


def test_gpu_decisions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpus, "CDI_FOLDERS", (tmp_path,))
    monkeypatch.setenv("PATH", str(tmp_path))
    ask = gpus.Ask(1, "--gpus")
    nvidia = engine(Runtimes={"runc": {}, "nvidia": {}})
    given = gpus.decide(ask, nvidia, 2)
    assert (given.given, given.route, given.line) == (1, "nvidia", "Computes on: 1 GPU (1 GPU asked for by --gpus).")
    assert gpus.decide(gpus.Ask(0, "--gpus"), nvidia, 2).given == 0
    assert "no NVIDIA driver" in gpus.decide(ask, nvidia, 0).line
    assert "does not work (broken)" in gpus.decide(ask, nvidia, 0, "broken.").line
    few = gpus.decide(gpus.Ask(3, "--gpus"), nvidia, 2)
    assert (few.given, "only 2 GPUs" in few.line, "kwb up --gpus 2" in few.line) == (0, True, True)
    plain = gpus.decide(ask, engine(Runtimes={"runc": {}}), 1)
    assert "neither NVIDIA's runtime nor a CDI" in plain.line
    assert "nvidia-ctk runtime configure" in plain.fix
    podman = gpus.decide(ask, engine(podman=True), 1)
    assert "nvidia-ctk cdi generate" in podman.fix
    cdi = engine(Runtimes={}, DiscoveredDevices=[{"Source": "cdi", "ID": "nvidia.com/gpu=0"}])
    assert gpus.decide(ask, cdi, 1).route == "cdi"
    (tmp_path / "nvidia.yaml").write_text("")
    assert gpus.decide(ask, engine(podman=True), 1).route == "cdi"
    for decision in (plain, few):
        assert "\n" not in decision.line
        with pytest.raises(MissingError):
            gpus.require(decision)
    with pytest.raises(UsageError, match="contradicts"):
        gpus.require(gpus.decide(gpus.Ask(0, "--gpus"), nvidia, 2))


# The lock


def test_the_committed_lock_claims_nothing_it_cannot_know() -> None:
    found = lock.read_lock(REPOSITORY / lock.LOCK_FILE)
    assert found is not None
    spec = read_spec(REPOSITORY / ".project/spec.yaml")
    assert found.names(spec.environment.base.reference)
    assert found.is_seen or (found.digest is None and found.packages == {})
    done = subprocess.run(["git", "check-ignore", "-q", str(lock.LOCK_FILE)], cwd=REPOSITORY, check=False)
    assert done.returncode == 1


def test_moving_the_lock_moves_the_spec_and_shows_the_differences(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{project}/nobody.sock")
    path = project / lock.LOCK_FILE
    known = replace(
        lock.unseen("gcr.io/kaggle-gpu-images/python:v170"), digest="sha256:1", python="3.12.1", packages={"numpy": "2"}
    )
    lock.write_lock(path, known)
    assert lock.read_lock(path) == known
    changes = {row["field"]: row for row in relock.relock("v171", start=project)}
    assert (changes["tag"]["before"], changes["tag"]["now"]) == ("v170", "v171")
    assert changes["digest"]["now"] == changes["numpy"]["now"] == "not yet known"
    assert read_spec(project / ".project/spec.yaml").environment.base.tag == "v171"
    assert lock.read_lock(path) == lock.unseen("gcr.io/kaggle-gpu-images/python:v171")
    for bad in ("latest", "a b", ""):
        with pytest.raises(UsageError):
            relock.relock(bad, start=project)
    with pytest.raises(MissingError):
        relock.relock(start=project)
    path.write_text("{")
    with pytest.raises(UsageError, match="damaged"):
        relock.show(start=project)


def test_another_image_under_the_locked_name_is_refused() -> None:
    reference = "gcr.io/kaggle-gpu-images/python:v170"
    known = replace(lock.unseen(reference), digest="sha256:aaa")
    same = {"RepoDigests": ["gcr.io/kaggle-gpu-images/python@sha256:aaa"]}
    lock.require_same(known, reference, same)
    lock.require_same(known, "kwb-small:1", {"RepoDigests": []})
    with pytest.raises(WorkError, match="sha256:bbb instead of sha256:aaa") as caught:
        lock.require_same(known, reference, {"RepoDigests": ["gcr.io/kaggle-gpu-images/python@sha256:bbb"]})
    assert "kwb image lock" in caught.value.hint


def test_the_launcher_needs_no_framework() -> None:
    code = (
        "import sys; import kaggle_workbench.container.launcher, kaggle_workbench.container.relock; "
        "import kaggle_workbench.cli; kaggle_workbench.cli._parser(); "
        "heavy = ('docker', 'pandas', 'numpy', 'tensorflow', 'keras', 'kaggle'); "
        "print([name for name in heavy if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "code")},
    )
    assert done.stdout.strip() == "[]"
