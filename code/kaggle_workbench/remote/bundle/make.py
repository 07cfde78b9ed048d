"""Making a bundle: cells, parameters, package, and the checks that nothing leaves which must not."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import kaggle_workbench
from kaggle_workbench import metrics, provenance
from kaggle_workbench.competition.ledger import Ledger
from kaggle_workbench.errors import RefusedError, UsageError
from kaggle_workbench.remote.bundle import cells, package, source
from kaggle_workbench.settings import SECRET_NAMES, SETTINGS, Settings, require_root
from kaggle_workbench.stages.notebooks import STAGES, notebook_of

# The service takes about a million bytes of source.
MOST_BYTES = 1_000_000
# What belongs to this machine, or is decided there.
STAYS = (*SECRET_NAMES, "INPUT_DIR", "OUTPUT_DIR", "TENSORFLOW_BUILD", "SESSION_HOURS", "STORE", "GPU_COUNT")


@dataclass(frozen=True)
class Bundle:
    """A stage as one notebook.

    Attributes:
        document: The notebook.
        text: The same as JSON.
        sha256: Of `text`.
        missing: Modules the notebook imports and Kaggle's image does not hold.
        unsent: Names of the user's own variables that the notebook mentions; they do not travel.
        package_sha256: Of the helper package's files inside; "" when it comes from a repository.
    """

    document: dict[str, Any]
    text: str
    sha256: str
    missing: tuple[str, ...]
    unsent: tuple[str, ...]
    package_sha256: str

    @property
    def size(self) -> int:
        """In bytes, as it is sent."""
        return len(self.text.encode())


def make(
    settings: Settings,
    stage: str,
    *,
    parameters: Mapping[str, Any],
    run_id: str,
    place: Literal["kaggle", "colab"],
    code: Literal["inside", "git"] = "inside",
    travel: str | None = None,
    wheels: str | None = None,
    gpu: bool = False,
    chip: str = "",
    unattended: bool = False,
    drive: str | None = None,
) -> Bundle:
    """Make the notebook that does one stage of a run on another machine.

    Args:
        settings: Settings in force here; those that were set travel with it, but for secrets and folders.
        stage: "data", "train" or "submit".
        parameters: Settings and the notebook's own parameters that are given for this push, by name.
        run_id: The run.
        place: Where it will run.
        code: The helper package inside the notebook, or fetched from the user's own repository at this commit.
        travel: "owner/slug" of the dataset that holds the run so far; None: it begins there.
        wheels: "owner/slug" of the dataset with packages the image lacks; None: nothing is installed.
        gpu: A GPU was asked for, so that a session without one stops at once.
        chip: Part of that GPU's name, so that a session with another one stops, too.
        unattended: What runs the notebook goes on after an error; see `arrival.prepare`.
        drive: On Colab, a folder of Google Drive that serves as STORE.

    Returns:
        The bundle. The same commit, settings and parameters give the same bytes.

    Raises:
        UsageError: An unknown stage or parameter.
        RefusedError: A secret or a folder of this machine would leave with it, or it is too large.
        WorkError: The notebook cannot be read.
    """
    from kaggle_workbench.remote import checks
    from kaggle_workbench.stages.parameters import split

    if stage not in STAGES:
        raise UsageError(f"There is no stage {stage!r}.", hint=f"The stages are: {', '.join(STAGES)}.")
    root = settings.root or require_root()
    notebook = notebook_of(stage, settings.competition, root=root)
    given, own = split([notebook], parameters)
    document = json.loads(notebook.read_text(encoding="utf-8"))
    values = {**_travelling(settings), **given, **own}
    values |= {"COMPETITION": settings.competition, "SOURCE": "kaggle", "RUN_ID": run_id}
    body, left = _body(document, values)
    sources = [cell["source"] for cell in body if cell["cell_type"] == "code"]
    lacking = checks.missing(sources)
    repository = source.repository(root) if code == "git" else None
    packed = package.packed() if repository is None else None
    state = provenance.commit(root) or {"commit": None, "dirty": None}
    origin = {**state, "version": kaggle_workbench.__version__}
    arrival = {
        "run": run_id,
        "settings": {name: value for name, value in left.items() if name in SETTINGS},
        "own": own,
        "travel": travel,
        "wheels": [wheels, *lacking] if wheels else None,
        "gpu": gpu,
        "chip": chip,
        "unattended": unattended,
        "drive": drive,
        "origin": origin,
    }
    made = [
        cells.markdown("about", _about(stage, run_id, settings, origin, place)),
        cells.code(
            "package", source.from_git(repository) if repository else source.inside(_there(packed)), hidden=True
        ),
        cells.code("arrive", _call("prepare", arrival)),
        *body,
        cells.code("results", _call("lay_out", {})),
    ]
    texts = {f"{notebook.name}, cell {number}": cell["source"] for number, cell in enumerate(made, 1)}
    if packed is not None:
        texts |= {name: content.decode("utf-8", "replace") for name, content in packed.files.items()}
    checks.refuse_secrets(texts, settings)
    whole = _document(document, made)
    unsent = tuple(checks.unsent(settings, sources))
    return _bundle(whole, tuple(lacking), unsent, packed.sha256 if packed else "")


def _bundle(whole: dict[str, Any], missing: tuple[str, ...], unsent: tuple[str, ...], package_sha256: str) -> Bundle:
    text = json.dumps(whole, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    if len(text.encode()) > MOST_BYTES:
        raise RefusedError(
            f"The notebook would have {len(text.encode()):,} bytes; Kaggle takes about {MOST_BYTES:,}.",
            hint="Use --code git, so that the package is not inside, or move data out of the notebook.",
        )
    return Bundle(whole, text, hashlib.sha256(text.encode()).hexdigest(), missing, unsent, package_sha256)


def together(bundles: Sequence[Bundle], runs: Sequence[str]) -> Bundle:
    """Several bundles as one notebook that runs them side by side, each with a GPU of its own.

    Args:
        bundles: As `make` made them, of one place.
        runs: Their runs' names.

    Raises:
        RefusedError: It is too large.
    """
    outer = bundles[0].document["cells"]
    inner = {
        run: json.dumps({**one.document, "cells": one.document["cells"][2:]}, ensure_ascii=False, sort_keys=True)
        for run, one in zip(runs, bundles, strict=True)
    }
    about = f"{cells.text(outer[0])}\n\nSide by side in one session: {', '.join(f'`{run}`' for run in runs)}."
    made = [
        cells.markdown("about", about),
        outer[1],
        cells.code("together", _call("run_together", {"notebooks": inner}), hidden=True),
    ]
    whole = _document(bundles[0].document, made)
    missing = tuple(sorted({name for one in bundles for name in one.missing}))
    return _bundle(whole, missing, bundles[0].unsent, bundles[0].package_sha256)


def _there(packed: package.Package | None) -> package.Package:
    if packed is None:
        raise UsageError("There is no package to put into the notebook.", hint="Push with --code inside.")
    return packed


def _travelling(settings: Settings) -> dict[str, Any]:
    """Settings that were set here and decide what is computed."""
    found = {name: getattr(settings, name.lower()) for name in settings.origins if name not in STAYS}
    address = settings.store or ""
    if "://" in address and not address.startswith(("file:", "memory:")):
        # An address with a password in it is found by the search for secrets, and refused.
        found["STORE"] = address
    heard = Ledger(settings, "kaggle").metric or ""
    if settings.metric is None and metrics.find(heard) is not None:
        # Without the internet there, nobody could be asked what is scored.
        found["METRIC"] = heard
    texts = {name: _joined(value) if isinstance(value, tuple) else value for name, value in found.items()}
    return {name: value for name, value in texts.items() if value is not None}


def _joined(names: tuple[str, ...]) -> str:
    """Names as a setting holds them: separated by commas, quoted where one holds a comma itself."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def _body(document: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    body, left = [], dict(values)
    for cell in document["cells"]:
        made = cells.own(cell)
        if cells.PARAMETERS in made["metadata"].get("tags", ()):
            made["source"], done = cells.filled(made["source"], values)
            left = {name: value for name, value in left.items() if name not in done}
        body.append(made)
    return body, left


def _document(document: Mapping[str, Any], made: list[dict[str, Any]]) -> dict[str, Any]:
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": python, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": max(5, int(document.get("nbformat_minor", 5))),
    }


def _call(function: str, arguments: Mapping[str, Any]) -> str:
    given = [f"    {name}={cells.literal(value)}," for name, value in arguments.items() if value]
    head = "from kaggle_workbench.remote import arrival\n\n"
    return head + ("\n".join([f"arrival.{function}(", *given, ")"]) if given else f"arrival.{function}()")


def _about(stage: str, run_id: str, settings: Settings, origin: Mapping[str, Any], place: str) -> str:
    commit = f"commit `{origin['commit'][:10]}`" if origin["commit"] else "no commit"
    changed = " with changes that were not committed" if origin["dirty"] else ""
    where = {"kaggle": "Kaggle", "colab": "Colab"}[place]
    return (
        f"*Made by `kwb push` of Kaggle Workbench {origin['version']}, {commit}{changed}.*\n\n"
        f"Stage **{stage}** of run `{run_id}`, competition `{settings.competition}`, for {where}. It needs nothing "
        "beside it: the next cell brings the helper package `kaggle_workbench`, the one after it proves the device and "
        f"takes up the run, then comes {Path(STAGES[stage]).stem} as it was. Results are laid out at the end; "
        f"`./kwb pull {run_id}` fetches them."
    )
