"""WSABIE: the parts of the WARP loss, and that labels are learnt."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail.baselines.wsabie import violations, warp_weights


def test_the_weight_is_the_harmonic_number_of_the_estimated_rank() -> None:
    found = warp_weights(np.array([1, 2, 5, 99, 1000]), 11)
    expected = [sum(1 / i for i in range(1, rank + 1)) for rank in (10, 5, 2, 1, 1)]
    np.testing.assert_allclose(found, expected)


def test_violators_are_labels_within_the_margin_that_the_row_lacks() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores = rng.normal(size=(8, 6)).astype(np.float32)
        positive_scores = rng.normal(size=8).astype(np.float32) + 1
        Y = rng.random((8, 10)) < 0.4
        sample = rng.permutation(10)[:6]
        n_trials, places = violations(scores, positive_scores, sp.csr_array(Y.astype(np.float32)), sample, rng)
        bad = (scores > positive_scores[:, None] - 1) & ~Y[:, sample]
        np.testing.assert_array_equal(n_trials > 0, bad.any(axis=1))
        rows = np.flatnonzero(n_trials)
        assert bad[rows, places[rows]].all()
        assert (n_trials <= 6).all()


def test_all_trials_are_equally_likely_to_come_first() -> None:
    rng = np.random.default_rng(0)
    n_rows, Y = 4000, sp.csr_array((4000, 5), dtype=np.float32)
    n_trials, places = violations(np.ones((n_rows, 5), np.float32), np.zeros(n_rows, np.float32), Y, np.arange(5), rng)
    assert (n_trials == 1).all()
    assert np.bincount(places).min() > 700


def test_labels_are_learnt_and_vectors_keep_their_norm() -> None:
    data = lt.datasets.make_synthetic(n_rows=400, n_features=80, n_labels=20, labels_per_row=2)
    model = lt.WSABIE(n_components=20, n_epochs=15, max_norm=2.0).fit(data.X, data.Y)
    top = model.predict_top_k(data.X)
    assert lt.metrics.evaluate(top, data.Y)["P@1"] > 80
    assert np.linalg.norm(model.feature_factors_, axis=1).max() <= 2.0001
    assert np.linalg.norm(model.label_factors_[:-1], axis=0).max() <= 2.0001


def test_the_number_of_predicted_labels_is_that_of_training() -> None:
    data = lt.datasets.make_synthetic(n_rows=400, n_features=80, n_labels=20, labels_per_row=2)
    model = lt.WSABIE(n_components=20, n_epochs=10).fit(data.X, data.Y)
    assert abs(model.predict(data.X).nnz / data.Y.nnz - 1) < 0.05


@pytest.mark.parametrize("is_dense", [False, True])
def test_a_row_without_features_gets_the_most_frequent_labels(is_dense: bool) -> None:
    rng = np.random.default_rng(0)
    Y = rng.random((300, 6)) < [0.05, 0.1, 0.9, 0.1, 0.6, 0.1]
    X = sp.csr_array(rng.random((300, 4)) < 0.3, dtype=np.float32)
    model = lt.WSABIE(n_components=4).fit(X.toarray() if is_dense else X, Y.astype(np.float32))
    assert model.predict_top_k(np.zeros((1, 4), np.float32), top_k=2).label_ids.tolist() == [[2, 4]]
