"""Figures of a paper, drawn as the paper draws them; needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.bench.plots import STYLE, check_matplotlib, slug
from longtail.reproduce.compare import Lines, compare_row, good_lines, value_of
from longtail.reproduce.paper import FROM_DATA, Block, Item, Paper, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#7f7f7f")
_BY_STEP = {  # what a panel over Newton steps shows, and whether its axis is logarithmic
    "objectives": ("objective", True),
    "active_rows": ("share of rows in the Hessian", False),
    "step_sizes": ("step multiplier", False),
    "step_seconds": ("duration of an iteration, s", True),
}
_BY_POSITIVES = {
    "iterations": ("Newton steps", False),
    "seconds": ("training of a label, s", True),
    "first_objective": ("loss of the start", True),
    "distance": ("distance from start to result", True),
}
MISSING_A = (0.15, 0.35, 0.55, 0.75)  # of figure 3 of the PfastreXML paper
_HISTOGRAMS = {"iterations histogram": "Newton steps", "seconds histogram": "training of a label, s"}


def draw_item(paper: Paper, item: Item, lines: Lines, folder: Path, data_folder: Path) -> list[Path]:
    """Draw a figure into the folder and return its path; nothing if no part of it was measured yet."""
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure as NewFigure

    blocks = [block for block in item.blocks if block.data is not None and not block.missing_files(data_folder)]
    if item.draw not in FROM_DATA:
        blocks = [block for block in blocks if _has_lines(item, block, lines)]
    if not item.draw or not blocks:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = NewFigure(layout="constrained")
        _DRAWINGS[item.draw](figure, item, blocks, lines, data_folder)
        figure.suptitle(f"{paper.key}, {item.name}: {item.caption}", fontsize=9)
        path = folder / f"{slug(f'{paper.key} {item.name}')}.svg"
        figure.savefig(path, metadata={"Date": None})
    return [path]


def _has_lines(item: Item, block: Block, lines: Lines) -> bool:
    return any(good_lines(item, block, row, lines) for row in block.rows)


def _first(item: Item, block: Block, row: Row, lines: Lines) -> dict[str, Any] | None:
    found = good_lines(item, block, row, lines)
    return found[0] if found else None


def _panels(figure: Figure, n_columns: int, n_rows: int = 1) -> Any:
    figure.set_size_inches(4.0 * n_columns, 3.2 * n_rows + 0.3)
    return figure.subplots(n_rows, n_columns, squeeze=False)


def _trees(figure: Figure, item: Item, blocks: list[Block], lines: Lines, _folder: Path) -> None:
    """P@5 against the number of trees: one panel per order, one line per data set."""
    found = {block.data_name: _first(item, block, block.rows[0], lines) for block in blocks}
    orders = ("random", "accuracy")
    for axes, order in zip(_panels(figure, 2)[0], orders, strict=True):
        for colour, (name, line) in zip(_COLOURS, found.items(), strict=False):
            points = [point for point in (line or {}).get("sweep", []) if point["order"] == order]
            values = [point[item.metrics[0]] for point in points]
            axes.plot([point["n_trees"] for point in points], values, "-o", markersize=3, label=name, color=colour)
        axes.set(title=f"{order} order", xlabel="trees", ylabel=f"{item.metrics[0]}, %")
        axes.legend(fontsize=7)


def _cost(figure: Figure, item: Item, blocks: list[Block], lines: Lines, _folder: Path) -> None:
    """P@1 against prediction time (top) and model size (bottom), one line per system."""
    grid = _panels(figure, len(blocks), 2)
    for column, block in enumerate(blocks):
        series = dict.fromkeys(row.series for row in block.rows)
        for row_id, metric, label in ((0, "predict_wall_seconds", "test set, s"), (1, "model_mb", "model, MB")):
            axes = grid[row_id][column]
            for colour, name in zip(_COLOURS, series, strict=False):
                found = [_first(item, block, row, lines) for row in block.rows if row.series == name]
                points = sorted((value_of(line, metric), value_of(line, "P@1")) for line in found if line is not None)
                axes.plot([x for x, _ in points], [y for _, y in points], "-o", markersize=3, label=name, color=colour)
            axes.set(xscale="log", xlabel=label, ylabel="P@1, %")
            axes.legend(fontsize=7)
        grid[0][column].set_title(block.data_name, fontsize=9)


def _label_counts(block: Block, folder: Path) -> tuple[np.ndarray, int]:
    from longtail import datasets

    assert block.data is not None
    _, Y = datasets.read(folder / block.data.train)
    return np.bincount(Y.indices, minlength=Y.shape[1]), int(Y.shape[0])


def _counts(figure: Figure, item: Item, blocks: list[Block], _lines: Lines, folder: Path) -> None:
    """The number of rows of each label, most frequent first."""
    for axes, block in zip(_panels(figure, len(blocks))[0], blocks, strict=True):
        counts = np.sort(_label_counts(block, folder)[0])[::-1]
        axes.plot(np.arange(1, len(counts) + 1), np.maximum(counts, 0.5), color=_COLOURS[1])
        axes.set(xscale="log", yscale="log", xlabel="label, by frequency", ylabel="rows", title=block.data_name)


def _propensities(figure: Figure, item: Item, blocks: list[Block], _lines: Lines, folder: Path) -> None:
    """Propensities of labels, and their weights beside two heuristics."""
    from longtail.propensity import PropensityModel

    grid = _panels(figure, 2, len(blocks))
    for (left, right), block in zip(grid, blocks, strict=True):
        counts, n_rows = _label_counts(block, folder)
        x = np.unique(counts[counts > 0])
        model = PropensityModel()
        p = model.from_counts(x, n_rows)
        left.plot(x, p, color=_COLOURS[1])
        left.set(xscale="log", xlabel="rows of the label", ylabel="propensity", title=block.data_name)
        curves = {"1/p": 1 / p, "(N_l + B)^-A": (x + model.b) ** -model.a, "log(N / N_l)": np.log(n_rows / x)}
        for colour, (name, values) in zip(_COLOURS, curves.items(), strict=False):
            right.plot(x, values / values[0], label=name, color=colour)
        right.set(xscale="log", xlabel="rows of the label", ylabel="weight (rarest label: 1)")
        right.legend(fontsize=7)


def _curves(figure: Figure, item: Item, blocks: list[Block], _lines: Lines, folder: Path) -> None:
    """Propensities with several A, each with the share of labels that go missing by it."""
    from longtail.propensity import PropensityModel

    for axes, block in zip(_panels(figure, len(blocks))[0], blocks, strict=True):
        counts, n_rows = _label_counts(block, folder)
        x = np.unique(counts[counts > 0])
        for colour, a in zip(_COLOURS, MISSING_A, strict=False):
            model = PropensityModel(a)
            missing = 1 - (model.from_counts(counts, n_rows) * counts).sum() / counts.sum()
            axes.plot(x, model.from_counts(x, n_rows), label=f"A = {a:g}: {100 * missing:.0f} % missing", color=colour)
        axes.set(xscale="log", xlabel="rows of the label", ylabel="propensity", title=block.data_name)
        axes.legend(fontsize=7)


def _incomplete(figure: Figure, item: Item, blocks: list[Block], lines: Lines, _folder: Path) -> None:
    """Gains of one ranking on incomplete truths, plain and divided by propensities, beside that on the complete one."""
    for axes, block in zip(_panels(figure, len(blocks))[0], blocks, strict=True):
        line = _first(item, block, block.rows[0], lines) or {}
        points = sorted(line.get("incomplete", []), key=lambda point: point["missing"])
        x = [point["missing"] for point in points]
        axes.plot(x, [point["complete"] for point in points], "--", label="complete truth", color=_COLOURS[2])
        for colour, name in zip(_COLOURS, ("scored", "plain"), strict=False):
            errors = [2 * point[f"{name}_error"] for point in points]
            axes.errorbar(
                x, [point[name] for point in points], errors, fmt="-o", markersize=3, label=name, color=colour
            )
        axes.set(xlabel="missing labels, %", ylabel="gain over three ranks, %", title=block.data_name)
        axes.legend(fontsize=7)


def _missing(figure: Figure, item: Item, blocks: list[Block], lines: Lines, _folder: Path) -> None:
    """nDCG@3 as bars: by the share of labels that went missing, or by the assumed propensities."""
    figure.set_size_inches(1.5 + 1.2 * sum(len(block.rows) for block in blocks), 3.4)
    axes: Axes = figure.subplots()
    names: list[str] = []
    for block in blocks:
        for row in block.rows:
            found = compare_row(item, block, row, lines)[0]
            if found.value is None or block.data is None:
                continue
            colour = _COLOURS[1] if row.declared.name.startswith("FastXML") else _COLOURS[0]
            axes.bar(len(names), found.value, 0.7, yerr=found.deviation, color=colour)
            names.append(f"{row.declared.title}\nmissing by A = {block.data.missing['a']:g}")
    axes.set_xticks(range(len(names)), names, fontsize=6)
    axes.set(ylabel=f"{item.metrics[0]}, %")
    axes.set_ylim(bottom=0.9 * min((bar.get_height() for bar in axes.patches), default=0))  # type: ignore[attr-defined]


def _tail(figure: Figure, item: Item, blocks: list[Block], lines: Lines, _folder: Path) -> None:
    """What labels of each frequency contribute to PSP@1 and PSP@5."""
    grid = _panels(figure, 2, len(blocks))
    for panels, block in zip(grid, blocks, strict=True):
        for axes, k in zip(panels, (1, 5), strict=True):
            for colour, row in zip(_COLOURS, block.rows, strict=False):
                line = _first(item, block, row, lines)
                points = (line or {}).get("contributions", [])
                values = [point[f"PSP@{k} part"] for point in points]
                places = [point["positives"] for point in points]
                axes.plot(places, values, "-o", markersize=3, label=row.declared.title, color=colour)
            axes.set(xscale="log", xlabel="training rows of the label", ylabel=f"part of PSP@{k}, points")
            axes.set_title(block.data_name, fontsize=9)
            axes.legend(fontsize=7)


def _course(figure: Figure, item: Item, blocks: list[Block], lines: Lines, _folder: Path) -> None:
    """Means and 5 to 95 % quantiles over labels, by Newton step or by the positives of a label, and histograms."""
    grid = _panels(figure, len(item.panels), len(blocks))
    for panels, block in zip(grid, blocks, strict=True):
        for axes, panel in zip(panels, item.panels, strict=True):
            for colour, row in zip(_COLOURS, block.rows, strict=False):
                line = _first(item, block, row, lines)
                if line is not None and panel in _measured(line["course"]):
                    _draw_course(axes, line["course"], panel, row.declared.title, colour)
            if panel in _HISTOGRAMS:
                axes.set(xlabel=_HISTOGRAMS[panel], ylabel="labels")
                if axes.patches:
                    axes.legend(fontsize=7)
                continue
            label, is_log = (_BY_STEP | _BY_POSITIVES)[panel]
            axes.set(xlabel="iteration" if panel in _BY_STEP else "positives of the label", ylabel=label)
            if panel in _BY_POSITIVES:
                axes.set_xscale("log")
            if is_log:
                axes.set_yscale("log")
            if axes.lines:
                axes.legend(fontsize=7)


def _measured(course: dict[str, Any]) -> set[str]:
    """Name the statistics that a course has: older results have fewer."""
    by_positives = {name for found in course["by_positives"] for name in found}
    return set(course["by_step"]) | by_positives | {f"{name} histogram" for name in course.get("histograms", ())}


def _draw_course(axes: Axes, course: dict[str, Any], panel: str, title: str, colour: str) -> None:
    if panel in _HISTOGRAMS:
        found = course["histograms"][panel.partition(" ")[0]]
        axes.stairs(found["counts"], found["edges"], fill=True, alpha=0.4, label=title, color=colour)
        return
    if panel in _BY_STEP:
        # Later iterations are about the few labels that need them: stop when fewer than one in twenty are left.
        counts = course["by_step"]["n_labels"]
        shown = [step for step, n_labels in enumerate(counts) if n_labels >= max(1, counts[0] // 20)]
        values = [course["by_step"][panel][step] for step in shown]
        places: list[float] = [float(step) for step in shown]
    else:
        values = [found[panel] for found in course["by_positives"]]
        places = [found["positives"] for found in course["by_positives"]]
    axes.plot(places, [value[0] for value in values], "-o", markersize=3, label=title, color=colour)
    axes.fill_between(places, [v[1] for v in values], [v[2] for v in values], color=colour, alpha=0.12, linewidth=0)


_Draw = Callable[["Figure", Item, list[Block], Lines, Path], None]
_DRAWINGS: dict[str, _Draw] = {
    "trees": _trees,
    "cost": _cost,
    "counts": _counts,
    "propensities": _propensities,
    "curves": _curves,
    "incomplete": _incomplete,
    "missing": _missing,
    "tail": _tail,
    "course": _course,
}
