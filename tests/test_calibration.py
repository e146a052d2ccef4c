"""The surface and the thresholds against what is known, brute force and a naive twin."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import longtail as lt
from longtail import _core
from longtail.calibration import brier_score, expected_calibration_error, find_hits, log_loss, reliability
from longtail.calibration.pairs import Truth, groups_of
from longtail.calibration.surface import place_pairs


def ranked(scores: Any) -> lt.TopK:
    """Rank every label of a small dense matrix of scores."""
    order = np.argsort(-scores, axis=1, kind="stable").astype(np.int32)
    return lt.TopK(order, np.take_along_axis(scores, order, axis=1).astype(np.float32))


def some_data(n_rows: int, n_labels: int, seed: int = 0) -> tuple[Any, Any]:
    """Scores whose true probability is known: sigmoid(3 · score), for labels of falling frequency."""
    rng = np.random.default_rng(seed)
    scores = (rng.normal(size=(n_rows, n_labels)) - np.linspace(0, 2, n_labels)).astype(np.float32)
    Y = rng.random(scores.shape) < 1 / (1 + np.exp(-3 * scores))
    return scores, Y.astype(np.float32)


def fitted(top: lt.TopK, Y: Any, **params: Any) -> lt.Calibration:
    """Calibrate as if the model had been trained on ten times the rows."""
    counts = 10 * np.asarray(sp.csr_array(Y).sum(axis=0)).ravel().astype(np.int64)
    return lt.Calibration(**params).fit(top, Y, counts, 10 * len(top.label_ids))


def decisions(calibration: lt.Calibration, top: lt.TopK, n_labels: int) -> Any:
    given_labels = calibration.decide(*top)
    Y_hat = np.zeros((len(top.label_ids), n_labels))
    rows, columns = np.nonzero(given_labels)
    Y_hat[rows, top.label_ids[rows, columns]] = 1
    return Y_hat


def naive_proba(calibration: lt.Calibration, label_ids: Any, scores: Any) -> Any:
    """Interpolate twice, pair by pair, with plain Python."""
    found = np.zeros(label_ids.shape)
    s, n, z = calibration.score_knots_, calibration.count_knots_, calibration.log_odds_
    for place in np.ndindex(label_ids.shape):
        if label_ids[place] < 0:
            continue
        x = float(np.float32(scores[place]))
        y = min(max(float(np.log1p(calibration.label_counts_[label_ids[place]])), n[0]), n[-1])
        i = max(i for i in range(len(s) - 1) if i == 0 or s[i] <= x)
        j = max(j for j in range(len(n) - 1) if j == 0 or n[j] <= y)
        t, u = (x - s[i]) / (s[i + 1] - s[i]), (y - n[j]) / (n[j + 1] - n[j])
        low = z[j, i] * (1 - t) + z[j, i + 1] * t
        high = z[j + 1, i] * (1 - t) + z[j + 1, i + 1] * t
        found[place] = 1 / (1 + np.exp(-(low * (1 - u) + high * u)))
    return found


def test_probabilities_come_near_the_truth_on_new_rows() -> None:
    scores, Y = some_data(3000, 8)
    calibration = fitted(ranked(scores), Y)
    new_scores, _ = some_data(500, 8, seed=1)
    top = ranked(new_scores)
    truth = 1 / (1 + np.exp(-3 * top.scores))
    assert np.abs(calibration.proba(*top) - truth).mean() < 0.03
    assert calibration.ece_ < 0.05


def test_the_kernel_does_what_its_naive_twin_does() -> None:
    scores, Y = some_data(300, 8)
    calibration = fitted(ranked(scores), Y)
    rng = np.random.default_rng(1)
    label_ids = rng.integers(-1, 8, (50, 6)).astype(np.int32)
    asked = (rng.normal(size=(50, 6)) * 6).astype(np.float32)  # also far outside the knots
    np.testing.assert_allclose(
        calibration.proba(label_ids, asked), naive_proba(calibration, label_ids, asked), atol=1e-6
    )
    one, four = (calibration.proba(label_ids, asked, n_threads=n) for n in (1, 4))
    assert one.tobytes() == four.tobytes()


def test_a_score_means_less_for_a_rare_label_where_that_is_so() -> None:
    """Labels of the first half are frequent and believable at score 1, those of the second half are not."""
    rng = np.random.default_rng(0)
    scores = rng.random((2000, 20)).astype(np.float32)
    truth = np.where(np.arange(20) < 10, scores, scores * 0.2)
    Y = (rng.random(scores.shape) < truth).astype(np.float32)
    counts = np.repeat([2000, 20], 10)
    calibration = lt.Calibration().fit(ranked(scores), Y, counts, 20_000)
    frequent, rare = calibration.proba(np.array([[0, 15]]), np.array([[0.9, 0.9]]))[0]
    assert frequent == pytest.approx(0.9, abs=0.05)
    assert rare == pytest.approx(0.18, abs=0.05)


def test_a_score_means_the_same_at_the_same_share_of_the_rows() -> None:
    """A model of all rows has more rows per label than the one that was calibrated, but not a greater share of them."""
    scores, Y = some_data(2000, 20)
    calibration = fitted(ranked(scores), Y)
    larger = calibration.for_model(2 * calibration.label_counts_, 2 * calibration.n_training_rows_)
    top = ranked(scores)
    np.testing.assert_allclose(larger.proba(*top), calibration.proba(*top), atol=1e-3)
    back = larger.for_model(calibration.label_counts_, calibration.n_training_rows_)
    np.testing.assert_allclose(back.proba(*top), calibration.proba(*top), atol=1e-6)


def test_probabilities_are_those_of_the_labels_that_are_shown() -> None:
    """At the same score, the five best labels of a row are right twice as often as the others."""
    rng = np.random.default_rng(0)
    n_rows, n_labels = 2000, 20
    scores = np.tile(np.where(np.arange(n_labels) < 5, 0.6, 0.5), (n_rows, 1)).astype(np.float32)
    scores[::2] = 0.5  # the same score, at all ranks
    label_ids = np.argsort(rng.random((n_rows, n_labels)), axis=1).astype(np.int32)
    rate = np.where(np.arange(n_labels) < 5, 0.6, 0.3)
    is_hit = rng.random((n_rows, n_labels)) < rate
    Y = np.zeros((n_rows, n_labels))
    np.put_along_axis(Y, label_ids.astype(np.int64), is_hit, axis=1)
    calibration = lt.Calibration().fit(lt.TopK(label_ids, scores), Y, np.full(n_labels, 500), 8000)
    proba = float(calibration.proba(np.zeros((1, 1), int), np.full((1, 1), 0.5))[0, 0])
    without_weights = (5 * 0.6 + 2 * 15 * 0.3) / (5 + 2 * 15)
    assert proba > without_weights + 0.03


def test_probabilities_never_fall_with_the_score() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(4000).astype(np.float32)
    hits = rng.random(4000) < np.where(scores < 0.5, 0.6, 0.2)  # they should fall
    surface = place_pairs(scores, rng.random(4000) * 5, hits, np.ones(4000, np.float32)).fit()
    assert (np.diff(surface.log_odds, axis=1) >= 0).all()


def test_a_plane_of_log_odds_is_found_again() -> None:
    rng = np.random.default_rng(0)
    scores, log_counts = rng.normal(size=600_000).astype(np.float32), rng.uniform(0, 7, 600_000)
    z = 1.5 * scores - 0.4 * log_counts + 0.1 * scores * log_counts
    hits = rng.random(600_000) < 1 / (1 + np.exp(-z))
    surface = place_pairs(scores, log_counts, hits, np.ones(600_000, np.float32)).fit()
    s, n = np.meshgrid(surface.score_knots, surface.count_knots)
    inside = np.abs(s) < 2
    assert np.abs(surface.log_odds - (1.5 * s - 0.4 * n + 0.1 * s * n))[inside].max() < 0.25


def test_scores_that_are_nearly_all_close_to_zero_are_told_apart() -> None:
    """The score is a product of probabilities, as in a tree: most are tiny, and still differ in what they mean."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 30)) * 3 - 4
    Y = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(np.float32)
    top = ranked(np.exp(3 * np.minimum(z, 0)).astype(np.float32))
    calibration = lt.Calibration().fit(top, Y, np.full(30, 100), 8000)
    assert calibration.ece_ < 0.025
    truth = 1 / (1 + np.exp(-np.array([-4.0, -2.0, -1.0])))
    proba = calibration.proba(np.zeros((1, 3), int), np.exp(3 * np.array([[-4.0, -2.0, -1.0]])))[0]
    np.testing.assert_allclose(proba, truth, atol=0.05)


def test_labels_of_equal_frequency_are_not_told_apart_by_chance() -> None:
    """Of labels with 40 rows each, those with fewer in the training part have more in the held-out part."""
    rng = np.random.default_rng(0)
    scores = rng.random((400, 12)).astype(np.float32)
    Y = np.zeros((400, 12))
    for label in range(12):
        Y[rng.choice(400, 40, replace=False), label] = 1
    held_out = slice(0, 40)
    counts = Y[40:].sum(axis=0).astype(np.int64)
    calibration = lt.Calibration().fit(ranked(scores[held_out]), Y[held_out], counts, 360)
    same = calibration.for_model(np.full(12, 40), 400).proba(np.zeros((1, 1), int), np.full((1, 1), 0.5))
    assert same[0, 0] == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize("scores", [np.zeros((30, 2)), np.full((30, 2), 1e30), np.tile([[1.0, -1e30]], (30, 1))])
def test_any_scores_can_be_calibrated(scores: Any) -> None:
    Y = np.tile([[1, 0]], (30, 1))
    calibration = fitted(ranked(scores.astype(np.float32)), Y)
    proba = calibration.proba(*ranked(scores.astype(np.float32)))
    assert np.isfinite(proba).all()
    assert ((proba >= 0) & (proba <= 1)).all()
    calibration._whole().check_whole()


@settings(max_examples=40, deadline=None)
@given(
    cells=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=6, max_size=12),
    measure=st.sampled_from(["micro_f1", "macro_f1"]),
)
def test_thresholds_are_the_best_there_are(cells: list[tuple[int, bool]], measure: Any) -> None:
    """Two labels, each with its own threshold or both with one: brute force over thresholds finds nothing better."""
    n_rows = len(cells) // 2
    scores = np.array([cell[0] for cell in cells[: 2 * n_rows]], np.float32).reshape(n_rows, 2) / 4
    Y = np.array([cell[1] for cell in cells[: 2 * n_rows]], float).reshape(n_rows, 2)
    if not Y.any():
        return
    top = ranked(scores)
    calibration = fitted(top, Y, measure=measure, min_positives=max(1, int(Y.sum(axis=0).max())))
    proba = np.zeros((n_rows, 2))
    np.put_along_axis(proba, top.label_ids.astype(np.int64), calibration.proba(*top), axis=1)
    maps = calibration.map_of_label_
    best = max(
        f1(Y, (proba >= cuts).astype(float), measure)
        for cuts in product(np.unique(np.append(proba, 9)), repeat=2)
        if maps[0] != maps[1] or cuts[0] == cuts[1]
    )
    assert f1(Y, decisions(calibration, top, 2), measure) == pytest.approx(best)


def f1(Y: Any, Y_hat: Any, measure: str) -> float:
    """F1 over all pairs, or its mean over the labels that have positives."""
    hits, given_labels, positives = (Y * Y_hat).sum(axis=0), Y_hat.sum(axis=0), Y.sum(axis=0)
    if measure == "micro_f1":
        return float(2 * hits.sum() / (given_labels.sum() + positives.sum()))
    used = positives > 0
    return float((2 * hits / np.maximum(given_labels + positives, 1))[used].mean())


def test_precision_keeps_its_floor_and_gives_as_much_as_it_can() -> None:
    scores, Y = some_data(2000, 6)
    top = ranked(scores)
    counts = []
    for floor in (0.5, 0.8, 0.95):
        found = decisions(fitted(top, Y, measure="precision", floor=floor), top, 6)
        precision = (found * Y).sum() / found.sum()
        assert floor <= precision < floor + 0.05
        counts.append(found.sum())
    assert counts == sorted(counts, reverse=True)


def test_no_label_is_given_where_no_precision_would_do() -> None:
    top = lt.TopK(np.array([[0, 1]] * 4, np.int32), np.array([[0.9, 0.5]] * 4, np.float32))
    Y = np.array([[0, 1], [0, 0], [0, 1], [0, 0]])
    assert not fitted(top, Y, measure="precision", floor=0.9).decide(*top).any()


def test_padding_is_never_given_and_has_no_probability() -> None:
    top = lt.TopK(np.array([[0, -1]] * 4, np.int32), np.array([[0.5, 0.0]] * 4, np.float32))
    calibration = fitted(top, np.ones((4, 1)))
    assert calibration.proba(*top)[:, 1].tolist() == [0, 0, 0, 0]
    assert calibration.decide(*top).tolist() == [[True, False]] * 4


def test_hits_are_found_in_any_container() -> None:
    Y = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 1]])
    label_ids = np.array([[1, 0], [2, -1], [2, 0]], np.int32)
    for container in (Y, sp.csc_array(Y), sp.csr_array(Y)):
        assert find_hits(label_ids, container).tolist() == [[True, False], [False, False], [True, True]]


def test_hits_are_found_only_for_rows_that_are_there() -> None:
    label_ids = np.array([[2, -1], [0, 1]], np.int32)
    borders, labels = np.array([0, 2, 3]), np.array([1, 2, 0], np.int32)
    np.testing.assert_array_equal(_core.find_hits(label_ids, 3, borders, labels), [[1, 0], [1, 0]])
    with pytest.raises(ValueError, match="one row for each row of labels"):
        _core.find_hits(label_ids[:1].copy(), 3, borders, labels)
    with pytest.raises(ValueError, match="indptr"):
        _core.find_hits(label_ids, 3, np.array([0, 9, 3]), labels)


def test_pairs_are_grouped_by_threshold_and_cut_after_hits() -> None:
    top = lt.TopK(
        np.array([[0, 1], [0, 2], [1, -1]], np.int32), np.array([[0.5, 0.25], [0.5, 0.75], [0, 9]], np.float32)
    )
    is_hit = np.array([[True, False], [False, True], [True, False]])
    groups = groups_of(top, Truth(is_hit, np.array([4, 2, 1])), np.array([1, 0, 0], np.int32), 3)
    assert [group.scores.tolist() for group in groups] == [[0.75, 0.25, 0.0], [0.5, 0.5], []]
    assert [group.cuts.tolist() for group in groups] == [[0, 1, 3], [0, 2], [0]]
    assert [group.hits_at.tolist() for group in groups] == [[0, 1, 2], [0, 1], [0]]
    assert [group.n_positives for group in groups] == [3, 4, 0]


def test_errors_of_probabilities_are_measured() -> None:
    bins = reliability([0.05, 0.05, 0.95, 1.0], [False, True, True, True], n_bins=10)
    assert bins.n_pairs.tolist() == [2, 2]
    assert bins.hit_share.tolist() == [0.5, 1.0]
    assert expected_calibration_error([0.05, 0.05, 0.95, 1.0], [0, 1, 1, 1], 10) == pytest.approx(0.2375)
    assert brier_score([0.5, 1.0], [1, 0]) == pytest.approx(0.625)
    assert log_loss([0.25], [1]) == pytest.approx(np.log(4))
    with pytest.raises(ValueError, match=r"proba must be in \[0, 1\]"):
        reliability([1.2], [True])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "accuracy"}, "measure must be one of"),
        ({"measure": "precision"}, "floor must be given for measure='precision'"),
        ({"floor": 0.5}, "floor must be given for measure='precision', and only then"),
        ({"measure": "precision", "floor": 0.0}, r"floor must be None or a number in \(0, 1\]"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    top = lt.TopK(np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32))
    with pytest.raises(ValueError, match=message):
        fitted(top, np.ones((1, 1)), **settings)


def test_a_handful_of_rows_is_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    data = lt.datasets.make_synthetic(n_rows=100, n_features=20, n_labels=5)
    model = lt.DiSMEC(n_jobs=1).fit(data.X[:90], data.Y[:90])
    model.calibrate(data.X[90:], data.Y[90:])
    assert "DiSMEC: probabilities learnt from 10 rows with labels mean little" in caplog.text


def test_wrong_data_is_refused() -> None:
    top = lt.TopK(np.zeros((2, 1), np.int32), np.ones((2, 1), np.float32))
    with pytest.raises(ValueError, match="none of the 2 held-out rows"):
        fitted(top, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="got 2 ranked rows but 3 rows of labels"):
        fitted(top, np.ones((3, 3)))
    with pytest.raises(ValueError, match="label_counts must be one whole number >= 0 for each of 1 labels"):
        lt.Calibration().fit(top, np.ones((2, 1)), [1, 2], 10)
    calibration = fitted(top, np.ones((2, 1)))
    with pytest.raises(ValueError, match="must have the same shape"):
        calibration.proba(np.zeros((2, 1), np.int32), np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"label ids must be in -1 \.\. 0, got 5"):
        calibration.proba(np.full((1, 1), 5), np.zeros((1, 1)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"map_of_label_": np.array([0, 9], np.int32)}, "must name one of 1 thresholds"),
        ({"thresholds_": np.zeros(0, np.float32)}, "must name one of 0 thresholds"),
        ({"score_knots_": np.array([2.0, 1.0])}, "score_knots_ must be two or more rising numbers"),
        ({"log_odds_": np.zeros((1, 1))}, "log_odds_ must have shape"),
        ({"row_offsets_": np.zeros(7, np.float32)}, "row_offsets_ has 7 labels, but label_counts_ has 2"),
    ],
)
def test_a_damaged_surface_is_refused(arrays: dict[str, Any], message: str) -> None:
    top = lt.TopK(np.array([[0], [1]], np.int32), np.array([[0.9], [0.1]], np.float32))
    calibration = fitted(top, np.array([[1, 0], [0, 0]]))
    state = calibration._whole()
    state.check_whole()
    with pytest.raises(ValueError, match=message):
        state.build(state.public | arrays).check_whole()
