"""How do the starts differ on the way, and which labels take long? Draws two figures of docs/dismec.md.

Trains a sample of labels with every start, by Newton steps over all rows as in the paper, and keeps the statistics:
the objective by iteration (above the best that any start reached, median over labels), and by the number of positives
the iterations and the rows that are active at the end. Needs matplotlib.

Example: python benchmarks/bench_dismec_figures.py --dataset eurlex --every 12
"""

from pathlib import Path

import numpy as np
from dismec_data import SETS, describe, load
from measure import emit, make_parser

import longtail as lt

STARTS = ("zero", "bias", "ovap", "ovap++", "msi")
COLOURS = dict(zip(STARTS, ("#7f7f7f", "#ff7f0e", "#1f77b4", "#2ca02c", "#d62728"), strict=True))
DOCS = Path(__file__).resolve().parent.parent / "docs"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--dataset", default="eurlex", choices=SETS)
    parser.add_argument("--every", type=int, default=12, help="train every n-th label only (default 12)")
    parser.add_argument("--solver", default="newton", choices=("auto", "newton"))
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the figures (default docs/)")
    options = parser.parse_args()
    X, Y = load(options.dataset, "train")
    Y = Y[:, :: options.every]
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    Y, counts = Y[:, counts > 0], counts[counts > 0]
    statistics = {}
    for start in STARTS:
        model = lt.DiSMEC(start=start, solver=options.solver, keep_statistics=True, n_jobs=1).fit(X, Y)
        statistics[start] = model.statistics_
        record = {"question": "course of training", "start": start, "solver": options.solver, "threads": 1}
        record |= describe(options.dataset, X, Y) | summary(model.statistics_)
        emit(record, "dismec_figures" if options.save else None)
    draw_objectives(statistics, options.out / "dismec-objectives.png")
    draw_labels(statistics, counts, options.out / "dismec-labels.png")


def summary(found) -> dict[str, float]:
    """Tell the means over labels that the figures show."""
    last = found["history_indptr"][1:] - 1
    return {
        "mean_iterations": float(found["iterations"].mean()),
        "mean_cg_steps": float(found["cg_steps"].mean()),
        "mean_active_rows_at_start": float(found["active_rows"][found["history_indptr"][:-1]].mean()),
        "mean_active_rows_at_end": float(found["active_rows"][last].mean()),
    }


def draw_objectives(statistics, path: Path) -> None:
    """Median over labels of the objective above the best known, relative to that of w = 0, by iteration."""
    plt = _pyplot()
    best = np.min([found["last_objective"] for found in statistics.values()], axis=0)
    zero = statistics["zero"]
    scale = zero["objectives"][zero["history_indptr"][:-1]] - best
    figure, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    for start, found in statistics.items():
        indptr = found["history_indptr"]
        longest = int(np.diff(indptr).max())
        # A label that is finished keeps its last value.
        steps = [np.minimum(indptr[:-1] + step, indptr[1:] - 1) for step in range(longest)]
        gaps = [np.median(np.maximum((found["objectives"][at] - best) / scale, 1e-7)) for at in steps]
        shown = next((n for n, gap in enumerate(gaps) if gap == gaps[-1]), longest) + 1
        style = "--" if start == "ovap++" else "-"  # it may lie on ovap
        axes.semilogy(range(shown), gaps[:shown], style, marker="o", markersize=3, label=start, color=COLOURS[start])
    axes.set(xlabel="Newton step", ylabel="objective above the best\n(share of that of w = 0)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def draw_labels(statistics, counts, path: Path) -> None:
    """Iterations, and active rows at the end, by the number of positives."""
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.4), layout="constrained")
    edges = np.unique(np.geomspace(1, counts.max() + 1, 12).astype(int))
    places = np.digitize(counts, edges) - 1
    for start in ("zero", "ovap", "msi"):
        found = statistics[start]
        filled = [bin_id for bin_id in range(len(edges)) if (places == bin_id).any()]
        at = [np.median(counts[places == bin_id]) for bin_id in filled]
        iterations = [found["iterations"][places == bin_id].mean() for bin_id in filled]
        left.semilogx(at, iterations, marker="o", markersize=3, label=start, color=COLOURS[start])
    left.set(xlabel="positives of the label", ylabel="Newton steps (mean)", ylim=(0, None))
    left.legend(frameon=False)
    found = statistics["msi"]
    active = found["active_rows"][found["history_indptr"][1:] - 1]
    right.loglog(counts, np.maximum(active, 1), ".", markersize=4, color=COLOURS["msi"])
    right.set(xlabel="positives of the label", ylabel="active rows at the end (msi)")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def _pyplot():
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


if __name__ == "__main__":
    main()
