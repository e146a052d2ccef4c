"""CSR matrices as the readers return and the writers take them, and scaling to unit rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._csr import csr_for_users, csr_parts

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Csr: TypeAlias = "csr_array[np.float32, tuple[int, int]]"


def build_csr(
    shape: tuple[int, int], indptr: NDArray[Any], indices: NDArray[np.int32], values: NDArray[np.float32]
) -> Csr:
    """Wrap arrays that are known to be a sorted CSR matrix, without a copy of indices and values."""
    made: Csr = csr_for_users(values, indices, indptr, shape)
    return made


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
    try:
        parts = csr_parts(matrix if issparse(matrix) else csr_array(matrix))
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused below
        values = parts.values.astype(np.float32, copy=False)
    _core.check_csr(parts.n_cols, parts.indptr, parts.indices, values, owner)
    return build_csr((parts.n_rows, parts.n_cols), parts.indptr, parts.indices, values)


def checked_labels(matrix: Any, n_rows: int) -> Csr:
    """Take every entry of Y that is not 0 as a label."""
    Y = checked_csr("Y", matrix)
    if Y.shape[0] != n_rows:
        raise ValueError(f"X and Y must have the same number of rows, got {n_rows} and {Y.shape[0]}")
    return ones_where_nonzero(Y)


def ones_where_nonzero(Y: Csr) -> Csr:
    """Return the pattern of Y with stored zeros left out."""
    labels = csr_parts(Y).nonzero()
    return build_labels(Y.shape, labels.indptr, labels.indices)


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
    from longtail._matrices import with_unit_rows

    if isinstance(X, np.ndarray):
        return with_unit_rows(np.ascontiguousarray(X, dtype=np.float32))
    csr = checked_csr("X", X)
    return build_csr(csr.shape, csr.indptr, csr.indices, with_unit_rows(csr).data)
