"""Rising curves from score to probability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail.calibration.pairs import Group


class Curve(NamedTuple):
    scores: NDArray[np.float32]
    proba: NDArray[np.float32]

    @classmethod
    def none(cls) -> Curve:
        return cls(np.empty(0, np.float32), np.empty(0, np.float32))


def fit_isotonic(group: Group) -> Curve:
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(y_min=0, y_max=1).fit(group.scores.astype(np.float64), group.hits.astype(np.float64))
    return Curve(fitted.X_thresholds_.astype(np.float32), fitted.y_thresholds_.astype(np.float32))


def fit_platt(group: Group) -> tuple[float, float]:
    """Fit Platt's sigmoid by Newton's method; his targets keep it finite where a score parts all hits from misses."""
    scores, hits = group.scores.astype(np.float64), group.hits
    n_hits, n_misses = int(hits.sum()), int((~hits).sum())
    targets = np.where(hits, (n_hits + 1) / (n_hits + 2), 1 / (n_misses + 2))
    scale = max(float(np.abs(scores).max(initial=0)), 1e-30)  # scores may be of any size
    x = scores / scale
    slope, intercept = 0.0, float(np.log((n_hits + 1) / (n_misses + 1)))
    loss = _log_loss(slope * x + intercept, targets)
    for _ in range(100):
        proba = sigmoid(slope * x + intercept)
        weights = proba * (1 - proba)
        g_slope, g_intercept = float((x * (proba - targets)).sum()), float((proba - targets).sum())
        a, b, c = float((weights * x * x).sum()) + 1e-9, float((weights * x).sum()), float(weights.sum()) + 1e-9
        determinant = max(a * c - b * b, 1e-300)
        step_slope = (c * g_slope - b * g_intercept) / determinant
        step_intercept = (a * g_intercept - b * g_slope) / determinant
        size = 1.0
        while size > 1e-8:
            new = (slope - size * step_slope, intercept - size * step_intercept)
            new_loss = _log_loss(new[0] * x + new[1], targets)
            if new_loss <= loss:
                break
            size /= 2
        else:
            break
        done = loss - new_loss <= 1e-10 * max(loss, 1.0)
        (slope, intercept), loss = new, new_loss
        if done:
            break
    return slope / scale, intercept


def sigmoid(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * z)))  # does not overflow


def _log_loss(z: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    return float((np.logaddexp(0, z) - targets * z).sum())
