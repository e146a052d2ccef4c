"""The embeddings of SLEEC: low rank, with given inner products for neighbours only."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from longtail import _core
from longtail.gbdt.projection import Dense

_ROWS_PER_BLOCK = 512


def neighbour_graph(Y: sp.csr_array, n_neighbours: int) -> sp.csr_array:
    """Return the cosines of each row's label vector and its nearest ones, symmetric; rows without labels have none."""
    lengths = np.sqrt(np.maximum(np.diff(Y.indptr), 1)).astype(np.float32)
    units = sp.csr_array((np.repeat(1 / lengths, np.diff(Y.indptr)), Y.indices, Y.indptr), shape=Y.shape)
    transposed = units.T.tocsr()
    n_rows = Y.shape[0]
    n_kept = min(n_neighbours, n_rows)
    rows, columns, values = [], [], []
    for begin in range(0, n_rows, _ROWS_PER_BLOCK):
        cosines = (units[begin : begin + _ROWS_PER_BLOCK] @ transposed).toarray()
        # Stable: which of several equally near rows is kept does not depend on the partition algorithm.
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :n_kept]
        rows.append(np.repeat(np.arange(begin, begin + len(best)), n_kept))
        columns.append(best.reshape(-1))
        values.append(np.take_along_axis(cosines, best, axis=1).reshape(-1))
    found = np.concatenate(values)
    kept = found > 0
    parts = (found[kept], (np.concatenate(rows)[kept], np.concatenate(columns)[kept]))
    graph = sp.csr_array(parts, shape=(n_rows, n_rows))
    return sp.csr_array(graph.maximum(graph.T))


def embed_graph(graph: sp.csr_array, n_components: int, n_iterations: int, seed: int, control: _core.Control) -> Dense:
    """Find Z of rank `n_components` with ZZᵀ ≈ graph at the entries of the graph, by singular value projection.

    Each iteration sets these entries of ZZᵀ right (a gradient step of length 1) and projects back to low rank, by one
    step of subspace iteration from the last basis.
    """
    n_rows, n_wanted = graph.shape[0], n_components
    n_components = min(n_components, n_rows)
    rows = np.repeat(np.arange(n_rows), np.diff(graph.indptr))
    basis, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n_rows, n_components), dtype=np.float32))
    Z = np.zeros((n_rows, n_components), dtype=np.float32)
    for _ in range(n_iterations):
        if control.cancelled:
            raise _core.Cancelled("stopped")
        missing = graph.copy()
        missing.data = graph.data - np.einsum("ij,ij->i", Z[rows], Z[graph.indices])

        def apply(S: Dense, Z: Dense = Z, missing: sp.csr_array = missing) -> Dense:
            return np.asarray(Z @ (Z.T @ S) + missing @ S, dtype=np.float32)

        basis, _ = np.linalg.qr(apply(basis))
        small = basis.T @ apply(basis)
        values, turned = np.linalg.eigh((small + small.T).astype(np.float64) / 2)
        Z = (basis @ (turned * np.sqrt(np.maximum(values, 0)))).astype(np.float32)
    return np.pad(Z, ((0, 0), (0, n_wanted - n_components)))
