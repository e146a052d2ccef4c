"""Measure everything that a report shows, as plain numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import metrics
from longtail import propensity as propensities
from longtail.report import labels as label_findings
from longtail.report.labels import Bin, LabelFinding
from longtail.report.reliability import Reliability, examine_reliability
from longtail.report.tail import TailPoint, examine_utilities

if TYPE_CHECKING:
    from longtail._model import Model

_BLOCK_ROWS = 2048
TABLE_KS = (1, 3, 5)


@dataclass(frozen=True)
class Timing:
    """How long ranking took."""

    n_rows: int
    seconds: float
    n_jobs: int | None
    load_seconds: float | None = None
    size_bytes: int | None = None

    @property
    def rows_per_second(self) -> float:
        """Rows ranked in one second, texts vectorised included."""
        return self.n_rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Findings:
    """Everything a report shows; lists are ordered and cut, counts are whole."""

    card: dict[str, Any]
    n_rows: int
    n_labels: int
    n_true: int
    n_unknown: int
    top_k: int
    table: dict[str, dict[int, float]]
    curves: dict[str, dict[int, float]]
    bins: list[Bin]
    n_labels_in_test: int
    n_never_predicted: int
    n_true_never_predicted: int
    never_predicted: list[LabelFinding]
    n_over_predicted: int
    over_predicted: list[LabelFinding]
    best: list[LabelFinding]
    worst: list[LabelFinding]
    reliability: Reliability | None
    timing: Timing
    tail: metrics.TailEvaluation | None = None
    utilities: list[TailPoint] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def examine(
    model: Model,
    rows: Any,
    labels: Any,
    *,
    propensity: str = "default",
    top_k: int = 5,
    max_k: int = 10,
    name_of: Callable[[str], str] | None = None,
    load_seconds: float | None = None,
    size_bytes: int | None = None,
) -> Findings:
    """Measure a model on labelled rows.

    Parameters
    ----------
    model : Tagger or fitted estimator
    rows : texts for a Tagger; otherwise a matrix as for ``predict_top_k``
    labels : lists of label names for a Tagger; otherwise a 0/1 matrix (n_rows, n_labels)
    propensity : "default", "wikipedia" or "amazon"
        Model of how likely a relevant label is to be in the truth.
    top_k : int, default 5
        What counts as predicted in all findings about single labels.
    max_k : int, default 10
        Curves go from 1 to this.
    name_of : callable(label), optional
        What to call a label, for a model with a vocabulary.
    load_seconds, size_bytes : optional
        What the caller knows of the saved model; shown as it is.

    Returns
    -------
    Findings
    """
    encoded, n_unknown = model.encode(labels)
    Y = _labels(encoded)
    names = [name_of(label) for label in model.label_names_] if name_of else model.label_names_ or None
    if Y.shape[0] == 0:
        raise ValueError("report: the data has no rows; there is nothing to measure")
    card = model.card()
    top_k = min(top_k, Y.shape[1])
    max_k = max(max_k, top_k, *TABLE_KS)
    label_ids, seconds = _rank(model, rows, max_k)
    known = propensities.from_counts(model.label_counts_, model.n_rows_, preset=propensity)
    evaluation = metrics.evaluate(label_ids, Y, propensity=known, ks=range(1, max_k + 1))
    counts = label_findings.count(label_ids[:, :top_k], Y, model.label_counts_, known)
    never, over = counts.never_predicted(), counts.over_predicted()
    show = label_findings.Shower(counts, label_ids[:, :top_k], Y, names, rows if model.takes_texts else None)
    best, worst = counts.best_and_worst()
    return Findings(
        card=card,
        n_rows=Y.shape[0],
        n_labels=Y.shape[1],
        n_true=int(Y.nnz),
        n_unknown=n_unknown,
        top_k=top_k,
        table={name: {k: values[k] for k in TABLE_KS} for name, values in evaluation.table.items()},
        curves=evaluation.table,
        bins=counts.bins(),
        n_labels_in_test=int((counts.n_true > 0).sum()),
        n_never_predicted=len(never),
        n_true_never_predicted=int(counts.n_true[never].sum()),
        never_predicted=show.findings(never, examples="missed"),
        n_over_predicted=len(over),
        over_predicted=show.findings(over, examples="wrong"),
        best=show.findings(best, examples="found"),
        worst=show.findings(worst, examples="missed"),
        reliability=examine_reliability(model, rows, Y, max_k),
        tail=metrics.evaluate_tail(label_ids, Y, model.label_counts_, top_k, propensity=known),
        utilities=examine_utilities(model, rows, Y, top_k, known),
        timing=Timing(Y.shape[0], seconds, card["parameters"]["n_jobs"], load_seconds, size_bytes),
    )


def _labels(labels: Any) -> sp.csr_array:
    """Bring labels into scipy's own index types, which its operations on two matrices need."""
    Y = sp.csr_array(labels)
    return sp.csr_array((np.ones(Y.nnz, dtype=np.float32), Y.indices, Y.indptr), shape=Y.shape)


def _rank(model: Model, rows: Any, top_k: int) -> tuple[NDArray[np.int32], float]:
    """Rank block by block, so that memory stays bounded; the first row is ranked once before the clock starts."""
    n_rows = len(rows) if isinstance(rows, Sequence) else rows.shape[0]
    model.predict_top_k(rows[:1], top_k)
    begin = time.perf_counter()
    blocks: Iterable[NDArray[np.int32]] = [
        model.predict_top_k(rows[first : first + _BLOCK_ROWS], top_k).label_ids
        for first in range(0, n_rows, _BLOCK_ROWS)
    ]
    return np.concatenate(list(blocks)), time.perf_counter() - begin
