"""README, CONTRIBUTING and docs/: what they name exists, and what they say to type works."""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kaggle_workbench import cli
from kaggle_workbench.doctor import CHECKS
from kaggle_workbench.errors import WorkbenchError
from kaggle_workbench.metrics import METRICS
from kaggle_workbench.settings import SECRET_NAMES, SETTINGS
from kaggle_workbench.stages.verdict import verdict
from project_tools import Project, make_project

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
GUIDES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
# The practice competitions' own pages beside them: links and files only.
PAGES = [*GUIDES, ROOT / "CHANGELOG.md", *sorted((ROOT / "data" / "practice").glob("*/README.md"))]
LONGEST = 150
PACKAGE = ROOT / "code" / "kaggle_workbench"

# Options of other programs that the pages name.
OTHERS_FLAGS = {"--unzip"}
# Variables and files that only other programs know.
OTHERS_NAMES = {"PIP_INDEX_URL", "name.csv.zip"}

# Commands of README that the tests do not run as they stand: why, or the words added so that they can be.
NOT_RUN = {
    "test": "this is it",
    "pull RUN": "needs a session on Kaggle's machines; tests/test_push.py",
    "arena serve": "serves until it is stopped; tests/test_arena_launch.py",
    "push train --dry-run": "asks Kaggle for the rules and the week's GPU time; tests/test_push.py",
}
ADDED = {"bench --quick": "--dry-run", "tune --trials 20": "--dry-run", "run --gpus 0": "--set EPOCHS=1"}

ids = {"ids": lambda page: str(page.relative_to(ROOT))}


# --- what a page holds --------------------------------------------------------------------------------------


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of each fenced block; an indented one has no language."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        yield found[1], found[2]
    for found in re.finditer(r"(?:^|\n)\n((?: {4}\S.*\n)+)", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        yield "", found[1]


def prose(page: Path) -> str:
    """A page without its blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"(?:^|\n)\n(?: {4}\S.*\n)+", "\n\n", text)


def inline(page: Path) -> list[str]:
    """What stands between backticks, without the backslash that a table's "|" needs."""
    return [found.replace("\\|", "|").replace("\n", " ") for found in re.findall(r"`([^`]+)`", prose(page))]


def commands(page: Path) -> list[list[str]]:
    """The `kwb` commands of a page's blocks, as words, each way that brackets and bars allow."""
    lines = itertools.chain.from_iterable(text.splitlines() for _, text in blocks(page))
    return [words for line in lines for words in commands_of(line)]


def commands_of(line: str) -> Iterator[list[str]]:
    for part in re.split(r"\s#\s|;|&&", line.strip())[: None if ";" in line or "&&" in line else 1]:
        if not re.match(r"(\S+/)?kwb\s", part.strip()):
            continue
        text = part.strip().partition(" ")[2].partition("# ")[0]
        for shown in {re.sub(r"\[[^]]*\]", " ", text), text.replace("[", " ").replace("]", " ")}:
            yield shlex.split(shown.replace("\\", "\\\\").replace("...", ""))


@functools.cache
def corpus() -> str:
    """Everything a name can come from: the code, the notebooks, the scripts, the spec, the tests."""
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sh"), *(ROOT / "code").glob("*.ipynb")]
    files += [
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
        *(ROOT / "data" / "practice").rglob("*.py"),
    ]
    files += [ROOT / name for name in ("kwb", "pyproject.toml", "variables.env", "preBuild.bash", "postBuild.bash")]
    files += [ROOT / ".project" / name for name in ("spec.yaml", "image.lock")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files if file != Path(__file__))


@functools.cache
def tree() -> tuple[str, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(f"/{name}" for name in listed.stdout.split("\0") if name and (ROOT / name).exists())


def parsers(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """(words, parser) of each command, nested ones too."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from parsers(below, f"{name} {word}".strip())


@functools.cache
def all_commands() -> dict[str, argparse.ArgumentParser]:
    return dict(parsers(cli._parser()))


# --- the tests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", GUIDES, **ids)
def test_page_is_short_and_plain(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) < LONGEST
    assert "\u2014" not in text, "an em dash"
    assert max(map(len, text.splitlines())) <= 200 or "|" in text


@pytest.mark.parametrize("page", PAGES, **ids)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        headings = re.findall(r"^#+ (.+)$", there.read_text(), re.M) if anchor and there.is_file() else []
        slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        if not there.exists() or (anchor and anchor not in slugs):
            wrong.append(target)
    assert wrong == []


def test_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\((?:docs/)?([\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert {page.name for page in DOCS} - linked == set()


@pytest.mark.parametrize("page", GUIDES, **ids)
def test_commands_are_understood(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command of a block is parsed by kwb's own parser."""
    wrong = []
    for words in commands(page):
        try:
            cli._parser().parse_args(words)
        except SystemExit:
            wrong.append((words, capsys.readouterr().err.splitlines()[-1]))
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, **ids)
def test_commands_and_flags_in_the_text_exist(page: Path) -> None:
    known = all_commands()
    flags = {flag for parser in known.values() for flag in parser._option_string_actions}
    wrong = []
    for text in inline(page):
        words = re.split(r"[\s=|]+", text)
        if re.fullmatch(r"(\./)?kwb", words[0]) and len(words) > 1 and words[1][0] not in "-.*":
            named = " ".join(words[1:3]) if " ".join(words[1:3]) in known else words[1]
            allowed = known[named]._option_string_actions if named in known else {}
            wrong += [text for word in words[1:] if word.startswith("--") and word not in {"--", *allowed}]
            wrong += [text] if named not in known else []
        elif words[0].startswith("--") and words[0] not in flags | OTHERS_FLAGS:
            wrong.append(text)
    assert wrong == []


def test_every_command_is_told() -> None:
    told = " ".join(" ".join(words) for page in GUIDES for words in commands(page))
    told += " ".join(text for page in GUIDES for text in inline(page))
    assert [name for name in all_commands() if name and name not in told] == []


@pytest.mark.parametrize("page", GUIDES, **ids)
def test_names_in_capitals_exist(page: Path) -> None:
    """Settings and variables: known to the code, and given values that the setting takes."""
    wrong = []
    shell = "\n".join(text for language, text in blocks(page) if language in ("", "sh", "python"))
    given = [*inline(page), *re.findall(r"(?:^|--set |export |# ?)([A-Z][A-Z_]+=[^\s#]*)", shell, re.M)]
    for text in given:
        found = re.fullmatch(r"(?:--set )?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)(?:=(.*))?", text)
        if not found or (len(found[1]) < 4 and found[2] is None):
            continue
        name, value = found[1], found[2]
        if name not in OTHERS_NAMES and not re.search(rf"\b{name}\b", corpus()):
            wrong.append(text)
        if name in SETTINGS and name not in SECRET_NAMES and value and re.fullmatch(r"[\w./:-]+", value):
            try:
                SETTINGS[name][0](name, value, "this page")
            except WorkbenchError as error:
                wrong.append(f"{text}: {error}" if value not in ("VALUE", "N", "RUN", "SLUG", "...") else "")
    assert [text for text in wrong if text] == []


@pytest.mark.parametrize("page", DOCS, **ids)
def test_messages_are_quoted_as_they_are(page: Path) -> None:
    """What stands under "it says" is said by the code; "..." stands for what differs from case to case."""
    said = "\n".join(file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    said = re.sub(r'"\s*\n\s*f?"', "", said).lower()
    table = re.compile(r"^\| it says \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.M)
    quoted = [row.split("|")[1] for found in table.finditer(page.read_text()) for row in found[1].splitlines()]
    parts = [part.strip(" `,").lower() for quote in quoted for part in quote.split("...")]
    assert [part for part in parts if part not in said] == []


def test_every_setting_is_told() -> None:
    told = set(inline(ROOT / "docs" / "settings.md"))
    assert set(SETTINGS) - told == set()


def test_every_metric_is_told() -> None:
    """With its direction."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \|.*\| (high|low) \|$", page, re.M)
    told = {name: best for names, best in rows for name in re.findall(r"`([^`]+)`", names)}
    assert told == {each.name: "high" if each.greater_is_better else "low" for each in METRICS.values()}


@pytest.mark.parametrize("page", PAGES, **ids)
def test_files_exist(page: Path) -> None:
    """A file that is named is in the repository, or made or asked for by code that names it."""
    kinds = r"py|md|ipynb|json|csv|gz|zip|env|toml|yaml|lock|bash|txt|png|html|db|log|sh"
    wrong = []
    for text in inline(page):
        if not re.fullmatch(rf"[\w./-]+\.(?:{kinds})|[\w.-]+(?:/[\w.-]+)*/", text) or text.startswith(("/", "~", "..")):
            continue
        name = text.removeprefix("./")
        in_git = any(file.endswith(f"/{name}") or f"/{name}" in f"{file}/" for file in tree())
        made = Path(name).name in corpus() or name.rstrip("/") in corpus()
        if not (in_git or made or name in OTHERS_NAMES):
            wrong.append(text)
    assert wrong == []


def test_every_check_of_the_doctor_is_told() -> None:
    told = set(inline(ROOT / "docs" / "doctor.md"))
    assert {check.id for check in CHECKS} - told == set()


def test_map_of_the_rooms_is_whole() -> None:
    """CONTRIBUTING's map names every module and package at the top of the helper package."""
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    told = {text.rstrip("/") for text in inline(ROOT / "CONTRIBUTING.md")}
    assert {room for room in rooms if not room.startswith("_")} - told == set()


def test_practice_data_are_credited() -> None:
    folders = sorted((ROOT / "data" / "practice").glob("*/competition.json"))
    notice = (ROOT / "NOTICE").read_text()
    for file in folders:
        assert (file.parent / "README.md").is_file()
        assert f"data/practice/{file.parent.name}:" in notice


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text().lower()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    listed += (ROOT / "requirements.txt").read_text().splitlines()
    names = {re.match(r"[\w-]*", line)[0].lower() for line in listed}  # type: ignore[index]
    families = re.compile(r"(types|.*-stubs)(-.*)?|kaggle-workbench|")
    assert [name for name in sorted(names) if not families.fullmatch(name) and name not in page] == []


def test_pages_named_by_the_code_exist() -> None:
    named = set(re.findall(r"\bdocs/[\w-]+\.md", corpus()))
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_readme_shows_what_the_demo_prints() -> None:
    record = {
        "cv": {"metric": "accuracy", "score": 0.9925, "method": "hold-out", "rows": 1200},
        "lb": {"public": 0.995, "private": 0.99267, "rank": 1, "entries": 4},
    }
    assert f"```text\n{verdict(record, Path('data/output/runs/<run>'))}\n```" in (ROOT / "README.md").read_text()


# --- what README says to type, typed ------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Project:
    """A copy of the project with its practice competitions, and no credentials."""
    project = make_project(tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    shutil.copytree(ROOT / "data" / "practice", project.folder / "data" / "practice")
    return project


def section(page: Path, heading: str) -> str:
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page.read_text(encoding="utf-8"), re.M | re.S)
    assert found, f"{page.name} has no section {heading!r}"
    return found[1]


@pytest.mark.slow
def test_commands_of_readme(copy: Project) -> None:
    """From top to bottom, each that needs nothing from outside."""
    typed = list(dict.fromkeys(" ".join(shlex.quote(word) for word in words) for words in commands(ROOT / "README.md")))
    assert set(NOT_RUN) | set(ADDED) <= set(typed), "a command that is no longer there"
    notebook = copy.folder / "code" / "02-train.ipynb"
    marked = re.search(r"([A-Z]+ = None)(  # search: \S+)", (ROOT / "README.md").read_text())
    assert marked
    assert f'"{marked[1]}' in notebook.read_text()
    notebook.write_text(notebook.read_text().replace(f'"{marked[1]}', f'"{marked[0]}', 1))
    for line in typed:
        if line in NOT_RUN:
            continue
        runs = copy.output / "runs"
        newest = iter(sorted((path.name for path in runs.iterdir()), reverse=True) if runs.is_dir() else [])
        words = shlex.split(f"{line} {ADDED.get(line, '')}")
        words = [word.replace("RUN", next(newest)) if "RUN" in word else word for word in words]
        done = copy.kwb(*words, timeout=900)
        assert done.returncode == 0, f"kwb {' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-3000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("slug", ["digit-recognizer", "titanic"])
def test_changing_the_model_as_readme_says(slug: str, copy: Project) -> None:
    example = re.search(r"^```python\n(.*?)^```$", section(ROOT / "README.md", "Change the model"), re.M | re.S)
    assert example
    (function,) = ast.parse(example[1]).body
    assert isinstance(function, ast.FunctionDef)
    notebook = copy.folder / "code" / "02-train.ipynb"
    document = json.loads(notebook.read_text())
    changed = 0
    for cell in document["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or f"def {function.name}(" not in source:
            continue
        old = next(node for node in ast.parse(source).body if getattr(node, "name", "") == function.name)
        lines = source.splitlines()
        lines[old.lineno - 1 : old.end_lineno] = example[1].splitlines()
        cell["source"], changed = "\n".join(lines), changed + 1
    assert changed == 1
    notebook.write_text(json.dumps(document))
    done = copy.kwb("run", "--competition", slug, "--set", "SOURCE=practice", "--set", "EPOCHS=3", timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    (record,) = (json.loads(path.read_text()) for path in copy.output.glob("runs/*/record.json"))
    assert record["lb"]["public"] is not None
    assert record["cv"]["score"] > {"digit-recognizer": 0.93, "titanic": 0.75}[slug]


def test_updating_a_copy_as_readme_says(tmp_path: Path) -> None:
    """The original and the copy have both moved on; afterwards the copy has both changes."""
    original, copied = tmp_path / "original", tmp_path / "copy"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def shell(script: str, folder: Path) -> None:
        subprocess.run(["sh", "-ec", script], cwd=folder, env=env, check=True, capture_output=True)

    original.mkdir()
    shutil.copy2(ROOT / "variables.env", original)
    shell("git init -q -b main && git add . && git commit -qm one", original)
    shell(f"git clone -q '{original}' '{copied}'", tmp_path)
    shell("echo new > new.txt && git add . && git commit -qm two", original)
    shell("sed -i 's/^COMPETITION=.*/COMPETITION=titanic/' variables.env && git commit -qam mine", copied)
    ((_, script),) = [
        (found[1], found[2])
        for found in re.finditer(r"^```(sh)\n(.*?)^```$", section(ROOT / "README.md", "Update your copy"), re.M | re.S)
    ]
    shell(script.replace("ADDRESS", f"'{original}'"), copied)
    assert (copied / "new.txt").read_text() == "new\n"
    assert "COMPETITION=titanic" in (copied / "variables.env").read_text()
