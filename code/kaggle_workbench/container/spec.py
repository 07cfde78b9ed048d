"""The project's spec: read it for use, or check it and say everything that is wrong with it."""

from __future__ import annotations

from pathlib import Path

from kaggle_workbench.container.file_rules import check_build_files
from kaggle_workbench.container.findings import Finding, Report
from kaggle_workbench.container.own_rules import check_own, is_ours
from kaggle_workbench.container.project_rules import check_project, host_notes
from kaggle_workbench.container.spec_model import Spec
from kaggle_workbench.container.spec_read import Document, read_document
from kaggle_workbench.container.spec_rules import check_spec
from kaggle_workbench.errors import UsageError
from kaggle_workbench.settings import ROOT_MARK
from kaggle_workbench.show import plural


def read_spec(path: Path) -> Spec:
    """Read a spec that is going to be used.

    Args:
        path: The file `.project/spec.yaml`.

    Raises:
        UsageError: The file is missing or unreadable, or has errors; the hint lists the first of them.
    """
    document = _read(path)
    check_spec(document)
    errors = Report.of(document.findings).errors
    if errors:
        raise UsageError(
            f"{path} has {plural(len(errors), 'error')}; the first: {errors[0]}",
            hint="`./kwb spec check` lists them all.",
        )
    if document.spec.spec_version != "v2":
        raise UsageError(
            f"{path} is a spec of version {document.spec.spec_version}, which cannot be used any more.",
            hint="Open the project in AI Workbench, which writes it anew as v2.",
        )
    return document.spec


def check(path: Path) -> Report:
    """Check a spec, and, when it lies in a project, what its other files must agree on with it.

    Args:
        path: The spec file, or the project's folder.

    Raises:
        UsageError: There is no such file, or it cannot be read.
    """
    file = path / ROOT_MARK if path.is_dir() else path
    document = _read(file)
    check_spec(document)
    findings: list[Finding] = []
    root = _project_of(file)
    if root is not None:
        findings += [*check_build_files(root), *check_project(document, root)]
        if document.readable and is_ours(root):
            findings += check_own(document, root)
    if document.readable:
        findings += host_notes(document)
    return Report.of([*document.findings, *findings])


def _project_of(file: Path) -> Path | None:
    absolute = file.absolute()
    root = absolute.parent.parent
    return root if root / ROOT_MARK == absolute else None


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
