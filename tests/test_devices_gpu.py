"""On a machine with an NVIDIA GPU: the real driver, the real framework, nothing made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from device_tools import CODE, project_in
from kaggle_workbench.devices import nvml

pytestmark = pytest.mark.gpu


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if not nvml.has_driver():
        pytest.skip("no NVIDIA GPU on this machine")
    return project_in(tmp_path)


def gpus(project: Path, *words: str, **env: str) -> tuple[int, dict[str, Any]]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("FAKE_")}
    done = subprocess.run(
        [sys.executable, "-m", "kaggle_workbench", "gpus", "--format", "json", *words],
        cwd=project,
        env={**outside, "PYTHONPATH": str(CODE), **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_each_gpu_computes_or_the_cause_is_named(project: Path) -> None:
    code, found = gpus(project, "--proof")
    assert found["gpus"][0]["memory"]
    assert found["driver"]
    if code == 0:
        assert found["decision"]["kind"] == "gpu"
        assert len(found["proof_s"]) == len(found["gpus"])
    else:
        assert code == 3
        assert found["error"]["message"].startswith("GPU trouble: ")
        assert "does not say why" not in found["error"]["message"]


def test_the_cpu_by_request(project: Path) -> None:
    code, found = gpus(project, "--proof", GPU_COUNT="0")
    assert (code, found["decision"]["reason"]) == (0, "by request (GPU_COUNT=0)")
