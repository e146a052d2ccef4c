"""Rank by probability times inverse propensity to a power, from as few candidates as are needed."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._cancel import current_control
from longtail._topk import TopK
from longtail.calibration.surface import Floats, Surface, left_and_share
from longtail.propensity import from_counts

_BOUNDS_PER_KNOT = 8
_NO_BOUNDS = np.empty(0, np.float32), np.zeros(1, np.float32)


class Curves(NamedTuple):
    """From scores to log-odds, for each number of training rows that a label has; see cpp/decisions/shortlist.hpp."""

    curve_of_label: NDArray[np.int32]
    score_knots: Floats
    log_odds: Floats  # (n_curves, n_score_knots)
    weights: Floats  # (n_curves,), inverse propensities
    mean_log_odds: Floats  # (n_score_knots,), the mean over all frequencies


class Ranked(NamedTuple):
    """Labels of each row, best first, with what they were ranked by and their places among the candidates."""

    label_ids: NDArray[np.int32]
    values: NDArray[np.float32]
    places: NDArray[np.int32]
    is_open: NDArray[np.bool_]  # of each row: more candidates could change it


class Valued(NamedTuple):
    """The labels of each row with the greatest values of their scores, best first."""

    label_ids: NDArray[np.int32]
    values: NDArray[np.float32]
    scores: NDArray[np.float32]


def curves_of(surface: Surface, label_counts: NDArray[np.int64], n_training_rows: int) -> Curves:
    """Cut a surface at every number of training rows that occurs."""
    counts, curve_of_label = np.unique(label_counts, return_inverse=True)
    knots = surface.count_knots
    left, share = left_and_share(np.clip(np.log1p(counts), knots[0], knots[-1]), knots)
    low, high = surface.log_odds[left], surface.log_odds[left + 1]
    return Curves(
        curve_of_label.astype(np.int32),
        surface.score_knots,
        np.ascontiguousarray(low + share[:, None] * (high - low)),
        1 / from_counts(counts, n_training_rows),
        surface.log_odds.mean(axis=0),
    )


class PowerRule:
    """The ranking for one power. Everything that does not depend on rows is computed once."""

    def __init__(self, curves: Curves, power: float, share: float = 1.0) -> None:
        self.whole, self.power, self.share = curves, power, share
        self.curves = curves
        if share < 1:
            mean = curves.mean_log_odds
            self.curves = curves._replace(log_odds=np.ascontiguousarray(mean + share * (curves.log_odds - mean)))
        self.slopes: NDArray[np.float32] = (curves.weights**power).astype(np.float32)

    def rank(self, top: TopK, top_k: int, *, is_sorted: bool, n_threads: int) -> Ranked:
        """Rank candidates; see `Calibration.rank_by_power`."""
        bound_scores, bounds = self._bounds if is_sorted else _NO_BOUNDS
        curves = self.curves
        label_ids, values, places, is_open = _core.rank_calibrated(
            np.ascontiguousarray(top.label_ids),
            np.ascontiguousarray(top.scores),
            curves.curve_of_label,
            curves.score_knots,
            curves.log_odds,
            self.slopes,
            bound_scores,
            bounds,
            top_k,
            n_threads,
            current_control(),
        )
        return Ranked(label_ids, values, places, is_open.astype(np.bool_))

    @cached_property
    def table(self) -> _core.ValueTable:
        """The values of labels, for estimators that rank by them in one pass."""
        return _core.ValueTable(*self.curves[:3], self.slopes)

    def __reduce__(self) -> tuple[type[PowerRule], tuple[Curves, float, float]]:
        return PowerRule, (self.whole, self.power, self.share)

    @cached_property
    def _bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Rising scores, and the greatest value that any label with at most each of them can have."""
        curves = self.curves
        ends = curves.score_knots[[0, -1]] + np.ptp(curves.score_knots) * np.array([-1, 1])
        knots = np.array([ends[0], *curves.score_knots, ends[1]])
        places = np.linspace(0, len(knots) - 1, _BOUNDS_PER_KNOT * (len(knots) - 1) + 1)
        scores = np.unique(np.interp(places, np.arange(len(knots)), knots).astype(np.float32))
        left, share = left_and_share(scores.astype(np.float64), curves.score_knots)
        log_odds = curves.log_odds[:, left] * (1 - share) + curves.log_odds[:, left + 1] * share
        proba = (0.5 * (1 + np.tanh(0.5 * log_odds))).astype(np.float32)
        bounds = (proba * self.slopes[:, None]).max(axis=0)
        return scores, np.append(bounds, self.slopes.max()).astype(np.float32)
