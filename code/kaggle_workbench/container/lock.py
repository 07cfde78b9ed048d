"""The image lock, `.project/image.lock`: which base image every place uses, and what is really inside.

What only a look into the image can tell stays null until a machine has the image; nothing is ever
filled in from hearsay.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.files import write_json

if TYPE_CHECKING:
    from kaggle_workbench.container.engine import Engine

LOCK_FILE = Path(".project") / "image.lock"
SCHEMA = 1
FRAMEWORKS = (
    "tensorflow",
    "tensorflow-cpu",
    "keras",
    "jax",
    "jaxlib",
    "torch",
    "numpy",
    "pandas",
    "scikit-learn",
    "jupyterlab",
    "jupyter-server",
    "nbconvert",
    "kaggle",
    "kagglehub",
)
UNKNOWN = "not yet known"

# Runs with the image's own Python, without network; prints one JSON line.
_PROBE = """
import importlib.metadata, json, os, platform, re
def text(path):
    try:
        return open(path).read().strip() or None
    except OSError:
        return None
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
def cuda():
    document = text("/usr/local/cuda/version.json")
    if document:
        return json.loads(document).get("cuda", {}).get("version")
    return os.environ.get("CUDA_VERSION") or None
found = {name: version(name) for name in NAMES}
print(json.dumps({
    "git_commit": text("/etc/git_commit"), "build_date": text("/etc/build_date"),
    "python": platform.python_version(), "cuda": cuda(),
    "packages": {name: value for name, value in found.items() if value},
}))
"""


@dataclass(frozen=True)
class ImageLock:
    """One base image, as far as it is known.

    Attributes:
        image: Name with registry, without tag.
        tag: Tag, such as `v170`.
        digest: `sha256:...` of the registry's manifest; None until a machine has pulled it.
        git_commit: Commit of Kaggle's docker-python that the image was built from.
        build_date: Kaggle's build date.
        python: Python's version inside.
        cuda: CUDA's version inside; None also for an image without CUDA.
        driver: What the image asks of the driver (NVIDIA_REQUIRE_CUDA).
        packages: Versions of the frameworks inside.
        architectures: Processors it is made for.
        size_bytes: Unpacked size.
    """

    image: str
    tag: str
    digest: str | None = None
    git_commit: str | None = None
    build_date: str | None = None
    python: str | None = None
    cuda: str | None = None
    driver: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    architectures: tuple[str, ...] = ()
    size_bytes: int | None = None

    @property
    def reference(self) -> str:
        """The image's full name, pinned by digest where that is known."""
        name = f"{self.image}:{self.tag}" if self.tag else self.image
        return f"{name}@{self.digest}" if self.digest else name

    @property
    def is_seen(self) -> bool:
        """Whether some machine has looked into it."""
        return self.python is not None

    def names(self, reference: str) -> bool:
        """Whether this lock is about that image."""
        return (self.image, self.tag) == split_reference(reference)

    def rows(self) -> list[dict[str, str]]:
        """The lock as rows for people."""
        return [{"field": name, "value": value or UNKNOWN} for name, value in self._shown().items()]

    def changes(self, other: ImageLock) -> list[dict[str, str]]:
        """What differs in `other`, a row a field."""
        before, now = self._shown(), other._shown()
        names = [*before, *(name for name in now if name not in before)]
        return [
            {"field": name, "before": before.get(name) or UNKNOWN, "now": now.get(name) or UNKNOWN}
            for name in names
            if before.get(name) != now.get(name)
        ]

    def _shown(self) -> dict[str, str | None]:
        from kaggle_workbench.files import human_bytes

        return {
            "image": self.image,
            "tag": self.tag or None,
            "digest": self.digest,
            "git commit": self.git_commit,
            "build date": self.build_date,
            "python": self.python,
            "cuda": self.cuda or ("none" if self.is_seen else None),
            "driver": self.driver or ("no requirement" if self.is_seen else None),
            "architectures": ", ".join(self.architectures) or None,
            "size": human_bytes(self.size_bytes) if self.size_bytes else None,
            **self.packages,
        }


def split_reference(reference: str) -> tuple[str, str]:
    """`gcr.io/a/b:v1@sha256:...` as (`gcr.io/a/b`, `v1`)."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{head}{slash}{last}", tag


def read_lock(path: Path) -> ImageLock | None:
    """Read a lock; None when there is none.

    Raises:
        UsageError: The file is damaged.
    """
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("schema") != SCHEMA:
            raise ValueError("another schema")
        document["architectures"] = tuple(document.get("architectures") or ())
        return ImageLock(**document)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"{path} is damaged ({error}).",
            hint=f"Take it back from git: git checkout -- {LOCK_FILE}   or make it anew: ./kwb image lock",
        ) from None


def write_lock(path: Path, lock: ImageLock) -> None:
    """Write a lock."""
    write_json(path, {"schema": SCHEMA, **asdict(lock)})


def require_same(lock: ImageLock | None, reference: str, image: dict[str, Any]) -> None:
    """Refuse an image that is another one than the lock's under the same name.

    Raises:
        WorkError: Its digest differs from the lock's.
    """
    digest = _digest(image, reference)
    if lock is None or not lock.digest or not digest or not lock.names(reference):
        return
    if digest != lock.digest:
        raise WorkError(
            f"{reference} on this machine is not the image that {LOCK_FILE} names: {digest} instead of {lock.digest}.",
            hint=f"To use the locked one: docker pull {lock.image}@{lock.digest} && "
            f"docker tag {lock.image}@{lock.digest} {reference}\nTo accept this one for all places: ./kwb image lock",
        )


def look_inside(engine: Engine, reference: str) -> ImageLock:
    """What an image on this machine holds, found by running its own Python once.

    Raises:
        WorkError: The image has no working Python.
    """
    image = engine.image(reference)
    name, tag = split_reference(reference)
    if image is None:
        raise WorkError(f"The image {reference} is not on this machine.", hint="./kwb up fetches it.")
    code = _PROBE.replace("NAMES", repr(FRAMEWORKS))
    answer = engine.run_once(reference, ["python3", "-c", code])
    try:
        found = json.loads(answer.output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise WorkError(
            f"{reference} holds no Python that works (exit code {answer.exit_code}).",
            hint="Choose an image with python3 and pip.",
        ) from None
    environment = dict(item.partition("=")[::2] for item in image["Config"].get("Env") or [])
    digest = _digest(image, reference)
    return ImageLock(
        image=name,
        tag=tag,
        digest=digest,
        driver=environment.get("NVIDIA_REQUIRE_CUDA", "").split(" ")[0] or None,
        architectures=tuple((engine.platforms(reference) if digest else []) or [str(image.get("Architecture"))]),
        size_bytes=int(image.get("Size") or 0) or None,
        **found,
    )


def unseen(reference: str) -> ImageLock:
    """The lock of an image that no machine has looked into."""
    name, tag = split_reference(reference)
    return ImageLock(name, tag)


def with_old_knowledge(old: ImageLock | None, new: ImageLock) -> ImageLock:
    """Keep a known digest when this machine has the same image without one (loaded, not pulled)."""
    if old is None or new.digest or (old.image, old.tag) != (new.image, new.tag):
        return new
    same = (old.git_commit, old.build_date, old.packages) == (new.git_commit, new.build_date, new.packages)
    return replace(new, digest=old.digest, architectures=old.architectures) if same and old.digest else new


def _digest(image: dict[str, Any], reference: str) -> str | None:
    name, _ = split_reference(reference)
    for entry in image.get("RepoDigests") or []:
        repository, _, digest = str(entry).partition("@")
        if repository == name or repository.removeprefix("docker.io/") == name:
            return digest or None
    return None
