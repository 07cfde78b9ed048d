"""The build files, run for real: the scripts over an image made of tiny wheels, the apps by the spec's own commands."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from kaggle_workbench import envfiles
from kaggle_workbench.container.requirements import explain_pip_conflict, parse
from kaggle_workbench.container.spec import read_spec
from kaggle_workbench.container.spec_model import App
from kaggle_workbench.settings import SECRET_NAMES, SETTINGS
from wheels import make_wheel

ROOT = Path(__file__).resolve().parent.parent
SPEC = read_spec(ROOT / ".project" / "spec.yaml")
PREFIX = "/projects/kaggle-workbench/applications"
IMAGE = ("tensorflow==2.21.0", "keras==3.12.0", "torch==2.6.0", "nvidia-cudnn-cu12==9.3", "nvidia-ml-py==12.5")


@dataclass
class Image:
    """An environment that stands in for Kaggle's image, and what is needed to build on it without a network."""

    folder: Path
    environment: dict[str, str]

    @property
    def freeze(self) -> Path:
        return self.folder / "freeze"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    def pip(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run("python3", "-m", "pip", "install", "--no-warn-script-location", *words)

    def script(self, name: str) -> subprocess.CompletedProcess[str]:
        return self.run("bash", str(ROOT / name))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image, made once; the tests change only the user's folder on top of it."""
    folder = tmp_path_factory.mktemp("image")
    wheels = folder / "wheels"
    wheels.mkdir()
    for name, version in (item.split("==") for item in IMAGE):
        make_wheel(wheels, name, version, module={"nvidia-ml-py": "pynvml"}.get(name, ""))
    make_wheel(wheels, "tensorflow", "2.16.1")
    make_wheel(wheels, "keras", "3.15.0")
    make_wheel(wheels, "addon", "1.0", requires=["tensorflow==2.16.1"])
    make_wheel(wheels, "picky", "1.0", requires=["six<1"])
    make_wheel(wheels, "tensorflow-cpu", "2.16.1", module="tensorflow")
    make_wheel(wheels, "tf-nightly", "2.30.0", module="tensorflow")
    make_wheel(wheels, "somebodys-build", "1.0", module="torch")
    make_wheel(wheels, "six", "1.16.0")
    # `pip install --user` works in such an environment, as in the image; a plain one forbids it.
    venv.EnvBuilder(system_site_packages=True, with_pip=True).create(folder / "venv")
    environment = {
        "PATH": f"{folder / 'venv' / 'bin'}{os.pathsep}/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "KWB_FREEZE_FOLDER": str(folder / "freeze"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "LC_ALL": "C",
    }
    (folder / "home").mkdir()
    image = Image(folder, environment)
    made = image.pip("--no-deps", *IMAGE)
    assert made.returncode == 0, made.stderr
    frozen = image.script("preBuild.bash")
    assert frozen.returncode == 0, frozen.stderr
    for name in ("home", "freeze"):
        shutil.copytree(folder / name, folder / "kept" / name)
    return image


@pytest.fixture
def image(base: Image) -> Image:
    """The image as preBuild.bash left it."""
    for name in ("home", "freeze"):
        shutil.rmtree(base.folder / name, ignore_errors=True)
        shutil.copytree(base.folder / "kept" / name, base.folder / name)
    return base


def constraints(image: Image) -> list[str]:
    return (image.freeze / "constraints.txt").read_text().splitlines()


def test_frameworks_are_frozen_and_nothing_else(image: Image) -> None:
    frozen = constraints(image)
    assert {"tensorflow==2.21.0", "keras==3.12.0", "torch==2.6.0", "nvidia-cudnn-cu12==9.3"} <= set(frozen)
    assert not [line for line in frozen if line.startswith(("nvidia-ml-py", "pip", "setuptools"))]
    assert frozen == sorted(set(frozen))
    assert str(image.freeze / "constraints.txt") in image.run("python3", "-m", "pip", "config", "list").stdout


def test_freeze_says_what_it_froze_and_is_the_same_again(image: Image) -> None:
    before = (image.freeze / "image.tsv").read_bytes()
    again = image.script("preBuild.bash")
    assert "tensorflow==2.21.0" in again.stdout
    assert (image.freeze / "image.tsv").read_bytes() == before


def test_package_in_two_folders_is_frozen_once(image: Image, tmp_path: Path) -> None:
    make_wheel(tmp_path, "keras", "2.0.0")
    shutil.unpack_archive(tmp_path / "keras-2.0.0-py3-none-any.whl", tmp_path / "later", "zip")
    site = next((image.folder / "venv" / "lib").glob("python*/site-packages"))
    (site / "zz-later.pth").write_text(f"{tmp_path / 'later'}\n")
    try:
        assert image.script("preBuild.bash").returncode == 0
        assert [line for line in constraints(image) if line.startswith("keras==")] == ["keras==3.12.0"]
    finally:
        (site / "zz-later.pth").unlink()


def test_image_without_frameworks_builds(image: Image) -> None:
    # An environment of its own with the standard library only; for pip, whose work it is not, a word does.
    bare = image.folder / "bare"
    venv.EnvBuilder(system_site_packages=False, with_pip=False).create(image.folder / "empty")
    bare.mkdir(exist_ok=True)
    python = image.folder / "empty" / "bin" / "python3"
    (bare / "python3").write_text(f'#!/bin/sh\n[ "$2" = pip ] || exec {python} "$@"\n')
    (bare / "python3").chmod(0o755)
    image.environment["PATH"], kept = f"{bare}:{image.environment['PATH']}", image.environment["PATH"]
    try:
        done = image.script("preBuild.bash")
        assert done.returncode == 0, done.stderr
        assert "no framework" in done.stdout
        assert constraints(image) == []
        assert image.script("postBuild.bash").returncode == 0
    finally:
        image.environment["PATH"] = kept


def test_constraint_of_the_image_itself_is_told(image: Image) -> None:
    image.environment["PIP_CONSTRAINT"] = "/etc/other.txt"
    try:
        done = image.script("preBuild.bash")
    finally:
        del image.environment["PIP_CONSTRAINT"]
    assert done.returncode == 1
    assert "PIP_CONSTRAINT=/etc/other.txt" in done.stderr


def test_requirements_that_the_image_satisfies_build(image: Image) -> None:
    done = image.pip("--user", "tensorflow>=2.16,<3", "keras>=3.5,<4", "six>=1.16")
    assert done.returncode == 0, done.stderr
    after = image.script("postBuild.bash")
    assert after.returncode == 0, after.stderr
    assert "where they were" in after.stdout
    assert os.access(image.folder / "home" / ".local" / "bin" / "kwb", os.X_OK)
    if shutil.which("git"):
        assert "directory = *" in (image.folder / "home" / ".gitconfig").read_text()


@pytest.mark.parametrize(
    ("requirement", "asked"),
    [
        ("tensorflow==2.16.1", "requirements.txt asks for tensorflow==2.16.1"),
        ("tensorflow<2.20", "requirements.txt asks for tensorflow<2.20"),
        ("addon", "addon 1.0 needs tensorflow==2.16.1"),
    ],
)
def test_requirement_that_would_move_a_framework_is_refused_in_a_sentence(
    requirement: str, asked: str, image: Image
) -> None:
    done = image.pip("--user", requirement)
    assert done.returncode == 1
    sentence = explain_pip_conflict(done.stdout + done.stderr)
    assert sentence is not None
    assert sentence.startswith(f"{asked}, but the image holds tensorflow 2.21.0, which must stay as it is.")
    # BuildKit and colours write before each line.
    noisy = "".join(f"#12 3.45 \x1b[31m{line}\x1b[0m\r\n" for line in (done.stdout + done.stderr).splitlines())
    assert explain_pip_conflict(noisy) == sentence


def test_other_refusals_of_pip(image: Image) -> None:
    def said(*requirements: str) -> str | None:
        done = image.pip("--user", *requirements)
        assert done.returncode == 1
        return explain_pip_conflict(done.stdout + done.stderr)

    missing = said("six==99")
    assert missing is not None
    assert "asks for six==99" in missing
    assert "newest one is 1.16.0" in missing
    contradiction = said("six==1.16.0", "picky")
    assert contradiction is not None
    assert "requirements.txt asks for six==1.16.0" in contradiction
    assert "picky 1.0 needs six<1" in contradiction
    # Nothing found at all may as well be a missing network, so nothing is claimed.
    assert said("there-is-no-such-package") is None
    assert explain_pip_conflict("Successfully installed six-1.16.0") is None


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("tensorflow-cpu",), ("import tensorflow", "tensorflow 2.21.0", "tensorflow-cpu 2.16.1")),
        (("tf-nightly",), ("import tensorflow", "tensorflow 2.21.0", "tf-nightly 2.30.0")),
        (("somebodys-build",), ("import torch", "torch 2.6.0", "somebodys-build 1.0")),
        (("--ignore-installed", "torch==2.6.0"), ("import torch", "torch 2.6.0", "home/.local")),
    ],
)
def test_framework_from_elsewhere_fails_the_build(words: tuple[str, ...], names: tuple[str, ...], image: Image) -> None:
    done = image.pip("--user", "--no-deps", *words)
    assert done.returncode == 0, done.stderr
    after = image.script("postBuild.bash")
    assert after.returncode == 1
    assert after.stderr.startswith("postBuild.bash: In the image ")
    assert all(name in after.stderr for name in names), after.stderr


@pytest.mark.parametrize("moved", ["keras==3.15.0", "nvidia-cudnn-cu12==9.9"])
def test_framework_moved_past_the_constraint_fails_the_build(moved: str, image: Image) -> None:
    name, version = moved.split("==")
    make_wheel(image.folder / "wheels", name, version)
    before = next(item for item in IMAGE if item.startswith(name))
    image.environment["PIP_CONFIG_FILE"] = os.devnull
    try:
        assert image.pip("--no-deps", moved).returncode == 0
        after = image.script("postBuild.bash")
        assert after.returncode == 1
        assert f"{name} {version}" in after.stderr or f"{version} in" in after.stderr
        assert before.split("==")[1] in after.stderr
        assert image.pip("--no-deps", before).returncode == 0
    finally:
        del image.environment["PIP_CONFIG_FILE"]


def test_code_that_shadows_a_framework_fails_the_build(image: Image) -> None:
    # In the image the user's folder comes before Python's; in an environment of this kind it comes behind.
    mine = image.folder / "mine"
    (mine / "torch").mkdir(parents=True)
    (mine / "torch" / "__init__.py").touch()
    site = next((image.folder / "venv" / "lib").glob("python*/site-packages"))
    (site / "first.pth").write_text(f"import sys; sys.path.insert(0, {str(mine)!r})\n")
    try:
        after = image.script("postBuild.bash")
    finally:
        (site / "first.pth").unlink()
    assert after.returncode == 1
    assert "`import torch` came from" in after.stderr
    assert str(mine) in after.stderr


def test_driver_library_that_the_build_adds_fails_it(image: Image) -> None:
    libraries = image.folder / "libraries"
    (libraries / "stubs").mkdir(parents=True, exist_ok=True)
    survey = image.freeze / "survey.py"
    survey.write_text(re.sub(r"LIBRARIES = .*", f"LIBRARIES = ({str(libraries)!r},)", survey.read_text()))
    (libraries / "stubs" / "libcuda.so").write_text("for linking")
    (libraries / "libnvidia-ml.so.1").touch()  # the empty mount point that NVIDIA's runtime leaves
    assert image.script("postBuild.bash").returncode == 0
    (libraries / "libcuda.so.550.54").write_text("driver")
    after = image.script("postBuild.bash")
    assert after.returncode == 1
    assert str(libraries / "libcuda.so.550.54") in after.stderr
    shutil.rmtree(libraries)


def test_scripts_need_each_other(image: Image) -> None:
    shutil.rmtree(image.freeze)
    after = image.script("postBuild.bash")
    assert after.returncode == 1
    assert "preBuild.bash left no record" in after.stderr


def test_scripts_are_clean() -> None:
    checked = subprocess.run(
        [Path(sys.executable).parent / "shellcheck", "preBuild.bash", "postBuild.bash"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout == ""


# --- lists ---------------------------------------------------------------------------------------------------

# What Kaggle's pins make of these (its kaggle_requirements.txt, resolved); older than anything in this environment.
KAGGLE_IMAGE = {
    "ipykernel": "6.17.1",
    "ipywidgets": "8.1.5",
    "jupyterlab": "3.6.8",
    "kagglehub": "0.3.13",
    "matplotlib": "3.7.5",
    "nbclient": "0.5.13",
    "nbconvert": "6.4.5",
    "numpy": "1.26.4",
    "scikit-learn": "1.2.2",
}


def test_ranges_hold_for_kaggles_image_and_for_this_environment() -> None:
    for requirement in parse((ROOT / "requirements.txt").read_text()):
        versions = SpecifierSet(requirement.versions)
        assert re.search(r"<\d", requirement.versions), f"{requirement.name} has no upper bound"
        if requirement.name in KAGGLE_IMAGE:
            assert KAGGLE_IMAGE[requirement.name] in versions, requirement
        if requirement.name != "tensorflow":
            assert importlib.metadata.version(requirement.name) in versions, requirement


def test_variables_mean_the_same_to_everybody() -> None:
    file = envfiles.read(ROOT / "variables.env")
    assert file.notes == ()
    assert file.values["COMPETITION"] == "digit-recognizer"
    shown = re.findall(r"^#([A-Z_]+)=", (ROOT / "variables.env").read_text(), re.MULTILINE)
    assert shown
    assert set(shown) <= set(SETTINGS)
    assert set(envfiles.read(ROOT / "secrets.env.example").values) == set(SECRET_NAMES)


def git(*words: str, folder: Path) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout


def test_git_keeps_what_it_must_and_nothing_else(tmp_path: Path) -> None:
    git("init", "-q", folder=tmp_path)
    for name in (".gitignore", ".gitattributes"):
        shutil.copy(ROOT / name, tmp_path / name)
    kept = [
        ".project/spec.yaml",
        ".project/configpacks",
        ".project/image.lock",
        "data/input/.gitkeep",
        "data/practice/x/files.zip",
    ]
    ignored = [
        "secrets.env",
        "kaggle.json",
        "data/input/train.csv",
        "data/output/runs/a/record.json",
        ".project/cache/x",
        ".venv/x",
    ]
    answer = git("check-ignore", "--no-index", *kept, *ignored, folder=tmp_path).splitlines()
    assert answer == ignored
    attributes = git("check-attr", "eol", "filter", "--", "code/01.ipynb", "preBuild.bash", "kwb", folder=tmp_path)
    assert attributes.count("eol: lf") == 3
    assert attributes.count("filter: unspecified") == 3
    assert "diff: unset" in git("check-attr", "diff", "--", "data/practice/a/files.zip", folder=tmp_path)


# --- the spec's apps -----------------------------------------------------------------------------------------


@dataclass
class Running:
    """One app of the spec, run as AI Workbench runs it, on a free port and another project folder."""

    app: App
    port: int
    project: Path

    def command(self, text: str) -> list[str]:
        prefix = f'PROXY_PREFIX="{PREFIX}/{self.app.name}"'
        here = text.replace("/project", str(self.project)).replace(str(self.app.port), str(self.port))
        return ["bash", "-c", f"{prefix}; {prefix} {here}"]

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(text), env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.project),
            "JUPYTER_TOKEN_FILE": str(self.project / "token"),
        }

    def status(self, path: str) -> int:
        address = f"http://127.0.0.1:{self.port}{PREFIX}/{self.app.name}/{path}"
        try:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(address, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code


def started(type: str, project: Path) -> Iterator[Running]:
    app = SPEC.app(type)
    assert app is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (project / "token").write_text("s3cret-of-this-test")
    running = Running(app, port, project)
    assert running.run(app.health_check_command).returncode != 0
    process = subprocess.Popen(
        running.command(app.start_command),
        env=running.environment(),
        stdout=(project / "log").open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + app.timeout_seconds
        while running.run(app.health_check_command).returncode != 0:
            assert process.poll() is None, (project / "log").read_text()
            assert time.monotonic() < limit, (project / "log").read_text()
            time.sleep(0.3)
        yield running
        # Only among the processes of this test: somebody else's may have the same words.
        stop = running.command(app.stop_command.replace("pkill ", f"pkill -g {process.pid} "))
        with subprocess.Popen(stop, env=running.environment(), stderr=subprocess.DEVNULL):
            process.wait(20)
    finally:
        process.kill()
        process.wait(5)


@pytest.fixture
def jupyterlab(tmp_path: Path) -> Iterator[Running]:
    yield from started("jupyterlab", tmp_path)


@pytest.fixture
def tensorboard(tmp_path: Path) -> Iterator[Running]:
    yield from started("tensorboard", tmp_path)


def test_jupyterlab_by_the_specs_commands(jupyterlab: Running) -> None:
    token = "s3cret-of-this-test"
    assert jupyterlab.status("api/status") == 403
    assert jupyterlab.status(f"api/status?token={token}") == 200
    assert jupyterlab.status(f"lab?token={token}") == 200
    options = jupyterlab.app.webapp_options
    assert options is not None
    url = jupyterlab.run(options.url_command).stdout.strip()
    assert url.endswith(f":{jupyterlab.port}{PREFIX}/jupyterlab/?token={token}")
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if token.encode() in line]
    assert token not in (jupyterlab.project / "log").read_text()


def test_tensorboard_by_the_specs_commands(tensorboard: Running) -> None:
    # It waits for runs that are not there yet.
    assert not (tensorboard.project / "data").exists()
    assert tensorboard.status("") == 200
    assert tensorboard.status("data/environment") == 200
