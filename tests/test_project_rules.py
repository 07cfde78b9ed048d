"""Rules that look at a spec and the project's other files together: any project, and this one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kaggle_workbench.container import project_rules
from kaggle_workbench.container.findings import Finding
from kaggle_workbench.container.spec import check
from spec_cases import GOOD

ROOT = Path(__file__).resolve().parent.parent
OWN_FILES = [
    ".project/spec.yaml",
    ".project/configpacks",
    ".gitattributes",
    ".gitignore",
    "apt.txt",
    "requirements.txt",
    "preBuild.bash",
    "postBuild.bash",
    "variables.env",
    "secrets.env.example",
    "pyproject.toml",
    "code/kaggle_workbench/__init__.py",
    "data/input/.gitkeep",
    "data/output/.gitkeep",
]

Project = Callable[[str, str], Path]


def found(root: Path) -> list[Finding]:
    return [finding for finding in check(root).findings if finding.severity != "note"]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A project of somebody else without a fault."""
    for name, text in {
        ".project/spec.yaml": GOOD,
        ".project/configpacks": "*bash.PreBuild",
        ".gitattributes": "* text=auto\n",
        ".gitignore": ".project/*\n",
        "data/input/.gitkeep": "",
        "code/.gitkeep": "",
        "preBuild.bash": "#!/bin/bash\necho hello\n",
        "postBuild.bash": "#!/bin/bash\nsudo mkdir -p /data && sudo chown $NVWB_UID /data\n",
        "apt.txt": "# tools\ngit\n",
        "requirements.txt": "jupyterlab>3.0\ngit+https://example.org/a.git\nx @ https://example.org/x.whl\n",
        "variables.env": "A=b\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_project_without_a_fault(other: Path) -> None:
    assert found(other) == []
    assert found(other / ".project" / "spec.yaml") == []


@pytest.mark.parametrize(
    ("name", "text", "rule", "severity", "line"),
    [
        ("preBuild.bash", "#!/bin/bash\r\necho\r\n", "crlf", "error", 1),
        ("preBuild.bash", "echo\ncp /project/code/x /tmp\n", "project-in-build", "warning", 2),
        (
            "postBuild.bash",
            "mkdir /data\npip install -r /project/requirements.txt > log\n",
            "project-in-build",
            "warning",
            2,
        ),
        ("postBuild.bash", "mkdir /data\nRUN python3 -m pip install x\n", "dockerfile-word", "warning", 2),
        ("apt.txt", "git\ncurl # for the health check\n", "inline-comment", "warning", 2),
        ("apt.txt", "git curl\n", "apt-line", "warning", 1),
        ("requirements.txt", "a==1 # why\n", "inline-comment", "warning", 1),
        ("requirements.txt", "--extra-index-urlhttps://x.org\n", "requirement-option", "warning", 1),
        ("requirements.txt", "a==1\n-e .\n", "requirement-option", "warning", 2),
        ("requirements.txt", "-r other.txt\n", "requirement-option", "warning", 1),
        ("requirements.txt", "./wheels/a.whl\n", "requirement-option", "warning", 1),
        ("requirements.txt", "gradio\n", "unpinned", "warning", 1),
        ("requirements.txt", "a b\n", "requirement-line", "error", 1),
        ("requirements.txt", "a_b==1\nA-B>=1\n", "requirement-twice", "warning", 2),
        ("variables.env", "A=1\nnot a line\n", "variables-line", "error", 2),
        ("variables.env", 'A="quoted"\n', "variables-line", "warning", 1),
        ("variables.env", "KEY=nvapi-" + "a1" * 20 + "\n", "pasted-key", "error", 1),
        ("variables.env", "A=1\nNVIDIA_API_KEY=abc\n", "secret-in-variables", "error", 2),
        ("code/data.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "lfs-pointer", "warning", 1),
    ],
)
def test_file_rule(name: str, text: str, rule: str, severity: str, line: int, other: Path) -> None:
    (other / name).write_bytes(text.encode())
    findings = [finding for finding in found(other) if finding.rule != "mount-not-created"]
    assert [(f.rule, f.severity, f.file, f.mark.line) for f in findings] == [(rule, severity, name, line)]


def test_lines_for_later_shells_may_name_the_project(other: Path) -> None:
    script = (
        "sudo mkdir /data\n# cp /project/x\necho 'cd /project' >> ~/.bashrc\ncat > x <<'EOF'\ncd /project\nRUN x\nEOF\n"
    )
    (other / "postBuild.bash").write_text(script)
    assert found(other) == []


@pytest.mark.parametrize(
    ("missing", "rule"),
    [
        (".gitattributes", "file-missing"),
        (".gitignore", "file-missing"),
        (".project/configpacks", "file-missing"),
        ("data", "mount-folder"),
        ("postBuild.bash", "mount-not-created"),
    ],
)
def test_missing_files(missing: str, rule: str, other: Path) -> None:
    path = other / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert [finding.rule for finding in found(other)] == [rule]


def test_compose_file_must_be_there(other: Path) -> None:
    spec = other / ".project" / "spec.yaml"
    spec.write_text(GOOD.replace('compose_file_path: ""', "compose_file_path: deploy/compose.yaml"))
    assert [finding.rule for finding in found(other)] == ["compose-missing"]
    (other / "deploy").mkdir()
    (other / "deploy" / "compose.yaml").write_text("services: {}\n")
    assert found(other) == []


def test_machine_is_told_apart_from_the_file(other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = other / ".project" / "spec.yaml"
    text = GOOD.replace("            requested: 0", "            requested: 2")
    spec.write_text(text.replace("supported_architectures: []", "supported_architectures:\n            - amd64"))
    monkeypatch.setattr(project_rules.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(project_rules.Path, "exists", lambda path: False)
    report = check(other)
    assert [(finding.rule, finding.severity) for finding in report.findings] == [
        ("architecture", "note"),
        ("gpu-here", "note"),
    ]
    assert report.summary() == "0 errors, 0 warnings"


# --- this project -----------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of this project's files that the rules look at."""
    for name in OWN_FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "data" / "practice").mkdir()
    return tmp_path


def test_this_project_passes_with_no_warning() -> None:
    assert found(ROOT) == []


def test_copy_passes_too(own: Path) -> None:
    assert found(own) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "rule", "severity"),
    [
        (".project/spec.yaml", "os_distro: ubuntu", 'os_distro: "ubuntu"', "not-canonical", "warning"),
        (".project/spec.yaml", "    labels: []\n", "", "not-canonical", "warning"),
        (".project/spec.yaml", "image_version: 170.0.0", "image_version: 1.0.0", "image-version", "warning"),
        (
            ".project/spec.yaml",
            "target: /project/data/output/",
            "target: /project/data/practice2/",
            "host-folder",
            "error",
        ),
        (".project/spec.yaml", "variable: MONGODB_URI", "variable: MONGO_ADDRESS", "secret-unknown", "error"),
        ("secrets.env.example", "MONGODB_URI=", "#MONGODB_URI=", "secrets-example", "warning"),
        ("secrets.env.example", "KAGGLE_USERNAME=", "KAGGLE_USERNAME=me", "secrets-example", "error"),
        ("variables.env", "PYTHONPATH=/project/code", "PYTHONPATH=/project", "package-path", "error"),
        ("variables.env", "#SEED=0", "SED=0\nEPOCHES=3", "misspelling", "warning"),
        ("requirements.txt", "waitress>=3.0,<4\n", "", "requirement-missing", "error"),
        ("requirements.txt", "jupyterlab>=3.6,<5\n", "", "requirement-missing", "error"),
        ("requirements.txt", "tensorboard>=2.16,<3\n", "", "requirement-missing", "error"),
        ("apt.txt", "procps\n", "", "apt-missing", "error"),
        ("apt.txt", "curl\n", "", "apt-missing", "error"),
        (".gitignore", "!.project/image.lock\n", "", "gitignore", "error"),
        (".gitignore", "secrets.env\n", "", "gitignore", "error"),
        (".gitattributes", "*.gz binary\n", "*.ipynb filter=lfs diff=lfs merge=lfs -text\n", "lfs", "error"),
        (".gitattributes", "* text=auto eol=lf\n", "", "line-ends", "error"),
    ],
)
def test_own_rule(name: str, old: str, new: str, rule: str, severity: str, own: Path) -> None:
    text = (own / name).read_text()
    assert text.count(old) == 1
    (own / name).write_text(text.replace(old, new))
    assert (rule, severity) in {(finding.rule, finding.severity) for finding in found(own)}


@pytest.mark.parametrize(
    ("lock", "severity"),
    [
        ('{"image": "gcr.io/kaggle-gpu-images/python", "tag": "v170"}', None),
        ('{"image": "gcr.io/kaggle-gpu-images/python", "tag": "v171"}', "warning"),
        ('{"image": "gcr.io/kaggle-images/python", "tag": "v170"}', "warning"),
        ("{", "error"),
        ("[]", "error"),
    ],
)
def test_lock_and_spec_name_one_image(lock: str, severity: str | None, own: Path) -> None:
    (own / ".project" / "image.lock").write_text(lock)
    expected = [("image-lock", severity)] if severity else []
    assert [(finding.rule, finding.severity) for finding in found(own)] == expected
