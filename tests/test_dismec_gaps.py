"""DiSMEC on features with gaps in their numbers: only those that occur take memory, and the model is the same."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail.dismec import estimate, training
from longtail.dismec.occurring import OccurringFeatures
from tests.dismec_twin import random_problem

N_FEATURES = 5_000_000


@pytest.fixture(scope="module")
def data():
    """Give rows without gaps, the same rows with gaps, where their features are, and labels."""
    X, Y = random_problem(n_rows=120, n_features=40, n_labels=8, seed=3)
    X = sp.csr_array(X)
    X = sp.csr_array(X[:, np.flatnonzero(np.bincount(X.indices, minlength=40))])  # no gap
    places = np.sort(np.random.default_rng(0).choice(N_FEATURES, X.shape[1], replace=False)).astype(np.int32)
    spread = sp.csr_array((X.data, places[X.indices], X.indptr), shape=(X.shape[0], N_FEATURES))
    return X, spread, places, Y


@pytest.mark.parametrize(
    "options", [{}, {"weight_type": "int8"}, {"loss": "logistic"}, {"start": "ovap++"}, {"solver": "newton"}]
)
def test_gaps_do_not_change_the_weights(data, options):
    X, spread, places, Y = data
    close, wide = (lt.DiSMEC(n_jobs=1, **options).fit(rows, Y) for rows in (X, spread))
    for label in range(Y.shape[1]):
        ids, weights, bias = close.label_weights(label)
        wide_ids, wide_weights, wide_bias = wide.label_weights(label)
        np.testing.assert_array_equal(wide_ids, places[ids])
        np.testing.assert_array_equal(wide_weights, weights)
        assert wide_bias == bias
    np.testing.assert_array_equal(wide.predict_top_k(spread).scores, close.predict_top_k(X).scores)


def test_a_warm_start_and_new_labels_work_across_gaps(data):
    _, spread, _, Y = data
    first = lt.DiSMEC(n_jobs=1).fit(spread, Y)
    few = lt.DiSMEC(n_jobs=1).fit(spread[:30], Y[:30], warm_start_from=first)  # some features do not occur any more
    cold = lt.DiSMEC(n_jobs=1).fit(spread[:30], Y[:30])
    np.testing.assert_allclose(few.predict_top_k(spread).scores, cold.predict_top_k(spread).scores, atol=0.05)
    added = lt.DiSMEC(n_jobs=1).fit(spread, Y[:, :5]).add_labels(spread, Y[:, 5:])
    np.testing.assert_array_equal(added.predict_top_k(spread).scores, first.predict_top_k(spread).scores)


def test_features_that_do_not_occur_cost_little_more_than_their_place_in_the_model(data):
    _, spread, _, Y = data
    told = lt.DiSMEC(n_jobs=1).estimate(spread, Y)
    assert told.model_bytes == pytest.approx(8 * N_FEATURES, rel=0.01)
    assert told.memory_bytes < 10 * N_FEATURES


def test_features_are_numbered_anew_only_where_that_saves_memory(data):
    X, spread, places, _ = data
    assert OccurringFeatures.worth_numbering(X) is None
    assert OccurringFeatures.worth_numbering(X.toarray()) is None
    found = OccurringFeatures.worth_numbering(spread)
    assert found is not None
    np.testing.assert_array_equal(found.ids, places)
    long_rows = sp.csr_array((np.ones(600_000), np.tile(np.arange(300), 2000), np.arange(0, 600_001, 300)))
    long_rows.resize(2000, 1000)
    assert OccurringFeatures.worth_numbering(sp.csr_array(long_rows)) is None  # the copy would be larger


def test_training_warns_before_it_takes_more_memory_than_is_free(data, monkeypatch):
    X, _, _, Y = data
    monkeypatch.setattr(estimate, "available_memory_bytes", lambda: 20_000.0)
    monkeypatch.setattr(training, "LABELS_PER_TASK", 4)
    with pytest.warns(RuntimeWarning, match=r"features on 2 threads takes about .* GB are free"):
        lt.DiSMEC(n_jobs=3).fit(X, Y)
