"""A trial: one training of a study, under the name of its run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Trial:
    """What an engine runs.

    Attributes:
        number: Its number in the study, from 0.
        run_id: The run's name.
        parameters: What this trial tries, by name: settings and the notebook's own parameters.
        overrides: All that the training is given, `parameters` among it, as for `kwb run train --set`.
    """

    number: int
    run_id: str
    parameters: Mapping[str, Any]
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = ", ".join(f"{name}={_short(value)}" for name, value in self.parameters.items())
        return f"trial {self.number} ({values or 'as set'})"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
