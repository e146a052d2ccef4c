"""Bits of the labels of each frequent feature: derived from the index when few rows are predicted, never saved."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail.dismec.state import WeightIndex

Masks = tuple[NDArray[np.int32], NDArray[np.uint16]]

_FEW_ROWS = 256  # more are predicted in blocks of labels, which need no masks

# Kept by index, outside of it: prediction leaves a model as it was.
_made: WeakKeyDictionary[WeightIndex, Masks] = WeakKeyDictionary()


def label_masks(index: WeightIndex, n_labels: int, n_rows: int) -> Masks | None:
    """Return the masks of an index where they help. A race is harmless: both threads compute the same masks."""
    if n_rows > _FEW_ROWS:
        return None
    made = _made.get(index)
    if made is None:
        made = _made[index] = _core.label_masks(index.indptr, index.label_ids, n_labels)
    return made
