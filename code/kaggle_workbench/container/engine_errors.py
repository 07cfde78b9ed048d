"""What an engine's own words mean: out of reach, disk full, port taken, no GPU, folder not seen."""

from __future__ import annotations

from kaggle_workbench.errors import MissingError, WorkbenchError, WorkError

_UNREACHABLE = (
    "no such host",
    "server misbehaving",
    "dial tcp",
    "i/o timeout",
    "connection refused",
    "network is unreachable",
    "name resolution",
    "tls handshake timeout",
    "context deadline exceeded",
    "request canceled",
    "connection reset",
    "no route to host",
)
_DISK_FULL = ("no space left on device", "disk quota exceeded")


class PortTakenError(MissingError):
    """The wanted port of this machine is in use."""


class GpuRefusedError(WorkError):
    """The engine could not hand a GPU to a container; `message` holds its words."""


def is_disk_full(text: str) -> bool:
    """Whether an engine's or a program's words mean a full disk."""
    return any(mark in text.lower() for mark in _DISK_FULL)


def disk_full(doing: str) -> MissingError:
    """The error for a full disk under the engine."""
    return MissingError(
        f"The disk that holds the container engine's images is full ({doing}).",
        hint="See what takes the room with `docker system df`; `docker system prune` removes what no container uses.\n"
        "With Docker Desktop the limit is its virtual disk: Settings, Resources, Disk usage limit.",
    )


def pull_error(image: str, text: str) -> WorkbenchError:
    """The plain error for an image that could not be fetched, from the engine's words."""
    words = text.lower()
    first = image.split("/")[0]
    registry = first if "." in first or ":" in first else "docker.io"
    if is_disk_full(words):
        return disk_full(f"fetching {image}")
    if any(mark in words for mark in _UNREACHABLE):
        return MissingError(
            f"The image {image} is not on this machine, and its registry {registry} cannot be reached.",
            hint="Connect to the network and try again, or bring the image here with `docker load`.\n"
            f"The engine says: {text}",
        )
    if "unauthorized" in words or "denied" in words or "authentication" in words:
        return MissingError(
            f"The registry {registry} does not hand out the image {image}: it does not exist there, or needs a log-in.",
            hint=f"Check the name; for a private image run: docker login {registry}\nThe engine says: {text}",
        )
    if "not found" in words or "manifest unknown" in words or "no matching manifest" in words:
        return MissingError(
            f"The registry {registry} has no image {image} for this machine.",
            hint=f"Check the name and the tag in .project/spec.yaml or behind --base.\nThe engine says: {text}",
        )
    return MissingError(
        f"The image {image} could not be fetched: {text}", hint="Try again; see `docker pull` for more."
    )


def engine_error(doing: str, text: str) -> WorkbenchError:
    """The plain error for a request that the engine refused, from its words."""
    words = text.lower()
    if is_disk_full(words):
        return disk_full(doing)
    if "port is already allocated" in words or "address already in use" in words:
        return PortTakenError(f"The port is in use on this machine ({doing}): {text}")
    if any(mark in words for mark in ("device driver", "nvidia", "cdi device", "capabilities: [[gpu]]")):
        return GpuRefusedError(text)
    if "bind source path does not exist" in words or "mounts denied" in words or "not shared from the host" in words:
        return MissingError(
            f"The container engine does not see a folder of this machine: {text}",
            hint="An engine in a virtual machine must share that folder (Docker Desktop: Settings, Resources,\n"
            "File sharing); an engine on another machine, or one used from inside a container, cannot see it.",
        )
    return WorkError(f"The container engine refused ({doing}): {text}", hint="`docker info` may tell more.")


def last_words(error: Exception) -> str:
    """The last line of an error's text; its kind when it has none."""
    return str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
