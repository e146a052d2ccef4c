"""Choose the labels that users are shown: by threshold, utility and number, with scores and probabilities."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail._topk import TopK, values_of
from longtail.calibration import Calibration
from longtail.decisions.ranking import ByValue, Candidates, candidates_for, rank, rank_short, resolve_utility
from longtail.decisions.utilities import parse_utility

Threshold = float | Literal["auto"] | None

_MAX_FLOAT32 = float(np.finfo(np.float32).max)


class Proposals(NamedTuple):
    """The chosen labels of each row, best first, padded with -1; probabilities only of calibrated models.

    `utility` is what was ranked by, where that is neither the score nor the probability.
    """

    label_ids: NDArray[np.int32]
    scores: NDArray[np.float32]
    proba: NDArray[np.float32] | None
    utility: NDArray[np.float32] | None = None


def check_utility(owner: str, utility: str | None, calibration: Calibration | None) -> str:
    """Return the utility to rank for; raise unless it is a known one that the model can serve."""
    if utility is None:
        utility = "score" if calibration is None else "balanced"
    parse_utility(utility)
    if calibration is None and utility != "score":
        raise ValueError(
            f"{owner}: utility must be None or 'score' for a model that is not calibrated, got {utility!r}; "
            "fit with calibrate=True or call calibrate on held-out data first"
        )
    return utility if calibration is None or resolve_utility(utility, calibration).kind != "score" else "score"


def check_max_loss(owner: str, max_loss: Any, utility: str | None, calibration: Calibration | None) -> None:
    """Raise unless `max_loss` is a price that the utility asked for can have."""
    if max_loss is None:
        return
    if calibration is None:
        raise ValueError(f"{owner}: max_loss must be None for a model that is not calibrated, got {max_loss!r}")
    if utility == "score":
        raise ValueError(f"{owner}: max_loss must be None for utility 'score', got {max_loss!r}")
    if isinstance(max_loss, bool) or not isinstance(max_loss, Real) or not 0 <= float(max_loss) <= 100:
        raise ValueError(f"{owner}: max_loss must be in 0 .. 100 (points of precision), got {max_loss!r}")


def choose(
    owner: str,
    candidates: Candidates,
    calibration: Calibration | None,
    top_k: int,
    *,
    by_value: ByValue | None = None,
    threshold: Threshold = None,
    utility: str | None = None,
    max_loss: float | None = None,
    n_threads: int = 1,
) -> Proposals:
    """Choose at most `top_k` labels per row.

    Parameters
    ----------
    owner : str
        Who complains about arguments.
    candidates : callable(row_ids or None, n) -> TopK
        Returns the n labels with the best scores of these rows (of all rows), best first.
    calibration : Calibration or None
        Of the model that ranks them.
    top_k : int
    by_value : callable(values, n) -> Valued, optional
        As for `rank_rows`.
    threshold : None, float or "auto", default None
        Only labels whose probability reaches it (whose score, without a calibration); "auto" takes the thresholds of
        the calibration.
    utility, max_loss
        As for `rank`. By default "balanced" with a calibration and "score" without.
    """
    check_max_loss(owner, max_loss, utility, calibration)
    utility = check_utility(owner, utility, calibration)
    if threshold is not None and threshold != "auto":
        threshold = float(np.clip(threshold, -_MAX_FLOAT32, _MAX_FLOAT32))  # scores and probabilities are float32
    if calibration is None:
        if threshold == "auto":
            raise ValueError(
                f"{owner}: threshold='auto' needs a calibrated model; fit with calibrate=True or call calibrate on "
                "held-out data first"
            )
        top = candidates(None, top_k)
        ranked = _by_score(top, top_k) if threshold is None else _by_score(_only(top, top.scores >= threshold), top_k)
        return Proposals(*ranked, None)
    # The most probable labels that reach a threshold are those of the most probable ones that do.
    if threshold is None or (threshold != "auto" and parse_utility(utility) == parse_utility("precision")):
        found = rank_short(
            candidates, calibration, utility, top_k, by_value=by_value, max_loss=max_loss, n_threads=n_threads
        )
        if found is not None:
            label_ids, values, scores = found
            proba = calibration.proba(label_ids, scores, n_threads=n_threads)
            if threshold is not None:
                label_ids = np.where(proba >= threshold, label_ids, np.int32(-1))
            return Proposals(label_ids, scores, proba, None if utility == "precision" else values)
    is_short = utility == "score" and threshold is None
    top = candidates(None, top_k if is_short else candidates_for(top_k, len(calibration.label_counts_)))
    proba = calibration.proba(*top, n_threads=n_threads)
    if threshold is not None:
        reached = calibration.decide_by_proba(top.label_ids, proba) if threshold == "auto" else proba >= threshold
        top = _only(top, reached)
    if utility == "score":
        label_ids, values = _by_score(top, top_k)
    else:
        label_ids, values = rank(top, calibration, utility, top_k, max_loss=max_loss, n_threads=n_threads)
    return Proposals(
        label_ids,
        values_of(label_ids, top),
        values_of(label_ids, TopK(top.label_ids, proba)),
        None if utility in ("score", "precision") else values,
    )


def _only(top: TopK, kept: NDArray[np.bool_]) -> TopK:
    return TopK(np.where(kept, top.label_ids, np.int32(-1)), top.scores)


def _by_score(top: TopK, top_k: int) -> TopK:
    """Move what is left of each row to the front, in its order."""
    is_label = top.label_ids >= 0
    if is_label.all():
        return TopK(top.label_ids[:, :top_k], top.scores[:, :top_k])
    order = np.argsort(~is_label, axis=1, kind="stable")[:, :top_k]
    label_ids = np.take_along_axis(top.label_ids, order, axis=1)
    return TopK(label_ids, np.where(label_ids >= 0, np.take_along_axis(top.scores, order, axis=1), np.float32(0)))
