"""Fit the surface that maps a score and the frequency of its label to the log-odds that the label is right."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._cancel import current_control

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_N_SCORE_QUANTILES = 6
_N_COUNT_KNOTS = 6
# Knots nearer to each other than this share of the range of scores are one knot.
_LEAST_GAP = 1e-9
# Of the squared second derivatives, with both axes scaled to [0, 1].
_SMOOTHNESS = 0.3
# Of the squared slopes along log counts. Labels whose counts hardly differ must not be separated by them: a label that
# has a row more among the held-out ones has a row less in training.
_FLATNESS = 10.0
_LEAST_COUNT_GAP = 0.25
# Pulls every node to the overall log-odds: keeps them finite where scores separate hits from misses.
_RIDGE = 1e-3
_MAX_STEPS = 60
_TOLERANCE = 1e-5
_ROUNDING = 1e-7


class Surface(NamedTuple):
    """Log-odds at the nodes of a grid, bilinear between them; see cpp/decisions/surface.hpp."""

    score_knots: Floats
    count_knots: Floats
    log_odds: Floats  # (n_count_knots, n_score_knots)

    def flattened(self, share: float) -> Surface:
        """Return a surface that keeps a share of what frequencies say."""
        mean = self.log_odds.mean(axis=0)
        return self._replace(log_odds=mean + share * (self.log_odds - mean))


class Placed(NamedTuple):
    """Pairs of row and label on the grid of a surface; see cpp/decisions/surface_pairs.hpp."""

    score_knots: Floats
    count_knots: Floats
    pairs: _core.SurfacePairs
    penalty: Floats  # by node and node

    def fit(self, *, odd: bool | None = None, start: Surface | None = None) -> Surface:
        """Fit by penalised maximum likelihood; the log-odds never fall with the score.

        Parameters
        ----------
        odd : bool, optional
            Learn from the pairs of odd rows only, or only from those of even rows; from one hit at least.
        start : Surface, optional
            One on the same grid from which the search starts.
        """
        shape = len(self.count_knots), len(self.score_knots)
        log_odds = _rising_newton(self.pairs, odd, self.penalty, shape, None if start is None else start.log_odds)
        return Surface(self.score_knots, self.count_knots, log_odds)


def place_pairs(
    scores: NDArray[np.float32],
    log_counts: Floats,
    hits: NDArray[np.bool_],
    weights: NDArray[np.float32],
    is_odd: NDArray[np.bool_] | None = None,
) -> Placed:
    """Choose the knots of a grid, and find the places of pairs on it.

    Parameters
    ----------
    scores, log_counts, hits : arrays (n_pairs,)
        Score, log(1 + training rows of the label) and truth of each pair of row and label; at least one is a hit.
    weights : float32 array (n_pairs,)
        How many pairs each of them stands for. Those with weight 0 say where the scores are, but are not learnt from.
    is_odd : bool array (n_pairs,), optional
        Which of two halves each pair is in.
    """
    score_knots = _score_knots(scores, scores[hits])
    count_knots = _two_or_more(_quantiles(log_counts[hits], np.linspace(0, 1, _N_COUNT_KNOTS)), _LEAST_COUNT_GAP)
    halves = np.zeros(len(scores), np.uint8) if is_odd is None else is_odd.view(np.uint8)
    pairs = _core.SurfacePairs(scores, log_counts, hits.view(np.uint8), weights, halves, score_knots, count_knots)
    return Placed(score_knots, count_knots, pairs, _penalty(_spread(score_knots), count_knots))


def _score_knots(scores: NDArray[np.float32], hit_scores: NDArray[np.float32]) -> Floats:
    """Put knots where scores are, half of them where hits are: these are few, but decide every ranking."""
    everywhere = _quantiles(scores, np.linspace(0, 1, _N_SCORE_QUANTILES + 1))
    at_hits = _quantiles(hit_scores, (np.arange(_N_SCORE_QUANTILES) + 0.5) / _N_SCORE_QUANTILES)
    knots = np.concatenate([everywhere, at_hits])
    return _two_or_more(knots, _LEAST_GAP * float(np.ptp(knots)))


def _quantiles(x: NDArray[Any], shares: Floats) -> Floats:
    """Do what np.quantile does, which takes ten times as long as a sort of float32."""
    ordered, places = np.sort(x), shares * (len(x) - 1)
    left = np.minimum(places.astype(np.int64), max(0, len(x) - 2))
    low, high = ordered[left].astype(np.float64), ordered[np.minimum(left + 1, len(x) - 1)].astype(np.float64)
    return np.asarray(low + (places - left) * (high - low))


def _two_or_more(knots: Floats, least_gap: float) -> Floats:
    kept: list[float] = []
    for knot in np.sort(knots).tolist():
        if not kept or knot - kept[-1] > least_gap:
            kept.append(knot)
    return np.array(kept if len(kept) > 1 else [kept[0], kept[0] + max(1.0, abs(kept[0]))])


def left_and_share(x: Floats, knots: Floats) -> tuple[Ints, Floats]:
    """Return the knot before each number, and how far it is to the next one; below 0 or above 1 outside the knots."""
    left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    return left, np.asarray((x - knots[left]) / (knots[left + 1] - knots[left]))


def _spread(knots: Floats) -> Floats:
    """Return coordinates in [0, 1] for the penalty: the mean of a knot's number and of its place between the ends.

    Products of probabilities, such as those of a tree, are nearly all close to 0, and still differ in what they mean.
    """
    place = (knots - knots[0]) / (knots[-1] - knots[0])
    return np.asarray((np.linspace(0, 1, len(knots)) + place) / 2)


def _penalty(score_knots: Floats, count_knots: Floats) -> Floats:
    n_scores, n_counts = len(score_knots), len(count_knots)
    bends_of_scores, bends_of_counts = (_squares(_second_differences(knots)) for knots in (score_knots, count_knots))
    slopes = _squares(np.diff(np.eye(n_counts), axis=0) / np.sqrt(np.diff(count_knots))[:, None])
    along_scores = np.kron(np.eye(n_counts), _SMOOTHNESS * bends_of_scores)
    along_counts = np.kron(_SMOOTHNESS * bends_of_counts + _FLATNESS / n_scores * slopes, np.eye(n_scores))
    return np.asarray(along_scores + along_counts + _RIDGE * np.eye(n_scores * n_counts))


def _squares(differences: Floats) -> Floats:
    return np.asarray(differences.T @ differences)


def _second_differences(knots: Floats) -> Floats:
    """Return the change of slope at each inner knot times the root of the length it stands for."""
    gaps = np.diff((knots - knots[0]) / (knots[-1] - knots[0]))
    found = np.zeros((len(knots) - 2, len(knots)))
    for i, (left, right) in enumerate(pairwise(gaps.tolist())):
        found[i, i : i + 3] = np.array([1 / left, -1 / left - 1 / right, 1 / right]) * np.sqrt((left + right) / 2)
    return found


def _rising_newton(
    pairs: _core.SurfacePairs, odd: bool | None, penalty: Floats, shape: tuple[int, int], start: Floats | None
) -> Floats:
    """Minimise the penalised loss over surfaces whose steps along the score are >= 0: projected Newton on the steps."""
    n_pairs, n_hits = pairs.counts(odd)
    rate = (n_hits + 0.5) / (n_pairs + 1)
    base = float(np.log(rate / (1 - rate)))
    is_step = np.tile(np.arange(shape[1]) > 0, shape[0])
    steps = np.diff(np.full(shape, base) if start is None else start, axis=1, prepend=0.0).reshape(-1)

    def at(steps: Floats) -> tuple[float, Floats, Floats]:
        surface = np.cumsum(steps.reshape(shape), axis=1)
        loss, gradient, hessian = pairs.loss(surface, odd, current_control())
        nodes = surface.reshape(-1)
        pull = penalty @ (nodes - base)
        loss += 0.5 * float((nodes - base) @ pull)
        return loss, _by_steps(gradient + pull, shape), _by_steps(hessian + penalty, shape * 2)

    loss, gradient, hessian = at(steps)
    for _ in range(_MAX_STEPS):
        free = ~(is_step & (steps <= 0) & (gradient > 0))
        move = np.zeros_like(steps)
        move[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        size, new_loss = 1.0, np.inf
        while size > 1e-6:
            new = steps - size * move
            new[is_step] = np.maximum(new[is_step], 0)
            new_loss, new_gradient, new_hessian = at(new)
            # Losses are sums of rounded numbers: near the least one they rise and fall by chance.
            if new_loss <= loss * (1 + _ROUNDING):
                break
            size /= 2
        if new_loss > loss:
            break
        is_done = loss - new_loss <= _TOLERANCE * abs(new_loss)
        steps, loss, gradient, hessian = new, new_loss, new_gradient, new_hessian
        if is_done:
            break
    return np.cumsum(steps.reshape(shape), axis=1)


def _by_steps(derivatives: Floats, shape: tuple[int, ...]) -> Floats:
    """Return derivatives by steps from those by nodes: a step counts at its own node and at all after it."""
    found = derivatives.reshape(shape)
    for axis in range(1, len(shape), 2):
        backwards = (slice(None),) * axis + (slice(None, None, -1),)
        found = found[backwards].cumsum(axis)[backwards]
    return found.reshape(derivatives.shape)
