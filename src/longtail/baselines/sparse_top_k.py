"""The best labels of rows whose scores are a sparse matrix."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from longtail._topk import TopK


def top_k_of_sparse(scores: sp.csr_array, top_k: int) -> TopK:
    """Rank the stored scores of each row, best first, ties by lower label id."""
    n_rows = scores.shape[0]
    rows = np.repeat(np.arange(n_rows), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data, rows))
    ranks = np.arange(len(rows)) - np.repeat(scores.indptr[:-1], np.diff(scores.indptr))
    kept = ranks < top_k
    label_ids = np.full((n_rows, top_k), -1, dtype=np.int32)
    found = np.zeros((n_rows, top_k), dtype=np.float32)
    # Sorted by row first: the order keeps every row's entries together, so `rows` and `ranks` stay as they are.
    label_ids[rows[kept], ranks[kept]] = scores.indices[order][kept]
    found[rows[kept], ranks[kept]] = scores.data[order][kept]
    return TopK(label_ids, found)
