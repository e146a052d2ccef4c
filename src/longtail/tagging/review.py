"""Which texts without labels are worth an answer of a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from longtail.tagging.tagger import Tagger

_BLOCK = 1024
_DEPTH = 20


def review_values(tagger: Tagger, texts: Sequence[str], *, by: Literal["uncertain", "rare"]) -> NDArray[np.float64]:
    """Return how useful it is to know the labels of each text; only the order matters.

    "uncertain" is the sum of p·(1 - p) over the labels that may be right: how many of the proposals are open. "rare"
    counts each label by the inverse of its training rows, because one more row changes a rare label most.
    """
    weights = 1 / (1 + tagger.label_counts_.astype(np.float64)) if by == "rare" else None
    found = [_block_values(tagger, texts[i : i + _BLOCK], weights) for i in range(0, len(texts), _BLOCK)]
    return np.concatenate(found) if found else np.zeros(0)


def _block_values(tagger: Tagger, texts: Sequence[str], weights: Any) -> NDArray[np.float64]:
    label_ids, scores = tagger.predict_top_k(list(texts), min(_DEPTH, tagger.n_labels_), utility="score")
    calibration = tagger.calibration_
    if calibration is None:
        proba = 1 / (1 + np.exp(-np.clip(2 * scores.astype(np.float64), -50, 50)))
    else:
        proba = calibration.proba(label_ids, scores).astype(np.float64)
    open_ = np.where(label_ids >= 0, proba * (1 - proba), 0)
    if weights is not None:
        open_ = open_ * weights[np.maximum(label_ids, 0)]
    return np.asarray(open_.sum(axis=1))
