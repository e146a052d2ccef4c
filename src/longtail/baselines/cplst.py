"""CPLST: conditional principal label space transformation (Chen and Lin, NIPS 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from longtail import _core
from longtail._ranges import Between
from longtail._rules import Int, Real
from longtail.baselines.linear_embedding import EmbeddingBaseline, seen_columns
from longtail.baselines.ridge import Ridge, leading_eigenvectors
from longtail.baselines.shared_arrays import data_of
from longtail.execution import Arrays, Params, Shard
from longtail.gbdt.projection import Both, Dense, one_blas_thread


def learn_cplst(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Find the directions V of the centred labels Z that X predicts best, and regress Z V on X.

    V are the leading eigenvectors of ZᵀHZ, H = X (XᵀX + l2)⁻¹ Xᵀ; as X is centred, XᵀZ = XᵀY and Z is never made.
    """
    X, Y = data_of(arrays)
    seen, Y = seen_columns(Y)
    labels = Both(Y, 1, control)
    with one_blas_thread():
        ridge = Ridge(X, float(params["l2"] or 0), control)

        def apply(V: Dense) -> Dense:
            W = ridge.weights(labels.times(V))
            return labels.transposed_times(ridge.times(W))

        _, V = leading_eigenvectors(
            apply, len(seen), int(params["n_components"] or 0), int(params["random_state"] or 0)
        )
        W, _ = ridge.regress(labels.times(V))
        shares = np.asarray(Y.mean(axis=0, dtype=np.float64)).reshape(-1)
        intercepts = -(ridge.means @ W)
    # The mean of Y is one more component, with no weights and the intercept 1.
    return {
        "feature_factors": np.ascontiguousarray(np.pad(W, ((0, 0), (0, 1)))),
        "intercepts": np.append(intercepts, 1).astype(np.float32),
        "label_factors": np.ascontiguousarray(np.vstack([V.T, shares]), dtype=np.float32),
        "seen_label_ids": seen,
    }


@dataclass(kw_only=True, eq=False, repr=False)
class CPLST(EmbeddingBaseline):
    """Regress the principal directions of Y that X predicts best.

    The labels are projected onto the `n_components` directions V that maximise what ridge regression explains of them;
    scores are the regression's predictions, mapped back by Vᵀ, plus the mean of Y. A baseline of the PfastreXML paper.
    Memory: (n_features + n_labels) · n_components floats, and up to 6,000 features the square of their number.

    Parameters
    ----------
    n_components : int, default 200
        The number of directions, M in the paper; all of them make plain ridge regression of every label.
    l2 : float, default 1.0
        Regularisation λ of the regression.
    unit_rows, n_jobs, random_state
        As everywhere; the seed starts the search for eigenvectors.

    Attributes
    ----------
    feature_factors_ : float32 array (n_features, n_components + 1)
    intercepts_ : float32 array (n_components + 1,)
    label_factors_ : float32 array (n_components + 1, n_seen_labels), Vᵀ and the mean of Y
    seen_label_ids_ : int32 array (n_seen_labels,), labels with positives

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> model = lt.CPLST(n_components=2, l2=0.01).fit(np.eye(2), np.array([[1, 0, 1], [0, 1, 0]]))
    >>> model.predict_top_k([[0.0, 1.0]], top_k=1).label_ids
    array([[1]], dtype=int32)
    """

    n_components: Annotated[int, Int(1), Between(20, 1000, log=True)] = 200
    l2: Annotated[float, Real(0, above=True), Between(0.01, 100.0, log=True)] = 1.0

    _learn: ClassVar = staticmethod(learn_cplst)
