"""What the decisions on the way down the trees add to a label's score.

A node stands for the mean of its two children, a leaf for its value; a decision adds what the chosen child stands for
above its parent. The means of all trees' roots and all decisions add up to the score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail._forest import Forest


class PathSums(NamedTuple):
    """What decisions on each feature add, and the score before any decision."""

    by_feature: NDArray[np.float64]
    bias: float
    score: float


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
    """Return what every node stands for: each leaf's value goes up, halved at every step."""
    n_nodes = len(forest.split_features)
    inner = np.flatnonzero(forest.split_features >= 0)
    tree_of = np.searchsorted(forest.tree_begin, inner, side="right") - 1
    left = forest.tree_begin[tree_of] + forest.left_children[inner]
    parents = np.full(n_nodes, -1, dtype=np.int64)
    parents[left] = parents[left + 1] = inner
    entries = np.flatnonzero(forest.leaf_label_ids == label_id)
    nodes = np.searchsorted(forest.leaf_begin, entries, side="right") - 1
    weights = forest.leaf_values[entries].astype(np.float64)
    values = np.zeros(n_nodes)
    while len(nodes):
        np.add.at(values, nodes, weights)
        nodes, weights = parents[nodes], weights / 2
        nodes, weights = nodes[nodes >= 0], weights[nodes >= 0]
    return values
