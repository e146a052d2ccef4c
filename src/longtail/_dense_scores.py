"""Rankings as matrices over all labels: dense for scikit-learn's tools on small problems, sparse otherwise."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._csr import csr_for_users
from longtail._topk import TopK

NEEDS_CALIBRATION = "predict_proba needs a calibrated model; fit with calibrate=True or call calibrate(X, y) first"
# Larger dense arrays are refused: 400 MB.
_MAX_DENSE_SCORES = 100_000_000


def check_dense_size(owner: str, method: str, n_rows: int, n_labels: int, way_out: str) -> None:
    """Refuse a dense result that would fill the memory."""
    if n_rows * n_labels > _MAX_DENSE_SCORES:
        raise ValueError(
            f"{owner}: {method} is dense and limited to {_MAX_DENSE_SCORES:,} scores, got "
            f"{n_rows:,} rows times {n_labels:,} labels; {way_out}"
        )


def dense_scores(top: TopK, n_labels: int, *, fill: float) -> NDArray[np.float32]:
    """Put a ranking into a dense array; labels that are not ranked get `fill`."""
    label_ids, scores = top
    dense = np.full((len(label_ids), n_labels), fill, dtype=np.float32)
    row_ids, columns = np.nonzero(label_ids >= 0)
    dense[row_ids, label_ids[row_ids, columns]] = scores[row_ids, columns]
    return dense


def sparse_top(top: TopK, n_labels: int, top_k: int) -> sp.csr_array:
    """Put the `top_k` greatest values of each row of a ranking into a CSR matrix."""
    order = np.argsort(-np.where(top.label_ids >= 0, top.scores, -np.inf), axis=1, kind="stable")[:, :top_k]
    label_ids = np.take_along_axis(top.label_ids, order, axis=1)
    scores = np.take_along_axis(top.scores, order, axis=1)
    by_label = np.argsort(label_ids, axis=1, kind="stable")
    label_ids = np.take_along_axis(label_ids, by_label, axis=1)
    scores = np.take_along_axis(scores, by_label, axis=1)
    given = label_ids >= 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(given.sum(axis=1), dtype=np.int64)])
    return csr_for_users(scores[given], label_ids[given], indptr, (len(label_ids), n_labels))


def with_unit_sums(proba: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows so that they add up to 1; rows without any probability become uniform."""
    sums = proba.sum(axis=1, keepdims=True)
    return np.where(sums > 0, proba / np.where(sums > 0, sums, 1), np.float32(1 / proba.shape[1]))
