"""What each feature adds to the score of a blend: the explanations of its estimators, brought to one scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail._contributions import Contributions
from longtail._matrices import Matrix
from longtail._topk import TopK
from longtail.blend.weights import Floats, log_odds_of, scores_of, shares_of


def blended_contributions(
    models: list[XMCClassifier], tops: list[TopK], coefficients: Floats, x_row: Matrix, label_id: int
) -> Contributions | None:
    """Explain the score of one label; None if one of the estimators cannot.

    The probability of a blend is a curve over a sum of curves over the scores of its estimators. What a curve does
    between the score without features and the score of the row is shared out in proportion to what each feature adds
    to the score. The values add up to the score of the blend; they are shares of it, not terms.

    Parameters
    ----------
    models : the estimators
    tops : the ranking of each of them for this row, as deep as the blend uses it
    coefficients : those of the blend
    x_row : one row as the blend gets it
    label_id : int
    """
    wanted = np.array([[label_id]], dtype=np.int32)
    feature_ids: list[NDArray[Any]] = []
    values: list[Floats] = []
    log_count = np.log1p(np.asarray(models[0].label_counts_[label_id], dtype=np.float64))
    shares, rest = shares_of(coefficients, len(models), log_count)
    bias = float(rest)
    for model, top, share in zip(models, tops, shares, strict=True):
        fitted = model._whole()
        found = model._contributions(fitted, model._prepared(fitted.facts, x_row), label_id)
        if found is None:
            return None
        # Not found.score: a label far down counts as the last one that the estimator has ranked.
        score = scores_of(wanted, top, model.calibration_)
        first, last = (
            float(share) * float(log_odds_of(model.calibration_, wanted, at)[0, 0])
            for at in (np.array([[found.bias]], dtype=np.float32), score)
        )
        bias += first
        feature_ids.append(np.asarray(found.feature_ids))
        values.append(_shared_out(np.asarray(found.values, dtype=np.float64), last - first))
        bias += last - first - float(values[-1].sum())  # where no feature adds anything
    ids, places = np.unique(np.concatenate(feature_ids), return_inverse=True)
    sums = np.asarray(np.bincount(places, np.concatenate(values), len(ids)), dtype=np.float64)
    first, last = _sigmoid(bias), _sigmoid(bias + float(sums.sum()))
    return Contributions(ids, _shared_out(sums, last - first), first, last, exact=False)


def _shared_out(values: Floats, total: float) -> Floats:
    """Scale values so that they add up to a total; zeros if they cancel out."""
    found = float(values.sum())
    if abs(found) <= 1e-9 * float(np.abs(values).sum()):
        return np.zeros_like(values)
    return values * (total / found)


def _sigmoid(z: float) -> float:
    return float(0.5 * (1 + np.tanh(0.5 * z)))
