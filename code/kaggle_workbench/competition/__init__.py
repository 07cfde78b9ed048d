"""A competition: where it comes from, its files, checking and making a submission."""

# At once and not on demand: two functions bear their module's name, and whichever is imported first would win.
from kaggle_workbench.competition.check import check_file, check_submission
from kaggle_workbench.competition.connect import Source, connect
from kaggle_workbench.competition.download import DataFiles, download
from kaggle_workbench.competition.folders import data_folder, find_data
from kaggle_workbench.competition.report import Fault, Report
from kaggle_workbench.competition.result import Result
from kaggle_workbench.competition.submit import submit
from kaggle_workbench.competition.tables import read_table

__all__ = [
    "DataFiles",
    "Fault",
    "Report",
    "Result",
    "Source",
    "check_file",
    "check_submission",
    "connect",
    "data_folder",
    "download",
    "find_data",
    "read_table",
    "submit",
]
