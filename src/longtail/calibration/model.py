"""Scores to probabilities and decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from longtail._array_files import ArraySpec
from longtail._rules import Choice, Int, Nothing, Real, Rule, check_params
from longtail._topk import TopK
from longtail.calibration.curves import Curve, fit_isotonic, fit_platt, sigmoid
from longtail.calibration.errors import expected_calibration_error
from longtail.calibration.pairs import Group, Pairs, pairs_of
from longtail.calibration.thresholds import f1_threshold, floor_thresholds, macro_f1_threshold, micro_f1_thresholds

Method = Literal["isotonic", "sigmoid"]
Measure = Literal["micro_f1", "macro_f1", "precision"]


@dataclass(kw_only=True)
class Calibration:
    """Turn scores into probabilities and decisions.

    Labels with many held-out positives (the head) get a map and a threshold of their own; all others share one map
    and one threshold, because a handful of positives says little about a label but thousands of tail labels together
    say a lot.

    Parameters
    ----------
    method : "isotonic" or "sigmoid", default "isotonic"
        Any rising curve, or Platt's sigmoid, which needs fewer rows.
    measure : "micro_f1", "macro_f1" or "precision", default "micro_f1"
        What the thresholds make as great as possible; for "precision" they find as many labels as they can while
        `floor` is kept over all labels that are given.
    floor : float, optional
        The precision that labels must keep, for ``measure="precision"``.
    min_positives : int, default 50
        Held-out positives that a label needs for a map and a threshold of its own.

    Attributes
    ----------
    map_of_label_ : int32 array (n_labels,), the map of each label; map 0 is the shared one
    thresholds_ : float32 array (n_maps,), the least score that is enough
    ece_ : float, expected calibration error of the five best labels of each row, cross-fitted over two halves
    n_rows_ : int, held-out rows

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> top = lt.TopK(np.array([[0, 1]] * 8, np.int32), np.array([[0.9, 0.2]] * 6 + [[0.4, 0.3]] * 2, np.float32))
    >>> Y = np.array([[1, 0]] * 6 + [[0, 0]] * 2)
    >>> calibration = lt.Calibration().fit(top, Y)
    >>> calibration.proba(np.array([0, 0]), np.array([0.9, 0.4])).tolist()
    [1.0, 0.0]
    """

    method: Method = "isotonic"
    measure: Measure = "micro_f1"
    floor: float | None = None
    min_positives: int = 50

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "method": (Choice("isotonic", "sigmoid"),),
        "measure": (Choice("micro_f1", "macro_f1", "precision"),),
        "floor": (Nothing(), Real(0, 1, above=True)),
        "min_positives": (Int(1),),
    }
    _scalars: ClassVar[dict[str, tuple[Rule, ...]]] = {"ece_": (Real(0, 1),), "n_rows_": (Int(1),)}
    _state: ClassVar[dict[str, ArraySpec]] = {
        "map_of_label_": ArraySpec(np.int32, ndim=1, min=0),
        "thresholds_": ArraySpec(np.float32, ndim=1, finite=True),
        "knot_ends_": ArraySpec(np.int64, ndim=1, min=1),
        "knot_scores_": ArraySpec(np.float32, ndim=1, finite=True),
        "knot_proba_": ArraySpec(np.float32, ndim=1, finite=True, min=0, max=1),
        "coefficients_": ArraySpec(np.float64, shape=(None, 2), finite=True),
    }
    map_of_label_: NDArray[np.int32] = field(init=False, repr=False)
    thresholds_: NDArray[np.float32] = field(init=False, repr=False)
    # Isotonic maps: the corners of each curve, one map after the other; proba is linear between two corners.
    knot_ends_: NDArray[np.int64] = field(init=False, repr=False)
    knot_scores_: NDArray[np.float32] = field(init=False, repr=False)
    knot_proba_: NDArray[np.float32] = field(init=False, repr=False)
    # Sigmoid maps: slope and intercept of each.
    coefficients_: NDArray[np.float64] = field(init=False, repr=False)
    ece_: float = field(init=False, repr=False)
    n_rows_: int = field(init=False, repr=False)

    def fit(self, top: TopK, Y: Any) -> Self:
        """Learn maps and thresholds.

        Parameters
        ----------
        top : TopK
            The ranking of held-out rows; deep enough to hold every label that might be given (50 to 100 a row).
        Y : CSR matrix or 0/1 array (n_rows, n_labels)
            Their labels.
        """
        self.check_params()
        pairs = pairs_of(top, Y)
        if not pairs.hits.any():
            raise ValueError(
                f"Calibration: none of the {pairs.n_rows} held-out rows has one of its labels ranked; "
                "give more rows, or labels that the model knows"
            )
        self.n_rows_ = pairs.n_rows
        self._fit_maps(pairs)
        self.thresholds_ = self._best_thresholds(pairs)
        self.ece_ = self._cross_fitted_ece(pairs)
        return self

    def proba(self, label_ids: NDArray[Any], scores: NDArray[Any]) -> NDArray[np.float32]:
        """Return the probability that each label is right; 0 where the label is padding (-1)."""
        maps = self.map_of_label_[np.maximum(label_ids, 0)]
        if self.method == "sigmoid":
            proba = sigmoid(self.coefficients_[maps, 0] * scores + self.coefficients_[maps, 1])
        else:
            proba = self._on_curves(maps, np.asarray(scores, dtype=np.float32))
        return np.where(label_ids >= 0, proba, 0).astype(np.float32)

    def decide(self, label_ids: NDArray[Any], scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which labels reach their thresholds."""
        reached: NDArray[np.bool_] = scores >= self.thresholds_[self.map_of_label_[np.maximum(label_ids, 0)]]
        return reached & (label_ids >= 0)

    def params(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._rules}

    def check_params(self) -> None:
        """Raise unless every parameter is one that `fit` takes."""
        check_params("Calibration", self.params(), self._rules)
        if (self.measure == "precision") != (self.floor is not None):
            raise ValueError(
                "Calibration: floor must be given for measure='precision', and only then; "
                f"got measure={self.measure!r} with floor={self.floor!r}"
            )

    def check_state(self) -> None:
        """Raise ValueError unless the loaded arrays agree with each other."""
        n_maps = len(self.thresholds_)
        if n_maps == 0 or (len(self.map_of_label_) and int(self.map_of_label_.max()) >= n_maps):
            raise ValueError(f"Calibration: map_of_label_ must name one of {n_maps} maps")
        n_curves, n_sigmoids = (n_maps, 0) if self.method == "isotonic" else (0, n_maps)
        if len(self.coefficients_) != n_sigmoids or len(self.knot_ends_) != n_curves:
            raise ValueError(f"Calibration: there must be {n_maps} {self.method} maps and no others")
        if n_curves and (np.diff(self.knot_ends_, prepend=0) < 1).any():
            raise ValueError("Calibration: knot_ends_ must increase: every map needs a knot")
        n_knots = int(self.knot_ends_[-1]) if n_curves else 0
        if len(self.knot_scores_) != n_knots or len(self.knot_proba_) != n_knots:
            raise ValueError(
                f"Calibration: knot_ends_ speaks of {n_knots} knots, "
                f"got {len(self.knot_scores_)} scores and {len(self.knot_proba_)} probabilities"
            )
        within = np.ones(n_knots, dtype=bool)
        within[self.knot_ends_[:-1]] = False
        if (np.diff(self.knot_scores_)[within[1:]] < 0).any():
            raise ValueError("Calibration: the knot_scores_ of a map must rise")

    # ---- maps ---------------------------------------------------------------------------------------------------

    def _fit_maps(self, pairs: Pairs) -> None:
        positives = np.bincount(pairs.label_ids[pairs.hits], minlength=pairs.n_labels)
        head = np.flatnonzero(positives >= self.min_positives)
        self.map_of_label_ = np.zeros(pairs.n_labels, dtype=np.int32)
        self.map_of_label_[head] = np.arange(1, len(head) + 1, dtype=np.int32)
        groups = pairs.by_map(self.map_of_label_, len(head) + 1)
        if not len(groups[0].scores):  # no tail label was ever ranked: those that come later follow all the others
            groups[0] = Group(pairs.scores, pairs.hits, groups[0].label_ids, groups[0].n_positives)
        curves = [fit_isotonic(group) if self.method == "isotonic" else Curve.none() for group in groups]
        self.knot_ends_ = np.cumsum([len(curve.scores) for curve in curves], dtype=np.int64)
        self.knot_scores_ = np.concatenate([curve.scores for curve in curves])
        self.knot_proba_ = np.concatenate([curve.proba for curve in curves])
        if self.method == "isotonic":
            self.coefficients_ = np.empty((0, 2))
        else:
            self.knot_ends_ = np.empty(0, dtype=np.int64)
            self.coefficients_ = np.array([fit_platt(group) for group in groups])

    def _on_curves(self, maps: NDArray[np.int32], scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """Evaluate every score on its curve: a binary search for all of them in step."""
        ends = self.knot_ends_[maps]
        begins = np.where(maps > 0, self.knot_ends_[np.maximum(maps - 1, 0)], 0)
        low, high = begins.copy(), ends.copy()
        for _ in range(int(np.max(ends - begins, initial=0)).bit_length()):
            middle = np.minimum((low + high) // 2, ends - 1)
            is_right = (low < high) & (self.knot_scores_[middle] <= scores)
            high = np.where((low < high) & ~is_right, middle, high)
            low = np.where(is_right, middle + 1, low)
        left, right = np.maximum(low - 1, begins), np.minimum(low, ends - 1)
        width = self.knot_scores_[right].astype(np.float64) - self.knot_scores_[left]
        share = np.clip((scores - self.knot_scores_[left]) / np.where(width > 0, width, 1), 0, 1)
        at_left = self.knot_proba_[left].astype(np.float64)
        return np.asarray(at_left + share * (self.knot_proba_[right] - at_left))

    def _cross_fitted_ece(self, pairs: Pairs) -> float:
        """Fit on either half of the rows, measure on the other: on its own rows a curve is always right."""
        proba: list[NDArray[np.float32]] = []
        hits: list[NDArray[np.bool_]] = []
        for half in (0, 1):
            inside = pairs.row_ids % 2 == half
            if not pairs.hits[inside].any():
                continue
            other = Calibration(method=self.method, min_positives=max(1, self.min_positives // 2))
            other._fit_maps(pairs.where(inside))
            judged = pairs.where(~inside & (pairs.ranks < 5))
            proba.append(other.proba(judged.label_ids, judged.scores))
            hits.append(judged.hits)
        return expected_calibration_error(np.concatenate(proba), np.concatenate(hits))

    # ---- thresholds -----------------------------------------------------------------------------------------------

    def _best_thresholds(self, pairs: Pairs) -> NDArray[np.float32]:
        groups = pairs.by_map(self.map_of_label_, int(self.map_of_label_.max(initial=0)) + 1)
        if self.measure == "micro_f1":
            found = micro_f1_thresholds(groups, pairs.n_positives)
        elif self.measure == "macro_f1":
            found = [macro_f1_threshold(groups[0], pairs)] + [f1_threshold(group) for group in groups[1:]]
        else:
            found = floor_thresholds(groups, self.floor or 0.0)
        return np.array(found, dtype=np.float32)
