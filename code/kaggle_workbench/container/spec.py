"""The project's spec: read it for use, or check it and say everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path

from kaggle_workbench.container.findings import Report
from kaggle_workbench.container.spec_model import Spec
from kaggle_workbench.container.spec_read import Document, read_document
from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import ROOT_MARK


def read_spec(path: Path) -> Spec:
    """Read a spec that is going to be used.

    Args:
        path: The file `.project/spec.yaml`.

    Raises:
        UsageError: The file is missing or unreadable, or has errors; the hint lists the first of them.
    """
    document = _read(path)
    errors = Report.of(document.findings).errors
    if errors:
        raise UsageError(
            f"{path} has {len(errors)} error(s); the first: {errors[0]}",
            hint="`kwb spec check` lists them all.",
        )
    return document.spec


def _read(path: Path) -> Document:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"There is no file {path}.", hint=f"A project's spec is {ROOT_MARK}.") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", hint="Name the spec file or the project."
        ) from None
    return read_document(data, _shown(path))


def _shown(path: Path) -> str:
    parts = path.parts[-2:]
    return "/".join(parts) if parts[0] == ROOT_MARK.parts[0] else path.name
