"""WSABIE: embeddings of rows and labels under the WARP loss (Weston, Bengio and Usunier, IJCAI 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._csr import csr_from_parts
from longtail._matrices import Matrix
from longtail._ranges import Between
from longtail._rules import Int, Real
from longtail.baselines.cut_score import CUT_ROWS, CUT_TOP_K, cut_score
from longtail.baselines.linear_embedding import EmbeddingBaseline, seen_columns
from longtail.baselines.shared_arrays import data_of
from longtail.execution import Arrays, Params, Shard
from longtail.gbdt.projection import Dense, one_blas_thread, project

_PAIRS_PER_BATCH = 128


def learn_wsabie(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Run stochastic gradient descent over all pairs of a row and one of its labels, `n_epochs` times."""
    X, Y = data_of(arrays)
    X = _with_constant(X)
    seen, Y = seen_columns(Y)
    rng = np.random.default_rng(int(params["random_state"] or 0))
    n_components, max_norm = int(params["n_components"] or 0), float(params["max_norm"] or 0)
    W = _Table(rng, X.shape[1], n_components, max_norm)
    H = _Table(rng, len(seen), n_components, max_norm)
    row_ids = np.repeat(np.arange(X.shape[0]), np.diff(Y.indptr))
    with one_blas_thread():
        for epoch in range(int(params["n_epochs"] or 0)):
            rate = float(params["learning_rate"] or 0) * (1 - epoch / int(params["n_epochs"] or 1))
            order = rng.permutation(len(row_ids))
            for begin in range(0, len(order), _PAIRS_PER_BATCH):
                if control.cancelled:
                    raise _core.Cancelled("stopped")
                pairs = order[begin : begin + _PAIRS_PER_BATCH]
                rows = row_ids[pairs]
                sample = rng.permutation(len(seen))[: int(params["n_trials"] or 0)]
                _update(W, H, X[rows], Y[rows], Y.indices[pairs], sample, rng, rate)
        offset = 0.5 - _middle(X, Y, W.values, H.values, control)
    # One more component, the same for all: predict() takes scores from 0.5 on, and the loss only sees differences.
    intercepts = np.append(W.values[-1], np.float32(1))
    label_factors = np.vstack([H.values.T, np.full(len(seen), offset, dtype=np.float32)])
    feature_factors = np.ascontiguousarray(np.pad(W.values[:-1], ((0, 0), (0, 1))))
    return {
        "feature_factors": feature_factors,
        "intercepts": intercepts,
        "label_factors": np.ascontiguousarray(label_factors),
        "seen_label_ids": seen,
    }


def _with_constant(X: Matrix) -> Matrix:
    """Add a feature that is 1 in every row: it learns how frequent labels are."""
    n_rows, n_features = X.shape
    if not sp.issparse(X):
        return np.hstack([X, np.ones((n_rows, 1), dtype=np.float32)])
    ends = X.indptr[1:]
    values, indices = np.insert(X.data, ends, np.float32(1)), np.insert(X.indices, ends, n_features)
    return csr_from_parts(values, indices, X.indptr + np.arange(n_rows + 1), (n_rows, n_features + 1))


class _Table:
    """Vectors of features or labels: AdaGrad steps per vector, then the constraint ‖v‖ <= max_norm."""

    def __init__(self, rng: np.random.Generator, n_vectors: int, n_components: int, max_norm: float) -> None:
        self.values = rng.standard_normal((n_vectors, n_components), dtype=np.float32)
        self.values *= np.float32(0.1 * max_norm / np.sqrt(n_components))
        self._squares = np.zeros(n_vectors)
        self._max_norm = max_norm

    def descend(self, ids: NDArray[np.int64], gradients: Dense, rate: float) -> None:
        self._squares[ids] += np.square(gradients, dtype=np.float64).sum(axis=1)
        scale = rate / np.sqrt(self._squares[ids] + 1e-12)
        moved = self.values[ids] - gradients * scale[:, None]
        norms = np.linalg.norm(moved, axis=1)
        self.values[ids] = moved * np.minimum(1, self._max_norm / np.maximum(norms, 1e-12))[:, None]


def _update(
    W: _Table,
    H: _Table,
    X: Matrix,
    Y: sp.csr_array,
    positives: NDArray[np.int32],
    sample: NDArray[np.int64],
    rng: np.random.Generator,
    rate: float,
) -> None:
    """Take one step for a batch of pairs. The sample of labels is the same for all, the order of trials is not."""
    Z = np.asarray(X @ W.values)
    positive_scores = np.einsum("ij,ij->i", Z, H.values[positives])
    n_trials, ranks = violations(Z @ H.values[sample].T, positive_scores, Y, sample, rng)
    weights = warp_weights(n_trials, len(H.values))
    used = np.flatnonzero(n_trials)
    if not len(used):
        return
    weights, Z, positives, negatives = weights[used], Z[used], positives[used], sample[ranks[used]]
    label_ids, places = np.unique(np.concatenate([negatives, positives]), return_inverse=True)
    signed = np.concatenate([weights, -weights]).astype(np.float32)
    pairs = np.tile(np.arange(len(used)), 2)
    losses = sp.csr_array((signed, (places, pairs)), shape=(len(label_ids), len(used)))
    row_gradients = losses.T @ H.values[label_ids]
    H.descend(label_ids, losses @ Z, rate)
    rows = X[used]
    if not sp.issparse(rows):
        W.descend(np.arange(len(W.values)), rows.T @ row_gradients, rate)
        return
    feature_ids, columns = np.unique(rows.indices, return_inverse=True)
    touched = sp.csr_array((rows.data, columns, rows.indptr), shape=(len(used), len(feature_ids)))
    W.descend(feature_ids, touched.T @ row_gradients, rate)


def violations(
    scores: Dense,
    positive_scores: NDArray[np.float32],
    Y: sp.csr_array,
    sample: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Try the sampled labels until one that the row does not carry comes within the margin 1 of its positive.

    Returns per row the number of trials, 0 if no label violates the margin, and the place of the violator.
    """
    n_rows, n_sampled = scores.shape
    violates = scores > positive_scores[:, None] - 1
    places: NDArray[np.int64] = np.full(Y.shape[1], -1, dtype=np.int64)
    places[sample] = np.arange(n_sampled)
    found = np.asarray(places[Y.indices])
    rows = np.repeat(np.arange(n_rows), np.diff(Y.indptr))
    violates[rows[found >= 0], found[found >= 0]] = False
    # Every row begins at its own place of the sample and goes round.
    begins = rng.integers(n_sampled, size=(n_rows, 1))
    order = (np.arange(n_sampled) + begins) % n_sampled
    in_order = np.take_along_axis(violates, order, axis=1)
    first = in_order.argmax(axis=1)
    n_trials = np.where(in_order.any(axis=1), first + 1, 0)
    return n_trials, np.take_along_axis(order, first[:, None], axis=1)[:, 0]


def warp_weights(n_trials: NDArray[np.int64], n_labels: int) -> NDArray[np.float64]:
    """Return 1 + 1/2 + … + 1/r for the estimated rank r = (n_labels - 1) / trials."""
    harmonic = np.cumsum(1 / np.arange(1, max(n_labels, 2)))
    estimated = np.maximum((n_labels - 1) // np.maximum(n_trials, 1), 1)
    return np.asarray(harmonic[estimated - 1])


def _middle(X: Matrix, Y: sp.csr_array, W: Dense, H: Dense, control: _core.Control) -> float:
    """Return the score above which the first rows get as many labels as they carry."""
    n_rows = min(CUT_ROWS, X.shape[0])
    Z = project(X[:n_rows], W, 1, control)
    _, scores = _core.dense_product_top_k(Z, np.ascontiguousarray(H.T), min(CUT_TOP_K, len(H)), 1, control)
    return cut_score(scores, int(Y.indptr[n_rows]))


@dataclass(kw_only=True, eq=False, repr=False)
class WSABIE(EmbeddingBaseline):
    """Learn embeddings of rows and labels that rank a row's labels first.

    Minimises the WARP loss by stochastic gradient descent: for a row and one of its labels, other labels are tried
    until one comes within the margin; the fewer trials it takes, the worse the rank of the label and the greater the
    step. Steps are AdaGrad's, in small batches. A baseline of the PfastreXML paper. Memory: (n_features + n_labels) ·
    n_components floats.

    Parameters
    ----------
    n_components : int, default 100
        Dimension of the embeddings.
    n_epochs : int, default 10
        Passes over all pairs of a row and a label.
    learning_rate : float, default 0.3
        Of the first pass; it falls linearly to zero.
    max_norm : float, default 3.0
        Greatest length of the vector of a feature or label: the regularisation.
    n_trials : int, default 256
        Labels that are tried at most.
    unit_rows, n_jobs, random_state
        As everywhere; the seed draws the start, the order and the trials.

    Attributes
    ----------
    feature_factors_ : float32 array (n_features, n_components + 1)
    intercepts_ : float32 array (n_components + 1,)
    label_factors_ : float32 array (n_components + 1, n_seen_labels); the last row is the offset of all scores
    seen_label_ids_ : int32 array (n_seen_labels,), labels with positives

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> model = lt.WSABIE(n_components=4).fit(np.eye(2), np.array([[1, 0, 1], [0, 1, 0]]))
    >>> model.predict_top_k([[0.0, 1.0]], top_k=1).label_ids
    array([[1]], dtype=int32)
    """

    n_components: Annotated[int, Int(1), Between(20, 500, log=True)] = 100
    n_epochs: Annotated[int, Int(1), Between(3, 30, log=True)] = 10
    learning_rate: Annotated[float, Real(0, above=True), Between(0.01, 1.0, log=True)] = 0.3
    max_norm: Annotated[float, Real(0, above=True), Between(0.5, 10.0, log=True)] = 3.0
    n_trials: Annotated[int, Int(1)] = 256

    _learn: ClassVar = staticmethod(learn_wsabie)
