"""Sparse matrices in one form: CSR with sorted, distinct int32 indices. Imports scipy only to build one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

INT32_MAX = int(np.iinfo(np.int32).max)


class CsrParts(NamedTuple):
    """A sparse matrix with sorted, distinct indices."""

    n_rows: int
    n_cols: int
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[Any]

    @property
    def size(self) -> int:
        return len(self.indices)

    def rows(self, first: int, last: int) -> CsrParts:
        begin, end = self.indptr[first], self.indptr[last]
        indptr = self.indptr[first : last + 1] - begin
        return CsrParts(last - first, self.n_cols, indptr, self.indices[begin:end], self.values[begin:end])

    def keys(self) -> NDArray[np.int64]:
        """Number the entries by their place in the full matrix; increasing."""
        rows = np.repeat(np.arange(self.n_rows, dtype=np.int64), np.diff(self.indptr))
        return rows * self.n_cols + self.indices

    def nonzero(self) -> CsrParts:
        """Leave out stored zeros."""
        is_kept = self.values != 0
        if is_kept.all():
            return self
        kept_before = np.zeros(len(is_kept) + 1, dtype=np.int64)
        np.cumsum(is_kept, out=kept_before[1:])
        return self._replace(
            indptr=kept_before[self.indptr], indices=self.indices[is_kept], values=self.values[is_kept]
        )


def csr_parts(matrix: Any) -> CsrParts:
    """Read a sparse matrix; repeated entries are summed. Copies only what must change; the matrix itself stays."""
    csr = matrix.tocsr()
    check_indptr(csr)
    n_rows, n_cols = csr.shape
    if n_cols > INT32_MAX:
        raise ValueError(f"at most {INT32_MAX} columns are supported, got {n_cols}")
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    # The core checks int32 indices; wider ones must not wrap into its range.
    if csr.indices.dtype != np.int32 and csr.nnz and not 0 <= csr.indices.min() <= csr.indices.max() < n_cols:
        raise ValueError(f"column indices must be in 0 .. {n_cols - 1}; this matrix was not built by scipy")
    indptr, indices = csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int32, copy=False)
    return CsrParts(n_rows, n_cols, indptr, indices, csr.data)


def check_indptr(csr: Any) -> None:
    """Refuse row borders that would lead scipy's own kernels astray; ours check every index once more."""
    borders = csr.indptr
    n_entries = len(csr.indices)
    is_good = len(borders) == csr.shape[0] + 1 and borders[0] == 0 and borders[-1] == n_entries == len(csr.data)
    if not is_good or (np.diff(borders) < 0).any():
        raise ValueError("indptr must rise from 0 to the number of entries; this matrix was not built by scipy")


def csr_from_parts(
    values: NDArray[np.float32], indices: NDArray[np.int32], indptr: NDArray[Any], shape: tuple[int, int]
) -> Any:
    """Build a csr_array around the three parts as they are; scipy's constructor would change the index types."""
    from scipy.sparse import csr_array

    csr: Any = csr_array(shape, dtype=values.dtype)
    csr.data, csr.indices, csr.indptr = values, indices, indptr
    csr.has_canonical_format = True
    return csr


def csr_for_users(
    values: NDArray[np.float32], indices: NDArray[np.int32], indptr: NDArray[Any], shape: tuple[int, int]
) -> Any:
    """Build a csr_array that every method of scipy takes: its indptr has the type of the indices if the counts fit.

    With mixed types `tocoo` and `nonzero` fail. Wider indices would cost half of the memory again, so a matrix with
    more than 2³¹ entries keeps the mixed types.
    """
    if indptr[-1] <= INT32_MAX:
        indptr = indptr.astype(np.int32, copy=False)
    return csr_from_parts(values, indices, indptr, shape)


def take_lists(indptr: NDArray[np.int64], ids: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Select rows of a CSR pattern, in any order: their indptr, and the places of their entries."""
    sizes = indptr[ids + 1] - indptr[ids]
    taken = np.zeros(len(ids) + 1, dtype=np.int64)
    np.cumsum(sizes, out=taken[1:])
    return taken, np.repeat(indptr[ids] - taken[:-1], sizes) + np.arange(taken[-1])
