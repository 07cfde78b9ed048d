"""`kwb up` on a real engine, over a base image of our own that stands in for Kaggle's (see engine_tools)."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine_tools as tools
import fake_nvml
from kaggle_workbench.callbacks import eventfiles

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.xdist_group("docker")]

USER = 1234
SECRET = "KGAT_0123456789abcdef0123456789abcdef"
NAMES = (
    "alpha",
    "twin",
    "roots",
    "starts",
    "gpus",
    "hook",
    "crash",
    "board",
    "late",
    "stopped",
    "ports",
    "other",
    "full",
    "real",
)
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def base() -> str:
    tools.require_engine()
    return tools.base_image()


@pytest.fixture(scope="module")
def client(base: str) -> Any:
    return tools.api()


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder for all projects of this module; what still runs at the end is taken down."""
    # Not pytest's own folder: users other than root must be able to reach their project.
    folder = Path(tempfile.mkdtemp(prefix="kwb-container-")).resolve()
    folder.chmod(0o755)
    yield folder
    for project in folder.iterdir():
        if (project / ".project").is_dir():
            kwb(project, "down")
    client = tools.api()
    for image in client.images(filters={"label": "kwb.content"}):
        for tag in image["RepoTags"] or []:
            if tag.partition(":")[0] in {f"project-{name}" for name in NAMES}:
                client.remove_image(tag, force=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def alpha(place: Path, base: str) -> Path:
    """A project that belongs to a user, brought up by root, with a secret."""
    project = tools.make_project(place / "alpha", "alpha", base, files={"secrets.env": f"KAGGLE_API_TOKEN={SECRET}\n"})
    (project / "secrets.env").chmod(0o600)
    tools.give(project, USER)
    started = kwb(project, "up")
    assert started.returncode == 0, started.stderr
    return project


def state_of(project: Path) -> Path:
    folder = project.parent / f"state-of-{project.name}"
    folder.mkdir(exist_ok=True)
    return folder


def kwb(project: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return tools.kwb(project, *words, state=state_of(project), **more)


def containers(client: Any, project: Path) -> list[dict[str, Any]]:
    rows = client.containers(all=True, filters={"label": [f"kwb.root={project}"]})
    return [client.inspect_container(row["Id"]) for row in rows]


def inside(project: Path, command: str) -> str:
    answer = kwb(project, "shell", "--", "bash", "-c", command)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def status_code(url: str) -> int:
    try:
        with OPENER.open(url, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def token_of(url: str) -> str:
    return url.strip().partition("token=")[2]


# The running container


def test_the_printed_address_opens_and_needs_its_token(alpha: Path, client: Any) -> None:
    url = kwb(alpha, "url").stdout.strip()
    assert status_code(url) == 200
    api = url.partition("?")[0].rstrip("/") + "/api/contents"
    assert status_code(api) == 403
    assert status_code(f"{api}?token={token_of(url)}") == 200
    found = containers(client, alpha)[0]
    bindings = [binding for ports in found["NetworkSettings"]["Ports"].values() for binding in ports or []]
    assert [binding["HostIp"] for binding in bindings] == ["127.0.0.1"] * 2
    assert found["Name"] == "/project-alpha"


def test_secrets_and_token_stay_where_they_belong(alpha: Path, client: Any) -> None:
    token = token_of(kwb(alpha, "url").stdout)
    found = containers(client, alpha)[0]
    assert inside(alpha, "printenv KAGGLE_API_TOKEN").strip() == SECRET
    token_files = list(state_of(alpha).rglob("token"))
    assert [stat.S_IMODE(path.stat().st_mode) for path in token_files] == [0o600]
    lines = inside(alpha, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'")
    assert "jupyterlab" in lines
    history = json.dumps(client.history(found["Image"])) + json.dumps(client.inspect_image(found["Image"]))
    log = client.logs(found["Id"]).decode() + kwb(alpha, "logs", "container").stdout
    app_log = kwb(alpha, "logs").stdout
    assert "ServerApp" in app_log
    for text in (lines, history, log, app_log, json.dumps(found["Config"]["Labels"]), kwb(alpha, "status").stdout):
        assert token not in text
        assert SECRET not in text
    plan = kwb(alpha, "up", "--dry-run")
    assert "KAGGLE_API_TOKEN" in plan.stdout
    assert SECRET not in plan.stdout + plan.stderr


def test_the_container_is_the_users_and_has_no_sudo(alpha: Path) -> None:
    assert inside(alpha, "id -u; id -g; id -un").split() == [str(USER), str(USER), "workbench"]
    assert kwb(alpha, "shell", "--", "sudo", "-n", "true").returncode != 0
    assert inside(alpha, "echo $KWB_PLACE $COLOUR $NVWB_UID").split() == ["container", "blue", str(USER)]
    assert inside(alpha, "df -m /dev/shm | awk 'NR == 2 { print $2 }'").strip() == "4096"
    inside(alpha, "echo made > /project/data/output/made.txt; mkdir -p /project/data/input/competitions/x")
    owners = {path: path.lstat().st_uid for path in (alpha, *alpha.rglob("*"))}
    assert (alpha / "data/output/made.txt").read_text() == "made\n"
    assert {path for path, owner in owners.items() if owner != USER} == set()


def test_up_again_is_quick_and_changes_nothing(alpha: Path, client: Any) -> None:
    before = containers(client, alpha)[0]["Id"]
    url = kwb(alpha, "url").stdout
    start = time.monotonic()
    again = kwb(alpha, "up")
    assert time.monotonic() - start < 3
    assert (again.returncode, again.stdout) == (0, url)
    assert "Computes on: the CPU" in again.stderr
    assert containers(client, alpha)[0]["Id"] == before


def test_status_and_json(alpha: Path) -> None:
    status = json.loads(kwb(alpha, "status", "--format", "json").stdout)
    assert (status["state"], status["jupyterlab"], status["container"]) == ("running", "up", "project-alpha")
    started = json.loads(kwb(alpha, "up", "--format", "json").stdout)
    assert started["url"].startswith(status["address"])


def test_tensorboard_shows_the_runs_at_an_address_that_cannot_be_guessed(alpha: Path, client: Any) -> None:
    runs = alpha / "data/output/runs"
    events = eventfiles.head(1.0) + eventfiles.written(eventfiles.Event(1, 1.0, {"epoch/loss": 0.5}))
    (runs / "mine/tensorboard/train").mkdir(parents=True)
    (runs / "mine/tensorboard/train" / eventfiles.new_name([], 1.0)).write_bytes(events)
    started = json.loads(kwb(alpha, "up", "--format", "json").stdout)
    url, port = started["tensorboard"], started["tensorboard_port"]
    assert kwb(alpha, "url", "tensorboard").stdout.strip() == url
    assert f"TensorBoard: {url}" in kwb(alpha, "up").stderr
    assert json.loads(kwb(alpha, "status", "--format", "json").stdout)["tensorboard"] == "up"
    assert status_code(url) == 200
    # Without the random part there is nothing, and JupyterLab's token does not help.
    above = url.rstrip("/").rpartition("/")[0]
    for elsewhere in (f"http://127.0.0.1:{port}/", f"{above}/", f"{above}/data/runs?token={token_of(started['url'])}"):
        assert status_code(elsewhere) == 404
    end = time.monotonic() + 60
    while (
        found := OPENER.open(f"{url}data/plugin/scalars/tags", timeout=5).read()
    ) == b"{}" and time.monotonic() < end:
        time.sleep(1)
    assert set(json.loads(found)["mine/tensorboard/train"]) == {"epoch/loss"}
    secret = url.rstrip("/").rpartition("/")[2]
    found = json.dumps(containers(client, alpha)[0])
    assert secret not in found + kwb(alpha, "logs", "tensorboard").stdout + kwb(alpha, "status").stdout


def test_a_tensorboard_that_died_is_started_again_and_concerns_nothing_else(alpha: Path, client: Any) -> None:
    before = containers(client, alpha)[0]["Id"]
    url = kwb(alpha, "url", "tensorboard").stdout.strip()
    inside(alpha, "pkill -f '^python3 -m tensorboard'; sleep 1")
    assert kwb(alpha, "url", "tensorboard").returncode == 3
    status = json.loads(kwb(alpha, "status", "--format", "json").stdout)
    assert (status["jupyterlab"], status["tensorboard"]) == ("up", "down")
    again = kwb(alpha, "up")
    assert again.returncode == 0, again.stderr
    assert "TensorBoard does not run; starting it" in again.stderr
    assert f"TensorBoard: {url}" in again.stderr
    assert status_code(url) == 200
    assert containers(client, alpha)[0]["Id"] == before


def test_on_a_remote_machine_the_tunnel_is_printed(alpha: Path) -> None:
    started = json.loads(kwb(alpha, "up", "--format", "json").stdout)
    answer = kwb(alpha, "up", env={"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.9 2222"})
    ways = " ".join(f"-L {port}:127.0.0.1:{port}" for port in (started["port"], started["tensorboard_port"]))
    assert re.search(rf"ssh -N {ways} -p 2222 \w+@192.0.2.9", answer.stderr)
    assert answer.stdout.startswith("http://127.0.0.1")


def test_a_jupyterlab_that_died_is_started_again_in_the_same_container(alpha: Path, client: Any) -> None:
    before = containers(client, alpha)[0]["Id"]
    inside(alpha, "pkill -f '^python3 -m jupyterlab'; sleep 1")
    assert kwb(alpha, "url").returncode == 3
    again = kwb(alpha, "up")
    assert again.returncode == 0, again.stderr
    assert status_code(again.stdout.strip()) == 200
    assert containers(client, alpha)[0]["Id"] == before


def test_a_changed_variable_or_secret_restarts_without_a_build(alpha: Path, client: Any) -> None:
    inside(alpha, "echo kept > /project/data/output/kept.txt")
    before = containers(client, alpha)[0]
    (alpha / "variables.env").write_text("COLOUR=red\n")
    answer = kwb(alpha, "up")
    assert answer.returncode == 0, answer.stderr
    assert "Changed: variables" in answer.stderr
    assert "Building" not in answer.stderr
    middle = containers(client, alpha)
    assert len(middle) == 1
    assert middle[0]["Id"] != before["Id"]
    assert middle[0]["Image"] == before["Image"]
    assert inside(alpha, "echo $COLOUR").strip() == "red"
    (alpha / "secrets.env").write_text(f"KAGGLE_API_TOKEN={SECRET[:-1]}x\n")
    answer = kwb(alpha, "up")
    assert "Changed: secrets" in answer.stderr
    assert SECRET[:-1] not in answer.stderr
    assert (alpha / "data/output/kept.txt").read_text() == "kept\n"


def test_a_changed_spec_restarts_and_a_changed_build_file_rebuilds(alpha: Path, client: Any) -> None:
    image = containers(client, alpha)[0]["Image"]
    spec = alpha / ".project/spec.yaml"
    spec.write_text(spec.read_text().replace("sharedMemoryMB: 4096", "sharedMemoryMB: 128"))
    answer = kwb(alpha, "up")
    assert "Changed: .project/spec.yaml" in answer.stderr
    assert containers(client, alpha)[0]["Image"] == image
    assert inside(alpha, "df -m /dev/shm | awk 'NR == 2 { print $2 }'").strip() == "128"
    (alpha / "postBuild.bash").write_text(
        f"# {time.time()}\nid -un > /tmp/built-by; test ! -e /project/data; sudo -n true\n"
    )
    answer = kwb(alpha, "up")
    assert answer.returncode == 0, answer.stderr
    assert "Building the image" in answer.stderr
    assert containers(client, alpha)[0]["Image"] != image
    assert inside(alpha, "cat /tmp/built-by").strip() == "workbench"
    assert (alpha / "data/output/kept.txt").is_file()


def test_a_failing_build_says_why_and_leaves_the_running_container(alpha: Path, client: Any) -> None:
    before = containers(client, alpha)[0]["Id"]
    good = (alpha / "postBuild.bash").read_text()
    (alpha / "postBuild.bash").write_text("echo the reason is here; exit 7\n")
    answer = kwb(alpha, "up")
    (alpha / "postBuild.bash").write_text(good)
    assert answer.returncode == 1
    assert "could not be built: step" in answer.stderr
    assert "postBuild.bash" in answer.stderr
    assert "the reason is here" in answer.stderr
    assert [found["Id"] for found in containers(client, alpha)] == [before]


def test_data_survive_a_killed_container(alpha: Path, client: Any) -> None:
    before = containers(client, alpha)[0]["Id"]
    client.kill(before)
    assert "ended" in kwb(alpha, "status").stdout
    answer = kwb(alpha, "up")
    assert answer.returncode == 0, answer.stderr
    assert status_code(answer.stdout.strip()) == 200
    assert [found["Id"] for found in containers(client, alpha)] != [before]
    assert (alpha / "data/output/kept.txt").is_file()


def test_the_image_lock_holds_what_is_inside(alpha: Path) -> None:
    lock = json.loads((alpha / ".project/image.lock").read_text())
    assert (lock["git_commit"], lock["build_date"]) == ("0123456789abcdef", "20260801-000000")
    assert lock["packages"]["tensorflow"] == tools.STAND_IN_TENSORFLOW
    assert lock["python"].startswith("3.")
    assert lock["architectures"]
    assert lock["digest"] is None
    assert "not yet known" in kwb(alpha, "image", "show").stdout
    before = (alpha / ".project/spec.yaml").read_text()
    shown = kwb(alpha, "image", "lock", "--tag", "v999", "--dry-run", "--format", "json")
    changes = {row["field"]: row for row in json.loads(shown.stdout)}
    assert changes["tag"]["now"] == "v999"
    assert changes["tensorflow"]["now"] == "not yet known"
    assert (alpha / ".project/spec.yaml").read_text() == before
    assert kwb(alpha, "image", "lock").returncode == 0
    assert json.loads((alpha / ".project/image.lock").read_text()) == lock


def test_down_twice(alpha: Path, client: Any) -> None:
    assert kwb(alpha, "down").returncode == 0
    assert containers(client, alpha) == []
    assert kwb(alpha, "down").returncode == 0
    assert kwb(alpha, "url").returncode == 3
    assert (alpha / "data/output/kept.txt").is_file()
    assert "ServerApp" in kwb(alpha, "logs").stdout


# Other callers, other projects


def test_two_projects_of_one_name_side_by_side_by_a_user_who_is_not_root(place: Path, base: str) -> None:
    urls = []
    for folder in ("one", "two"):
        project = tools.make_project(place / folder, "twin", base)
        state = state_of(project)
        tools.give(project, 1500)
        tools.give(state, 1500)
        answer = kwb(project, "up", user=1500)
        assert answer.returncode == 0, answer.stderr
        urls.append(answer.stdout.strip())
        assert inside(project, "id -u").strip() == "1500"
        inside(project, "echo x > /project/data/output/x; echo x > /project/data/input/x")
        assert {path.lstat().st_uid for path in (project, *project.rglob("*"))} == {1500}
        assert {path.lstat().st_uid for path in (state, *state.rglob("*"))} == {1500}
    assert [status_code(url) for url in urls] == [200, 200]
    for folder in ("one", "two"):
        assert kwb(place / folder, "down", user=1500).returncode == 0


def test_a_root_caller_in_a_root_folder_gets_uid_1000_also_when_the_image_has_that_user(
    place: Path, base: str, tmp_path: Path
) -> None:
    project = tools.make_project(place / "roots", "roots", base)
    # As after a clone and a run as root: the project's own data folders, and what is in them, are root's.
    (project / "data" / "output" / "runs" / "before").mkdir(parents=True)
    (project / "data" / "input").mkdir()
    first = kwb(project, "up")
    assert first.returncode == 0, first.stderr
    assert "now belongs to the container's user (uid 1000)" in first.stderr
    assert inside(project, "mkdir /project/data/output/runs/after && echo x > /project/data/output/runs/before/y") == ""
    folders = [tmp_path / "in put", tmp_path / "out/put"]
    answer = kwb(project, "up", "--input", str(folders[0]), "--output", str(folders[1]))
    assert answer.returncode == 0, answer.stderr
    assert "cannot be saved inside" in answer.stderr
    assert inside(project, "id -u; id -un; echo $HOME").split() == ["1000", "workbench", "/home/workbench"]
    inside(project, "echo x > /project/data/output/x && echo y > /project/data/input/y && echo z > ~/z")
    assert [(folders[1] / "x").stat().st_uid, (folders[0] / "y").stat().st_uid] == [1000, 1000]
    assert {(project / "data" / name).stat().st_uid for name in ("input", "output")} == {1000}
    # The folders are kept for this machine.
    again = kwb(project, "up")
    assert "Changed" not in again.stderr
    assert kwb(project, "down").returncode == 0


def test_on_start_runs_as_the_user_and_its_failure_ends_the_start(place: Path, base: str, client: Any) -> None:
    project = tools.make_project(
        place / "starts",
        "starts",
        base,
        files={"onStart.bash": "id -un > /tmp/who; sudo -n id -un >> /tmp/who\n"},
        owner=USER,
    )
    assert kwb(project, "up").returncode == 0
    assert inside(project, "cat /tmp/who").split() == ["workbench", "root"]
    assert kwb(project, "down").returncode == 0
    (project / "onStart.bash").write_text("echo no licence here; exit 4\n")
    answer = kwb(project, "up")
    assert answer.returncode == 1
    assert "no licence here" in answer.stderr
    assert containers(client, project) == []


# GPUs


def test_no_nvidia_runtime_means_cpu_said_in_one_line(place: Path, base: str, tmp_path: Path, client: Any) -> None:
    project = tools.make_project(place / "gpus", "gpus", base, owner=USER)
    for words, said in ((("--gpus", "0"), "asked for by --gpus"), (("--gpus", "1"), "no NVIDIA driver")):
        answer = kwb(project, "up", *words)
        assert answer.returncode == 0, answer.stderr
        lines = [line for line in answer.stderr.splitlines() if line.startswith("Computes on: the CPU")]
        assert len(lines) == 1
        assert said in lines[0]
        assert inside(project, "echo $GPU_COUNT").strip() == "0"
        assert kwb(project, "down").returncode == 0
    refused = kwb(project, "up", "--gpus", "1", "--require-gpu")
    assert refused.returncode == 3
    assert "Install NVIDIA's driver" in refused.stderr
    driver = fake_nvml.environment(tmp_path / "nvml", 1)
    refused = kwb(project, "up", "--require-gpu", env=driver)
    assert refused.returncode == 3
    assert "neither NVIDIA's runtime nor a CDI description" in refused.stderr
    assert "nvidia-ctk runtime configure" in refused.stderr
    assert containers(client, project) == []


def test_an_engine_that_refuses_the_gpu_at_the_start(place: Path, base: str, tmp_path: Path, client: Any) -> None:
    """NVIDIA's hook is on the path, so the GPU is tried; this engine then says that it knows no such driver."""
    project = tools.make_project(place / "hook", "hook", base, owner=USER)
    hook = tmp_path / "bin/nvidia-container-runtime-hook"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    env = {**fake_nvml.environment(tmp_path / "nvml", 1), "PATH": f"{hook.parent}:{os.environ['PATH']}"}
    refused = kwb(project, "up", "--require-gpu", env=env)
    assert refused.returncode == 3, refused.stderr
    assert containers(client, project) == []
    few = kwb(project, "up", "--gpus", "2", "--dry-run", env=env)
    assert "only 1 GPU" in few.stdout
    assert "kwb up --gpus 1" in few.stdout
    answer = kwb(project, "up", env=env)
    assert answer.returncode == 0, answer.stderr
    assert "Computes on: the CPU. 1 GPU asked for by .project/spec.yaml, but Docker" in answer.stderr
    assert inside(project, "echo $GPU_COUNT").strip() == "0"
    again = kwb(project, "up", env=env)
    assert "Changed" not in again.stderr
    assert "Computes on: the CPU" in again.stderr
    assert kwb(project, "down").returncode == 0


# What goes wrong


def test_a_jupyterlab_that_crashes_at_start(place: Path, base: str, client: Any) -> None:
    project = tools.make_project(place / "crash", "crash", base, owner=USER)
    spec = project / ".project/spec.yaml"
    spec.write_text(spec.read_text().replace("--no-browser ", "--no-browser --ServerApp.port=not-a-port ", 1))
    answer = kwb(project, "up")
    assert answer.returncode == 1
    assert "ended with exit code" in answer.stderr
    assert "not-a-port" in answer.stderr
    assert containers(client, project) == []
    assert "not-a-port" in kwb(project, "logs").stdout


def test_a_tensorboard_that_crashes_at_start(place: Path, base: str, client: Any) -> None:
    project = tools.make_project(place / "board", "board", base, owner=USER)
    spec = project / ".project/spec.yaml"
    spec.write_text(spec.read_text().replace("--bind_all", "--no-such-option", 1))
    answer = kwb(project, "up")
    assert answer.returncode == 0, answer.stderr
    assert status_code(answer.stdout.strip()) == 200
    assert "Warning: tensorboard ended with exit code" in answer.stderr
    assert "--no-such-option" in answer.stderr
    assert "TensorBoard: http" not in answer.stderr
    assert kwb(project, "down").returncode == 0
    assert "--no-such-option" in kwb(project, "logs", "tensorboard").stdout


def test_a_jupyterlab_that_is_not_up_in_time(place: Path, base: str, client: Any) -> None:
    project = tools.make_project(place / "late", "late", base, owner=USER)
    spec = project / ".project/spec.yaml"
    text = re.sub(
        r"start_command: python3 -m jupyterlab.*", "start_command: echo waiting for nothing; sleep 60", spec.read_text()
    )
    spec.write_text(text.replace("timeout_seconds: 120", "timeout_seconds: 2", 1))
    answer = kwb(project, "up")
    assert answer.returncode == 1
    assert "was not up after 2 s" in answer.stderr
    assert "waiting for nothing" in answer.stderr
    assert containers(client, project) == []


def test_a_stopped_start_leaves_no_container(place: Path, base: str, client: Any) -> None:
    project = tools.make_project(place / "stopped", "stopped", base, owner=USER)
    spec = project / ".project/spec.yaml"
    spec.write_text(re.sub(r"start_command: python3 -m jupyterlab.*", "start_command: sleep 300", spec.read_text()))
    process = subprocess.Popen(
        [sys.executable, "-m", "kaggle_workbench", "up"],
        cwd=project,
        env=tools.environment(state_of(project)),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Starting"):
            break
    process.send_signal(2)
    assert process.wait(30) == 130
    assert containers(client, project) == []


def test_a_port_that_is_taken(place: Path, base: str, client: Any) -> None:
    project = tools.make_project(place / "ports", "ports", base, owner=USER)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = kwb(project, "up", "--port", str(port))
        assert answer.returncode == 3
        assert f"Port {port} of 127.0.0.1 is in use" in answer.stderr
        assert containers(client, project) == []
    # The port of the last time is taken: another one is found by itself.
    first = kwb(project, "up")
    assert first.returncode == 0, first.stderr
    old = json.loads(kwb(project, "up", "--format", "json").stdout)["port"]
    assert kwb(project, "down").returncode == 0
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", old))
        taken.listen()
        second = json.loads(kwb(project, "up", "--format", "json").stdout)
        assert second["port"] != old
        assert status_code(second["url"]) == 200
    assert kwb(project, "down").returncode == 0


def test_an_image_that_is_nowhere(place: Path, base: str, client: Any) -> None:
    project = tools.make_project(place / "nowhere", "nowhere", base, owner=USER)
    answer = kwb(project, "up", "--base", "registry.invalid/some/image:v1")
    assert answer.returncode == 3
    assert "registry.invalid cannot be reached" in answer.stderr
    assert containers(client, project) == []


def test_another_base_for_this_machine_leaves_the_lock_alone(place: Path, base: str, client: Any) -> None:
    project = tools.make_project(place / "other", "other", base, owner=USER)
    spec = project / ".project/spec.yaml"
    name, tag = base.split(":")
    spec.write_text(spec.read_text().replace(f":{tag}", ":v0"))
    client.tag(base, "kwb-test-small", "v1")
    answer = kwb(project, "up", "--base", "kwb-test-small:v1")
    assert answer.returncode == 0, answer.stderr
    assert not (project / ".project/image.lock").exists()
    assert json.loads(kwb(project, "image", "show", "--format", "json").stdout)["image"] == "kwb-test-small"
    again = kwb(project, "up")
    assert "Changed" not in again.stderr
    assert again.stdout == answer.stdout
    assert kwb(project, "down").returncode == 0
    assert kwb(project, "up", "--base", "spec", "--dry-run").stdout.count(f"{name}:v0") > 1


def test_no_engine_is_told_apart(place: Path, base: str, tmp_path: Path) -> None:
    project = tools.make_project(place / "none", "none", base, owner=1500)
    tools.give(state_of(project), 1500)
    gone = kwb(project, "up", env={"DOCKER_HOST": f"unix://{tmp_path}/gone.sock"})
    assert gone.returncode == 3
    assert "not running" in gone.stderr
    dead = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    stopped = kwb(project, "up", env={"DOCKER_HOST": f"unix://{dead}"})
    assert stopped.returncode == 3
    assert "nobody answers" in stopped.stderr
    planned = kwb(project, "up", "--dry-run", env={"DOCKER_HOST": f"unix://{dead}"})
    assert planned.returncode == 0
    assert "FROM docker.io/library/" in planned.stdout
    assert "docker run" in planned.stdout
    assert "No container engine to ask" in planned.stderr
    refused = kwb(project, "up", user=1500, groups=[])
    assert refused.returncode == 3
    assert "may not use the container engine" in refused.stderr
    assert "usermod -aG docker" in refused.stderr
    remote = kwb(project, "up", env={"DOCKER_HOST": "ssh://me@far.example"})
    assert remote.returncode == 2
    assert "another machine (far.example)" in remote.stderr


def test_a_disk_that_fills_up_during_the_build(place: Path, base: str, client: Any) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small disk of our own needs root")
    project = tools.make_project(
        place / "full",
        "full",
        "kwb-test-tools:1",
        files={"postBuild.bash": "head -c 3G /dev/zero > ~/big\n"},
        owner=USER,
    )
    with tools.small_engine(client, place, "kwb-test-tools:1") as (url, daemon):
        answer = kwb(project, "up", env={"DOCKER_HOST": url})
        assert answer.returncode == 3
        assert "disk that holds the container engine's images is full" in answer.stderr
        assert "docker system df" in answer.stderr
        assert tools.api(url).containers(all=True) == []
        tools.stop(daemon)
        stopped = kwb(project, "up", env={"DOCKER_HOST": url})
        assert stopped.returncode == 3
        assert "not running" in stopped.stderr
