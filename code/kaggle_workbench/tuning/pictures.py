"""Pictures of a study: its history, parallel coordinates, importance, and what each parameter does."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from kaggle_workbench import plots
from kaggle_workbench.files import write_atomic
from kaggle_workbench.tuning.study import PARAMETERS, PICTURES, Study

# Fewer finished trials than this show nothing.
LEAST = 2


def draw(study: Study, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Draw what can be drawn into the study's `pictures/`.

    Args:
        study: The study.
        rows: Its table.

    Returns:
        The files' names; fewer while few trials are done, or when what draws them is not installed.
    """
    done = [row for row in rows if row["value"] is not None]
    if len(done) < LEAST:
        return []
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return []
    made: dict[str, Callable[[], Any]] = {
        "parameters": lambda: effects(done, study),
        "history": lambda: _optuna("plot_optimization_history", study),
        "parallel-coordinates": lambda: _optuna("plot_parallel_coordinate", study),
        "importance": lambda: _optuna("plot_param_importances", study),
    }
    matplotlib.use("Agg", force=False)
    written = []
    for name, make in made.items():
        # Optuna sets a style for the whole process.
        with warnings.catch_warnings(), matplotlib.rc_context():
            warnings.simplefilter("ignore")
            try:
                figure = make()
            except (ValueError, RuntimeError, ImportError, ZeroDivisionError):
                # Too few trials, or all alike: Optuna says so by an error.
                continue
            if not isinstance(figure, Figure):
                continue
            content = io.BytesIO()
            figure.savefig(content, format="png", dpi=140, bbox_inches="tight", facecolor="white")
        write_atomic(study.folder / PICTURES / f"{name}.png", content.getvalue())
        written.append(f"{PICTURES}/{name}.png")
    return written


def effects(done: Sequence[dict[str, Any]], study: Study) -> Any:
    """The score on train and dev rows as each parameter is moved: one plot a parameter.

    Args:
        done: Finished trials, as rows of the table.
        study: The study.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    names = list(dict.fromkeys(name for row in done for name in row[PARAMETERS]))
    names = [name for name in names if len({repr(row[PARAMETERS].get(name)) for row in done}) > 1]
    if not names:
        raise ValueError("no parameter was moved")
    logarithmic = {dimension.name for dimension in study.space if dimension.log}
    figure = Figure(figsize=(plots.WIDTH, 2.9 * ((len(names) + 1) // 2)), layout="constrained")
    figure.suptitle(f"Train and dev as each parameter is moved ({len(done)} trials)")
    grid = figure.subplots((len(names) + 1) // 2, 2, squeeze=False).flat
    # The names first: `zip` takes one more of what comes first, and the rest of the grid is switched off below.
    for name, axes in zip(names, grid, strict=False):
        points = [row for row in done if row[PARAMETERS].get(name) is not None]
        values = [row[PARAMETERS][name] for row in points]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            values = [str(value) for value in values]
        elif name in logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(NullFormatter())
        for key, colour, label in (("train", plots.ORANGE, "train"), ("value", plots.BLUE, f"dev ({study.metric})")):
            axes.scatter(values, [_finite(row[key]) for row in points], color=colour, label=label, s=26, alpha=0.8)
        axes.set_xlabel(name)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in list(grid):
        axes.set_axis_off()
    figure.axes[0].legend(frameon=False)
    return figure


def _finite(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _optuna(name: str, study: Study) -> Any:
    from matplotlib import pyplot
    from optuna.visualization import matplotlib as drawn

    axes = getattr(drawn, name)(study.optuna, target_name=f"CV {study.metric}")
    figure = (axes.flat[0] if hasattr(axes, "flat") else axes).figure
    pyplot.close(figure)
    return figure
