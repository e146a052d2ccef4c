"""Search for a blend: the best settings of estimators of different kinds, each with its share of the time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longtail._base import XMCClassifier
from longtail._progress import Progress
from longtail._rules import Real, check_value
from longtail.blend.estimator import NAMES
from longtail.blend.members import usual_members
from longtail.blend.presets import best_quality, seconds_of_blend
from longtail.tuning.budget import TOO_LATE, UNTRAINABLE, Autotuning, autotune, end_of, try_as_given


@dataclass(frozen=True)
class BlendTuning:
    """What a search for a blend found.

    Attributes
    ----------
    model : Blend, or a Tagger with one, not fitted
    members : list of Autotuning, one of each estimator in the blend
    left_out : dict, the names of estimators that could not be trained in their share of the time or in the memory
        that is free, with the reason
    best_score : float, the measure of the best member alone on held-out rows, in percent
    blend_score : float or None, that of the blend; None if it was not trained
    blend_error : str or None, why it was not: "the time was over", or the error
    is_better : bool or None, whether the blend is better than its best member on those rows; None if it was not tried
    measure : str
    fit_seconds : float, what training the blend on all rows is expected to take
    params : dict, the blend as parameters by name, such as {"first": "DiSMEC", "first__cost": 2.0, …}
    """

    model: Any = field(repr=False)
    members: list[Autotuning] = field(repr=False)
    left_out: dict[str, str]
    best_score: float
    measure: str
    fit_seconds: float
    blend_score: float | None = None
    blend_error: str | None = None

    @property
    def is_better(self) -> bool | None:
        return None if self.blend_score is None else self.blend_score > self.best_score

    @property
    def params(self) -> dict[str, Any]:
        blend = getattr(self.model, "estimator", self.model)  # of a Tagger
        found: dict[str, Any] = {}
        for part in NAMES:
            if (member := getattr(blend, part)) is not None:
                found[part] = type(member).__name__
                found |= {f"{part}__{name}": value for name, value in _set_params(member).items()}
        return found


def autotune_blend(
    X: Any,
    y: Any,
    *,
    minutes: float = 30.0,
    measure: str = "P@5",
    tagger: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: Progress = None,
) -> BlendTuning:
    """Search for the best quality: tune each of `longtail.blend.usual_members` for a fifth of the time, and blend them.

    An estimator that cannot be trained in its share, or in the memory that is free, is left out; two must remain. What
    `usual_members` sets is not searched. In the time that is left, the blend
    is trained and compared with its best member on held-out rows that took no part in the search; if it cannot be
    trained in that time, it is not compared. The blend is returned unfitted: training it costs 1.8 fits of every member
    in addition to the minutes of the search, and a prediction costs one of every member.

    Parameters
    ----------
    X, y
        Rows and a label matrix; with a `tagger`, texts and lists of label names.
    minutes : float, default 30
    measure : str, default "P@5"
        As for `longtail.autotune`.
    tagger : Tagger, optional
        For texts. It is returned with the blend as its estimator; its text parameters stay as they are.
    n_jobs, random_state
        Of all estimators.
    progress : None, "bar" or callable(done, total)
        As for `longtail.autotune`, once for each estimator.

    Examples
    --------
    >>> import longtail as lt
    >>> from longtail.tuning import autotune_blend
    >>> data = lt.datasets.make_synthetic(n_rows=300, n_features=50, n_labels=10, labels_per_row=2)
    >>> found = autotune_blend(data.X, data.Y, minutes=0.1, n_jobs=1)
    >>> len(found.members) >= 2
    True
    """
    check_value("autotune_blend", "minutes", minutes, (Real(0, above=True),))
    deadline = end_of(minutes)
    usual = usual_members()
    found: dict[str, Autotuning] = {}
    left_out: dict[str, str] = {}
    for part in usual:
        part.set_params(n_jobs=n_jobs, random_state=random_state)
        model = part if tagger is None else _with_estimator(tagger, part)
        prefix = "" if tagger is None else "estimator__"
        ranges = {f"{prefix}{name}": found for name, found in part._ranges.items() if name not in _set_params(part)}
        try:
            found[type(part).__name__] = autotune(
                model,
                X,
                y,
                minutes=minutes / (len(usual) + 1),
                ranges=ranges,
                measure=measure,
                random_state=random_state,
                progress=progress,
            )
        except ValueError as error:
            if not str(error).startswith(UNTRAINABLE):
                raise
            left_out[type(part).__name__] = str(error).removeprefix(UNTRAINABLE)
    if len(found) < 2:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ValueError(f"autotune_blend: two estimators must be trained in {minutes:g} minutes, but not {reasons}")
    estimators = [each.model if tagger is None else each.model.estimator for each in found.values()]
    blend = best_quality(estimators, n_jobs=n_jobs, random_state=random_state)
    model = blend if tagger is None else _with_estimator(tagger, blend)
    n_rows = len(X) if isinstance(X, list) else X.shape[0]
    left = deadline - time.monotonic()
    checked = try_as_given(model, X, y, seconds=left, measure=measure, random_state=random_state) if left > 0 else None
    return BlendTuning(
        model=model,
        members=list(found.values()),
        left_out=left_out,
        best_score=max(each.best_score for each in found.values()),
        measure=measure,
        fit_seconds=seconds_of_blend(_fit_seconds(each, n_rows) for each in found.values()),
        blend_score=None if checked is None else checked.confirmed,
        blend_error=TOO_LATE if checked is None else checked.error,
    )


def _set_params(member: XMCClassifier) -> dict[str, Any]:
    """Return the parameters that differ from the defaults, without threads and seed."""
    usual = type(member)(n_jobs=member.n_jobs, random_state=member.random_state).get_params(deep=False)
    return {name: value for name, value in member.get_params(deep=False).items() if value != usual[name]}


def _fit_seconds(found: Autotuning, n_rows: int) -> float:
    """Scale what the trial with these parameters took on most rows to all rows."""
    same = [trial for trial in found.trials if trial.params == found.best_params and trial.score is not None]
    largest = max(same, key=lambda trial: trial.n_rows or 0)
    return float(np.multiply(largest.seconds, n_rows / (largest.n_rows or n_rows)))


def _with_estimator(tagger: Any, estimator: XMCClassifier) -> Any:
    return type(tagger)(**(tagger.get_params(deep=False) | {"estimator": estimator}))
