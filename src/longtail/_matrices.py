"""Bring X and y into the one form that the native core reads."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._csr import check_indptr, csr_from_parts, csr_parts

# sp.csr_array with float32 values, int32 indices, int64 indptr, sorted and distinct; or C-contiguous float32 array.
# Any for the type checker: scipy is not typed.
Matrix: TypeAlias = Any
# 1e14² · 1e10 rows is still a float32.
_MAX_MAGNITUDE = 1e14
_MAX_WEIGHT = 1e9  # its square times 1e10 rows is still a float32
# Row ids label by label: indptr (n_labels + 1,) and row ids.
Columns = tuple[NDArray[np.int64], NDArray[np.int32]]
YKind = Literal["classes", "dense", "sparse"]


@dataclass(frozen=True)
class Labels:
    """What was given as y: its pattern as CSR, and what it takes to answer in the same form."""

    Y: sp.csr_array
    kind: YKind
    dtype: np.dtype[Any]
    classes: NDArray[Any] | None = None

    def at(self, rows: NDArray[np.int64]) -> Labels:
        """Return the labels of some of the rows."""
        return replace(self, Y=some_rows(self.Y, rows))


def canonical_csr(X: Any) -> sp.csr_array:
    """Return float32 CSR with int64 indptr, int32 sorted distinct indices; copies only what must change."""
    parts = csr_parts(X if sp.issparse(X) else sp.csr_array(X))
    values = parts.values.astype(np.float32, copy=False)
    return csr_from_parts(values, parts.indices, parts.indptr, (parts.n_rows, parts.n_cols))


def some_rows(X: Matrix, row_ids: NDArray[np.int64]) -> Matrix:
    """Return some rows of a matrix that is in this form already, in the same form; nothing is checked again."""
    part = X[row_ids]
    if isinstance(part, np.ndarray):
        return part
    indptr, indices = part.indptr.astype(np.int64, copy=False), part.indices.astype(np.int32, copy=False)
    return csr_from_parts(part.data, indices, indptr, part.shape)


def without_stored_zeros(X: Any) -> Any:
    """Drop zeros that are stored in a sparse matrix, so that they do not change the order in which solvers work."""
    if not sp.issparse(X) or X.data.all():
        return X
    kept = X.copy()
    kept.eliminate_zeros()
    return canonical_csr(kept)


def copied_bytes(X: Matrix, given: Any) -> int:
    """Return the size of the parts of a matrix that are not those of the one it was made from."""
    own, others = _parts(X), _parts(given)
    return sum(part.nbytes for part in own if not any(np.may_share_memory(part, other) for other in others))


def _parts(X: Any) -> list[NDArray[Any]]:
    if isinstance(X, np.ndarray):
        return [X]
    return [getattr(X, name) for name in ("data", "indices", "indptr") if hasattr(X, name)] if sp.issparse(X) else []


def check_magnitude(owner: str, X: Any) -> None:
    """Refuse values whose squares, summed over rows, overflow float32: solvers would silently return zeros."""
    values = X.data if sp.issparse(X) else X
    largest = float(max(values.max(), values.min(), key=abs)) if values.size else 0.0
    if abs(largest) > _MAX_MAGNITUDE:
        raise ValueError(
            f"{owner}: X must hold values within ±{_MAX_MAGNITUDE:g}, got {largest:g}; scale the columns or the rows "
            "first (unit_rows comes after this check)"
        )


def native_rows(X: Matrix) -> _core.Rows:
    """Hand rows over to the native core. scipy narrows indptr when it slices; the core reads int64 everywhere."""
    if isinstance(X, np.ndarray):
        return _core.Rows(X)
    indptr, indices = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False)
    return _core.Rows(X.shape[1], indptr, indices, X.data)


def checked_weights(owner: str, sample_weight: Any, n_rows: int) -> NDArray[np.float32]:
    """Check weights of rows; one above 0 is needed."""
    weights = np.asarray(sample_weight)
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise ValueError(f"{owner}: sample_weight.shape must be ({n_rows},), one per row, got {weights.shape}")
    try:
        found = weights.astype(np.float32)
    except (TypeError, ValueError):
        raise TypeError(f"{owner}: sample_weight must hold numbers, got dtype {weights.dtype}") from None
    is_bad = ~(np.isfinite(found) & (found >= 0))
    if is_bad.any() or not found.any():
        row_id = int(np.argmax(is_bad))
        value = f"{found[row_id]:g} in row {row_id}" if is_bad.any() else "only zeros"
        raise ValueError(f"{owner}: sample_weight must be finite numbers >= 0, and not all zero, got {value}")
    if (largest := float(found.max())) > _MAX_WEIGHT:
        raise ValueError(
            f"{owner}: sample_weight must be at most {_MAX_WEIGHT:g}, got {largest:g}; divide all weights by a number"
        )
    return found


def with_unit_rows(X: Matrix) -> Matrix:
    """Scale every row to length one; empty rows stay empty."""
    if isinstance(X, np.ndarray):
        indptr = np.arange(X.shape[0] + 1, dtype=np.int64) * X.shape[1]
        return _core.unit_rows(indptr, X.reshape(-1)).reshape(X.shape)
    indptr = X.indptr.astype(np.int64, copy=False)
    return csr_from_parts(_core.unit_rows(indptr, X.data), X.indices, indptr, X.shape)


def checked_labels(owner: str, y: Any, n_rows: int) -> Labels:
    """Read y and prove that every index is in range: the one way from a user's labels to native code."""
    labels = _labels_from(owner, y, n_rows)
    _core.check_labels(labels.Y.shape[1], labels.Y.indptr, labels.Y.indices, "y")
    return labels


def _labels_from(owner: str, y: Any, n_rows: int) -> Labels:
    """Read y: 1-D classes, a dense 0/1 indicator or a sparse one."""
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None")
    if sp.issparse(y):
        labels = Labels(_indicator(owner, y), "sparse", np.dtype(y.dtype))
    else:
        labels = _dense_labels(owner, _array(owner, y))
    if labels.Y.shape[0] != n_rows:
        raise ValueError(
            f"{owner}: X and y must have the same number of rows, "
            f"got inconsistent numbers {n_rows} and {labels.Y.shape[0]}"
        )
    return labels


def _array(owner: str, y: Any) -> NDArray[Any]:
    try:
        return np.asarray(y)
    except ValueError:  # NumPy reports an inhomogeneous shape
        raise ValueError(
            f"{owner}: y must be 1-D classes or a 0/1 matrix, one column per label, got lists of different lengths; "
            "make a matrix of lists of labels with scikit-learn's MultiLabelBinarizer, or use Tagger"
        ) from None


def _dense_labels(owner: str, y: NDArray[Any]) -> Labels:
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils.multiclass import check_classification_targets, type_of_target

    if y.dtype.kind == "c":
        raise ValueError(f"{owner}: Complex data not supported in y")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"{owner}: Input y contains NaN or infinity")
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is read as one class per row; "
            "for a single label pass a sparse column",
            DataConversionWarning,
            stacklevel=4,
        )
        y = y.ravel()
    if y.ndim == 1:
        check_classification_targets(y)
        classes, class_ids = np.unique(y, return_inverse=True)
        indptr = np.arange(len(y) + 1, dtype=np.int64)
        ones = np.ones(len(y), dtype=np.float32)
        Y = csr_from_parts(ones, class_ids.astype(np.int32), indptr, (len(y), len(classes)))
        return Labels(Y, "classes", y.dtype, classes)
    if y.ndim == 2 and y.shape[1] == 0:
        raise ValueError(f"{owner}: y must have at least one column, one per label, got an array of shape {y.shape}")
    if y.ndim != 2 or type_of_target(y) != "multilabel-indicator":
        raise ValueError(
            f"{owner}: Unknown label type: y must be 1-D classes or a 0/1 indicator with one column per label, "
            f"got an array of shape {y.shape} with {type_of_target(y)} values"
        )
    return Labels(_indicator(owner, sp.csr_array(y)), "dense", y.dtype)


def _indicator(owner: str, y: Any) -> sp.csr_array:
    """Check that a sparse y holds only 0 and 1 and drop stored zeros."""
    given = sp.csr_array(y)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{owner}: y must hold numbers or booleans, got dtype {given.dtype}")
    if not np.isin(given.data, (0, 1)).all():
        wrong = given.data[~np.isin(given.data, (0, 1))][0]
        raise ValueError(f"{owner}: y must hold only 0 and 1, got {wrong}; pass (Y > 0) to use every entry as a label")
    if not given.data.all():
        check_indptr(given)
        given = given.copy()
        given.eliminate_zeros()
    Y = canonical_csr(given.astype(np.float32))
    if Y.nnz and Y.data.max() > 1:  # repeated entries were summed
        Y.data = np.ones_like(Y.data)
    return Y


def label_columns(Y: sp.csr_array) -> Columns:
    """Turn a label matrix into row ids label by label: indptr int64 (n_labels + 1,), row ids int32."""
    by_label = Y.tocsc()
    by_label.sort_indices()
    return by_label.indptr.astype(np.int64, copy=False), by_label.indices.astype(np.int32, copy=False)


def find_sorted(sorted_ids: NDArray[np.int32], ids: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where ids stand in an increasing list: places in the list, and the positions of the ids found there."""
    places = np.searchsorted(sorted_ids, ids)
    found = np.flatnonzero(places < len(sorted_ids))
    found = found[sorted_ids[places[found]] == ids[found]]
    return places[found], found


def with_columns(X: sp.csr_array, columns: NDArray[np.int32]) -> sp.csr_array:
    """Keep only these columns, which must increase; takes memory for the entries of X, not for its columns."""
    order, entries = find_sorted(columns, X.indices)
    is_kept = np.zeros(X.nnz + 1, dtype=np.int64)
    is_kept[entries + 1] = 1
    indptr = np.cumsum(is_kept)[X.indptr]
    return csr_from_parts(X.data[entries], order.astype(np.int32), indptr, (X.shape[0], len(columns)))


def with_fewer_columns(X: sp.csr_array, lists: list[NDArray[np.int32]]) -> tuple[sp.csr_array, list[NDArray[np.int32]]]:
    """Number the columns that X or one of the lists names from 0; return X and the lists with the new numbers."""
    named = np.unique(np.concatenate([X.indices, *lists]))
    indices, *renamed = (np.searchsorted(named, ids).astype(np.int32) for ids in (X.indices, *lists))
    return csr_from_parts(X.data, indices, X.indptr, (X.shape[0], len(named))), renamed
