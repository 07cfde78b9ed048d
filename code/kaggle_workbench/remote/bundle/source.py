"""Where the package comes from on the other machine: from inside the notebook, or from the user's own repository."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kaggle_workbench import provenance
from kaggle_workbench.errors import RefusedError, UsageError
from kaggle_workbench.remote.bundle.package import Package

TOKEN_NAME = "GITHUB_TOKEN"  # noqa: S105  (the name of a secret, not its value)
GIT_S = 30

INSIDE = '''# Unpacks the helper package into a folder of its own. By hand: run this cell, then look into that folder.
import base64, io, os, sys, tempfile, zipfile

PACKAGE = """
{text}
"""
folder = tempfile.mkdtemp(prefix="kaggle-workbench-")
zipfile.ZipFile(io.BytesIO(base64.b64decode(PACKAGE))).extractall(folder)
sys.path.insert(0, folder)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
print("kaggle_workbench is in", folder)'''

FROM_GIT = """# Fetches the helper package from your repository, at the commit this run was pushed from. A private one
# needs the secret {token}; git asks for it by a small program, so that it stands in no command and no address.
import os, pathlib, subprocess, sys, tempfile

REPOSITORY, COMMIT = {repository!r}, {commit!r}


def secret(name):
    try:
        from kaggle_secrets import UserSecretsClient

        return UserSecretsClient().get_secret(name)
    except Exception:
        pass
    try:
        from google.colab import userdata

        return userdata.get(name)
    except Exception:
        return None


folder = pathlib.Path(tempfile.mkdtemp(prefix="kaggle-workbench-"))
ask = folder / "ask.sh"
ask.write_text('#!/bin/sh\\ncase "$1" in Username*) echo x-access-token ;; *) printenv KWB_GIT_TOKEN ;; esac\\n')
ask.chmod(0o700)
env = {{**os.environ, "GIT_ASKPASS": str(ask), "GIT_TERMINAL_PROMPT": "0", "KWB_GIT_TOKEN": secret({token!r}) or ""}}
for words in (["init", "-q"], ["fetch", "-q", "--depth", "1", REPOSITORY, COMMIT], ["checkout", "-q", "FETCH_HEAD"]):
    done = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"git {{words[0]}} of {{REPOSITORY}} failed: {{done.stderr.strip()[-300:]}}")
del env
code = str(folder / "code")
sys.path.insert(0, code)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [code, os.environ.get("PYTHONPATH")]))
print("kaggle_workbench is at commit", COMMIT[:10])"""


@dataclass(frozen=True)
class Repository:
    """The user's repository as another machine can reach it.

    Attributes:
        address: Without credentials.
        commit: The whole hash.
    """

    address: str
    commit: str


def inside(package: Package) -> str:
    """The cell that unpacks the package."""
    return INSIDE.format(text=package.text)


def from_git(repository: Repository) -> str:
    """The cell that fetches the package."""
    return FROM_GIT.format(repository=repository.address, commit=repository.commit, token=TOKEN_NAME)


def repository(root: Path) -> Repository:
    """The repository of this project, at its present commit.

    Raises:
        UsageError: It is no git repository, or has no remote that another machine could reach.
        RefusedError: What would run there is not what is here: uncommitted changes, or a commit that was not pushed.
    """
    state = provenance.commit(root)
    if state is None:
        raise UsageError(f"{root} is no git repository.", hint="Leave --code git out: the package then travels inside.")
    if state["dirty"]:
        raise RefusedError(
            "Files of this project have changes that are not committed, so the commit is not what runs here.",
            hint="Commit and push them, or leave --code git out: the package then travels inside.",
        )
    address = without_credentials(_git(root, "config", "--get", "remote.origin.url"))
    if not address:
        raise UsageError(
            "This repository has no remote `origin` with an https or ssh address.",
            hint="Add one (git remote add origin https://...), or leave --code git out.",
        )
    commit = str(state["commit"])
    if not _git(root, "branch", "-r", "--contains", commit):
        raise RefusedError(
            f"Commit {commit[:10]} was not pushed to a remote branch that is known here.",
            hint="Push it (git push), or leave --code git out.",
        )
    return Repository(address, commit)


def without_credentials(address: str) -> str:
    """A remote's address as https without user and password; "" when another machine cannot use it.

    `git@host:owner/name.git` and `https://user:key@host/owner/name` both become `https://host/owner/name(.git)`.
    """
    short = re.fullmatch(r"(?:ssh://)?[\w.-]+@([\w.-]+)[:/](?:\d+/)?(.+)", address)
    if short:
        return f"https://{short[1]}/{short[2]}"
    plain = re.fullmatch(r"https://(?:[^@/]*@)?([\w.:-]+/.+)", address)
    return f"https://{plain[1]}" if plain else ""


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
