"""CS: multi-label prediction via compressed sensing (Hsu, Kakade, Langford and Zhang, NIPS 2009)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._cancel import current_control
from longtail._fitted import Facts, Fitted
from longtail._matrices import Matrix
from longtail._ranges import Between
from longtail._rules import Int, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail.baselines.linear_embedding import EmbeddingBaseline, LinearEmbedding, check_seen_labels, seen_columns
from longtail.baselines.ridge import Ridge
from longtail.baselines.shared_arrays import data_of
from longtail.execution import Arrays, Params, Shard
from longtail.gbdt.projection import Both, Dense, one_blas_thread

# Rows per block: n_atoms · n_components floats each.
_ROWS_PER_BLOCK = 256
# Keeps the small systems solvable where fewer labels than steps were found.
_JITTER = 1e-6


@dataclass(frozen=True, eq=False)
class Codes(LinearEmbedding):
    """The codes of labels are recovered together: those of removed labels stay, with the label id -1."""

    seen_label_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=-1)]

    def check_labels(self, owner: str, facts: Facts) -> None:
        check_seen_labels(owner, self.seen_label_ids[self.seen_label_ids >= 0], facts)

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Self:
        found = np.where(self.seen_label_ids >= 0, new_ids[self.seen_label_ids], np.int32(-1))
        return replace(self, seen_label_ids=found)


def learn_cs(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Draw the code of each label, a random unit vector, and regress the sum of a row's codes on X."""
    X, Y = data_of(arrays)
    seen, Y = seen_columns(Y)
    rng = np.random.default_rng(int(params["random_state"] or 0))
    codes = rng.standard_normal((len(seen), int(params["n_components"] or 0)), dtype=np.float32)
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    with one_blas_thread():
        W, intercepts = Ridge(X, float(params["l2"] or 0), control).regress(Both(Y, 1, control).times(codes))
    label_factors = np.ascontiguousarray(codes.T)
    return {"feature_factors": W, "intercepts": intercepts, "label_factors": label_factors, "seen_label_ids": seen}


def recover(
    Z: Dense, codes: Dense, n_steps: int, n_threads: int, control: _core.Control
) -> tuple[NDArray[np.int32], Dense]:
    """Recover sparse non-negative y with y · codesᵀ ≈ z by orthogonal matching pursuit, for a block of rows.

    Every step takes the label whose code agrees most with the residual, and fits all labels taken so far again.
    Returns places and coefficients (n_rows, n_steps) in the order of the steps; -1 where a row needs no more labels.
    """
    n_rows = len(Z)
    atoms = np.vstack([codes.T, np.zeros((1, len(codes)), dtype=np.float32)])  # the last one stands for "none"
    places = np.full((n_rows, n_steps), -1, dtype=np.int32)
    coefficients = np.zeros((n_rows, n_steps), dtype=np.float32)
    residual = Z
    for step in range(n_steps):
        best, agreement = _core.dense_product_top_k(residual, codes, 1, n_threads, control)
        is_new = (agreement[:, 0] > 0) & (places[:, :step] != best).all(axis=1)
        places[:, step] = np.where(is_new, best[:, 0], -1)
        chosen = atoms[places[:, : step + 1]]
        gram = chosen @ chosen.transpose(0, 2, 1) + np.float32(_JITTER) * np.eye(step + 1, dtype=np.float32)
        fitted = np.linalg.solve(gram, chosen @ Z[:, :, None])
        coefficients[:, : step + 1] = fitted[:, :, 0]
        residual = Z - (fitted.transpose(0, 2, 1) @ chosen)[:, 0, :]
    return places, coefficients


@dataclass(kw_only=True, eq=False, repr=False)
class CS(EmbeddingBaseline):
    """Regress random codes of the labels, and decode by sparse recovery.

    Every label gets a random unit vector of `n_components` numbers; the sum of a row's codes is regressed on X.
    Prediction recovers a row's labels from its code by orthogonal matching pursuit; it ranks at most `n_steps`. A
    baseline of the PfastreXML paper. Memory: (n_features + n_labels) · n_components floats, and up to 6,000 features
    the square of their number.

    Parameters
    ----------
    n_components : int, default 200
        Length of the codes.
    n_steps : int, default 10
        Labels that are recovered per row; `predict_top_k` pads what is asked beyond.
    l2 : float, default 1.0
        Regularisation of the regression.
    unit_rows, n_jobs, random_state
        As everywhere; the seed draws the codes.

    Attributes
    ----------
    feature_factors_ : float32 array (n_features, n_components)
    intercepts_ : float32 array (n_components,)
    label_factors_ : float32 array (n_components, n_seen_labels), the codes
    seen_label_ids_ : int32 array (n_seen_labels,), labels with positives

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> model = lt.CS(n_components=20, l2=0.01).fit(np.eye(2), np.array([[1, 0, 1], [0, 1, 0]]))
    >>> model.predict_top_k([[0.0, 1.0]], top_k=1).label_ids
    array([[1]], dtype=int32)
    """

    n_components: Annotated[int, Int(1), Between(20, 1000, log=True)] = 200
    n_steps: Annotated[int, Int(1, 1000)] = 10
    l2: Annotated[float, Real(0, above=True), Between(0.01, 100.0, log=True)] = 1.0

    _State: ClassVar = Codes
    _learn: ClassVar = staticmethod(learn_cs)

    def _top_k(self, fitted: Fitted[LinearEmbedding], X: Matrix, top_k: int) -> TopK:
        n_threads, control = resolve_n_jobs(self.n_jobs), current_control()
        state = fitted.state
        Z = state.embed(X, n_threads, control)
        n_steps = min(self.n_steps, state.label_factors.shape[1])
        n_kept = min(top_k, n_steps)
        label_ids = np.full((len(Z), top_k), -1, dtype=np.int32)
        scores = np.zeros((len(Z), top_k), dtype=np.float32)
        for begin in range(0, len(Z), _ROWS_PER_BLOCK):
            block = slice(begin, begin + _ROWS_PER_BLOCK)
            places, found = recover(Z[block], state.label_factors, n_steps, n_threads, control)
            labels = state.labels_at(places)
            found[(labels < 0) | np.isnan(found)] = -np.inf  # absurd factors overflow
            order = np.lexsort((labels, -found), axis=1)[:, :n_kept]
            label_ids[block, :n_kept] = np.take_along_axis(labels, order, axis=1)
            scores[block, :n_kept] = np.take_along_axis(found, order, axis=1)
        scores[label_ids < 0] = 0
        np.nan_to_num(scores, copy=False)
        return TopK(label_ids, scores)

    def _contributions(self, fitted: Fitted[LinearEmbedding], x_row: Matrix, label_id: int) -> None:
        """Recovery is not linear: unknown."""
        return
