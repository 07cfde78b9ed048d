"""The published workload, measured on this machine and put beside the published times.

Each device is measured in a child process of its own; this process never imports a framework.
docs/benchmark.md says what is measured and how to read it.
"""

from kaggle_workbench.benchmark.published import PUBLISHED, Published
from kaggle_workbench.benchmark.result import Result, earlier, earlier_table
from kaggle_workbench.benchmark.run import bench, outlook, outlook_text, results_folder
from kaggle_workbench.benchmark.targets import Target, find_targets, installed
from kaggle_workbench.benchmark.workload import Workload, find_digits, other_workload

__all__ = [
    "PUBLISHED",
    "Published",
    "Result",
    "Target",
    "Workload",
    "bench",
    "earlier",
    "earlier_table",
    "find_digits",
    "find_targets",
    "installed",
    "other_workload",
    "outlook",
    "outlook_text",
    "results_folder",
]
