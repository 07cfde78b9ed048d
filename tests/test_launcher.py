"""./kwb itself: real sh, real venv and pip, in a copy of the repository in a path with a space."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import fake_nvml

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("sh", "dirname", "readlink", "cksum", "cat", "sleep", "rm", "mkdir", "env", "ls", "uname")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What a fresh clone holds for the launcher: no .venv, no folder of a run."""
    folder = tmp_path / "my clone"
    shutil.copytree(
        ROOT / "code", folder / "code", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", ".ipynb_checkpoints")
    )
    for name in ("kwb", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "variables.env"):
        shutil.copy2(ROOT / name, folder / name)
    shutil.copytree(ROOT / ".project", folder / ".project")
    return folder


def bare_path(tmp_path: Path, **scripts: str) -> str:
    """A PATH with the system's small tools and the given scripts, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return str(folder)


def kwb(folder: Path, *words: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "HOME"))}
    return subprocess.run(
        [str(folder / "kwb"), *words],
        cwd=folder,
        env={**outside, "PATH": os.environ["PATH"], **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_help_needs_nothing_but_python_and_makes_nothing(copy: Path) -> None:
    done = kwb(copy, "--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert done.stderr == ""
    assert not (copy / ".venv").exists()
    assert kwb(copy, "run", "--help").returncode == 0
    assert kwb(copy, "--version").stdout.startswith("kwb ")


def test_no_python_is_one_sentence_and_a_mend(copy: Path, tmp_path: Path) -> None:
    done = kwb(copy, "runs", PATH=bare_path(tmp_path))
    assert done.returncode == 3
    assert "there is no python3" in done.stderr
    assert "Install Python 3.11" in done.stderr


def test_an_old_python_is_named(copy: Path, tmp_path: Path) -> None:
    done = kwb(copy, "runs", PATH=bare_path(tmp_path, python3="#!/bin/sh\necho 3.9\n"))
    assert done.returncode == 3
    assert "found only: 3.9" in done.stderr


def test_a_python_without_venv_is_named(copy: Path, tmp_path: Path) -> None:
    fake = '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; *) echo 3.12;; esac\n'
    done = kwb(copy, "runs", PATH=bare_path(tmp_path, python3=fake))
    assert done.returncode == 3
    assert "venv module is missing" in done.stderr
    assert "python3-venv" in done.stderr


@pytest.mark.slow
def test_it_installs_once_and_again_only_when_it_must(copy: Path) -> None:
    def installs(done: subprocess.CompletedProcess[str]) -> bool:
        assert done.returncode == 0, done.stderr
        return "installing" in done.stderr

    (copy / ".venv" / "bin").mkdir(parents=True)  # half made, as after Ctrl-C
    first = kwb(copy, "runs", "--format", "json", timeout=300)
    assert installs(first)
    assert "broken" in first.stderr
    assert first.stdout == "[]\n", "what installation prints must not mix into the answer"
    assert not installs(kwb(copy, "runs"))

    python = copy / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert installs(kwb(copy, "runs", timeout=300))

    for packages in (copy / ".venv" / "lib").glob("python3*/site-packages"):
        shutil.rmtree(packages)
    assert installs(kwb(copy, "runs", timeout=300))

    with (copy / "pyproject.toml").open("a") as file:
        file.write("\n# changed\n")
    assert installs(kwb(copy, "runs", timeout=300))
    assert not installs(kwb(copy, "runs"))

    moved = copy.rename(copy.with_name("moved clone"))
    assert installs(kwb(moved, "runs", timeout=300))
    (moved / ".venv.lock").mkdir()  # left behind by a killed installation
    (moved / ".venv.lock" / "pid").write_text("999999999")
    with (moved / "pyproject.toml").open("a") as file:
        file.write("\n# changed again\n")
    assert installs(kwb(moved, "runs", timeout=300))


@pytest.mark.slow
def test_tensorflows_build_follows_the_gpu_and_the_setting(copy: Path, tmp_path: Path) -> None:
    """Which extra is installed; small packages stand for the two builds, since they take gigabytes."""
    pyproject = copy / "pyproject.toml"
    text = pyproject.read_text()
    for extra, packages in (("local", '"papermill>=2.6"'), ("cpu", '"colorama"'), ("cuda", '"toml"')):
        text = re.sub(rf"^{extra} = \[.*?\]$", f"{extra} = [{packages}]", text, flags=re.M | re.S)
    pyproject.write_text(text.replace('"docker>=7.1", ', ""))
    python = copy / ".venv" / "bin" / "python"

    def run(*gpus: int, **env: str) -> str:
        """What is said when a command that needs TensorFlow is called."""
        driver = fake_nvml.environment(tmp_path / "nvml", gpus[0]) if gpus else {}
        done = kwb(copy, "run", "--dry-run", "data", timeout=300, **driver, **env)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def has(package: str) -> bool:
        return subprocess.run([python, "-c", f"import {package}"], check=False, capture_output=True).returncode == 0

    assert "TensorFlow's CPU build, since there is no NVIDIA GPU here" in run(0)
    assert (has("colorama"), has("toml")) == (True, False)
    assert "TensorFlow's" not in run(1), "what is installed stays, until it is asked for"
    assert "TensorFlow's CUDA build (several GB), as TENSORFLOW_BUILD says" in run(0, TENSORFLOW_BUILD="cuda")
    assert has("toml")
    assert "installing" not in run(0, TENSORFLOW_BUILD="cuda")
    variables = copy / "variables.env"
    variables.write_text(variables.read_text() + "TENSORFLOW_BUILD=cpu\n")
    assert "TensorFlow's CPU build, as TENSORFLOW_BUILD says, in variables.env" in run(1)
    assert "installing" not in run(1)

    shutil.rmtree(copy / ".venv")
    variables.write_text("TENSORFLOW_BUILD=auto\n")
    assert "TensorFlow's CUDA build (several GB), for the Made Up T4" in run(1)
    assert (has("colorama"), has("toml")) == (False, True)
    variables.write_text("TENSORFLOW_BUILD=gpu\n")
    wrong = kwb(copy, "run", "--dry-run", "data", timeout=300)
    assert wrong.returncode == 2
    assert "TENSORFLOW_BUILD is 'gpu'" in wrong.stderr
    assert not (copy / ".venv.lock").exists()


@pytest.mark.slow
def test_kwb_gpus_needs_no_framework(copy: Path, tmp_path: Path) -> None:
    driver = fake_nvml.environment(tmp_path / "nvml", 1)
    done = kwb(copy, "gpus", "--format", "json", timeout=300, **driver)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["gpus"][0]["name"], found["framework"]) == ("Made Up T4", None)
    assert not list((copy / ".venv" / "lib").glob("python3*/site-packages/tensorflow"))
