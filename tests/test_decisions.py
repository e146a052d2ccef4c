"""Rankings by utility against naive twins, and what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from longtail._topk import values_of
from longtail.calibration.balance import Judged, balance
from longtail.calibration.surface import Surface
from longtail.decisions import candidates_for, choose, parse_utility, rank, rank_rows
from longtail.metrics import macro_f1_at_k, precision_at_k, psprecision_at_k


def world(n_rows: int = 600, n_labels: int = 40, seed: int = 0, rare_too_low: float = 0.0) -> tuple[lt.TopK, Any, Any]:
    """Make labels of falling frequency whose scores say something about them; all labels are candidates."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, n_labels)) * 2 - np.linspace(0.5, 5, n_labels)
    Y = sp.csr_array((rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(np.float32))
    scores = (z + rng.normal(size=z.shape) * 0.3 - np.linspace(0, rare_too_low, n_labels)).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable").astype(np.int32)
    counts = np.round(10 * np.asarray(Y.sum(axis=0)).ravel()).astype(np.int64)
    return lt.TopK(order, np.take_along_axis(scores, order, axis=1)), Y, counts


@pytest.fixture(scope="module")
def calibrated() -> tuple[lt.Calibration, lt.TopK, Any]:
    top, Y, counts = world()
    new_top, new_Y, _ = world(seed=1)
    return lt.Calibration().fit(top, Y, counts, 6000), new_top, new_Y


def naive_affine(label_ids: Any, values: Any, slopes: Any, offsets: Any, top_k: int) -> list[list[int]]:
    """Rank row by row; equal values keep the order of the candidates."""
    found = []
    for ids, p in zip(label_ids.tolist(), values, strict=True):
        keyed = [(-float(np.float32(slopes[i] * p[c]) + offsets[i]), c, i) for c, i in enumerate(ids) if i >= 0]
        chosen = [i for _, _, i in sorted(keyed)[:top_k]]
        found.append(chosen + [-1] * (top_k - len(chosen)))
    return found


def naive_ascent(label_ids: Any, proba: Any, positives: Any, top_k: int, n_passes: int, *, coverage: bool) -> Any:
    """Choose again for one row after the other, with every label's statistic computed anew each time."""
    n_rows = len(label_ids)
    chosen: list[list[int]] = [[] for _ in range(n_rows)]

    def value(label: int, picks: list[float]) -> float:
        if coverage:
            return float(1 - np.prod(1 - np.array(picks))) if picks else 0.0
        return 2 * sum(picks) / (len(picks) + positives[label]) if picks else 0.0

    for _ in range(n_passes):
        for row in range(n_rows):
            chosen[row] = []
            gains = []
            for place, label in enumerate(label_ids[row].tolist()):
                if label < 0:
                    continue
                others = [float(proba[r, c]) for r in range(n_rows) for c in chosen[r] if label_ids[r, c] == label]
                gain = value(label, [*others, float(proba[row, place])]) - value(label, others)
                gains.append((-gain, place))
            chosen[row] = [place for _, place in sorted(gains)[:top_k]]
    return [sorted(int(label_ids[row, place]) for place in chosen[row]) for row in range(n_rows)]


def test_affine_ranking_does_what_its_naive_twin_does() -> None:
    rng = np.random.default_rng(0)
    label_ids = np.array([rng.permutation(12)[:8] for _ in range(60)], np.int32)
    label_ids[::7, 5:] = -1
    values = (rng.integers(0, 5, label_ids.shape) / 4).astype(np.float32)  # many are equal
    slopes = rng.random(12).astype(np.float32)
    offsets = -rng.random(12).astype(np.float32)
    found, _, places = _core.rank_affine(label_ids, values, slopes, offsets, 6, 1, _core.Control())
    assert found.tolist() == naive_affine(label_ids, values, slopes, offsets, 6)
    again, *_ = _core.rank_affine(label_ids, values, slopes, offsets, 6, 3, _core.Control())
    assert again.tobytes() == found.tobytes()
    is_label = found >= 0
    assert (np.take_along_axis(label_ids, np.maximum(places, 0), axis=1)[is_label] == found[is_label]).all()
    assert (places[~is_label] == -1).all()


@pytest.mark.parametrize("width", [1, 4, 12])
def test_many_powers_are_judged_as_one_ranking_after_the_other(width: int) -> None:
    rng = np.random.default_rng(0)
    label_ids = np.array([rng.permutation(12)[:width] for _ in range(60)], np.int32)
    label_ids[::7, 3:] = -1
    values = (rng.integers(0, 5, label_ids.shape) / 4).astype(np.float32)  # many are equal
    hits = (rng.random(label_ids.shape) < 0.4) & (label_ids >= 0)
    groups = rng.integers(0, 4, 12).astype(np.int32)
    slopes = np.repeat(rng.random((4, 9)), 2, axis=1).astype(np.float32)  # more than are ranked side by side
    weights = np.array([1.0, 2.5, 4.0, 8.0])
    losses, squares, gains = _core.judge_powers(
        label_ids, values, hits.view(np.uint8), groups, slopes, weights, _core.Control()
    )
    for rule in range(slopes.shape[1]):
        found, _, places = _core.rank_affine(label_ids, values, slopes[groups, rule], None, 5, 1, _core.Control())
        right = (places >= 0) & np.take_along_axis(hits, np.maximum(places, 0), axis=1)
        lost = np.stack([hits[:, :k].sum(axis=1) - right[:, :k].sum(axis=1) for k in (1, 3, 5)], axis=1)
        assert losses[rule].tolist() == lost.sum(axis=0).tolist()
        assert squares[rule].tolist() == (lost**2).sum(axis=0).tolist()
        assert gains[rule] == weights[groups[found[:, 0][right[:, 0]]]].sum()


def test_powers_are_judged_only_with_arrays_that_fit_together() -> None:
    ids, p, hits = np.zeros((2, 1), np.int32), np.ones((2, 1), np.float32), np.ones((2, 1), np.uint8)
    groups, slopes, weights = np.zeros(1, np.int32), np.ones((1, 2), np.float32), np.ones(1)
    control = _core.Control()
    for arguments in (
        (ids + 1, p, hits, groups, slopes, weights),
        (ids, p, hits[:1], groups, slopes, weights),
        (ids, p, hits, groups + 1, slopes, weights),
        (ids, p, hits, groups, np.ones((2, 2), np.float32), weights),
        (ids, p, hits, groups, np.ones((1, 0), np.float32), weights),
        (ids, np.full_like(p, np.nan), hits, groups, slopes, weights),
    ):
        with pytest.raises(ValueError, match=r"must be|must have"):
            _core.judge_powers(*arguments, control)


@pytest.mark.parametrize("coverage", [False, True])
def test_the_ascent_does_what_its_naive_twin_does(coverage: bool) -> None:
    rng = np.random.default_rng(0)
    label_ids = np.array([rng.permutation(9)[:6] for _ in range(25)], np.int32)
    label_ids[3, 2:] = -1
    proba = rng.random(label_ids.shape).astype(np.float32)
    positives = rng.random(9) * 5 + 0.5
    control = _core.Control()
    for n_passes in (1, 2, 4):
        found, *_, used = _core.ascend(label_ids, proba, positives, coverage, 3, 1.0, n_passes, -1.0, control)
        assert used == n_passes
        expected = naive_ascent(label_ids, proba, positives, 3, n_passes, coverage=coverage)
        assert [sorted(i for i in row if i >= 0) for row in found.tolist()] == expected


def test_every_pass_of_the_ascent_gains() -> None:
    rng = np.random.default_rng(0)
    label_ids = np.tile(np.arange(20, dtype=np.int32), (200, 1))
    proba = (rng.random((200, 20)) * np.linspace(1, 0.05, 20)).astype(np.float32)
    positives = proba.sum(axis=0).astype(np.float64)
    values = [
        _core.ascend(label_ids, proba, positives, False, 3, 0.7, n, -1.0, _core.Control())[3] for n in range(1, 6)
    ]
    assert values == sorted(values)


def test_power_zero_ranks_by_probability_and_power_one_by_probability_times_weight(calibrated: Any) -> None:
    calibration, top, _ = calibrated
    proba = calibration.proba(*top)
    weights = calibration.inverse_propensities()[top.label_ids]
    for name, key in (("precision", proba), ("psp", proba * weights), ("power:0.5", proba * np.sqrt(weights))):
        expected = -np.sort(-key, axis=1)[:, :5]
        np.testing.assert_allclose(rank(top, calibration, name).scores, expected, rtol=1e-5)


def test_each_utility_is_best_at_what_it_is_for(calibrated: Any) -> None:
    calibration, top, Y = calibrated
    p = 1 / calibration.inverse_propensities()
    found = {name: rank(top, calibration, name) for name in ("precision", "psp", "macro-f1", "macro-f1-by-row")}
    assert precision_at_k(found["precision"], Y, 1) > precision_at_k(found["psp"], Y, 1)
    assert psprecision_at_k(found["psp"], Y, p, 5) > psprecision_at_k(found["precision"], Y, p, 5)
    macro = {name: macro_f1_at_k(ranked, Y, 5) for name, ranked in found.items()}
    assert macro["macro-f1"] > macro["psp"] > macro["precision"]
    assert macro["macro-f1-by-row"] > macro["precision"]


def test_by_row_a_label_does_not_depend_on_other_rows(calibrated: Any) -> None:
    calibration, top, _ = calibrated
    for name in ("balanced", "psp", "macro-f1-by-row"):
        whole = rank(top, calibration, name).label_ids
        some = rank(lt.TopK(top.label_ids[7:9], top.scores[7:9]), calibration, name).label_ids
        assert some.tolist() == whole[7:9].tolist()


@pytest.mark.parametrize(("top_k", "rule"), [(1, 0), (2, 1), (4, 2), (5, 2), (7, 2), (8, 3), (40, 3)])
def test_the_rule_for_rows_is_the_one_learnt_for_the_nearest_number_of_labels(
    calibrated: Any, top_k: int, rule: int
) -> None:
    calibration, top, _ = calibrated
    slopes, offsets = calibration.row_rule(top_k)
    np.testing.assert_array_equal(slopes, calibration.row_slopes_[rule])
    expected = naive_affine(top.label_ids, calibration.proba(*top), slopes, offsets, top_k)
    assert rank(top, calibration, "macro-f1-by-row", top_k).label_ids.tolist() == expected


def test_a_rule_for_one_label_per_row_is_better_at_that_than_the_rule_for_five(calibrated: Any) -> None:
    calibration, top, Y = calibrated
    proba, zeros = calibration.proba(*top), np.zeros(40, np.float32)
    found = []
    for rule in (0, 2):
        slopes, offsets = calibration.row_slopes_[rule], calibration.row_offsets_[rule]
        ranked = naive_affine(top.label_ids, proba, slopes, zeros + offsets, 1)
        found.append(macro_f1_at_k(np.array(ranked), Y, 1))
    assert found[0] > found[1]


def test_a_few_rows_are_ranked_for_macro_f1_by_the_rule_for_rows(calibrated: Any) -> None:
    calibration, top, _ = calibrated
    one = lt.TopK(top.label_ids[7:8], top.scores[7:8])
    found = [rank(one, calibration, name).label_ids.tolist() for name in ("macro-f1", "macro-f1-by-row", "precision")]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("utility", ["psp", "macro-f1", "coverage", "macro-f1-by-row"])
def test_a_stated_price_is_kept(calibrated: Any, utility: str) -> None:
    calibration, top, _ = calibrated
    best = expected_precision(calibration, top, rank(top, calibration, "precision"))
    losses = []
    for max_loss in (0.0, 0.5, 5.0):
        found = rank(top, calibration, utility, max_loss=max_loss)
        losses.append(best - expected_precision(calibration, top, found))
        assert losses[-1] <= max_loss + 1e-4
    assert losses[1] > 0.1  # and it is used


def expected_precision(calibration: lt.Calibration, top: lt.TopK, found: lt.TopK) -> float:
    proba = np.zeros((len(top.label_ids), 40))
    np.put_along_axis(proba, top.label_ids.astype(np.int64), calibration.proba(*top), axis=1)
    return 100 * float(np.take_along_axis(proba, found.label_ids.astype(np.int64), axis=1).mean())


def test_the_balanced_ranking_is_as_precise_as_the_scores() -> None:
    top, Y, counts = world(n_rows=3000, rare_too_low=3.0)
    calibration = lt.Calibration().fit(top, Y, counts, 30_000)
    assert 0 < calibration.balanced_power_ < 1
    weights = calibration.inverse_propensities()
    changes = []
    for seed in range(1, 13):  # one set of 600 rows says little: P@1 varies by a point
        new_top, new_Y, _ = world(seed=seed, rare_too_low=3.0)
        balanced, best, by_score = (rank(new_top, calibration, name) for name in ("balanced", "precision", "score"))
        found = [[precision_at_k(top, new_Y, k) for k in (1, 3, 5)] for top in (balanced, best, by_score)]
        changes.append([np.subtract(found[0], found[1]), np.subtract(found[0], found[2])])
        assert weights[balanced.label_ids].mean() > weights[best.label_ids].mean()
    to_best, to_scores = np.mean(changes, axis=0)
    assert (to_best > -0.2).all()
    assert (to_scores > 0.5).all()  # rare labels score too low: the probabilities gain more than that


def test_the_balanced_ranking_is_that_of_the_scores_where_calibration_does_not_pay(calibrated: Any) -> None:
    """The scores are the log-odds already: every other ranking is worse, if only by little."""
    calibration, top, _ = calibrated
    assert calibration.balanced_power_ is None
    by_score = rank(top, calibration, "score")
    for found in (rank(top, calibration), rank(top, calibration, max_loss=1.0)):
        np.testing.assert_array_equal(found.label_ids, by_score.label_ids)
        np.testing.assert_array_equal(found.scores, by_score.scores)
    found = choose("test", lambda _, n: lt.TopK(top.label_ids[:, :n], top.scores[:, :n]), calibration, 5)
    np.testing.assert_array_equal(found.label_ids, by_score.label_ids)
    assert found.utility is None
    assert found.proba is not None


def judged(proba: Any, counts: Any, is_hit: Any) -> Judged:
    """Rows whose labels have these probabilities, whatever their frequency: a score is a probability's log-odds."""
    proba = np.asarray(proba, np.float64)
    knots = np.array([-20.0, 20.0])
    surface = Surface(knots, np.log1p([np.min(counts), np.max(counts)]).astype(np.float64), np.tile(knots, (2, 1)))
    label_ids = np.tile(np.arange(proba.shape[1], dtype=np.int32), (len(proba), 1))
    scores = np.log(proba / (1 - proba)).astype(np.float32)
    return Judged(surface, lt.TopK(label_ids, scores), np.asarray(is_hit))


def test_what_was_right_overrules_what_a_surface_expects() -> None:
    """Two labels per row, listed as if the first scored higher: the surface believes the rare one more."""
    counts = np.array([400, 5])
    right, wrong = (np.tile(np.array([hits]), (500, 1)) for hits in ([False, True], [True, False]))
    believed = np.tile([[0.3, 0.6]], (500, 1))
    assert balance([judged(believed, counts, right)], counts, 1000) is not None
    assert balance([judged(believed, counts, wrong)], counts, 1000) is None


def test_a_ranking_that_may_lose_is_not_taken() -> None:
    """In one of ten rows a power puts the rare label first, right as often as the other: few rows do not prove it."""
    counts = np.array([400, 5])
    is_close = np.arange(4000) % 10 == 0
    proba = np.where(is_close[:, None], [0.5, 0.4], [0.9, 0.01])
    is_first = np.where(is_close, np.arange(4000) % 20 == 0, True)
    part = judged(proba, counts, np.stack([is_first, ~is_first], axis=1))
    assert balance([part], counts, 1000) is None  # a standard error is half a point
    assert balance([part] * 100, counts, 1000) is not None


def test_rare_labels_do_not_use_up_all_that_calibration_gains() -> None:
    """The probabilities put three rows of ten right. A great power puts them wrong again, at no loss to the scores."""
    rng = np.random.default_rng(0)
    counts = np.array([300, 300, 2])
    is_changed = rng.random(1000) < 0.3
    proba = np.where(is_changed[:, None], [0.4, 0.5, 0.3], [0.6, 0.2, 0.01]).astype(np.float32)
    is_hit = np.where(is_changed[:, None], [False, True, False], [True, False, False])
    found = balance([judged(proba, counts, is_hit)], counts, 1000)
    assert found is not None
    weights = (1 / lt.propensity.from_counts(counts, 1000)) ** found.power
    assert ((proba * weights).argmax(axis=1) == np.where(is_changed, 1, 0)).all()
    assert (proba[is_changed] / lt.propensity.from_counts(counts, 1000)).argmax(axis=1).tolist() == [
        2
    ] * is_changed.sum()


@pytest.mark.parametrize("top_k", [4, 36])  # more than 32 are kept in a heap
def test_candidates_are_ranked_by_value_as_a_sort_does(calibrated: Any, top_k: int) -> None:
    calibration, top, _ = calibrated
    shuffled = np.random.default_rng(0).permutation(40)
    mixed = lt.TopK(top.label_ids[:, shuffled].copy(), top.scores[:, shuffled].copy())
    mixed.label_ids[::5, 3:] = -1
    label_ids, values, scores = _core.rank_by_value(*mixed, calibration.value_table(0.7), top_k)
    twin = calibration.rank_by_power(mixed, 0.7, top_k)
    np.testing.assert_allclose(values, twin.values, rtol=1e-5)
    is_label = label_ids >= 0
    np.testing.assert_array_equal(is_label, twin.label_ids >= 0)
    np.testing.assert_array_equal(scores[is_label], values_of(label_ids, mixed)[is_label])
    with pytest.raises(ValueError, match=r"label ids must be in -1 \.\. 39, got 40"):
        _core.rank_by_value(np.full((1, 1), 40, np.int32), np.ones((1, 1), np.float32), calibration.value_table(0.7), 1)


def test_rows_with_few_candidates_are_padded(calibrated: Any) -> None:
    calibration, _, _ = calibrated
    few = lt.TopK(np.array([[3, -1]], np.int32), np.array([[0.5, 0]], np.float32))
    for name in ("score", "precision", "psp", "macro-f1", "coverage", "macro-f1-by-row"):
        assert rank(few, calibration, name, top_k=3).label_ids.tolist() == [[3, -1, -1]]


def test_own_propensities_replace_the_standard_ones(calibrated: Any) -> None:
    calibration, top, _ = calibrated
    same = rank(top, calibration, "psp", propensity=np.ones(40))
    assert same.label_ids.tolist() == rank(top, calibration, "precision").label_ids.tolist()


def test_candidates_are_enough() -> None:
    assert candidates_for(5, 1000) == 100
    assert candidates_for(80, 1000) == 160
    assert candidates_for(5, 30) == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"utility": "fame"}, "utility must be one of score, balanced, precision"),
        ({"utility": "power:x"}, "the power must be a number from 0 to 10, got 'power:x'; try 'power:0.5'"),
        ({"utility": "power:-1"}, "the power must be a number"),
        ({"top_k": 0}, "top_k must be an int >= 1, got 0"),
        ({"max_loss": -1.0}, "max_loss must be in 0 .. 100"),
        ({"utility": "score", "max_loss": 1.0}, "max_loss must be None for this utility"),
        ({"propensity": np.zeros(40)}, r"propensity must be one number in \(0, 1\] for each of 40 labels"),
    ],
)
def test_wrong_options_are_named(calibrated: Any, options: dict[str, Any], message: str) -> None:
    calibration, top, _ = calibrated
    with pytest.raises(ValueError, match=message):
        rank(top, calibration, **options)


def test_a_calibration_that_is_not_fitted_is_refused(calibrated: Any) -> None:
    with pytest.raises(ValueError, match="calibration must be fitted"):
        rank(calibrated[1], lt.Calibration())


def test_kernels_refuse_what_does_not_fit() -> None:
    ids, p, control = np.zeros((1, 2), np.int32), np.zeros((1, 2), np.float32), _core.Control()
    with pytest.raises(ValueError, match=r"label ids must be in -1 \.\. -1"):
        _core.rank_affine(ids, p, np.zeros(0, np.float32), None, 1, 1, control)
    with pytest.raises(ValueError, match="values must be finite"):
        _core.ascend(ids, p + np.float32("nan"), np.ones(1), False, 1, 1.0, 1, 0.0, control)
    with pytest.raises(ValueError, match="slopes and offsets must have the same length"):
        _core.rank_affine(ids, p, np.ones(1, np.float32), np.ones(2, np.float32), 1, 1, control)
    with pytest.raises(ValueError, match="same shape"):
        _core.rank_affine(ids, p[:, :1].copy(), np.ones(1, np.float32), None, 1, 1, control)


def test_names_are_read() -> None:
    assert parse_utility("power:1").power == parse_utility("psp").power == 1.0
    assert parse_utility("coverage").measure == "coverage"


@pytest.mark.parametrize("utility", ["precision", "balanced", "psp", "power:3", "macro-f1"])
def test_a_few_candidates_give_the_ranking_of_all(calibrated: Any, utility: str) -> None:
    calibration, top, _ = calibrated
    asked = []

    def candidates(row_ids: Any, n: int) -> lt.TopK:
        asked.append((None if row_ids is None else len(row_ids), n))
        rows = slice(None) if row_ids is None else row_ids
        return lt.TopK(top.label_ids[rows, :n], top.scores[rows, :n])

    found, expected = rank_rows(candidates, calibration, utility, 2), rank(top, calibration, utility, 2)
    assert found.label_ids.tolist() == expected.label_ids.tolist()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    if utility == "power:3":  # rare labels far down win: some rows need all candidates
        assert asked[1][0] is not None
        assert 0 < asked[1][0] < 600


def test_the_kernel_ranks_as_its_two_steps_do(calibrated: Any) -> None:
    calibration, top, _ = calibrated
    shuffled = np.random.default_rng(0).permutation(40)
    mixed = lt.TopK(top.label_ids[:, shuffled].copy(), top.scores[:, shuffled].copy())
    mixed.label_ids[::5, 3:] = -1
    found = calibration.rank_by_power(mixed, 0.7, 4)
    slopes = (calibration.inverse_propensities() ** 0.7).astype(np.float32)
    twin = naive_affine(mixed.label_ids, calibration.proba(*mixed), slopes, np.zeros(40, np.float32), 4)
    assert found.label_ids.tolist() == twin
    assert not found.is_open.any()
    at_places = np.take_along_axis(mixed.label_ids, np.maximum(found.places, 0), axis=1)
    assert (at_places == found.label_ids)[found.label_ids >= 0].all()


@pytest.mark.parametrize("options", [{}, {"threshold": 0.3}, {"utility": "psp"}, {"utility": "balanced"}])
def test_proposals_need_few_candidates(calibrated: Any, options: dict[str, Any]) -> None:
    calibration, top, _ = calibrated
    wanted = {"utility": "precision", **options}
    asked = []

    def candidates(row_ids: Any, n: int) -> lt.TopK:
        asked.append(n)
        rows = slice(None) if row_ids is None else row_ids
        return lt.TopK(top.label_ids[rows, :n], top.scores[rows, :n])

    found = choose("Test", candidates, calibration, 3, **wanted)
    assert asked[0] < top.label_ids.shape[1]
    proba = calibration.proba(*top)
    kept = proba >= wanted.get("threshold", 0)
    expected = rank(lt.TopK(np.where(kept, top.label_ids, -1), top.scores), calibration, wanted["utility"], 3)
    assert found.label_ids.tolist() == expected.label_ids.tolist()
    is_label = found.label_ids >= 0
    assert found.proba is not None
    np.testing.assert_array_equal(
        found.proba[is_label], values_of(found.label_ids, lt.TopK(top.label_ids, proba))[is_label]
    )
    np.testing.assert_array_equal(found.scores[is_label], values_of(found.label_ids, top)[is_label])


def test_the_loss_of_a_surface_is_what_its_naive_twin_finds() -> None:
    rng = np.random.default_rng(0)
    score_knots, count_knots = np.array([-1.0, 0.0, 0.5, 2.0]), np.array([0.0, 1.5, 4.0])
    log_odds = np.cumsum(rng.random((3, 4)), axis=1) - 2
    scores = (rng.random(200) * 3.4 - 1.2).astype(np.float32)  # some lie outside the knots
    log_counts = rng.random(200) * 5
    hits, is_odd = (rng.random(200) < 0.4), rng.random(200) < 0.5
    weights = rng.integers(0, 9, 200).astype(np.float32)
    flags = hits.view(np.uint8), weights, is_odd.view(np.uint8)
    pairs = _core.SurfacePairs(scores, log_counts, *flags, score_knots, count_knots)

    def naive(nodes: Any, chosen: Any) -> float:
        total = 0.0
        for score, count, hit, weight in zip(
            *(part[chosen].tolist() for part in (scores, log_counts, hits, weights)), strict=True
        ):
            j = int(np.clip(np.searchsorted(score_knots, score, "right") - 1, 0, 2))
            a = (score - score_knots[j]) / (score_knots[j + 1] - score_knots[j])
            low_and_high = [nodes[:, j] * (1 - a) + nodes[:, j + 1] * a]
            z = np.interp(count, count_knots, low_and_high[0])
            total += weight * (np.logaddexp(0, z) - hit * z)
        return float(total)

    def slope(of: Any, at: Any, node: Any, step: float) -> Any:
        there = np.zeros_like(at)
        there[node] = step
        return (of(at + there) - of(at - there)) / (2 * step)

    for odd, chosen in ((None, np.ones(200, bool)), (True, is_odd), (False, ~is_odd)):
        loss, gradient, hessian = pairs.loss(log_odds, odd, _core.Control())
        assert pairs.counts(odd) == (weights[chosen].sum(), weights[chosen & hits].sum())
        assert loss == pytest.approx(naive(log_odds, chosen), rel=1e-6)
        nodes = list(np.ndindex(3, 4))

        def loss_at(at: Any, chosen: Any = chosen) -> float:
            return naive(at, chosen)

        def gradient_at(at: Any, odd: Any = odd) -> Any:
            return pairs.loss(at, odd, _core.Control())[1]

        np.testing.assert_allclose(gradient, [slope(loss_at, log_odds, node, 1e-5) for node in nodes], atol=1e-4)
        np.testing.assert_allclose(hessian, [slope(gradient_at, log_odds, node, 1e-2) for node in nodes], atol=1e-2)
    with pytest.raises(ValueError, match="log_odds must have 12 nodes, got 6"):
        pairs.loss(log_odds[:, :2].copy(), None, _core.Control())
    with pytest.raises(ValueError, match="must have the same length"):
        _core.SurfacePairs(scores[1:], log_counts, *flags, score_knots, count_knots)
    with pytest.raises(ValueError, match="score_knots must be two or more rising numbers"):
        _core.SurfacePairs(scores, log_counts, *flags, score_knots[::-1].copy(), count_knots)


def test_sums_of_an_affine_ranking_are_those_of_the_ranking() -> None:
    rng = np.random.default_rng(0)
    label_ids = np.argsort(rng.random((60, 20)), axis=1)[:, :9].astype(np.int32)
    label_ids[::5, 6:] = -1
    values = rng.integers(0, 5, label_ids.shape).astype(np.float32) / 4  # many are equal
    slopes, offsets = rng.integers(1, 4, 20).astype(np.float32), -rng.integers(0, 3, 20).astype(np.float32)
    for top_k in (1, 4, 12):
        found = _core.rank_affine(label_ids, values, slopes, offsets, top_k, 1, _core.Control())
        is_given = found[0] >= 0
        chosen = np.take_along_axis(values, np.maximum(found[2], 0), axis=1)[is_given]
        n_given, sums = _core.sum_affine(label_ids, values, slopes, offsets, top_k, _core.Control())
        np.testing.assert_array_equal(n_given, np.bincount(found[0][is_given], minlength=20))
        np.testing.assert_array_equal(sums, np.bincount(found[0][is_given], chosen, 20))
    with pytest.raises(ValueError, match="slopes and offsets must have the same length"):
        _core.sum_affine(label_ids, values, slopes, offsets[1:], 1, _core.Control())
