"""What a fit will take, from a small fit of the same kind and the work that grows with rows, words and labels."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from longtail._estimate import Estimate
from longtail._matrices import canonical_csr
from longtail.label_tree.shapes import wide_beam

if TYPE_CHECKING:
    from longtail.label_tree.estimator import LabelTree

_MAX_PROBE_ENTRIES = 60_000  # label entries of the probe
# Most negatives of a wider beam are easy, and the solver soon leaves them alone.
_NEGATIVES_POWER = 0.7
_LEAF_ROW_BYTES = 80  # of a node's rows while it is trained: sixteen lanes of α, and bookkeeping


def probe(model: LabelTree, X: sp.csr_array, Y: sp.csr_array, n_jobs: int) -> Estimate:
    """Fit on some labels and their rows, and scale by the work: label entries times words times levels."""
    begin = time.perf_counter()
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    used = np.flatnonzero(counts)
    share = min(1.0, _MAX_PROBE_ENTRIES / max(1, Y.nnz))
    n_chosen = max(min(len(used), 2), round(share * len(used)))
    chosen = np.sort(np.random.default_rng(0).choice(used, n_chosen, replace=False))
    Y_part = sp.csr_array(Y[:, chosen])
    rows = np.flatnonzero(np.diff(Y_part.indptr))
    X_part, Y_part = canonical_csr(X[rows]), canonical_csr(Y_part[rows])
    cpu = time.process_time()
    fitted = model.with_threads(1).fit(X_part, Y_part)
    cpu = time.process_time() - cpu
    scale = _work(model, X, Y, len(used)) / _work(model, X_part, Y_part, len(chosen))
    arrays = fitted._fitted_arrays()
    part_bytes = sum(array.nbytes for array in arrays.values())
    model_bytes = int(part_bytes * len(used) / len(chosen))
    vectors = 8 * int(min(Y.nnz * (X.nnz / max(1, X.shape[0])), len(used) * X.shape[1]))
    # At the root every row is copied; shards and the model made of them are alive together.
    scratch = n_jobs * (12 * X.nnz + _LEAF_ROW_BYTES * X.shape[0] + 80 * X.shape[1])
    return Estimate(
        seconds=cpu * scale / n_jobs,
        cpu_seconds=cpu * scale,
        memory_bytes=2 * model_bytes + max(vectors, scratch) + 12 * Y.nnz,
        model_bytes=model_bytes,
        probe_seconds=time.perf_counter() - begin,
    )


def _work(model: LabelTree, X: sp.csr_array, Y: sp.csr_array, n_labels: int) -> float:
    words = float(X.nnz) / max(1, X.shape[0])
    depth = 1.0 + math.log(max(n_labels, 1) / 100 + 1, 64)
    work = float(max(1.0, Y.nnz * (words + 1.0) * depth))
    if model.leaves == "exact":
        n_leaves = max(1, n_labels // int(model.max_leaf_size))
        beam = min(n_leaves, wide_beam(n_leaves) if model.negative_beam is None else int(model.negative_beam))
        labels_per_row = float(Y.nnz) / max(1, X.shape[0])
        work *= (1.0 + beam / max(1.0, labels_per_row)) ** _NEGATIVES_POWER
    return work
