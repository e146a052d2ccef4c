"""Look up the weights of one label for many features at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def places_of_label(
    indptr: NDArray[np.int64], label_ids: NDArray[np.int32], feature_ids: NDArray[np.integer[Any]], label_id: int
) -> NDArray[np.int64]:
    """Return where the index holds the label within each feature's entries; -1 where the feature has no such weight.

    One binary search over all features together: the number of steps grows with the logarithm of the longest list.
    """
    begin, end = indptr[feature_ids], indptr[feature_ids.astype(np.int64) + 1]
    low, high = begin.copy(), end.copy()
    while (is_open := low < high).any():
        middle = (low + high) // 2
        is_below = is_open.copy()
        is_below[is_open] = label_ids[middle[is_open]] < label_id
        low = np.where(is_below, middle + 1, low)
        high = np.where(is_open & ~is_below, middle, high)
    found = low < end
    found[found] = label_ids[low[found]] == label_id
    return np.where(found, low, np.int64(-1))
