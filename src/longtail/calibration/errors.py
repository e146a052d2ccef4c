"""How far probabilities are from what happens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Reliability(NamedTuple):
    """Probabilities beside what happened, by bins of equal width; empty bins are left out."""

    mean_proba: NDArray[np.float64]
    hit_share: NDArray[np.float64]
    n_pairs: NDArray[np.int64]


def expected_calibration_error(proba: ArrayLike, hits: ArrayLike, n_bins: int = 15) -> float:
    """Return the mean distance between probabilities and what happened, over bins of equal width.

    Parameters
    ----------
    proba : array of numbers in [0, 1]
    hits : array of bool, whether the label was right
    n_bins : int, default 15

    Examples
    --------
    >>> from longtail.calibration import expected_calibration_error
    >>> expected_calibration_error([0.8, 0.8, 0.8, 0.8], [True, True, True, False])  # 0.8 said, 0.75 happened
    0.05
    """
    bins = reliability(proba, hits, n_bins)
    n_pairs = int(bins.n_pairs.sum())
    error = float((bins.n_pairs * np.abs(bins.mean_proba - bins.hit_share)).sum()) / max(n_pairs, 1)
    return round(error, 12)


def brier_score(proba: ArrayLike, hits: ArrayLike) -> float:
    """Return the mean squared distance between probabilities and what happened.

    Examples
    --------
    >>> from longtail.calibration import brier_score
    >>> brier_score([1.0, 0.5], [True, False])
    0.125
    """
    return float(np.mean((np.asarray(proba, dtype=np.float64) - np.asarray(hits, dtype=np.float64)) ** 2))


def log_loss(proba: ArrayLike, hits: ArrayLike, least: float = 1e-6) -> float:
    """Return the mean negative log-likelihood of what happened; probabilities are kept `least` away from 0 and 1.

    Examples
    --------
    >>> from longtail.calibration import log_loss
    >>> round(log_loss([0.5, 0.5], [True, False]), 4)
    0.6931
    """
    inside = np.clip(np.asarray(proba, dtype=np.float64), least, 1 - least)
    return float(-np.mean(np.where(np.asarray(hits, dtype=bool), np.log(inside), np.log1p(-inside))))


def reliability(proba: ArrayLike, hits: ArrayLike, n_bins: int = 15) -> Reliability:
    """Compare probabilities with what happened, by bins of equal width: the numbers of a reliability plot."""
    flat = np.asarray(proba, dtype=np.float64).ravel()
    happened = np.asarray(hits, dtype=np.float64).ravel()
    if flat.shape != happened.shape:
        raise ValueError(f"proba and hits must have the same length, got {len(flat)} and {len(happened)}")
    if len(flat) and not (flat.min() >= 0 and flat.max() <= 1):
        raise ValueError(f"proba must be in [0, 1], got {flat.min()} to {flat.max()}")
    bin_ids = np.minimum((flat * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(bin_ids, minlength=n_bins)
    used = counts > 0
    mean_proba = np.bincount(bin_ids, flat, n_bins)[used] / counts[used]
    hit_share = np.bincount(bin_ids, happened, n_bins)[used] / counts[used]
    return Reliability(mean_proba, hit_share, counts[used])
