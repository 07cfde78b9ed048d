"""Talking to the stand-in in tests: with the real client, or with bare calls where a test makes many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena_tools import kaggle, raw

from .machines import Machines, notebook
from .web import SERVICES


def push(machines: Machines, *cells: str, slug: str = "my-kernel", **metadata: Any) -> str:
    """Push cells with the real client; what it prints."""
    folder = machines.folder / "pushed" / slug
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "code.ipynb").write_text(json.dumps(notebook(*cells)))
    document = {
        "id": f"{machines.user}/{slug}",
        "title": slug.replace("-", " ").title(),
        "code_file": "code.ipynb",
        "language": "python",
        "kernel_type": "notebook",
        "enable_internet": False,
        "machine_shape": "None",
        **metadata,
    }
    (folder / "kernel-metadata.json").write_text(json.dumps(document))
    done = kaggle(environment(machines), "kernels", "push", "-p", str(folder))
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def environment(machines: Machines) -> dict[str, str]:
    """The environment of the real client, always with the same home."""
    return machines.environment(machines.folder / "home")


def ask(machines: Machines, *words: str) -> str:
    """What the real client prints."""
    done = kaggle(environment(machines), *words)
    return done.stdout + done.stderr


def rpc(machines: Machines, method: str, **body: Any) -> tuple[int, bytes]:
    """A bare call of the API: status and body."""
    service = next((name for name, methods in SERVICES.items() if method in methods), None)
    target = f"/api/v1/{service or 'competitions.CompetitionApiService'}/{method}"
    bearer = f"Bearer {machines.token}"
    return raw(machines, "POST", target, json.dumps(body).encode(), Authorization=bearer)[:2]


def save(machines: Machines, slug: str = "my-kernel", **body: Any) -> dict[str, Any]:
    """A push without the client's start of half a second."""
    text = json.dumps(notebook(body.pop("cell", "1")))
    status, answer = rpc(
        machines,
        "SaveKernel",
        slug=f"{machines.user}/{slug}",
        text=text,
        kernelType="notebook",
        language="python",
        **body,
    )
    assert status == 200, answer
    return dict(json.loads(answer))


def dataset(machines: Machines, folder: Path, files: Mapping[str, bytes]) -> Path:
    """A folder that the real client makes a dataset of: `tester/my-dataset` with these files."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    document = {"id": f"{machines.user}/my-dataset", "title": "My Dataset", "licenses": [{"name": "CC0-1.0"}]}
    (folder / "dataset-metadata.json").write_text(json.dumps(document))
    return folder
