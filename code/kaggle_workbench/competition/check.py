"""Check a submission against the sample submission before anything is spent.

Every fault of the file is told at once, each with its first places in the file, because a person
who learns of one fault at a time corrects one at a time. What Kaggle's scorer takes is not
refused: it matches rows by id, so another order of rows is only a warning.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kaggle_workbench.competition.classes import known_classes
from kaggle_workbench.competition.connect import Source, connect, source_kind
from kaggle_workbench.competition.csvfiles import SEPARATORS, Look, look
from kaggle_workbench.competition.download import download
from kaggle_workbench.competition.folders import candidates
from kaggle_workbench.competition.ids import IdCheck
from kaggle_workbench.competition.ledger import Ledger
from kaggle_workbench.competition.report import Fault, Findings, Report, printable
from kaggle_workbench.competition.sample import BrokenRowError, Row, Rows, Sample, find_sample, open_rows, read_sample
from kaggle_workbench.competition.values import ValueCheck
from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import human_bytes, sha256
from kaggle_workbench.settings import Settings
from kaggle_workbench.show import plural

# Each competition sets its own limit, which the API does not tell; beyond these an upload is doubtful, or hopeless.
LARGE_BYTES = 100 * 10**6
MAX_BYTES = 10**9


def check_submission(
    file: Path,
    sample: Path,
    *,
    classes: Iterable[object] | None = None,
    metric: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Report:
    """Check a submission file; nothing is changed or sent.

    Args:
        file: The submission: CSV text, plain, `.gz` or `.zip` with one member.
        sample: The competition's sample submission.
        classes: The known labels of the training data, when the prediction is one of them.
        metric: The competition's metric as Kaggle names it; decides what numbers may be.
        max_bytes: Largest size of the file as sent.

    Returns:
        All faults and warnings.

    Raises:
        UsageError: There is no such file.
        WorkError: The sample submission itself is missing or damaged.
    """
    require_file(file)
    wanted = read_sample(sample)
    faults: list[Fault] = []
    warnings: list[Fault] = []
    readable, seen = _check_file(file, max_bytes, faults, warnings)
    rows = 0
    if readable:
        with open_rows(file, seen, wanted.columns) as table:
            rows = _check_table(table, wanted, classes, metric, faults, warnings)
        if not faults and file.stat().st_size == sample.stat().st_size and sha256(file) == sha256(sample):
            message = "The file is the sample submission itself, byte for byte."
            warnings = [Fault("sample itself", message, fix="Submit your own predictions."), *warnings]
    return Report(file.name, rows, wanted.rows, wanted.columns, tuple(faults), tuple(warnings))


def check_file(
    settings: Settings,
    file: Path,
    *,
    source: Source | None = None,
    sample: Path | None = None,
    metric: str | None = None,
) -> Report:
    """Check a submission to the competition in force against its data, fetching them when they are not here.

    Args:
        settings: Settings in force.
        file: The submission.
        source: An open connection; without one, a connection is made only if the data must be fetched.
        sample: Sample submission; by default the one among the data.
        metric: The competition's metric as Kaggle names it; by default as it was last heard.

    Returns:
        All faults and warnings.

    Raises:
        UsageError: No such file, or the competition's data hold no sample submission.
        MissingError: The data are not here and cannot be fetched.
    """
    require_file(file)
    kind = source.kind if source is not None else source_kind(settings)
    sample = sample or _sample(settings, kind, source)
    metric = metric or Ledger(settings, kind).metric
    return check_submission(file, sample, classes=known_classes(sample.parent, sample, metric=metric), metric=metric)


def require_file(file: Path) -> None:
    """Make sure that there is a file.

    Raises:
        UsageError: There is none, it is a folder, or it may not be read.
    """
    if not file.is_file():
        what = "is a folder, not a file" if file.is_dir() else "does not exist"
        raise UsageError(f"{file} {what}.", hint="Give the path of a submission file, such as submission.csv.")
    try:
        file.open("rb").close()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", hint="Make it readable for this user.") from None


def _sample(settings: Settings, kind: str, source: Source | None) -> Path:
    for folder in candidates(settings, kind):
        if folder.is_dir() and (found := find_sample(folder)) is not None:
            return found
    if source is None:
        with connect(settings) as opened:
            folder = download(settings, opened).folder
    else:
        folder = download(settings, source).folder
    found = find_sample(folder)
    if found is None:
        raise UsageError(
            f"The data of {settings.competition} hold no sample submission (looked in {folder}).",
            hint="Give one yourself: --sample FILE, a file in the form the competition's page describes.",
        )
    return found


def _check_file(path: Path, max_bytes: int, faults: list[Fault], warnings: list[Fault]) -> tuple[bool, Look]:
    """Size, packing and encoding; whether the content can be looked at."""
    size = path.stat().st_size
    if size > max_bytes:
        message = (
            f"The file has {human_bytes(size)}, more than {human_bytes(max_bytes)}; its content was not looked at."
        )
        faults.append(Fault("size", message, fix="Round the numbers to 6 digits and pack the file as .csv.gz or .zip."))
        return False, Look()
    seen = look(path)
    if seen.problem:
        fix = "Write CSV text in UTF-8: predictions.to_csv('submission.csv', index=False)."
        if "empty" in seen.problem:
            fix = "Write the predictions again; the program that wrote it may have been stopped, or the disk was full."
        elif "archive" in seen.problem:
            fix = "Send the CSV file itself, or a .zip or .csv.gz that holds just this one file."
        faults.append(Fault("not a CSV file", f"The file is {seen.problem}.", fix=fix))
        return False, seen
    suffix = path.suffix.lower()
    true_suffix = {"gz": ".gz", "zip": ".zip", "": ".csv"}[seen.packing]
    if suffix != true_suffix and (seen.packing or suffix in (".gz", ".zip", ".7z", ".xlsx", ".parquet")):
        really = {"gz": "packed by gzip", "zip": "a zip archive", "": "plain text"}[seen.packing]
        faults.append(
            Fault(
                "file name",
                f"The name ends in {suffix or 'nothing'!r}, but the file is {really}.",
                fix=f"Rename it to end in {true_suffix}.",
            )
        )
    elif suffix != true_suffix:
        message = f"The name does not end in .csv ({path.name})."
        warnings.append(Fault("file name", message, fix="Name it submission.csv; Kaggle goes by the name."))
    if seen.encoding.startswith("utf-16") or seen.encoding == "utf-32":
        message = f"The text is {seen.encoding[:6].upper()}, not UTF-8."
        faults.append(Fault("encoding", message, fix="Save it as UTF-8 (in Excel: 'CSV UTF-8')."))
    elif seen.encoding == "utf-8-sig":
        message = "The text begins with a byte order mark, which some scorers take as part of the first column's name."
        warnings.append(Fault("byte order mark", message, fix="Write it with encoding='utf-8', not 'utf-8-sig'."))
    if size > LARGE_BYTES and not seen.packing:
        message = f"The file has {human_bytes(size)}; many competitions take at most {human_bytes(LARGE_BYTES)}."
        warnings.append(Fault("size", message, fix="Pack it as .csv.gz or .zip."))
    return True, seen


def _check_table(
    table: Rows,
    wanted: Sample,
    classes: Iterable[object] | None,
    metric: str | None,
    faults: list[Fault],
    warnings: list[Fault],
) -> int:
    if not table.header:
        faults.append(Fault("not a CSV file", "The file holds only blank lines.", fix="Write the predictions again."))
        return 0
    if table.separator != "," and len(wanted.columns) > 1:
        message = f"The cells are separated by {SEPARATORS[table.separator]}, not by commas."
        faults.append(Fault("separator", message, fix="Write it with sep=',' (and decimal='.')."))
    header = _match_header(table, wanted)
    faults += header.faults
    ids = IdCheck(wanted, header.places.get(wanted.id))
    values = ValueCheck(wanted, header.places, classes=classes, metric=metric, id_place=header.places.get(wanted.id))
    shape = Findings()
    rows = 0
    whole = True
    try:
        for block in table.blocks(with_header=header.missing):
            rows += len(block)
            straight = _straight(block, len(table.header), shape)
            ids.add(block)
            values.add(straight)
    except BrokenRowError as error:
        whole = False
        message = f"Line {error.line}: {error.reason}. What follows could not be read."
        faults.append(Fault("quoting", message, fix="Write the file with a CSV writer, such as DataFrame.to_csv."))
    if table.odd_lines:
        places = tuple(f"line {line}" for line in table.odd_lines[:5])
        message = f"Bytes that are not UTF-8, in {plural(len(table.odd_lines), 'line')}."
        faults.append(Fault("encoding", message, places, "Save it as UTF-8.", len(table.odd_lines)))
    if shape.count("cells"):
        message = (
            f"{plural(shape.count('cells'), 'row')} with more or fewer cells than the header has ({len(table.header)})."
        )
        fix = "Put text that holds a comma in double quotes; look for rows broken off or written twice."
        faults.append(shape.fault("cells", message, fix))
    if table.blank_lines:
        places = tuple(f"line {line}" for line in table.blank_lines[:5])
        message = f"{plural(len(table.blank_lines), 'blank line')} between the rows."
        warnings.append(Fault("blank lines", message, places, "Remove them.", len(table.blank_lines)))
    if whole and rows != wanted.rows:
        difference = "too few" if rows < wanted.rows else "too many"
        message = (
            f"{plural(rows, 'row')} where the sample has {wanted.rows:,}: {abs(rows - wanted.rows):,} {difference}."
        )
        faults.append(Fault("row count", message, fix="Predict every row of the test data exactly once."))
    for found in (ids.result(whole=whole), values.result()):
        faults += found[0]
        warnings += found[1]
    return rows


def _straight(block: list[Row], width: int, shape: Findings) -> list[Row]:
    """The rows with as many cells as the header; the others are noted."""
    straight = [item for item in block if len(item[1]) == width]
    if len(straight) != len(block):
        for line, row in block:
            if len(row) != width:
                shape.add("cells", f"line {line}: {plural(len(row), 'cell')}")
    return straight


@dataclass
class _Header:
    """Which column of the file is which of the sample, and what is wrong with the names."""

    places: dict[str, int]
    faults: list[Fault]
    missing: bool = False


def _match_header(table: Rows, wanted: Sample) -> _Header:
    names = table.header
    where = f"line {table.header_line}: {printable(table.header_text.strip())}"
    if not set(names) & set(wanted.columns) and len(names) == len(wanted.columns) and _is_data(names, wanted):
        message = f"There is no header; the first line is data ({printable(table.header_text.strip())})."
        fix = f"Begin the file with the line {','.join(wanted.columns)}"
        return _Header(
            {name: index for index, name in enumerate(wanted.columns)},
            [Fault("no header", message, fix=fix)],
            missing=True,
        )
    faults: list[Fault] = []
    places = {name: names.index(name) for name in wanted.columns if name in names}
    left = [index for index, name in enumerate(names) if index not in places.values() and name not in wanted.columns]
    for index, name in enumerate(names):
        if name in names[:index]:
            faults.append(
                Fault("doubled column", f"The column {name!r} stands there twice.", (where,), "Keep one of them.")
            )
    for name in wanted.columns:
        if name in places:
            continue
        near = _nearest(name, [names[index] for index in left])
        if near is None:
            faults.append(Fault("missing column", f"The column {name!r} is missing.", (where,), _as_sample(wanted)))
            continue
        places[name] = next(index for index in left if names[index] == near)
        left.remove(places[name])
        how = " (upper and lower case count)" if near.lower() == name.lower() else ""
        message = f"The column {name!r} is called {near!r}{how}."
        faults.append(Fault("column name", message, (where,), f"Rename it to {name!r}."))
    for index in left:
        if names[index].strip() in ("", "index") or names[index].startswith("Unnamed: "):
            message = f"Column {index + 1} is called {names[index]!r}: a row index that pandas wrote along."
            faults.append(Fault("index column", message, (where,), "Write with to_csv(..., index=False)."))
        else:
            message = f"The column {names[index]!r} is not in the sample."
            faults.append(Fault("extra column", message, (where,), _as_sample(wanted)))
    order = [places[name] for name in wanted.columns if name in places]
    if order != sorted(order):
        # A metric may read the columns by place, and another order costs nothing to put right.
        message = f"The columns stand in another order: {', '.join(names[:10])}."
        faults.append(Fault("column order", message, (where,), _as_sample(wanted)))
    return _Header(places, faults)


def _is_data(cells: Sequence[str], wanted: Sample) -> bool:
    return any(cell in wanted.positions for cell in cells) or all(_looks_numeric(cell) for cell in cells)


def _looks_numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _nearest(name: str, others: Sequence[str]) -> str | None:
    """The one of `others` that must be meant by `name`."""
    plain = {other.strip().strip("\ufeff").lower(): other for other in reversed(others)}
    if name.lower() in plain:
        return plain[name.lower()]
    close = difflib.get_close_matches(name.lower(), list(plain), 1, 0.75)
    return plain[close[0]] if close else None


def _as_sample(wanted: Sample) -> str:
    return f"The header must be as in {wanted.path.name}: {printable(','.join(wanted.columns))}"
