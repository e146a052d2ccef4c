"""LEML: a low-rank linear model of all labels (Yu et al., ICML 2014, squared loss)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._contributions import Contributions
from longtail._matrices import Matrix
from longtail._ranges import Between, Range
from longtail._rules import Int, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail.execution import Run, fingerprint
from longtail.gbdt.projection import Factors, leml_projection, project


@dataclass(kw_only=True, eq=False, repr=False)
class LEML(XMCClassifier):
    """Learn scores X W Hᵀ of low rank by alternating minimisation.

    Minimises ‖Y - X W Hᵀ‖² + l2 (‖W‖² + ‖H‖²): H in closed form, W by conjugate gradients. A baseline of the papers,
    and the projection X W that GBDTSparse uses for sparse rows. Memory: (n_features + n_labels) · n_components floats.

    Parameters
    ----------
    n_components : int, default 100
        The rank.
    l2 : float, default 10.0
    n_iterations : int, default 10
        Rounds of the alternation.
    n_jobs, random_state
        As everywhere; the seed draws the start.

    Attributes
    ----------
    feature_factors_ : float32 array (n_features, n_components), W
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

    n_components: int = 100
    l2: float = 10.0
    n_iterations: int = 10

    _rules: ClassVar = {
        "n_components": (Int(1),),
        "l2": (Real(0, above=True),),
        "n_iterations": (Int(1),),
    }
    _ranges: ClassVar[dict[str, Range]] = {
        "n_components": Between(20, 500, log=True),
        "l2": Between(0.1, 100.0, log=True),
    }
    _state: ClassVar[dict[str, ArraySpec]] = {
        "feature_factors_": ArraySpec(np.float32, ndim=2, finite=True),
        "label_factors_": ArraySpec(np.float32, ndim=2, finite=True),
        "seen_label_ids_": ArraySpec(np.int32, ndim=1, min=0),
        "objectives_": ArraySpec(np.float64, ndim=1, finite=True),
    }
    feature_factors_: NDArray[np.float32] = field(init=False)
    label_factors_: NDArray[np.float32] = field(init=False)
    seen_label_ids_: NDArray[np.int32] = field(init=False)
    objectives_: NDArray[np.float64] = field(init=False)

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run) -> None:
        def work() -> Factors:
            n_components = min(self.n_components, X.shape[1])
            return leml_projection(
                X, Y, n_components, self.l2, self.n_iterations, self.random_state, run.n_jobs, run.control
            )

        checkpoint = None
        if run.checkpoint_path is not None:
            X_arrays = {"X": X} if not sp.issparse(X) else {"X": X.data, "X.indices": X.indices, "X.indptr": X.indptr}
            params = {name: value for name, value in self.get_params(deep=False).items() if name != "n_jobs"}
            arrays = {**X_arrays, "Y.indices": Y.indices, "Y.indptr": Y.indptr}
            checkpoint = run.open_checkpoint(fingerprint("LEML", arrays, params))
        shard = checkpoint.load(0) if checkpoint is not None else None
        if shard is None:
            try:
                factors = run.call(work, "runs", 1)
            except _core.Cancelled:
                raise KeyboardInterrupt from None
            shard = factors._asdict()
            if checkpoint is not None:
                shard = checkpoint.store(0, shard)
        run.report("runs", 1, 1)
        self.feature_factors_ = shard["W"]
        self.seen_label_ids_ = np.unique(Y.indices).astype(np.int32)
        self.label_factors_ = np.ascontiguousarray(shard["H"][self.seen_label_ids_].T)
        self.objectives_ = shard["objectives"]

    def _top_k(self, X: Matrix, top_k: int) -> TopK:
        n_threads, control = resolve_n_jobs(self.n_jobs), _core.Control()
        Z = project(X, self.feature_factors_, n_threads, control)
        places, scores = _core.dense_product_top_k(Z, self.label_factors_, top_k, n_threads, control)
        label_ids = places
        if len(self.seen_label_ids_):
            label_ids = np.where(places >= 0, self.seen_label_ids_[np.maximum(places, 0)], np.int32(-1))
        return TopK(label_ids, scores)

    def _contributions(self, x_row: Matrix, label_id: int) -> Contributions:
        """A feature adds its value times the product of the two factors: exact."""
        row = sp.csr_array(x_row)
        place = np.flatnonzero(self.seen_label_ids_ == label_id)
        factors = self.label_factors_[:, place].sum(axis=1, dtype=np.float64)
        values = row.data * (self.feature_factors_[row.indices] @ factors)
        return Contributions(row.indices, values, 0.0, float(values.sum()), exact=True)

    def _check_state(self) -> None:
        n_components = self.feature_factors_.shape[1]
        expected = (n_components, len(self.seen_label_ids_))
        if self.feature_factors_.shape[0] != self.n_features_in_:
            raise ValueError(f"LEML: feature_factors_ must have {self.n_features_in_} rows")
        if self.label_factors_.shape != expected:
            raise ValueError(f"LEML: label_factors_ must have shape {expected}, got {self.label_factors_.shape}")
        if len(self.seen_label_ids_) and self.seen_label_ids_.max() >= self.n_labels_:
            raise ValueError(f"LEML: label {self.seen_label_ids_.max()} does not exist")
