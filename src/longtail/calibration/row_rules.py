"""Rules learnt on held-out rows that decide for one row at a time how much a rare label counts.

A rule ranks labels by slope · probability + offset, with a slope and an offset per label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._cancel import current_control
from longtail._topk import TopK

Floats = NDArray[np.float64]

_N_STEPS = 6
_N_GROUPS = 20
# Rules for macro-F1 are learnt for so many labels per row.
RULE_KS = (1, 3, 5, 10)
# Rows that a label is taken to have in addition, behaving as labels of similar frequency do.
_PRIOR_ROWS = 1.0


def rule_for(top_k: int) -> int:
    """Return the place of the rule in `RULE_KS` that was learnt for the most similar number of labels per row."""
    return int(np.argmin(np.abs(np.log(RULE_KS) - np.log(top_k))))


def macro_f1_rules(
    proba: TopK, label_counts: NDArray[np.int64], n_training_rows: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Learn slopes and offsets (n_rules, n_labels) that maximise expected macro-F1, for each of `RULE_KS`."""
    found = [_macro_f1_rule(proba, label_counts, n_training_rows, top_k) for top_k in RULE_KS]
    return np.stack([slopes for slopes, _ in found]), np.stack([offsets for _, offsets in found])


def _macro_f1_rule(
    proba: TopK, label_counts: NDArray[np.int64], n_training_rows: int, top_k: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Learn slopes and offsets that maximise expected macro-F1 at `top_k` by Frank and Wolfe's method.

    Schultheis, Kotłowski, Wydmuch, Babbar, Borman, Dembczyński: Consistent algorithms for multi-label classification
    with macro-at-k metrics, ICLR 2024. With rates of hits, given and positives per row, F1 = 2·hits / (given +
    positives), and its derivatives are the slope and the offset. Rates of rare labels are drawn to those of labels of
    similar frequency, because held-out rows show them once or never.
    """
    n_rows, n_labels = len(proba.label_ids), len(label_counts)
    positives = np.maximum(label_counts, 0.5) / n_training_rows
    groups = np.empty(n_labels, dtype=np.int64)
    groups[np.argsort(positives, kind="stable")] = np.arange(n_labels) * _N_GROUPS // n_labels
    hits, given = np.zeros(n_labels), np.zeros(n_labels)
    slopes, offsets = _scaled(2 / positives, np.zeros(n_labels))
    for step in range(_N_STEPS):
        n_given, sum_proba = _core.sum_affine(*proba, slopes, offsets, top_k, current_control())
        share = 2 / (step + 2)
        hits += share * (sum_proba / n_rows - hits)
        given += share * (n_given / n_rows - given)
        smooth_hits = _shrunk(hits, positives, groups, n_rows)
        total = _shrunk(given, positives, groups, n_rows) + positives
        slopes, offsets = _scaled(2 / total, -2 * smooth_hits / total**2)
    return slopes, offsets


def _shrunk(rates: Floats, positives: Floats, groups: NDArray[np.int64], n_rows: int) -> Floats:
    """Draw rates per label to what labels of similar frequency have per positive."""
    per_positive = np.bincount(groups, rates, _N_GROUPS) / np.maximum(np.bincount(groups, positives, _N_GROUPS), 1e-300)
    found = (n_rows * rates + _PRIOR_ROWS * per_positive[groups]) / (n_rows * positives + _PRIOR_ROWS) * positives
    return np.asarray(found)


def _scaled(slopes: Floats, offsets: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    greatest = slopes.max()
    return (slopes / greatest).astype(np.float32), (offsets / greatest).astype(np.float32)
