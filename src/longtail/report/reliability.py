"""Compare calibrated probabilities with how often labels are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from longtail._model import Model
from longtail.calibration import expected_calibration_error
from longtail.calibration.errors import reliability

_MAX_ROWS = 20_000
_BLOCK_ROWS = 2048


@dataclass(frozen=True)
class Reliability:
    """Proposed labels grouped by their probability; a calibrated model is as often right as it says."""

    n_pairs: int
    ece: float  # expected calibration error, in percent
    mean_proba: list[float]  # of each non-empty bin, in percent
    share_true: list[float]
    counts: list[int]
    auto: AutoChoice | None


@dataclass(frozen=True)
class AutoChoice:
    """What ``threshold="auto"`` gives: how many labels, how good."""

    labels_per_row: float
    true_per_row: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Micro-averaged F1, in percent."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def examine_reliability(model: Model, inputs: Any, Y: sp.csr_array, top_k: int) -> Reliability | None:
    """Compare probabilities with the truth over the `top_k` best labels of the first rows; None if uncalibrated."""
    if model.calibration_ is None:
        return None
    inputs = inputs[:_MAX_ROWS]
    ids = {name: label_id for label_id, name in enumerate(model.label_names_ or range(Y.shape[1]))}
    probas: list[float] = []
    is_true: list[bool] = []
    n_rows = n_chosen = n_right = n_true = 0
    for first in range(0, min(_MAX_ROWS, Y.shape[0]), _BLOCK_ROWS):
        block = inputs[first : first + _BLOCK_ROWS]
        chosen = model.propose(block, top_k=top_k, threshold="auto")
        for row, tags in enumerate(model.propose(block, top_k=top_k), first):
            truth = set(Y.indices[Y.indptr[row] : Y.indptr[row + 1]].tolist())
            probas += [tag.proba or 0.0 for tag in tags]
            is_true += [ids[tag.label] in truth for tag in tags]
            n_chosen += len(chosen[row - first])
            n_right += sum(ids[tag.label] in truth for tag in chosen[row - first])
            n_true += len(truth)
            n_rows += 1
    auto = AutoChoice(
        labels_per_row=n_chosen / n_rows,
        true_per_row=n_true / n_rows,
        precision=100 * n_right / n_chosen if n_chosen else 0.0,
        recall=100 * n_right / n_true if n_true else 0.0,
    )
    bins = reliability(probas, is_true)
    return Reliability(
        len(probas),
        100 * expected_calibration_error(probas, is_true),
        (100 * bins.mean_proba).tolist(),
        (100 * bins.hit_share).tolist(),
        bins.n_pairs.tolist(),
        auto,
    )
