"""Blends that are made for the user."""

from __future__ import annotations

from collections.abc import Iterable

from longtail._base import XMCClassifier
from longtail.blend.estimator import NAMES, Blend
from longtail.blend.members import usual_members


def best_quality(members: Iterable[XMCClassifier] = (), *, n_jobs: int | None = None, random_state: int = 0) -> Blend:
    """Make the blend that ranks best on the data we know, from tuned estimators if there are any.

    Parameters
    ----------
    members : two to four estimators, optional
        The best settings of different kinds of estimators, as a search finds them. Default: those of
        `usual_members`.
    n_jobs, random_state
        Of the blend.

    Examples
    --------
    >>> import longtail as lt
    >>> from longtail.blend import best_quality
    >>> best_quality([lt.DiSMEC(cost=2.0), lt.LabelTree()])
    Blend(first=DiSMEC(cost=2.0), second=LabelTree())
    """
    given = list(members) or usual_members()
    if not 2 <= len(given) <= len(NAMES):
        raise ValueError(f"best_quality: members must be two to four estimators, got {len(given)}")
    return Blend(n_jobs=n_jobs, random_state=random_state).set_params(**dict(zip(NAMES, given, strict=False)))


def seconds_of_blend(fit_seconds: Iterable[float], held_out: float = 0.2) -> float:
    """Estimate what a blend costs to train from what one fit of each of its estimators costs.

    Every estimator is trained on all rows, and on those that are not held out.

    Examples
    --------
    >>> from longtail.blend import seconds_of_blend
    >>> round(seconds_of_blend([10, 30]), 1)
    72.0
    """
    return (2 - held_out) * sum(fit_seconds)
