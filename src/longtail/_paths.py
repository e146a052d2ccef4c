"""What the decisions on the way down the trees add to a label's score.

A node stands for the mean of its two children, a leaf for its value; a decision adds what the chosen child stands for
above its parent. The means of all trees' roots and all decisions add up to the score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail._forest import Forest

# Where the parts of a sum cancel out, none may claim more than four times what the sum gives.
LEAST_SHARE = 0.25


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
    """Return what every node stands for."""
    n_nodes = len(forest.split_features)
    inner = np.flatnonzero(forest.split_features >= 0)
    tree_of = np.searchsorted(forest.tree_begin, inner, side="right") - 1
    left = forest.tree_begin[tree_of] + forest.left_children[inner]
    parents = np.full(n_nodes, -1, dtype=np.int64)
    parents[left] = parents[left + 1] = inner
    entries = np.flatnonzero(forest.leaf_label_ids == label_id)
    nodes = np.searchsorted(forest.leaf_begin, entries, side="right") - 1
    return _raised(nodes, forest.leaf_values[entries].astype(np.float64), parents)


def _raised(nodes: NDArray[np.int64], weights: NDArray[np.float64], parents: NDArray[np.int64]) -> NDArray[np.float64]:
    """Add the leaves' values to all nodes above them, halved at every step."""
    values = np.zeros(len(parents))
    while len(nodes):
        np.add.at(values, nodes, weights)
        nodes, weights = parents[nodes], weights / 2
        nodes, weights = nodes[nodes >= 0], weights[nodes >= 0]
    return values


class LinearForest(NamedTuple):
    """Trees whose nodes decide by a sparse w·x + b >= 0 (to the right), one after another; node ids count through all.

    The left child is the next node; a right child of 0 marks a leaf.
    """

    tree_roots: NDArray[np.int32]
    right_child: NDArray[np.int32]
    biases: NDArray[np.float32]
    split_indptr: NDArray[np.int64]
    split_features: NDArray[np.int32]
    split_weights: NDArray[np.float32]
    leaf_indptr: NDArray[np.int64]
    leaf_labels: NDArray[np.int32]
    leaf_values: NDArray[np.float32]


def sum_linear_paths(forest: LinearForest, row: NDArray[np.float32], label_id: int) -> PathSums:
    """Walk one dense row down all trees; what a decision adds is shared by the features as they take part in w·x + b.

    The part of b, and what no feature may claim where features cancel out, goes to the bias.
    """
    stands_for = _linear_node_values(forest, label_id)
    sums = np.zeros(len(row))
    score = 0.0
    for root in forest.tree_roots.tolist():
        node = root
        while (right := int(forest.right_child[node])) > 0:
            part = slice(int(forest.split_indptr[node]), int(forest.split_indptr[node + 1]))
            features = forest.split_features[part]
            parts = forest.split_weights[part] * row[features]
            margin = float(parts.sum(dtype=np.float32)) + float(forest.biases[node])
            child = right if margin >= 0 else node + 1
            size = max(abs(margin), LEAST_SHARE * float(np.abs(parts).sum()))
            gain = stands_for[child] - stands_for[node]
            if size > 0:
                sums[features] += parts * (np.sign(margin) * gain / size)
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
    return _raised(nodes, forest.leaf_values[entries].astype(np.float64), parents)
