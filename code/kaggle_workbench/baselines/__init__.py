"""Baselines for any competition: what a model learns from, what it answers, honest folds, kept predictions.

`data` is what 02-train works on; `features` makes numbers of a table's columns; `answers` turns answers into what a
model learns and back into what a submission holds; `folds` splits; `outputs` are what a model
gives on them, `predictions` keeps each fold's; `boosting` is gradient boosting on the same folds.
"""

from kaggle_workbench.baselines.boosting import boost
from kaggle_workbench.baselines.data import Data
from kaggle_workbench.baselines.folds import Folds, make_folds
from kaggle_workbench.baselines.outputs import Outputs, blend, write_held_back
from kaggle_workbench.baselines.predictions import Predictions

__all__ = ["Data", "Folds", "Outputs", "Predictions", "blend", "boost", "make_folds", "write_held_back"]
