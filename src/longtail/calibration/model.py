"""Scores to probabilities and decisions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail import _core
from longtail._part import Part
from longtail._rules import Choice, Int, Nothing, Real
from longtail._topk import TopK
from longtail.calibration.balance import Judged, balance
from longtail.calibration.correction import learn_correction
from longtail.calibration.errors import expected_calibration_error
from longtail.calibration.pairs import Truth, groups_of, truth_of
from longtail.calibration.power import PowerRule, Ranked
from longtail.calibration.row_rules import macro_f1_rules, rule_for
from longtail.calibration.state import CalibrationState, proba_on
from longtail.calibration.surface import Placed, Surface, place_pairs
from longtail.calibration.thresholds import f1_threshold, floor_thresholds, macro_f1_threshold, micro_f1_thresholds

Measure = Literal["micro_f1", "macro_f1", "precision"]

# The surface has fewer than a hundred nodes: more pairs than this only cost time.
_MAX_PAIRS = 2_000_000
# Of the misses from this rank on, nearly all pairs, one of eight stands for all.
_FIRST_THINNED_RANK = 20
_THINNED_TO_ONE_OF = 8
# Labels from this rank on count less. At the same score, a label is less often right if others of its row score higher:
# probabilities should be those of labels that are shown.
_FIRST_LESSER_RANK = 5
_LESSER_WEIGHT = 0.25
# Labels per row among which the default ranking is judged.
_N_JUDGED = 20
# Rankings by power whose tables are kept.
_N_KEPT = 4
# Rows that rules for macro-F1 are learnt from: so many, or so many per label.
_N_RULE_ROWS = 1_000
_RULE_ROWS_PER_LABEL = 3


@dataclass(kw_only=True, eq=False, repr=False)
class Calibration(Part[CalibrationState]):
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
    balanced_power_ : float in [0, 1] or None
        The greatest power of the inverse propensities that costs hardly any precision on held-out rows: the default
        ranking of a calibrated model gives rare labels that much. None if every power is less precise than the
        scores, or may be: the default ranking is then that of the scores.
    balanced_share_ : float in [0, 1]
        How much of what frequencies say about probabilities counts in that ranking; at 0, a score means the same for
        all labels.
    row_slopes_, row_offsets_ : float32 arrays (4, n_labels)
        Ranking by slope · probability + offset maximises macro-F1 at 1, 3, 5 and 10, one row at a time.
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

    measure: Annotated[Measure, Choice(*get_args(Measure))] = "micro_f1"
    floor: Annotated[float | None, Nothing(), Real(0, 1, above=True)] = None
    min_positives: Annotated[int, Int(1)] = 50

    _State: ClassVar[type[CalibrationState]] = CalibrationState
    _absent_fitted: ClassVar[dict[str, Any]] = {"balanced_share_": 1.0}
    _how_to_fit: ClassVar[str] = "fit(top, Y, label_counts, n_training_rows)"
    _kept: tuple[PowerRule, ...] = field(init=False, default=())  # those that were used last

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
        truth = truth_of(top, Y)
        is_hit, n_rows = truth.is_hit, len(truth.is_hit)
        counts = _checked_counts(label_counts, len(truth.positives))
        if not is_hit.any():
            raise ValueError(
                f"Calibration: none of the {n_rows} held-out rows has one of its labels ranked; "
                "give more rows, or labels that the model knows"
            )
        n_training_rows = int(n_training_rows)
        placed = _placed(top, is_hit, counts)
        first = placed.fit()
        surface = learn_correction(first, counts, top, is_hit)(first)
        proba = TopK(top.label_ids, proba_on(surface, counts, *top, n_threads=1))
        map_of_label, thresholds = self._thresholds(proba, truth)
        halves = _halves(top, placed, first, counts, is_hit) or [Judged(surface, top, is_hit)]
        balanced = balance(halves, counts, n_training_rows)
        row_slopes, row_offsets = macro_f1_rules(_thinned(proba, len(counts)), counts, n_training_rows)
        self._fitted = CalibrationState(
            **surface._asdict(),
            label_counts=counts,
            map_of_label=map_of_label,
            thresholds=thresholds,
            row_slopes=row_slopes,
            row_offsets=row_offsets,
            ece=_ece(halves, counts),
            n_rows=n_rows,
            n_training_rows=n_training_rows,
            balanced_power=None if balanced is None else balanced.power,
            balanced_share=1.0 if balanced is None else balanced.share,
        )
        return self

    def for_more_rows(
        self, fewer: TopK, Y: Any, fewer_counts: ArrayLike, n_fewer_rows: int, n_rows: int
    ) -> Calibration:
        """Return the calibration of this model if it had more training rows, before `for_model`.

        Models with more rows are more or less sure of the same labels. How that changes is seen between a model with
        fewer rows and this one, and is taken to go on: such differences fall with the root of the number of rows.

        Parameters
        ----------
        fewer : TopK
            The ranking of held-out rows by a model of the same kind with fewer training rows.
        Y : CSR matrix or 0/1 array (n_held_out, n_labels)
            Their labels.
        fewer_counts, n_fewer_rows
            Training rows of each label and all training rows of the model with fewer rows.
        n_rows : int
            Training rows of the model that the calibration is for.
        """
        state = self._whole()
        counts = _checked_counts(fewer_counts, len(state.label_counts))
        is_hit = truth_of(fewer, Y).is_hit
        if not is_hit.any():
            return self
        # How wrong this surface is about scores of the other model; more rows lead the opposite way.
        times = n_fewer_rows / state.n_training_rows
        surface = state.surface._replace(count_knots=_grown(state.count_knots, times))
        change = learn_correction(surface, counts, fewer, is_hit)
        here, before, after = (n**-0.5 for n in (state.n_training_rows, n_fewer_rows, n_rows))
        share = (here - after) / (before - here)
        return self._with(replace(state, log_odds=change(state.surface, -share).log_odds))

    def for_model(self, label_counts: ArrayLike, n_training_rows: int) -> Calibration:
        """Return the same calibration for a model of the same kind that was trained on other rows.

        Held-out rows are needed to learn what scores mean, but the final model may be trained on all rows. A score
        then means what it meant for a label with the same share of the training rows.
        """
        state = self._whole()
        counts = _checked_counts(label_counts, len(state.label_counts))
        times = int(n_training_rows) / state.n_training_rows
        return self._with(
            replace(
                state,
                label_counts=counts,
                n_training_rows=int(n_training_rows),
                count_knots=_grown(state.count_knots, times),
            )
        )

    def for_labels(self, places: NDArray[np.int64], label_counts: ArrayLike) -> Calibration:
        """Return the same calibration for a model with other labels.

        A new label gets the shared threshold, and is ranked like the label with the nearest number of training rows.

        Parameters
        ----------
        places : int array (n_labels,), the id of each label in this calibration; -1 for new labels
        label_counts : int array (n_labels,), training rows of each label
        """
        state = self._whole()
        counts = _checked_counts(label_counts, len(places))
        by_count = np.argsort(state.label_counts, kind="stable")
        nearest = by_count[np.minimum(np.searchsorted(state.label_counts[by_count], counts), len(by_count) - 1)]
        is_new = places < 0
        alike = np.where(is_new, nearest, places)
        changed = replace(
            state,
            label_counts=counts,
            map_of_label=np.where(is_new, np.int32(0), state.map_of_label[alike]),
            row_slopes=np.ascontiguousarray(state.row_slopes[..., alike]),
            row_offsets=np.ascontiguousarray(state.row_offsets[..., alike]),
        )
        return self._with(changed)

    def proba(self, label_ids: NDArray[Any], scores: NDArray[Any], *, n_threads: int = 1) -> NDArray[np.float32]:
        """Return the probability that each label is right; 0 where the label is padding (-1).

        Parameters
        ----------
        label_ids, scores : arrays of the same shape
            As in a TopK.
        """
        return self._whole().proba(label_ids, scores, n_threads)

    def row_rule(self, top_k: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the slope and the offset of each label that rank one row at a time for macro-F1 at `top_k`.

        Rules are learnt for 1, 3, 5 and 10 labels; for other numbers the nearest of them is returned.
        """
        state = self._whole()
        rule = rule_for(top_k) if state.row_slopes.ndim > 1 else ...
        return state.row_slopes[rule], state.row_offsets[rule]

    def inverse_propensities(self) -> NDArray[np.float64]:
        """Return 1/p of each label under the standard propensity model; see `longtail.propensity`."""
        return self._whole().inverse_propensities

    def rank_by_power(
        self, top: TopK, power: float, top_k: int, *, share: float = 1.0, is_sorted: bool = False, n_threads: int = 1
    ) -> Ranked:
        """Rank candidates by probability times inverse propensity to a power.

        Parameters
        ----------
        top : TopK
            Candidates of each row, with their scores.
        power : float
        top_k : int
        share : float in [0, 1], default 1
            How much of what the frequency of a label says about its probability counts; see `balanced_share_`.
        is_sorted : bool, default False
            Whether candidates are in the order of their scores, best first, and hold the best scores of all labels.

        Returns
        -------
        Ranked
            Label ids, values, places among the candidates, and for which rows more candidates could change the
            ranking; none unless `is_sorted`.
        """
        return self._power_rule(power, share).rank(top, top_k, is_sorted=is_sorted, n_threads=n_threads)

    def value_table(self, power: float, share: float = 1.0) -> _core.ValueTable:
        """Return what each label is worth at a score: probability times inverse propensity to a power."""
        return self._power_rule(power, share).table

    def decide(self, label_ids: NDArray[Any], scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which labels are probable enough to be given."""
        state = self._whole()
        return _reached(state, label_ids, state.proba(label_ids, scores))

    def decide_by_proba(self, label_ids: NDArray[Any], proba: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which labels are given, from probabilities that are known already."""
        return _reached(self._whole(), label_ids, proba)

    def check_params(self) -> None:
        """Raise unless every parameter is one that `fit` takes."""
        super().check_params()
        if (self.measure == "precision") != (self.floor is not None):
            raise ValueError(
                "Calibration: floor must be given for measure='precision', and only then; "
                f"got measure={self.measure!r} with floor={self.floor!r}"
            )

    def _with(self, state: CalibrationState) -> Calibration:
        other = Calibration(**self.params())
        other._fitted = state
        return other

    def _power_rule(self, power: float, share: float) -> PowerRule:
        """Return the ranking for a power and a share of frequencies; the last few asked for are kept."""
        curves, kept = self._whole().curves, self._kept
        for rule in kept:
            if rule.whole is curves and (rule.power, rule.share) == (power, share):
                return rule
        rule = PowerRule(curves, power, share)
        self._kept = (rule, *kept[: _N_KEPT - 1])
        return rule

    def _thresholds(self, proba: TopK, truth: Truth) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the threshold of each label, as its place among all, and the thresholds."""
        n_labels = len(truth.positives)
        hits_of_label = np.bincount(proba.label_ids[truth.is_hit], minlength=n_labels)
        head = np.flatnonzero(hits_of_label >= self.min_positives)
        map_of_label = np.zeros(n_labels, dtype=np.int32)
        map_of_label[head] = np.arange(1, len(head) + 1, dtype=np.int32)
        groups = groups_of(proba, truth, map_of_label, len(head) + 1)
        if self.measure == "micro_f1":
            found = micro_f1_thresholds(groups, int(truth.positives.sum()))
        elif self.measure == "macro_f1":
            is_shared = (proba.label_ids >= 0) & (map_of_label[proba.label_ids] == 0)
            shared = TopK(np.where(is_shared, proba.label_ids, -1), proba.scores)
            first = macro_f1_threshold(groups[0], shared, truth.is_hit, truth.positives)
            found = [first] + [f1_threshold(group) for group in groups[1:]]
        else:
            found = floor_thresholds(groups, self.floor or 0.0)
        return map_of_label, np.array(found, dtype=np.float32)


def _grown(count_knots: NDArray[np.float64], times: float) -> NDArray[np.float64]:
    """Return the same shares of so many times the rows."""
    return np.asarray(np.log1p(times * np.expm1(count_knots)))


def _reached(state: CalibrationState, label_ids: NDArray[Any], proba: NDArray[Any]) -> NDArray[np.bool_]:
    reached: NDArray[np.bool_] = proba >= state.thresholds[state.map_of_label[np.maximum(label_ids, 0)]]
    return reached & (label_ids >= 0)


def _placed(top: TopK, is_hit: NDArray[np.bool_], label_counts: NDArray[np.int64]) -> Placed:
    """Place the pairs of a ranking on the grid of their surface."""
    step = -(-top.label_ids.size // _MAX_PAIRS) | 1  # odd, so that there are odd and even rows
    rows = slice(None, None, step if is_hit[::step].any() else 1)
    row_ids = np.arange(len(top.label_ids))[rows]
    label_ids, scores, hits = top.label_ids[rows], top.scores[rows], is_hit[rows]
    weights = np.ones(label_ids.shape, np.float32)
    weights[:, _FIRST_LESSER_RANK:] = _LESSER_WEIGHT
    deep = slice(_FIRST_THINNED_RANK, None)
    places = (row_ids[:, None] + np.arange(label_ids.shape[1])[deep]) % _THINNED_TO_ONE_OF
    weights[:, deep] *= np.where(hits[:, deep], 1, np.where(places == 0, _THINNED_TO_ONE_OF, 0)).astype(np.float32)
    is_odd = np.broadcast_to(row_ids[:, None] % 2 == 1, label_ids.shape)
    is_label = label_ids >= 0
    is_whole = bool(is_label.all())

    def flat(part: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(part).reshape(-1) if is_whole else part[is_label]

    log_counts = np.log1p(label_counts)[flat(label_ids)]
    return place_pairs(flat(scores), log_counts, flat(hits), flat(weights), flat(is_odd))


def _halves(
    top: TopK, placed: Placed, whole: Surface, label_counts: NDArray[np.int64], is_hit: NDArray[np.bool_]
) -> list[Judged]:
    """Return the even and the odd rows with the probabilities of the other half's surface; none if one has no hit."""
    if any(placed.pairs.counts(odd)[1] == 0 for odd in (False, True)):
        return []
    halves = []
    shown = TopK(top.label_ids[:, :_N_JUDGED], top.scores[:, :_N_JUDGED])
    parts = [
        TopK(np.ascontiguousarray(shown.label_ids[half::2]), np.ascontiguousarray(shown.scores[half::2]))
        for half in (0, 1)
    ]
    right = [is_hit[half::2, :_N_JUDGED] for half in (0, 1)]
    for half in (0, 1):
        surface = placed.fit(odd=half == 0, start=whole)
        surface = learn_correction(surface, label_counts, parts[1 - half], right[1 - half])(surface)
        halves.append(Judged(surface, parts[half], right[half]))
    return halves


def _thinned(proba: TopK, n_labels: int) -> TopK:
    """Return some of the rows, as many as rules for macro-F1 need."""
    step = -(-len(proba.label_ids) // max(_N_RULE_ROWS, _RULE_ROWS_PER_LABEL * n_labels))
    return TopK(np.ascontiguousarray(proba.label_ids[::step]), np.ascontiguousarray(proba.scores[::step]))


def _ece(halves: list[Judged], label_counts: NDArray[np.int64]) -> float:
    """Compare what the surface of the other half says about the five best labels of each row with the truth."""
    proba, hits = [], []
    for half in halves:
        best = TopK(half.top.label_ids[:, :5], half.top.scores[:, :5])
        is_label = best.label_ids >= 0
        proba.append(proba_on(half.surface, label_counts, *best, n_threads=1)[is_label])
        hits.append(half.is_hit[:, :5][is_label])
    return expected_calibration_error(np.concatenate(proba), np.concatenate(hits))


def _checked_counts(label_counts: ArrayLike, n_labels: int) -> NDArray[np.int64]:
    counts = np.asarray(label_counts)
    if counts.shape != (n_labels,) or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ValueError(
            f"Calibration: label_counts must be one whole number >= 0 for each of {n_labels} labels, "
            f"got {counts.dtype} of shape {counts.shape}"
        )
    return counts.astype(np.int64)
