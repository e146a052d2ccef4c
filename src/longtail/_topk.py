"""The result of every prediction: the best labels of each row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


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
    """One proposed label: its name, its score and, after calibration, its probability."""

    label: Any  # a str; an int where labels have no names
    score: float
    proba: float | None = None
