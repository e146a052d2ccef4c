"""Results as plots: accuracy against time and model size, time against the number of labels."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.bench.results import Summary, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "longtail",  # the same results give the same file
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "legend.frameon": False,
}
_OURS, _PEERS = "#0b6e4f", "#8a8a8a"
_AGAINST = {"time": ("train_wall_seconds", "training, seconds"), "size": ("model_mb", "model, MB")}


def check_matplotlib() -> None:
    """Raise unless plots can be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("plots need matplotlib: pip install 'longtail[report]'")


def draw_plots(lines: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw what the lines allow as SVG files and return their paths; needs matplotlib."""
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    single = [row for row in summarise(lines) if row.failed is None and row.first["threads"] == 1]
    sets = list(dict.fromkeys(str(row.first["dataset"]) for row in single))
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with matplotlib.rc_context(STYLE):
        for dataset in sets:
            rows = [row for row in single if row.first["dataset"] == dataset]
            for name, (column, axis) in _AGAINST.items():
                figure = Figure(figsize=(6.4, 4.0), layout="constrained")
                _scatter(figure.add_subplot(), rows, column, axis)
                figure.suptitle(f"{dataset}, one thread", fontsize=11)
                paths.append(folder / f"{slug(dataset)}-{name}.svg")
                figure.savefig(paths[-1], metadata={"Date": None})
        if series := scale_series(single):
            figure = Figure(figsize=(6.4, 4.0), layout="constrained")
            _time_over_labels(figure.add_subplot(), series)
            figure.suptitle("synthetic data, one thread", fontsize=11)
            paths.append(folder / "time-labels.svg")
            figure.savefig(paths[-1], metadata={"Date": None})
    return paths


def scale_series(rows: list[Summary]) -> list[Summary]:
    """Pick the data sets that differ in the number of labels only: the synthetic ones, if there are several."""
    series = [row for row in rows if row.first["data"].get("synthetic")]
    return series if len({row.first["n_labels"] for row in series}) > 1 else []


def slug(name: str) -> str:
    """Turn a data set's name into a file's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _scatter(axes: Axes, rows: list[Summary], column: str, axis: str) -> None:
    """Draw a point for each system, and the names in a column on the right: names beside points would overlap."""
    points = [(row.median("P@1") or 0.0, max(row.median(column) or 0.0, 1e-3), row) for row in rows]
    points = sorted((point for point in points if point[2].first["system"] != "Popularity"), key=lambda point: point[0])
    if not points:
        return
    least, greatest = points[0][0] - 0.5, points[-1][0] + 0.5
    gap = (greatest - least) / max(12, len(points))
    heights = [y for y, _, _ in points]
    for place in range(1, len(heights)):  # upwards, as far as names need
        heights[place] = max(heights[place], heights[place - 1] + gap)
    for place in range(len(heights) - 1, -1, -1):  # and back below the top
        ceiling = greatest if place == len(heights) - 1 else heights[place + 1] - gap
        heights[place] = min(heights[place], ceiling)
    for (y, x, row), height in zip(points, heights, strict=True):
        colour = _OURS if row.first["ours"] else _PEERS
        axes.scatter([x], [y], color=colour, s=28, zorder=3)
        axes.annotate(
            row.first["title"],
            (x, y),
            (1.03, height),
            textcoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=8,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.3, "linewidth": 0.6},
        )
    axes.set_ylim(least, greatest)
    axes.set_xscale("log")
    _plain_ticks(axes.xaxis)
    axes.set_xlabel(axis)
    axes.set_ylabel("P@1, %")


def _plain_ticks(axis: Axis) -> None:
    """Put plain numbers at 1, 2 and 5 times the powers of ten of a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _time_over_labels(axes: Axes, rows: list[Summary]) -> None:
    for system in dict.fromkeys(str(row.first["system"]) for row in rows):
        mine = sorted(
            (row for row in rows if row.first["system"] == system), key=lambda row: int(row.first["n_labels"])
        )
        points = [(int(row.first["n_labels"]), row.median("train_wall_seconds") or 0.0) for row in mine]
        style = "-o" if mine[0].first["ours"] else "--o"
        axes.plot(
            [x for x, _ in points], [max(y, 1e-3) for _, y in points], style, markersize=4, label=mine[0].first["title"]
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    _plain_ticks(axes.xaxis)
    _plain_ticks(axes.yaxis)
    axes.set_xlabel("labels")
    axes.set_ylabel("training, seconds")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
