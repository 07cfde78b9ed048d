"""Rules for mounts: what AI Workbench can mount, and where it hurts."""

from __future__ import annotations

from kaggle_workbench.container.spec_model import MOUNT_TYPES, Mount
from kaggle_workbench.container.spec_read import Document

# Places of the container's own; a mount over one of them breaks it. The socket folder of the host is
# mounted beside them, on /var/host-run/.
_SYSTEM = (
    *("/", "/bin", "/boot", "/dev", "/entrypoint.sh", "/etc", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/opt/project/build", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var/run"),
)
_SYSTEM_BELOW = ("/run/", "/proc/", "/sys/", "/dev/", "/etc/", "/usr/bin/", "/usr/lib/")


def check_mounts(document: Document) -> None:
    """Apply the rules for mounts."""
    mounts = document.spec.execution.mounts
    projects = [index for index, mount in enumerate(mounts) if mount.type == "project"]
    if not projects:
        document.error(
            "project-mount",
            "execution.mounts",
            "There is no mount of type project, so the container would not see the project.",
            "Add one: type: project, target: /project/, options: rw.",
        )
    for index in projects[1:]:
        document.error(
            "project-mount",
            f"execution.mounts[{index}]",
            "This is one more mount of type project; there must be exactly one.",
            "Delete it.",
        )
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        _mount(document, index, mount)
        bare = mount.target.rstrip("/")
        if bare in seen:
            document.error(
                "mount-twice",
                f"execution.mounts[{index}].target",
                f"Two mounts have the target {mount.target}.",
                "Give one of them another target, or delete it.",
            )
        seen.add(bare)


def _mount(document: Document, index: int, mount: Mount) -> None:
    at = f"execution.mounts[{index}]"
    if mount.type not in MOUNT_TYPES:
        document.error(
            "mount-type",
            f"{at}.type",
            f"The mount of {mount.target or '(no target)'} has the unknown type {mount.type!r}.",
            "Write one of " + ", ".join(MOUNT_TYPES) + ".",
        )
    if not mount.target.startswith("/"):
        document.error(
            "mount-target",
            f"{at}.target",
            f"The mount's target {mount.target!r} is not an absolute path.",
            "Write a path that begins with /.",
        )
        return
    bare = mount.target.rstrip("/")
    if mount.type == "project" and not mount.target.endswith("/"):
        document.warn(
            "project-slash",
            f"{at}.target",
            "The project mount's target has no / at its end.",
            "Write target: /project/.",
        )
    elif not mount.target.endswith("/"):
        document.warn(
            "target-slash", f"{at}.target", f"The target {mount.target} has no / at its end.", f"Write {mount.target}/."
        )
    if (bare or "/") in _SYSTEM or mount.target.startswith(_SYSTEM_BELOW):
        document.warn(
            "mount-system",
            f"{at}.target",
            f"The target {mount.target} is a place of the container's own; a mount there hides what is in it.",
            "Mount somewhere else, such as /mnt/NAME/ (the host's /var/run/ goes to /var/host-run/).",
        )
    _options(document, at, mount)
    if mount.type == "host":
        _on_versioned(document, at, mount)


def _options(document: Document, at: str, mount: Mount) -> None:
    for option in filter(None, (part.strip() for part in mount.options.split(","))):
        named = mount.type == "volume" and option.startswith("volumeName=")
        if option not in ("rw", "ro") and not named:
            document.warn(
                "mount-options",
                f"{at}.options",
                f"The option {option!r} of the {mount.type} mount {mount.target} is not one that is known.",
                'Write rw, ro or ""; a volume may have volumeName=NAME.',
            )


def _on_versioned(document: Document, at: str, mount: Mount) -> None:
    project = next(
        (other.target.rstrip("/") for other in document.spec.execution.mounts if other.type == "project"), ""
    )
    if not project or not mount.target.startswith(f"{project}/"):
        return
    inside = mount.target.removeprefix(f"{project}/").rstrip("/") + "/"
    entries = [entry for entry in document.spec.layout if inside.startswith(entry.path.rstrip("/") + "/")]
    nearest = max(entries, key=lambda entry: len(entry.path), default=None)
    if nearest and nearest.storage in ("git", "gitlfs"):
        document.warn(
            "mount-on-versioned",
            f"{at}.target",
            f"The host mount {mount.target} lies in {nearest.path}, which the layout gives to {nearest.storage}: "
            "inside the container it hides what git keeps there, and git takes the mounted files for the project's.",
            f"Mount outside {nearest.path}, or give that folder storage: gitignore.",
        )
