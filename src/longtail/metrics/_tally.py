"""The running state of an evaluation: counts over rows, and counts of each label."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail import _core
from longtail._csr import CsrParts
from longtail._threads import resolve_n_jobs
from longtail.metrics import _inputs
from longtail.metrics._counts import Counts
from longtail.metrics._inputs import LabelMatrix, Propensities, Rankings
from longtail.metrics.macro import LabelTable


class Tally:
    """Counts over the ranks below each of `ks`, of all rows added so far."""

    def __init__(self, ks: Sequence[int], propensity: ArrayLike | None = None, *, n_jobs: int | None = None) -> None:
        self._ks = np.unique(ks)
        self.n_ranks = int(self._ks[-1])
        self._propensity = propensity
        self._label_weights: NDArray[np.float64] | None = None
        self.n_labels = -1
        self._n_threads = resolve_n_jobs(n_jobs)
        self._counts: Counts | None = None
        self._n_rows = np.zeros(0, dtype=np.int64)
        self._n_given = np.zeros((0, 0), dtype=np.int64)  # of ranks below the first of ks, from it to the second, …
        self._n_hits = np.zeros((0, 0), dtype=np.int64)

    @property
    def counts(self) -> Counts:
        if self._counts is None or self._counts.total_rows == 0:
            raise ValueError("there are no rows to evaluate")
        return self._counts

    def add(
        self,
        top: Rankings,
        Y: LabelMatrix,
        propensity: Propensities | None = None,
        n_relevant: ArrayLike | None = None,
    ) -> None:
        labels = _inputs.as_labels(Y)
        self._check_n_labels(labels.n_cols)
        _inputs.check_shapes(top, labels)
        label_weights, entry_weights = self._weights(propensity, labels)
        relevant = None if n_relevant is None else _inputs.as_n_relevant(n_relevant, labels.n_rows)
        if labels.n_rows == 0:
            return
        is_scored = label_weights is not None or entry_weights is not None
        if self._counts is not None and self._counts.is_scored != is_scored:
            raise ValueError("propensity must be given with every batch or with none")
        control = _core.Control()
        try:
            for first, last, label_ids in _inputs.ranked_blocks(top, self.n_ranks, control):
                block = labels.rows(first, last)
                weights = None if entry_weights is None else entry_weights[labels.indptr[first] :][: block.size]
                self._add_counts(
                    _core.count_hits(
                        label_ids,
                        block.n_cols,
                        block.indptr,
                        block.indices,
                        label_weights,
                        weights,
                        None if relevant is None else relevant[first:last],
                        self._n_threads,
                        control,
                    )
                )
                self._add_labels(label_ids, block)
        except _core.Cancelled:
            raise KeyboardInterrupt from None

    def coverage(self, k: int, *, correct_only: bool = False) -> float:
        """Percentage of the labels of Y that some row has among its k best."""
        table = self.labels(k)
        is_covered = table.occurs & ((table.n_hits if correct_only else table.n_given) > 0)
        n_occurring = int(table.occurs.sum())
        return 100.0 * int(is_covered.sum()) / n_occurring if n_occurring else 0.0

    def labels(self, k: int) -> LabelTable:
        """Return the counts of each label over the k best labels of each row; k is one of `ks`."""
        upto = int(np.searchsorted(self._ks, k)) + 1
        given, hits = self._n_given[:upto].sum(axis=0), self._n_hits[:upto].sum(axis=0)
        n_rows = 0 if self._counts is None else self._counts.total_rows
        return LabelTable(self._n_rows, given, hits, n_rows, k)

    def _check_n_labels(self, n_labels: int) -> None:
        if self.n_labels == -1:
            if n_labels == 0:
                raise ValueError("Y has no labels: it must have at least one column")
            self.n_labels = n_labels
            self._n_rows = np.zeros(n_labels, dtype=np.int64)
            self._n_given = np.zeros((len(self._ks), n_labels), dtype=np.int64)
            self._n_hits = np.zeros((len(self._ks), n_labels), dtype=np.int64)
        elif n_labels != self.n_labels:
            raise ValueError(f"Y has {n_labels} labels, but earlier batches had {self.n_labels}")

    def _weights(
        self, propensity: Propensities | None, labels: CsrParts
    ) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        if propensity is not None or self._propensity is None:
            return _inputs.as_weights(propensity, labels)
        if self._label_weights is None:  # checked once, not with every small batch
            self._label_weights, _ = _inputs.as_weights(self._propensity, labels)
        return self._label_weights, None

    def _add_counts(self, table: dict[str, Any]) -> None:
        before = [] if self._counts is None else [self._counts]
        self._counts = Counts.sum([*before, Counts(**table)])

    def _add_labels(self, label_ids: NDArray[np.int32], labels: CsrParts) -> None:
        _core.add_label_counts(
            label_ids,
            labels.n_cols,
            labels.indptr,
            labels.indices,
            np.searchsorted(self._ks, np.arange(label_ids.shape[1]), side="right").astype(np.int32),
            self._n_rows,
            self._n_given.reshape(-1),
            self._n_hits.reshape(-1),
        )
