"""The stand-in for Kaggle's machines, through the real `kaggle` client: what other tests may rely on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import fake_nvml
from arena_tools import kaggle, path_of, raw, tiny_competition
from kaggle_machines import REFUSALS, Machines, why_not
from kaggle_machines.talk import ask, dataset, environment, push, rpc, save
from wheels import make_wheel

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

REF = "tester/my-kernel"
ROOT = Path(__file__).resolve().parent.parent
SLEEPS = "import sys, time\nopen('half.txt', 'w').write('x')\nprint('asleep'); sys.stdout.flush()\ntime.sleep(300)"


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosted")
    tiny_competition(folder, "tiny-table", kind="table", rows=20, test_rows=8)
    tiny_competition(folder, "tiny-code", kind="table", rows=20, test_rows=8, notebooks_only=True)
    tiny_competition(folder, "tiny-rules", kind="table", rules={"text": "Fair.", "acceptance_required": True})
    return folder


@pytest.fixture
def make(tmp_path: Path, hosted: Path) -> Iterator[Callable[..., Machines]]:
    started: list[Machines] = []

    def begin(**options: Any) -> Machines:
        started.append(Machines(tmp_path / f"kaggle-{len(started)}", [hosted], **options).__enter__())
        return started[-1]

    yield begin
    for each in started:
        each.__exit__(None, None, None)


# --- A session ---


def test_a_notebook_runs_with_kaggles_folders_and_nothing_of_this_machine(
    make: Callable[..., Machines], tmp_path: Path
) -> None:
    machines = make()
    (tmp_path / "data").mkdir()
    make_wheel(tmp_path / "data", "brought-along", "1.0")
    dataset(machines, tmp_path / "data", {"runs/one/record.json": b"{}"})
    assert "is being created" in ask(machines, "datasets", "create", "-p", str(tmp_path / "data"), "-r", "zip")
    sources = {
        "competition_sources": ["tiny-table", "tiny-rules"],
        "dataset_sources": [f"{machines.user}/my-dataset", "somebody/unknown"],
    }
    shown = push(
        machines,
        "import importlib.util, json, os, pathlib, socket, subprocess, sys\nseen = {}",
        f"seen['there'] = [p for p in {[str(ROOT / 'code'), str(tmp_path)]!r} if os.path.exists(p)]\n"
        "seen['home'], seen['cwd'] = os.environ['HOME'], os.getcwd()\n"
        "seen['environment'] = sorted(os.environ)\n"
        "seen['package'] = importlib.util.find_spec('kaggle_workbench') is not None",
        "root = pathlib.Path('/kaggle/input')\n"
        "seen['input'] = sorted(str(p.relative_to(root)) for p in root.rglob('*') if p.is_file())\n"
        "folders = ('/kaggle/input', '/usr', '/etc', '/kaggle/lib', '/tmp')\n"
        "seen['writable'] = [p for p in folders if os.access(p, os.W_OK)]",
        "def reach(address):\n    try:\n        socket.create_connection(address, 2)\n"
        "    except OSError as error:\n        return type(error).__name__\n"
        f"seen['out'] = [reach(('127.0.0.1', {urlsplit(machines.url).port})), reach(('192.0.2.1', 80))]",
        "from kaggle_secrets import UserSecretsClient\n"
        "try:\n    UserSecretsClient().get_secret('TOKEN')\n"
        "except Exception as error:\n    seen['secret'] = str(error)",
        "wheel = next(root.rglob('*.whl'))\n"
        "pip = [sys.executable, '-m', 'pip', 'install', '-q', '--no-index', str(wheel)]\n"
        "done = subprocess.run(pip, capture_output=True, text=True)\n"
        "seen['pip'] = done.stderr if done.returncode else __import__('brought_along').__version__",
        "os.makedirs('runs/a')\npathlib.Path('runs/a/seen.json').write_text(json.dumps(seen))\nprint('done')",
        **sources,
    )
    assert "somebody/unknown" in shown
    assert "tiny-rules" in shown
    assert "Kernel version 1 successfully pushed" in shown
    machines.wait(REF)
    assert machines.kernels[REF].status == "COMPLETE", machines.log(REF)
    assert "COMPLETE" in ask(machines, "kernels", "status", REF)
    ask(machines, "kernels", "output", REF, "-p", str(tmp_path / "out"))
    seen = json.loads((tmp_path / "out" / "runs" / "a" / "seen.json").read_text())
    assert seen["there"] == []
    assert (seen["home"], seen["cwd"]) == ("/root", "/kaggle/working")
    assert not any(name.startswith(("KWB", "PYTEST", "http_proxy", "KAGGLE_API")) for name in seen["environment"])
    assert not seen["package"]
    assert seen["input"] == sorted(
        [f"competitions/tiny-table/{name}.csv" for name in ("sample_submission", "test", "train")]
        + [
            "datasets/tester/my-dataset/brought_along-1.0-py3-none-any.whl",
            "datasets/tester/my-dataset/runs/one/record.json",
        ]
    )
    assert seen["writable"] == ["/tmp"]
    assert None not in seen["out"]
    assert "Connection error" in seen["secret"]
    if os.geteuid() == 0:
        assert seen["pip"] == "1.0"
    assert subprocess.run([sys.executable, "-c", "import brought_along"], capture_output=True).returncode
    log = json.loads((tmp_path / "out" / "my-kernel.log").read_text())
    assert [entry["data"] for entry in log if entry["stream_name"] == "stdout"] == ["done\n"]
    assert "my-kernel" in ask(machines, "kernels", "list", "--mine")


def test_files_of_a_dataset_may_appear_late(make: Callable[..., Machines], tmp_path: Path) -> None:
    machines = make(mount_delay_s=2, archives="kept")
    folder = dataset(machines, tmp_path / "data", {"a/a.txt": b"a"})
    ask(machines, "datasets", "create", "-p", str(folder), "-r", "zip")
    look = "import pathlib, time\nfile = pathlib.Path('/kaggle/input/datasets/tester/my-dataset/a.zip')\n"
    wait = "print(file.exists())\nwhile not file.exists(): time.sleep(0.1)\nprint(file.read_bytes()[:2])"
    save(machines, cell=look + wait, datasetDataSources=["tester/my-dataset"])
    assert machines.wait(REF) == "COMPLETE", machines.log(REF)
    assert machines.log(REF).split()[-1] == "b'PK'"


def test_old_layout_outputs_as_input_scripts_and_a_cell_that_raises(
    make: Callable[..., Machines], tmp_path: Path
) -> None:
    packages = {each.name for each in metadata.distributions()} - {"PyYAML"}
    machines = make(layout="old", hide=("sklearn",), packages=packages, gpu_library=fake_nvml.library())
    save(machines, cell="open('a b.txt', 'w').write('x')\nraise ValueError('no luck')")
    assert machines.wait(REF) == "ERROR"
    assert "ValueError: no luck" in machines.log(REF)
    save(machines, cell="open('b.txt', 'w').write('x')")
    assert machines.wait(REF) == "COMPLETE"
    code = """
        import os, pynvml
        pynvml.nvmlInit()
        print(sorted(os.listdir("/kaggle/input")), os.listdir("/kaggle/input/my-kernel"), pynvml.nvmlDeviceGetCount())
        for name in ("yaml", "sklearn", "kaggle_workbench"):
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                print(error)
    """
    status, answer = rpc(
        machines,
        "SaveKernel",
        slug="tester/a-script",
        text=textwrap.dedent(code),
        kernelType="script",
        language="python",
        machineShape="NvidiaTeslaP100",
        competitionDataSources=["tiny-table"],
        kernelDataSources=[REF],
    )
    assert status == 200, answer
    assert machines.wait("tester/a-script") == "COMPLETE", machines.log("tester/a-script")
    assert machines.log("tester/a-script").splitlines() == [
        "['my-kernel', 'tiny-table'] ['b.txt'] 2",
        *(f"No module named '{name}'" for name in ("yaml", "sklearn", "kaggle_workbench")),
    ]
    assert machines.kernels["tester/a-script"].sessions[0].shape == "NvidiaTeslaT4"
    # The first version is still asked for by its number, and what it left before it failed is there.
    assert "ERROR" in ask(machines, "kernels", "status", f"{REF}/1")
    ask(machines, "kernels", "output", f"{REF}/1", "-p", str(tmp_path))
    assert (tmp_path / "a b.txt").exists()


def test_a_session_is_killed_at_its_limit_with_all_it_started(make: Callable[..., Machines], tmp_path: Path) -> None:
    machines = make()
    child = "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '4242'])\n"
    save(machines, cell=child + SLEEPS, machineShape="NvidiaTeslaT4")
    machines.wait_for_log(REF, "asleep")
    assert alive("4242")
    # The limit comes when there is something to lose, however long the start has taken.
    machines.sessions[0].limit_s = time.time() - (machines.sessions[0].started or 0) + 1.5
    followed = ask(machines, "kernels", "logs", REF, "--follow")
    assert "asleep" in followed
    assert machines.wait(REF) == "CANCEL_ACKNOWLEDGED"
    assert machines.sessions[0].billed_s(0) >= machines.sessions[0].limit_s
    assert not alive("4242")
    assert "exceeded the max allowed execution duration" in ask(machines, "kernels", "status", REF)
    ask(machines, "kernels", "output", REF, "-p", str(tmp_path))
    assert [path.name for path in tmp_path.glob("*.*")] == ["my-kernel.log"]
    assert (machines.working(REF) / "half.txt").exists()
    assert "GPU" in ask(machines, "quota")


def test_quota_runs_out_in_the_middle_and_then_no_push_goes_through(make: Callable[..., Machines]) -> None:
    machines = make(quota_s=3 * 3600, outputs_of_killed=True)
    save(machines, cell=SLEEPS, machineShape="NvidiaTeslaT4")
    machines.wait_for_log(REF, "asleep")
    machines.spend("gpu", 3 * 3600)
    assert machines.wait(REF) == "CANCEL_ACKNOWLEDGED"
    assert machines.sessions[-1].outputs == ["half.txt"]
    assert "Kernel push error: Maximum weekly GPU quota of 3.00 hours reached." in push(
        machines, "1", slug="another", machine_shape="NvidiaTeslaT4"
    )
    assert "error" not in save(machines, "on-a-cpu")


def test_sessions_end_with_the_process_of_the_stand_in(tmp_path: Path) -> None:
    code = f"""
        import sys, time
        sys.path[:0] = {[str(ROOT / "code"), str(ROOT / "tests")]!r}
        from pathlib import Path
        from test_kaggle_machines import Machines, save
        with Machines(Path(sys.argv[1])) as machines:
            save(machines, cell="import subprocess; subprocess.Popen(['sleep', '4343']); print('on', flush=True); "
                 "__import__('time').sleep(300)")
            machines.wait_for_log("tester/my-kernel", "on")
            print("running", flush=True)
            time.sleep(300)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    assert alive("4343")
    child.send_signal(signal.SIGKILL)
    child.wait()
    until = time.monotonic() + 10
    while alive("4343") and time.monotonic() < until:
        time.sleep(0.1)
    assert not alive("4343")


def alive(word: str) -> bool:
    """Whether a process has this word in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


# --- Refusals ---


def test_a_session_too_many_is_refused_not_queued(make: Callable[..., Machines]) -> None:
    machines = make(queue_s=300, refused_slugs="burnt")
    for shape, most, name in (("NvidiaTeslaT4", 2, "GPU"), ("TpuV5E8", 1, "TPU"), ("None", 5, "CPU")):
        for number in range(most):
            assert "error" not in save(machines, f"{name.lower()}-{number}-kernel", machineShape=shape)
        refused = save(machines, f"{name.lower()}-more", machineShape=shape)
        assert refused["error"] == f"Maximum batch {name} session count of {most} reached."
    assert "QUEUED" in ask(machines, "kernels", "status", "tester/gpu-0-kernel")
    assert len(machines.kernels) == 8
    assert rpc(machines, "DeleteKernel", userName="tester", kernelSlug="gpu-0-kernel") == (200, b"{}")
    until = time.monotonic() + 5
    while machines.world.live("gpu")[1:] and time.monotonic() < until:
        time.sleep(0.05)
    assert "error" not in save(machines, "gpu-fresh", machineShape="NvidiaL4")
    # What was refused at its first push is gone for good.
    assert save(machines, "gpu-more")["error"] == "Notebook not found"
    assert rpc(machines, "GetKernelSessionStatus", userName="tester", kernelSlug="gpu-more")[0] == 404


def test_every_refusal_of_the_table_is_given_once(make: Callable[..., Machines]) -> None:
    machines = make(queue_s=300, sessions={"cpu": 100})
    for number, (name, refusal) in enumerate(REFUSALS.items()):
        machines.accept_all()
        machines.refuse(name, times=1)
        method = next(each for each in (*refusal.calls, "SaveKernel"))
        if " " in method:
            continue
        method = "SaveKernel" if method == "*" else method
        known = len(machines.kernels)
        body = {
            "slug": f"tester/kernel-{number}",
            "text": "{}",
            "kernelType": "notebook",
            "competitionName": "tiny-table",
        }
        status, answer = rpc(machines, method, **body)
        made = len(machines.kernels) - known
        assert made == (1 if refusal.done else 0), name
        if refusal.merge is None:
            assert (status, answer) == (refusal.status, refusal.answer()[2]), name
        else:
            assert refusal.merge.items() <= json.loads(answer).items(), name
        assert rpc(machines, method, **body) != (status, answer) or status >= 400, name


def test_the_client_meets_refusals_as_at_kaggle(make: Callable[..., Machines]) -> None:
    machines = make(queue_s=300)
    machines.refuse("push-html-done", times=1)
    assert "Expecting value" in push(machines, "1")
    assert machines.kernels[REF].status == "QUEUED"
    assert machines.calls("SaveKernel")
    machines.refuse("gpu-sessions", times=1)
    done = kaggle(environment(machines), "kernels", "push", "-p", str(machines.folder / "pushed" / "my-kernel"))
    assert (done.returncode, done.stdout.strip()) == (
        0,
        "Kernel push error: Maximum batch GPU session count of 2 reached.",
    )
    machines.forget_calls()
    machines.refuse("throttled")
    assert "429" in ask(machines, "quota")
    assert machines.changes() == []


def test_slugs_versions_and_images(make: Callable[..., Machines]) -> None:
    machines = make(queue_s=300)
    answer = save(machines, "given-slug", newTitle="Another Title")
    assert (answer["ref"], answer["versionNumber"]) == ("/code/tester/another-title", 1)
    assert rpc(machines, "GetKernelSessionStatus", userName="tester", kernelSlug="given-slug")[0] == 403
    assert save(machines, "another-title", newTitle="Third Title")["versionNumber"] == 2
    assert [each.live for each in machines.sessions] == [True, True]
    assert save(machines, "quick-save", kernelExecutionType="QUICK_SAVE")["versionNumber"] == 1
    assert b"NEW_SCRIPT" in rpc(machines, "GetKernelSessionStatus", userName="tester", kernelSlug="quick-save")[1]
    save(machines, "short-session", sessionTimeoutSeconds=60)
    assert machines.sessions[-1].limit_s == 60
    assert save(machines, "strange", machineShape="NvidiaTeslaX")["error"] == "Invalid machine shape"
    save(machines, "misspelt", machineShape="nvidiateslat4")
    save(machines, "on-a-tpu", machineShape="TpuV5E8", dockerImage="gcr.io/kaggle-gpu-images/python@sha256:0")
    assert [each.shape for each in machines.sessions[-2:]] == ["None", "None"]
    base = {"text": "{}", "kernelType": "notebook"}
    image = "gcr.io/kaggle-private-byod/python@sha256:0"
    assert rpc(machines, "SaveKernel", slug="tester/private", dockerImage=image, **base)[0] == 403
    assert rpc(machines, "SaveKernel", slug="other/kernel", **base)[0] == 403
    assert rpc(machines, "SaveKernel", slug="tester/large", text="x" * 1_000_001, kernelType="notebook")[0] == 400
    assert rpc(machines, "CancelKernelSession", kernelSessionId=machines.sessions[0].id)[0] == 403
    again = make(queue_s=300, second_push="cancels")
    save(again)
    save(again)
    until = time.monotonic() + 5
    while again.sessions[0].live and time.monotonic() < until:
        time.sleep(0.05)
    assert [each.status for each in again.sessions] == ["CANCEL_ACKNOWLEDGED", "QUEUED"]


# --- Datasets and submissions ---


def test_datasets_with_their_processing_time_and_a_broken_upload(make: Callable[..., Machines], tmp_path: Path) -> None:
    machines = make(dataset_processing_s=3600, queue_s=300)
    env = environment(machines)
    folder = dataset(machines, tmp_path / "data", {"a.bin": b"a" * 70_000, "runs/r/record.json": b"{}"})
    machines.refuse("upload-broken", times=1)
    created = kaggle(env, "datasets", "create", "-p", str(folder), "-r", "zip")
    assert "is being created" in created.stdout, created.stderr
    assert kaggle(env, "datasets", "status", "tester/my-dataset").stdout.strip() == "blobs_received"
    assert save(machines, datasetDataSources=["tester/my-dataset"])["invalidDatasetSources"] == ["tester/my-dataset"]
    assert "403" in ask(machines, "datasets", "download", "tester/my-dataset", "-p", str(tmp_path / "early"))
    assert "already in use" in ask(machines, "datasets", "create", "-p", str(folder))
    machines.process("tester/my-dataset")
    assert kaggle(env, "datasets", "status", "tester/my-dataset").stdout.strip() == "ready"
    assert "error" not in save(machines, datasetDataSources=["tester/my-dataset"])
    (folder / "a.bin").unlink()
    version = ask(machines, "datasets", "version", "-p", str(folder), "-m", "next", "-r", "tar", "-q")
    assert "is being created" in version
    # The new version is not ready yet: a download gets the one before.
    ask(machines, "datasets", "download", "tester/my-dataset", "-p", str(tmp_path / "first"), "--unzip")
    assert (tmp_path / "first" / "a.bin").read_bytes() == b"a" * 70_000
    assert (tmp_path / "first" / "runs" / "r" / "record.json").read_bytes() == b"{}"
    machines.process("tester/my-dataset")
    ask(machines, "datasets", "download", "tester/my-dataset", "-p", str(tmp_path / "second"), "--unzip")
    names = sorted(str(path.relative_to(tmp_path / "second")) for path in (tmp_path / "second").rglob("*.*"))
    assert names == ["runs/r/record.json"]


def test_a_code_competition_takes_a_finished_notebook(make: Callable[..., Machines], hosted: Path) -> None:
    machines = make()
    copy = (
        "import shutil\nshutil.copy('/kaggle/input/competitions/tiny-code/sample_submission.csv', 'submission.csv')\n"
        "for i in range(30): open(f'file{i}.txt', 'w').write('x')"
    )
    save(machines, cell=copy, competitionDataSources=["tiny-code"])
    words = ("competitions", "submit", "tiny-code", "-k", REF, "-v", "1", "-m", "from a notebook", "-f")
    assert "must have run" in last_reason(machines, "submission.csv")
    assert machines.wait(REF) == "COMPLETE", machines.log(REF)
    assert "no output file" in last_reason(machines, "other.csv")
    assert "Successfully submitted" in ask(machines, *words, "submission.csv")
    assert "from a notebook" in ask(machines, "competitions", "submissions", "tiny-code")
    # Its files come in pages, each with an address that is fetched without a login.
    first = json.loads(rpc(machines, "ListKernelSessionOutput", userName="tester", kernelSlug="my-kernel")[1])
    assert len(first["files"]) == 20
    rest = {"userName": "tester", "kernelSlug": "my-kernel", "pageToken": first["nextPageToken"]}
    second = json.loads(rpc(machines, "ListKernelSessionOutput", **rest)[1])
    assert len(second["files"]) == 11
    assert "nextPageToken" not in second
    assert raw(machines, "GET", path_of(second["files"][0]["url"]))[0] == 200
    unsigned = path_of(second["files"][0]["url"]).partition("?")[0]
    assert raw(machines, "GET", unsigned)[0] == 403


def last_reason(machines: Machines, file: str) -> str:
    body = {"competitionName": "tiny-code", "kernelOwner": "tester", "kernelSlug": "my-kernel", "kernelVersion": 1}
    status, answer = rpc(machines, "CreateCodeSubmission", fileName=file, **body)
    assert status == 400
    return str(json.loads(answer)["error"]["message"])
