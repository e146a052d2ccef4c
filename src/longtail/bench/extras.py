"""Measurements that only some cells need: statistics of the trained model, numbers of trees, decisions, the tail.

A system asks for them by name (`System.extras`):

attributes : fitted attributes that are stored as they are, such as ``balance_``
sweep : ``{"orders": ["random"], "n_trees": [1, 5, 10]}``, predictions of FastXML with fewer trees
decisions : precision and recall of the binary decisions of all labels together
course : the course of DiSMEC's training, summed up over labels (needs ``keep_statistics``)
contributions : what labels of each training frequency contribute to PSP@1 and PSP@5
incomplete : ``{"a": [0.55], "draws": 50}``, gains of the ranking on draws of an incomplete truth
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail import metrics
from longtail.propensity import PropensityModel

NAMES = ("attributes", "sweep", "decisions", "course", "contributions", "incomplete")
_TAIL_EDGES = np.array([1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 400, 1000, 10_000, 100_000])
_QUANTILES = (0.05, 0.95)
_HISTORIES = ("objectives", "active_rows", "step_sizes", "step_seconds", "step_cg_steps")


def measure_extras(
    model: Any, extras: dict[str, Any], X_test: Any, Y_test: Any, answer: Path, top_k: int
) -> dict[str, Any]:
    """Return what the extras ask of a trained model; the rankings of a sweep are written as sweep-*.npy."""
    found: dict[str, Any] = {}
    if names := extras.get("attributes"):
        found["attributes"] = {name: _plain(getattr(model, name)) for name in names}
    if sweep := extras.get("sweep"):
        found["sweep"] = _sweep(model, sweep, X_test, answer, top_k)
    if extras.get("decisions"):
        found |= decision_scores(model.predict(X_test), Y_test)
    if extras.get("course"):
        found["course"] = training_course(model.statistics_, model.label_counts_, model.n_rows_)
    return found


def _sweep(model: Any, sweep: dict[str, Any], X: Any, answer: Path, top_k: int) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    for order in sweep["orders"]:
        model.set_params(tree_order=order)
        for n_trees in sweep["n_trees"]:
            begin = time.perf_counter()
            label_ids = model.predict_top_k(X, top_k, n_trees=n_trees).label_ids
            seconds = round(time.perf_counter() - begin, 4)
            np.save(answer / f"sweep-{len(points):03}.npy", label_ids)
            points.append({"order": order, "n_trees": n_trees, "predict_wall_seconds": seconds})
    return points


def decision_scores(decided: Any, Y: Any) -> dict[str, float]:
    """Return precision and recall of all yes/no decisions together (micro averages), in percent.

    These are the figures of table 4 of the DiSMEC++ paper: means over labels are far from them.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> decided, Y = sp.csr_array(np.array([[1, 1, 0], [1, 0, 0]])), sp.csr_array(np.array([[1, 0, 1], [0, 1, 0]]))
    >>> decision_scores(decided, Y)
    {'binary_precision': 33.333, 'binary_recall': 33.333}
    """
    table = metrics.decision_table(decided, Y)
    return {f"binary_{name}": round(table.micro(name), 3) for name in ("precision", "recall")}


def training_course(statistics: dict[str, Any], label_counts: NDArray[np.int64], n_rows: int) -> dict[str, Any]:
    """Sum up the statistics of DiSMEC: by Newton step, by the number of positives of a label, and as histograms."""
    indptr = statistics["history_indptr"]
    lengths = np.diff(indptr)
    steps: dict[str, list[Any]] = {"n_labels": []}
    histories = {name: np.asarray(statistics[name]) for name in _HISTORIES if name in statistics}
    histories["active_rows"] = histories["active_rows"] / n_rows
    for step in range(int(lengths.max(initial=0))):
        places = indptr[:-1][lengths > step] + step
        steps["n_labels"].append(len(places))
        for name, values in histories.items():
            steps.setdefault(name, []).append(_spread(values[places]))
    names = ("iterations", "cg_steps", "seconds", "first_objective", "distance")
    trained = label_counts > 0
    bins = []
    edges = np.unique(np.geomspace(1, label_counts.max(initial=1) + 1, 12).astype(int))
    for least, end in pairwise(edges):
        among = trained & (label_counts >= least) & (label_counts < end)
        if among.any():
            found = {name: _spread(np.asarray(statistics[name])[among]) for name in names if name in statistics}
            bins.append({"positives": float(np.median(label_counts[among])), "n_labels": int(among.sum()), **found})
    histograms = {name: _histogram(np.asarray(statistics[name])[trained]) for name in ("iterations", "seconds")}
    return {"by_step": steps, "by_positives": bins, "histograms": histograms}


def tail_contributions(
    label_ids: NDArray[np.int32], Y: Any, label_counts: NDArray[np.int64], propensity: NDArray[np.float64]
) -> list[dict[str, float]]:
    """Split PSP@1 and PSP@5 among labels of similar training frequency; the parts add up to the whole."""
    weights = 1 / propensity
    found: list[dict[str, float]] = []
    tables = {k: metrics.label_table(label_ids, Y, k=k) for k in (1, 5)}
    best = {k: _best_gain(Y, weights, k) for k in tables}
    places = np.digitize(label_counts, _TAIL_EDGES)
    for place in np.unique(places[label_counts > 0]):
        among = (places == place) & (label_counts > 0)
        point = {"positives": float(np.median(label_counts[among])), "n_labels": float(among.sum())}
        for k, table in tables.items():
            gain = float((table.n_hits * weights)[among].sum())
            point[f"PSP@{k} part"] = round(100 * gain / max(best[k], 1e-12), 4)
        found.append(point)
    return found


def incomplete_gains(
    label_ids: NDArray[np.int32], Y: Any, label_counts: NDArray[np.int64], n_rows: int, a: list[float], draws: int
) -> list[dict[str, float]]:
    """Score a ranking on truths whose labels went missing by propensities with several A (PfastreXML, figure 3b).

    Gains are those of the paper's table 1, sums of y / log2(1 + rank) over three ranks that are not divided by the best
    possible one: "plain" with the labels that are left, "scored" with each divided by its propensity. The mean of the
    second over draws is the gain on the complete truth.
    """
    top = label_ids[:, :3]
    found = Y[np.arange(len(top))[:, None], np.maximum(top, 0)].toarray() * (top >= 0)
    discounts = 1 / np.log2(np.arange(2, 5))
    rng = np.random.default_rng(0)

    def gain(hits: NDArray[Any]) -> float:
        return float(100 * (hits @ discounts).mean() / discounts.sum())

    points = []
    for value in a:
        p = PropensityModel(value).from_counts(label_counts, n_rows)
        left = [found * (rng.random(top.shape) < p[top]) for _ in range(draws)]
        missing = 1 - float((p * label_counts).sum() / label_counts.sum())
        point = {"a": value, "missing": round(100 * missing, 1), "complete": round(gain(found), 3)}
        for name, gains in (
            ("plain", [gain(hits) for hits in left]),
            ("scored", [gain(hits / p[top]) for hits in left]),
        ):
            point |= {
                name: round(float(np.mean(gains)), 3),
                f"{name}_error": round(float(np.std(gains)) / draws**0.5, 3),
            }
        points.append(point)
    return points


def _best_gain(Y: Any, weights: NDArray[np.float64], k: int) -> float:
    """Sum the k largest weights of each row's labels: what a perfect ranking gains."""
    total = 0.0
    for first, last in zip(Y.indptr[:-1], Y.indptr[1:], strict=True):
        gains = np.sort(weights[Y.indices[first:last]])[::-1]
        total += float(gains[:k].sum())
    return total


def _histogram(values: NDArray[Any]) -> dict[str, list[float]]:
    """Count labels in bins of equal width; integers get a bin each, up to fifty."""
    if np.issubdtype(values.dtype, np.integer):
        last = int(values.max(initial=1))
        edges = np.linspace(0.5, last + 0.5, min(last, 50) + 1)
    else:
        edges = np.linspace(0, float(values.max(initial=1e-9)), 51)
    counts = np.histogram(values, edges)[0]
    return {"edges": [float(f"{edge:.5g}") for edge in edges], "counts": counts.tolist()}


def _spread(values: NDArray[Any]) -> list[float]:
    """Return the mean and the 5 and 95 % quantiles."""
    return [float(f"{value:.5g}") for value in (values.mean(), *np.quantile(values, _QUANTILES))]


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()
