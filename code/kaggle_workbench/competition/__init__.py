"""A competition: where it comes from, its files, checking and making a submission."""

# At once and not on demand: two functions bear their module's name, and whichever is imported first would win.
from kaggle_workbench.competition.connect import Source, connect
from kaggle_workbench.competition.download import DataFiles, download
from kaggle_workbench.competition.folders import data_folder, find_data

__all__ = ["DataFiles", "Source", "connect", "data_folder", "download", "find_data"]
