"""Pairs of held-out row and ranked label: what the surface and the thresholds are learnt from."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._csr import csr_parts
from longtail._matrices import checked_labels
from longtail._topk import TopK

# A probability (or score) that no label reaches.
_NEVER = float(np.finfo(np.float32).max)
_SCORE_BITS = 0x7FFFFFFF


class Truth(NamedTuple):
    """Which of the ranked labels are right, and how many rows have each label, ranked or not."""

    is_hit: NDArray[np.bool_]  # (n_rows, top_k)
    positives: NDArray[np.int64]  # (n_labels,)


class Group(NamedTuple):
    """The ranked pairs of the labels that share a threshold, best first, and where the threshold may cut them.

    A cut is the length of a prefix: 0, or one that ends where the score changes, after a hit. No measure gains by
    misses: a prefix that ends with some is not better than the same one without them.
    """

    scores: NDArray[np.float32]
    cuts: NDArray[np.int64]
    hits_at: NDArray[np.int64]  # hits among the pairs before each cut
    n_positives: int  # of the labels of the group, ranked or not

    def score_at(self, n_given: int) -> float:
        """Return the threshold that gives the first `n_given` pairs: half way to the next score."""
        if n_given == 0:
            return _NEVER if not len(self.scores) else _above(float(self.scores[0]))
        if n_given == len(self.scores):
            return float(self.scores[-1])
        return (float(self.scores[n_given - 1]) + float(self.scores[n_given])) / 2


def truth_of(top: TopK, Y: Any) -> Truth:
    """Compare a ranking with the labels of its rows."""
    Y = sp.csr_array(Y)
    if Y.shape[0] != top.label_ids.shape[0]:
        raise ValueError(f"Calibration: got {top.label_ids.shape[0]} ranked rows but {Y.shape[0]} rows of labels")
    Y = checked_labels("Calibration", Y, Y.shape[0]).Y
    positives = np.bincount(Y.indices[Y.data != 0], minlength=Y.shape[1]).astype(np.int64)
    return Truth(find_hits(top.label_ids, Y), positives)


def groups_of(proba: TopK, truth: Truth, map_of_label: NDArray[np.int32], n_maps: int) -> list[Group]:
    """Group all ranked pairs by the threshold of their label."""
    is_label = proba.label_ids >= 0
    maps = map_of_label[proba.label_ids[is_label]]
    # The bits of floats from 0 on rise as the floats do: one sort by map and falling score, of numbers alone.
    bits = proba.scores[is_label].view(np.int32)
    keys = np.sort((((maps.astype(np.int64) << 31) - bits) << 1) + truth.is_hit[is_label])
    places = keys >> 1  # map and score
    scores = (-places & _SCORE_BITS).astype(np.int32).view(np.float32)
    ends = np.flatnonzero(np.append(places[1:] != places[:-1], True)) + 1
    hits_at = np.cumsum(keys & 1)[ends - 1] if len(keys) else np.zeros(0, np.int64)
    has_hit = np.diff(hits_at, prepend=0) > 0
    ends, hits_at = ends[has_hit], hits_at[has_hit]
    edges = np.concatenate([[0], np.cumsum(np.bincount(maps, minlength=n_maps))])
    borders = np.searchsorted(ends, edges, side="right")
    hits_before = np.concatenate([[0], hits_at])[borders].tolist()
    n_positives = np.bincount(map_of_label, truth.positives, n_maps).astype(np.int64).tolist()
    groups = []
    for number, (first, last) in enumerate(pairwise(edges.tolist())):
        part = slice(borders[number], borders[number + 1])
        cuts = np.concatenate([[0], ends[part] - first])
        found = np.concatenate([[0], hits_at[part] - hits_before[number]])
        groups.append(Group(scores[first:last], cuts, found, n_positives[number]))
    return groups


def find_hits(label_ids: NDArray[np.int32], Y: Any) -> NDArray[np.bool_]:
    """Return which of the ranked labels (n_rows, top_k) are labels of their rows."""
    labels = csr_parts(Y if sp.issparse(Y) else sp.csr_array(Y)).nonzero()
    found = _core.find_hits(np.ascontiguousarray(label_ids), labels.n_cols, labels.indptr, labels.indices)
    return found.view(np.bool_)


def _above(score: float) -> float:
    return float(np.nextafter(np.float32(score), np.float32(np.inf)))
