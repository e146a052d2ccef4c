"""From what users have (TopK, arrays, sparse matrices) to the arrays that the native core counts on.

Sparse matrices are known by their ``tocsr``, so that this module does not import scipy.
"""

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail import _core
from longtail._csr import INT32_MAX, CsrParts, csr_parts

# A sparse score matrix is ranked block by block, so that one long row does not widen the array of all.
_MAX_RANKED_ENTRIES = 1 << 22


class HasLabelIds(Protocol):
    """Anything like a TopK: ``label_ids`` is an int array, rows × ranks, best first, padded with -1."""

    @property
    def label_ids(self) -> NDArray[np.int32]: ...


class SparseMatrix(Protocol):
    """Any of scipy's sparse arrays and matrices."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def tocsr(self) -> Any: ...


Rankings: TypeAlias = HasLabelIds | ArrayLike | SparseMatrix
LabelMatrix: TypeAlias = ArrayLike | SparseMatrix
Propensities: TypeAlias = ArrayLike | SparseMatrix


def is_sparse(matrix: object) -> TypeGuard[SparseMatrix]:
    return hasattr(matrix, "tocsr")


def check_k(name: str, k: int) -> int:
    try:
        value = operator.index(k)
    except TypeError:
        raise TypeError(f"{name} must be an int >= 1, got {k!r}") from None
    if value < 1:
        raise ValueError(f"{name} must be an int >= 1, got {k!r}")
    return value


def check_ks(ks: Sequence[int]) -> tuple[int, ...]:
    checked = tuple(dict.fromkeys(check_k("each of ks", k) for k in ks))
    if not checked:
        raise ValueError("ks must name at least one k, got none")
    return checked


def check_beta(beta: float) -> float:
    if not (isinstance(beta, (int, float, np.number)) and 0 <= beta < float("inf")):
        raise ValueError(f"beta must be a number >= 0, got {beta!r}")
    return float(beta)


def as_labels(Y: LabelMatrix) -> CsrParts:
    """Read a 0/1 matrix, sparse or dense."""
    if is_sparse(Y):
        csr = Y.tocsr()
        _check_indicator(csr.data)  # before repeated entries are summed
        return csr_parts(csr).nonzero()
    dense = np.asarray(Y)
    if dense.ndim != 2:
        raise ValueError(
            f"Y must be a sparse or dense 0/1 matrix of shape (n_rows, n_labels), got {dense.ndim} dimensions"
        )
    _check_indicator(dense)
    indptr = np.zeros(dense.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.count_nonzero(dense, axis=1), out=indptr[1:])
    indices = np.nonzero(dense)[1].astype(np.int32)
    return CsrParts(dense.shape[0], dense.shape[1], indptr, indices, np.ones(len(indices), dtype=np.bool_))


def _check_indicator(values: NDArray[Any]) -> None:
    is_wrong = (values != 0) & (values != 1)
    if is_wrong.any():
        raise ValueError(
            f"Y must hold only 0 and 1, got {values[is_wrong][0]}; pass (Y > 0) to use every entry as a label"
        )


def check_shapes(top: Rankings, labels: CsrParts) -> None:
    """Refuse rankings that cannot belong to these labels."""
    shape = top.shape if is_sparse(top) else _label_ids(top).shape
    if shape[0] != labels.n_rows:
        raise ValueError(f"top has {shape[0]} rows, but Y has {labels.n_rows}")
    if is_sparse(top) and shape[1] != labels.n_cols:
        raise ValueError(f"top holds scores of {shape[1]} labels, but Y has {labels.n_cols}")


def n_ranks_of(top: Rankings) -> int:
    """Count the ranks that any row uses: the columns of a TopK, the most stored scores of a sparse row."""
    if is_sparse(top):
        return max(1, int(np.diff(top.tocsr().indptr).max(initial=0)))
    return max(1, int(_label_ids(top).shape[1]))


def ranked_blocks(top: Rankings, n_ranks: int, control: _core.Control) -> Iterator[tuple[int, int, NDArray[np.int32]]]:
    """Give (first row, last row, label ids of shape rows × n_ranks) until all rows are done."""
    if not is_sparse(top):
        label_ids = _label_ids(top)
        if n_ranks > label_ids.shape[1]:
            raise ValueError(f"k must be at most the {label_ids.shape[1]} predicted columns of top, got {n_ranks}")
        yield 0, label_ids.shape[0], np.ascontiguousarray(label_ids[:, :n_ranks])
        return
    scores = csr_parts(top)
    scores = scores._replace(values=scores.values.astype(np.float32, copy=False))
    step = max(1, _MAX_RANKED_ENTRIES // n_ranks)
    for first in range(0, scores.n_rows, step):
        last = min(first + step, scores.n_rows)
        block = scores.rows(first, last)
        ranked = _core.rank_scores(block.n_cols, block.indptr, block.indices, block.values, n_ranks, control)
        yield first, last, ranked


def as_weights(
    propensity: Propensities | None, labels: CsrParts
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Give the weights 1/p per label, or per entry of Y; at most one of the two is there."""
    if propensity is None:
        return None, None
    if is_sparse(propensity):
        return None, _as_entry_weights(propensity, labels)
    return _as_label_weights(cast("ArrayLike", propensity), labels.n_cols), None


def _as_label_weights(propensity: ArrayLike, n_labels: int) -> NDArray[np.float64]:
    """Turn one propensity per label into weights 1/p."""
    values = np.asarray(propensity, dtype=np.float64)
    if values.shape != (n_labels,):
        raise ValueError(
            f"propensity must have one value for each of the {n_labels} labels of Y, got shape {values.shape}"
        )
    return _inverse(values)


def _as_entry_weights(propensity: SparseMatrix, labels: CsrParts) -> NDArray[np.float64]:
    """Turn a sparse matrix of propensities into weights 1/p of the entries of Y, in their order."""
    given = csr_parts(propensity)
    if (given.n_rows, given.n_cols) != (labels.n_rows, labels.n_cols):
        raise ValueError(
            f"propensity has shape ({given.n_rows}, {given.n_cols}), but Y has shape ({labels.n_rows}, {labels.n_cols})"
        )
    wanted, present = labels.keys(), given.keys()
    places = np.searchsorted(present, wanted)
    is_missing = np.ones(len(wanted), dtype=np.bool_)
    inside = places < len(present)
    is_missing[inside] = present[places[inside]] != wanted[inside]
    if is_missing.any():
        row, label_id = divmod(int(wanted[is_missing][0]), labels.n_cols)
        raise ValueError(f"propensity has no entry for label {label_id} of row {row}; every label in Y needs one")
    return _inverse(given.values[places].astype(np.float64))


def as_n_relevant(n_relevant: ArrayLike, n_rows: int) -> NDArray[np.int32]:
    counts = np.asarray(n_relevant)
    if counts.shape != (n_rows,) or counts.dtype.kind not in "iu":
        raise ValueError(
            f"n_relevant must be one int for each of the {n_rows} rows of Y, got {counts.dtype} of shape {counts.shape}"
        )
    return _as_int32(counts)


def _as_int32(values: NDArray[Any]) -> NDArray[np.int32]:
    """Cast, with what does not fit kept out of every range that the core allows: it refuses it, by row."""
    return values.astype(np.int64).clip(-2, INT32_MAX).astype(np.int32)


def _inverse(propensity: NDArray[np.float64]) -> NDArray[np.float64]:
    is_good = (propensity > 0) & (propensity <= 1)
    if not is_good.all():
        place = int(np.argmin(is_good))
        hint = "; for inverse propensities give 1 / values" if np.all(propensity >= 1) else ""
        raise ValueError(f"propensity must lie in (0, 1], got {propensity[place]!r} at {place}{hint}")
    return 1.0 / propensity


def _label_ids(top: object) -> NDArray[np.int32]:
    label_ids = np.asarray(getattr(top, "label_ids", top))
    if label_ids.dtype.kind not in "iu":
        raise TypeError(
            f"top must be a TopK, an int array of label ids or a sparse score matrix, got an array of {label_ids.dtype}"
        )
    if label_ids.ndim != 2:
        raise ValueError(f"top must have shape (n_rows, k), got {label_ids.ndim} dimensions")
    return label_ids if label_ids.dtype == np.int32 else _as_int32(label_ids)
