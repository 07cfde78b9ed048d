"""The project's image: what it is made of, its content id, and its build with progress."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import tarfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files as resource_files
from pathlib import Path
from typing import Any

from kaggle_workbench.container.containerfile import BUILD_FILES, render
from kaggle_workbench.container.engine import Engine
from kaggle_workbench.container.engine_errors import disk_full, is_disk_full
from kaggle_workbench.container.folders import Owner
from kaggle_workbench.container.spec_model import Spec
from kaggle_workbench.errors import MissingError, UsageError, WorkError
from kaggle_workbench.files import human_bytes
from kaggle_workbench.show import note, progress, warn

BASE_LABEL = "kwb.base-id"
CONTENT_LABEL = "kwb.content"
SHOWN_LINES = 20
# Room to have before a fetch or a build; with less than half of it, it is refused. Users report about 50 GB for
# Kaggle's GPU image with the download beside it.
_PULL_BYTES = {"kaggle-gpu-images/": 50e9, "kaggle-images/": 35e9}
_OTHER_PULL_BYTES = 5e9
_BUILD_BYTES = 1e9


@dataclass(frozen=True)
class Recipe:
    """All that an image is built from; the same content gives the same tag.

    Attributes:
        repository: Name of the image, `project-<name>`.
        base: Image it is built on.
        containerfile: Text of the Containerfile.
        files: Build context: name -> (content, mode).
    """

    repository: str
    base: str
    containerfile: str
    files: dict[str, tuple[bytes, int]] = field(repr=False)

    @property
    def content_id(self) -> str:
        """Hash of everything that goes into the build."""
        parts: list[Any] = [self.containerfile]
        parts += [[name, mode, sha256(content).hexdigest()] for name, (content, mode) in sorted(self.files.items())]
        return sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def tag(self) -> str:
        """The image's name on this machine."""
        return f"{self.repository}:{self.content_id[:12]}"

    def context(self) -> bytes:
        """The build context as a tar archive that depends on the content alone (no times, no owners)."""
        archive = io.BytesIO()
        files = {**self.files, "Containerfile": (self.containerfile.encode(), 0o644)}
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, (content, mode) in sorted(files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), mode
                tar.addfile(entry, io.BytesIO(content))
        return archive.getvalue()


def recipe(root: Path, spec: Spec, *, owner: Owner, base: str = "") -> Recipe:
    """Read the build files of a project.

    Args:
        root: The project's folder.
        spec: Its spec.
        owner: Ids of the user inside.
        base: Image instead of the spec's.

    Raises:
        UsageError: A build file that is not UTF-8 text, or a broken apt.txt.
    """
    texts: dict[str, str] = {}
    for name in BUILD_FILES:
        path = root / name
        if not path.is_file():
            continue
        try:
            texts[name] = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{name} is not UTF-8 text.", hint="Save it as UTF-8.") from None
        if "\r" in texts[name]:
            raise UsageError(
                f"{name} has Windows line ends, which bash and pip inside the container misread.",
                hint=f"Convert it: sed -i 's/\\r$//' {name}   (and check out with core.autocrlf=input)",
            )
    base = base or spec.environment.base.reference
    entrypoint = (resource_files("kaggle_workbench.container") / "entrypoint.sh").read_bytes()
    files = {name: (text.encode(), 0o644) for name, text in texts.items()}
    files["entrypoint.sh"] = (entrypoint, 0o755)
    return Recipe(
        repository=(spec.meta.image or f"project-{spec.meta.name}").lower(),
        base=base,
        containerfile=render(spec, texts, base=base, owner=owner),
        files=files,
    )


def is_current(engine: Engine, recipe: Recipe) -> bool:
    """Whether the image of this recipe is on this machine, built on what the base's name means now."""
    image = engine.image(recipe.tag)
    if image is None:
        return False
    base = engine.image(recipe.base)
    built_on = (image["Config"].get("Labels") or {}).get(BASE_LABEL)
    return base is None or base["Id"] == built_on


def require_base(engine: Engine, base: str) -> dict[str, Any]:
    """The base image, fetched when this machine lacks it.

    Raises:
        MissingError: It cannot be fetched, or the disk has no room for it.
    """
    found = engine.image(base)
    if found is not None:
        return found
    needed = next((size for part, size in _PULL_BYTES.items() if part in base), _OTHER_PULL_BYTES)
    _require_room(engine, needed, f"fetching {base}")
    note(f"Fetching the image {base} (once; Kaggle's images are tens of GB) ...")
    _show_pull(engine.pull(base))
    found = engine.image(base)
    if found is None:
        raise MissingError(f"The image {base} was fetched, but the engine does not show it.", hint="Run it again.")
    return found


def build(engine: Engine, recipe: Recipe) -> None:
    """Build the image of a recipe, showing progress; its base must be here.

    Raises:
        WorkError: A step failed; the hint holds its last lines.
        MissingError: The disk is full, or the engine went away.
    """
    base = require_base(engine, recipe.base)
    _require_room(engine, _BUILD_BYTES, "building the project's image")
    note(f"Building the image {recipe.tag} on {recipe.base} ...")
    labels = {CONTENT_LABEL: recipe.content_id, BASE_LABEL: base["Id"]}
    steps = sum(1 for line in recipe.containerfile.splitlines() if re.match(r"[A-Z]", line))
    with progress(steps, "building", unit="step") as bar:
        _follow(engine.build(recipe.context(), tag=recipe.tag, labels=labels), bar)


def _follow(events: Iterable[dict[str, Any]], bar: Any) -> None:
    step, tail = "", deque[str](maxlen=200)
    for event in events:
        text = str(event.get("stream") or event.get("status") or "")
        for line in text.splitlines():
            match = re.match(r"(?:Step|STEP) (\d+)/(\d+) ?: (.*)", line)
            if match:
                step = f"step {match[1]} of {match[2]}, {_short(match[3])}"
                tail.clear()
                bar.update(1)
                # On a terminal the bar says it; elsewhere a line a step does.
                if not sys.stderr.isatty():
                    note(f"  [{match[1]:>2}/{match[2]}] {_short(match[3])}")
            elif line.strip():
                tail.append(line.rstrip())
                bar.set_postfix_str(_short(line.strip(), 60), refresh=True)
        if "error" in event:
            raise _build_error(step, [*tail, str(event["error"]).strip()])


def _build_error(step: str, lines: list[str]) -> Exception:
    from kaggle_workbench.container.requirements import explain_pip_conflict

    text = "\n".join(lines)
    if is_disk_full(text):
        return disk_full(f"building the project's image, {step}" if step else "building the project's image")
    shown = "\n".join(lines[-SHOWN_LINES:])
    explained = explain_pip_conflict(text)
    return WorkError(
        explained or f"The image could not be built: {step or 'its first step'} failed.",
        hint=f"The last lines of {step or 'the build'}:\n{shown}",
    )


def _show_pull(events: Iterable[dict[str, Any]]) -> None:
    layers: dict[str, tuple[int, int]] = {}
    said = 0
    with progress(None, "fetching") as bar:
        for event in events:
            detail = event.get("progressDetail") or {}
            if event.get("status") == "Downloading" and detail.get("total"):
                layers[str(event.get("id"))] = (int(detail["current"]), int(detail["total"]))
                now, total = (sum(sizes) for sizes in zip(*layers.values(), strict=True))
                bar.total = total
                bar.update(now - bar.n)
                if not sys.stderr.isatty() and now - said >= 1e9:
                    said = now
                    note(f"  {human_bytes(now)} of at least {human_bytes(total)}")


def _require_room(engine: Engine, needed: float, doing: str) -> None:
    # Only an engine on this machine's own disk can be asked; in a virtual machine the path is not ours.
    folder = Path(str(engine.info.get("DockerRootDir") or ""))
    try:
        if not folder.is_absolute() or not folder.is_dir():
            return
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if free >= needed:
        return
    if free < needed / 2:
        error = disk_full(doing)
        raise MissingError(
            f"Too little room for {doing}: {human_bytes(free)} free under {folder}, {human_bytes(needed)} needed.",
            hint=error.hint,
        )
    warn(f"Only {human_bytes(free)} free under {folder}; {doing} may need {human_bytes(needed)}.")


def _short(text: str, length: int = 100) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
