"""Scores to probabilities and decisions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._cancel import current_control
from longtail._rules import Choice, Int, Nothing, Real, Rule, check_params
from longtail._topk import TopK
from longtail.calibration.errors import expected_calibration_error
from longtail.calibration.pairs import Pairs, pairs_of
from longtail.calibration.row_rules import Judged, balanced_power, macro_f1_rule
from longtail.calibration.surface import Surface, fit_surface
from longtail.calibration.thresholds import f1_threshold, floor_thresholds, macro_f1_threshold, micro_f1_thresholds
from longtail.propensity import from_counts

Measure = Literal["micro_f1", "macro_f1", "precision"]

# The surface has fewer than a hundred nodes: more pairs than this only cost time.
_MAX_PAIRS = 2_000_000
_BOUNDS_PER_KNOT = 8
_NO_BOUNDS = np.empty(0, np.float32), np.zeros(1, np.float32)
# Of precision at 1, 3 and 5 of the ranking by score, that the balanced one may give up: a twentieth of a point.
_BALANCED_LOSS = 0.0005


@dataclass(kw_only=True)
class Calibration:
    """Turn scores into probabilities and decisions, for frequent and rare labels alike.

    A score of 0.3 means one thing for a label with a thousand training rows and another for a label with three. The
    probability that a label is right is a smooth surface over its score and the logarithm of its number of training
    rows; it never falls when the score rises. The surface has fewer than a hundred numbers for all labels together,
    because few labels have enough held-out rows for a curve of their own.

    Parameters
    ----------
    measure : "micro_f1", "macro_f1" or "precision", default "micro_f1"
        What `decide` maximises; for "precision" it finds as many labels as it can while `floor` is kept over all
        labels that are given.
    floor : float, optional
        The precision to keep, for ``measure="precision"``.
    min_positives : int, default 50
        Held-out rows that a label needs for a threshold of its own; all other labels share one.

    Attributes
    ----------
    score_knots_, count_knots_ : float64 arrays, the axes of the surface: scores, and log(1 + training rows)
    log_odds_ : float64 array (n_count_knots, n_score_knots), the surface at the knots; linear between them
    label_counts_ : int64 array (n_labels,), training rows of each label of the model that is calibrated
    n_training_rows_ : int, training rows of that model
    map_of_label_ : int32 array (n_labels,), the threshold of each label; 0 is the shared one
    thresholds_ : float32 array (n_thresholds,), the least probability that is enough
    balanced_power_ : float in [0, 1]
        The greatest power of the inverse propensities whose expected precision is at most a twentieth of a point
        below that of the scores: the default ranking of a calibrated model gives rare labels that much.
    row_slopes_, row_offsets_ : float32 arrays (n_labels,)
        Ranking by slope · probability + offset maximises macro-F1 at 5, one row at a time.
    ece_ : float, expected calibration error of the five best labels of each row, cross-fitted over two halves
    n_rows_ : int, held-out rows

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> top = lt.TopK(np.array([[0, 1]] * 80, np.int32), np.array([[0.9, 0.2]] * 60 + [[0.4, 0.3]] * 20, np.float32))
    >>> Y = np.array([[1, 0]] * 60 + [[0, 0]] * 20)
    >>> calibration = lt.Calibration().fit(top, Y, label_counts=[300, 20], n_training_rows=400)
    >>> calibration.proba(np.array([[0, 0]]), np.array([[0.9, 0.4]])).round(2).tolist()
    [[1.0, 0.0]]
    """

    measure: Measure = "micro_f1"
    floor: float | None = None
    min_positives: int = 50

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "measure": (Choice("micro_f1", "macro_f1", "precision"),),
        "floor": (Nothing(), Real(0, 1, above=True)),
        "min_positives": (Int(1),),
    }
    _scalars: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "ece_": (Real(0, 1),),
        "n_rows_": (Int(1),),
        "n_training_rows_": (Int(1),),
        "balanced_power_": (Real(0, 1),),
    }
    _state: ClassVar[dict[str, ArraySpec]] = {
        "score_knots_": ArraySpec(np.float64, ndim=1, finite=True),
        "count_knots_": ArraySpec(np.float64, ndim=1, finite=True, min=0),
        "log_odds_": ArraySpec(np.float64, shape=(None, None), finite=True),
        "label_counts_": ArraySpec(np.int64, ndim=1, min=0),
        "map_of_label_": ArraySpec(np.int32, ndim=1, min=0),
        "thresholds_": ArraySpec(np.float32, ndim=1, finite=True),
        "row_slopes_": ArraySpec(np.float32, ndim=1, finite=True, min=0),
        "row_offsets_": ArraySpec(np.float32, ndim=1, finite=True),
    }
    score_knots_: NDArray[np.float64] = field(init=False, repr=False)
    count_knots_: NDArray[np.float64] = field(init=False, repr=False)
    log_odds_: NDArray[np.float64] = field(init=False, repr=False)
    label_counts_: NDArray[np.int64] = field(init=False, repr=False)
    map_of_label_: NDArray[np.int32] = field(init=False, repr=False)
    thresholds_: NDArray[np.float32] = field(init=False, repr=False)
    row_slopes_: NDArray[np.float32] = field(init=False, repr=False)
    row_offsets_: NDArray[np.float32] = field(init=False, repr=False)
    balanced_power_: float = field(init=False, repr=False)
    n_training_rows_: int = field(init=False, repr=False)
    ece_: float = field(init=False, repr=False)
    n_rows_: int = field(init=False, repr=False)
    _weights: NDArray[np.float64] | None = field(init=False, repr=False, default=None)
    _slopes: tuple[float, NDArray[np.float32]] | None = field(init=False, repr=False, default=None)
    _bounds: tuple[float, NDArray[np.float32], NDArray[np.float32]] | None = field(init=False, repr=False, default=None)

    def fit(self, top: TopK, Y: Any, label_counts: ArrayLike, n_training_rows: int) -> Self:
        """Learn the surface and the thresholds from the ranking of rows that the model has not seen.

        Parameters
        ----------
        top : TopK
            The ranking of held-out rows; deep enough to hold every label that might be given (50 to 100 per row).
        Y : CSR matrix or 0/1 array (n_rows, n_labels)
            Their labels.
        label_counts : array (n_labels,)
            Training rows of each label, in the training of the model that ranked the rows.
        n_training_rows : int
            Training rows of that model.
        """
        self.check_params()
        pairs = pairs_of(top, Y)
        counts = _checked_counts(label_counts, pairs.n_labels)
        if not pairs.hits.any():
            raise ValueError(
                f"Calibration: none of the {pairs.n_rows} held-out rows has one of its labels ranked; "
                "give more rows, or labels that the model knows"
            )
        self.n_rows_ = pairs.n_rows
        halves = _halves(top, pairs, counts)
        self.ece_ = _cross_fitted_ece(halves, pairs)
        self._set_surface(_surface_of(pairs, counts), counts, int(n_training_rows))
        self._set_thresholds(pairs)
        proba = TopK(top.label_ids, self.proba(*top))
        judged = [half.judged for half in halves] or [Judged(proba, proba)]
        self.balanced_power_ = balanced_power(judged, counts, self.n_training_rows_, _BALANCED_LOSS)
        self.row_slopes_, self.row_offsets_ = macro_f1_rule(proba, counts, self.n_training_rows_)
        return self

    def for_model(self, label_counts: ArrayLike, n_training_rows: int) -> Calibration:
        """Return the same calibration for a model of the same kind that was trained on other rows.

        Held-out rows are needed to learn what scores mean, but the final model may be trained on all rows: it has
        more rows per label, and the surface knows what that means.
        """
        other = replace(self)
        for name in (*self._state, *self._scalars):
            setattr(other, name, getattr(self, name))
        other.label_counts_ = _checked_counts(label_counts, len(self.label_counts_))
        other.n_training_rows_ = int(n_training_rows)
        return other

    def for_labels(self, places: NDArray[np.int64], label_counts: ArrayLike) -> Calibration:
        """Return the same calibration for a model with other labels.

        A new label gets the shared threshold, and is ranked like the label with the nearest number of training rows.

        Parameters
        ----------
        places : int array (n_labels,), the id of each label in this calibration; -1 for new labels
        label_counts : int array (n_labels,), training rows of each label
        """
        counts = _checked_counts(label_counts, len(places))
        by_count = np.argsort(self.label_counts_, kind="stable")
        nearest = by_count[np.minimum(np.searchsorted(self.label_counts_[by_count], counts), len(by_count) - 1)]
        is_new = places < 0
        alike = np.where(is_new, nearest, places)
        other = replace(self)
        for name in (*self._state, *self._scalars):
            setattr(other, name, getattr(self, name))
        other.label_counts_ = counts
        other.map_of_label_ = np.where(is_new, np.int32(0), self.map_of_label_[alike])
        other.row_slopes_, other.row_offsets_ = self.row_slopes_[alike], self.row_offsets_[alike]
        return other

    def proba(self, label_ids: NDArray[Any], scores: NDArray[Any], *, n_threads: int = 1) -> NDArray[np.float32]:
        """Return the probability that each label is right; 0 where the label is padding (-1).

        Parameters
        ----------
        label_ids, scores : arrays of the same shape
            As in a TopK.
        """
        surface = Surface(self.score_knots_, self.count_knots_, self.log_odds_)
        return _proba(surface, self.label_counts_, label_ids, scores, n_threads)

    def inverse_propensities(self) -> NDArray[np.float64]:
        """Return 1/p of each label under the standard propensity model; see `longtail.propensity`."""
        if self._weights is None:
            self._weights = 1 / from_counts(self.label_counts_, self.n_training_rows_)
        return self._weights

    def power_slopes(self, power: float) -> NDArray[np.float32]:
        """Return the inverse propensities to a power; the last one asked for is kept."""
        kept = self._slopes
        if kept is None or kept[0] != power:
            kept = self._slopes = (power, (self.inverse_propensities() ** power).astype(np.float32))
        return kept[1]

    def rank_by_power(
        self, top: TopK, power: float, top_k: int, *, is_sorted: bool = False, n_threads: int = 1
    ) -> tuple[TopK, NDArray[np.bool_]]:
        """Rank candidates by probability times inverse propensity to a power.

        Parameters
        ----------
        top : TopK
            Candidates of each row, with their scores.
        power : float
        top_k : int
        is_sorted : bool, default False
            Whether candidates are in the order of their scores, best first, and hold the best scores of all labels.

        Returns
        -------
        TopK, bool array (n_rows,)
            The ranking, and for which rows more candidates could change it; none unless `is_sorted`.
        """
        bound_scores, bounds = self._power_bounds(power) if is_sorted else _NO_BOUNDS
        label_ids, values, is_open = _core.rank_calibrated(
            np.ascontiguousarray(top.label_ids),
            np.ascontiguousarray(top.scores),
            self.label_counts_,
            self.score_knots_,
            self.count_knots_,
            self.log_odds_,
            self.power_slopes(power),
            bound_scores,
            bounds,
            top_k,
            n_threads,
            _core.Control(),
        )
        return TopK(label_ids, values), is_open.astype(np.bool_)

    def _power_bounds(self, power: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return rising scores, and the greatest value that any label with at most each of them can have."""
        kept = self._bounds
        if kept is None or kept[0] != power:
            slopes = self.power_slopes(power)
            _, label_ids = np.unique(self.label_counts_, return_index=True)  # the slope depends on the count only
            ends = self.score_knots_[[0, -1]] + np.ptp(self.score_knots_) * np.array([-1, 1])
            knots = np.array([ends[0], *self.score_knots_, ends[1]])
            places = np.linspace(0, len(knots) - 1, _BOUNDS_PER_KNOT * (len(knots) - 1) + 1)
            scores = np.unique(np.interp(places, np.arange(len(knots)), knots).astype(np.float32))
            proba = self.proba(*np.broadcast_arrays(label_ids[None, :].astype(np.int32), scores[:, None]))
            bounds = (proba * slopes[label_ids]).max(axis=1)
            kept = self._bounds = (power, scores, np.append(bounds, slopes.max()).astype(np.float32))
        return kept[1], kept[2]

    def decide(self, label_ids: NDArray[Any], scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which labels are probable enough to be given."""
        return self.decide_by_proba(label_ids, self.proba(label_ids, scores))

    def decide_by_proba(self, label_ids: NDArray[Any], proba: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which labels are given, from probabilities that are known already."""
        reached: NDArray[np.bool_] = proba >= self.thresholds_[self.map_of_label_[np.maximum(label_ids, 0)]]
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
        n_thresholds, n_labels = len(self.thresholds_), len(self.label_counts_)
        if n_thresholds == 0 or (n_labels and int(self.map_of_label_.max(initial=0)) >= n_thresholds):
            raise ValueError(f"Calibration: map_of_label_ must name one of {n_thresholds} thresholds")
        for name in ("map_of_label_", "row_slopes_", "row_offsets_"):
            found = len(getattr(self, name))
            if found != n_labels:
                raise ValueError(f"Calibration: {name} has {found} labels, but label_counts_ has {n_labels}")
        for name in ("score_knots_", "count_knots_"):
            knots = getattr(self, name)
            if len(knots) < 2 or (np.diff(knots) <= 0).any():
                raise ValueError(f"Calibration: {name} must be two or more rising numbers")
        if self.log_odds_.shape != (len(self.count_knots_), len(self.score_knots_)):
            raise ValueError(
                f"Calibration: log_odds_ must have shape {(len(self.count_knots_), len(self.score_knots_))}, "
                f"got {self.log_odds_.shape}"
            )
        if (np.diff(self.log_odds_, axis=1) < 0).any():
            raise ValueError("Calibration: log_odds_ must not fall with the score")

    def _set_surface(self, surface: Surface, label_counts: NDArray[np.int64], n_training_rows: int) -> None:
        self.score_knots_, self.count_knots_, self.log_odds_ = surface
        self.label_counts_ = label_counts
        self.n_training_rows_ = n_training_rows
        self._weights = self._slopes = self._bounds = None

    def _set_thresholds(self, pairs: Pairs) -> None:
        positives = np.bincount(pairs.label_ids[pairs.hits], minlength=pairs.n_labels)
        head = np.flatnonzero(positives >= self.min_positives)
        self.map_of_label_ = np.zeros(pairs.n_labels, dtype=np.int32)
        self.map_of_label_[head] = np.arange(1, len(head) + 1, dtype=np.int32)
        by_proba = replace(pairs, scores=self.proba(pairs.label_ids, pairs.scores))
        groups = by_proba.by_map(self.map_of_label_, len(head) + 1)
        if self.measure == "micro_f1":
            found = micro_f1_thresholds(groups, pairs.n_positives)
        elif self.measure == "macro_f1":
            found = [macro_f1_threshold(groups[0], by_proba)] + [f1_threshold(group) for group in groups[1:]]
        else:
            found = floor_thresholds(groups, self.floor or 0.0)
        self.thresholds_ = np.array(found, dtype=np.float32)


def _surface_of(pairs: Pairs, label_counts: NDArray[np.int64]) -> Surface:
    n_pairs = len(pairs.scores)
    if n_pairs > _MAX_PAIRS:  # whole rows, spread evenly
        step = -(-n_pairs // _MAX_PAIRS)
        thinned = pairs.where(pairs.row_ids % step == 0)
        pairs = thinned if thinned.hits.any() else pairs
    return fit_surface(pairs.scores, np.log1p(label_counts[pairs.label_ids]), pairs.hits)


def _proba(
    surface: Surface, label_counts: NDArray[np.int64], label_ids: NDArray[Any], scores: NDArray[Any], n_threads: int
) -> NDArray[np.float32]:
    shape = np.shape(label_ids)
    if shape != np.shape(scores):
        raise ValueError(
            f"Calibration: label_ids and scores must have the same shape, got {shape} and {np.shape(scores)}"
        )
    columns = shape[-1] if len(shape) else 1
    rows = (-1, columns) if columns else (0, 0)
    found = _core.calibrated_proba(
        np.ascontiguousarray(label_ids, dtype=np.int32).reshape(rows),
        np.ascontiguousarray(scores, dtype=np.float32).reshape(rows),
        label_counts,
        *surface,
        n_threads,
        current_control(),
    )
    return np.asarray(found).reshape(shape)


class _Half(NamedTuple):
    """The odd or the even rows, with the probabilities of the surface of the other half and of their own."""

    row_ids: NDArray[np.int64]
    judged: Judged


def _halves(top: TopK, pairs: Pairs, label_counts: NDArray[np.int64]) -> list[_Half]:
    """Learn a surface on either half of the rows; none if one of them has no hit."""
    is_odd = pairs.row_ids % 2 == 1
    if not pairs.hits[is_odd].any() or not pairs.hits[~is_odd].any():
        return []
    surfaces = [_surface_of(pairs.where(chosen), label_counts) for chosen in (~is_odd, is_odd)]
    halves = []
    for half in (0, 1):
        row_ids = np.arange(half, len(top.label_ids), 2)
        part = TopK(np.ascontiguousarray(top.label_ids[row_ids]), np.ascontiguousarray(top.scores[row_ids]))
        own, other = (
            TopK(part.label_ids, _proba(surfaces[at], label_counts, *part, n_threads=1)) for at in (half, 1 - half)
        )
        halves.append(_Half(row_ids, Judged(ranking=other, judging=own)))
    return halves


def _cross_fitted_ece(halves: list[_Half], pairs: Pairs) -> float:
    """Compare what the surface of the other half says about the five best labels of each row with the truth."""
    if not halves:
        return 0.0
    proba: list[NDArray[np.float32]] = []
    hits: list[NDArray[np.bool_]] = []
    for number, half in enumerate(halves):
        of_half = pairs.where((pairs.row_ids % 2 == number) & (pairs.ranks < 5))
        proba.append(half.judged.ranking.scores[of_half.row_ids // 2, of_half.ranks])
        hits.append(of_half.hits)
    return expected_calibration_error(np.concatenate(proba), np.concatenate(hits))


def _checked_counts(label_counts: ArrayLike, n_labels: int) -> NDArray[np.int64]:
    counts = np.asarray(label_counts)
    if counts.shape != (n_labels,) or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ValueError(
            f"Calibration: label_counts must be one whole number >= 0 for each of {n_labels} labels, "
            f"got {counts.dtype} of shape {counts.shape}"
        )
    return counts.astype(np.int64)
