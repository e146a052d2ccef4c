"""Fit the surface that maps a score and the frequency of its label to the log-odds that the label is right."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_N_SCORE_QUANTILES = 6
_N_COUNT_KNOTS = 6
# Knots nearer to each other than this share of the range of scores are one knot.
_LEAST_GAP = 1e-3
# Of the squared second derivatives, with both axes scaled to [0, 1]. Without bends left, the surface is the logistic
# regression on score, log count and their product.
_SMOOTHNESS = 0.3
# Of the squared slopes along log counts. Labels whose counts hardly differ must not be told apart by them: a label that
# has a row more among the held-out ones has a row less in training.
_FLATNESS = 10.0
_LEAST_COUNT_GAP = 0.25
# Pulls every node to the overall log-odds: keeps them finite where scores separate hits from misses.
_RIDGE = 1e-3
_MAX_STEPS = 60
_TOLERANCE = 1e-8


class Surface(NamedTuple):
    """Log-odds at the nodes of a grid, bilinear between them; see cpp/decisions/surface.hpp."""

    score_knots: Floats
    count_knots: Floats
    log_odds: Floats  # (n_count_knots, n_score_knots)


class _Cells(NamedTuple):
    """Where each pair lies: its cell, and its weights on the cell's four nodes."""

    cell_ids: Ints
    shares: Floats  # (4, n_pairs)
    nodes: Ints  # (4, n_cells)

    def log_odds(self, at_nodes: Floats) -> Floats:
        return np.asarray((at_nodes[self.nodes[:, self.cell_ids]] * self.shares).sum(axis=0))


def fit_surface(scores: NDArray[np.float32], log_counts: NDArray[np.float64], hits: NDArray[np.bool_]) -> Surface:
    """Fit by penalised maximum likelihood; the log-odds never fall with the score.

    Parameters
    ----------
    scores, log_counts, hits : arrays (n_pairs,)
        Score, log(1 + training rows of the label) and truth of each pair of row and label; at least one is a hit.
    """
    x, y = scores.astype(np.float64), hits.astype(np.float64)
    score_knots = _score_knots(x, x[hits])
    count_knots = _two_or_more(np.quantile(log_counts[hits], np.linspace(0, 1, _N_COUNT_KNOTS)), _LEAST_COUNT_GAP)
    cells = _place(x, log_counts, score_knots, count_knots)
    penalty = _penalty(score_knots, count_knots)
    at_nodes = _rising_newton(cells, y, penalty, len(score_knots), len(count_knots))
    return Surface(score_knots, count_knots, at_nodes.reshape(len(count_knots), len(score_knots)))


def _score_knots(scores: Floats, hit_scores: Floats) -> Floats:
    """Put knots where scores are, half of them where hits are: these are few, but decide every ranking."""
    everywhere = np.quantile(scores, np.linspace(0, 1, _N_SCORE_QUANTILES + 1))
    at_hits = np.quantile(hit_scores, (np.arange(_N_SCORE_QUANTILES) + 0.5) / _N_SCORE_QUANTILES)
    knots = np.concatenate([everywhere, at_hits])
    return _two_or_more(knots, _LEAST_GAP * float(np.ptp(knots)))


def _two_or_more(knots: Floats, least_gap: float) -> Floats:
    kept: list[float] = []
    for knot in np.sort(knots).tolist():
        if not kept or knot - kept[-1] > least_gap:
            kept.append(knot)
    return np.array(kept if len(kept) > 1 else [kept[0], kept[0] + max(1.0, abs(kept[0]))])


def _place(x: Floats, log_counts: Floats, score_knots: Floats, count_knots: Floats) -> _Cells:
    n_scores, n_counts = len(score_knots), len(count_knots)
    column, s = _left_and_share(x, score_knots)
    row, n = _left_and_share(np.clip(log_counts, count_knots[0], count_knots[-1]), count_knots)
    cells = np.arange((n_counts - 1) * (n_scores - 1))
    corner = cells // (n_scores - 1) * n_scores + cells % (n_scores - 1)
    return _Cells(
        cell_ids=row * (n_scores - 1) + column,
        shares=np.stack([(1 - s) * (1 - n), s * (1 - n), (1 - s) * n, s * n]),
        nodes=np.stack([corner, corner + 1, corner + n_scores, corner + n_scores + 1]),
    )


def _left_and_share(x: Floats, knots: Floats) -> tuple[Ints, Floats]:
    left = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    return left, np.asarray((x - knots[left]) / (knots[left + 1] - knots[left]))


def _penalty(score_knots: Floats, count_knots: Floats) -> Floats:
    n_scores, n_counts = len(score_knots), len(count_knots)
    along_scores = np.kron(np.eye(n_counts), _second_differences(score_knots))
    along_counts = np.kron(_second_differences(count_knots), np.eye(n_scores))
    bends = along_scores.T @ along_scores + along_counts.T @ along_counts
    slopes = np.kron(np.diff(np.eye(n_counts), axis=0) / np.sqrt(np.diff(count_knots))[:, None], np.eye(n_scores))
    flat = slopes.T @ slopes / n_scores
    return np.asarray(_SMOOTHNESS * bends + _FLATNESS * flat + _RIDGE * np.eye(n_scores * n_counts))


def _second_differences(knots: Floats) -> Floats:
    """Return the change of slope at each inner knot times the root of the length it stands for."""
    gaps = np.diff((knots - knots[0]) / (knots[-1] - knots[0]))
    found = np.zeros((len(knots) - 2, len(knots)))
    for i, (left, right) in enumerate(pairwise(gaps.tolist())):
        found[i, i : i + 3] = np.array([1 / left, -1 / left - 1 / right, 1 / right]) * np.sqrt((left + right) / 2)
    return found


def _rising_newton(cells: _Cells, y: Floats, penalty: Floats, n_scores: int, n_counts: int) -> Floats:
    """Minimise the penalised loss over surfaces whose steps along the score are >= 0: projected Newton on the steps."""
    rate = (y.sum() + 0.5) / (len(y) + 1)
    base = float(np.log(rate / (1 - rate)))
    # Takes steps to values at the nodes.
    sums = np.asarray(np.kron(np.eye(n_counts), np.tril(np.ones((n_scores, n_scores)))), dtype=np.float64)
    is_step = np.tile(np.arange(n_scores) > 0, n_counts)
    steps = np.asarray(np.where(is_step, 0.0, base), dtype=np.float64)

    def loss_at(nodes: Floats) -> float:
        z = cells.log_odds(nodes)
        return float((np.logaddexp(0, z) - y * z).sum() + 0.5 * (nodes - base) @ penalty @ (nodes - base))

    loss = loss_at(sums @ steps)
    for _ in range(_MAX_STEPS):
        nodes: Floats = sums @ steps
        gradient, hessian = _derivatives(cells, y, nodes)
        gradient = sums.T @ (gradient + penalty @ (nodes - base))
        hessian = sums.T @ (hessian + penalty) @ sums
        free = ~(is_step & (steps <= 0) & (gradient > 0))
        move = np.zeros_like(steps)
        move[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        size, new_loss = 1.0, np.inf
        while size > 1e-6:
            new = steps - size * move
            new[is_step] = np.maximum(new[is_step], 0)
            new_loss = loss_at(sums @ new)
            if new_loss <= loss:
                break
            size /= 2
        if new_loss > loss:
            break
        is_done = loss - new_loss <= _TOLERANCE * abs(new_loss)
        steps, loss = new, new_loss
        if is_done:
            break
    # Added up from left to right, not by `sums`: a step of zero must not fall by rounding.
    return np.cumsum(steps.reshape(n_counts, n_scores), axis=1).reshape(-1)


def _derivatives(cells: _Cells, y: Floats, nodes: Floats) -> tuple[Floats, Floats]:
    proba = 0.5 * (1 + np.tanh(0.5 * cells.log_odds(nodes)))
    weights = proba * (1 - proba)
    gradient = np.zeros(len(nodes))
    hessian = np.zeros((len(nodes), len(nodes)))
    n_cells = cells.nodes.shape[1]
    for a in range(4):
        np.add.at(gradient, cells.nodes[a], np.bincount(cells.cell_ids, (proba - y) * cells.shares[a], n_cells))
        for b in range(4):
            products = np.bincount(cells.cell_ids, weights * cells.shares[a] * cells.shares[b], n_cells)
            np.add.at(hessian, (cells.nodes[a], cells.nodes[b]), products)
    return gradient, hessian
