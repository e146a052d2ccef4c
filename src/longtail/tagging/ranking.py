"""Rank the labels that may be given to texts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail._matrices import Matrix
from longtail._topk import TopK
from longtail.tagging.state import TaggerState

# Rankings are made for as many rows at a time as keep them within this many entries.
_MAX_RANKED = 1 << 22


def rank_allowed(
    state: TaggerState, X: Matrix, top_k: int, include: Iterable[str] | None, banned: Iterable[str]
) -> TopK:
    """Rank the labels that may be given to rows of features."""
    ids = state.label_ids
    banned_ids = {ids[name] for name in banned if name in ids}
    n_labels = len(state.label_names)
    if include is None and not banned_ids:
        return state.estimator.predict_top_k(X, min(top_k, n_labels), utility="score")
    allowed = np.full(n_labels, include is None)
    if include is not None:
        allowed[state.ids_of("include", include)] = True
    allowed[list(banned_ids)] = False
    n_rows = X.shape[0]
    top_k = min(top_k, n_labels)
    result = TopK(np.full((n_rows, top_k), -1, np.int32), np.zeros((n_rows, top_k), np.float32))
    # Without `include`, this depth is enough; with it, the labels asked for may be far down.
    depth = min(n_labels, top_k + len(banned_ids) if include is None else max(4 * top_k, 64))
    rows: NDArray[np.int64] = np.arange(n_rows)
    while len(rows):
        step = max(1, _MAX_RANKED // depth)
        left = [
            _fill(state.estimator, X, rows[begin : begin + step], depth, allowed, result)
            for begin in range(0, len(rows), step)
        ]
        rows = np.concatenate(left)
        depth = min(n_labels, depth * 8)
    return result


def _fill(
    estimator: XMCClassifier,
    X: Matrix,
    rows: NDArray[np.int64],
    depth: int,
    allowed: NDArray[np.bool_],
    result: TopK,
) -> NDArray[np.int64]:
    """Put the allowed labels of a ranking into the result; return the rows that need a deeper one."""
    top_k = result.label_ids.shape[1]
    label_ids, scores = estimator.predict_top_k(X[rows], depth, utility="score")
    may = (label_ids >= 0) & allowed[np.maximum(label_ids, 0)]
    order = np.argsort(~may, axis=1, kind="stable")[:, :top_k]
    kept = np.take_along_axis(may, order, axis=1)
    n_kept = kept.shape[1]
    result.label_ids[rows, :n_kept] = np.where(kept, np.take_along_axis(label_ids, order, axis=1), -1)
    result.scores[rows, :n_kept] = np.where(kept, np.take_along_axis(scores, order, axis=1), 0)
    n_wanted = min(top_k, int(allowed.sum()))
    is_whole: NDArray[np.bool_] = (may.sum(axis=1) >= n_wanted) | (label_ids[:, -1] < 0) | (depth >= len(allowed))
    return rows[~is_whole]
