"""Move a surface as a whole: to the labels that are shown, and to a model that has more training rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail._topk import TopK
from longtail.calibration.state import proba_on
from longtail.calibration.surface import Floats, Surface

# Labels per row that are corrected for.
_N_SHOWN = 5
_RIDGE = 1.0
_MAX_STEPS = 30
_LEAST_SLOPE = 0.1
_LEAST_PROBA = 1e-6
# So many means of log-odds are as good as all pairs, of which there may be millions.
_BINS_PER_UNIT = 50


class Correction(NamedTuple):
    """What to add to log-odds: a constant, and a share of themselves."""

    constant: float
    slope: float

    def __call__(self, surface: Surface, share: float = 1.0) -> Surface:
        """Return the corrected surface, or one that is a share of the way there. It still rises with the score."""
        slope = max(_LEAST_SLOPE, 1 + share * self.slope)
        return surface._replace(log_odds=slope * surface.log_odds + share * self.constant)


def learn_correction(
    surface: Surface, label_counts: NDArray[np.int64], top: TopK, is_hit: NDArray[np.bool_]
) -> Correction:
    """Learn by logistic regression how the five best labels of each row differ from what a surface says of them."""
    best = TopK(top.label_ids[:, :_N_SHOWN], top.scores[:, :_N_SHOWN])
    is_label = best.label_ids >= 0
    proba = proba_on(surface, label_counts, *best, n_threads=1)[is_label].astype(np.float64)
    inside = np.clip(proba, _LEAST_PROBA, 1 - _LEAST_PROBA)
    log_odds = np.log(inside) - np.log1p(-inside)
    return Correction(*_fit_line(*_binned(log_odds, is_hit[:, :_N_SHOWN][is_label])))


def _binned(log_odds: Floats, is_hit: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Put pairs of nearly the same log-odds together: their mean, how many they are, and how many of them are hits."""
    bin_ids = (_BINS_PER_UNIT * (log_odds - log_odds.min(initial=0.0))).astype(np.int64)
    counts = np.bincount(bin_ids)
    used = counts > 0
    means = np.bincount(bin_ids, log_odds)[used] / counts[used]
    n_hits = np.bincount(bin_ids[is_hit], minlength=len(counts))[used]
    return means, counts[used].astype(np.float64), n_hits.astype(np.float64)


def _fit_line(log_odds: Floats, counts: Floats, hits: Floats) -> tuple[float, float]:
    """Return the constant and the slope to add, by Newton's method; a weak pull keeps them finite."""
    constant = slope = 0.0
    squared = log_odds * log_odds
    for _ in range(_MAX_STEPS):
        proba = 0.5 * (1 + np.tanh((0.5 * (1 + slope)) * log_odds + 0.5 * constant))
        expected = counts * proba
        weights, errors = expected * (1 - proba), expected - hits
        # Sums in place of products of vectors, for which a library would start threads.
        by_constant = float(errors.sum()) + _RIDGE * constant
        by_slope = float((errors * log_odds).sum()) + _RIDGE * slope
        cross, first = float((weights * log_odds).sum()), float(weights.sum()) + _RIDGE
        second = float((weights * squared).sum()) + _RIDGE
        scale = 1 / (first * second - cross * cross)
        steps = (second * by_constant - cross * by_slope) * scale, (first * by_slope - cross * by_constant) * scale
        longest = max(abs(step) for step in steps)
        size = min(1.0, 1.0 / max(longest, 1e-300))
        constant, slope = constant - size * steps[0], slope - size * steps[1]
        if longest < 1e-6:
            break
    return constant, slope
