"""CSR matrices as the readers return and the writers take them, and scaling to unit rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longtail import _core

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Csr: TypeAlias = "csr_array[np.float32, tuple[int, int]]"

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
    matrix: Any = csr_array(shape, dtype=np.float32)  # the constructor would copy, and change the index types
    matrix.indptr, matrix.indices, matrix.data = indptr, indices, values
    matrix.has_sorted_indices = True
    matrix.has_canonical_format = True
    typed: Csr = matrix
    return typed


def build_labels(shape: tuple[int, int], indptr: NDArray[Any], indices: NDArray[np.int32]) -> Csr:
    """Wrap a pattern: every entry is 1."""
    return build_csr(shape, indptr, indices, np.ones(len(indices), dtype=np.float32))


def checked_csr(owner: str, matrix: Any) -> Csr:
    """Bring any matrix a user may hold into the form of `build_csr`; what has it already is not copied."""
    from scipy.sparse import csr_array, issparse

    if not issparse(matrix):
        matrix = np.asarray(matrix)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{owner} must hold real numbers, got dtype {matrix.dtype}")
    if matrix.ndim != 2:
        raise ValueError(f"{owner} must have two dimensions, got {matrix.ndim}")
    if matrix.shape[1] > _INT32_MAX:
        raise ValueError(f"{owner}: at most {_INT32_MAX} columns are supported, got {matrix.shape[1]}")
    csr = csr_array(matrix)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused below
        values = csr.data.astype(np.float32, copy=False)
    indices = csr.indices.astype(np.int32, copy=False)
    _core.check_csr(csr.shape[1], csr.indptr.astype(np.int64, copy=False), indices, values, owner)
    return build_csr(csr.shape, csr.indptr, indices, values)


def checked_labels(matrix: Any, n_rows: int) -> Csr:
    """Take every entry of Y that is not 0 as a label."""
    Y = checked_csr("Y", matrix)
    if Y.shape[0] != n_rows:
        raise ValueError(f"X and Y must have the same number of rows, got {n_rows} and {Y.shape[0]}")
    return ones_where_nonzero(Y)


def ones_where_nonzero(Y: Csr) -> Csr:
    """Return the pattern of Y with stored zeros left out."""
    is_label = Y.data != 0
    if is_label.all():
        return build_labels(Y.shape, Y.indptr, Y.indices)
    n_labels_before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(is_label, dtype=np.int64)])
    return build_labels(Y.shape, n_labels_before[Y.indptr], Y.indices[is_label])


def unit_rows(X: Any) -> Any:
    """Scale every row to Euclidean length 1.

    Most linear and tree methods for tf-idf features gain points from it. Rows of zeros stay as they are.

    Parameters
    ----------
    X : sparse matrix or ndarray of shape (n_rows, n_features)

    Returns
    -------
    X : csr_array or ndarray, float32
        A new matrix; sparse stays sparse, and shares the indices.

    Examples
    --------
    >>> import numpy as np
    >>> import longtail as lt
    >>> lt.datasets.unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    if isinstance(X, np.ndarray):
        rows = np.ascontiguousarray(X, dtype=np.float32)
        indptr = np.arange(rows.shape[0] + 1, dtype=np.int64) * rows.shape[1]
        return _core.unit_rows(indptr, rows.reshape(-1)).reshape(rows.shape)
    csr = checked_csr("X", X)
    return build_csr(csr.shape, csr.indptr, csr.indices, _core.unit_rows(csr.indptr, csr.data))
