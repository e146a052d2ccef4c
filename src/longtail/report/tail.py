"""What each utility would buy and cost on this data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import metrics
from longtail._model import Model
from longtail._topk import TopK
from longtail.decisions import candidates_for, rank

_MAX_ROWS = 20_000
_BLOCK_ROWS = 2048
# From the most precise ranking to the one that favours rare labels most.
_CURVE = ("precision", "power:0.25", "power:0.5", "power:0.75", "psp")
_OTHERS = ("score", "balanced", "macro-f1", "macro-f1-by-row", "coverage")
_MAX_LOSS = 0.25


@dataclass(frozen=True)
class TailPoint:
    """The ranking for one utility, measured at `top_k`, in percent."""

    title: str
    is_on_curve: bool
    precision: float
    psp: float
    macro_f1: float
    coverage: float


def examine_utilities(
    model: Model, rows: Any, Y: sp.csr_array, top_k: int, propensity: NDArray[np.float64]
) -> list[TailPoint]:
    """Rank the first rows for every utility; nothing if the model is not calibrated."""
    calibration = model.calibration_
    if calibration is None:
        return []
    n_rows = min(_MAX_ROWS, Y.shape[0])
    Y = Y[:n_rows]
    top = _candidates(model, rows, n_rows, candidates_for(top_k, model.n_labels_))

    def point(title: str, utility: str, max_loss: float | None = None) -> TailPoint:
        ranked = rank(top, calibration, utility, top_k, max_loss=max_loss, propensity=propensity)
        found = metrics.evaluate(ranked, Y, propensity=propensity, ks=(top_k,))
        table = metrics.label_table(ranked, Y, top_k)
        is_hit = (table.n_hits > 0)[table.occurs]
        return TailPoint(
            title=title,
            is_on_curve=utility in _CURVE,
            precision=found[f"P@{top_k}"],
            psp=found[f"PSP@{top_k}"],
            macro_f1=table.mean("f1"),
            coverage=100 * float(is_hit.mean()) if len(is_hit) else 0.0,
        )

    return [
        *(point(utility, utility) for utility in (*_CURVE, *_OTHERS)),
        point(f"macro-f1, loss {_MAX_LOSS:g}", "macro-f1", _MAX_LOSS),
    ]


def _candidates(model: Model, rows: Any, n_rows: int, n_candidates: int) -> TopK:
    blocks: Sequence[TopK] = [
        model.predict_top_k(rows[first : min(first + _BLOCK_ROWS, n_rows)], n_candidates, utility="score")
        for first in range(0, n_rows, _BLOCK_ROWS)
    ]
    return TopK(np.concatenate([top.label_ids for top in blocks]), np.concatenate([top.scores for top in blocks]))
