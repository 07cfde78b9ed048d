"""A record as one line of a listing, and the words people read for what a record holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kaggle_workbench import show
from kaggle_workbench.metrics import METRICS

# The largest number that can be calculated with.
MOST = 1e300
# What a metric of another name is taken for: these measure errors.
_ERRORS = ("loss", "error", "rmse", "rmsle", "mae", "mse", "mape", "smape", "deviance", "distance")


def summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as one line of a listing.

    Args:
        record: As `records.list_runs` gives it; a damaged one has little more than its name.

    Returns:
        The JSON listing holds all of it; `gap` is CV minus public score, `seconds` the time of all steps.
    """
    steps = record["steps"]
    cv, lb = record.get("cv") or {}, record.get("lb") or {}
    device = next((step["device"] for step in reversed(steps) if step.get("device")), None)
    seconds = sum(step.get("wall_s") or 0 for step in steps)
    score, public = number(cv.get("score")), number(lb.get("public"))
    return {
        "run": record["id"],
        "status": record["status"],
        "stages": "+".join(dict.fromkeys(step["stage"] for step in steps)),
        "competition": record.get("competition"),
        "source": record.get("source"),
        "epochs": len(record.get("history") or ()) or record.get("epochs") or None,
        "metric": record.get("metric"),
        "CV": score,
        "CV_rows": cv.get("rows"),
        "CV_folds": cv.get("folds"),
        "public": public,
        "private": number(lb.get("private")),
        "gap": None if score is None or public is None else score - public,
        "rank": lb.get("rank"),
        "device": device and device.get("kind"),
        "took": span(seconds),
        "seconds": round(seconds, 1),
        "created": record["created"],
        "updated": record.get("updated"),
        "parent": record.get("parent"),
        "uid": record.get("uid"),
        "error": next((step["error"]["message"] for step in reversed(steps) if step.get("error")), None),
    }


def told(name: str) -> str:
    """A number's name as people read it: Keras' "val_accuracy" is the dev rows' accuracy."""
    text = f"dev {name[4:]}" if name.startswith("val_") else name
    return text.replace("_", " ")


def computes(device: Mapping[str, Any]) -> str:
    """What a step computed on, as the stages say it: "CPU (2 cores): no NVIDIA GPU here"."""
    count, names = device.get("count"), device.get("names")
    noun = "GPU" if device.get("kind") == "gpu" else "core"
    counted = show.plural(count, noun) if isinstance(count, int) and not isinstance(count, bool) else ""
    if noun == "GPU":
        what = counted or noun
        what += f" ({', '.join(dict.fromkeys(map(str, names)))})" if isinstance(names, list) and names else ""
    else:
        what = f"CPU ({counted})" if counted else "CPU"
    return f"{what}: {device['reason']}" if device.get("reason") else what


def reached(checkpoint: Mapping[str, Any]) -> str:
    """Where a checkpoint stands, as the training says it: "epoch 2", "step 115 of epoch 3"."""
    epoch, step = (checkpoint.get(name) for name in ("epoch", "step"))
    if not isinstance(epoch, int):
        return ""
    # Within an epoch it holds the ones before, and so many steps of the next.
    return f"step {step:,} of epoch {epoch + 1:,}" if isinstance(step, int) and step else f"epoch {epoch:,}"


def span(seconds: float) -> str:
    """A length of time for people: `span(95) == "1 min 35 s"`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def greater_is_better(metric: str | None) -> bool:
    """Whether a higher score of this metric wins; for one that is not registered its name must tell."""
    if metric is not None and metric in METRICS:
        return METRICS[metric].greater_is_better
    words = (metric or "").lower().replace("-", " ").replace("_", " ").split()
    return not any(word in _ERRORS for word in words)


def number(value: Any) -> float | None:
    """A score as a number; None for what is none, or is not finite."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not -MOST < value < MOST:
        return None
    return float(value)
