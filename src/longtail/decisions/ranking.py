"""Rank calibrated candidates for a utility."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail import _core
from longtail._cancel import current_control
from longtail._topk import TopK, values_of
from longtail.calibration import Calibration
from longtail.calibration.power import Ranked, Valued
from longtail.decisions.utilities import Utility, parse_utility

# Called with row ids (None: all rows) and a number n, returns the n labels of each row with the best scores.
Candidates = Callable[[NDArray[np.int64] | None, int], TopK]
# Called with the values of labels and a number n, returns the n labels of each row with the greatest values.
ByValue = Callable[[_core.ValueTable, int], Valued]

# Labels per row that are ranked anew. Below the first hundred scores hardly any label is likely enough to come back.
_N_CANDIDATES = 100
# Labels per wanted one that are enough for nearly all rows: at power 0, and how many more at power 1.
_FIRST_PER_LABEL = 3
_FIRST_PER_POWER = 3
# Fewer rows say too little about how often a label is given: they are ranked by the rule learnt on held-out rows.
_LEAST_BATCH = 100
_MAX_PASSES = 30
_TOLERANCE = 1e-4
_N_BISECTIONS = 10


def candidates_for(top_k: int, n_labels: int) -> int:
    """Return how many of the best scores per row `rank` should see to choose `top_k` labels."""
    return min(n_labels, max(_N_CANDIDATES, 2 * top_k))


def rank(
    top: TopK,
    calibration: Calibration,
    utility: str = "balanced",
    top_k: int = 5,
    *,
    max_loss: float | None = None,
    propensity: ArrayLike | None = None,
    n_threads: int = 1,
) -> TopK:
    """Choose the labels of each row that serve a utility best.

    Parameters
    ----------
    top : TopK
        The candidates of each row, by score: about a hundred (`candidates_for`).
    calibration : Calibration
        Of the model that ranked them.
    utility : str, default "balanced"
        - ``"precision"``: the most probable labels.
        - ``"psp"``: propensity-scored precision; ranks by probability times inverse propensity.
        - ``"power:X"``: by probability · (inverse propensity)^X; 0 is "precision", 1 is "psp".
        - ``"balanced"``: with the greatest power that is as precise as the scores on held-out rows; by score if there
          is none.
        - ``"macro-f1"``, ``"coverage"``: expected macro-F1 at `top_k`, or expected share of labels that are given
          correctly at least once. The labels of all rows are chosen together, so a row's labels depend on the batch.
          With fewer than 100 rows, "macro-f1" is "macro-f1-by-row".
        - ``"macro-f1-by-row"``: macro-F1 by weights learnt on held-out rows for 1, 3, 5 or 10 labels per row,
          whichever is nearest to `top_k`; does not depend on other rows.
        - ``"score"``: the order of the scores.
    top_k : int, default 5
    max_loss : float, optional
        The largest loss of expected precision at `top_k`, in percentage points, that the utility may cost.
    propensity : array (n_labels,), optional
        Propensities to use in place of the standard model's (A = 0.55, B = 1.5).
    n_threads : int, default 1
        The result does not depend on it.

    Returns
    -------
    TopK
        Best first. The scores are what was ranked by: probability times weight, or the gain of the batch's measure;
        for "score" the scores.

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> from longtail.decisions import rank
    >>> scores = np.array([[0.9, 0.5]] * 50 + [[0.8, 0.2]] * 50, np.float32)
    >>> top = lt.TopK(np.tile(np.array([[0, 1]], np.int32), (100, 1)), scores)
    >>> Y = np.array([[1, 1]] * 30 + [[1, 0]] * 70)
    >>> calibration = lt.Calibration().fit(top, Y, label_counts=[900, 3], n_training_rows=1000)
    >>> rank(top, calibration, "precision", top_k=1).label_ids[0], rank(top, calibration, "psp", top_k=1).label_ids[0]
    (array([0], dtype=int32), array([1], dtype=int32))
    """
    _check(top, calibration, top_k, max_loss, parse_utility(utility))
    wanted = resolve_utility(utility, calibration)
    weights = calibration.inverse_propensities() if propensity is None else _inverse(propensity, calibration)
    if wanted.kind == "score":
        return _padded(TopK(top.label_ids[:, :top_k], top.scores[:, :top_k]), top_k)
    if wanted.kind == "power" and propensity is None and max_loss is None:
        return TopK(*calibration.rank_by_power(top, wanted.power, top_k, share=wanted.share, n_threads=n_threads)[:2])
    proba = TopK(np.ascontiguousarray(top.label_ids), calibration.proba(*top, n_threads=n_threads))
    is_small = wanted == parse_utility("macro-f1") and len(top.label_ids) < _LEAST_BATCH
    if wanted.kind == "row" or is_small:
        row_slopes, row_offsets = calibration.row_rule(top_k)

        def by_mix(mix: float) -> TopK:
            slopes = np.float32(mix) * row_slopes + np.float32(1 - mix)
            return _affine(proba, slopes, np.float32(mix) * row_offsets, top_k, n_threads)

        return by_mix(1.0) if max_loss is None else _within(max_loss, by_mix, 1.0, proba, top_k, n_threads)
    if wanted.kind == "batch":
        return _for_batch(proba, calibration, wanted, top_k, max_loss, n_threads)

    def by_power(power: float) -> TopK:
        if propensity is None:
            return TopK(*calibration.rank_by_power(top, power, top_k, share=wanted.share, n_threads=n_threads)[:2])
        return _affine(proba, (weights**power).astype(np.float32), None, top_k, n_threads)

    if max_loss is None:
        return by_power(wanted.power)
    return _within(max_loss, by_power, wanted.power, proba, top_k, n_threads)


def resolve_utility(utility: str, calibration: Calibration) -> Utility:
    """Return what "balanced" is for this calibration: a power, or the order of the scores; other utilities as named."""
    wanted = parse_utility(utility)
    if wanted.kind != "balanced":
        return wanted
    power = calibration.balanced_power_
    return Utility("score") if power is None else Utility("power", power, share=calibration.balanced_share_)


def rank_rows(
    candidates: Candidates,
    calibration: Calibration,
    utility: str,
    top_k: int,
    *,
    by_value: ByValue | None = None,
    max_loss: float | None = None,
    n_threads: int = 1,
) -> TopK:
    """Rank for a utility with as few candidates as are needed.

    Where every row is ranked by a weight times a probability, a few candidates per row are enough for almost all rows,
    and a bound shows for which: `Calibration.rank_by_power`. Only the others get the usual number. Estimators that
    score every label rank by value at once.

    Parameters
    ----------
    candidates : callable(row_ids or None, n) -> TopK
        Returns the n labels with the best scores of these rows (of all rows).
    by_value : callable(values, n) -> Valued, optional
        Returns the n labels of each row with the greatest values.
    calibration, utility, top_k, max_loss, n_threads
        As for `rank`.
    """
    found = rank_short(
        candidates, calibration, utility, top_k, by_value=by_value, max_loss=max_loss, n_threads=n_threads
    )
    if found is not None:
        return TopK(found.label_ids, found.values)
    top = candidates(None, candidates_for(top_k, len(calibration.label_counts_)))
    return rank(top, calibration, utility, top_k, max_loss=max_loss, n_threads=n_threads)


def rank_short(
    candidates: Candidates,
    calibration: Calibration,
    utility: str,
    top_k: int,
    *,
    by_value: ByValue | None = None,
    max_loss: float | None = None,
    n_threads: int = 1,
) -> Valued | None:
    """Do what `rank_rows` does where few candidates are enough, else return None; also return the scores of labels."""
    wanted = resolve_utility(utility, calibration)
    if wanted.kind != "power" or max_loss is not None:
        return None
    power, share = wanted.power, wanted.share
    if by_value is not None:
        return by_value(calibration.value_table(power, share), top_k)
    n_all = candidates_for(top_k, len(calibration.label_counts_))
    n_first = min(n_all, round((_FIRST_PER_LABEL + _FIRST_PER_POWER * min(power, 1)) * top_k))
    if n_first == n_all:
        return None
    top = candidates(None, n_first)
    found = calibration.rank_by_power(top, power, top_k, share=share, is_sorted=True, n_threads=n_threads)
    scores = _scores_at(found, top)
    if found.is_open.any():
        row_ids = np.flatnonzero(found.is_open)
        top = candidates(row_ids, n_all)
        again = calibration.rank_by_power(top, power, top_k, share=share, n_threads=n_threads)
        found.label_ids[row_ids], found.values[row_ids] = again.label_ids, again.values
        scores[row_ids] = _scores_at(again, top)
    return Valued(found.label_ids, found.values, scores)


def _scores_at(found: Ranked, top: TopK) -> NDArray[np.float32]:
    scores = np.take_along_axis(top.scores, np.maximum(found.places, 0), axis=1)
    return np.where(found.places >= 0, scores, np.float32(0))


def _for_batch(
    proba: TopK, calibration: Calibration, wanted: Utility, top_k: int, max_loss: float | None, n_threads: int
) -> TopK:
    n_rows = len(proba.label_ids)
    positives = (calibration.label_counts_ * (n_rows / calibration.n_training_rows_)).astype(np.float64)

    def by_mix(mix: float) -> TopK:
        is_coverage = wanted.measure == "coverage"
        label_ids, gains, *_ = _core.ascend(
            *proba, positives, is_coverage, top_k, mix, _MAX_PASSES, _TOLERANCE, current_control()
        )
        return TopK(label_ids, gains)

    return by_mix(1.0) if max_loss is None else _within(max_loss, by_mix, 1.0, proba, top_k, n_threads)


def _within(
    max_loss: float, choose: Callable[[float], TopK], greatest: float, proba: TopK, top_k: int, n_threads: int
) -> TopK:
    """Return the choice with the greatest strength that costs at most `max_loss` points of expected precision."""
    ones = np.ones(int(proba.label_ids.max(initial=0)) + 1, dtype=np.float32)
    most = float(_affine(proba, ones, None, top_k, n_threads).scores.sum(dtype=np.float64))
    budget = max_loss / 100 * proba.label_ids.shape[0] * top_k
    found = choose(greatest)
    if most - _sum_of_proba(found, proba) <= budget:
        return found
    low, high, found = 0.0, greatest, choose(0.0)
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        tried = choose(middle)
        if most - _sum_of_proba(tried, proba) <= budget:
            low, found = middle, tried
        else:
            high = middle
    return found


def _sum_of_proba(chosen: TopK, proba: TopK) -> float:
    return float(values_of(chosen.label_ids, proba).sum(dtype=np.float64))


def _affine(
    proba: TopK, slopes: NDArray[np.float32], offsets: NDArray[np.float32] | None, top_k: int, n_threads: int
) -> TopK:
    return TopK(*_core.rank_affine(*proba, slopes, offsets, top_k, n_threads, current_control())[:2])


def _padded(top: TopK, top_k: int) -> TopK:
    beside = ((0, 0), (0, top_k - top.label_ids.shape[1]))
    return TopK(np.pad(top.label_ids, beside, constant_values=-1), np.pad(top.scores, beside))


def _inverse(propensity: ArrayLike, calibration: Calibration) -> NDArray[np.float64]:
    values = np.asarray(propensity, dtype=np.float64)
    n_labels = len(calibration.label_counts_)
    if values.shape != (n_labels,) or not ((values > 0) & (values <= 1)).all():
        raise ValueError(f"rank: propensity must be one number in (0, 1] for each of {n_labels} labels")
    return 1 / values


def _check(top: TopK, calibration: Calibration, top_k: int, max_loss: float | None, wanted: Utility) -> None:
    if top.label_ids.ndim != 2 or top.label_ids.shape != top.scores.shape:
        raise ValueError(
            f"rank: top must hold label_ids and scores of shape (n_rows, n_candidates), "
            f"got {top.label_ids.shape} and {top.scores.shape}"
        )
    if top_k < 1:
        raise ValueError(f"rank: top_k must be an int >= 1, got {top_k!r}")
    if max_loss is not None and not 0 <= max_loss <= 100:
        raise ValueError(f"rank: max_loss must be in 0 .. 100 (points of precision), got {max_loss!r}")
    if max_loss is not None and wanted.kind == "score":
        raise ValueError("rank: max_loss must be None for this utility; use 'macro-f1', 'coverage', 'psp' or 'power:X'")
    if not hasattr(calibration, "thresholds_"):
        raise ValueError("rank: calibration must be fitted, got one that is not; call its fit(top, Y, ...) first")
