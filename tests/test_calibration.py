"""Curves and thresholds against brute force and scikit-learn."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import longtail as lt
from longtail.calibration import expected_calibration_error, find_hits, reliability
from longtail.calibration.curves import fit_platt
from longtail.calibration.pairs import Group


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


def decisions(calibration: lt.Calibration, top: lt.TopK, n_labels: int) -> Any:
    given_labels = calibration.decide(*top)
    Y_hat = np.zeros((len(top.label_ids), n_labels))
    rows, columns = np.nonzero(given_labels)
    Y_hat[rows, top.label_ids[rows, columns]] = 1
    return Y_hat


@pytest.mark.parametrize("method", ["isotonic", "sigmoid"])
def test_probabilities_come_near_the_truth_on_new_rows(method: Any) -> None:
    scores, Y = some_data(3000, 8)
    calibration = lt.Calibration(method=method).fit(ranked(scores), Y)
    new_scores, _ = some_data(500, 8, seed=1)
    top = ranked(new_scores)
    truth = 1 / (1 + np.exp(-3 * top.scores))
    assert np.abs(calibration.proba(*top) - truth).mean() < 0.03
    assert calibration.ece_ < 0.05


def test_a_shared_map_serves_the_tail_and_own_maps_the_head() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random((1000, 12)).astype(np.float32)
    Y = np.zeros((1000, 12))
    Y[:, 0] = rng.random(1000) < scores[:, 0] ** 4  # a head label that needs a high score
    Y[:, 1:] = (rng.random((1000, 11)) < scores[:, 1:]) & (rng.random((1000, 11)) < 0.03)
    calibration = lt.Calibration(min_positives=50).fit(ranked(scores), Y)
    assert calibration.map_of_label_.tolist() == [1] + [0] * 11
    assert len(calibration.thresholds_) == 2
    own = calibration.proba(np.array([0]), np.array([0.9]))[0]
    shared = [calibration.proba(np.array([label]), np.array([0.9]))[0] for label in range(1, 12)]
    assert len(set(shared)) == 1
    assert own == pytest.approx(0.9**4, abs=0.15)
    assert shared[0] < 0.1


def test_curves_are_those_of_scikit_learn() -> None:
    scores, Y = some_data(400, 3)
    calibration = lt.Calibration(min_positives=10**6).fit(ranked(scores), Y)
    expected = IsotonicRegression(out_of_bounds="clip").fit(scores.ravel(), Y.ravel())
    asked = np.linspace(-6, 6, 999).astype(np.float32)
    found = calibration.proba(np.zeros(999, int), asked)
    np.testing.assert_allclose(found, expected.predict(asked), atol=1e-5)


def test_the_sigmoid_is_the_logistic_regression_of_plenty_of_rows() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000).astype(np.float32) * 50
    hits = rng.random(20_000) < 1 / (1 + np.exp(-(0.05 * scores - 1)))
    slope, intercept = fit_platt(Group(scores, hits, np.zeros(20_000, np.int32), int(hits.sum())))
    expected = LogisticRegression(C=np.inf).fit(scores[:, None], hits)
    assert slope == pytest.approx(expected.coef_[0, 0], rel=1e-2)
    assert intercept == pytest.approx(expected.intercept_[0], rel=1e-2)


def test_a_sigmoid_stays_finite_where_a_score_parts_all() -> None:
    scores = np.array([3, 2, 1, 0], np.float32)
    slope, intercept = fit_platt(Group(scores, scores > 1.5, np.zeros(4, np.int32), 2))
    assert slope > 0
    assert np.isfinite([slope, intercept]).all()


@settings(max_examples=40, deadline=None)
@given(
    cells=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=6, max_size=12),
    measure=st.sampled_from(["micro_f1", "macro_f1"]),
)
def test_thresholds_are_the_best_there_are(cells: list[tuple[int, bool]], measure: Any) -> None:
    """Two labels, the first with its own threshold: brute force over all pairs of thresholds finds nothing better."""
    n_rows = len(cells) // 2
    scores = np.array([cell[0] for cell in cells[: 2 * n_rows]], np.float32).reshape(n_rows, 2) / 4
    Y = np.array([cell[1] for cell in cells[: 2 * n_rows]], float).reshape(n_rows, 2)
    if not Y.any():
        return
    top = ranked(scores)
    positives = Y.sum(axis=0)
    calibration = lt.Calibration(measure=measure, min_positives=max(1, int(positives.max()))).fit(top, Y)
    n_maps = len(calibration.thresholds_)
    found = decisions(calibration, top, 2)
    best = max(
        f1(Y, (scores >= cuts).astype(float), measure)
        for cuts in product(np.unique(np.append(scores, 9)), repeat=2)
        if n_maps > 1 or cuts[0] == cuts[1]
    )
    assert f1(Y, found, measure) == pytest.approx(best)


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
        found = decisions(lt.Calibration(measure="precision", floor=floor).fit(top, Y), top, 6)
        precision = (found * Y).sum() / found.sum()
        assert floor <= precision < floor + 0.05
        counts.append(found.sum())
    assert counts == sorted(counts, reverse=True)


@settings(max_examples=40, deadline=None)
@given(
    cells=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=6, max_size=12),
    floor=st.sampled_from([0.3, 0.5, 0.75, 1.0]),
)
def test_the_floor_is_kept_for_any_scores(cells: list[tuple[int, bool]], floor: float) -> None:
    n_rows = len(cells) // 2
    scores = np.array([cell[0] for cell in cells[: 2 * n_rows]], np.float32).reshape(n_rows, 2) / 4
    Y = np.array([cell[1] for cell in cells[: 2 * n_rows]], float).reshape(n_rows, 2)
    if not Y.any():
        return
    calibration = lt.Calibration(measure="precision", floor=floor, min_positives=1).fit(ranked(scores), Y)
    found = decisions(calibration, ranked(scores), 2)
    assert (found * Y).sum() >= floor * found.sum() - 1e-9


def test_no_label_is_given_where_no_precision_would_do() -> None:
    top = lt.TopK(np.array([[0, 1]] * 4, np.int32), np.array([[0.9, 0.5]] * 4, np.float32))
    Y = np.array([[0, 1], [0, 0], [0, 1], [0, 0]])
    calibration = lt.Calibration(measure="precision", floor=0.9).fit(top, Y)
    assert not calibration.decide(*top).any()


def test_padding_is_never_given_and_has_no_probability() -> None:
    top = lt.TopK(np.array([[0, -1]] * 4, np.int32), np.array([[0.5, 0.0]] * 4, np.float32))
    calibration = lt.Calibration().fit(top, np.ones((4, 1)))
    assert calibration.proba(*top)[:, 1].tolist() == [0, 0, 0, 0]
    assert calibration.decide(*top).tolist() == [[True, False]] * 4


def test_hits_are_found_in_any_container() -> None:
    Y = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 1]])
    label_ids = np.array([[1, 0], [2, -1], [2, 0]], np.int32)
    for container in (Y, sp.csc_array(Y), sp.csr_array(Y)):
        assert find_hits(label_ids, container).tolist() == [[True, False], [False, False], [True, True]]


def test_reliability_counts_by_bin() -> None:
    bins = reliability([0.05, 0.05, 0.95, 1.0], [False, True, True, True], n_bins=10)
    assert bins.n_pairs.tolist() == [2, 2]
    assert bins.hit_share.tolist() == [0.5, 1.0]
    assert expected_calibration_error([0.05, 0.05, 0.95, 1.0], [0, 1, 1, 1], 10) == pytest.approx(0.2375)
    with pytest.raises(ValueError, match=r"proba must be in \[0, 1\]"):
        reliability([1.2], [True])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "beta"}, "method must be one of 'isotonic', 'sigmoid'"),
        ({"measure": "precision"}, "floor must be given for measure='precision'"),
        ({"floor": 0.5}, "floor must be given for measure='precision', and only then"),
        ({"measure": "precision", "floor": 0.0}, r"floor must be None or a number in \(0, 1\]"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    top = lt.TopK(np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32))
    with pytest.raises(ValueError, match=message):
        lt.Calibration(**settings).fit(top, np.ones((1, 1)))


def test_rows_without_a_ranked_label_are_refused() -> None:
    top = lt.TopK(np.zeros((2, 1), np.int32), np.ones((2, 1), np.float32))
    with pytest.raises(ValueError, match="none of the 2 held-out rows"):
        lt.Calibration().fit(top, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="got 2 ranked rows but 3 rows of labels"):
        lt.Calibration().fit(top, np.ones((3, 3)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"map_of_label_": np.array([0, 9], np.int32)}, "must name one of 1 maps"),
        ({"thresholds_": np.zeros(0, np.float32)}, "must name one of 0 maps"),
        ({"knot_ends_": np.array([99])}, "speaks of 99 knots"),
        ({"coefficients_": np.zeros((1, 2))}, "1 isotonic maps and no others"),
        ({"knot_scores_": np.array([2, 1], np.float32)}, "must rise"),
    ],
)
def test_damaged_curves_are_refused(arrays: dict[str, Any], message: str) -> None:
    top = lt.TopK(np.array([[0], [1]], np.int32), np.array([[0.9], [0.1]], np.float32))
    calibration = lt.Calibration().fit(top, np.array([[1, 0], [0, 0]]))
    calibration.check_state()
    for name, array in arrays.items():
        setattr(calibration, name, array)
    with pytest.raises(ValueError, match=message):
        calibration.check_state()
