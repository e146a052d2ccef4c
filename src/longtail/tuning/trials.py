"""Try parameters on held-out rows and keep the best."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail import metrics, propensity
from longtail._base import XMCClassifier
from longtail._matrices import Matrix, checked_labels
from longtail._progress import Progress, ProgressBar
from longtail._ranges import Range
from longtail._rules import Choice, Int, Nothing, Real, Rule, check_params, check_value
from longtail._topk import TopK
from longtail.tuning.log import Log, Trial
from longtail.tuning.search import Search, propose

_logger = logging.getLogger(__name__)
_RULES: dict[str, tuple[Rule, ...]] = {
    "n_trials": (Int(1),),
    "search": (Choice("random", "tpe"),),
    "validation_share": (Real(0.01, 0.9),),
    "timeout_seconds": (Nothing(), Real(0)),
    "random_state": (Int(0, 2**32 - 1),),
}


@dataclass(frozen=True)
class Tuning:
    """What a search found.

    Attributes
    ----------
    best_params : dict, the parameters of the best trial
    best_score : float, its measure in percent
    measure : str
    estimator : an estimator with these parameters, not fitted
    trials : list of Trial, in the order they were made
    """

    best_params: dict[str, Any]
    best_score: float
    measure: str
    estimator: XMCClassifier = field(repr=False)
    trials: list[Trial] = field(repr=False)


def tune(
    estimator: XMCClassifier,
    X: Any,
    y: Any,
    *,
    ranges: Mapping[str, Range] | None = None,
    n_trials: int = 30,
    measure: str = "P@5",
    search: Search = "tpe",
    validation_share: float = 0.2,
    log: str | os.PathLike[str] | None = None,
    timeout_seconds: float | None = None,
    random_state: int = 0,
    progress: Progress = None,
) -> Tuning:
    """Search for the parameters that rank held-out rows best.

    Parameters
    ----------
    estimator : an estimator
        Its other parameters stay as they are.
    X, y
        As for ``fit``.
    ranges : mapping of parameter name to Between or OneOf, optional
        Where to look; default: the ranges that the estimator's class declares.
    n_trials : int, default 30
        The first one tries the estimator as it is, if that lies in the ranges.
    measure : str, default "P@5"
        Any measure of `longtail.metrics.evaluate`, such as "nDCG@5" or, for the tail, "PSP@5".
    search : "tpe" or "random", default "tpe"
        Learn from earlier trials, or do not.
    validation_share : float, default 0.2
        Share of the rows that is held out, drawn once.
    log : path, optional
        A file that remembers every trial; a rerun with the same data and settings continues there.
    timeout_seconds : float, optional
        Begin no trial after this time.
    random_state : int, default 0
    progress : None, "bar" or callable(done, total)

    Returns
    -------
    Tuning

    Examples
    --------
    >>> import longtail as lt
    >>> from longtail.tuning import OneOf
    >>> data = lt.datasets.make_synthetic(n_rows=200, n_features=50, n_labels=10, labels_per_row=2)
    >>> lt.tune(lt.Popularity(), data.X, data.Y, ranges={"random_state": OneOf(0, 1)}, n_trials=2).measure
    'P@5'
    """
    owner = type(estimator).__name__
    given = {
        "n_trials": n_trials,
        "search": search,
        "validation_share": validation_share,
        "timeout_seconds": timeout_seconds,
        "random_state": random_state,
    }
    check_params("tune", given, _RULES)
    check_measure(measure)
    where = _checked_ranges(estimator, ranges)
    matrix, _ = estimator._training_rows(X)
    Y = checked_labels(owner, y, matrix.shape[0]).Y
    rows = np.random.default_rng([random_state, 0]).permutation(matrix.shape[0])
    n_held_out = max(1, round(validation_share * len(rows)))
    held_out, kept = np.sort(rows[:n_held_out]), np.sort(rows[n_held_out:])
    parts = _Parts(matrix[kept], Y[kept], matrix[held_out], Y[held_out])
    header = {
        "longtail_tune": 1,
        "estimator": repr(estimator),
        "ranges": {name: repr(found) for name, found in where.items()},
        "measure": measure,
        "search": search,
        "validation_share": validation_share,
        "random_state": random_state,
        "data": _fingerprint(matrix, Y),
    }
    is_inside = all(found.holds(getattr(estimator, name)) for name, found in where.items())
    history = Log(log, header) if log is not None else _Memory()
    begin = time.monotonic()
    bar = ProgressBar("tune", "trials") if progress == "bar" else progress
    for number in range(len(history.trials), n_trials):
        if timeout_seconds is not None and time.monotonic() - begin > timeout_seconds:
            break
        random = np.random.default_rng([random_state, 1, number])
        params = propose(search, where, _usable(history.trials), random) if number or not is_inside else {}
        trial = _try(estimator, params, parts, measure)
        complete = {name: getattr(estimator, name) for name in where} | trial.params
        history.add(Trial(complete, trial.score, trial.seconds, trial.error))
        _logger.info("trial %d: %s %s = %s", number, complete, measure, trial.score)
        if bar is not None and bar(number + 1, n_trials) is False:
            break
    if isinstance(bar, ProgressBar):
        bar.close()
    return _best(estimator, history.trials, measure)


class _Memory:
    """Trials that are not kept on disk."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []

    def add(self, trial: Trial) -> None:
        self.trials.append(trial)


@dataclass(frozen=True)
class _Parts:
    X: Matrix
    Y: sp.csr_array
    X_held_out: Matrix
    Y_held_out: sp.csr_array


def check_measure(measure: str) -> None:
    """Refuse an unknown measure before the first training, not after it."""
    one = TopK(np.zeros((1, 5), np.int32) - 1, np.zeros((1, 5), np.float32))
    known = list(metrics.evaluate(one, sp.csr_array(np.ones((1, 1), np.float32)), propensity=np.ones(1)))
    if measure not in known:
        raise ValueError(f"tune: no metric {measure!r}; measure must be one of {', '.join(known)}")


def _checked_ranges(estimator: XMCClassifier, ranges: Mapping[str, Range] | None) -> dict[str, Range]:
    owner = type(estimator).__name__
    where = dict(estimator._ranges if ranges is None else ranges)
    if not where:
        raise ValueError(
            f"tune: {owner} declares no ranges; name some: ranges={{'name': Between(low, high)}}, or --range"
        )
    for name, found in where.items():
        if name not in estimator.get_params(deep=False):
            raise ValueError(f"tune: {owner} has no parameter {name!r}")
        for share in (0.0, np.nextafter(1.0, 0.0)):
            check_value(f"tune: {owner}", name, found.at(float(share)), estimator._rules[name])
    return where


def _try(estimator: XMCClassifier, params: dict[str, Any], parts: _Parts, measure: str) -> Trial:
    begin = time.perf_counter()
    try:
        model = _with_params(estimator, params).fit(parts.X, parts.Y)
    except (ValueError, RuntimeError, MemoryError) as error:
        _logger.warning("%s with %s failed: %s", type(estimator).__name__, params, error)
        return Trial(params, None, time.perf_counter() - begin, str(error) or type(error).__name__)
    seconds = time.perf_counter() - begin
    chances = propensity.from_counts(model.label_counts_, model.n_rows_)
    found = metrics.evaluate(model.predict_top_k(parts.X_held_out, 5), parts.Y_held_out, propensity=chances)
    return Trial(params, float(found[measure]), round(seconds, 3))


def _with_params(estimator: XMCClassifier, params: Mapping[str, Any]) -> XMCClassifier:
    made: XMCClassifier = type(estimator)(**{**estimator.get_params(deep=False), **params})
    return made


def _usable(trials: list[Trial]) -> list[tuple[dict[str, Any], float]]:
    """Give failed trials a score below all others, so that the search keeps away from them."""
    worst = min((trial.score for trial in trials if trial.score is not None), default=0.0)
    return [(trial.params, trial.score if trial.score is not None else worst - 1) for trial in trials]


def _best(estimator: XMCClassifier, trials: list[Trial], measure: str) -> Tuning:
    done = [(trial.score, -number) for number, trial in enumerate(trials) if trial.score is not None]
    if not done:
        reason = trials[-1].error if trials else "the time was over before the first"
        raise ValueError(f"tune: no trial of {type(estimator).__name__} came to an end: {reason}")
    score, number = max(done)
    params = trials[-number].params
    return Tuning(params, score, measure, _with_params(estimator, params), list(trials))


def _fingerprint(X: Matrix, Y: sp.csr_array) -> str:
    digest = hashlib.sha256(repr((X.shape, Y.shape)).encode())
    arrays = [X] if isinstance(X, np.ndarray) else [X.indptr, X.indices, X.data]
    for array in [*arrays, Y.indptr, Y.indices]:
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()
