"""`kwb doctor`: one line a check, each with what was found and the mend.

Standard library only: it runs with plain Python before anything is installed. `check` says what a
check is, `facts` what checks look at, `checks/` holds them by topic, `examine` runs them.
"""

from kaggle_workbench.doctor.check import Check, Result
from kaggle_workbench.doctor.examine import CHECKS, examine, mend
from kaggle_workbench.doctor.explains import check_of
from kaggle_workbench.doctor.facts import Facts

__all__ = ["CHECKS", "Check", "Facts", "Result", "check_of", "examine", "mend"]
