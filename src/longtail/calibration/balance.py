"""How much the default ranking may give to rare labels, judged on held-out rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._cancel import current_control
from longtail._topk import TopK
from longtail.calibration.state import proba_on
from longtail.calibration.surface import Floats, Surface
from longtail.propensity import from_counts

# Of precision at 1, 3 and 5 that the default ranking may lose to the scores, and to the probabilities.
_MOST_LOSS = 0.002
_MOST_LOSS_TO_PROBA = 0.001
# How sure the first of these must be, in standard errors: 98 % for each of the three.
_N_ERRORS = 2.0
# What frequencies say about probabilities, and half of it: less of it is true of a model with more training rows than
# of the one that is judged.
_SHARES = (1.0, 0.5, 0.0)
# Near 0 the loss grows with the square of the power.
_POWERS = tuple((step / 16) ** 2 for step in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16))
# Precision is judged at these numbers of labels.
_AT = np.array([1, 3, 5])


class Judged(NamedTuple):
    """Candidates of held-out rows by score, a surface learnt on other rows, and the truth."""

    surface: Surface
    top: TopK
    is_hit: NDArray[np.bool_]


class Balance(NamedTuple):
    """A ranking by probability · (inverse propensity)^power, with a share of what frequencies say."""

    share: float
    power: float


def balance(parts: list[Judged], label_counts: NDArray[np.int64], n_training_rows: int) -> Balance | None:
    """Return the ranking that gives rare labels most of those that lose hardly any precision; None if all may lose.

    The loss is one against the ranking by score, in precision at 1, 3 and 5: what was right counts, not what
    probabilities expect. These expect too much of their own ranking where labels of one frequency differ. Nor may rare
    labels use up what the probabilities have gained. What is to be great is propensity-scored precision at 1.
    """
    counts, group_of_label = np.unique(label_counts, return_inverse=True)
    weights = 1 / from_counts(counts, n_training_rows)
    slopes = (weights[:, None] ** np.array(_POWERS)).astype(np.float32)
    groups = group_of_label.astype(np.int32), slopes, weights
    n_rows = max(1, sum(len(part.is_hit) for part in parts))
    best, most_gain, most = None, _weight_by_score(parts, groups[0], weights), np.zeros(3)
    for share in _SHARES:
        losses, squares = np.zeros((2, len(_POWERS), len(_AT)), np.int64)
        gains = np.zeros(len(_POWERS))
        for part in parts:
            proba = proba_on(part.surface.flattened(share), label_counts, *part.top, n_threads=1)
            found = _judge(part, proba, *groups)
            losses, squares, gains = losses + found[0], squares + found[1], gains + found[2]
        means = losses / n_rows / _AT
        errors = np.sqrt(np.maximum(squares / n_rows / _AT**2 - means**2, 0) / n_rows)
        for power, mean, error, gain in zip(_POWERS, means, errors, gains, strict=True):
            if (share, power) == (1, 0):
                most = mean + _MOST_LOSS_TO_PROBA
            if gain > most_gain and (mean + _N_ERRORS * error <= _MOST_LOSS).all() and (mean <= most).all():
                best, most_gain = Balance(share, power), float(gain)
    return best


def _weight_by_score(parts: list[Judged], group_of_label: NDArray[np.int32], weights: Floats) -> float:
    """Return the weights of labels that are right and first by score, in total: added up as those of other rankings."""
    found = 0.0
    for part in parts:
        right = part.top.label_ids[part.is_hit[:, 0], 0]
        # A running sum, as the native code's: other orders round differently, and equal rankings must have equal sums.
        sums = np.cumsum(weights.astype(np.float32)[group_of_label[right]], dtype=np.float64)
        found += float(sums[-1]) if len(sums) else 0.0
    return found


def _judge(
    part: Judged,
    proba: NDArray[np.float32],
    group_of_label: NDArray[np.int32],
    slopes: NDArray[np.float32],
    weights: Floats,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return hits lost at 1, 3 and 5, their squares, and the weights of first hits, for each column of slopes."""
    is_hit = np.ascontiguousarray(part.is_hit).view(np.uint8)
    return _core.judge_powers(part.top.label_ids, proba, is_hit, group_of_label, slopes, weights, current_control())
