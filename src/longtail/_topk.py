"""The result of every prediction: the best labels of each row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# How deep rankings go where the caller sets no limit: they hold all but a few of the labels above any threshold.
DEEP_TOP_K = 100


class TopK(NamedTuple):
    """The best labels of each row, best first; ties are broken by lower label id.

    Attributes
    ----------
    label_ids : int32 array (n_rows, top_k), padded with -1
    scores : float32 array (n_rows, top_k), padded with 0
    """

    label_ids: NDArray[np.int32]
    scores: NDArray[np.float32]


class Tag(NamedTuple):
    """One proposed label: its name, its score and, after calibration, its probability.

    `utility` is what the labels are sorted by where that is neither the probability nor the score.
    """

    label: Any  # a str; an int where labels have no names
    score: float
    proba: float | None = None
    utility: float | None = None

    @property
    def unit_score(self) -> float:
        """A number in [0, 1] for programs that expect one: the probability, else the logistic function of the score."""
        if self.proba is not None:
            return min(max(self.proba, 0.0), 1.0)
        return 1 / (1 + math.exp(-self.score)) if self.score > -700 else 0.0


def tags_of(
    label_ids: NDArray[np.int32],
    scores: NDArray[np.float32],
    proba: NDArray[np.float32] | None,
    utility: NDArray[np.float32] | None,
    names: Sequence[Any],
) -> list[list[Tag]]:
    """Name the labels of each row; padding is left out."""
    nothing = [[None] * label_ids.shape[1]] * len(label_ids)
    values = [nothing if array is None else array.tolist() for array in (proba, utility)]
    return [
        [Tag(names[label_id], *found) for label_id, *found in zip(*row, strict=True) if label_id >= 0]
        for row in zip(label_ids.tolist(), scores.tolist(), *values, strict=True)
    ]


def values_of(label_ids: NDArray[np.int32], top: TopK) -> NDArray[np.float32]:
    """Return the values of labels (n_rows, k) in a ranking of the same rows; 0 for padding and where there is none."""
    n_rows, n_candidates = top.label_ids.shape
    if n_candidates == 0 or label_ids.size == 0:
        return np.zeros(label_ids.shape, dtype=np.float32)
    n_keys = max(int(top.label_ids.max()), int(label_ids.max())) + 2
    first_keys = np.arange(1, 1 + n_rows * n_keys, n_keys, dtype=np.int64)[:, None]
    order = np.argsort(top.label_ids, axis=1, kind="stable")
    keys = (first_keys + np.take_along_axis(top.label_ids, order, axis=1)).ravel()
    values = np.take_along_axis(top.scores, order, axis=1).ravel()
    asked = first_keys + label_ids
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where((keys[at] == asked) & (label_ids >= 0), values[at], np.float32(0)).astype(np.float32)
