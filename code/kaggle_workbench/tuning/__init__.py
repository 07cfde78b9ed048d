"""Tuning: variants given by hand and trials that Optuna samples are one thing, runs of the training notebook.

`OUTPUT_DIR/studies/<id>/` holds a study: study.json (what was asked), journal.log (Optuna's storage, unless another one
is set), jobs/ (one trial each: what it runs, its log, its outcome), table.csv, table.json, pictures/.
A trial is a run named `<study>-t<number>`, with all that a run has; one that was cut goes on as any run does.
"""

from __future__ import annotations

from kaggle_workbench.tuning.space import Dimension, read_space
from kaggle_workbench.tuning.study import Study
from kaggle_workbench.tuning.trial import Trial
from kaggle_workbench.tuning.tune import tune
from kaggle_workbench.tuning.variants import read_variants

__all__ = ["Dimension", "Study", "Trial", "read_space", "read_variants", "tune"]
