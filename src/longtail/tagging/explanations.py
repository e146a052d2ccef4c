"""Why this label? What each word of a text adds to a label's score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail._contributions import Contributions
from longtail._matrices import Matrix, csr_from_parts
from longtail.tagging.vectorizer import Spans, TextVectorizer

# How deep a ranking is searched for a label whose estimator cannot tell its score otherwise.
_SEARCH_TOP_K = 4096


class WordContribution(NamedTuple):
    """What one word (or n-gram) adds to the score, and where it stands: (begin, end) in characters of the text."""

    word: str
    contribution: float
    spans: Spans


@dataclass(frozen=True)
class Explanation:
    """Why a label got its score.

    Attributes
    ----------
    label : str
    score : float
    bias : float, what the score would be without any word
    exact : bool, whether contributions are the terms of the score itself, not shares of it or estimates
    words : list of WordContribution, those that matter most first; words that do not matter are left out
    """

    label: str
    score: float
    bias: float
    exact: bool
    words: list[WordContribution] = field(repr=False)


def explain_text(
    estimator: XMCClassifier, vectorizer: TextVectorizer, text: str, label: str, label_id: int
) -> Explanation:
    """Explain the score of one label of one text."""
    row = vectorizer.transform([text])
    found = contributions_of(estimator, row, label_id)
    order = np.lexsort((found.feature_ids, -np.abs(found.values)))
    order = order[found.values[order] != 0]
    spans = vectorizer.locate(text, found.feature_ids[order].tolist())
    words = [
        WordContribution(vectorizer.feature_name(feature_id), value, spans[feature_id])
        for feature_id, value in zip(found.feature_ids[order].tolist(), found.values[order].tolist(), strict=True)
    ]
    return Explanation(label, found.score, found.bias, found.exact, words)


def contributions_of(estimator: XMCClassifier, row: Matrix, label_id: int) -> Contributions:
    """Ask the estimator; if it cannot tell, see how the score changes when each feature is left out."""
    fitted = estimator._whole()
    found = estimator._contributions(fitted, estimator._prepared(fitted.facts, row), label_id)
    return found if found is not None else _leave_each_out(estimator, sp.csr_array(row), label_id)


def _leave_each_out(estimator: XMCClassifier, row: sp.csr_array, label_id: int) -> Contributions:
    n_used = row.nnz
    score, bias = _scores_of(estimator, sp.vstack([row, row * 0]), label_id).tolist()
    if n_used == 0:
        return Contributions(row.indices, np.zeros(0), bias, score, exact=False)
    everything_but = ~np.eye(n_used, dtype=bool)
    indptr = np.arange(n_used + 1, dtype=np.int64) * (n_used - 1)
    indices = np.broadcast_to(row.indices, (n_used, n_used))[everything_but].astype(np.int32)
    values = np.broadcast_to(row.data, (n_used, n_used))[everything_but].astype(np.float32)
    without = _scores_of(estimator, csr_from_parts(values, indices, indptr, (n_used, row.shape[1])), label_id)
    return Contributions(row.indices, score - without, bias, score, exact=False)


def _scores_of(
    estimator: XMCClassifier, X: sp.csr_array, label_id: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the score of one label for each row; 0 where it is not among the best few thousand."""
    label_ids, scores = estimator.predict_top_k(X, min(estimator.n_labels_, _SEARCH_TOP_K))
    found: NDArray[np.float64] = np.where(label_ids == label_id, scores, 0).sum(axis=1, dtype=np.float64)
    return found
