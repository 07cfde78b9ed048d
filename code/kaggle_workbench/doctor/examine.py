"""Running the checks: side by side, each with a limit, and none of them able to break the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from kaggle_workbench.doctor.check import Check, Result, not_checked
from kaggle_workbench.doctor.checks import competition, credentials, docker, folders, git, machine, nvidia, project, wsl
from kaggle_workbench.doctor.facts import Facts
from kaggle_workbench.errors import UsageError

# In the order they are told: from the ground up.
CHECKS: tuple[Check, ...] = (
    *machine.CHECKS,
    *docker.CHECKS,
    *nvidia.CHECKS,
    *wsl.CHECKS,
    *folders.CHECKS,
    *project.CHECKS,
    *git.CHECKS,
    *credentials.CHECKS,
    *competition.CHECKS,
)
LIMIT_S = 4.0
ONLINE_LIMIT_S = 60.0


def examine(facts: Facts, *, only: Sequence[str] = (), online: bool = False) -> list[tuple[Check, Result]]:
    """Run the checks.

    Args:
        facts: What they look at.
        only: Ids of those wanted; none means all.
        online: Also ask Kaggle.

    Raises:
        UsageError: There is no check of such an id.
    """
    ids = [check.id for check in CHECKS]
    unknown = [name for name in only if name not in ids]
    if unknown:
        raise UsageError(f"The doctor has no check {unknown[0]!r}.", hint="Its checks: " + ", ".join(ids) + ".")
    wanted = [check for check in CHECKS if not only or check.id in only]
    results: dict[str, Result] = {}

    def look(check: Check) -> None:
        try:
            results[check.id] = check.run(facts)
        except Exception as error:
            results[check.id] = not_checked(f"the check itself met {type(error).__name__}: {error}")

    threads = []
    started = time.monotonic()
    for check in wanted:
        if check.online and not online:
            results[check.id] = not_checked("asks Kaggle", f"./kwb doctor --only {check.id} --online")
            continue
        thread = threading.Thread(target=look, args=(check,), daemon=True)
        thread.start()
        threads.append((check, thread))
    for check, thread in threads:
        # One limit for all of them: several that hang take no longer than one.
        limit = ONLINE_LIMIT_S if check.online else LIMIT_S
        thread.join(max(0.0, started + limit - time.monotonic()))
        if thread.is_alive():
            results[check.id] = not_checked(f"took longer than {limit:g} s")
    return [(check, results.get(check.id, not_checked("no answer"))) for check in wanted]


def mend(found: Sequence[tuple[Check, Result]]) -> list[str]:
    """Do the harmless mends.

    Returns:
        What was done, or why it could not be, a sentence each.
    """
    said = []
    for check, result in found:
        if result.harmless is None or result.state == "passed":
            continue
        try:
            said.append(f"{check.id}: {result.harmless()}")
        except OSError as error:
            said.append(f"{check.id}: could not be mended: {error}")
    return said
