"""git: no outputs in notebooks, no secret in the index or the history, no notebook in LFS."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kaggle_workbench.doctor.check import Check, Result, failed, not_checked, passed, warned
from kaggle_workbench.doctor.facts import SECRETS, Facts

SECRET_FILES = ("secrets.env", "kaggle.json", "access_token")
MUST_BE_IGNORED = ("secrets.env", "kaggle.json", "access_token", "data/output/x")
# What Kaggle's tokens look like, and URLs with a password.
SHAPES = r"KGAT_[A-Za-z0-9]{16,}|mongodb(\+srv)?://[^:/@ <]+:[^@ <*]+@"
# Our own code, tests and pages speak of secrets, and made-up ones stand in them.
OURS = (":!tests", ":!docs", ":!code/kaggle_workbench", ":!data/practice", ":!*.md", ":!secrets.env.example")
HISTORY_S = 3.0


def notebooks(facts: Facts) -> Result:
    """Outputs in notebooks, as git has them and as they lie here."""
    if not _is_repository(facts):
        return passed("not a git repository")
    indexed = [name for name in _tracked(facts, "*.ipynb") if _has_outputs(_indexed(facts, name))]
    here = [path for path in _paths(facts) if _has_outputs(path.read_text(encoding="utf-8", errors="replace"))]
    if indexed:
        return failed(
            f"outputs are in git in {', '.join(indexed[:3])}",
            "./kwb doctor --fix (takes them out), then: git add " + " ".join(indexed[:3]) + " and commit",
            lambda: _strip([facts.root / name for name in indexed]),
        )
    if here:
        names = ", ".join(str(path.relative_to(facts.root)) for path in here[:3])
        return warned(
            f"outputs stand in {names}: they would go into the next commit",
            "Before you commit, in JupyterLab: Edit, Clear Outputs of All Cells, save.",
        )
    return passed("no outputs")


def secrets(facts: Facts) -> Result:
    """Secrets in what git holds now."""
    if not _is_repository(facts):
        return passed("not a git repository")
    tracked = [name for name in _tracked(facts) if Path(name).name in SECRET_FILES]
    if tracked:
        return failed(
            f"{tracked[0]} is versioned by git",
            f"git rm --cached {tracked[0]}, commit, and revoke the key on kaggle.com (Settings): it is known now.",
        )
    code, said = facts.run("git", "grep", "--cached", "-lIE", SHAPES, "--", ".", *OURS, timeout_s=HISTORY_S)
    if code == 0 and said.strip():
        return failed(
            f"what looks like a secret stands in {said.splitlines()[0]}",
            "Take it out, commit, and revoke the key: it is known to everyone who has a copy.",
        )
    values = [value for name in SECRETS if len(value := facts.setting(name)[0]) >= 12]
    if values:
        # By standard input: a command line can be read by others.
        words = ("git", "grep", "--cached", "-lIF", "-f", "-")
        code, said = facts.run(*words, timeout_s=HISTORY_S, given="\n".join(values) + "\n")
        if code == 0 and said.strip():
            where = said.splitlines()[0]
            return failed(f"a secret of yours stands in {where}", "Take it out, commit, and revoke the key.")
    return passed("none in the files that git holds")


def history(facts: Facts) -> Result:
    """Secrets in older commits."""
    if not _is_repository(facts):
        return passed("not a git repository")
    revoked = facts.run("git", "config", "--get-all", "kwb.revoked")[1].split()
    for name in SECRET_FILES:
        code, said = facts.run("git", "log", "--all", "--format=%h", "-1", "--", f"*{name}", name, timeout_s=HISTORY_S)
        if code == 124:
            return not_checked("the history is too long to be searched in time", "git log --all -- secrets.env")
        if code == 0 and said.strip():
            if said.split()[0] in revoked:
                continue
            return failed(f"{name} is in the history (commit {said.split()[0]})", _revoke(said.split()[0]))
    words = ("git", "log", "--all", "--format=%h", "-1", "-G", "KGAT_[A-Za-z0-9]{16,}", "--", ".", *OURS)
    code, said = facts.run(*words, timeout_s=HISTORY_S)
    if code == 124:
        return not_checked("the history is too long to be searched in time", "git log --all -G KGAT_")
    if code == 0 and said.strip() and said.split()[0] not in revoked:
        return failed(f"a Kaggle token is in the history (commit {said.split()[0]})", _revoke(said.split()[0]))
    return passed("no secret in the history")


def _revoke(commit: str) -> str:
    return (
        "Revoke the key on kaggle.com (Settings, API tokens): whoever has a copy has it. "
        f"Then note that you did: git config --add kwb.revoked {commit}"
    )


def ignored(facts: Facts) -> Result:
    """What git must not take up."""
    if not _is_repository(facts):
        return passed("not a git repository")
    open_ = [name for name in MUST_BE_IGNORED if facts.run("git", "check-ignore", "-q", "--no-index", name)[0] == 1]
    if not open_:
        return passed("secrets and results are ignored")
    lines = [name if not name.endswith("/x") else f"{name[:-1]}*" for name in open_]
    return failed(
        f".gitignore does not name {', '.join(lines)}",
        "./kwb doctor --fix adds the lines, or: git checkout .gitignore",
        lambda: _ignore(facts.root / ".gitignore", lines),
    )


def lfs(facts: Facts) -> Result:
    """Notebooks and scripts that LFS turned into pointers."""
    pointers = [path for path in _paths(facts) if path.read_bytes()[:40].startswith(b"version https://git-lfs")]
    if pointers:
        return failed(
            f"{pointers[0].name} is a pointer of Git LFS, not the notebook", "git lfs install && git lfs pull"
        )
    rules = facts.root / ".gitattributes"
    text = rules.read_text(encoding="utf-8", errors="replace") if rules.is_file() else ""
    for line in text.splitlines():
        if "filter=lfs" in line and re.match(r"\s*(\*|.*\.ipynb|code/)", line):
            return failed(
                f".gitattributes puts notebooks into LFS ({line.strip()})",
                "Take that line out: AI Workbench and pushes see pointers otherwise.",
            )
    return passed("no notebook in LFS")


def _is_repository(facts: Facts) -> bool:
    return facts.run("git", "rev-parse", "--is-inside-work-tree")[0] == 0


def _tracked(facts: Facts, *patterns: str) -> list[str]:
    code, said = facts.run("git", "ls-files", "-z", "--", *patterns) if patterns else facts.run("git", "ls-files", "-z")
    return [name for name in said.split("\0") if name] if code == 0 else []


def _indexed(facts: Facts, name: str) -> str:
    return facts.run("git", "show", f":{name}")[1]


def _paths(facts: Facts) -> list[Path]:
    folders = (facts.root / "code", *sorted((facts.root / "competitions").glob("*")))
    return [path for folder in folders for path in sorted(folder.glob("*.ipynb"))]


def _has_outputs(text: str) -> bool:
    document = _notebook(text)
    return any(cell.get("outputs") or cell.get("execution_count") for cell in document.get("cells", ()))


def _notebook(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _strip(*groups: Iterable[Path]) -> str:
    done = []
    for path in sorted({path for group in groups for path in group if path.is_file()}):
        document = _notebook(path.read_text(encoding="utf-8"))
        if not _has_outputs(path.read_text(encoding="utf-8")):
            continue
        for cell in document["cells"]:
            if cell.get("cell_type") == "code":
                cell["outputs"], cell["execution_count"] = [], None
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        done.append(path.name)
    return f"took the outputs out of {', '.join(done)}" if done else "no outputs here; commit what git shows as changed"


def _ignore(path: Path, lines: list[str]) -> str:
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    path.write_text(
        before + ("" if before.endswith("\n") or not before else "\n") + "\n".join(lines) + "\n", encoding="utf-8"
    )
    return f"added {', '.join(lines)} to .gitignore"


CHECKS = [
    Check("notebooks", "Outputs in notebooks", notebooks),
    Check("git-secrets", "Secrets in git", secrets),
    Check("git-history", "Secrets in git's history", history),
    Check("git-ignore", ".gitignore", ignored),
    Check("git-lfs", "Git LFS", lfs),
]
