"""Folders of this machine for the container: how they are written, chosen, checked, made."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kaggle_workbench.container import folders, mounts
from kaggle_workbench.container.folders import Owner
from kaggle_workbench.container.spec import read_spec
from kaggle_workbench.container.spec_model import Mount, Spec
from kaggle_workbench.errors import MissingError, UsageError
from kaggle_workbench.hostpaths import drives_folder, host_folder, is_wsl
from kaggle_workbench.settings import SETTINGS, load_settings

REPOSITORY = Path(__file__).resolve().parents[1]
ME = Owner(os.getuid(), os.getgid())
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else or to mount")


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


def chosen(
    project: Path, spec: Spec, given: dict[str, str] | None = None, kept: dict[str, str] | None = None
) -> dict[str, Any]:
    found = mounts.choose(spec, load_settings(start=project), given or {}, kept or {})
    return {mount.target: mount for mount in found}


# Windows paths


def test_three_spellings_of_one_folder_under_wsl(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for text in (r"D:\kaggle\input", "D:/kaggle/input", r"d:\kaggle/input", f"{tmp_path}/d/kaggle/input"):
        assert host_folder(text, wsl=True, drives=tmp_path) == tmp_path / "d/kaggle/input"
    assert host_folder("~/x", wsl=True, drives=tmp_path) == Path.home() / "x"


def test_a_drive_that_is_not_there_is_named_with_its_mount_command(tmp_path: Path) -> None:
    for text in (r"E:\kaggle", f"{tmp_path}/e/kaggle"):
        with pytest.raises(MissingError, match="drive E:") as caught:
            host_folder(text, wsl=True, drives=tmp_path)
        assert "sudo mount -t drvfs E:" in caught.value.hint


def test_windows_paths_elsewhere_get_a_clear_answer() -> None:
    with pytest.raises(UsageError, match="there is no drive D:"):
        host_folder(r"D:\kaggle\input", wsl=False)
    with pytest.raises(UsageError, match="network path"):
        host_folder(r"\\wsl$\Ubuntu\home", wsl=True)
    assert host_folder("/mnt/d/kaggle/input", wsl=False) == Path("/mnt/d/kaggle/input")


def test_wsl_and_its_drives_are_found_out(tmp_path: Path) -> None:
    release, config = tmp_path / "osrelease", tmp_path / "wsl.conf"
    release.write_text("6.6.87.2-microsoft-standard-WSL2\n")
    config.write_text("[automount]\nroot = /win/\n")
    assert is_wsl(release)
    assert not is_wsl(tmp_path / "missing")
    assert drives_folder(config) == Path("/win")
    assert drives_folder(tmp_path / "missing") == Path("/mnt")


def test_a_setting_is_read_the_same_way(project: Path) -> None:
    (project / "variables.env").write_text("INPUT_DIR=D:\\kaggle\\input\n")
    with pytest.raises(UsageError, match=r"INPUT_DIR \(from variables.env\): D:\\kaggle\\input is a Windows path"):
        load_settings(start=project)


# Which folder


def test_the_projects_own_folders_are_the_default(project: Path, spec: Spec) -> None:
    found = chosen(project, spec)
    assert list(found) == ["/project", "/project/data/input", "/project/data/output"]
    assert found["/project/data/input"].source == project / "data/input"


def test_command_line_then_environment_then_this_machine_then_variables(
    project: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = "/project/data/input"
    (project / "variables.env").write_text("INPUT_DIR=/data/from-variables\n")
    assert chosen(project, spec)[target].source == Path("/data/from-variables")
    kept = {target: "/data/kept"}
    assert chosen(project, spec, kept=kept)[target].source == Path("/data/kept")
    monkeypatch.setenv("INPUT_DIR", "/data/from-environment")
    assert chosen(project, spec, kept=kept)[target].source == Path("/data/from-environment")
    given = chosen(project, spec, {target: "/data/given"}, kept)[target]
    assert (given.source, given.origin) == (Path("/data/given"), "--input")


def test_a_relative_folder_on_the_command_line_is_below_the_current_one(
    project: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert chosen(project, spec, {"/project/data/input": "in"})["/project/data/input"].source == tmp_path / "in"


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr", "/proc", "/var"])
def test_folders_of_the_system_are_not_handed_over(project: Path, spec: Spec, folder: str) -> None:
    with pytest.raises(UsageError, match="folder of the system"):
        chosen(project, spec, {"/project/data/input": folder})


def test_a_folder_that_holds_the_project_is_refused(project: Path, spec: Spec) -> None:
    for folder in (project, project.parent):
        with pytest.raises(UsageError, match="holds the project itself"):
            chosen(project, spec, {"/project/data/input": str(folder)})


@pytest.mark.parametrize(
    "target", ["/etc/", "/usr/lib/x/", "/project/", "/", "/proc/", "/var/run/", "/opt/project/build/"]
)
def test_forbidden_targets(project: Path, spec: Spec, target: str) -> None:
    mount = Mount("host", target, "", "")
    bad = replace(spec, execution=replace(spec.execution, mounts=(*spec.execution.mounts, mount)))
    with pytest.raises(UsageError, match="place of the container's own"):
        chosen(project, bad)


def test_other_host_mounts_need_a_folder_once(project: Path, spec: Spec) -> None:
    mount = Mount("host", "/models/", "Models", "ro")
    more = replace(spec, execution=replace(spec.execution, mounts=(*spec.execution.mounts, mount)))
    with pytest.raises(UsageError, match="/models/") as caught:
        chosen(project, more)
    assert "kwb up --mount DIR:/models/" in caught.value.hint
    found = chosen(project, more, {"/models": "/data/models"})["/models"]
    assert (found.source, found.read_only) == (Path("/data/models"), True)
    with pytest.raises(UsageError, match="no host mount at /nowhere/"):
        chosen(project, spec, {"/nowhere": "/data"})


def test_volumes_and_temporary_mounts(spec: Spec) -> None:
    more = (
        Mount("volume", "/cache/", "", ""),
        Mount("volume", "/s/", "", "volumeName=shared"),
        Mount("tmp", "/t/", "", ""),
    )
    binds = mounts.other_binds(replace(spec, execution=replace(spec.execution, mounts=more)), "project-x")
    assert [(bind.source, bind.target, bind.kind) for bind in binds] == [
        ("project-x-cache", "/cache", "volume"),
        ("shared", "/s", "volume"),
        ("", "/t", "tmpfs"),
    ]


# Whether it can be used


def mount_of(source: Path, target: str = "/project/data/input", *, read_only: bool = False) -> mounts.HostMount:
    return mounts.HostMount(source, target, "--input", read_only=read_only)


def test_missing_folders_are_made(project: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "far/away/in put"
    folders.prepare([mount_of(project, "/project"), mount_of(wanted)], ME)
    assert wanted.is_dir()
    assert (project / "data/input").is_dir()


@as_root
def test_missing_folders_belong_to_the_user_also_when_root_calls(project: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "far/away"
    os.chown(project, 1234, 1234)
    assert folders.owner_of(project) == Owner(1234, 1234)
    notes = folders.prepare([mount_of(project, "/project"), mount_of(wanted)], Owner(1234, 1234))
    assert notes == []
    made = (wanted, wanted.parent, project / "data", project / "data/input")
    assert {folder.stat().st_uid for folder in made} == {1234}
    os.chown(project, 0, 0)
    assert folders.owner_of(project) == Owner(1000, 1000)


@as_root
def test_a_project_that_is_not_the_users_is_said(project: Path) -> None:
    (note,) = folders.prepare([mount_of(project, "/project")], Owner(1234, 1234))
    assert "cannot be saved inside" in note
    assert f"sudo chown -R 1234:1234 {project}" in note


def test_a_file_in_the_way(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for path in (file, file / "below"):
        with pytest.raises(UsageError, match=f"{file} is a file"):
            folders.prepare([mount_of(project, "/project"), mount_of(path)], ME)
    assert not (project / "data").exists()


@as_root
def test_a_folder_of_somebody_else_and_a_read_only_disk(project: Path, tmp_path: Path) -> None:
    other, disk = tmp_path / "other", tmp_path / "disk"
    other.mkdir(mode=0o755)
    disk.mkdir()
    with pytest.raises(MissingError, match="not writable for uid 1234") as caught:
        folders.check([mount_of(project, "/project"), mount_of(other)], Owner(1234, 1234))
    assert f"sudo chown 1234:1234 {other}" in caught.value.hint
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(disk)], check=True)
    try:
        with pytest.raises(MissingError, match="read-only disk"):
            folders.check([mount_of(project, "/project"), mount_of(disk)], ME)
        with pytest.raises(MissingError, match="not writable for you"):
            folders.check([mount_of(project, "/project"), mount_of(disk / "new")], ME)
        folders.check([mount_of(project, "/project"), mount_of(disk, read_only=True)], ME)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_slow_door_to_windows_is_measured_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = (
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        r"40 22 0:41 / /mnt/d rw - 9p D:\134 rw,aname=drvfs;path=D:" + "\n"
        r"41 22 0:42 / /mnt/my\040disk rw - virtiofs x rw" + "\n"
    )
    assert folders.file_system(Path("/mnt/d/kaggle/input"), table) == "9p"
    assert folders.file_system(Path("/mnt/my disk/x"), table) == "virtiofs"
    assert folders.file_system(Path("/mnt/data"), table) == "ext4"
    assert folders.file_system(tmp_path) not in ("", *folders.SLOW_FILE_SYSTEMS)
    assert folders.measure(tmp_path, 0.2) > 0
    assert folders.slow_notes([mount_of(tmp_path)]) == []
    monkeypatch.setattr(folders, "file_system", lambda path: "9p")
    monkeypatch.setattr(folders, "SLOW_MB_PER_S", 1e9)
    (note,) = folders.slow_notes([mount_of(tmp_path)])
    assert "9p" in note
    assert "MB/s measured" in note
    assert list(tmp_path.glob(".kwb-speed*")) == []
