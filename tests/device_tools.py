"""What the tests of devices share: a driver that is told what to say, and an environment that is put back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import fake_nvml
from kaggle_workbench import devices
from kaggle_workbench.devices import choice, framework, nvml
from kaggle_workbench.settings import Settings, load_settings

CODE = Path(__file__).resolve().parent.parent / "code"
NAMES = ("GPU_COUNT", "ALLOW_CPU", "KERAS_BACKEND", *choice.NO_GPU, *devices.DEFAULTS)


@contextmanager
def own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No choice of an earlier test, and a driver without GPUs; all put back at the end."""
    before = dict(os.environ)
    for name in NAMES:
        os.environ.pop(name, None)
    monkeypatch.setattr(choice, "_chosen", None)
    monkeypatch.setattr(choice, "_before_hiding", {})
    monkeypatch.setattr(framework, "loaded", list)
    monkeypatch.setattr(nvml, "PCI", Path("/nowhere"))
    fake_nvml.load()
    driver(0)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def driver(gpus: int, **facts: Any) -> None:
    """Let the driver have so many GPUs, with facts as tests/fake_nvml.py names them (FREE, NAME, INIT, ...)."""
    for name in [name for name in os.environ if name.startswith("FAKE_NVML_")]:
        del os.environ[name]
    os.environ["FAKE_GPUS"] = str(gpus)
    for name, value in facts.items():
        os.environ[f"FAKE_NVML_{name}"] = str(value)


def project_in(folder: Path) -> Path:
    """A project's folder with nothing but its mark."""
    (folder / ".project").mkdir()
    (folder / ".project" / "spec.yaml").write_text("specVersion: v2\n")
    return folder


def settings(project: Path, **given: Any) -> Settings:
    return load_settings(given, start=project)
