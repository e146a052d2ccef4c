"""Explanations of tree ensembles: the value of a node, and what a decision adds to a label's score.

A node is worth the mean of its two children, a leaf its value. A decision adds the difference between the chosen child
and its parent, so the roots' values plus all decisions add up to the score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Where terms cancel, a term may claim at most four times the sum.
LEAST_SHARE = 0.25


class PathSums(NamedTuple):
    """What decisions on each feature, or entry of a sparse row, add, and the score before any decision."""

    by_feature: NDArray[np.float64]
    bias: float
    score: float


def add_to_ancestors(
    nodes: NDArray[np.int64], weights: NDArray[np.float64], parents: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Add leaf values to every node above them, halved at each step up."""
    values = np.zeros(len(parents))
    while len(nodes):
        np.add.at(values, nodes, weights)
        nodes, weights = parents[nodes], weights / 2
        nodes, weights = nodes[nodes >= 0], weights[nodes >= 0]
    return values
