"""Grow one randomised tree over features whose splits look at all labels of a node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail.execution import Shard
from longtail.gbdt.projection import Dense

Ids = NDArray[np.int64]
# Numbers in the largest arrays of a node: (rows or labels) times candidates.
_MAX_NUMBERS = 10_000_000


class Split(NamedTuple):
    """The best split of a node; rows with value <= threshold go left."""

    feature_id: int
    threshold: np.float32
    goes_left: NDArray[np.bool_]


def grow_random_tree(
    X: sp.csr_array,
    Y: sp.csr_array,
    row_ids: Ids,
    *,
    criterion: str,
    n_tried: int,
    n_thresholds: int,
    max_leaf_size: int,
    leaf_top_k: int,
    rng: np.random.Generator,
    control: _core.Control,
) -> Shard:
    """Grow a tree on the given rows, breadth first, in the arrays of `longtail.gbdt.forest`; add its mean depth."""
    gains = 1 / _ideal_dcg(np.diff(Y.indptr)) if criterion == "ndcg" else np.ones(Y.shape[0])
    features: list[int] = []
    thresholds: list[np.float32] = []
    children: list[int] = []
    leaves: list[tuple[Any, Any]] = []
    depth_sum = 0
    waiting = [(row_ids, 0)]
    for rows, depth in waiting:  # grows meanwhile
        if control.cancelled:
            raise _core.Cancelled("stopped")
        labels = _node_labels(Y, rows, gains)
        split = None
        if len(rows) > max_leaf_size and not _all_equal(labels):
            split = _best_split(X, rows, labels, criterion, n_tried, n_thresholds, rng)
        if split is None:
            features.append(-1)
            thresholds.append(np.float32(0))
            children.append(-1)
            leaves.append(_leaf(Y, rows, leaf_top_k))
            depth_sum += depth * len(rows)
            continue
        features.append(split.feature_id)
        thresholds.append(split.threshold)
        children.append(len(waiting))
        leaves.append((np.empty(0, np.int32), np.empty(0, np.float32)))
        waiting += [(rows[split.goes_left], depth + 1), (rows[~split.goes_left], depth + 1)]
    return {
        "split_features": np.array(features, dtype=np.int32),
        "thresholds": np.array(thresholds, dtype=np.float32),
        "left_children": np.array(children, dtype=np.int32),
        "leaf_begin": np.concatenate([[0], np.cumsum([len(ids) for ids, _ in leaves])]).astype(np.int64),
        "leaf_label_ids": np.concatenate([ids for ids, _ in leaves]).astype(np.int32),
        "leaf_values": np.concatenate([values for _, values in leaves]).astype(np.float32),
        "tree_depths": np.array([depth_sum / len(row_ids)]),
    }


def _best_split(
    X: sp.csr_array,
    rows: Ids,
    labels: sp.csr_array,
    criterion: str,
    n_tried: int,
    n_thresholds: int,
    rng: np.random.Generator,
) -> Split | None:
    """Score thresholds at quantiles of some features that occur in the node; None if nothing divides the rows."""
    places, owners = _entries(X.indptr, rows)
    entry_features = X.indices[places]
    present = np.unique(entry_features)
    tried = rng.choice(present, min(n_tried, len(present)), replace=False)
    per_block = max(1, _MAX_NUMBERS // (n_thresholds * max(len(rows), labels.shape[1])))
    best, best_score = None, -np.inf
    for begin in range(0, len(tried), per_block):
        chosen = np.sort(tried[begin : begin + per_block])
        columns = np.minimum(np.searchsorted(chosen, entry_features), len(chosen) - 1)
        used = chosen[columns] == entry_features
        values = np.zeros((len(rows), len(chosen)), dtype=np.float32)
        values[owners[used], columns[used]] = X.data[places[used]]
        which, thresholds = candidates(values, n_thresholds)
        goes_left = values[:, which] <= thresholds
        inside = goes_left.any(axis=0) & ~goes_left.all(axis=0)
        if not inside.any():
            continue
        which, thresholds, goes_left = which[inside], thresholds[inside], goes_left[:, inside]
        left = np.asarray(labels.T @ goes_left.astype(np.float32))
        right = np.asarray(labels.sum(axis=0)).reshape(-1, 1) - left
        score = SCORES[criterion](left) + SCORES[criterion](right)
        at = int(np.argmax(score))
        if score[at] > best_score:
            best_score = float(score[at])
            best = Split(int(chosen[which[at]]), thresholds[at], goes_left[:, at])
    return best


def candidates(values: Dense, n_thresholds: int) -> tuple[Ids, NDArray[np.float32]]:
    """Return columns and thresholds: just above distinct quantiles of each column, with rows on both sides."""
    order = np.sort(values, axis=0)
    n_rows = len(values)
    ranks = np.unique((np.arange(1, n_thresholds + 1) * n_rows) // (n_thresholds + 1))
    found = order[np.minimum(ranks, n_rows - 1)]
    # The least value always divides the rows unless all are equal: for a sparse column, zeros from the others.
    found = np.sort(np.vstack([order[:1], found]), axis=0)
    is_new = np.vstack([np.ones((1, values.shape[1]), dtype=bool), np.diff(found, axis=0) > 0]) & (found < order[-1])
    which, places = np.nonzero(is_new.T)
    below = found[places, which]
    above = order[(values[:, which] <= below).sum(axis=0), which]
    # Half-way to the next value: rounding of a row, as when rows are scaled, must not change its side.
    middle = below + (above - below) / 2
    return which, np.where(middle < above, middle, below)


def gini_score(sums: Dense) -> NDArray[np.float64]:
    """Return Σ c² / Σ c of label counts c per column: greatest where the Gini index times the count is least."""
    sums = np.maximum(sums, 0)
    totals = sums.sum(axis=0, dtype=np.float64)
    return np.asarray(np.square(sums, dtype=np.float64).sum(axis=0) / np.maximum(totals, 1e-12))


def ndcg_score(sums: Dense) -> NDArray[np.float64]:
    """Return the sum of nDCG over the rows of a side that ranks its labels by these sums, per column."""
    ranked = -np.sort(-np.maximum(sums, 0), axis=0)
    discounts = 1 / np.log2(2 + np.arange(len(ranked)))
    return np.asarray((ranked * discounts[:, None]).sum(axis=0, dtype=np.float64))


SCORES = {"gini": gini_score, "ndcg": ndcg_score}


def _ideal_dcg(n_labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return 1 / log2(2) + … + 1 / log2(n + 1) for each n; 1 for rows without labels."""
    sums = np.cumsum(1 / np.log2(2 + np.arange(max(1, int(n_labels.max(initial=0))))))
    return np.asarray(sums[np.maximum(n_labels, 1) - 1])


def _entries(indptr: Any, rows: Ids) -> tuple[Ids, Ids]:
    """Return the places of all entries of some rows of a CSR matrix, and for each the position of its row."""
    begins, counts = indptr[rows], indptr[rows + 1] - indptr[rows]
    owners = np.repeat(np.arange(len(rows)), counts)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    return begins[owners] + within, owners


def _node_labels(Y: sp.csr_array, rows: Ids, gains: NDArray[np.float64]) -> sp.csr_array:
    """Return the labels of a node's rows, without the columns of other labels, times the gain of their row."""
    places, owners = _entries(Y.indptr, rows)
    label_ids, columns = np.unique(Y.indices[places], return_inverse=True)
    indptr = np.searchsorted(owners, np.arange(len(rows) + 1))
    values = gains[rows][owners].astype(np.float32)
    return sp.csr_array((values, columns, indptr), shape=(len(rows), len(label_ids)))


def _all_equal(labels: sp.csr_array) -> bool:
    """Return whether all rows have the same labels: then every label is in every row."""
    return bool(labels.nnz == labels.shape[0] * labels.shape[1])


def _leaf(Y: sp.csr_array, rows: Ids, top_k: int) -> tuple[Any, Any]:
    """Return the most frequent labels of the rows, increasing, and their shares."""
    places, _ = _entries(Y.indptr, rows)
    label_ids, counts = np.unique(Y.indices[places], return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:top_k])
    return label_ids[kept], counts[kept] / len(rows)
