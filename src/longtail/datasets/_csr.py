"""CSR matrices as the readers return them, and the few things one does with them before training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Csr: TypeAlias = "csr_array[np.float32]"

_INT32_MAX = np.iinfo(np.int32).max


def build_csr(
    shape: tuple[int, int], indptr: NDArray[Any], indices: NDArray[np.int32], values: NDArray[np.float32]
) -> Csr:
    """Wrap arrays that are known to be a sorted CSR matrix, without a copy of indices and values."""
    from scipy.sparse import csr_array

    # scipy wants indptr and indices of one type: with mixed ones some methods (tocoo, nonzero) fail. So indptr becomes
    # int32 too, unless there are too many entries; making indices int64 then would cost half of the memory again.
    if indptr[-1] <= _INT32_MAX:
        indptr = indptr.astype(np.int32, copy=False)
    matrix = csr_array(shape, dtype=np.float32)
    matrix.indptr, matrix.indices, matrix.data = indptr, indices, values
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    return matrix


def build_labels(shape: tuple[int, int], indptr: NDArray[Any], indices: NDArray[np.int32]) -> Csr:
    """Wrap a pattern: every entry is 1."""
    return build_csr(shape, indptr, indices, np.ones(len(indices), dtype=np.float32))
