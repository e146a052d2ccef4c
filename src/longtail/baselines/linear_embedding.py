"""What the embedding baselines share: scores (x W + b) Hᵀ over the labels that have positives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._cancel import current_control
from longtail._contributions import Contributions
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix, canonical_csr
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail.baselines.shared_arrays import arrays_of, run_tasks
from longtail.execution import Run, Shard
from longtail.gbdt.projection import Dense, project


@dataclass(frozen=True, eq=False)
class LinearEmbedding(State):
    """Rows go to x W + b, labels to the columns of Hᵀ; their inner product is the score."""

    feature_factors: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]
    intercepts: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    label_factors: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]
    seen_label_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]

    def check(self, owner: str, facts: Facts) -> None:
        n_components = len(self.intercepts)
        expected = (facts.n_features_in, n_components)
        if self.feature_factors.shape != expected:
            raise ValueError(f"{owner}: feature_factors_ must have shape {expected}, got {self.feature_factors.shape}")
        expected = (n_components, len(self.seen_label_ids))
        if self.label_factors.shape != expected:
            raise ValueError(f"{owner}: label_factors_ must have shape {expected}, got {self.label_factors.shape}")
        self.check_labels(owner, facts)

    def check_labels(self, owner: str, facts: Facts) -> None:
        """Refuse labels that do not exist."""
        check_seen_labels(owner, self.seen_label_ids, facts)

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Self:
        found = new_ids[self.seen_label_ids]
        factors = np.ascontiguousarray(self.label_factors[:, found >= 0])
        return replace(self, label_factors=factors, seen_label_ids=found[found >= 0])

    def embed(self, X: Matrix, n_threads: int, control: _core.Control) -> Dense:
        """Return x W + b for every row."""
        return project(X, self.feature_factors, n_threads, control) + self.intercepts

    def labels_at(self, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the label ids of columns of `label_factors`; -1 stays."""
        if not len(self.seen_label_ids):
            return places
        return np.where(places >= 0, self.seen_label_ids[np.maximum(places, 0)], np.int32(-1))


def check_seen_labels(owner: str, seen_label_ids: NDArray[np.int32], facts: Facts) -> None:
    """Refuse labels that do not exist, or that are named twice."""
    if (np.diff(seen_label_ids) <= 0).any():
        raise ValueError(f"{owner}: seen_label_ids_ must increase; the file is damaged")
    if len(seen_label_ids) and seen_label_ids[-1] >= facts.n_labels:
        raise ValueError(f"{owner}: label {seen_label_ids[-1]} does not exist")


def seen_columns(Y: sp.csr_array) -> tuple[NDArray[np.int32], sp.csr_array]:
    """Return the labels with positives, and Y without the other columns."""
    seen, places = np.unique(Y.indices, return_inverse=True)
    columns = sp.csr_array((Y.data, places.astype(np.int32), Y.indptr), shape=(Y.shape[0], len(seen)))
    return seen.astype(np.int32), canonical_csr(columns)


class EmbeddingBaseline(XMCClassifier):
    """Base of the estimators whose state is a `LinearEmbedding`, learnt by one task, `_learn`."""

    _State: ClassVar = LinearEmbedding
    _learn: ClassVar[Callable[..., Shard]]

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> LinearEmbedding:
        (shard,) = run_tasks(self, run, type(self)._learn, "models", 1, arrays_of(X, Y))
        for name in ("feature_factors", "intercepts", "label_factors"):
            if not np.isfinite(shard[name]).all():
                owner = type(self).__name__
                raise ValueError(f"{owner}: {name}_ overflowed float32; scale X down, or set unit_rows=True")
        made: LinearEmbedding = self._State(**{name: np.array(array) for name, array in shard.items()})
        return made

    def _top_k(self, fitted: Fitted[LinearEmbedding], X: Matrix, top_k: int) -> TopK:
        n_threads, control = resolve_n_jobs(self.n_jobs), current_control()
        state = fitted.state
        Z = state.embed(X, n_threads, control)
        places, scores = _core.dense_product_top_k(Z, state.label_factors, top_k, n_threads, control)
        return TopK(state.labels_at(places), scores)

    def _contributions(self, fitted: Fitted[LinearEmbedding], x_row: Matrix, label_id: int) -> Contributions | None:
        """A feature adds its value times the product of the two factors: exact."""
        state = fitted.state
        row = sp.csr_array(x_row)
        place = np.flatnonzero(state.seen_label_ids == label_id)
        factors = state.label_factors[:, place].sum(axis=1, dtype=np.float64)
        values = row.data * (state.feature_factors[row.indices] @ factors)
        bias = float(state.intercepts @ factors)
        return Contributions(row.indices, values, bias, bias + float(values.sum()), exact=True)
