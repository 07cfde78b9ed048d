"""Kaggle's machines by the names people write, and by the ids its service wants to the letter."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from kaggle_workbench.errors import UsageError
from kaggle_workbench.kaggle_api.kernels import NO_ACCELERATOR


@dataclass(frozen=True)
class Machine:
    """A kind of session.

    Attributes:
        shape: The service's id; another spelling silently gets a CPU.
        title: For people.
        kind: What its quota and the number of sessions count as.
        gpus: How many GPUs it has.
        at_once: How many such sessions an account may have.
        hours: Longest session.
        chip: Part of its GPU's name, as the driver says it.
    """

    shape: str
    title: str
    kind: Literal["gpu", "tpu", "cpu"]
    gpus: int
    at_once: int
    hours: float
    chip: str = ""


# As of 2026-09, by Kaggle's public documents and quoted answers; some only for certain competitions.
MACHINES: dict[str, Machine] = {
    "cpu": Machine(NO_ACCELERATOR, "CPU", "cpu", 0, 5, 12),
    "t4": Machine("NvidiaTeslaT4", "2 GPUs T4", "gpu", 2, 2, 12, "T4"),
    "l4": Machine("NvidiaL4", "4 GPUs L4", "gpu", 4, 2, 12, "L4"),
    "l4x1": Machine("NvidiaL4X1", "1 GPU L4", "gpu", 1, 2, 12, "L4"),
    "a100": Machine("NvidiaTeslaA100", "1 GPU A100", "gpu", 1, 2, 12, "A100"),
    "h100": Machine("NvidiaH100", "1 GPU H100", "gpu", 1, 2, 12, "H100"),
    "rtx-pro-6000": Machine("NvidiaRtxPro6000", "1 GPU RTX Pro 6000", "gpu", 1, 2, 12, "RTX PRO 6000"),
}


def machine(name: str) -> Machine:
    """The machine of that name or id; case does not matter here.

    Raises:
        UsageError: There is none; a retired one with what takes its place.
    """
    for short, found in MACHINES.items():
        if name.lower() in (short, found.shape.lower()):
            return found
    close = difflib.get_close_matches(name.lower(), MACHINES, n=1)
    said = "It was retired; t4 takes its place. " if "p100" in name.lower() else ""
    said += "TPUs are not supported: the notebooks know GPUs and CPUs. " if "tpu" in name.lower() else ""
    raise UsageError(
        f"There is no machine {name!r}." + (f" Did you mean {close[0]}?" if close else ""),
        hint=f"{said}The machines are: {', '.join(MACHINES)}.",
    )
