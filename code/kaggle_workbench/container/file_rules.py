"""Rules for the build files of any AI Workbench project: scripts, apt.txt, requirements.txt, variables.env.

AI Workbench runs the scripts with bash before the project is mounted, and only these files are in
the build's context.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kaggle_workbench import envfiles
from kaggle_workbench.container.findings import Finding, Mark
from kaggle_workbench.container.pasted import find_pasted
from kaggle_workbench.container.requirements import normal, parse_line
from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import VARIABLES_FILE

SCRIPTS = ("preBuild.bash", "postBuild.bash")
_PROJECT = re.compile(r"(?<![\w.-])/project(?![\w.-])")
# Such lines only write /project somewhere, for shells that start when it is there.
_PROFILE = re.compile(r"(>>?|\btee\b).*(bashrc|profile|bash_login|zshrc|environment)")
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_DOCKERFILE = re.compile(r"(FROM|RUN|COPY|ADD|ENV|WORKDIR|USER|ENTRYPOINT|CMD|ARG)\s+\S")


def check_build_files(root: Path) -> Iterator[Finding]:
    """Findings in the build files that the project has."""
    for name in SCRIPTS:
        yield from _script(name, _read(root / name))
    yield from _apt(_read(root / "apt.txt"))
    yield from _requirements(_read(root / "requirements.txt"))
    yield from _variables(root / VARIABLES_FILE)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _script(name: str, text: str) -> Iterator[Finding]:
    if "\r\n" in text:
        yield Finding(
            name,
            Mark(text[: text.index("\r\n")].count("\n") + 1),
            "error",
            "crlf",
            "The lines end with CR LF, and bash takes the CR for a part of each command.",
            "Save the file with LF line ends; .gitattributes with `* text=auto eol=lf` keeps them.",
        )
    for number, line in _commands(text):
        code = line.strip()
        used = _PROJECT.search(line)
        if used and not _PROFILE.search(line[used.end() :]):
            yield Finding(
                name,
                Mark(number, used.start() + 1),
                "warning",
                "project-in-build",
                "This line uses /project, which is not there while the image is built.",
                "Write the file's content into the script, fetch it, or do it in onStart.bash.",
            )
        if _DOCKERFILE.match(code):
            word = code.split()[0]
            yield Finding(
                name,
                Mark(number, line.index(word) + 1),
                "warning",
                "dockerfile-word",
                f"{word} is a word of Dockerfiles; bash looks for a program of that name.",
                f"Delete {word} and write the command alone.",
            )


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a script that bash runs: no comments, no bodies of here-documents."""
    end = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if end:
            end = "" if line.strip() == end else end
        elif not line.lstrip().startswith("#"):
            yield number, line
            found = _HERE_DOCUMENT.search(line)
            end = found[2] if found else ""


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.strip().startswith("#"):
            yield number, line


def _apt(text: str) -> Iterator[Finding]:
    for number, line in _lines(text):
        entry = line.strip()
        if "#" in entry:
            yield _inline_comment("apt.txt", number, line)
        elif entry.startswith("-") or len(entry.split()) > 1:
            yield Finding(
                "apt.txt",
                Mark(number),
                "warning",
                "apt-line",
                f"{entry!r} is not the name of one package.",
                "Write one package a line, without options.",
            )


def _requirements(text: str) -> Iterator[Finding]:
    file, seen = "requirements.txt", dict[str, int]()
    for number, line in _lines(text):
        entry = line.strip()
        if re.search(r"\s#", entry):
            yield _inline_comment(file, number, line)
            entry = re.split(r"\s#", entry)[0].strip()
        if entry.startswith("-"):
            option = re.split(r"[\s=]", entry)[0]
            if option.startswith(("-i", "--index-url", "--extra-index", "-f", "--find-links", "--trusted")):
                message = f"AI Workbench does not support the index option {option} in this file."
                fix = "Set it in preBuild.bash: python3 -m pip config --user set global.extra-index-url URL."
            else:
                message = f"The option {option} names something that is not in the build: only this one file is."
                fix = "List the packages themselves."
            yield Finding(file, Mark(number), "warning", "requirement-option", message, fix)
            continue
        if re.match(r"\.{0,2}/|file:", entry):
            yield Finding(
                file,
                Mark(number),
                "warning",
                "requirement-option",
                f"{entry} is a path, and only this one file is in the build.",
                "Name a package of the index.",
            )
            continue
        if re.match(r"(git|hg|svn|bzr|https?)\+?[\w+]*:", entry) or re.search(r"\s@\s", entry):
            continue
        requirement = parse_line(number, entry)
        if requirement is None:
            yield Finding(
                file, Mark(number), "error", "requirement-line", f"pip cannot read {entry!r}.", "Write NAME>=VERSION."
            )
            continue
        if not requirement.versions:
            yield Finding(
                file,
                Mark(number),
                "warning",
                "unpinned",
                f"{requirement.name} has no version: a later build may get another one that does not fit.",
                f"Write a range that works today, such as {requirement.name}>=1.2,<2.",
            )
        if requirement.name in seen:
            yield Finding(
                file,
                Mark(number),
                "warning",
                "requirement-twice",
                f"{requirement.name} is named a second time; the first is on line {seen[requirement.name]}.",
                "Keep one of the two.",
            )
        seen.setdefault(normal(requirement.name), number)


def _inline_comment(file: str, number: int, line: str) -> Finding:
    return Finding(
        file,
        Mark(number, line.index("#") + 1),
        "warning",
        "inline-comment",
        "There is a comment behind the package; AI Workbench takes it for a part of the name.",
        "Put the comment on a line of its own.",
    )


def _variables(path: Path) -> Iterator[Finding]:
    try:
        file = envfiles.read(path)
    except UsageError as error:
        mark, message = split_note(error.message)
        yield Finding(path.name, mark, "error", "variables-line", message, error.hint)
        return
    for note in file.notes:
        mark, message = split_note(note)
        said, _, fix = message.partition(". ")
        yield Finding(
            path.name, mark, "warning", "variables-line", said.rstrip(".") + ".", fix or "Keep one of the two."
        )
    for mark, kind in find_pasted(_read(path)):
        yield Finding(
            path.name,
            mark,
            "error",
            "pasted-key",
            f"This looks like a real {kind}; git would keep it for ever.",
            "Delete it here, revoke it where it was made, and keep the new one as a secret.",
        )


def split_note(note: str) -> tuple[Mark, str]:
    """A sentence of `envfiles` as its place and the rest: `variables.env, line 3: ...`."""
    found = re.match(r"\S+, line (\d+): (.*)", note, re.DOTALL)
    return (Mark(int(found[1])), found[2]) if found else (Mark(), note)
