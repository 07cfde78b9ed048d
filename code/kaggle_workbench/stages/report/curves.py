"""Learning curves as small drawings in the page itself, in the colours of light and dark screens."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

WIDTH, HEIGHT = 340, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 12, 26
_NO_METRIC = ("epoch", "seconds", "learning_rate")
# More points than pixels show nothing more.
_MOST_POINTS = 400


def curves(history: Any) -> list[str]:
    """One SVG for each of the first two metrics, `train` and `dev` together; none without two epochs."""
    entries = [entry for entry in history if isinstance(entry, dict)] if isinstance(history, list) else []
    entries = [entry for entry in entries if _number(entry.get("epoch")) is not None]
    if len(entries) < 2:
        return []
    names = [str(name)[4:] if str(name).startswith("val_") else str(name) for name in entries[0]]
    metrics = [name for name in dict.fromkeys(names) if name not in _NO_METRIC]
    # The loss last: it is the metric that is read.
    metrics.sort(key=lambda name: name == "loss")
    drawn = (_drawing(entries, name) for name in (*metrics[:1], *metrics[-1:]) if metrics)
    return list(dict.fromkeys(filter(None, drawn)))


def _drawing(entries: Sequence[dict[str, Any]], metric: str) -> str:
    lines = {label: _points(entries, key) for label, key in (("train", metric), ("dev", f"val_{metric}"))}
    lines = {label: points for label, points in lines.items() if points}
    values = [value for points in lines.values() for _, value in points]
    if not values:
        return ""
    epochs = [float(entry["epoch"]) for entry in entries]
    first, last = min(epochs), max(max(epochs), min(epochs) + 1)
    ticks = _ticks(min(values), max(values))
    low, high = min(ticks[0], *values), max(ticks[-1], *values)

    def across(epoch: float) -> float:
        return LEFT + (epoch - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def down(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = []
    for tick in ticks:
        y = down(tick)
        parts.append(f'<line class="kwb-grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{tick:.4g}</text>')
    for tick in _ticks(first, last, whole=True):
        if first <= tick <= last:
            parts.append(f'<text x="{across(tick):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{tick:.0f}</text>')
    for label, points in lines.items():
        path = " ".join(f"{across(epoch):.1f},{down(value):.1f}" for epoch, value in points)
        parts.append(f'<polyline class="kwb-{label}" points="{path}"/>')
    ends = ", ".join(f"{label} {points[-1][1]:.4f}" for label, points in lines.items())
    title = html.escape(f"{metric} over {len(entries)} epochs; at the end: {ends}")
    caption = html.escape(metric) + "".join(
        f' <span class="kwb-key kwb-{label}-key">{label} {points[-1][1]:.4f}</span>' for label, points in lines.items()
    )
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
    return f"<figure><figcaption>{caption}</figcaption>{head}{''.join(parts)}</svg></figure>"


def _points(entries: Sequence[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    found = [(float(entry["epoch"]), value) for entry in entries if (value := _number(entry.get(key))) is not None]
    step = -(-len(found) // _MOST_POINTS) or 1
    return found[:-1][::step] + found[-1:]


def _ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """About four round numbers from `low` to `high`."""
    spread = (high - low) or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(spread / 4))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if spread / (size * factor) <= 4.5)
    if whole:
        step = max(1.0, math.ceil(step))
    start = math.floor(low / step)
    return [number * step for number in range(start, math.ceil(high / step) + 1)] or [low]


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None
