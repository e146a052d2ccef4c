"""Contributions of features to a label's score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Contributions(NamedTuple):
    """What each feature of a row adds to the score of one label.

    Attributes
    ----------
    feature_ids : int array (n_used,), features of the row, ascending
    values : float array (n_used,), what each adds; negative values speak against the label
    bias : float, the score without any feature
    score : float, the score of the label
    exact : bool, whether values are the terms of the score itself, not shares of it or estimates
    """

    feature_ids: NDArray[np.integer[Any]]
    values: NDArray[np.floating[Any]]
    bias: float
    score: float
    exact: bool
