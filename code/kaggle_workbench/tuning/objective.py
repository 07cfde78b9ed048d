"""What a study makes better: the competition's metric on rows held back, and what stands for it after each epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaggle_workbench import metrics, show
from kaggle_workbench.competition.connect import connect
from kaggle_workbench.errors import MissingError, WorkError
from kaggle_workbench.metrics import Metric
from kaggle_workbench.settings import Settings


def metric_of(settings: Settings) -> Metric:
    """The competition's metric; accuracy when it is none of those known, or the source cannot be asked."""
    try:
        with connect(settings) as source:
            wanted = source.client.competition(settings.competition).metric
    except MissingError as error:
        show.warn(f"{error.message} The metric is taken to be accuracy.")
        wanted = ""
    # What was said in METRIC wins, as in the training itself.
    return metrics.find(settings.metric or wanted) or metrics.metric("accuracy")


def value_of(record: Mapping[str, Any] | None, *, greater_is_better: bool) -> float:
    """A finished trial's value: its CV score.

    Raises:
        WorkError: It has none, or one of another direction than the study's.
    """
    cv = (record or {}).get("cv") or {}
    if cv.get("score") is None:
        raise WorkError("The training has no CV score.", hint="Call stage.score(...) in 02-train.")
    known = metrics.METRICS.get(str(cv.get("metric")))
    if known is not None and known.greater_is_better != greater_is_better:
        raise WorkError(
            f"The study takes {'higher' if greater_is_better else 'lower'} for better, and the training scored by "
            f"{known.title}, where it is the other way.",
            hint="Say it: --direction maximize or --direction minimize.",
        )
    return float(cv["score"])


def after_epoch(entry: Mapping[str, Any], metric: str, *, greater_is_better: bool) -> float | None:
    """What a study compares trials by after an epoch, in its own direction; None when the epoch tells nothing.

    The metric itself where Keras tells it for the rows held back (`val_accuracy`), else their loss.
    """
    value = entry.get(f"val_{metric}")
    if value is not None:
        return float(value)
    loss = entry.get("val_loss")
    if loss is None:
        return None
    return -float(loss) if greater_is_better else float(loss)
