"""The bar chart: own and published wall times on one logarithmic axis."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from kaggle_workbench.benchmark.result import clock, how, pictures, seconds, spread
from kaggle_workbench.devices import FRAMEWORKS
from kaggle_workbench.plots import DARK, GREY, ORANGE, PALE, WIDTH

LINE = "\n"
QUIET = "#6b7580"
BAR_HEIGHT = 0.62
# Part of the axis that is left for the text behind the longest bar.
TEXT_SHARE = 0.36
# Signs in a line.
NAME_WIDTH, CAPTION_WIDTH = 26, 105
# Inches: a bar with its two lines of text, and what stands above and below all bars.
ROW, FRAME = 0.52, 1.9


def bars(document: Mapping[str, Any]) -> Any:
    """A bar for each row: its wall time, own rows in a colour of their own.

    Args:
        document: A result, as `Result.to_dict` gives it.

    Returns:
        A Matplotlib figure; its label says the same in words.
    """
    from matplotlib.figure import Figure

    work = document["workload"]
    own = [row for row in document["rows"] if row["status"] == "done"]
    rows = sorted([*own, *document["published"]["rows"]], key=lambda row: -row["wall_s"])
    figure = Figure(figsize=(WIDTH, FRAME + ROW * len(rows)), facecolor="white", layout="constrained")
    figure.suptitle(
        f"{work['epochs']} epochs of the reference CNN on {work['train_rows']:,} digits, batch {work['batch_size']}",
        fontsize=13,
        fontweight="bold",
        color=DARK,
        x=0.02,
        ha="left",
    )
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)  # type: ignore[union-attr, call-arg]
    axes = figure.subplots()
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        _bar(axes, place, row)
    axes.set_yticks(list(places), [_name(row) for row in rows])
    axes.tick_params(axis="y", colors=DARK, labelsize=10, length=0)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row["own"] else "normal")
    _time_axis(axes, [row.get("wall_high_s") or row["wall_s"] for row in rows], [row["wall_s"] for row in rows])
    _legend(axes, own)
    figure.supxlabel(_caption(document, own), fontsize=8.5, color=QUIET, x=0.02, ha="left")
    said = (f"{_name(row).replace(LINE, ', ')}, {how(row)}: {_said(row)}" for row in reversed(rows))
    figure.set_label(f"Wall time: {'; '.join(said)}.")
    return figure


def _bar(axes: Any, place: int, row: Mapping[str, Any]) -> None:
    projected = row["projected"]
    style = {"hatch": "////", "edgecolor": "white", "linewidth": 0} if projected else {}
    axes.barh(place, row["wall_s"], height=BAR_HEIGHT, color=ORANGE if row["own"] else GREY, zorder=2, **style)
    end = row["wall_s"]
    if projected:
        low, end = row["wall_low_s"], max(row["wall_high_s"], end)
        axes.plot(
            [low, row["wall_high_s"]], [place, place], color=DARK, linewidth=1.6, zorder=3, marker="|", markersize=9
        )
    axes.annotate(
        _said(row),
        (end, place),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=10,
        color=DARK,
        fontweight="bold" if row["own"] else "normal",
        # Over the grid's lines.
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2},
    )


def _time_axis(axes: Any, ends: list[float], walls: list[float]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    # Bars on a logarithmic axis have no zero: they begin well below the shortest one.
    start = min(walls) / 3
    axes.set_xlim(start, start * (max(ends) / start) ** (1 / (1 - TEXT_SHARE)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("wall time, logarithmic: shorter is better", fontsize=9, color=DARK, loc="left")
    axes.tick_params(axis="x", colors=DARK, labelsize=9, length=3)
    axes.tick_params(axis="x", which="minor", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.grid(visible=True, axis="x", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)


def _legend(axes: Any, own: list[Mapping[str, Any]]) -> None:
    from matplotlib.patches import Patch

    kinds = []
    if any(not row["projected"] for row in own):
        kinds.append(Patch(facecolor=ORANGE, label="measured here"))
    if any(row["projected"] for row in own):
        kinds.append(Patch(facecolor=ORANGE, hatch="////", edgecolor="white", label="projected here"))
    kinds.append(Patch(facecolor=GREY, label="published"))
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.1}
    axes.legend(handles=kinds, frameon=False, fontsize=9.5, labelcolor=DARK, ncols=3, **place)


def _name(row: Mapping[str, Any]) -> str:
    name = str(row["name"])
    if not row["own"]:
        return name
    framework = FRAMEWORKS[row["backend"]]
    if row["device"] == "cpu":
        name, _, cores = name.rpartition(", ")
        last = f"{cores}, {framework}"
    else:
        last = f"{row['device']}, {framework}"
    return LINE.join([*textwrap.wrap(name, NAME_WIDTH), last])


def _said(row: Mapping[str, Any]) -> str:
    text = seconds(row["wall_s"])
    if row["projected"]:
        return f"{text} ({spread(row)})"
    return f"{text}, CPU time {clock(row['cpu_s'])}" if row.get("cpu_s") and row["device"] == "cpu" else text


def _caption(document: Mapping[str, Any], own: list[Mapping[str, Any]]) -> str:
    lines = ["Published 2024-11; their data size is not stated, so a ratio to them is a hint."]
    if not document["workload"]["is_published"]:
        lines.insert(0, "Not the published workload: the bars here do not compare with the published ones.")
    if own:
        lines.append(f"Measured {own[0]['date']} by kwb bench, compilation included. Pictures: {pictures(own[0])}.")
    return LINE.join(textwrap.fill(line, CAPTION_WIDTH) for line in lines)
