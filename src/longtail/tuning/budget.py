"""Search under a time budget: many trials on few rows, and only the best of them on more (successive halving)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail import metrics, propensity
from longtail._progress import Progress, ProgressBar
from longtail._ranges import Range
from longtail._rules import Int, Real, Rule, check_params, check_value
from longtail._words import counted
from longtail.execution import Stopped
from longtail.tuning.log import Trial
from longtail.tuning.search import propose
from longtail.tuning.trials import check_measure

_RULES: dict[str, tuple[Rule, ...]] = {
    "minutes": (Real(0, above=True),),
    "validation_share": (Real(0.01, 0.9),),
    "random_state": (Int(0, 2**32 - 1),),
}
# Successive halving: one trial in `_FACTOR` continues on the next level, with `_FACTOR` times the rows.
_FACTOR = 3
_N_LEVELS = 3
_MIN_ROWS = 200
_VALIDATION_SHARE = 0.2
TOO_LATE = "the time was over"
# How the message begins if not even the model as given can be trained; the reason follows.
UNTRAINABLE = "autotune: the model must train with the parameters as given, but "


@dataclass(frozen=True)
class Autotuning:
    """What a search under a time budget found.

    Attributes
    ----------
    best_params : dict, the parameters to use; empty if nothing beat the defaults
    best_score, default_score : float
        The measure in percent of these parameters and of the model as it was given, on held-out rows that took no part
        in the choice.
    is_better : bool, whether the search found parameters that beat the defaults on those rows
    measure : str
    model : the model with these parameters, not fitted
    trials : list of Trial, in the order they were made
    """

    best_params: dict[str, Any]
    best_score: float
    default_score: float
    is_better: bool
    measure: str
    model: Any = field(repr=False)
    trials: list[Trial] = field(repr=False)


def autotune(
    model: Any,
    X: Any,
    y: Any,
    *,
    minutes: float = 10.0,
    ranges: Mapping[str, Range] | None = None,
    measure: str = "P@5",
    validation_share: float = _VALIDATION_SHARE,
    random_state: int = 0,
    progress: Progress = None,
) -> Autotuning:
    """Search for good parameters of an estimator or a Tagger for a given time.

    The defaults are tried first, on all training rows. Then parameters are drawn, at random and later where they went
    well, and tried on a ninth of the rows; the best third of them goes on to a third of the rows, and the best third of
    those to all. The winner is measured on held-out rows that took no part in the choice, beside the defaults; if it is
    not better there, the defaults are returned. Which trials fit into the time depends on the machine.

    Parameters
    ----------
    model : an estimator or a Tagger
        A Tagger's text parameters are searched together with those of its estimator.
    X, y
        As for the model's ``fit``: rows and a label matrix, or texts and lists of label names.
    minutes : float, default 10
        A trial that runs when the time is over is stopped.
    ranges : mapping of parameter name to Between or OneOf, optional
        Where to look, with names such as ``estimator__cost`` and ``vectorizer__max_ngram`` for a Tagger; default: the
        ranges that the classes declare.
    measure : str, default "P@5"
        Any measure of `longtail.metrics.evaluate`, such as "nDCG@5" or, for the tail, "PSP@5".
    validation_share : float, default 0.2
        Share of the rows that is held out: one half of it to choose by, the other to measure the winner.
    random_state : int, default 0
    progress : None, "bar" or callable(done, total)
        Called with seconds; may return False to stop.

    Returns
    -------
    Autotuning

    Examples
    --------
    >>> import longtail as lt
    >>> from longtail.tuning import Between
    >>> data = lt.datasets.make_synthetic(n_rows=300, n_features=50, n_labels=10, labels_per_row=2)
    >>> found = lt.autotune(lt.DiSMEC(cost=0.001, n_jobs=1), data.X, data.Y, minutes=0.02, measure="P@1")
    >>> found.best_score >= found.default_score
    True
    """
    given = {"minutes": minutes, "validation_share": validation_share, "random_state": random_state}
    check_params("autotune", given, _RULES)
    check_measure(measure)
    model = model.with_parts()
    X, y = model.checked_pairs(X, y)
    where = _checked_ranges(model, ranges)
    search = _Search(model, where, X, y, measure, validation_share, random_state, end_of(minutes))
    bar = ProgressBar("tune", "seconds") if progress == "bar" else progress
    while search.step():
        left = search.deadline - time.monotonic()
        if bar is not None and bar(round(60 * minutes - max(0.0, left)), round(60 * minutes)) is False:
            break
    if isinstance(bar, ProgressBar):
        bar.close()
    return search.result()


def end_of(minutes: float) -> float:
    """Return when a search that begins now must end.

    scikit-learn, which the first fit needs, is loaded before: that may take seconds, and the first trial would have
    to pay for it.
    """
    import_module("sklearn.utils.validation")
    return time.monotonic() + 60 * minutes


def try_as_given(model: Any, X: Any, y: Any, *, seconds: float, measure: str, random_state: int) -> Trial:
    """Train a model on the rows that `autotune` trains on, and measure it where `autotune` measures its winners.

    The trial is stopped after so many seconds; it has no score then.
    """
    X, y = model.checked_pairs(X, y)
    search = _Search(model, {}, X, y, measure, _VALIDATION_SHARE, random_state, time.monotonic() + seconds)
    search.step()
    return search.trials[0]


class _Search:
    """The rows, the levels and the trials of one search."""

    def __init__(
        self,
        model: Any,
        where: dict[str, Range],
        X: Any,
        y: Any,
        measure: str,
        validation_share: float,
        random_state: int,
        deadline: float,
    ) -> None:
        self.model, self.where, self.measure, self.deadline = model, where, measure, deadline
        self.X, self.y, self.random_state = X, y, random_state
        n_rows = len(X) if isinstance(X, list) else X.shape[0]
        order = np.random.default_rng([random_state, 0]).permutation(n_rows)
        n_held_out = max(2, round(validation_share * n_rows))
        if n_rows - n_held_out < 1:
            raise ValueError(f"autotune: X must have 3 rows or more, got {counted(n_rows, 'row')}")
        self.choosing, self.confirming = order[: n_held_out // 2], order[n_held_out // 2 : n_held_out]
        training = order[n_held_out:]
        sizes = [len(training) // _FACTOR**level for level in range(_N_LEVELS)]
        self.levels = [training[:size] for size in sizes if size >= min(_MIN_ROWS, len(training))][::-1]
        self.trials: list[Trial] = []
        # Trials of each level by number, and which of them have gone on to the next.
        self.done: list[list[int]] = [[] for _ in self.levels]
        self.promoted: list[set[int]] = [set() for _ in self.levels]

    def step(self) -> bool:
        """Make one more trial; False when the time is over."""
        if not self.trials:
            self._try({}, len(self.levels) - 1)
            return self.trials[0].score is not None
        params, level = self._next()
        while level > 0 and not self._fits(params, level):  # it would end too late: go on with others
            params, level = self._next()
        if level == 0 and not self._has_time_for_another():
            return False
        self._try(params, level)
        return time.monotonic() < self.deadline

    def result(self) -> Autotuning:
        """Choose on one half of the held-out rows, compare with the defaults on the other."""
        first = self.trials[0]
        if first.score is None or first.confirmed is None:
            way_out = "; give more minutes" if first.error == TOO_LATE else ""
            raise ValueError(f"{UNTRAINABLE}{first.error}{way_out}")
        whole = [self.trials[number] for number in self.done[-1]]
        best = max(whole, key=lambda trial: trial.score or 0.0)
        is_better = best is not first and best.confirmed is not None and best.confirmed > first.confirmed
        params = best.params if is_better else {}
        return Autotuning(
            best_params=params,
            best_score=float(best.confirmed or 0.0) if is_better else first.confirmed,
            default_score=first.confirmed,
            is_better=is_better,
            measure=self.measure,
            model=_with_params(self.model, params),
            trials=list(self.trials),
        )

    def _next(self) -> tuple[dict[str, Any], int]:
        """Send a good trial to the next level if there is one, from the highest level down; else draw a new one."""
        for level in range(len(self.levels) - 2, -1, -1):
            waiting = [number for number in self.done[level] if number not in self.promoted[level]]
            if waiting and len(self.promoted[level]) < len(self.done[level]) // _FACTOR:
                number = max(waiting, key=lambda number: self.trials[number].score or 0.0)
                self.promoted[level].add(number)
                return self.trials[number].params, level + 1
        tried = [self.trials[number] for number in self.done[0] if self.trials[number].params]
        random = np.random.default_rng([self.random_state, 1, len(self.trials)])
        usable = [(trial.params, trial.score) for trial in tried if trial.score is not None]
        return propose("tpe", self.where, usable, random), 0

    def _has_time_for_another(self) -> bool:
        """Guess whether a new trial on the fewest rows can end in time, from the shortest one so far."""
        seconds = min((self.trials[number].seconds for number in self.done[0]), default=0.0)
        return time.monotonic() + seconds < self.deadline

    def _fits(self, params: dict[str, Any], level: int) -> bool:
        """Guess from the same parameters on fewer rows whether a trial on more rows ends in time."""
        known = [trial for trial in self.trials if trial.params == params and trial.score is not None]
        seconds = max(trial.seconds * len(self.levels[level]) / (trial.n_rows or 1) for trial in known)
        return time.monotonic() + seconds < self.deadline

    def _try(self, params: dict[str, Any], level: int) -> None:
        rows = self.levels[level]
        begin = time.monotonic()
        score: float | None = None
        confirmed: float | None = None
        error: str | None = None
        try:
            with warnings.catch_warnings():  # a trial without any split is judged by its score
                warnings.filterwarnings("ignore", message="GBDTSparse: no tree has a split")
                fitted = _with_params(self.model, params).fit(
                    _take(self.X, rows),
                    _take(self.y, rows),
                    progress=lambda done, total: time.monotonic() < self.deadline,
                )
            score = self._measured(fitted, self.choosing)
            if level == len(self.levels) - 1:
                confirmed = self._measured(fitted, self.confirming)
        except Stopped:
            error = TOO_LATE
        except (ValueError, RuntimeError, MemoryError) as failure:
            error = str(failure) or type(failure).__name__
        seconds = round(time.monotonic() - begin, 3)
        self.trials.append(Trial(params, score, seconds, error, n_rows=len(rows), confirmed=confirmed))
        if score is not None:
            self.done[level].append(len(self.trials) - 1)

    def _measured(self, fitted: Any, rows: NDArray[np.int64]) -> float:
        Y, _ = fitted.encode(_take(self.y, rows))
        chances = propensity.from_counts(fitted.label_counts_, fitted.n_rows_)
        found = metrics.evaluate(fitted.predict_top_k(_take(self.X, rows), 5), Y, propensity=chances)
        return float(found[self.measure])


def _checked_ranges(model: Any, ranges: Mapping[str, Range] | None) -> dict[str, Range]:
    owner = type(model).__name__
    where = dict(model._ranges if ranges is None else ranges)
    if not where:
        raise ValueError(f"autotune: {owner} declares no ranges; name some: ranges={{'name': Between(low, high)}}")
    known = model.get_params(deep=True)
    for name, found in where.items():
        if name not in known:
            raise ValueError(f"autotune: {owner} has no parameter {name!r}; it has {', '.join(sorted(known))}")
        part, _, inner = name.rpartition("__")
        rules = (known[part] if part else model)._rules[inner]
        for share in (0.0, float(np.nextafter(1.0, 0.0))):
            check_value(f"autotune: {owner}", name, found.at(share), rules)
    return where


def _with_params(model: Any, params: Mapping[str, Any]) -> Any:
    """Return a copy that is not fitted, with some parameters changed."""
    own = {
        name: type(value)(**value.get_params(deep=False)) if hasattr(value, "get_params") else value
        for name, value in model.get_params(deep=False).items()
    }
    return type(model)(**own).set_params(**params)


def _take(inputs: Any, rows: NDArray[np.int64]) -> Any:
    return [inputs[row] for row in rows.tolist()] if isinstance(inputs, list) else inputs[rows]
