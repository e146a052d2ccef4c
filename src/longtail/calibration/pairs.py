"""Pairs of held-out row and ranked label: what the surface and the thresholds are learnt from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._csr import csr_parts
from longtail._matrices import checked_labels
from longtail._topk import TopK

# A probability (or score) that no label reaches.
_NEVER = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Group:
    """The ranked pairs of the labels that share a threshold, best first, and how many positives these labels have."""

    scores: NDArray[np.float32]
    hits: NDArray[np.bool_]
    label_ids: NDArray[np.int32]
    n_positives: int

    def cuts(self) -> NDArray[np.int64]:
        """Return the lengths of the prefixes that end where the score changes; 0 is one of them."""
        ends = np.flatnonzero(np.diff(self.scores)) + 1
        return np.concatenate([[0], ends, [len(self.scores)]]) if len(self.scores) else np.zeros(1, np.int64)

    def score_at(self, n_given: int) -> float:
        """Return the threshold that gives the first `n_given` pairs: half way to the next score."""
        if n_given == 0:
            return _NEVER if not len(self.scores) else _above(float(self.scores[0]))
        if n_given == len(self.scores):
            return float(self.scores[-1])
        return (float(self.scores[n_given - 1]) + float(self.scores[n_given])) / 2


@dataclass(frozen=True)
class Pairs:
    """Every ranked pair of held-out row and label."""

    row_ids: NDArray[np.int64]
    ranks: NDArray[np.int64]
    label_ids: NDArray[np.int32]
    scores: NDArray[np.float32]
    hits: NDArray[np.bool_]
    positives: NDArray[np.int64]  # of each label, ranked or not
    n_rows: int

    @property
    def n_labels(self) -> int:
        return len(self.positives)

    @property
    def n_positives(self) -> int:
        return int(self.positives.sum())

    def where(self, chosen: NDArray[np.bool_]) -> Pairs:
        """Return some of the pairs."""
        return replace(
            self,
            row_ids=self.row_ids[chosen],
            ranks=self.ranks[chosen],
            label_ids=self.label_ids[chosen],
            scores=self.scores[chosen],
            hits=self.hits[chosen],
        )

    def by_map(self, map_of_label: NDArray[np.int32], n_maps: int) -> list[Group]:
        """Group the pairs by the threshold of their label, each part best first; scores are probabilities."""
        maps = map_of_label[self.label_ids]
        # The bits of floats from 0 on rise as the floats do: one sort by map and falling score.
        order = np.argsort((maps.astype(np.int64) << 32) - self.scores.view(np.int32))
        edges = np.concatenate([[0], np.cumsum(np.bincount(maps, minlength=n_maps))])
        n_positives = np.bincount(map_of_label, self.positives, n_maps).astype(np.int64)
        return [
            Group(self.scores[part], self.hits[part], self.label_ids[part], int(n_positives[map_id]))
            for map_id in range(n_maps)
            for part in [order[edges[map_id] : edges[map_id + 1]]]
        ]


def pairs_of(top: TopK, Y: Any) -> Pairs:
    """Collect the pairs of a ranking."""
    Y = sp.csr_array(Y)
    if Y.shape[0] != top.label_ids.shape[0]:
        raise ValueError(f"Calibration: got {top.label_ids.shape[0]} ranked rows but {Y.shape[0]} rows of labels")
    Y = checked_labels("Calibration", Y, Y.shape[0]).Y
    hits = find_hits(top.label_ids, Y)
    row_ids, ranks = np.nonzero(top.label_ids >= 0)
    positives = np.bincount(Y.indices[Y.data != 0], minlength=Y.shape[1]).astype(np.int64)
    return Pairs(
        row_ids=row_ids,
        ranks=ranks,
        label_ids=top.label_ids[row_ids, ranks],
        scores=top.scores[row_ids, ranks],
        hits=hits[row_ids, ranks],
        positives=positives,
        n_rows=Y.shape[0],
    )


def find_hits(label_ids: NDArray[np.int32], Y: Any) -> NDArray[np.bool_]:
    """Return which of the ranked labels (n_rows, top_k) are labels of their rows."""
    labels = csr_parts(Y if sp.issparse(Y) else sp.csr_array(Y)).nonzero()
    known = labels.keys()
    asked = np.arange(labels.n_rows, dtype=np.int64)[:, None] * labels.n_cols + label_ids
    if not len(known):
        return np.zeros(label_ids.shape, dtype=bool)
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    found: NDArray[np.bool_] = (known[at] == asked) & (label_ids >= 0)
    return found


def _above(score: float) -> float:
    return float(np.nextafter(np.float32(score), np.float32(np.inf)))
