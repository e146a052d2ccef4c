"""Training on the features that occur, so that what solvers keep for each feature does not grow with gaps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail._csr import csr_from_parts
from longtail._matrices import Matrix
from longtail.dismec.state import WeightIndex

SCRATCH_BYTES_PER_FEATURE = 1026  # of one thread: rounded weights of 64 labels and those of sixteen, a scatter


@dataclass(frozen=True, eq=False)
class OccurringFeatures:
    """Features that some row has, in increasing order, among `n_features`."""

    ids: NDArray[np.int32]
    n_features: int

    @classmethod
    def worth_numbering(cls, X: Matrix) -> OccurringFeatures | None:
        """Find the features that occur; None if most do, or if new ids would take more memory than they save."""
        if isinstance(X, np.ndarray) or SCRATCH_BYTES_PER_FEATURE * X.shape[1] <= 4 * X.nnz:
            return None
        occurs = np.zeros(X.shape[1], dtype=bool)
        occurs[X.indices] = True
        ids = np.flatnonzero(occurs).astype(np.int32)
        n_saved = X.shape[1] - len(ids)
        if 2 * n_saved <= X.shape[1] or SCRATCH_BYTES_PER_FEATURE * n_saved <= 4 * X.nnz:
            return None
        return cls(ids, X.shape[1])

    def numbered(self, X: Matrix) -> Matrix:
        """Return the rows with these features only, numbered from 0 in the same order."""
        return csr_from_parts(X.data, self._places(X.indices), X.indptr, (X.shape[0], len(self.ids)))

    def of_starts(self, own: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Number the features of starts (`label_prints.own_starts`); a feature that no row has ends at weight 0."""
        kept = np.flatnonzero(np.isin(own["own_feature_ids"], self.ids))
        return own | {
            "own_indptr": np.searchsorted(kept, own["own_indptr"]).astype(np.int64),
            "own_feature_ids": self._places(own["own_feature_ids"][kept]),
            "own_weights": own["own_weights"][kept],
        }

    def spread(self, index: WeightIndex) -> WeightIndex:
        """Return an index over these features as one over all."""
        counts = np.zeros(self.n_features + 1, dtype=np.int64)
        counts[1 + self.ids.astype(np.int64)] = np.diff(index.indptr)
        return replace(index, indptr=np.cumsum(counts, out=counts))

    def _places(self, feature_ids: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.searchsorted(self.ids, feature_ids).astype(np.int32)
