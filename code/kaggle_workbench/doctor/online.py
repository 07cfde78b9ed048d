"""Asks Kaggle one thing, in a process of its own: `python -m kaggle_workbench.doctor.online rules`.

Prints one line of JSON: state, found, fix. Nothing is spent.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.kaggle_api import Client, Competition

Answer = tuple[str, str, str]
# With less than this a training on a GPU is hardly worth to be pushed.
LITTLE_S = 2 * 3600


def main(what: str) -> None:
    """Ask, and print the answer."""
    try:
        state, found, fix = _ask(what)
    except WorkbenchError as error:
        state, found, fix = "failed", error.message, error.hint.replace("\n", " ")
    except Exception as error:
        state, found, fix = "not checked", f"{type(error).__name__}: {error}", "./kwb --debug check --help"
    print(json.dumps({"state": state, "found": found, "fix": fix}))


def _ask(what: str) -> Answer:
    from kaggle_workbench.competition.connect import connect
    from kaggle_workbench.settings import load_settings

    settings = load_settings({"SOURCE": "kaggle"})
    with connect(settings) as source:
        competition = source.client.competition(settings.competition)
        if what == "credentials":
            return "passed", f"Kaggle knows these credentials ({source.credentials_source})", ""
        return ASK[what](source.client, competition)


def _rules(client: Client, competition: Competition) -> Answer:
    from kaggle_workbench.competition.budget import page

    if competition.user_has_entered:
        return "passed", f"accepted for {competition.slug}", ""
    return (
        "failed",
        f"not accepted for {competition.slug}",
        f"Accept them at {page(client, competition.slug, '/rules')}",
    )


def _submissions(client: Client, competition: Competition) -> Answer:
    from kaggle_workbench.competition.budget import left_today

    left = left_today(client, competition)
    if left is None:
        return "passed", "Kaggle does not say", ""
    if left == 0:
        return "warned", f"none left today for {competition.slug}", "Wait for midnight UTC."
    return "passed", f"{left} left today for {competition.slug}", ""


def _quota(client: Client, _: Competition) -> Answer:
    from kaggle_workbench.kaggle_api import kernels

    held = kernels.quota(client)
    if held.gpu_total_s is None:
        return "passed", "Kaggle does not say", ""
    left = max(0.0, held.gpu_total_s - (held.gpu_used_s or 0))
    said = f"{left / 3600:.1f} of {held.gpu_total_s / 3600:.0f} GPU hours left this week"
    if left < LITTLE_S:
        return "warned", said, "Train on the CPU there (MACHINE=cpu), on Colab, or wait for the week's end."
    return "passed", said, ""


ASK: Mapping[str, Callable[[Client, Competition], Answer]] = {
    "rules": _rules,
    "submissions": _submissions,
    "quota": _quota,
}

if __name__ == "__main__":
    main(sys.argv[1])
