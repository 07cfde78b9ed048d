"""Cells of a bundle: the notebook's own with its parameters filled in, and those around them."""

from __future__ import annotations

import ast
import json
import uuid
from collections.abc import Mapping
from typing import Any

from kaggle_workbench.errors import UsageError

PARAMETERS = "parameters"
# Cell ids are the same each time: made from what the cell is for.
_IDS = uuid.UUID("6b1f3a52-5c1c-4c37-9f0e-2f6d6f3c7a10")


def markdown(name: str, text: str) -> dict[str, Any]:
    """A cell to read."""
    return {"cell_type": "markdown", "id": _id(name), "metadata": {}, "source": text}


def code(name: str, source: str, *, hidden: bool = False) -> dict[str, Any]:
    """A cell to run; a hidden one is folded in Jupyter, on Kaggle and in Colab."""
    folded = {"_kg_hide-input": True, "cellView": "form", "jupyter": {"source_hidden": True}}
    return {
        "cell_type": "code",
        "id": _id(name),
        "metadata": {**(folded if hidden else {}), "tags": [f"kwb-{name}"]},
        "execution_count": None,
        "outputs": [],
        "source": source,
    }


def own(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell of the user's notebook without what running it left there."""
    made = {**cell, "source": text(cell), "metadata": _kept(cell.get("metadata", {}))}
    if cell["cell_type"] == "code":
        made |= {"outputs": [], "execution_count": None}
    made.pop("attachments", None)
    return made


def text(cell: Mapping[str, Any]) -> str:
    """A cell's source as one text."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def filled(source: str, values: Mapping[str, Any]) -> tuple[str, set[str]]:
    """A parameters cell with values in place of those written there; comments, and so Colab's form, stay.

    Args:
        source: The cell.
        values: By name; those that the cell does not assign are left.

    Returns:
        The new source, and the names that were filled in.

    Raises:
        UsageError: The cell is no Python.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise UsageError(
            f"The parameters cell is no Python: {error.msg} (line {error.lineno}).",
            hint="Run that cell in the notebook, and correct what it says.",
        ) from error
    # ast counts bytes of UTF-8.
    lines = [line.encode() for line in source.splitlines()]
    done = set()
    for node in reversed(tree.body):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if name not in values or value.end_lineno is None or value.end_col_offset is None:
            continue
        head = lines[value.lineno - 1][: value.col_offset]
        tail = lines[value.end_lineno - 1][value.end_col_offset :]
        lines[value.lineno - 1 : value.end_lineno] = [head + literal(values[name]).encode() + tail]
        done.add(name)
    return "\n".join(line.decode() for line in lines), done


def literal(value: Any) -> str:
    """A value as Python writes it; texts in double quotes, as the notebooks do."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _kept(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name in ("tags", "cellView", "jupyter", "collapsed")}


def _id(name: str) -> str:
    return f"kwb-{name}-{uuid.uuid5(_IDS, name).hex[:8]}"
