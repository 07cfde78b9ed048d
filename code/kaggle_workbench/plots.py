"""The pictures of the three notebooks: one look, readable on light and dark pages.

Each function returns a Matplotlib figure, made without pyplot (no global state, nothing shown
twice); its label is a sentence for those who cannot see it. `stage.show` shows and keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kaggle_workbench.errors import UsageError
from kaggle_workbench.show import plural

# Colours that differ in lightness too, so that they can be told apart without colour vision.
BLUE, ORANGE, GREY, DARK, PALE = "#1f6fb2", "#d9772b", "#9aa3ad", "#2b3138", "#e6e9ec"
WIDTH = 8.6
# More of a kind than this make no picture that a person can read.
MOST_CLASSES = 20
MOST_COLUMNS = 12
# More points than this make one blot.
MOST_POINTS = 5000


def samples(pictures: Any, labels: Any, *, each: int = 12, title: str = "Examples of each class") -> Any:
    """A row of example pictures for each class.

    Args:
        pictures: (rows, height, width), grey levels.
        labels: The class of each, (rows,).
        each: Pictures per class.
        title: Above the picture.
    """
    import numpy as np

    labels = np.asarray(labels)
    classes = np.unique(labels)
    shown = classes[:MOST_CLASSES]
    figure = _figure(0.62 * len(shown) + 0.7, title)
    figure.set_label(f"{each} example pictures for each of the classes {_listed(shown)}.")
    grid = figure.subplots(len(shown), each, squeeze=False)
    for line, name in zip(grid, shown, strict=True):
        found = np.flatnonzero(labels == name)[:each]
        for axes in line:
            axes.set_axis_off()
        for axes, row in zip(line, found, strict=False):
            _picture(axes, pictures[row])
        line[0].text(
            -0.35, 0.5, str(name), transform=line[0].transAxes, ha="right", va="center", fontsize=12, color=DARK
        )
    if len(shown) < len(classes):
        _below(figure, f"The first {len(shown)} of {len(classes)} classes.")
    return figure


def class_balance(labels: Any, *, title: str = "Training rows of each class") -> Any:
    """A bar for each class: how many rows it has.

    Args:
        labels: The class of each row, (rows,).
        title: Above the picture.
    """
    import numpy as np

    classes, counts = np.unique(np.asarray(labels), return_counts=True)
    if len(classes) > MOST_CLASSES:
        order = np.argsort(-counts)[:MOST_CLASSES]
        title = f"{title} (the {MOST_CLASSES} largest of {len(classes)})"
        classes, counts = classes[order], counts[order]
    figure = _figure(2.8, title)
    least, most = int(counts.min()), int(counts.max())
    figure.set_label(f"Rows per class, from {least:,} to {most:,}: {_pairs(classes, counts)}.")
    axes = _axes(figure.subplots())
    bars = axes.bar([str(name) for name in classes], counts, color=BLUE, width=0.72)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], fontsize=9, color=DARK, padding=2)
    axes.set_ylim(0, 1.15 * most)
    axes.set_xlabel("class")
    axes.grid(visible=False, axis="x")
    return figure


def curves(history: Sequence[Mapping[str, Any]], *, title: str = "Learning curves") -> Any:
    """Loss and metric by epoch, on the training rows and on the rows held back.

    Args:
        history: One entry per epoch, as in the run's record.
        title: Above the picture.

    Raises:
        UsageError: No epoch yet.
    """
    if not history:
        raise UsageError("There is no finished epoch to draw.", hint="Train first, then draw the curves.")
    skip = ("epoch", "seconds", "learning_rate")
    names = [name for name in history[0] if name not in skip and not name.startswith("val_")][:2]
    figure = _figure(3.3, title)
    epochs = [entry["epoch"] for entry in history]
    said = []
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        _axes(axes)
        for key, label, colour in ((name, "train", GREY), (f"val_{name}", "dev", BLUE)):
            values = [_number(entry.get(key)) for entry in history]
            if all(value != value for value in values):
                continue
            axes.plot(epochs, values, color=colour, label=label, linewidth=2, marker="o", markersize=4)
            said.append(f"{label} {name} {values[-1]:.4f}")
        axes.set_title(name, fontsize=11, color=DARK, loc="left")
        axes.set_xlabel("epoch")
        if len(epochs) <= 10:
            axes.set_xticks(epochs)
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlim(min(epochs) - 0.5, max(epochs) + 0.5)
    lines, names = axes.get_legend_handles_labels()
    figure.legend(lines, names, frameon=False, fontsize=10, labelcolor=DARK, loc="upper right", ncols=2)
    figure.set_label(f"Curves over {plural(len(epochs), 'epoch')}; at the end: {', '.join(said)}.")
    _below(figure, "train: during the epoch, with any dropout; dev: after it, without. So dev may look better.")
    return figure


def confusion(truth: Any, predicted: Any, *, title: str = "Confusion matrix: rows held back") -> Any:
    """How often each class was taken for each other one.

    Args:
        truth: True classes, (rows,).
        predicted: Predicted classes, (rows,).
        title: Above the picture.
    """
    import numpy as np

    truth, predicted = np.asarray(truth), np.asarray(predicted)
    classes = np.unique(np.concatenate([truth, predicted]))
    size = len(classes)
    counts = np.zeros((size, size), int)
    np.add.at(counts, (np.searchsorted(classes, truth), np.searchsorted(classes, predicted)), 1)
    wrong = counts - np.diag(np.diag(counts))
    figure = _figure(5.2 if size <= MOST_CLASSES else 6.0, title, width=6.4)
    worst = np.unravel_index(wrong.argmax(), wrong.shape)
    most = (
        f" Most often {classes[worst[0]]} was taken for {classes[worst[1]]}: {plural(int(wrong.max()), 'time')}."
        if wrong.any()
        else ""
    )
    figure.set_label(f"{int(wrong.sum()):,} of {len(truth):,} rows are wrong.{most}")
    axes = figure.subplots()
    # Errors alone are coloured: beside the many right ones on the diagonal they would not be seen.
    axes.imshow(np.where(np.eye(size), 0.5, np.nan), cmap="Greys", vmin=0, vmax=6)
    axes.imshow(np.where(wrong > 0, wrong, np.nan), cmap=_errors(), vmin=0, vmax=max(4, wrong.max()))
    if size <= MOST_CLASSES:
        for row, column in np.argwhere(counts > 0):
            right, dark = row == column, wrong[row, column] > 0.6 * max(4, wrong.max())
            colour = "#6b7580" if right else "white" if dark else DARK
            axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", fontsize=10, color=colour)
    ticks = range(size) if size <= MOST_CLASSES else range(0, size, -(-size // MOST_CLASSES))
    axes.set_xticks(list(ticks), [str(classes[tick]) for tick in ticks])
    axes.set_yticks(list(ticks), [str(classes[tick]) for tick in ticks])
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.tick_params(length=0, colors=DARK)
    axes.spines[:].set_color(PALE)
    return figure


def mistakes(
    pictures: Any, truth: Any, predicted: Any, certainty: Any, *, most: int = 18, title: str = "Worst mistakes"
) -> Any:
    """The wrong answers that were given with the greatest certainty.

    Args:
        pictures: (rows, height, width), grey levels.
        truth: True classes, (rows,).
        predicted: Predicted classes, (rows,).
        certainty: Probability of the predicted class, (rows,).
        most: Largest number of pictures.
        title: Above the picture.
    """
    import numpy as np

    truth, predicted, certainty = (np.asarray(values) for values in (truth, predicted, certainty))
    wrong = np.flatnonzero(truth != predicted)
    worst = wrong[np.argsort(-certainty[wrong], kind="stable")][:most]
    columns = 6
    lines = max(1, -(-len(worst) // columns))
    title = f"{title}: {len(worst)} of {len(wrong)}"
    if not len(worst):
        return _empty(title, "No mistake on these rows.")
    figure = _figure(1.75 * lines + 0.7, title)
    said = [f"{truth[row]} taken for {predicted[row]} ({certainty[row]:.0%})" for row in worst]
    figure.set_label(f"The {len(worst)} most certain of {len(wrong)} mistakes: {', '.join(said)}.")
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes in grid:
        axes.set_axis_off()
    for axes, row in zip(grid, worst, strict=False):
        _picture(axes, pictures[row])
        axes.set_title(f"{truth[row]} taken for {predicted[row]}\n{certainty[row]:.0%} sure", fontsize=9.5, color=DARK)
    return figure


def amounts(answers: Any, *, title: str = "Answers of the training rows") -> Any:
    """How the answers lie: a histogram for each column, and its logarithm where the tail is long.

    Args:
        answers: A table of pandas with the columns to predict.
        title: Above the picture.
    """
    import numpy as np

    names = list(answers.columns)[:MOST_COLUMNS]
    panels: list[tuple[str, Any]] = []
    for name in names:
        values = answers[name].to_numpy(dtype=float)
        panels.append((str(name), values))
        if len(names) == 1 and values.min() >= 0 and values.max() > 20 * max(1e-9, float(np.median(values))) / 4:
            panels.append((f"log(1 + {name})", np.log1p(values)))
    figure, said = _panels(title, panels, lambda axes, values: axes.hist(values, bins=40, color=BLUE)), []
    for name, values in panels:
        said.append(f"{name} from {values.min():g} to {values.max():g}, middle {np.median(values):g}")
    figure.set_label(f"Histograms of the answers: {'; '.join(said)}.")
    return figure


def columns(train: Any, test: Any, names: Sequence[str], *, title: str = "Columns: training and test rows") -> Any:
    """How the values of a table's columns lie, in the training and in the test rows; the same shape is good news.

    Args:
        train: Training table of pandas.
        test: Test table.
        names: Columns of both; the first of them are shown.
        title: Above the picture.
    """
    shown = list(names)[:MOST_COLUMNS]
    if len(names) > len(shown):
        title = f"{title} (the first {len(shown)} of {len(names):,})"
    if not shown:
        return _empty(title, "No column to learn from.")

    def draw(axes: Any, pair: Any) -> None:
        for column, colour, name in ((pair[0], BLUE, "train"), (pair[1], ORANGE, "test")):
            _share(axes, column, colour, name, pair)
        axes.set_ylabel("share of rows")

    figure = _panels(title, [(str(name), (train[name], test[name])) for name in shown], draw)
    lines, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, frameon=False, fontsize=10, labelcolor=DARK, loc="upper right", ncols=2)
    figure.set_label(f"Values of {_listed(shown)} in the training rows beside those in the test rows.")
    return figure


def predicted(truth: Any, guess: Any, *, title: str = "Predicted against true: rows held back") -> Any:
    """A point for each row held back; on the line is right.

    Args:
        truth: True amounts, (rows,) or (rows, targets).
        guess: Predicted ones, likewise.
        title: Above the picture.
    """
    import numpy as np

    truth, guess = (np.asarray(values, float).reshape(len(truth), -1) for values in (truth, guess))
    panels = [(f"column {place + 1}", (truth[:, place], guess[:, place])) for place in range(truth.shape[1])]
    if len(panels) == 1:
        panels = [("", panels[0][1])]

    def draw(axes: Any, pair: Any) -> None:
        true, said = (values[:MOST_POINTS] for values in pair)
        low, high = min(true.min(), said.min()), max(true.max(), said.max())
        axes.plot([low, high], [low, high], color=GREY, linewidth=1)
        axes.scatter(true, said, s=8, color=BLUE, alpha=0.35, linewidths=0)
        axes.set_xlabel("true")
        axes.set_ylabel("predicted")

    figure = _panels(title, panels[:MOST_COLUMNS], draw, height=3.6)
    error = float(np.median(np.abs(truth - guess)))
    figure.set_label(f"Predicted against true answers of {plural(len(truth), 'row')}; the middle error is {error:g}.")
    return figure


def _panels(title: str, panels: Sequence[tuple[str, Any]], draw: Any, *, height: float = 2.0) -> Any:
    across = min(4, len(panels)) if height < 3 else min(2, len(panels))
    lines = -(-len(panels) // across)
    figure = _figure(height * lines + 0.7, title)
    grid = figure.subplots(lines, across, squeeze=False).ravel()
    for axes, (name, values) in zip(grid, panels, strict=False):
        _axes(axes).set_title(name[:28], fontsize=9.5, color=DARK, loc="left")
        draw(axes, values)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    return figure


def _share(axes: Any, column: Any, colour: str, name: str, pair: Any) -> None:
    """A line of shares: by the value for text, by ranges for numbers."""
    import numpy as np
    import pandas as pd

    if pair[0].dtype.kind in "iufb" and pair[1].dtype.kind in "iufb":
        known = [
            values[np.isfinite(values)] for values in (each.to_numpy(dtype=float, na_value=np.nan) for each in pair)
        ]
        joined = np.concatenate(known)
        values = known[0] if column is pair[0] else known[1]
        if not len(joined) or not len(values):
            return
        low, high = (float(edge) for edge in np.quantile(joined, [0.005, 0.995]))
        edges = np.linspace(low, high, 31)
        if edges[0] == edges[-1]:
            edges = np.array([edges[0] - 0.5, edges[0] + 0.5])
        shares = np.histogram(values, edges)[0] / len(values)
        axes.stairs(shares, edges, color=colour, label=name, linewidth=1.5)
        return
    common = pd.concat(list(pair)).astype(str).value_counts().index[:8]
    shares = column.astype(str).value_counts(normalize=True).reindex(common, fill_value=0)
    places = np.arange(len(common)) + (0.2 if name == "test" else -0.2)
    axes.bar(places, shares.to_numpy(dtype=float), width=0.4, color=colour, label=name)
    axes.set_xticks(range(len(common)), [str(value)[:8] for value in common], fontsize=7, rotation=30)


def cv_lb(
    runs: Sequence[Mapping[str, Any]], *, title: str = "Held-back rows (CV) and leaderboard (LB)", most: int = 20
) -> Any:
    """CV and leaderboard scores of the newest runs, oldest left.

    Args:
        runs: Records, in any order; those without a CV score are left out.
        title: Above the picture.
        most: Largest number of runs.
    """
    scored = sorted((run for run in runs if run.get("cv")), key=lambda run: run["created"])[-most:]
    if not scored:
        return _empty(title, "No run has a CV score yet; stage.score in 02-train gives it one.")
    figure = _figure(3.2, title)
    axes = _axes(figure.subplots())
    places = list(range(1, len(scored) + 1))
    series = (
        ("CV", [_number(run["cv"]["score"]) for run in scored], BLUE, "o"),
        ("LB public", [_number((run.get("lb") or {}).get("public")) for run in scored], ORANGE, "s"),
        ("LB private", [_number((run.get("lb") or {}).get("private")) for run in scored], DARK, "o"),
    )
    said = []
    for label, values, colour, marker in series:
        if all(value != value for value in values):
            continue
        # Public and private score are often the same; the one shows through the other.
        style = {"markerfacecolor": "none", "markersize": 12} if label == "LB private" else {"markersize": 7}
        axes.plot(places, values, color=colour, marker=marker, linewidth=1.4, label=label, **style)
        said.append(f"{label} {values[-1]:.4f}" if values[-1] == values[-1] else f"{label} not known")
    figure.set_label(f"Scores of {plural(len(scored), 'run')}; the newest: {', '.join(said)}.")
    axes.set_xticks(
        places, [_moment(run["created"]) for run in scored], fontsize=8, rotation=30 if len(scored) > 8 else 0
    )
    axes.set_xlim(0.4, len(scored) + 0.6)
    axes.margins(y=0.25)
    axes.set_ylabel(scored[-1]["cv"]["metric"])
    axes.set_xlabel("run, by its start (UTC)")
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.legend(frameon=False, fontsize=10, labelcolor=DARK, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def png(figure: Any) -> bytes:
    """A figure as PNG, sharp on dense screens: two pixels for each of the page's."""
    import io

    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=160)
    return content.getvalue()


def _figure(height: float, title: str, *, width: float = WIDTH) -> Any:
    from matplotlib.figure import Figure

    # White on every page: a transparent picture with dark letters cannot be read on a dark one.
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    figure.suptitle(title, fontsize=13, fontweight="bold", color=DARK, x=0.02, ha="left")
    return figure


def _empty(title: str, text: str) -> Any:
    figure = _figure(1.2, title)
    figure.text(0.02, 0.3, text, color=DARK)
    figure.set_label(text)
    return figure


def _axes(axes: Any) -> Any:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=DARK, labelsize=9, length=3)
    axes.xaxis.label.set_color(DARK)
    axes.yaxis.label.set_color(DARK)
    axes.grid(visible=True, color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def _picture(axes: Any, picture: Any) -> None:
    axes.imshow(picture, cmap="gray_r", interpolation="nearest")


def _below(figure: Any, text: str) -> None:
    figure.supxlabel(text, fontsize=8.5, color="#6b7580", x=0.02, ha="left")


def _errors() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("errors", ["#fbe3d0", ORANGE, "#8c3b06"]).with_extremes(bad=(1, 1, 1, 0))


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _moment(created: str) -> str:
    return f"{created[5:10]}\n{created[11:16]}"


def _listed(names: Any) -> str:
    return ", ".join(str(name) for name in names)


def _pairs(names: Any, counts: Any) -> str:
    return ", ".join(f"{name}: {count:,}" for name, count in zip(names, counts, strict=True))
