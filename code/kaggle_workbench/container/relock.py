"""`kwb image show` and `kwb image lock`: the lock seen, renewed, moved to another version."""

from __future__ import annotations

import re
from pathlib import Path

from kaggle_workbench.container import lock
from kaggle_workbench.container.engine import connect
from kaggle_workbench.container.folders import give
from kaggle_workbench.container.spec import read_spec
from kaggle_workbench.container.spec_write import write_spec
from kaggle_workbench.container.state import State
from kaggle_workbench.errors import MissingError, UsageError, WorkbenchError
from kaggle_workbench.settings import ROOT_MARK, require_root
from kaggle_workbench.show import note

_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def show(*, start: Path | None = None) -> tuple[lock.ImageLock, str]:
    """The lock in force on this machine, and where it stands.

    A base chosen for this machine (`kwb up --base`) has a lock of its own, outside the project.

    Raises:
        UsageError: There is no lock.
    """
    root = require_root(start)
    state = State(root)
    path = state.folder / "image.lock" if state.load().base else root / lock.LOCK_FILE
    found = lock.read_lock(path)
    if found is None:
        raise UsageError(
            f"There is no image lock ({path}).", hint="./kwb up makes it after a build; so does ./kwb image lock."
        )
    return found, str(path)


def relock(tag: str | None = None, *, dry_run: bool = False, start: Path | None = None) -> list[dict[str, str]]:
    """Look into the image on this machine and renew the lock; with `tag`, move spec and lock to it first.

    An image that is not on this machine is not fetched: what only a look can tell is then null.

    Args:
        tag: Version to move to, such as `v171`.
        dry_run: Write nothing.
        start: Folder to look for the project from.

    Returns:
        What differs from the lock before, a row a field.

    Raises:
        UsageError: A tag that is none, or `latest`, which names another image every week.
        MissingError: Without `tag`: no engine to look with, or the image is not here.
    """
    root = require_root(start)
    spec = read_spec(root / ROOT_MARK)
    if tag is not None:
        if not _TAG.fullmatch(tag) or tag == "latest":
            raise UsageError(
                f"{tag!r} does not name one version of an image.", hint="Versions are named v170, v171, ..."
            )
        spec = spec.with_tag(tag)
    reference = spec.environment.base.reference
    before = lock.read_lock(root / lock.LOCK_FILE) or lock.unseen(reference)
    now = _look(reference, must=tag is None)
    now = lock.with_old_knowledge(before, now)
    if not dry_run:
        if tag is not None:
            write_spec(root / ROOT_MARK, spec)
            give(root / ROOT_MARK, root)
        lock.write_lock(root / lock.LOCK_FILE, now)
        give(root / lock.LOCK_FILE, root)
    return before.changes(now)


def _look(reference: str, *, must: bool) -> lock.ImageLock:
    try:
        engine = connect()
        if engine.image(reference) is not None:
            return lock.look_inside(engine, reference)
        if must:
            raise MissingError(f"The image {reference} is not on this machine.", hint="./kwb up fetches it.")
    except WorkbenchError as error:
        if must:
            raise
        note(f"Nobody can look into {reference}: {error.message}")
        return lock.unseen(reference)
    note(f"{reference} is not on this machine: its digest and content are not yet known; the next ./kwb up finds them.")
    return lock.unseen(reference)
