"""Where to cut rankings whose loss only sees differences of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Training rows, and labels per row, that the cut is taken from.
CUT_ROWS, CUT_TOP_K = 2000, 50


def cut_score(scores: NDArray[np.float32], n_labels: int) -> float:
    """Return the score above which rows with these best scores get `n_labels` labels in all."""
    best = np.sort(scores.reshape(-1))[::-1]
    return float(best[min(n_labels, len(best) - 1)])
