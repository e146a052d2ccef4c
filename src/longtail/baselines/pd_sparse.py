"""PD-Sparse: weights and duals that are both sparse (Yen, Huang, Zhong, Ravikumar and Dhillon, ICML 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._cancel import current_control
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix, canonical_csr, native_rows
from longtail._ranges import Between
from longtail._rules import Bool, Int, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail.baselines.cut_score import CUT_ROWS, CUT_TOP_K, cut_score
from longtail.baselines.shared_arrays import arrays_of, data_of, run_tasks
from longtail.dismec.linear_classifier import LinearClassifier
from longtail.dismec.state import WeightIndex
from longtail.execution import Arrays, Params, Run, Shard


@dataclass(frozen=True, eq=False)
class SparseWeights(State):
    """Weights by feature, and the dual objective after each pass."""

    index: WeightIndex
    objectives: Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=1, finite=True)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> SparseWeights:
        return SparseWeights(self.index.keep_labels(new_ids), self.objectives)

    def check(self, owner: str, facts: Facts) -> None:
        self.index.check(owner, facts)


def learn_pd_sparse(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Train all labels; the constant feature becomes the biases."""
    X, Y = data_of(arrays)
    rows = canonical_csr(X)
    n_features, n_labels = rows.shape[1], Y.shape[1]
    indptr, label_ids, weights, objectives, _ = _core.train_pd_sparse(
        n_features,
        rows.indptr,
        rows.indices,
        rows.data,
        n_labels,
        Y.indptr,
        Y.indices,
        float(params["l1"] or 0),
        float(params["cost"] or 0),
        int(params["n_epochs"] or 1),
        float(params["tolerance"] or 0),
        int(params["random_state"] or 0),
        int(params["n_violators"] or 1),
        int(float(params["held_out"] or 0) * rows.shape[0]),
        bool(params["post_train"]),
        control,
    )
    end = int(indptr[-2])
    biases = np.zeros(n_labels, dtype=np.float32)
    biases[label_ids[end:]] = weights[end:]
    return {
        "indptr": indptr[:-1].copy(),
        "label_ids": label_ids[:end].copy(),
        "weights": weights[:end].copy(),
        "biases": biases,
        "objectives": objectives,
    }


@dataclass(kw_only=True, eq=False, repr=False)
class PDSparse(LinearClassifier):
    """Learn sparse linear classifiers of all labels together, under a max-margin ranking loss.

    Minimises ½ ‖W‖² + l1 ‖W‖₁ + cost · Σ max(0, 1 + highest score of a wrong label - lowest score of a right one).
    The l1 penalty keeps W sparse, the loss keeps the duals sparse: a row only counts for its own labels and the few
    that came near them. Both make block-coordinate Frank-Wolfe, which visits one row at a time, cheap. A baseline of
    the GBDT-SPARSE paper.

    The loss asks for one gap between all labels of a row and all others. Where rows have many labels that no linear
    scores separate like that, as in Delicious, its minimum is close to W = 0 and ranks badly; the first passes rank far
    better. So, as in the authors' program, some rows are held out, and the weights that rank their labels best are
    kept; they are tried twenty times per pass. Memory: 8 bytes per pair of a feature and a label that some row's duals
    connect.

    Parameters
    ----------
    l1 : float, default 0.1
        Penalty λ; greater values give sparser weights.
    cost : float, default 1.0
        The most that one row counts.
    n_epochs : int, default 20
        Most passes over the rows.
    tolerance : float, default 0.01
        Training ends when no row violates its margin by more.
    n_violators : int, default 100
        Labels that a visit of a row can add to those that count for it, the highest scores first.
    held_out : float, default 0.1
        Share of the training rows that is not trained on, but used to choose the weights with the greatest mean of
        P@1, 3 and 5; training ends after three passes without better ones. 0 makes `n_epochs` passes with all rows.
    post_train : bool, default True
        Train the weights that are not zero a second time, without the l1 penalty, which makes them too small. With
        held-out rows, the better of both trainings counts.
    unit_rows, n_jobs, random_state
        As everywhere; the seed draws the held-out rows and the order.

    Attributes
    ----------
    index_indptr_, index_label_ids_, index_weights_ : the weights by feature, as in `DiSMEC`
    biases_ : float32 array (n_labels,), shifted so that training rows get as many labels >= 0 as they carry
    objectives_ : float64 array, the dual objective after each pass; it rises

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    >>> lt.PDSparse(n_jobs=1).fit(X, X).predict_top_k(X[::10], top_k=1).label_ids.ravel()
    array([0, 1, 2], dtype=int32)
    """

    l1: Annotated[float, Real(0), Between(0.001, 1.0, log=True)] = 0.1
    cost: Annotated[float, Real(0, above=True), Between(0.1, 10.0, log=True)] = 1.0
    n_epochs: Annotated[int, Int(1, 1_000_000)] = 20
    tolerance: Annotated[float, Real(0)] = 0.01
    n_violators: Annotated[int, Int(1, 1_000_000)] = 100
    held_out: Annotated[float, Real(0, 0.5)] = 0.1
    post_train: Annotated[bool, Bool()] = True

    _State: ClassVar = SparseWeights
    _threshold: ClassVar[float] = 0.0

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> SparseWeights:
        (shard,) = run_tasks(self, run, learn_pd_sparse, "models", 1, arrays_of(X, Y))
        if not (np.isfinite(shard["weights"]).all() and np.isfinite(shard["biases"]).all()):
            raise ValueError("PDSparse: the weights overflowed float32; scale X down, or set unit_rows=True")
        counts = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
        indptr, label_ids, weights = (np.array(shard[name]) for name in ("indptr", "label_ids", "weights"))
        no_codes, no_scales = np.empty(0, np.int8), np.empty(0, np.float32)
        index = WeightIndex(indptr, label_ids, weights, no_codes, no_scales, np.array(shard["biases"]))
        n_rows = min(CUT_ROWS, X.shape[0])
        top = _ranked(index, counts, X[:n_rows], min(CUT_TOP_K, Y.shape[1]), run.n_jobs)
        cut = cut_score(top.scores[top.label_ids >= 0], int(Y.indptr[n_rows]))
        index.biases[counts > 0] -= np.float32(cut)
        return SparseWeights(index, np.array(shard["objectives"]))

    def _top_k(self, fitted: Fitted[SparseWeights], X: Matrix, top_k: int) -> TopK:
        return _ranked(fitted.state.index, fitted.facts.label_counts, X, top_k, resolve_n_jobs(self.n_jobs))


def _ranked(index: WeightIndex, counts: NDArray[np.int64], X: Matrix, top_k: int, n_threads: int) -> TopK:
    rest = (len(counts), *index.native(), counts, None, top_k, n_threads, current_control())
    return TopK(*_core.predict_ova(native_rows(X), *rest))
