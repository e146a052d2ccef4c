"""Bits of the labels of each frequent feature: derived from the index when few rows are predicted, never saved."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from longtail import _core

Masks = tuple[NDArray[np.int32], NDArray[np.uint16]]

_FEW_ROWS = 256  # more are predicted in blocks of labels, which need no masks

# By model, and not an attribute of it: prediction leaves a model as it was. With the label ids that they belong to.
_made: WeakKeyDictionary[object, tuple[NDArray[np.int32], Masks]] = WeakKeyDictionary()


def label_masks(
    model: object, indptr: NDArray[np.int64], label_ids: NDArray[np.int32], n_labels: int, n_rows: int
) -> Masks | None:
    """Give the masks of a model's index where they help; made once. Two threads may both make them: the same."""
    if n_rows > _FEW_ROWS:
        return None
    made = _made.get(model)
    if made is None or made[0] is not label_ids:
        made = label_ids, _core.label_masks(indptr, label_ids, n_labels)
        _made[model] = made
    return made[1]
