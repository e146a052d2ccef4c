"""Synthetic data: the answer it promises, its statistics, and that it is the same every time."""

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.datasets import make_synthetic
from tests.datasets.strategies import assert_same


def precision(data) -> float:
    """Share of true labels among the best-scored ones, as many of them as the row has labels."""
    scores = data.X @ data.prototypes.T
    scores = scores.toarray() if sp.issparse(scores) else scores
    truth = data.Y.toarray()
    ranks = np.argsort(-scores, axis=1)
    n_labels = truth.sum(axis=1).astype(int)
    hits = np.take_along_axis(truth, ranks, axis=1).cumsum(axis=1)
    return float((hits[np.arange(len(truth)), n_labels - 1] / n_labels).mean())


@pytest.mark.parametrize("dense", [False, True])
def test_ranking_by_prototypes_is_nearly_perfect_at_low_noise_and_not_at_high(dense):
    sizes = {"n_rows": 500, "n_features": 3000, "n_labels": 200, "dense": dense}
    assert precision(make_synthetic(**sizes, noise=0.05)) > 0.99
    assert precision(make_synthetic(**sizes, noise=100.0)) < 0.9


def test_labels_follow_zipf_and_rows_have_the_labels_asked_for():
    data = make_synthetic(20_000, 100, 50, labels_per_row=1, features_per_label=3)
    counts = data.Y.sum(axis=0)
    expected = 20_000 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected))
    n_labels = np.diff(make_synthetic(20_000, 100, 50, labels_per_row=4.0, zipf_exponent=0.0).Y.indptr)
    assert n_labels.min() == 1
    assert abs(n_labels.mean() - 4) < 0.1


def test_a_row_may_want_all_labels_however_rare():
    data = make_synthetic(50, 10, 30, labels_per_row=30, zipf_exponent=4.0)
    assert np.diff(data.Y.indptr).max() == 30
    assert data.Y.has_canonical_format


@pytest.mark.parametrize("dense", [False, True])
def test_same_seed_same_bytes_and_more_rows_begin_with_the_same_ones(dense):
    small = make_synthetic(700, 300, 40, dense=dense, random_state=5)
    again = make_synthetic(700, 300, 40, dense=dense, random_state=5)
    large = make_synthetic(5000, 300, 40, dense=dense, random_state=5)
    other = make_synthetic(700, 300, 40, dense=dense, random_state=6)
    assert_same(small.Y, again.Y)
    assert_same(small.Y, large.Y[:700])
    if dense:
        assert small.X.tobytes() == again.X.tobytes() == large.X[:700].tobytes()
        assert small.X.tobytes() != other.X.tobytes()
    else:
        assert_same(small.X, again.X)
        assert_same(small.X, large.X[:700])
        assert small.X.data.tobytes() != other.X.data.tobytes()


def test_matrices_are_sorted_float32_with_int32_indices():
    data = make_synthetic(300, 500, 40)
    for matrix in (data.X, data.Y, data.prototypes):
        fresh = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        assert fresh.has_canonical_format
        assert matrix.dtype == np.float32
        assert matrix.indices.dtype == np.int32
    np.testing.assert_allclose((data.prototypes.multiply(data.prototypes)).sum(axis=1), 1, rtol=1e-5)


def test_no_rows_are_possible():
    data = make_synthetic(0, 5, 3)
    assert data.X.shape == (0, 5)
    assert data.Y.shape == (0, 3)
    assert make_synthetic(0, 5, 3, dense=True).X.shape == (0, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rows": -1}, "make_synthetic: n_rows must be an int >= 0, got -1"),
        ({"n_labels": 0}, "n_labels must be"),
        ({"labels_per_row": 0.5}, "labels_per_row must be a number >= 1"),
        ({"noise": float("nan")}, "noise must be"),
    ],
)
def test_wrong_parameters_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        make_synthetic(**options)
