"""Measures that count every label alike, however rare: what a ranking does for the tail."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._csr import CsrParts
from longtail.metrics import _inputs
from longtail.metrics._inputs import LabelMatrix, Rankings

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_COLUMNS = ("label_id", "n_rows", "n_given", "n_hits", "precision", "recall", "f1", "balanced_accuracy")


@dataclass(frozen=True)
class LabelTable:
    """What a ranking does for each label, over the k best labels of each row.

    Attributes
    ----------
    n_rows : int64 array (n_labels,), rows that have the label
    n_given : int64 array (n_labels,), rows that have it among their k best
    n_hits : int64 array (n_labels,), rows where both hold
    total_rows : int
    k : int, or the most labels that a row was given (`decision_table`)
    """

    n_rows: Ints
    n_given: Ints
    n_hits: Ints
    total_rows: int
    k: int

    @property
    def precision(self) -> Floats:
        """Share of hits among the rows that were given the label, per label; 0 where it was never given."""
        return np.asarray(self.n_hits / np.maximum(self.n_given, 1))

    @property
    def recall(self) -> Floats:
        """Share of hits among the rows that have the label, per label; 0 where none has it."""
        return np.asarray(self.n_hits / np.maximum(self.n_rows, 1))

    @property
    def f1(self) -> Floats:
        """Harmonic mean of precision and recall, per label."""
        return np.asarray(2 * self.n_hits / np.maximum(self.n_given + self.n_rows, 1))

    @property
    def balanced_accuracy(self) -> Floats:
        """Mean of the recall and of the share of the other rows that were not given the label, per label."""
        others = self.total_rows - self.n_rows
        wrong = self.n_given - self.n_hits
        specificity = np.where(others > 0, 1 - wrong / np.maximum(others, 1), 1.0)
        return np.asarray((self.recall + specificity) / 2)

    @property
    def coverage(self) -> Floats:
        """1 for labels that were given correctly at least once, 0 for the others."""
        return (self.n_hits > 0).astype(np.float64)

    @property
    def occurs(self) -> NDArray[np.bool_]:
        """Whether any row has the label; means are over these."""
        return self.n_rows > 0

    def mean(self, name: str, among: NDArray[np.bool_] | None = None) -> float:
        """Return the mean of a measure over labels that occur, in percent.

        Measures are "precision", "recall", "f1", "balanced_accuracy" and "coverage".
        """
        chosen = self.occurs if among is None else self.occurs & among
        values: Floats = getattr(self, name)[chosen]
        # The exact sum, rounded once: it does not depend on the order of labels.
        return 100 * math.fsum(values) / len(values) if len(values) else 0.0

    def micro(self, name: str) -> float:
        """Return "precision", "recall" or "f1" of all pairs of row and label together, in percent."""
        given, true, hits = (int(counts.sum()) for counts in (self.n_given, self.n_rows, self.n_hits))
        parts = {"precision": (hits, given), "recall": (hits, true), "f1": (2 * hits, given + true)}
        if name not in parts:
            raise ValueError(f"micro: name must be one of {', '.join(parts)}, got {name!r}")
        share, whole = parts[name]
        return 100 * share / max(1, whole)

    def rows(self, label_names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return one dict per label that occurs or was given, in the order of their ids."""
        measures = {name: getattr(self, name) for name in _COLUMNS[4:]}
        found = []
        for label_id in np.flatnonzero((self.n_rows > 0) | (self.n_given > 0)).tolist():
            row: dict[str, Any] = {"label_id": label_id}
            if label_names is not None:
                row["label"] = label_names[label_id]
            row |= {name: int(getattr(self, name)[label_id]) for name in _COLUMNS[1:4]}
            row |= {name: round(float(values[label_id]), 6) for name, values in measures.items()}
            found.append(row)
        return found

    def to_csv(self, label_names: Sequence[str] | None = None) -> str:
        """Return `rows` as CSV text."""
        columns = list(_COLUMNS)
        if label_names is not None:
            columns.insert(1, "label")
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows(label_names))
        return text.getvalue()

    def to_json(self, label_names: Sequence[str] | None = None) -> str:
        """Return `rows` as JSON text."""
        return json.dumps(self.rows(label_names))


def label_table(top: Rankings, Y: LabelMatrix, k: int = 5) -> LabelTable:
    """Count, for each label, the rows that have it, that are given it, and both.

    Parameters
    ----------
    top : TopK, int array of shape (n_rows, at least k) or sparse score matrix of shape (n_rows, n_labels)
        Ranked label ids of each row, best first, padded with -1.
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
    k : int, default 5

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import label_table
    >>> table = label_table(np.array([[0], [0], [1]]), np.array([[1, 0], [0, 1], [0, 1]]), k=1)
    >>> table.n_hits.tolist(), table.f1.round(2).tolist()
    ([1, 1], [0.67, 0.67])
    """
    return ranked_entries(top, Y, _inputs.check_k("k", k)).table()


def decision_table(decided: LabelMatrix, Y: LabelMatrix) -> LabelTable:
    """Count the same for yes/no decisions, such as those of `predict`: precision and recall without any k.

    Parameters
    ----------
    decided, Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import decision_table
    >>> table = decision_table(np.array([[1, 1, 0], [0, 1, 0]]), np.array([[1, 0, 1], [0, 1, 0]]))
    >>> table.precision.tolist(), table.recall.tolist(), round(table.micro("precision"), 1)
    ([1.0, 0.5, 0.0], [1.0, 1.0, 0.0], 66.7)
    """
    given, true = _inputs.as_labels(decided), _inputs.as_labels(Y)
    shapes = [(labels.n_rows, labels.n_cols) for labels in (given, true)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"decided has shape {shapes[0]}, Y has shape {shapes[1]}; they must be the same")
    given_pairs, true_pairs = (
        np.repeat(np.arange(labels.n_rows, dtype=np.int64), np.diff(labels.indptr)) * labels.n_cols + labels.indices
        for labels in (given, true)
    )
    hits = np.intersect1d(given_pairs, true_pairs, assume_unique=True) % max(1, true.n_cols)
    n_true, n_given, n_hits = (
        np.bincount(ids, minlength=true.n_cols).astype(np.int64) for ids in (true.indices, given.indices, hits)
    )
    return LabelTable(n_true, n_given, n_hits, true.n_rows, int(np.diff(given.indptr).max(initial=0)))


class Entries(NamedTuple):
    """Pairs of row and label: those that are true, those that are given, and those that are both."""

    true_rows: Ints
    true_labels: NDArray[np.int32]
    given_rows: Ints
    given_labels: NDArray[np.int32]
    is_hit: NDArray[np.bool_]  # of each given pair
    n_rows: int
    n_labels: int
    k: int

    def table(self, weights: Ints | None = None) -> LabelTable:
        """Count the pairs by label; `weights` says how often each row counts."""

        def count(row_ids: Ints, label_ids: NDArray[np.int32]) -> Ints:
            counts = None if weights is None else weights[row_ids]
            return np.bincount(label_ids, counts, self.n_labels).astype(np.int64)

        hits = count(self.given_rows[self.is_hit], self.given_labels[self.is_hit])
        true, given = count(self.true_rows, self.true_labels), count(self.given_rows, self.given_labels)
        return LabelTable(true, given, hits, self.n_rows if weights is None else int(weights.sum()), self.k)


def ranked_entries(top: Rankings, Y: LabelMatrix, k: int) -> Entries:
    """Collect the pairs of a ranking and of the truth."""
    labels = _inputs.as_labels(Y)
    _inputs.check_shapes(top, labels)
    row_ids, label_ids, hits = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.bool_)]
    for first, last, ranked in _inputs.ranked_blocks(top, k, _core.Control()):
        _check_ids(ranked, labels.n_cols)
        rows, ranks = np.nonzero(ranked >= 0)
        row_ids.append(rows + first)
        label_ids.append(ranked[rows, ranks])
        hits.append(_is_hit(ranked, labels.rows(first, last))[rows, ranks])
    return Entries(
        true_rows=np.repeat(np.arange(labels.n_rows, dtype=np.int64), np.diff(labels.indptr)),
        true_labels=labels.indices,
        given_rows=np.concatenate(row_ids),
        given_labels=np.concatenate(label_ids),
        is_hit=np.concatenate(hits),
        n_rows=labels.n_rows,
        n_labels=labels.n_cols,
        k=k,
    )


def macro_precision_at_k(top: Rankings, Y: LabelMatrix, k: int = 5) -> float:
    """Return the mean precision over the labels that occur in Y, in percent; a label never given counts 0."""
    return label_table(top, Y, k).mean("precision")


def macro_recall_at_k(top: Rankings, Y: LabelMatrix, k: int = 5) -> float:
    """Return the mean recall over the labels that occur in Y, in percent."""
    return label_table(top, Y, k).mean("recall")


def macro_f1_at_k(top: Rankings, Y: LabelMatrix, k: int = 5) -> float:
    """Return the mean F1 over the labels that occur in Y, in percent.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import macro_f1_at_k
    >>> round(macro_f1_at_k(np.array([[0], [0], [1]]), np.array([[1, 0], [0, 1], [0, 1]]), k=1), 2)
    66.67
    """
    return label_table(top, Y, k).mean("f1")


def balanced_accuracy_at_k(top: Rankings, Y: LabelMatrix, k: int = 5) -> float:
    """Return the mean balanced accuracy over the labels that occur in Y, in percent."""
    return label_table(top, Y, k).mean("balanced_accuracy")


class Interval(NamedTuple):
    """A measure with its confidence interval."""

    value: float
    low: float
    high: float


def confidence_interval(
    measure: Callable[[NDArray[np.int32], Any], float],
    top: Any,
    Y: Any,
    *,
    level: float = 0.95,
    n_resamples: int = 200,
    random_state: int = 0,
) -> Interval:
    """Estimate how much a measure would vary over other rows of the same kind: a bootstrap over rows.

    Parameters
    ----------
    measure : callable(label_ids, Y) -> float
        For example ``lambda top, Y: macro_f1_at_k(top, Y, 5)``.
    top : TopK or int array (n_rows, k)
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
    level : float, default 0.95
    n_resamples : int, default 200
    random_state : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import confidence_interval, precision_at_k
    >>> top, Y = np.array([[0], [1]] * 50), np.array([[1, 0], [1, 0]] * 50)
    >>> found = confidence_interval(lambda top, Y: precision_at_k(top, Y, 1), top, Y)
    >>> found.low < found.value == 50.0 < found.high
    True
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level!r}")
    label_ids = np.asarray(getattr(top, "label_ids", top))
    rows = Y.tocsr() if _inputs.is_sparse(Y) else np.asarray(Y)
    random = np.random.default_rng(random_state)
    values = []
    for _ in range(_inputs.check_k("n_resamples", n_resamples)):
        drawn = random.integers(0, len(label_ids), len(label_ids))
        values.append(measure(label_ids[drawn], rows[drawn]))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(measure(label_ids, rows)), float(low), float(high))


def _check_ids(label_ids: NDArray[np.int32], n_labels: int) -> None:
    if label_ids.size and (label_ids.min() < -1 or label_ids.max() >= n_labels):
        raise ValueError(
            f"top must hold label ids from -1 to {n_labels - 1}, got {label_ids.min()} to {label_ids.max()}"
        )
    ordered = np.sort(label_ids, axis=1)
    if ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any():
        raise ValueError("top must name a label at most once per row, but one comes twice")


def _is_hit(label_ids: NDArray[np.int32], labels: CsrParts) -> NDArray[np.bool_]:
    known = labels.keys()
    if not len(known):
        return np.zeros(label_ids.shape, dtype=np.bool_)
    asked = np.arange(labels.n_rows, dtype=np.int64)[:, None] * labels.n_cols + label_ids
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.asarray((known[at] == asked) & (label_ids >= 0))
