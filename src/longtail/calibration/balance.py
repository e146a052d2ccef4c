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
_TOP_K = 5


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
    weights = 1 / from_counts(label_counts, n_training_rows)
    before = [_Measured.of(part.top.label_ids, part.is_hit, weights) for part in parts]
    best, most_gain, most = None, 0.0, np.zeros(3)
    for share in _SHARES:
        probas = [
            TopK(part.top.label_ids, proba_on(part.surface.flattened(share), label_counts, *part.top, n_threads=1))
            for part in parts
        ]
        for power in _POWERS:
            slopes = (weights**power).astype(np.float32)
            after = [
                _Measured.of(*_ranked(part, proba, slopes), weights) for part, proba in zip(parts, probas, strict=True)
            ]
            losses = np.concatenate([old.precision - new.precision for old, new in zip(before, after, strict=True)])
            gain = sum(new.weight - old.weight for old, new in zip(before, after, strict=True))
            mean, errors = losses.mean(axis=0), losses.std(axis=0) / np.sqrt(max(1, len(losses)))
            if (share, power) == (1, 0):
                most = mean + _MOST_LOSS_TO_PROBA
            if gain > most_gain and (mean + _N_ERRORS * errors <= _MOST_LOSS).all() and (mean <= most).all():
                best, most_gain = Balance(share, power), gain
    return best


class _Measured(NamedTuple):
    """The precision at 1, 3 and 5 of each row (n_rows, 3), and the weights of first labels that are right, in total."""

    precision: Floats
    weight: float

    @classmethod
    def of(cls, label_ids: NDArray[np.int32], is_hit: NDArray[np.bool_], weights: Floats) -> _Measured:
        """Measure a ranking."""
        running = np.cumsum(is_hit[:, :_TOP_K], axis=1, dtype=np.float32)
        n_ranked = running.shape[1]
        precision = np.stack([running[:, min(k, n_ranked) - 1] / k for k in (1, 3, 5)], axis=1, dtype=np.float64)
        return cls(precision, float(weights[label_ids[:, 0][is_hit[:, 0]]].sum()))


def _ranked(part: Judged, proba: TopK, slopes: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Rank the candidates; also tell which labels are right."""
    label_ids, _, places = _core.rank_affine(*proba, slopes, None, _TOP_K, 1, current_control())
    return label_ids, (places >= 0) & np.take_along_axis(part.is_hit, np.maximum(places, 0), axis=1)
