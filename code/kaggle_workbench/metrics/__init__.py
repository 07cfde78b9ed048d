"""Competition metrics, shared by cross-validation and the arena.

`registry` is the table of all of them and finds one by the name that Kaggle shows; `labels`, `numbers`,
`probabilities`, `rankings` and `masks` hold the definitions, by what a submission's cells hold.
Importing this imports neither NumPy nor scikit-learn: the arena starts without them.
"""

from kaggle_workbench.metrics.labels import accuracy
from kaggle_workbench.metrics.metric import Metric
from kaggle_workbench.metrics.registry import METRICS, find, metric

__all__ = ["METRICS", "Metric", "accuracy", "find", "metric"]
