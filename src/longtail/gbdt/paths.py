"""Explain a GBDTSparse score: the decisions on the way down each tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail._tree_paths import PathSums, add_to_ancestors
from longtail.gbdt.forest import Forest


def sum_paths(forest: Forest, row: NDArray[np.float32], label_id: int) -> PathSums:
    """Walk one dense row down all trees at once."""
    first = forest.tree_begin[:-1]
    stands_for = _node_values(forest, label_id)
    sums = np.zeros(len(row))
    nodes, tree_begins = first.copy(), first
    while len(nodes := nodes[(inner := forest.split_features[nodes] >= 0)]):
        tree_begins = tree_begins[inner]
        features = forest.split_features[nodes]
        goes_right = ~(row[features] <= forest.thresholds[nodes])
        children = tree_begins + forest.left_children[nodes] + goes_right
        np.add.at(sums, features, stands_for[children] - stands_for[nodes])
        nodes = children
    bias = float(stands_for[first].sum())
    return PathSums(sums, bias, bias + float(sums.sum()))


def _node_values(forest: Forest, label_id: int) -> NDArray[np.float64]:
    """Return what every node stands for."""
    n_nodes = len(forest.split_features)
    inner = np.flatnonzero(forest.split_features >= 0)
    tree_of = np.searchsorted(forest.tree_begin, inner, side="right") - 1
    left = forest.tree_begin[tree_of] + forest.left_children[inner]
    parents = np.full(n_nodes, -1, dtype=np.int64)
    parents[left] = parents[left + 1] = inner
    entries = np.flatnonzero(forest.leaf_label_ids == label_id)
    nodes = np.searchsorted(forest.leaf_begin, entries, side="right") - 1
    return add_to_ancestors(nodes, forest.leaf_values[entries].astype(np.float64), parents)
