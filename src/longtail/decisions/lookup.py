"""Find the values that labels have in a ranking."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail._topk import TopK


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
