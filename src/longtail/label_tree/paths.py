"""Explain a score: what each word adds on each edge of the path from the root to a label."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._contributions import Contributions
from longtail.label_tree.state import LabelForest


def path_contributions(
    forest: LabelForest, row: sp.csr_array, label_id: int, *, power: int, path_weight: float
) -> Contributions:
    """Divide the log-probability of a label among the words of one row.

    The log-probability is a sum over edges. That of an edge changes from its value at the bias to its value at the
    margin along a straight line of rows; each word gets its share of the margin times the mean slope (integrated
    gradients), so that bias and words add up. Several trees are mixed by their part of the mean probability.
    """
    forest.native.check_weights()
    values = np.zeros(row.nnz)
    found: list[tuple[float, NDArray[np.float64]]] = []  # log-probability, words
    for edge in np.flatnonzero(forest.child_ids == ~label_id).tolist():
        found.append(_one_path(forest, row, edge, power, path_weight))
    if not found:
        return Contributions(row.indices, values, -math.inf, -math.inf, exact=False)
    logs = np.array([log for log, _ in found])
    best = logs.max()
    shares = np.exp(logs - best)
    score = float(best + math.log(shares.sum() / len(forest.tree_roots)))
    shares /= shares.sum()
    for share, (_, words) in zip(shares, found, strict=True):
        values += share * words
    return Contributions(row.indices, values, score - float(values.sum()), score, exact=False)


def _one_path(
    forest: LabelForest, row: sp.csr_array, edge: int, power: int, path_weight: float
) -> tuple[float, NDArray[np.float64]]:
    total, words, weight = 0.0, np.zeros(row.nnz), 1.0
    while edge >= 0:
        node = int(np.searchsorted(forest.child_indptr, edge, side="right")) - 1
        parts = row.data * edge_weights(forest, node, edge - int(forest.child_indptr[node]), row.indices)
        bias = float(forest.biases[edge])
        change = float(parts.sum())
        before, after = _log_link(bias, power), _log_link(bias + change, power)
        total += weight * after
        if change != 0:
            words += parts * (weight * (after - before) / change)
        edge, weight = int(forest.parents[node]), path_weight
    return total, words


def edge_weights(forest: LabelForest, node: int, edge: int, feature_ids: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the weights of some features on one edge of a node."""
    first, last = int(forest.feature_indptr[node]), int(forest.feature_indptr[node + 1])
    own = forest.feature_ids[first:last]
    base, end = int(forest.entry_begins[node]), int(forest.entry_begins[node + 1])
    borders = np.append(forest.row_begins[first:last], end - base).astype(np.int64) + base
    out = np.zeros(len(feature_ids))
    places = np.searchsorted(own, feature_ids)
    for at, place in enumerate(places.tolist()):
        if place == len(own) or own[place] != feature_ids[at]:
            continue
        row = slice(int(borders[place]), int(borders[place + 1]))
        hits = np.flatnonzero(forest.edges[row] == edge)
        if len(hits):
            where = row.start + int(hits[0])
            scale = float(forest.scales[forest.child_indptr[node] + edge]) if forest.is_int8 else 1.0
            out[at] = scale * float((forest.codes if forest.is_int8 else forest.weights)[where])
    return out


def _log_link(margin: float, power: int) -> float:
    """Return the log-probability of an edge; the twin of Link::log_probability."""
    if power == 0:
        return -math.log1p(math.exp(-margin)) if margin > 0 else margin - math.log1p(math.exp(margin))
    return -(max(0.0, 1.0 - margin) ** power)
