"""Do calibrated probabilities mean what they say?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

if TYPE_CHECKING:
    from longtail.tagging import Tagger

_N_BINS = 10
_MAX_ROWS = 20_000
_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class Reliability:
    """Proposed labels grouped by their probability; a calibrated model is as often right as it says."""

    n_pairs: int
    ece: float  # mean distance between what is said and what is so, weighted by the number of labels, in percent
    mean_proba: list[float]  # of each non-empty bin, in percent
    share_true: list[float]
    counts: list[int]
    auto: AutoChoice | None


@dataclass(frozen=True)
class AutoChoice:
    """What ``threshold="auto"`` gives: how many labels, how good."""

    labels_per_row: float
    true_per_row: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Micro-averaged F1, in percent."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def examine_reliability(tagger: Tagger, texts: Sequence[str], Y: sp.csr_array, top_k: int) -> Reliability | None:
    """Compare probabilities with the truth over the `top_k` best labels of the first rows; None if uncalibrated."""
    texts = texts[:_MAX_ROWS]
    probe = tagger.tag(texts[:1], top_k=1)
    if not probe or not probe[0] or probe[0][0].proba is None:
        return None
    ids = {name: label_id for label_id, name in enumerate(tagger.label_names_)}
    truth = [set(Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()) for i in range(len(texts))]
    probas: list[float] = []
    is_true: list[bool] = []
    n_chosen = n_right = 0
    for first in range(0, len(texts), _BLOCK_ROWS):
        block = texts[first : first + _BLOCK_ROWS]
        for row, tags in enumerate(tagger.tag(block, top_k=top_k), first):
            probas += [tag.proba or 0.0 for tag in tags]
            is_true += [ids[tag.label] in truth[row] for tag in tags]
        for row, tags in enumerate(tagger.tag(block, top_k=top_k, threshold="auto"), first):
            n_chosen += len(tags)
            n_right += sum(ids[tag.label] in truth[row] for tag in tags)
    n_true = sum(map(len, truth))
    auto = AutoChoice(
        labels_per_row=n_chosen / len(texts),
        true_per_row=n_true / len(texts),
        precision=100 * n_right / n_chosen if n_chosen else 0.0,
        recall=100 * n_right / n_true if n_true else 0.0,
    )
    return _grouped(np.array(probas), np.array(is_true, dtype=bool), auto)


def _grouped(probas: NDArray[np.float64], is_true: NDArray[np.bool_], auto: AutoChoice | None) -> Reliability:
    bin_ids = np.minimum((probas * _N_BINS).astype(np.int64), _N_BINS - 1)
    counts = np.bincount(bin_ids, minlength=_N_BINS)
    used = counts > 0
    said = 100 * np.bincount(bin_ids, weights=probas, minlength=_N_BINS)[used] / counts[used]
    so = 100 * np.bincount(bin_ids, weights=is_true, minlength=_N_BINS)[used] / counts[used]
    ece = float((np.abs(said - so) * counts[used]).sum() / max(1, len(probas)))
    return Reliability(len(probas), ece, said.tolist(), so.tolist(), counts[used].tolist(), auto)
