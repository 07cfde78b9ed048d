"""What computes: GPUs as the driver counts them, as the framework counts them, and a proof.

"A GPU if there is one, else the CPU" fails silently everywhere: a framework that cannot use the GPU trains on the CPU
for hours and nobody says so. Here the two counts are compared, a small computation is checked against NumPy on the
device itself, and one `Decision` says what computes and why. The only room that touches NVML or asks a framework for
its devices.
"""

from kaggle_workbench.devices.choice import DEFAULTS, force_cpu_if_asked, prepare
from kaggle_workbench.devices.cpu import cpu_cores, cpu_facts
from kaggle_workbench.devices.decision import Decision, decide
from kaggle_workbench.devices.framework import FRAMEWORKS
from kaggle_workbench.devices.iterators import end_at_once as end_iterators_at_once
from kaggle_workbench.devices.nvml import DriverError, Gpu, GpuLostError, Process, driver_gpus
from kaggle_workbench.devices.report import Report, report
from kaggle_workbench.devices.use import Use, use
from kaggle_workbench.devices.watch import GpuWatch

__all__ = [
    "DEFAULTS",
    "FRAMEWORKS",
    "Decision",
    "DriverError",
    "Gpu",
    "GpuLostError",
    "GpuWatch",
    "Process",
    "Report",
    "Use",
    "cpu_cores",
    "cpu_facts",
    "decide",
    "driver_gpus",
    "end_iterators_at_once",
    "force_cpu_if_asked",
    "prepare",
    "report",
    "use",
]
