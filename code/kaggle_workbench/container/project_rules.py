"""Rules for a spec and the other files of its project together."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from kaggle_workbench import envfiles
from kaggle_workbench.container.file_rules import SCRIPTS
from kaggle_workbench.container.findings import Finding, Mark
from kaggle_workbench.container.spec_model import Spec
from kaggle_workbench.container.spec_read import Document
from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import VARIABLES_FILE
from kaggle_workbench.show import plural

_NEEDED = (".gitattributes", ".gitignore", ".project/configpacks")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_LARGEST_POINTER = 1024
_MOST_FILES = 5000
_SHARED_VOLUME = "/nvwb-shared-volume"
_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def check_project(document: Document, root: Path) -> Iterator[Finding]:
    """Apply the rules for spec and files together.

    Args:
        document: The project's spec; its own findings are not repeated.
        root: The project's folder.
    """
    yield from _missing(root)
    if not document.readable:
        return
    _compose(document, root)
    _mounts(document, root)
    yield from _secrets(document.spec, root)
    yield from _pointers(document.spec, root)


def host_notes(document: Document) -> Iterator[Finding]:
    """What the spec asks for and this machine has not; about the machine, not about the file."""
    base, gpus = document.spec.environment.base, document.spec.execution.resources.gpu.requested
    here = _ARCHITECTURES.get(platform.machine().lower(), platform.machine().lower())
    if base.supported_architectures and here not in base.supported_architectures:
        yield Finding(
            document.file,
            document.mark("environment.base.supported_architectures"),
            "note",
            "architecture",
            f"The image is made for {', '.join(base.supported_architectures)}; this machine is {here}.",
            "Run the project on another machine, or build on another image (`./kwb up --base`).",
        )
    if gpus > 0 and not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg")):
        yield Finding(
            document.file,
            document.mark("execution.resources.gpu.requested"),
            "note",
            "gpu-here",
            f"The spec asks for {plural(gpus, 'GPU')} and this machine shows none.",
            "AI Workbench starts it here with `nvwb start APP --no-gpus`; `./kwb up` goes to the CPU by itself.",
        )


def _missing(root: Path) -> Iterator[Finding]:
    for name in _NEEDED:
        if not (root / name).is_file():
            yield Finding(
                name,
                Mark(),
                "warning",
                "file-missing",
                f"The project has no {name}; AI Workbench adds one when it opens the project, as a change to commit.",
                "Make it and commit it.",
            )


def _compose(document: Document, root: Path) -> None:
    path = document.spec.environment.compose_file_path
    if path and not path.startswith("/") and not (root / path).is_file():
        document.error(
            "compose-missing",
            "environment.compose_file_path",
            f"The compose file {path} is not in the project.",
            'Correct the path, or write "".',
        )


def _mounts(document: Document, root: Path) -> None:
    mounts = document.spec.execution.mounts
    project = next((mount.target.rstrip("/") for mount in mounts if mount.type == "project"), "/project")
    built = "".join((root / name).read_text(errors="replace") for name in SCRIPTS if (root / name).is_file())
    for index, mount in enumerate(mounts):
        target, at = mount.target.rstrip("/"), f"execution.mounts[{index}].target"
        if mount.type not in ("host", "volume") or not target.startswith("/") or target == _SHARED_VOLUME:
            continue
        if target.startswith(f"{project}/"):
            folder = target.removeprefix(f"{project}/")
            if not (root / folder).is_dir():
                document.warn(
                    "mount-folder",
                    at,
                    f"The project has no folder {folder}, so the engine makes the mount point {mount.target} as root.",
                    f"Commit {folder}/.gitkeep.",
                )
        elif target not in built:
            document.warn(
                "mount-not-created",
                at,
                f"No build script names {mount.target}; unless the image has it, it is made as root and the "
                "container's user cannot write there.",
                f"In postBuild.bash: sudo mkdir -p {target} && sudo chown $NVWB_UID:$NVWB_GID {target}.",
            )


def _secrets(spec: Spec, root: Path) -> Iterator[Finding]:
    try:
        file = envfiles.read(root / VARIABLES_FILE)
    except UsageError:
        return
    for secret in spec.execution.secrets:
        if file.values.get(secret.variable):
            yield Finding(
                VARIABLES_FILE,
                Mark(file.lines[secret.variable]),
                "error",
                "secret-in-variables",
                f"{secret.variable} is a secret of the spec and has a value here, in a file that git versions.",
                "Delete the line; if it was ever committed, revoke the key.",
            )


def _pointers(spec: Spec, root: Path) -> Iterator[Finding]:
    looked_at = 0
    for entry in spec.layout:
        folder = root / entry.path
        if not entry.path or entry.path.startswith("/") or ".." in Path(entry.path).parts or not folder.is_dir():
            continue
        found: list[Path] = []
        for path, _, names in os.walk(folder):
            for file in (Path(path) / name for name in names):
                looked_at += 1
                if _is_pointer(file):
                    found.append(file)
            if looked_at > _MOST_FILES:
                break
        if found:
            more = f" (and {len(found) - 1} more in {entry.path})" if len(found) > 1 else ""
            yield Finding(
                sorted(found)[0].relative_to(root).as_posix(),
                Mark(),
                "warning",
                "lfs-pointer",
                f"This is a pointer of Git LFS, not the file itself{more}.",
                "Run git lfs pull; a file that git can hold is better kept out of LFS.",
            )


def _is_pointer(file: Path) -> bool:
    try:
        if file.is_symlink() or file.stat().st_size > _LARGEST_POINTER:
            return False
        with file.open("rb") as content:
            return content.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError:
        return False
