"""Estimate how many of the labels that nobody was asked about were named all the same.

People judge proposals, and some of them add the labels that are missing. A label that was added is always a right one:
if nothing is concluded from labels that were not added, corrected labels become too probable.

Let every right label that was not judged be named with chance c. If all known labels had been judged, whatever they
are, the number of right ones among them would be the sum of their probabilities p. What is beyond that was added, and
its expected sum of 1 − p is c·Σ p·(1 − p) over the pairs of text and label that were not judged. A pair that stays
unknown was one of these with chance 1 − c·p, so c solves

    (right labels) − Σ_known p = c·Σ_unknown p·(1 − p) / (1 − c·p)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MAX_CANDIDATES = 100
_N_BISECTIONS = 30


def share_named(excess: float, noise: float, unknown: NDArray[np.float64]) -> float:
    """Return c in [0, 1], one standard error below the best guess: few texts conclude little.

    Parameters
    ----------
    excess : float, right labels minus the sum of the probabilities of all known labels
    noise : float, the sum of p·(1 − p) over the known labels
    unknown : float64 array, the probabilities of the pairs without an answer
    """
    sure = excess - float(np.sqrt(noise))
    inside = unknown[(unknown > 0) & (unknown < 1)]
    if sure <= 0 or len(inside) == 0:
        return 0.0
    spread = inside * (1 - inside)
    low, high = 0.0, 1.0
    if sure >= float(inside.sum()):  # the right side at c = 1
        return 1.0
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        is_less = middle * float((spread / (1 - middle * inside)).sum()) < sure
        low, high = (middle, high) if is_less else (low, middle)
    return low


def n_candidates(n_labels: int) -> int:
    """Return how many labels of a text to look at; the others are as good as impossible."""
    return min(_MAX_CANDIDATES, n_labels)


def known_and_unknown(
    label_ids: NDArray[np.int32], proba: NDArray[np.float32], right: list[set[int]], wrong: list[set[int]]
) -> tuple[float, float, NDArray[np.float64]]:
    """Return the arguments of `share_named` for the candidates of some texts and the labels known of each."""
    excess = noise = 0.0
    unknown: list[float] = []
    for ids, row, has, has_not in zip(label_ids.tolist(), proba.tolist(), right, wrong, strict=True):
        excess += len(has)
        for label_id, p in zip(ids, row, strict=True):
            if label_id in has or label_id in has_not:
                excess -= p
                noise += p * (1 - p)
            elif label_id >= 0:
                unknown.append(p)
    return excess, noise, np.array(unknown, dtype=np.float64)
