"""One call of the API, with the stand-in's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kaggle_workbench.arena.answers import ApiError, text
from kaggle_workbench.arena.context import Call

from .state import Kernel, Version, World

KAGGLE = "https://www.kaggle.com"
DENIED = "Permission 'kernels.get' was denied"


@dataclass(frozen=True)
class Asked:
    """One call, with the stand-in's memory."""

    call: Call
    world: World

    @property
    def body(self) -> Mapping[str, Any]:
        """The request."""
        return self.call.body

    def text(self, name: str, longest: int = 1000) -> str:
        """A text of the request."""
        return text(self.body, name, longest=longest)

    def kernel(self) -> Kernel:
        """The kernel that the request names.

        Raises:
            ApiError: Unknown or somebody else's (403), or its slug was burnt by a refused push (404).
        """
        ref = f"{self.text('userName')}/{self.text('kernelSlug')}"
        if ref in self.world.burnt:
            raise ApiError(404, "Not found")
        found = self.world.kernels.get(ref)
        if found is None or found.owner != self.call.who:
            raise ApiError(403, DENIED)
        return found

    def version(self) -> Version:
        """The version that the request names (`v3`), by default the newest.

        Raises:
            ApiError: There is none of that number (404).
        """
        kernel, label = self.kernel(), self.text("versionLabel").removeprefix("v")
        found = [each for each in kernel.versions if not label or str(each.number) == label]
        if not found:
            raise ApiError(404, "Not found")
        return found[-1]
