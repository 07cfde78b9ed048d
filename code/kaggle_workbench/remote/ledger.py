"""What was pushed: `pushes.json` in the run's folder, written before and after each push."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kaggle_workbench.errors import UsageError
from kaggle_workbench.files import make_folder, write_json
from kaggle_workbench.kaggle_api.kernels import Saved

FILE = "pushes.json"


class Pushes:
    """The pushes of one run, oldest first; entries are plain dictionaries.

    An entry holds: number, place, stage, status ("sending", "running", "refused", "pulled", "failed"), ref, version,
    url, machine, dataset, parameters, sha256 (of the notebook), pushed (UTC).

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    def all(self) -> list[dict[str, Any]]:
        """Every push."""
        try:
            found = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return []
        return found if isinstance(found, list) else []

    def begin(self, **facts: Any) -> int:
        """Note that a push is about to be sent; its number."""
        entries = self.all()
        number = len(entries) + 1
        now = datetime.now(UTC).isoformat(timespec="seconds")
        make_folder(self._file.parent)
        write_json(self._file, [*entries, {"number": number, "status": "sending", "pushed": now, **facts}])
        return number

    def update(self, number: int, **facts: Any) -> None:
        """Lay facts over an entry."""
        write_json(self._file, [{**one, **facts} if one["number"] == number else one for one in self.all()])

    def newest(self, run: str) -> dict[str, Any]:
        """The last push that reached its place.

        Raises:
            UsageError: There is none.
        """
        found = [one for one in self.all() if one.get("ref")]
        if not found:
            raise UsageError(f"Run {run} was not pushed anywhere.", hint=f"Push it: ./kwb push train --resume {run}")
        return found[-1]


def saved(entry: dict[str, Any]) -> Saved:
    """The kernel of an entry."""
    return Saved(entry["ref"], int(entry["version"]), entry["url"])
