"""LEML: a low-rank linear model of all labels (Yu et al., ICML 2014, squared loss)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._cancel import current_control
from longtail._contributions import Contributions
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix
from longtail._ranges import Between
from longtail._rules import Int, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail._weighted import WeightedClassifier
from longtail.baselines.linear_embedding import check_seen_labels
from longtail.execution import Run, StepPlan
from longtail.gbdt.projection import LemlSteps, project, scaled_rows


@dataclass(frozen=True, eq=False)
class LowRank(State):
    """The factors W, whose last row belongs to a constant feature, and H of the labels that have positives."""

    feature_factors: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]
    label_factors: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]
    seen_label_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
    objectives: Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=1, finite=True)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> LowRank:
        found = new_ids[self.seen_label_ids]
        factors = np.ascontiguousarray(self.label_factors[:, found >= 0])
        return replace(self, label_factors=factors, seen_label_ids=found[found >= 0])

    def check(self, owner: str, facts: Facts) -> None:
        # Without a row for the constant: models of longtail 0.1.
        if self.feature_factors.shape[0] - facts.n_features_in not in (0, 1):
            raise ValueError(f"{owner}: feature_factors_ must have {facts.n_features_in + 1} rows")
        expected = (self.feature_factors.shape[1], len(self.seen_label_ids))
        if self.label_factors.shape != expected:
            raise ValueError(f"{owner}: label_factors_ must have shape {expected}, got {self.label_factors.shape}")
        check_seen_labels(owner, self.seen_label_ids, facts)


@dataclass(kw_only=True, eq=False, repr=False)
class LEML(WeightedClassifier):
    """Learn scores X W Hᵀ of low rank by alternating minimisation.

    Minimises ‖Y - X W Hᵀ‖² + l2 (‖W‖² + ‖H‖²): H in closed form, W by conjugate gradients. X gets a constant feature. A
    baseline of the papers, and, without the constant, the projection X W that GBDTSparse uses for sparse rows. Memory:
    (n_features + n_labels) · n_components floats.

    Parameters
    ----------
    n_components : int, default 100
        The rank.
    l2 : float, default 3.0
    n_iterations : int, default 10
        Rounds of the alternation.
    n_jobs, random_state
        As everywhere; the seed draws the start.

    Attributes
    ----------
    feature_factors_ : float32 array (n_features + 1, n_components), W; the last row belongs to the constant
    label_factors_ : float32 array (n_components, n_seen_labels), Hᵀ over the labels with positives
    seen_label_ids_ : int32 array (n_seen_labels,)
    objectives_ : float64 array, the objective after each half round; never increases

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> model = lt.LEML(n_components=2, l2=0.01).fit(np.eye(2), np.array([[1, 0, 1], [0, 1, 0]]))
    >>> model.predict_top_k([[0.0, 1.0]], top_k=1).label_ids
    array([[1]], dtype=int32)
    """

    n_components: Annotated[int, Int(1), Between(20, 500, log=True)] = 100
    l2: Annotated[float, Real(0, above=True), Between(0.1, 100.0, log=True)] = 3.0
    n_iterations: Annotated[int, Int(1)] = 10

    _State: ClassVar = LowRank

    def _fit(
        self, X: Matrix, Y: sp.csr_array, run: Run, *, row_weights: NDArray[np.float32] | None = None, **_options: Any
    ) -> LowRank:
        X = _with_constant(X)
        if row_weights is not None:  # the loss is one of squares
            X, Y = scaled_rows(X, np.sqrt(row_weights)), scaled_rows(Y, np.sqrt(row_weights))
        if sp.issparse(X):
            arrays = {"X": X.data, "X.indices": X.indices, "X.indptr": X.indptr}
        else:
            arrays = {"X": X}
        arrays |= {"Y.indices": Y.indices, "Y.indptr": Y.indptr}
        if row_weights is not None:
            arrays["row_weights"] = row_weights
        params = {name: value for name, value in self.get_params(deep=False).items() if name != "n_jobs"}
        plan = StepPlan(
            owner="LEML",
            unit="iterations",
            arrays=arrays,
            params=params,
            n_steps=self.n_iterations,
            keep_last=True,
        )
        n_components = min(self.n_components, X.shape[1])
        (shard,) = run.steps(plan, LemlSteps(run, X, Y, n_components, self.l2, self.random_state))
        for name in ("W", "H"):
            if not np.isfinite(shard[name]).all():
                raise ValueError("LEML: the factors overflowed float32; scale X down, or set unit_rows=True")
        seen = np.unique(Y.indices).astype(np.int32)
        return LowRank(
            feature_factors=np.array(shard["W"]),
            label_factors=np.ascontiguousarray(shard["H"][seen].T),
            seen_label_ids=seen,
            objectives=np.array(shard["objectives"]),
        )

    def _top_k(self, fitted: Fitted[LowRank], X: Matrix, top_k: int) -> TopK:
        n_threads, control = resolve_n_jobs(self.n_jobs), current_control()
        state = fitted.state
        Z = project(X, state.feature_factors[: X.shape[1]], n_threads, control)
        Z += state.feature_factors[X.shape[1] :].sum(axis=0)
        places, scores = _core.dense_product_top_k(Z, state.label_factors, top_k, n_threads, control)
        label_ids = places
        if len(state.seen_label_ids):
            label_ids = np.where(places >= 0, state.seen_label_ids[np.maximum(places, 0)], np.int32(-1))
        return TopK(label_ids, scores)

    def _contributions(self, fitted: Fitted[LowRank], x_row: Matrix, label_id: int) -> Contributions:
        """A feature adds its value times the product of the two factors: exact."""
        state = fitted.state
        row = sp.csr_array(x_row)
        place = np.flatnonzero(state.seen_label_ids == label_id)
        factors = state.label_factors[:, place].sum(axis=1, dtype=np.float64)
        values = row.data * (state.feature_factors[row.indices] @ factors)
        bias = float((state.feature_factors[row.shape[1] :] @ factors).sum())
        return Contributions(row.indices, values, bias, bias + float(values.sum()), exact=True)


def _with_constant(X: Matrix) -> Matrix:
    n_rows, n_features = X.shape
    if not sp.issparse(X):
        return np.hstack([X, np.ones((n_rows, 1), dtype=np.float32)])
    values, indices = (np.insert(part, X.indptr[1:], end) for part, end in ((X.data, 1), (X.indices, n_features)))
    return sp.csr_array((values, indices, X.indptr + np.arange(n_rows + 1)), shape=(n_rows, n_features + 1))
