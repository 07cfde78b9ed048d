"""Which check of the doctor explains an error: told by the room it was raised in."""

from __future__ import annotations

import traceback

# Rooms and modules, the most exact first.
_ROOMS: tuple[tuple[str, str], ...] = (
    ("container.endpoints", "docker"),
    ("container.engine", "docker"),
    ("container.image", "docker-disk"),
    ("container.lock", "lock"),
    ("container.relock", "lock"),
    ("container.gpus", "nvidia-runtime"),
    ("container.mounts", "folders"),
    ("container.folders", "folders"),
    ("container.jupyter", "ports"),
    ("container.running", "ports"),
    ("container.spec", "spec"),
    ("container", "docker"),
    ("hostpaths", "folders"),
    ("devices.nvml", "gpus"),
    ("devices", "gpus"),
    ("envfiles", "settings"),
    ("settings", "settings"),
    ("places", "settings"),
    ("kaggle_api.credentials", "credentials"),
    ("competition.connect", "credentials"),
    ("competition.budget", "submissions"),
    ("competition.download", "folders"),
    ("competition.folders", "folders"),
    ("kaggle_api", "kaggle"),
    ("remote", "kaggle"),
    ("arena", "ports"),
    ("files", "folders"),
)
_PACKAGE = "/kaggle_workbench/"


def check_of(error: BaseException) -> str:
    """The id of the check that explains an error; "" when none does (a bad submission, a model that fails).

    Args:
        error: As it was caught, with its trace.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = frame.filename.replace("\\", "/")
        if _PACKAGE not in path:
            continue
        module = path.rpartition(_PACKAGE)[2].removesuffix(".py").replace("/", ".")
        for room, check in _ROOMS:
            if module == room or module.startswith((f"{room}.", f"{room}_")):
                return check
    return ""
