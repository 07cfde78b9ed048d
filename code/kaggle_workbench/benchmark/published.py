"""The published times for this workload, as their author gave them in 2024-11.

Their data size is not stated, nor the framework's version: a ratio to them is a hint, and the
result says so wherever they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DATE = "2024-11"
NOTE = (
    "Published rows (2024-11, about 600 MB of GPU memory): their data size is not stated, so a ratio to them is a hint."
)


@dataclass(frozen=True)
class Published:
    """One published row.

    Attributes:
        name: The processor.
        kind: "gpu" or "cpu".
        facts: What its author says of it: cores, SMs, clocks in GHz, TFLOPS by precision.
        wall_s: Wall time of the fit in seconds.
        cpu_s: CPU time in seconds, where it is given.
    """

    name: str
    kind: str
    facts: dict[str, Any]
    wall_s: float
    cpu_s: float | None = None

    def to_row(self) -> dict[str, Any]:
        """As a row of the result, beside the own ones."""
        return {
            "own": False,
            "status": "published",
            "device": self.kind,
            "name": self.name,
            "date": DATE,
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "projected": False,
            "train_rows": None,
            "facts": self.facts,
        }


PUBLISHED: tuple[Published, ...] = (
    Published(
        "RTX A6000",
        "gpu",
        {"cuda_cores": 10752, "tensor_cores": "336 (3rd generation)", "multiprocessors": 84, "fp16_tflops": 38.7},
        20,
    ),
    Published(
        "Titan RTX",
        "gpu",
        {
            "cuda_cores": 4608,
            "tensor_cores": "576 (2nd generation)",
            "multiprocessors": 72,
            "fp16_tflops": 32.6,
            "fp32_tflops": 16.3,
            "fp64_tflops": 0.509,
        },
        40,
    ),
    Published(
        "RTX 3060 Ti",
        "gpu",
        {
            "cuda_cores": 4864,
            "tensor_cores": "152 (3rd generation)",
            "multiprocessors": 38,
            "fp16_tflops": 16.2,
            "fp32_tflops": 16.2,
            "fp64_tflops": 0.253,
        },
        65,
    ),
    Published("Ryzen 5900X", "cpu", {"cores": 12, "threads": 24, "clock_ghz": 3.7}, 386, 5760),
    Published("Xeon E5-2680 v2", "cpu", {"cores": 20, "threads": 40, "clock_ghz": 2.8}, 419, 10500),
)
