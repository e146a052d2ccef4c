"""The result of every prediction: the best labels of each row."""

from __future__ import annotations

from collections.abc import Sequence
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


def tags_of(
    label_ids: NDArray[np.int32], scores: NDArray[np.float32], proba: NDArray[np.float32] | None, names: Sequence[Any]
) -> list[list[Tag]]:
    """Name the labels of each row; padding is left out."""
    chances = [[None] * label_ids.shape[1]] * len(label_ids) if proba is None else proba.tolist()
    return [
        [Tag(names[label_id], score, chance) for label_id, score, chance in zip(*row, strict=True) if label_id >= 0]
        for row in zip(label_ids.tolist(), scores.tolist(), chances, strict=True)
    ]
