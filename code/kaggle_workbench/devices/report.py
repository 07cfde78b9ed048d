"""What there is to compute on and what will be used, for people, programs and notebooks."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.devices import choice, framework, nvml
from kaggle_workbench.devices.cpu import cpu_facts
from kaggle_workbench.devices.decision import Decision, decide
from kaggle_workbench.devices.nvml import Gpu
from kaggle_workbench.errors import MissingError, WorkbenchError
from kaggle_workbench.files import human_bytes
from kaggle_workbench.settings import Settings

COLUMNS = ("gpu", "name", "memory", "free", "capability", "cores", "clock", "busy", "used_by")


@dataclass(frozen=True)
class Report:
    """Facts and the decision.

    Attributes:
        gpus: The GPUs, as the driver reports them.
        cpu: The CPU's facts (see `cpu_facts`).
        backend: The framework that the settings name.
        installed: Its distribution and version; None when it is not installed.
        decision: What computes; None when the decision does not stand.
        error: Why it does not stand.
        proved: Whether the framework was asked and computed.
        trouble: Why the driver could not be asked; "" when it was, or when there is none.
    """

    gpus: tuple[Gpu, ...]
    cpu: dict[str, Any]
    backend: str
    installed: tuple[str, str] | None
    decision: Decision | None
    error: WorkbenchError | None
    proved: bool
    trouble: str = ""

    @property
    def line(self) -> str:
        """The decision in one line."""
        if self.decision is not None:
            return f"{'Computes' if self.proved else 'Would compute'} on {self.decision.line}"
        return f"Stops: {self.error.message}" if self.error else ""

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "gpus": [gpu.to_dict() for gpu in self.gpus],
            "driver": self.gpus[0].driver if self.gpus else None,
            "cuda": self.gpus[0].cuda if self.gpus else None,
            "driver_error": self.trouble or None,
            "cpu": self.cpu,
            "backend": self.backend,
            "framework": dict(zip(("package", "version"), self.installed, strict=True)) if self.installed else None,
            "decision": self.decision.to_dict() if self.decision else None,
            "line": self.line,
            "proved": self.proved,
            "proof_s": list(self.decision.each_s) if self.decision else [],
            "error": {"message": self.error.message, "hint": self.error.hint} if self.error else None,
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row per GPU, for a table."""
        return [
            {
                "gpu": gpu.index,
                "name": gpu.name,
                "memory": human_bytes(gpu.memory) if gpu.memory else None,
                "free": human_bytes(gpu.free) if gpu.free is not None else None,
                "capability": ".".join(map(str, gpu.capability)) if gpu.capability else None,
                "cores": f"{gpu.cores:,} in {gpu.multiprocessors} SM" if gpu.multiprocessors else gpu.cores,
                "clock": f"{gpu.clock_mhz:,} MHz" if gpu.clock_mhz else None,
                "busy": f"{gpu.utilisation} %" if gpu.utilisation is not None else None,
                "used_by": ", ".join(f"{p.pid} {p.name or ''}".strip() for p in gpu.processes) or None,
            }
            for gpu in self.gpus
        ]

    def facts(self) -> dict[str, str]:
        """The facts besides the GPUs, in words."""
        cpu = self.cpu
        parts = [
            cpu["name"],
            show.plural(cpu["usable"], "core") + " usable",
            f"{cpu['clock_mhz']:,} MHz" if cpu["clock_mhz"] else "",
            human_bytes(cpu["memory"]) if cpu["memory"] else "",
        ]
        first = self.gpus[0] if self.gpus else None
        driver = "could not be asked" if self.trouble else "no NVIDIA GPU"
        if first is not None:
            driver = f"{first.driver or 'unknown'}, serves CUDA up to {first.cuda or 'unknown'}"
        version = " ".join(self.installed) if self.installed else "not installed yet"
        facts = {
            "driver": driver,
            "CPU": ", ".join(part for part in parts if part),
            "framework": f"{framework.FRAMEWORKS[self.backend]} ({version})",
        }
        if self.proved and self.decision:
            what = f"{framework.FRAMEWORKS[self.backend]} sees {show.plural(self.decision.framework or 0, 'GPU')}"
            times = ", ".join(f"{seconds:.2f} s" for seconds in self.decision.each_s)
            facts["proof"] = f"{what}; product of two matrices, equal to NumPy: {times}"
        return facts

    def __str__(self) -> str:
        lines = [show.table(self.rows(), COLUMNS), ""] if self.gpus else []
        lines += [f"{name:<10} {text}" for name, text in self.facts().items()]
        lines += ["", self.line]
        if self.error:
            lines += [f"  {line}" for line in self.error.hint.splitlines()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = []
        if self.gpus:
            head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in COLUMNS)
            body = "".join(
                "<tr>" + "".join(f"<td>{html.escape(_shown(row[name]))}</td>" for name in COLUMNS) + "</tr>"
                for row in self.rows()
            )
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        facts = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self.facts().items()
        )
        parts.append(f"<table><tbody>{facts}</tbody></table><p><b>{html.escape(self.line)}</b></p>")
        if self.error:
            parts.append(f"<p>{html.escape(self.error.hint)}</p>")
        return "".join(parts)


def report(settings: Settings, *, proof: bool = False) -> Report:
    """What there is to compute on, and what a training would use; the one call for people and notebooks.

    Args:
        settings: Settings in force.
        proof: Also import the framework, count its GPUs and compute on each; without, nothing heavy is imported.

    Returns:
        The report; where the decision does not stand its `error` says why.
    """
    gpus: tuple[Gpu, ...] = ()
    trouble = ""
    try:
        gpus = nvml.driver_gpus()
    except (ModuleNotFoundError, MissingError) as caught:
        trouble = str(getattr(caught, "message", caught))
    decision, error = None, None
    try:
        if proof:
            choice.prepare(settings)
        decision = decide(settings, prove=proof)
    except WorkbenchError as caught:
        error = caught
    backend = settings.keras_backend
    return Report(gpus, cpu_facts(), backend, framework.installed(backend), decision, error, proof, trouble)


def _shown(value: Any) -> str:
    return "-" if value is None else str(value)
