"""Calibrations follow how scores change with the number of training rows."""

import numpy as np
import scipy.sparse as sp

import longtail as lt
from longtail.calibration import expected_calibration_error, find_hits
from longtail.calibration.correction import Correction, learn_correction
from longtail.calibration.surface import Surface


def drawn(n_rows: int, stretch: float, seed: int) -> tuple[lt.TopK, sp.csr_array]:
    """Rank 10 labels whose log-odds are known; scores are log-odds times a number that the calibration must find."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(size=(n_rows, 10)) * 2 - 1
    Y = sp.csr_array((rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))).astype(np.float32))
    order = np.argsort(-log_odds, axis=1).astype(np.int32)
    return lt.TopK(order, (stretch * np.take_along_axis(log_odds, order, axis=1)).astype(np.float32)), Y


def test_a_correction_finds_how_the_best_labels_differ_from_a_surface() -> None:
    top, Y = drawn(20_000, 1.0, seed=0)
    knots = np.array([-10.0, 10.0])
    surface = Surface(knots, np.array([0.0, 9.0]), np.tile(0.5 * knots - 0.7, (2, 1)))  # half as sure, and too low
    found = learn_correction(surface, np.full(10, 100), top, find_hits(top.label_ids, Y))
    np.testing.assert_allclose(found(surface).log_odds, np.tile(knots, (2, 1)), atol=0.4)
    np.testing.assert_allclose(found(surface, 0.0).log_odds, surface.log_odds)


def test_a_corrected_surface_never_falls_with_the_score() -> None:
    surface = Surface(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0]), np.tile([-1.0, 0.0, 3.0], (2, 1)))
    assert (np.diff(Correction(0.3, -5.0)(surface).log_odds, axis=1) > 0).all()


def test_probabilities_are_better_for_a_model_with_more_rows_when_its_growth_is_followed() -> None:
    """Scores stretch as 1 + the root of 100 over the rows: 2 with 100 rows, 1.5 with 400, 1.25 with 1,600."""
    counts = np.full(10, 40)
    fewer, Y = drawn(4_000, 2.0, seed=1)
    top, _ = drawn(4_000, 1.5, seed=1)
    new_top, new_Y = drawn(4_000, 1.25, seed=2)
    plain = lt.Calibration().fit(top, Y, counts, 400)
    followed = plain.for_more_rows(fewer, Y, counts // 4, 100, 1_600)
    hits = find_hits(new_top.label_ids, new_Y)[:, :5]
    errors = [
        expected_calibration_error(
            calibration.for_model(4 * counts, 1_600).proba(new_top.label_ids[:, :5], new_top.scores[:, :5]), hits
        )
        for calibration in (plain, followed)
    ]
    assert errors[1] < 0.65 * errors[0]
    np.testing.assert_array_equal(plain.log_odds_, lt.Calibration().fit(top, Y, counts, 400).log_odds_)  # unchanged
