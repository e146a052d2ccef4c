"""Findings about single labels: how frequent they are, and how often they are found, missed or over-predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

_BIN_FIRSTS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)  # training rows per label, bin by bin
_MIN_TRUE = 5  # with fewer test rows, the score of a single label is noise
_MIN_PREDICTED = 10
_N_SHOWN = 12
_N_BEST = 10
_N_LOOKED_AT = 50
_EXCERPT_CHARS = 180

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Bin:
    """Labels that were about equally frequent in training."""

    first: int
    last: int | None  # half-open; None: no end
    n_labels: int
    n_labels_in_test: int
    n_labels_found: int
    n_true: int
    n_found: int
    n_predicted: int
    found_share_scored: float

    @property
    def title(self) -> str:
        """The range of training rows, as text."""
        if self.last is None:
            return f"{self.first:,}+"
        return f"{self.first:,}" if self.last == self.first + 1 else f"{self.first:,}–{self.last - 1:,}"

    @property
    def recall(self) -> float:
        """Share of the true labels that stand in the top k, in percent."""
        return 100 * self.n_found / self.n_true if self.n_true else 0.0

    @property
    def precision(self) -> float:
        """Share of the predictions that are right, in percent."""
        return 100 * self.n_found / self.n_predicted if self.n_predicted else 0.0

    @property
    def coverage(self) -> float:
        """Share of the labels of the test data that were found at least once, in percent."""
        return 100 * self.n_labels_found / self.n_labels_in_test if self.n_labels_in_test else 0.0


@dataclass(frozen=True)
class LabelFinding:
    """One label of a table, with one row as an example."""

    name: str
    n_train: int
    n_true: int
    n_predicted: int
    n_found: int
    example: str | None

    @property
    def f1(self) -> float:
        """Harmonic mean of the label's precision and recall, in percent."""
        total = self.n_true + self.n_predicted
        return 200 * self.n_found / total if total else 0.0


@dataclass(frozen=True)
class LabelCounts:
    """Rows of each label: in training, true, predicted, and both."""

    n_train: Ints
    n_true: Ints
    n_predicted: Ints
    n_found: Ints
    propensity: NDArray[np.float64]

    def bins(self) -> list[Bin]:
        """Group labels by their frequency in training; empty bins at both ends are left out."""
        lasts: list[int | None] = [*_BIN_FIRSTS[1:], None]
        bins = [self._bin(first, last) for first, last in zip(_BIN_FIRSTS, lasts, strict=True)]
        used = [i for i, group in enumerate(bins) if group.n_labels]
        return bins[used[0] : used[-1] + 1] if used else []

    def _bin(self, first: int, last: int | None) -> Bin:
        inside = (self.n_train >= first) & (self.n_train < last if last is not None else True)
        weighted_true = float((self.n_true / self.propensity)[inside].sum())
        weighted_found = float((self.n_found / self.propensity)[inside].sum())
        return Bin(
            first=first,
            last=last,
            n_labels=int(inside.sum()),
            n_labels_in_test=int((self.n_true[inside] > 0).sum()),
            n_labels_found=int((self.n_found[inside] > 0).sum()),
            n_true=int(self.n_true[inside].sum()),
            n_found=int(self.n_found[inside].sum()),
            n_predicted=int(self.n_predicted[inside].sum()),
            found_share_scored=100 * weighted_found / weighted_true if weighted_true else 0.0,
        )

    def never_predicted(self) -> Ints:
        """Labels of the test data that stand in no top k, most frequent first."""
        missing = np.flatnonzero((self.n_true > 0) & (self.n_predicted == 0))
        return missing[np.argsort(-self.n_true[missing], kind="stable")]

    def over_predicted(self) -> Ints:
        """Labels predicted more than twice as often as they are true, most wrong predictions first."""
        over = np.flatnonzero((self.n_predicted >= _MIN_PREDICTED) & (self.n_predicted > 2 * self.n_true))
        wrong = self.n_predicted[over] - self.n_found[over]
        return over[np.argsort(-wrong, kind="stable")]

    def best_and_worst(self) -> tuple[Ints, Ints]:
        """Labels by F1, among those frequent enough in the test data to tell; worst first in the second list."""
        known = np.flatnonzero(self.n_true >= _MIN_TRUE)
        f1 = 2 * self.n_found[known] / (self.n_true[known] + self.n_predicted[known])
        by_f1 = known[np.lexsort((-self.n_true[known], -f1))]
        n_shown = min(_N_BEST, len(known) // 2)
        if n_shown == 0:
            return by_f1, by_f1[:0]
        worst = known[np.lexsort((-self.n_true[known], f1))]
        return by_f1[:n_shown], worst[:n_shown]


def count(
    label_ids: NDArray[np.int32], Y: sp.csr_array, label_counts: Ints, propensity: NDArray[np.float64]
) -> LabelCounts:
    """Count true, predicted and found rows of each label; `label_ids` (n_rows, k) is padded with -1."""
    n_labels = Y.shape[1]
    predicted = _as_matrix(label_ids, n_labels)
    found = predicted.multiply(Y).tocsr()
    found.eliminate_zeros()

    def by_label(matrix: sp.csr_array) -> Ints:
        return np.bincount(matrix.indices, minlength=n_labels).astype(np.int64)

    return LabelCounts(
        np.asarray(label_counts, dtype=np.int64), by_label(Y), by_label(predicted), by_label(found), propensity
    )


def _as_matrix(label_ids: NDArray[np.int32], n_labels: int) -> sp.csr_array:
    row_ids, ranks = np.nonzero(label_ids >= 0)
    columns = label_ids[row_ids, ranks]
    return sp.csr_array((np.ones(len(columns), dtype=np.float32), (row_ids, columns)), shape=(len(label_ids), n_labels))


class Shower:
    """Turn label ids into rows of a table, each with an example that shows the finding."""

    def __init__(
        self,
        counts: LabelCounts,
        label_ids: NDArray[np.int32],
        Y: sp.csr_array,
        names: Sequence[str] | None,
        texts: Sequence[str] | None,
    ) -> None:
        self._counts = counts
        self._names = names
        self._texts = texts
        predicted = _as_matrix(label_ids, Y.shape[1])
        found = predicted.multiply(Y).tocsr()
        self._rows = {"found": found.tocsc(), "missed": (Y - found).tocsc(), "wrong": (predicted - found).tocsc()}
        for matrix in self._rows.values():
            matrix.eliminate_zeros()
        self._shown_rows: set[int] = set()

    def findings(self, label_ids: Ints, *, examples: Literal["found", "missed", "wrong"]) -> list[LabelFinding]:
        """Describe the first labels of a list."""
        counts = self._counts
        return [
            LabelFinding(
                name=self._names[i] if self._names is not None else f"label {i}",
                n_train=int(counts.n_train[i]),
                n_true=int(counts.n_true[i]),
                n_predicted=int(counts.n_predicted[i]),
                n_found=int(counts.n_found[i]),
                example=self._example(examples, i),
            )
            for i in label_ids[:_N_SHOWN].tolist()
        ]

    def _example(self, kind: str, label_id: int) -> str | None:
        matrix = self._rows[kind]
        begin, end = matrix.indptr[label_id], matrix.indptr[label_id + 1]
        if begin == end:
            return None
        row_ids = matrix.indices[begin:end].tolist()
        # A short text that is not an example of another label yet.
        row_id = min(
            row_ids[:_N_LOOKED_AT], key=lambda i: (i in self._shown_rows, abs(self._length(i) - _EXCERPT_CHARS))
        )
        self._shown_rows.add(row_id)
        return f"row {row_id:,}" if self._texts is None else _excerpt(self._texts[row_id])

    def _length(self, row_id: int) -> int:
        return 0 if self._texts is None else len(self._texts[row_id])


def _excerpt(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _EXCERPT_CHARS else flat[: _EXCERPT_CHARS - 1].rstrip() + "…"
