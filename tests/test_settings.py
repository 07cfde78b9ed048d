"""Settings: one precedence, both readings of the env files, every fault named with its place."""

import subprocess
import sys
from pathlib import Path

import pytest

from kaggle_workbench import envfiles
from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import SECRET_NAMES, SETTINGS, Settings, load_settings


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".project").mkdir()
    (tmp_path / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_precedence_command_line_environment_secrets_variables_default(project: Path, monkeypatch) -> None:
    assert load_settings().epochs == 20
    (project / "variables.env").write_text("EPOCHS=1\nSEED=\n")
    assert (load_settings().epochs, load_settings().seed) == (1, 0)
    (project / "secrets.env").write_text("EPOCHS=2\n")
    assert load_settings().epochs == 2
    monkeypatch.setenv("EPOCHS", "3")
    assert load_settings().epochs == 3
    settings = load_settings({"EPOCHS": 4, "SEED": None})
    assert settings.epochs == 4
    assert settings.origins["EPOCHS"] == "the command line or notebook"
    monkeypatch.setenv("EPOCHS", "")
    assert load_settings().epochs == 2


def test_folders_are_relative_to_the_project(project: Path) -> None:
    (project / "code").mkdir()
    settings = load_settings({"OUTPUT_DIR": "elsewhere"}, start=project / "code")
    assert settings.input_dir == project / "data" / "input"
    assert settings.output_dir == project / "elsewhere"


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ('COMPETITION="titanic"', "COMPETITION=titanic"),
        ("COMPETITION='titanic'", "COMPETITION=titanic"),
        ("COMPETITION=titanic  # mine", "COMPETITION=titanic"),
        ("COMPETITION=titanic ", "COMPETITION=titanic"),
        ("COMPETITION = titanic", "COMPETITION=titanic"),
        ("export COMPETITION=titanic", "COMPETITION=titanic"),
    ],
)
def test_a_line_docker_reads_differently_is_named_with_what_to_write(project: Path, line: str, instead: str) -> None:
    (project / "variables.env").write_text(f"# first\n\n{line}\n")
    settings = load_settings()
    assert settings.competition == "titanic"
    assert len(settings.notes) == 1
    assert "variables.env, line 3" in settings.notes[0]
    assert settings.notes[0].endswith(instead)


@pytest.mark.parametrize("text", ["A=1", "A=", "# A='x'\nB=a=b", "A=a b c", "A=x#y", "A=$HOME ${X}", "A=1\r\nB=2\r\n"])
def test_lines_that_both_read_alike_give_no_note_and_no_interpolation(project: Path, text: str) -> None:
    (project / "variables.env").write_bytes(text.encode() + b"\n")
    settings = load_settings()
    assert settings.notes == ()
    for line in text.replace("\r", "").splitlines():
        if not line.startswith("#"):
            name, _, value = line.partition("=")
            assert settings.extra[name] == value


@pytest.mark.parametrize(
    ("text", "line"), [("A=1\n\nFOO BAR\n", 3), ("FOO\n", 1), ("A=1\n=2\n", 2), ('A="open\nB=2\n', 1)]
)
def test_a_malformed_line_is_named_with_file_and_line(project: Path, text: str, line: int) -> None:
    (project / "variables.env").write_text(text)
    with pytest.raises(UsageError, match=rf"variables\.env, line {line}\b"):
        load_settings()


def test_no_value_of_secrets_env_is_ever_shown(project: Path) -> None:
    (project / "secrets.env").write_text("KAGGLE_KEY='s3cr3t-value'\n")
    settings = load_settings()
    assert settings.kaggle_key is not None
    assert settings.kaggle_key.reveal() == "s3cr3t-value"
    assert "s3cr3t" not in repr(settings) + "".join(settings.notes)
    (project / "secrets.env").write_text("s3cr3t-value\n")
    with pytest.raises(UsageError) as error:
        load_settings()
    assert "s3cr3t" not in str(error.value)


def test_a_secrets_file_others_can_read_is_warned_of_once(project: Path) -> None:
    (project / "secrets.env").write_text("KAGGLE_KEY=x\n")
    (project / "secrets.env").chmod(0o644)
    first, second = load_settings().notes, load_settings().notes
    assert "chmod 600 secrets.env" in first[0]
    assert second == ()


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_in_the_versioned_file_is_refused(project: Path, name: str) -> None:
    (project / "variables.env").write_text(f"{name}=abc\n")
    with pytest.raises(UsageError, match=rf"{name} stands in variables\.env, line 1"):
        load_settings()


def test_a_secret_in_a_malformed_line_of_the_versioned_file_is_not_shown(project: Path) -> None:
    (project / "variables.env").write_text("SEED=1\nKAGGLE_API_TOKEN abc-def\n")
    with pytest.raises(UsageError, match=r"variables\.env, line 2: this is not NAME=VALUE\.\nWrite") as error:
        load_settings()
    assert "abc-def" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMPETITION", "https://www.kaggle.com/c/titanic"),
        ("COMPETITION", "../titanic"),
        ("SOURCE", "kagle"),
        ("GPU_COUNT", "-1"),
        ("GPU_COUNT", "two"),
        ("EPOCHS", "0"),
        ("SUBMIT", "maybe"),
        ("SESSION_HOURS", "0"),
        ("RUN_ID", "../x"),
    ],
)
def test_a_value_that_does_not_fit_says_name_value_origin_and_what_fits(project: Path, name: str, value: str) -> None:
    (project / "variables.env").write_text(f"{name}={value}\n")
    with pytest.raises(UsageError) as error:
        load_settings()
    text = str(error.value)
    assert name in text
    assert value in text
    assert "variables.env" in text
    assert "must be" in text


def test_misspelt_names_are_warned_of_and_own_names_passed_on(project: Path) -> None:
    (project / "variables.env").write_text("COMPETTION=titanic\nMY_OWN=1\n")
    settings = load_settings()
    assert "did you mean COMPETITION?" in settings.notes[0]
    assert settings.extra == {"COMPETTION": "titanic", "MY_OWN": "1"}
    with pytest.raises(UsageError, match="Did you mean EPOCHS"):
        load_settings({"EPOCH": 3})


def test_an_environment_that_hides_the_file_is_said(project: Path, monkeypatch) -> None:
    (project / "variables.env").write_text("COMPETITION=titanic\n")
    monkeypatch.setenv("COMPETITION", "house-prices")
    settings = load_settings()
    assert settings.competition == "house-prices"
    assert "the environment wins" in settings.notes[0]


def test_outside_a_project_it_says_so(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KWB_ROOT", raising=False)
    with pytest.raises(UsageError, match="No Kaggle Workbench project"):
        load_settings()


def test_every_setting_is_a_field_of_settings() -> None:
    assert {name.lower() for name in SETTINGS} <= set(Settings.__dataclass_fields__)


def test_closest_does_not_guess_wildly() -> None:
    assert envfiles.closest("GPU_CONT", list(SETTINGS)) == "GPU_COUNT"
    assert envfiles.closest("PATH", list(SETTINGS)) is None


def test_importing_every_module_is_light() -> None:
    """No framework, client or engine is imported, nothing printed, by importing the rooms.

    `batches` and the modules in `callbacks/` hold classes derived from Keras'; `training` reaches them when asked.
    """
    script = """
import importlib, pkgutil, sys
import kaggle_workbench
for module in pkgutil.walk_packages(kaggle_workbench.__path__, "kaggle_workbench."):
    if not module.name.endswith(("__main__", ".batches")) and ".callbacks." not in module.name:
        importlib.import_module(module.name)
heavy = {"tensorflow", "keras", "jax", "torch", "kaggle", "kagglehub", "docker"} & set(sys.modules)
heavy |= {"pymongo", "fsspec", "pynvml", "tensorboard"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
