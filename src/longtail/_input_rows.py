"""Check what a user passes as rows, once, and bring it into the form that native code reads."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail import _core
from longtail._estimator import Estimator
from longtail._fitted import Facts
from longtail._matrices import Matrix, canonical_csr, check_magnitude, with_unit_rows, without_stored_zeros


def rows_to_learn(estimator: Estimator, X: ArrayLike, *, unit_rows: bool) -> tuple[Matrix, NDArray[Any] | None]:
    """Check and prepare rows to learn from; also return the names of their columns, if X has any."""
    checked, names = _sklearn_checked(estimator, X, None)
    rows = without_stored_zeros(checked_rows(checked))
    check_magnitude(type(estimator).__name__, rows)
    return (with_unit_rows(rows) if unit_rows else rows), names


def rows_to_rank(estimator: Estimator, facts: Facts, X: ArrayLike) -> Matrix:
    """Check rows to rank and bring them into the form that the model was trained on."""
    rows = checked_rows(X if _is_ready(facts, X) else _sklearn_checked(estimator, X, facts)[0])
    check_magnitude(type(estimator).__name__, rows)
    return with_unit_rows(rows) if facts.unit_rows else rows


def checked_rows(X: Any) -> Matrix:
    """Return rows in the one form that native code reads, with every index checked once."""
    if not sp.issparse(X):
        return np.ascontiguousarray(X)
    rows = canonical_csr(X)
    _core.check_csr(rows.shape[1], rows.indptr, rows.indices, rows.data, "X")
    return rows


def rows_at(X: Any, row_ids: NDArray[np.int64]) -> Any:
    """Return some rows of whatever a user passes as rows."""
    from sklearn.utils import _safe_indexing

    return sp.csr_array(X)[row_ids] if sp.issparse(X) else _safe_indexing(X, row_ids)


def _sklearn_checked(estimator: Estimator, X: ArrayLike, facts: Facts | None) -> tuple[Any, NDArray[Any] | None]:
    from sklearn.utils.validation import validate_data

    # scikit-learn stores what it finds on the estimator it is given: a stand-in, so that the estimator stays as it was.
    stand_in = _stand_in(estimator, facts)
    try:
        with np.errstate(over="ignore"):  # what overflows float32 becomes infinite and is then refused
            checked = validate_data(
                stand_in,
                X,
                reset=facts is None,
                accept_sparse="csr",
                dtype=np.float32,
                order="C",
                ensure_min_samples=1 if facts is None else 0,
            )
    except ValueError as error:
        if "contains NaN" in str(error):  # scikit-learn goes on to recommend other estimators
            name = type(estimator).__name__
            raise ValueError(f"{name}: Input X contains NaN; fill or drop the missing values first") from None
        raise
    return checked, getattr(stand_in, "feature_names_in_", None)


def _is_ready(facts: Facts, X: Any) -> TypeGuard[Matrix]:
    """Return whether rows to rank need no conversion by scikit-learn, as a Tagger's do not."""
    if facts.feature_names_in is not None:  # names are compared, or their absence gives a warning
        return False
    if isinstance(X, sp.csr_array | sp.csr_matrix):
        return bool(X.dtype == np.float32 and X.ndim == 2 and X.shape[1] == facts.n_features_in)
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float32 and X.flags.c_contiguous:
        return X.shape[1] == facts.n_features_in and bool(np.isfinite(X).all())
    return False


def _stand_in(estimator: Estimator, facts: Facts | None) -> Any:
    """Make an object that scikit-learn's validation takes for the estimator."""
    made = type(type(estimator).__name__, (), {"__sklearn_tags__": lambda _: estimator.__sklearn_tags__()})()
    if facts is not None:
        made.n_features_in_ = facts.n_features_in
        if facts.feature_names_in is not None:
            made.feature_names_in_ = facts.feature_names_in
    return made
