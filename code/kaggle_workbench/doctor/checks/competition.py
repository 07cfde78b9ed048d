"""What only Kaggle can tell: whether it knows these credentials, rules, submissions left, GPU hours left."""

from __future__ import annotations

import json
import sys

from kaggle_workbench.doctor.check import Check, Result, failed, not_checked, passed, warned
from kaggle_workbench.doctor.facts import Facts

ASK_S = 55.0


def rules(facts: Facts) -> Result:
    """Whether the competition's rules are accepted."""
    return asked(facts, "rules")


def submissions(facts: Facts) -> Result:
    """Submissions left today."""
    return asked(facts, "submissions")


def quota(facts: Facts) -> Result:
    """GPU hours left this week."""
    return asked(facts, "quota")


def asked(facts: Facts, what: str) -> Result:
    """Ask in a process of its own: the client needs its packages, and may take its time."""
    python = facts.root / ".venv" / "bin" / "python"
    command = (str(python) if python.exists() else sys.executable, "-m", "kaggle_workbench.doctor.online", what)
    code, said = facts.run(*command, timeout_s=ASK_S)
    if code == 124:
        return failed("no answer within a minute", "Look at the network, then again.")
    try:
        found = json.loads(said.strip().splitlines()[-1])
        state, text, fix = found["state"], found["found"], found["fix"]
    except (ValueError, IndexError, KeyError):
        return not_checked("the client is not installed yet", "./kwb check --help installs it; then again")
    makers = {"passed": lambda: passed(text), "warned": lambda: warned(text, fix), "failed": lambda: failed(text, fix)}
    return makers.get(state, lambda: not_checked(text, fix))()


CHECKS = [
    Check("rules", "Competition's rules", rules, online=True),
    Check("submissions", "Submissions left", submissions, online=True),
    Check("quota", "GPU hours left", quota, online=True),
]
