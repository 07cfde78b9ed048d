"""A run as one page: `report.html`, what ran where and what came of it above the executed notebooks.

The page needs nothing but itself. It fetches nothing and runs nothing: notebooks are cleaned of scripts, and a policy
in its head tells the browser the same.
"""

from __future__ import annotations

from kaggle_workbench.stages.report.write import REPORT_FILE, write_report

__all__ = ["REPORT_FILE", "write_report"]
