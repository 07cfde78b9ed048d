"""Broken set-ups for the doctor: what breaks each, which check names it how, and what the mend does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kaggle_workbench.doctor import CHECKS, Check, Facts, Result, examine, mend

ROOT = Path(__file__).resolve().parent.parent
OLD, NEW = "470.82.01", "570.86.15"


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
