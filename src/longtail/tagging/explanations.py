"""Explanations: what each word of a text adds to the score of a label."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail._contributions import Contributions
from longtail._csr import csr_from_parts
from longtail._matrices import Matrix
from longtail.tagging.text_features import Spans
from longtail.tagging.vectorizer import TextVectorizer

# Depth of the ranking in which a label's score is looked up when the estimator offers no other way.
_SEARCH_TOP_K = 4096
# Each feature that is left out costs one prediction, of a row with all others.
_MAX_LEFT_OUT = 256
_MAX_ENTRIES = 1 << 18


class WordContribution(NamedTuple):
    """What one word (or n-gram) adds to the score, and where it occurs: (begin, end) in characters of the text."""

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
    words : list of WordContribution, largest absolute contribution first; words that add nothing are left out
    rest : float, the sum of the contributions that are not listed in `words` because of `max_words`
    """

    label: str
    score: float
    bias: float
    exact: bool
    words: list[WordContribution] = field(repr=False)
    rest: float = 0.0


def explain_text(
    estimator: XMCClassifier,
    vectorizer: TextVectorizer,
    text: str,
    label: str,
    label_id: int,
    *,
    max_words: int | None = None,
) -> Explanation:
    """Explain the score of one label of one text; list at most `max_words` words."""
    found = contributions_of(estimator, vectorizer.transform([text]), label_id)
    order = np.lexsort((found.feature_ids, -np.abs(found.values)))
    order = order[found.values[order] != 0]
    rest = 0.0 if max_words is None else float(found.values[order[max_words:]].sum(dtype=np.float64))
    order = order[:max_words]
    feature_ids = found.feature_ids[order].tolist()
    spans = vectorizer.locate(text, feature_ids)
    words = [
        WordContribution(name, value, spans[feature_id])
        for name, value, feature_id in zip(
            vectorizer.feature_names(feature_ids), found.values[order].tolist(), feature_ids, strict=True
        )
    ]
    return Explanation(label, found.score, found.bias, found.exact, words, rest)


def contributions_of(estimator: XMCClassifier, row: Matrix, label_id: int) -> Contributions:
    """Ask the estimator; if it offers no explanation, measure how the score changes without each feature."""
    fitted = estimator._whole()
    found = estimator._contributions(fitted, estimator._prepared(fitted.facts, row), label_id)
    return found if found is not None else _leave_each_out(estimator, sp.csr_array(row), label_id)


def _leave_each_out(estimator: XMCClassifier, row: sp.csr_array, label_id: int) -> Contributions:
    """Predict again without each of the features with the largest values; what the score loses is their share."""
    score, bias = _scores_of(estimator, sp.vstack([row, row * 0]), label_id).tolist()
    n_left_out = min(_MAX_LEFT_OUT, _MAX_ENTRIES // max(1, row.nnz) + 1)
    left_out = np.argsort(-np.abs(row.data), kind="stable")[:n_left_out]
    values = np.zeros(row.nnz)
    if len(left_out):
        values[left_out] = score - _scores_of(estimator, _rows_without(row, left_out), label_id)
    return Contributions(row.indices, values, bias, score, exact=False)


def _rows_without(row: sp.csr_array, left_out: NDArray[np.int64]) -> sp.csr_array:
    """Repeat a row; the i-th copy lacks the i-th of the given entries."""
    n_rows, n_kept = len(left_out), row.nnz - 1
    is_kept = np.ones((n_rows, row.nnz), dtype=bool)
    is_kept[np.arange(n_rows), left_out] = False
    indices = np.broadcast_to(row.indices, is_kept.shape)[is_kept].astype(np.int32)
    values = np.broadcast_to(row.data, is_kept.shape)[is_kept].astype(np.float32)
    indptr = np.arange(n_rows + 1, dtype=np.int64) * n_kept
    return csr_from_parts(values, indices, indptr, (n_rows, row.shape[1]))


def _scores_of(
    estimator: XMCClassifier, X: sp.csr_array, label_id: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the score of one label for each row; 0 where it is not among the first `_SEARCH_TOP_K` labels."""
    label_ids, scores = estimator.predict_top_k(X, min(estimator.n_labels_, _SEARCH_TOP_K), utility="score")
    found: NDArray[np.float64] = np.where(label_ids == label_id, scores, 0).sum(axis=1, dtype=np.float64)
    return found
