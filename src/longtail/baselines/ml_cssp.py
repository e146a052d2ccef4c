"""ML-CSSP: multi-label classification by column subset selection (Bi and Kwok, ICML 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._matrices import canonical_csr
from longtail._ranges import Between
from longtail._rules import Int, Real
from longtail.baselines.linear_embedding import EmbeddingBaseline, seen_columns
from longtail.baselines.ridge import Ridge, leading_eigenvectors
from longtail.baselines.shared_arrays import data_of
from longtail.execution import Arrays, Params, Shard
from longtail.gbdt.projection import Both, Dense, one_blas_thread


def learn_ml_cssp(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Draw columns C of Y by their leverage, regress them on X, and express the others by them: Y ≈ C C⁺Y."""
    X, Y = data_of(arrays)
    seen, Y = seen_columns(Y)
    seed = int(params["random_state"] or 0)
    with one_blas_thread():
        chosen = draw_labels(Y, int(params["n_components"] or 0), seed, control)
        C = canonical_csr(Y[:, chosen])
        W, intercepts = Ridge(X, float(params["l2"] or 0), control).regress(C.toarray())
        H = pseudo_inverse_times(C, Y)
    return {"feature_factors": W, "intercepts": intercepts, "label_factors": H, "seen_label_ids": seen}


def draw_labels(Y: sp.csr_array, n_labels: int, seed: int, control: _core.Control) -> NDArray[np.int64]:
    """Draw distinct columns with probability proportional to their leverage in the best subspace of that rank."""
    labels = Both(Y, 1, control)
    n_labels = min(n_labels, Y.shape[1])
    _, V = leading_eigenvectors(lambda S: labels.transposed_times(labels.times(S)), Y.shape[1], n_labels, seed)
    leverage = np.square(V, dtype=np.float64).sum(axis=1) + 1e-12
    drawn = np.random.default_rng(seed).choice(len(leverage), n_labels, replace=False, p=leverage / leverage.sum())
    return np.sort(drawn)


def pseudo_inverse_times(C: sp.csr_array, Y: sp.csr_array) -> Dense:
    """Return C⁺Y = (CᵀC)⁻¹ CᵀY; equal columns of C share their weight."""
    gram = (C.T @ C).toarray().astype(np.float64)
    gram[np.diag_indices_from(gram)] += 1e-6 * gram.max()
    mixed = (C.T @ Y).toarray()
    return np.ascontiguousarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram), mixed), dtype=np.float32)


@dataclass(kw_only=True, eq=False, repr=False)
class MLCSSP(EmbeddingBaseline):
    """Regress a drawn subset of the labels, and express all others by it.

    `n_components` labels are drawn with probability proportional to their leverage scores in Y and regressed on X by
    ridge regression; least squares on Y maps their predictions to those of all labels. A baseline of the PfastreXML
    paper. Memory: (n_features + n_labels) · n_components floats, and up to 6,000 features the square of their number.

    Parameters
    ----------
    n_components : int, default 200
        The number of labels that are drawn.
    l2 : float, default 1.0
        Regularisation of the regression.
    unit_rows, n_jobs, random_state
        As everywhere; the seed draws the labels.

    Attributes
    ----------
    feature_factors_ : float32 array (n_features, n_components)
    intercepts_ : float32 array (n_components,)
    label_factors_ : float32 array (n_components, n_seen_labels), C⁺Y
    seen_label_ids_ : int32 array (n_seen_labels,), labels with positives

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> model = lt.MLCSSP(n_components=2, l2=0.01).fit(np.eye(2), np.array([[1, 0, 1], [0, 1, 0]]))
    >>> model.predict_top_k([[0.0, 1.0]], top_k=1).label_ids
    array([[1]], dtype=int32)
    """

    n_components: Annotated[int, Int(1), Between(20, 1000, log=True)] = 200
    l2: Annotated[float, Real(0, above=True), Between(0.01, 100.0, log=True)] = 1.0

    _learn: ClassVar = staticmethod(learn_ml_cssp)
