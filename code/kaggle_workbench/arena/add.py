"""`kwb arena add`: a competition of one's own, checked before it is hosted.

The folder holds what participants get; the solution stands elsewhere and is never served.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench import metrics
from kaggle_workbench.arena.competitions import FILES, SETTINGS_FILE, SLUG, SOLUTION, load
from kaggle_workbench.arena.scoring import BadSubmissionError, score
from kaggle_workbench.errors import RefusedError, UsageError
from kaggle_workbench.files import write_json

SAMPLE = re.compile(r"(sample|example|gender).*sub.*\.csv$", re.IGNORECASE)
USAGES = {"public": "Public", "private": "Private"}
# Larger tables are not searched for the answers.
SEARCHED_BYTES = 500_000_000
SHOWN = 3


@dataclass(frozen=True)
class Rules:
    """What the host decides.

    Attributes:
        metric: Name or Kaggle's title of the metric.
        title: Shown to people; by default from the slug.
        deadline: No submissions after it; None: never.
        daily_limit: Submissions a day and participant.
        public_share: Part of the test rows that makes the public score, when the solution does not say it.
        reveal_private: Show private scores before the deadline.
    """

    metric: str
    title: str = ""
    deadline: datetime | None = None
    daily_limit: int = 5
    public_share: float = 0.3
    reveal_private: bool = False


def add(
    folder: Path,
    solution: Path,
    home: Path,
    rules: Rules,
    *,
    slug: str = "",
    replace: bool = False,
    dry_run: bool = False,
) -> Path:
    """Host a competition from a folder of files and a solution.

    Args:
        folder: What participants get: tables, pictures, a sample submission.
        solution: CSV with the id, the columns to predict and, if you like, `Usage` (Public or Private).
        home: Folder of the hosted competitions.
        rules: Metric, limits, deadline.
        slug: Its name; by default the folder's.
        replace: Take the place of a competition of that name; submissions so far are scored anew.
        dry_run: Check only.

    Returns:
        The hosted competition's folder.

    Raises:
        UsageError: No such folder or file, a slug or metric that cannot be.
        RefusedError: Something does not fit together; every fault is listed.
    """
    name = slug or re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if not SLUG.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a competition.", hint="--slug takes small letters, digits and hyphens.")
    metric = metrics.find(rules.metric)
    if metric is None:
        known = ", ".join(sorted(metrics.METRICS))
        raise UsageError(f"There is no metric {rules.metric!r}.", hint=f"Known: {known}.")
    for path, what in ((folder, "folder"), (solution, "solution")):
        if not (path.is_dir() if what == "folder" else path.is_file()):
            raise UsageError(f"There is no {what} {path}.", hint="Give the folder of files and --solution FILE.")
    target = home / name
    if target.exists() and not replace:
        raise UsageError(
            f"A competition {name} is hosted already, in {target}.",
            hint="Choose another --slug, or --replace (submissions so far are then scored by the new solution).",
        )
    files = served(folder)
    answers = _Answers(solution)
    faults = [*answers.faults, *_served_faults(folder, files, solution, answers)]
    if faults:
        raise RefusedError(
            f"{name} is not hosted: {len(faults)} things do not fit.\n" + "\n".join(f"- {fault}" for fault in faults),
            hint="Correct them and run this again; nothing was changed.",
        )
    if not dry_run:
        home.mkdir(parents=True, exist_ok=True)
    # Beside the others, so that it can be moved there in one step.
    with tempfile.TemporaryDirectory(prefix=".adding-", dir=None if dry_run else home) as held:
        draft = Path(held, name)
        _write(draft, folder, files, answers, rules, metric.name, name)
        _try(draft, next(file for file in files if SAMPLE.search(file.name)))
        if dry_run:
            return target
        if target.exists():
            target.rename(Path(held, "old"))
        draft.rename(target)
    return target


def remove(home: Path, slug: str) -> None:
    """Host a competition no more; scores of its participants stay in the arena's state.

    Raises:
        UsageError: There is none of that name among one's own.
    """
    target = home / slug
    if not SLUG.fullmatch(slug) or not (target / SETTINGS_FILE).is_file():
        own = sorted(each.parent.name for each in home.glob(f"*/{SETTINGS_FILE}"))
        raise UsageError(
            f"You host no competition {slug!r}.", hint=f"Yours: {', '.join(own) or 'none'}. See ./kwb arena list."
        )
    shutil.rmtree(target)


def served(folder: Path) -> list[Path]:
    """The files that participants would get: all plain files that are not hidden.

    Raises:
        RefusedError: A link, which may lead to what nobody should get.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        if path.is_symlink():
            raise RefusedError(f"{path} is a link.", hint="Put the file itself there, or take the link away.")
        if path.is_file():
            found.append(path)
    return found


class _Answers:
    """The solution, read and checked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[str] = []
        rows = _rows(path)
        self.header = rows[0] if rows else []
        self.usage = next((name for name in self.header if name.lower() == "usage"), "")
        self.columns = [name for name in self.header if name != self.usage]
        self.rows = rows[1:]
        if len(self.columns) < 2:
            self.faults.append(f"{path.name} needs an id column and at least one column to predict.")
            return
        if len(set(self.header)) < len(self.header):
            self.faults.append(f"{path.name} has a column name twice.")
        uneven = [str(line) for line, row in enumerate(self.rows, 2) if len(row) != len(self.header)]
        if uneven:
            self.faults.append(f"{path.name} has rows with another number of cells: line {', '.join(uneven[:SHOWN])}.")
            self.rows = [row for row in self.rows if len(row) == len(self.header)]
        if not self.rows:
            self.faults.append(f"{path.name} has no rows.")
        ids = self.ids()
        if len(set(ids)) < len(ids):
            twice = sorted(id for id, count in Counter(ids).items() if count > 1)[:SHOWN]
            self.faults.append(f"{path.name} has ids more than once: {', '.join(twice)}.")
        if self.usage:
            place = self.header.index(self.usage)
            strange = sorted({row[place] for row in self.rows if row[place].lower() not in USAGES})
            if strange:
                self.faults.append(
                    f"{path.name}: Usage must be Public or Private; there is {strange[0]!r}. Rows that count for "
                    "nobody are left out, here and in the sample."
                )

    def ids(self) -> list[str]:
        place = self.header.index(self.columns[0])
        return [row[place] for row in self.rows]

    def cells(self, row: Sequence[str]) -> list[str]:
        return [row[self.header.index(name)] for name in self.columns]

    def usage_of(self, row: Sequence[str], share: float) -> str:
        if self.usage:
            return USAGES[row[self.header.index(self.usage)].lower()]
        # By the id alone: the same rows are public whenever this is done again.
        drawn = int.from_bytes(hashlib.sha256(row[self.header.index(self.columns[0])].encode()).digest()[:4])
        return "Public" if drawn < share * 2**32 else "Private"


def _served_faults(folder: Path, files: Sequence[Path], solution: Path, answers: _Answers) -> list[str]:
    faults = []
    if not files:
        return [f"{folder} holds no files for participants."]
    samples = [file for file in files if SAMPLE.search(file.name)]
    if not samples:
        faults.append("There is no sample submission (sample_submission.csv), so nobody knows the form.")
    else:
        faults += _sample_faults(samples[0], answers)
    digest = hashlib.sha256(solution.read_bytes()).hexdigest()
    by_id = {row[0]: row[1:] for row in map(answers.cells, answers.rows)} if not answers.faults else {}
    for file in files:
        if file.stat().st_size == solution.stat().st_size and hashlib.sha256(file.read_bytes()).hexdigest() == digest:
            faults.append(f"{file.relative_to(folder)} is the solution; participants would get it.")
        elif holds_answers(file, answers.columns, by_id):
            faults.append(
                f"{file.relative_to(folder)} holds the answers of the test rows; participants would get them."
            )
    return faults


def _sample_faults(sample: Path, answers: _Answers) -> list[str]:
    rows = _rows(sample)
    if not rows or answers.faults:
        return [] if rows else [f"{sample.name} is empty."]
    faults = []
    if rows[0] != answers.columns:
        faults.append(
            f"{sample.name} has the columns {', '.join(rows[0])}; the solution has {', '.join(answers.columns)}."
        )
        return faults
    here, there = [row[0] for row in rows[1:]], set(answers.ids())
    known = set(here)
    if missing := [id for id in answers.ids() if id not in known]:
        faults.append(f"{sample.name} lacks {len(missing):,} ids of the solution, such as {missing[0]!r}.")
    if extra := [id for id in here if id not in there]:
        faults.append(f"{sample.name} has {len(extra):,} ids that the solution lacks, such as {extra[0]!r}.")
    return faults


def holds_answers(file: Path, columns: Sequence[str], answers: Mapping[str, Sequence[str]]) -> bool:
    """Whether a served table tells the answers of most test rows.

    Args:
        file: The table.
        columns: The solution's id column, then those to predict.
        answers: The answers by id.
    """
    name = file.name.lower()
    if not name.endswith((".csv", ".tsv", ".csv.gz")) or file.stat().st_size > SEARCHED_BYTES or not answers:
        return False
    if SAMPLE.search(file.name):
        # A sample of true answers is no sample.
        constant = len({tuple(cells) for cells in answers.values()}) == 1
        if constant:
            return False
    rows = _rows(file, separator="\t" if name.endswith(".tsv") else ",")
    if not rows or not set(columns) <= set(rows[0]):
        return False
    places = [rows[0].index(column) for column in columns]
    wanted = {id: [_value(cell) for cell in cells] for id, cells in answers.items()}
    right = sum(
        wanted.get(row[places[0]]) == [_value(row[place]) for place in places[1:]]
        for row in rows[1:]
        if len(row) > max(places)
    )
    # Half by chance, as with yes or no, is not telling.
    known = sum(len(row) > places[0] and row[places[0]] in answers for row in rows[1:])
    return known >= 0.5 * len(answers) and right >= 0.95 * known


def _value(cell: str) -> float | str:
    """A cell to compare by: 3 and 3.0 are one answer."""
    try:
        number = float(cell)
    except ValueError:
        return cell
    return number if number == number else cell


def _write(
    draft: Path, folder: Path, files: Sequence[Path], answers: _Answers, rules: Rules, metric: str, slug: str
) -> None:
    draft.mkdir()
    with zipfile.ZipFile(draft / FILES, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.relative_to(folder).as_posix())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*answers.columns, "Usage"])
    writer.writerows([*answers.cells(row), answers.usage_of(row, rules.public_share)] for row in answers.rows)
    (draft / SOLUTION).write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    (draft / SOLUTION).chmod(0o600)
    document: dict[str, Any] = {
        "title": rules.title or slug.replace("-", " ").title(),
        "metric": metric,
        "category": "Community",
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "max_daily_submissions": rules.daily_limit,
        "reveal_private": rules.reveal_private,
        "rules": {},
    }
    if rules.deadline is not None:
        document["deadline"] = rules.deadline.strftime("%Y-%m-%dT%H:%M:%SZ")
    write_json(draft / SETTINGS_FILE, document)


def _try(draft: Path, sample: Path) -> None:
    """Score the sample submission: what no participant could have scored is refused now."""
    competition = load(draft)
    try:
        score(competition, sample)
    except BadSubmissionError as error:
        raise RefusedError(
            f"The sample submission cannot be scored by {competition.metric.title}:\n{error}",
            hint="Does the metric fit the columns? Are the sample's values of the kind that is asked for?",
        ) from None


def _rows(path: Path, *, separator: str = ",") -> list[list[str]]:
    try:
        if path.name.lower().endswith(".gz"):
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as packed:
                return [[cell.strip() for cell in row] for row in csv.reader(packed, delimiter=separator) if row]
        with path.open(encoding="utf-8-sig", newline="") as plain:
            return [[cell.strip() for cell in row] for row in csv.reader(plain, delimiter=separator) if row]
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        raise UsageError(f"{path} cannot be read as CSV: {error}.", hint="Write it as CSV in UTF-8.") from None
