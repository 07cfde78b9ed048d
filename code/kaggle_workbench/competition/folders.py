"""Where a competition's files are: one resolver for every place, Kaggle's old layout and its new one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kaggle_workbench.errors import MissingError
from kaggle_workbench.settings import Settings

KAGGLE_INPUT = Path("/kaggle/input")
HIDDEN = ".kwb"
_TREE_LINES = 20


def data_folder(settings: Settings, kind: str) -> Path:
    """The folder that a download fills; practice files are never mixed with Kaggle's.

    Args:
        settings: Settings in force.
        kind: "kaggle" or "practice".
    """
    return settings.input_dir / ("practice" if kind == "practice" else "competitions") / settings.competition


def work_folder(settings: Settings, kind: str) -> Path:
    """Our own hidden folder for a competition: archive, unpacking, manifest; never among the raw files."""
    return settings.input_dir / HIDDEN / kind / settings.competition


def unpack_folder(settings: Settings, kind: str) -> Path:
    """Where files wait between archive and place; while it exists, a download is not finished."""
    return work_folder(settings, kind) / "unpacked"


def candidates(settings: Settings, kind: str, *, roots: Sequence[Path] | None = None) -> list[Path]:
    """Folders that may hold the files, in the order in which they are asked.

    Args:
        settings: Settings in force.
        kind: "kaggle" or "practice".
        roots: Input folders to look in; by default INPUT_DIR, those of the place, and /kaggle/input.
    """
    if roots is None:
        roots = (settings.input_dir, *settings.place.input_roots, KAGGLE_INPUT)
    layouts = ("practice",) if kind == "practice" else ("competitions", "")
    found = (root / layout / settings.competition for root in roots for layout in layouts)
    return list(dict.fromkeys(found))


def find_data(
    settings: Settings, kind: str, *, expected: Sequence[str] = (), roots: Sequence[Path] | None = None
) -> Path:
    """The folder that holds a competition's files.

    Args:
        settings: Settings in force.
        kind: "kaggle" or "practice".
        expected: Names that must all be there; by default any file will do.
        roots: See `candidates`.

    Raises:
        MissingError: No folder holds them; the message shows what there is instead.
    """
    places = candidates(settings, kind, roots=roots)
    unfinished = data_folder(settings, kind) if unpack_folder(settings, kind).exists() else None
    for folder in places:
        if folder != unfinished and holds(folder, expected):
            return folder
    wanted = ", ".join(expected[:5]) + (", ..." if len(expected) > 5 else "") if expected else "any file"
    looked = "\n".join(f"  {folder}" for folder in places)
    raise MissingError(
        f"The data of {settings.competition} are not here. Looked for {wanted} in:\n{looked}\n{_there(places)}",
        hint="Fetch: ./kwb run data" if kind == "practice" or settings.root else "Attach the competition as input.",
    )


def holds(folder: Path, expected: Sequence[str] = ()) -> bool:
    """Whether a folder holds all of these files; without names, whether it holds any visible file."""
    if not folder.is_dir():
        return False
    if expected:
        return all((folder / name).is_file() for name in expected)
    return next(visible_files(folder), None) is not None


def tree(folder: Path, *, lines: int = _TREE_LINES) -> str:
    """A short picture of a folder: two levels, folders first, cut after `lines` lines."""
    shown = list(_tree(folder, depth=2))
    more = [f"  ... and {len(shown) - lines} more"] if len(shown) > lines else []
    return "\n".join([f"{folder}:", *shown[:lines], *more]) if shown else f"{folder}: (empty)"


def _there(places: Sequence[Path]) -> str:
    there = next((root for folder in places if (root := folder.parent).is_dir()), None)
    if there is None:
        there = next((root for folder in places if (root := folder.parent.parent).is_dir()), None)
    return f"What is there:\n{tree(there)}" if there else "None of these folders exists."


def _tree(folder: Path, *, depth: int, indent: int = 1) -> Iterator[str]:
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: (not entry.is_dir(), entry.name))
    except OSError as error:
        yield f"{'  ' * indent}(cannot be read: {error.strerror})"
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        yield f"{'  ' * indent}{entry.name}{'/' if entry.is_dir() else ''}"
        if entry.is_dir() and depth > 1:
            yield from _tree(entry, depth=depth - 1, indent=indent + 1)


def visible_files(folder: Path) -> Iterator[Path]:
    """The files below a folder, without hidden ones."""
    for path in folder.rglob("*"):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path
