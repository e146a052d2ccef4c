"""Explain a FastXML score: the linear decisions on the way down each tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail._matrices import find_sorted
from longtail._tree_paths import LEAST_SHARE, PathSums, add_to_ancestors
from longtail.fastxml.forest import LinearForest


def sum_linear_paths(
    forest: LinearForest, indices: NDArray[np.int32], values: NDArray[np.float32], label_id: int
) -> PathSums:
    """Walk one sparse row down all trees; what a decision adds is shared by the features as they take part in w·x + b.

    The part of b, and what no feature may claim where features cancel out, goes to the bias. Sums are by entry of the
    row, whose indices must increase.
    """
    stands_for = _linear_node_values(forest, label_id)
    sums = np.zeros(len(indices))
    score = 0.0
    for root in forest.tree_roots.tolist():
        node = root
        while (right := int(forest.right_child[node])) > 0:
            part = slice(int(forest.split_indptr[node]), int(forest.split_indptr[node + 1]))
            entries, found = find_sorted(indices, forest.split_features[part])
            parts = forest.split_weights[part][found] * values[entries]
            margin = float(parts.sum(dtype=np.float32)) + float(forest.biases[node])
            child = right if margin >= 0 else node + 1
            size = max(abs(margin), LEAST_SHARE * float(np.abs(parts).sum()))
            gain = stands_for[child] - stands_for[node]
            if size > 0:
                sums[entries] += parts * (np.sign(margin) * gain / size)
            node = child
        score += float(stands_for[node])
    n_trees = max(len(forest.tree_roots), 1)
    sums /= n_trees
    return PathSums(sums, score / n_trees - float(sums.sum()), score / n_trees)


def _linear_node_values(forest: LinearForest, label_id: int) -> NDArray[np.float64]:
    inner = np.flatnonzero(forest.right_child)
    parents = np.full(len(forest.right_child), -1, dtype=np.int64)
    parents[inner + 1] = parents[forest.right_child[inner]] = inner
    entries = np.flatnonzero(forest.leaf_labels == label_id)
    nodes = np.searchsorted(forest.leaf_indptr, entries, side="right") - 1
    return add_to_ancestors(nodes, forest.leaf_values[entries].astype(np.float64), parents)
