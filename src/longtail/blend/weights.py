"""Bring the rankings of several estimators together, and learn how much each of them counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail._topk import TopK
from longtail.calibration import Calibration

Floats = NDArray[np.float64]

_MAX_STEPS = 50
_RIDGE = 1.0


class Candidates(NamedTuple):
    """The labels that any estimator proposes for each row, and the log-odds that each estimator gives them."""

    label_ids: NDArray[np.int32]  # (n_rows, n_candidates), rising in each row, padded with -1 at the end
    log_odds: Floats  # (n_estimators, n_rows, n_candidates)


def gather(tops: list[TopK], calibrations: list[Calibration]) -> Candidates:
    """Join rankings of the same rows.

    A label that an estimator has not ranked is below its least ranked score: it gets the log-odds of that score.
    """
    joined = np.sort(np.concatenate([top.label_ids for top in tops], axis=1), axis=1)
    is_new = (joined >= 0) & np.concatenate([np.ones((len(joined), 1), bool), np.diff(joined, axis=1) > 0], axis=1)
    width = max(1, int(is_new.sum(axis=1).max(initial=0)))
    order = np.argsort(~is_new, axis=1, kind="stable")[:, :width]
    kept = np.take_along_axis(is_new, order, axis=1)
    label_ids = np.where(kept, np.take_along_axis(joined, order, axis=1), -1).astype(np.int32)
    odds = [
        log_odds_of(calibration, label_ids, scores_of(label_ids, top, calibration))
        for top, calibration in zip(tops, calibrations, strict=True)
    ]
    return Candidates(label_ids, np.stack(odds))


def scores_of(label_ids: NDArray[np.int32], top: TopK, calibration: Calibration) -> NDArray[np.float32]:
    """Return the scores of labels in a ranking of the same rows; of those that are not ranked, the least one."""
    is_ranked = top.label_ids >= 0
    # A row with padding has no label left above score 0, or whatever the least score of the estimator is.
    least = np.where(is_ranked.all(axis=1), top.scores.min(axis=1, initial=np.inf), calibration.score_knots_[0])
    n_labels = len(calibration.label_counts_)
    first_keys = np.arange(len(label_ids), dtype=np.int64)[:, None] * (n_labels + 1) + 1
    order = np.argsort(top.label_ids, axis=1, kind="stable")
    keys = (first_keys + np.take_along_axis(top.label_ids, order, axis=1)).ravel()
    scores = np.take_along_axis(top.scores, order, axis=1).ravel()
    asked = first_keys + label_ids
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    is_there = (keys[at] == asked) & (label_ids >= 0)
    return np.where(is_there, scores[at], least[:, None]).astype(np.float32)


def log_odds_of(calibration: Calibration, label_ids: NDArray[np.int32], scores: NDArray[np.float32]) -> Floats:
    """Return the calibrated log-odds of labels with these scores."""
    proba = np.clip(calibration.proba(label_ids, scores).astype(np.float64), 1e-7, 1 - 1e-7)
    return np.asarray(np.log(proba) - np.log1p(-proba))


def features_of(candidates: Candidates, label_counts: NDArray[np.int64]) -> Floats:
    """Return one row of features per candidate: the log-odds, these times log(1 + rows of the label), that, and 1.

    Which estimator is right more often depends on how frequent a label is.
    """
    log_counts = _log_counts_of(candidates.label_ids, label_counts)
    odds = candidates.log_odds
    return np.stack([*odds, *(odds * log_counts), log_counts, np.ones_like(log_counts)], axis=-1)


def shares_of(coefficients: Floats, n_estimators: int, log_counts: Floats) -> tuple[list[Floats], Floats]:
    """Return how much the log-odds of each estimator count for labels of these frequencies, and what is added to them.

    Blends that were saved earlier have no coefficients of products with frequencies.
    """
    own, products = coefficients[:n_estimators], coefficients[n_estimators:-2]
    if not len(products):
        products = np.zeros(n_estimators)
    shares = [a + b * log_counts for a, b in zip(own.tolist(), products.tolist(), strict=True)]
    return shares, coefficients[-2] * log_counts + coefficients[-1]


def _log_counts_of(label_ids: NDArray[np.int32], label_counts: NDArray[np.int64]) -> Floats:
    return np.asarray(np.log1p(label_counts.astype(np.float64))[np.maximum(label_ids, 0)])


def fit_logistic(features: Floats, hits: NDArray[np.bool_]) -> Floats:
    """Fit the coefficients of `features_of` by Newton's method, with a weak pull to the mean of the log-odds."""
    n_features = features.shape[1]
    n_estimators = (n_features - 2) // 2
    start = np.zeros(n_features)
    start[:n_estimators] = 1 / n_estimators
    coefficients, y = start.copy(), hits.astype(np.float64)
    for _ in range(_MAX_STEPS):
        proba = 0.5 * (1 + np.tanh(0.5 * (features @ coefficients)))
        weights = proba * (1 - proba)
        gradient = features.T @ (proba - y) + _RIDGE * (coefficients - start)
        hessian = (features * weights[:, None]).T @ features + _RIDGE * np.eye(n_features)
        step = np.linalg.solve(hessian, gradient)
        coefficients -= step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-8:
            break
    return coefficients


def blended(candidates: Candidates, label_counts: NDArray[np.int64], coefficients: Floats, top_k: int) -> TopK:
    """Rank the candidates by the probability of the blend."""
    shares, z = shares_of(coefficients, len(candidates.log_odds), _log_counts_of(candidates.label_ids, label_counts))
    for share, log_odds in zip(shares, candidates.log_odds, strict=True):
        z += share * log_odds
    proba = (0.5 * (1 + np.tanh(0.5 * z))).astype(np.float32)
    proba[candidates.label_ids < 0] = -1
    # Candidates are in the order of their ids, so a stable sort breaks ties by the lower id.
    order = np.argsort(-proba, axis=1, kind="stable")[:, :top_k]
    label_ids = np.take_along_axis(candidates.label_ids, order, axis=1)
    scores = np.where(label_ids >= 0, np.take_along_axis(proba, order, axis=1), 0).astype(np.float32)
    n_missing = top_k - label_ids.shape[1]
    beside = ((0, 0), (0, max(0, n_missing)))
    return TopK(np.pad(label_ids, beside, constant_values=-1), np.pad(scores, beside))
