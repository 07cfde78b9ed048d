"""A run's executed notebooks as HTML: each cell by nbconvert, cleaned, and no longer than a page bears."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from kaggle_workbench.files import human_bytes
from kaggle_workbench.masking import plain
from kaggle_workbench.stages.report.clean import clean, shows_something

MOST_TEXT = 20_000
MOST_PICTURE_BYTES = 4_000_000
MOST_PAGE_BYTES = 24_000_000
MOST_NOTEBOOK_BYTES = 200_000_000
# The richest first; what is not here (widgets, scripts of plotting libraries) does not work without a kernel.
_KINDS = ("image/png", "image/jpeg", "image/gif", "image/svg+xml", "text/html", "text/markdown", "text/plain")
_ONLY_ALIVE = "(Shown in JupyterLab only: it needs a script or a running kernel.)"


@dataclass
class Notebook:
    """One executed notebook.

    Attributes:
        name: The file's name without its ending.
        cells: Each cell as clean HTML.
        notes: What a reader should know: what was left out, or why there is nothing.
        pictures: SHA-256 of each picture in it.
    """

    name: str
    cells: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: set[str] = field(default_factory=set)


def read_notebooks(folder: Path, hide: Mapping[str, str]) -> list[Notebook]:
    """The notebooks in a run's folder, by their names.

    Args:
        folder: The run's folder.
        hide: Texts that must not be shown, with what stands instead (see `masking.hidden`).

    Raises:
        ImportError: nbconvert is not installed.
    """
    room = MOST_PAGE_BYTES
    found = []
    exporter = _exporter()
    for file in sorted(folder.glob("*.ipynb")):
        notebook = _notebook(file, hide, room, exporter)
        room -= sum(map(len, notebook.cells))
        found.append(notebook)
    return found


def _notebook(file: Path, hide: Mapping[str, str], room: int, exporter: Any) -> Notebook:
    made = Notebook(file.stem)
    try:
        if file.stat().st_size > MOST_NOTEBOOK_BYTES:
            made.notes.append(f"{file.name} is too large to be shown here ({human_bytes(file.stat().st_size)}).")
            return made
        document = json.loads(file.read_bytes())
        cells, metadata = document["cells"], document.get("metadata") or {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        made.notes.append(f"{file.name} cannot be read: {plain(str(error), hide)}")
        return made
    left_out = 0
    for cell in cells:
        try:
            shown = _rendered(exporter, _shown(cell, hide, made), metadata)
        # A damaged cell, or one that nbconvert cannot take, must not cost the others.
        except Exception as error:
            said = html.escape(plain(f"This cell cannot be shown: {error}", hide))
            shown = f'<div class="output"><pre>{said}</pre></div>'
        if len(shown) > room:
            left_out += 1
            continue
        room -= len(shown)
        made.cells.append(shown)
    if left_out:
        made.notes.append(f"{left_out} of {len(cells)} cells are left out to keep this page small; see {file.name}.")
    return made


def _exporter() -> Any:
    from nbconvert import HTMLExporter

    quiet = logging.getLogger("kaggle_workbench.report")
    # It warns of every picture without a description, and of what is damaged; the page shows both.
    quiet.setLevel(logging.CRITICAL + 1)
    make: Any = HTMLExporter
    # Bare cells, without the page around them, which would fetch MathJax and more from the net.
    plain_cells = {"template_name": "basic", "exclude_input_prompt": True, "exclude_output_prompt": True}
    return make(anchor_link_text=" ", log=quiet, **plain_cells)


def _rendered(exporter: Any, cell: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    import nbformat

    # One cell at a time: what is not closed in it ends with it.
    document = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell]}
    language = metadata.get("language_info") if isinstance(metadata.get("language_info"), dict) else None
    document["metadata"] = {"language_info": language} if language else {}
    make: Any = nbformat.from_dict
    body, _ = exporter.from_notebook_node(make(document))
    return clean(body, lower=2)


def _shown(cell: Mapping[str, Any], hide: Mapping[str, str], made: Notebook) -> dict[str, Any]:
    """A cell with its texts masked, and of its outputs what a page can show."""
    source = plain(_text(cell.get("source")), hide)
    kind = cell["cell_type"]
    if kind != "code":
        shown = {"cell_type": kind, "metadata": {}, "source": source}
        attachments = cell.get("attachments")
        return {**shown, "attachments": attachments} if isinstance(attachments, dict) else shown
    outputs = [_output(output, hide, made) for output in _merged(cell.get("outputs") or ())]
    return {"cell_type": "code", "metadata": {}, "source": source, "execution_count": None, "outputs": outputs}


def _merged(outputs: Any) -> Iterator[dict[str, Any]]:
    """Outputs, lines that were printed one after the other in one piece."""
    last: dict[str, Any] | None = None
    for output in outputs:
        if output.get("output_type") != "stream":
            if last is not None:
                yield last
            last = None
            yield output
        elif last is not None and last.get("name") == output.get("name"):
            last["text"] = _text(last["text"]) + _text(output.get("text"))
        else:
            if last is not None:
                yield last
            last = {**output, "text": _text(output.get("text"))}
    if last is not None:
        yield last


def _output(output: Mapping[str, Any], hide: Mapping[str, str], made: Notebook) -> dict[str, Any]:
    kind = output.get("output_type")
    if kind == "stream":
        # Progress bars rewrite their line; only its last state was seen.
        text = re.sub(r"[^\n]*\r(?!\n)", "", _text(output["text"]))
        return {"output_type": "stream", "name": output.get("name", "stdout"), "text": _short(plain(text, hide))}
    if kind == "error":
        lines = [_short(plain(_text(line), hide)) for line in output.get("traceback") or ()]
        names = {name: str(output.get(name, "")) for name in ("ename", "evalue")}
        return {"output_type": "error", **plain(names, hide), "traceback": lines}
    data = output.get("data") or {}
    metadata = output.get("metadata") or {}
    bundle, facts = _best(data, metadata, hide, made)
    return {"output_type": "display_data", "data": bundle, "metadata": facts}


def _best(
    data: Mapping[str, Any], metadata: Mapping[str, Any], hide: Mapping[str, str], made: Notebook
) -> tuple[dict[str, str], dict[str, Any]]:
    """The richest content that a page without scripts shows, with its metadata."""
    for kind in (kind for kind in _KINDS if kind in data):
        text = _text(data[kind])
        if kind.startswith("image/"):
            if len(text) > MOST_PICTURE_BYTES:
                return {"text/plain": f"(A picture of {human_bytes(len(text))}; see the notebook.)"}, {}
            if kind == "image/svg+xml":
                # As a picture it may not run scripts.
                coded = base64.b64encode(plain(text, hide).encode()).decode()
                return {"text/html": f'<img alt="a drawing" src="data:image/svg+xml;base64,{coded}">'}, {}
            made.pictures.add(_digest(text))
            return {kind: text}, _picture_facts(kind, metadata.get(kind), hide)
        text = plain(text, hide)
        if kind == "text/html":
            text = clean(text)
            if not shows_something(text):
                continue
            # Cutting through elements is no matter: they are closed again.
            return {kind: text if len(text) <= MOST_PICTURE_BYTES else clean(text[:MOST_TEXT]) + " ..."}, {}
        return {kind: _short(text)}, {}
    return {"text/plain": _ONLY_ALIVE}, {}


def _picture_facts(kind: str, facts: Any, hide: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(facts, dict):
        return {}
    sizes = {name: facts[name] for name in ("width", "height") if isinstance(facts.get(name), int)}
    return {kind: {**sizes, "alt": plain(str(facts.get("alt") or "a picture"), hide)}}


def _digest(coded: str) -> str:
    try:
        return sha256(base64.b64decode(coded)).hexdigest()
    except ValueError:
        return ""


def _short(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    half = MOST_TEXT // 2
    return f"{text[:half]}\n... {len(text) - MOST_TEXT:,} characters are left out here ...\n{text[-half:]}"


def _text(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")
