"""The contract that every estimator keeps: validation, containers, runs, predictions."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeGuard, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail import _core, _rules
from longtail._array_files import ArraySpec
from longtail._contributions import Contributions
from longtail._estimator import Estimator
from longtail._matrices import Labels, Matrix, YKind, canonical_csr, check_magnitude, labels_from, without_stored_zeros
from longtail._progress import Progress
from longtail._ranges import Range
from longtail._rules import Choice, Int, Rule
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail._words import counted
from longtail.execution import Executor, Run

_FIRST_TOP_K = 32
# Rankings are padded to top_k columns: what nobody reads must not fill the memory.
_MAX_TOP_K = 1_000_000


@dataclass(kw_only=True, eq=False, repr=False)
class XMCClassifier(Estimator):
    """Base of all estimators.

    A subclass is a keyword-only dataclass that names its parameters once, with a rule for each in `_rules`, and its
    fitted arrays in `_state` (and as ``field(init=False)``, for the type checker), fitted scalars in `_scalars` and
    fitted models in `_models`; it implements `_fit` and `_top_k`, and `_check_state` when these must agree.
    """

    n_jobs: int | None = None
    random_state: int = 0

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {"n_jobs": _rules.N_JOBS, "random_state": _rules.SEED}
    # Where `longtail.tune` looks for good parameters.
    _ranges: ClassVar[dict[str, Range]] = {}
    # Fitted arrays (name -> what a file must hold); io saves and checks exactly these. Subclasses add theirs.
    # label_counts_ (training rows of each label) is what propensities and reports are made of.
    _state: ClassVar[dict[str, ArraySpec]] = {"label_counts_": ArraySpec(np.int64, ndim=1, min=0)}
    # Fitted numbers and words, and fitted attributes that are models themselves, each with its rules: saved and
    # checked likewise. An attribute that may be None says so with Nothing().
    _scalars: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "n_features_in_": (Int(1, 2**31 - 1),),
        "n_labels_": (Int(0, 2**31 - 1),),
        "n_rows_": (Int(1),),
        "y_kind_": (Choice(*get_args(YKind)),),
    }
    _models: ClassVar[dict[str, tuple[Rule, ...]]] = {}
    # predict() answers with the labels whose score reaches this.
    _threshold: ClassVar[float] = 0.5

    n_features_in_: int = field(init=False)
    feature_names_in_: NDArray[Any] = field(init=False)  # only when X had names
    n_labels_: int = field(init=False)
    n_rows_: int = field(init=False)
    label_counts_: NDArray[np.int64] = field(init=False)
    y_kind_: YKind = field(init=False)
    y_dtype_: np.dtype[Any] = field(init=False)
    classes_: NDArray[Any] = field(init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("_rules", "_ranges", "_state", "_scalars", "_models"):
            merged: dict[str, Any] = {}
            for base in reversed(cls.__mro__):
                merged |= vars(base).get(name, {})
            setattr(cls, name, merged)

    # ---- what a subclass writes -------------------------------------------------------------------------------

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run) -> None:
        """Set the fitted arrays."""
        raise NotImplementedError

    def _top_k(self, X: Matrix, top_k: int) -> TopK:
        """Rank the labels of each row."""
        raise NotImplementedError

    def _contributions(self, x_row: Matrix, label_id: int) -> Contributions | None:
        """Tell what each feature of one row adds to the score of a label; None: cannot tell."""
        return None

    def _check_state(self) -> None:
        """Raise ValueError unless the loaded arrays agree with each other."""

    # ---- what a user calls ------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from rows and their labels.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
            Read as float32; any other type or layout is copied once.
        y : CSR matrix or 0/1 array (n_rows, n_labels), or 1-D classes
            Rows without labels are allowed and count as all-negative.
        executor : "threads", "inline", "ray", "auto", "ray://host:port" or an Executor, default "threads"
            Where tasks run; "ray" and the like are those of `RayExecutor`. The model is the same, byte for byte.
        checkpoint : path, optional
            Directory that makes the run resumable: a rerun with the same data and parameters skips finished tasks.
        progress : None, "bar" or callable(done, total)
            The callable may return False to stop.

        Returns
        -------
        self
        """
        owner = type(self).__name__
        _rules.check_params(owner, self.get_params(deep=False), self._rules)
        X = without_stored_zeros(self._validated(X, reset=True))
        check_magnitude(owner, X)
        labels = labels_from(owner, y, X.shape[0])
        if labels.Y.nnz == 0:
            raise ValueError(
                f"{owner}: y must have a label in at least one row, got none in {counted(X.shape[0], 'row')}"
            )
        _core.check_labels(labels.Y.shape[1], labels.Y.indptr, labels.Y.indices, "y")
        with Run(
            owner, resolve_n_jobs(self.n_jobs), executor=executor, checkpoint=checkpoint, progress=progress
        ) as run:
            self._fit(X, labels.Y, run)
        self._remember(labels)
        return self

    def predict_top_k(self, X: Any, top_k: int = 5) -> TopK:
        """Rank the labels of each row.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
        top_k : int, default 5
            How many labels a row; rows with fewer candidates are padded with label -1 and score 0.

        Returns
        -------
        TopK
            label_ids int32 (n_rows, top_k) and scores float32 (n_rows, top_k), best first.
        """
        return self._checked_top_k(X, top_k, self._top_k)

    def _checked_top_k(self, X: Any, top_k: int, rank: Callable[[Matrix, int], TopK]) -> TopK:
        """Check X and top_k, rank, and pad to top_k columns."""
        self._check_fitted()
        _rules.check_value(type(self).__name__, "top_k", top_k, (_rules.Int(1, max(_MAX_TOP_K, self.n_labels_)),))
        found = rank(self._validated(X, reset=False), min(int(top_k), max(self.n_labels_, 1)))
        n_missing = int(top_k) - found.label_ids.shape[1]
        if n_missing == 0:
            return found
        beside = ((0, 0), (0, n_missing))  # there are not that many labels
        return TopK(np.pad(found.label_ids, beside, constant_values=-1), np.pad(found.scores, beside))

    def predict(self, X: Any) -> Any:
        """Decide the labels of each row, in the form that fit got: sparse in, sparse out; 1-D in, 1-D out."""
        self._check_fitted()
        X = self._validated(X, reset=False)
        if self.y_kind_ == "classes":
            best = self._top_k(X, 1).label_ids[:, 0]
            return self.classes_[np.maximum(best, 0)]
        Y_hat = self._labels_above(X)
        return Y_hat.toarray() if self.y_kind_ == "dense" else Y_hat

    # ---- shared inner parts -----------------------------------------------------------------------------------

    def _validated(self, X: ArrayLike, *, reset: bool) -> Matrix:
        if not reset and self._is_ready(X):
            return _native_checked(canonical_csr(X)) if sp.issparse(X) else X
        from sklearn.utils.validation import validate_data

        try:
            with np.errstate(over="ignore"):  # what overflows float32 becomes infinite, and is then refused as such
                checked = validate_data(
                    self,
                    X,
                    reset=reset,
                    accept_sparse="csr",
                    dtype=np.float32,
                    order="C",
                    ensure_min_samples=1 if reset else 0,
                )
        except ValueError as error:
            if "contains NaN" in str(error):  # scikit-learn's text goes on with other estimators to use
                name = type(self).__name__
                raise ValueError(f"{name}: Input X contains NaN; fill or drop the missing values first") from None
            raise
        if sp.issparse(checked):
            return _native_checked(canonical_csr(checked))
        return np.ascontiguousarray(checked)

    def _is_ready(self, X: Any) -> TypeGuard[Matrix]:
        """Whether rows to rank are what scikit-learn's checks would make of them; as a Tagger's are."""
        if hasattr(self, "feature_names_in_"):  # then names are compared, or their lack is warned about
            return False
        if isinstance(X, sp.csr_array | sp.csr_matrix):
            return bool(X.dtype == np.float32 and X.ndim == 2 and X.shape[1] == self.n_features_in_)
        if type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float32 and X.flags.c_contiguous:
            return X.shape[1] == self.n_features_in_ and bool(np.isfinite(X).all())
        return False

    def _remember(self, labels: Labels) -> None:
        self.n_rows_, self.n_labels_ = labels.Y.shape
        self.label_counts_ = np.bincount(labels.Y.indices, minlength=self.n_labels_).astype(np.int64)
        self.y_kind_ = labels.kind
        self.y_dtype_ = labels.dtype
        if labels.classes is not None:
            self.classes_ = labels.classes
        elif hasattr(self, "classes_"):
            del self.classes_

    def _labels_above(self, X: Matrix) -> sp.csr_array:
        """Collect every label whose score reaches the threshold; asks for more labels only where a row is full."""
        n_rows = X.shape[0]
        rows = np.arange(n_rows)
        found: list[tuple[NDArray[Any], NDArray[Any]]] = []
        top_k = min(_FIRST_TOP_K, self.n_labels_)
        while len(rows):
            label_ids, scores = self._top_k(X[rows], top_k)
            reached = (label_ids >= 0) & (scores >= self._threshold)
            full = reached[:, -1] & (top_k < self.n_labels_)
            row_numbers, columns = np.nonzero(reached & ~full[:, None])
            found.append((rows[row_numbers], label_ids[row_numbers, columns]))
            rows = rows[full]
            top_k = min(top_k * 4, self.n_labels_)
        row_ids = np.concatenate([part for part, _ in found]) if found else np.empty(0, np.int64)
        label_ids = np.concatenate([part for _, part in found]) if found else np.empty(0, np.int64)
        ones = np.ones(len(row_ids), dtype=self.y_dtype_)
        return sp.csr_array((ones, (row_ids, label_ids)), shape=(n_rows, self.n_labels_))


def _native_checked(X: Matrix) -> Matrix:
    """Prove once that no index leads native code astray: scipy objects are easily put together by hand."""
    if sp.issparse(X):
        _core.check_csr(X.shape[1], X.indptr, X.indices, X.data, "X")
    return X
