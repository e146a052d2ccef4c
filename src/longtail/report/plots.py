"""The plots of a report, as SVG that takes its colours and type from the page around it."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import matplotlib
import matplotlib.ticker
from matplotlib.figure import Figure

from longtail.report.findings import Findings
from longtail.report.labels import Bin
from longtail.report.reliability import Reliability
from longtail.report.tail import TailPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Drawn in these colours, which occur nowhere else, and then replaced by the page's own: so plots follow light, dark
# and print like the text does.
_INK, _GRID, _FIRST, _SECOND, _THIRD = "#010203", "#020304", "#030405", "#040506", "#050607"
_VARIABLES = {_INK: "--soft", _GRID: "--line", _FIRST: "--first", _SECOND: "--second", _THIRD: "--third"}
_SIZE = (5.2, 3.1)

_STYLE: Any = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.linewidth": 2,
}


def draw_all(findings: Findings) -> dict[str, str]:
    """Draw every plot that the findings allow: name -> SVG."""
    with matplotlib.rc_context(_STYLE):
        plots = {
            "labels_by_bin": _bars(findings.bins, [("n_labels", _FIRST, "labels")], "labels", log=True),
            "recall_by_bin": _bars(
                findings.bins,
                [
                    ("recall", _FIRST, f"found in the top {findings.top_k}"),
                    ("coverage", _SECOND, "found at least once"),
                ],
                "%",
            ),
            "gain_curves": _curves(findings, {"P": "precision", "PSP": "propensity-scored"}),
            "ndcg_curves": _curves(findings, {"nDCG": "nDCG", "PSnDCG": "propensity-scored"}),
            "coverage_curve": _curves(findings, {"coverage": "coverage", "recall": "recall"}),
        }
        if findings.reliability is not None:
            plots["reliability"] = _reliability(findings.reliability)
        if findings.utilities:
            plots["psp_price"] = _price(findings.utilities, "psp", f"PSP@{findings.top_k}, %", findings.top_k)
            plots["macro_price"] = _price(
                findings.utilities, "macro_f1", f"macro-F1@{findings.top_k}, %", findings.top_k
            )
    return plots


def _new(ylabel: str, xlabel: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    return figure, axes


def _bars(bins: list[Bin], series: list[tuple[str, str, str]], ylabel: str, *, log: bool = False) -> str:
    figure, axes = _new(ylabel, "training rows of a label")
    width = 0.8 / len(series)
    for i, (attribute, colour, name) in enumerate(series):
        places = [bin_id + (i - (len(series) - 1) / 2) * width for bin_id in range(len(bins))]
        axes.bar(places, [getattr(group, attribute) for group in bins], width * 0.92, color=colour, label=name)
    axes.set_xticks(range(len(bins)), [group.title for group in bins], rotation=45, ha="right")
    axes.grid(axis="x", visible=False)
    if log:
        axes.set_yscale("log")
        axes.minorticks_off()
        axes.set_ylim(bottom=0.8)
        axes.yaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    else:
        axes.set_ylim(0, 100)
    if len(series) > 1:
        axes.legend(loc="upper left", fontsize=9)
    return _svg(figure, series[0][0])


def _curves(findings: Findings, names: dict[str, str]) -> str:
    figure, axes = _new("%", "k")
    for (measure, name), colour in zip(names.items(), (_FIRST, _SECOND), strict=False):
        values = findings.curves.get(measure)
        if values:
            axes.plot(list(values), list(values.values()), color=colour, marker="o", markersize=4, label=name)
    axes.set_xticks(list(next(iter(findings.curves.values()))))
    axes.set_ylim(0, 100)
    axes.legend(fontsize=9)
    return _svg(figure, "-".join(names))


def _reliability(reliability: Reliability) -> str:
    figure, axes = _new("% true", "probability said, %")
    axes.plot([0, 100], [0, 100], color=_GRID, linestyle="--", linewidth=1.5)
    largest = max(reliability.counts)
    sizes = [20 + 180 * (n / largest) ** 0.5 for n in reliability.counts]
    axes.plot(reliability.mean_proba, reliability.share_true, color=_FIRST, linewidth=1.5)
    axes.scatter(reliability.mean_proba, reliability.share_true, s=sizes, color=_FIRST, zorder=3, clip_on=False)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    return _svg(figure, "reliability")


def _price(points: list[TailPoint], measure: str, ylabel: str, top_k: int) -> str:
    """Draw what rankings gain for rare labels against what they cost in precision."""
    figure, axes = _new(ylabel, f"P@{top_k}, %")
    curve = [point for point in points if point.is_on_curve]
    axes.plot(
        [p.precision for p in curve], [getattr(p, measure) for p in curve], color=_FIRST, marker="o", markersize=4
    )
    for point in points:
        at = point.precision, getattr(point, measure)
        if not point.is_on_curve:
            axes.plot(*at, color=_SECOND, marker="o", markersize=5, linestyle="none")
        axes.annotate(point.title, at, xytext=(4, 4), textcoords="offset points", fontsize=7)
    axes.margins(0.15)
    return _svg(figure, f"price-{measure}")


def _svg(figure: Figure, salt: str) -> str:
    """Write the figure as an SVG element to be put into HTML."""
    file = io.StringIO()
    # The salt makes ids differ between the plots of one page, and stay the same between runs.
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 var(--body)", svg)
    svg = re.sub(r'id="(figure_1|axes_1|patch_\d+|[a-zA-Z0-9.]+_\d+)"', "", svg)  # the same in every plot
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg.strip()
