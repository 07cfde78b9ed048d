"""`kwb new SLUG`: a competition's own folder of notebooks and settings, beside those of others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import UsageError, WorkError
from kaggle_workbench.files import write_atomic
from kaggle_workbench.settings import COMPETITIONS, SLUG, VARIABLES_FILE, require_root
from kaggle_workbench.stages.notebooks import STAGES

_VARIABLES = """# Settings of {slug} alone; they win over variables.env at the top of the project.
# Remove the # to set one. docs/settings.md lists them all.
{source}#TARGET=
#METRIC=
#GROUP_COLUMN=
#TIME_COLUMN=
#DROP_COLUMNS=
#EPOCHS=
#FOLDS=
"""


def new(slug: str, *, source: str | None = None, root: Path | None = None, dry_run: bool = False) -> tuple[Path, ...]:
    """Make a folder for a competition, with notebooks copied from those in `code/` as they stand now.

    Args:
        slug: The last part of the competition's address.
        source: "kaggle" or "practice", written into its settings; None: as elsewhere.
        root: The project's folder; by default the one of the current folder.
        dry_run: Write nothing.

    Returns:
        The files: three notebooks and variables.env, in competitions/<slug>/.

    Raises:
        UsageError: No slug; or there is something of that name already: nothing is ever overwritten.
        WorkError: A notebook in `code/` cannot be read.
    """
    if not re.fullmatch(SLUG, slug):
        raise UsageError(
            f"{slug!r} is no competition's slug.",
            hint="Take the last part of its address on kaggle.com: small letters, digits and hyphens.",
        )
    root = root or require_root()
    folder = root / COMPETITIONS / slug
    if folder.exists() or folder.is_symlink():
        raise UsageError(
            f"{folder.relative_to(root)} is there already; nothing was changed.",
            hint=f"Work in it, or move it away first: ./kwb run --competition {slug} uses its notebooks.",
        )
    contents = {folder / name: _notebook(root / "code" / name, slug) for name in STAGES.values()}
    said = f"SOURCE={source}\n" if source else "#SOURCE=\n"
    contents[folder / VARIABLES_FILE] = _VARIABLES.format(slug=slug, source=said)
    if not dry_run:
        folder.mkdir(parents=True)
        for path, text in contents.items():
            write_atomic(path, text)
    return tuple(contents)


def _notebook(path: Path, slug: str) -> str:
    """A notebook's text without outputs, with the competition in its parameters cell."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cells = document["cells"]
        tagged = next(cell for cell in cells if "parameters" in cell.get("metadata", {}).get("tags", ()))
    except (OSError, ValueError, KeyError, StopIteration) as error:
        raise WorkError(
            f"{path} is no notebook with a cell tagged 'parameters': {error!r}.",
            hint="Put it right, or take it anew from git: git checkout code/.",
        ) from None
    for cell in cells:
        if cell.get("cell_type") == "code":
            cell["outputs"], cell["execution_count"] = [], None
    source = "".join(tagged["source"])
    changed, times = re.subn(r"^COMPETITION = .*?(  # @param.*)?$", rf'COMPETITION = "{slug}"\1', source, flags=re.M)
    if not times:
        changed = f'COMPETITION = "{slug}"\n{source}'
    tagged["source"] = changed.splitlines(keepends=True)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
