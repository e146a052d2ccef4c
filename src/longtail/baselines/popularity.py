"""The constant ranking: the most frequent labels for every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix
from longtail._topk import TopK
from longtail._weighted import WeightedClassifier
from longtail.execution import Arrays, Params, Plan, Run, Shard

_LABELS_PER_TASK = 1 << 16


@dataclass(frozen=True, eq=False)
class Ranking(State):
    """Labels with positives, most frequent first, and their shares of the rows."""

    ranking: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
    shares: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True, min=0, max=1)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Ranking:
        found = new_ids[self.ranking]
        return Ranking(found[found >= 0], self.shares[found >= 0])

    def check(self, owner: str, facts: Facts) -> None:
        if len(self.ranking) != len(self.shares):
            raise ValueError(f"{owner}: ranking_ has {len(self.ranking)} labels, but shares_ has {len(self.shares)}")
        if len(self.ranking) and self.ranking.max() >= facts.n_labels:
            raise ValueError(
                f"{owner}: ranking_ names label {self.ranking.max()}, but there are {facts.n_labels} labels"
            )
        if len(np.unique(self.ranking)) != len(self.ranking):
            raise ValueError(f"{owner}: ranking_ must name a label once; the file is damaged")


@dataclass(kw_only=True, eq=False, repr=False)
class Popularity(WeightedClassifier):
    """Predict the most frequent labels of the training set for every row.

    The constant ranking of the PfastreXML paper (section 7): what a system must beat to have learnt anything.
    A label's score is the share of training rows that carry it. Memory: 8 bytes per label.

    Parameters
    ----------
    n_jobs, random_state
        Accepted like everywhere; the result does not depend on them.

    Attributes
    ----------
    ranking_ : int32 array (n_seen_labels,), labels with positives, most frequent first
    shares_ : float32 array (n_seen_labels,), their share of the training rows

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> Y = np.array([[1, 1, 0], [1, 0, 0]])
    >>> lt.Popularity().fit(np.ones((2, 4)), Y).predict_top_k(np.ones((1, 4)), top_k=2).label_ids
    array([[0, 1]], dtype=int32)
    """

    _State: ClassVar = Ranking

    def _fit(
        self, X: Matrix, Y: sp.csr_array, run: Run, *, row_weights: NDArray[np.float32] | None = None, **_options: Any
    ) -> Ranking:
        n_rows, n_labels = Y.shape
        if row_weights is not None:
            return _weighted(Y, row_weights.astype(np.float64))
        plan = Plan(
            owner="Popularity",
            unit="label ranges",
            task=count_labels,
            arrays={"label_ids": Y.indices},
            params={"n_labels": n_labels},
            n_tasks=max(1, -(-n_labels // _LABELS_PER_TASK)),
        )
        counts = np.concatenate([shard["counts"] for shard in run.map(plan)])
        by_count = np.argsort(-counts, kind="stable").astype(np.int32)
        seen = by_count[counts[by_count] > 0]
        return Ranking(seen, (counts[seen] / n_rows).astype(np.float32))

    def _top_k(self, fitted: Fitted[Ranking], X: Matrix, top_k: int) -> TopK:
        state = fitted.state
        n_found = min(top_k, len(state.ranking))
        label_ids = np.full((X.shape[0], top_k), -1, dtype=np.int32)
        scores = np.zeros((X.shape[0], top_k), dtype=np.float32)
        label_ids[:, :n_found] = state.ranking[:n_found]
        scores[:, :n_found] = state.shares[:n_found]
        return TopK(label_ids, scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


def _weighted(Y: sp.csr_array, weights: NDArray[np.float64]) -> Ranking:
    sums = np.bincount(Y.indices, weights=np.repeat(weights, np.diff(Y.indptr)), minlength=Y.shape[1])
    by_sum = np.argsort(-sums, kind="stable").astype(np.int32)
    seen = by_sum[sums[by_sum] > 0]
    return Ranking(seen, (sums[seen] / weights.sum()).astype(np.float32))


def count_labels(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Count the rows of each label in one range of labels."""
    first = task_id * _LABELS_PER_TASK
    last = min(first + _LABELS_PER_TASK, int(params["n_labels"] or 0))
    label_ids = arrays["label_ids"]
    in_range = label_ids[(label_ids >= first) & (label_ids < last)] - first
    return {"counts": np.bincount(in_range, minlength=last - first).astype(np.int64)}
