"""LEML against its objective and against a direct solution."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from longtail.gbdt.projection import leml_projection
from tests.fitted_state import check_loaded, with_values


def problem(seed: int = 0) -> tuple[np.ndarray, sp.csr_array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 15)).astype(np.float32)
    X[rng.random(X.shape) < 0.5] = 0
    scores = X @ rng.normal(size=(15, 3)) @ rng.normal(size=(3, 20))
    Y = (scores > np.quantile(scores, 0.85, axis=1)[:, None]).astype(np.float32)
    return X, sp.csr_array(Y)


def test_the_objective_never_increases_and_is_what_it_says() -> None:
    X, Y = problem()
    for l2 in (0.1, 10.0):
        factors = leml_projection(X, Y, 6, l2, 8, 0, 1, _core.Control())
        assert (np.diff(factors.objectives) <= 1e-5 * factors.objectives[0]).all()
        W, H = factors.W.astype(float), factors.H.astype(float)
        rest = Y.toarray() - X @ W @ H.T
        direct = (rest**2).sum() + l2 * ((W**2).sum() + (H**2).sum())
        assert direct <= factors.objectives[-1] * (1 + 1e-5)  # balancing the last round takes some more off


def test_full_rank_reaches_the_minimum_of_the_convex_problem() -> None:
    """‖W‖² + ‖H‖² at its best is twice the nuclear norm of W Hᵀ: at the minimum the gradient's largest singular value
    is l2 (the subgradient condition of nuclear-norm regression)."""
    X, Y = problem()
    l2 = 5.0
    factors = leml_projection(X, Y, 15, l2, 60, 0, 1, _core.Control())
    Z = factors.W.astype(float) @ factors.H.T.astype(float)
    gradient = X.T.astype(float) @ (Y.toarray() - X @ Z)
    assert np.linalg.svd(gradient, compute_uv=False)[0] == pytest.approx(l2, rel=0.02)


def test_sparse_and_dense_rows_agree() -> None:
    X, Y = problem()
    dense, sparse = (lt.LEML(n_components=4, n_jobs=1).fit(rows, Y) for rows in (X, sp.csr_array(X)))
    np.testing.assert_allclose(dense.objectives_, sparse.objectives_, rtol=1e-3)


def test_low_rank_labels_are_learnt() -> None:
    X, Y = problem()
    top = lt.LEML(n_components=6, l2=0.1).fit(X, Y).predict_top_k(X, top_k=1)
    assert np.mean([Y[row, label_id] for row, label_id in enumerate(top.label_ids[:, 0])]) > 0.9


def test_contributions_add_up_to_the_score() -> None:
    X, Y = problem()
    model = lt.LEML(n_components=4).fit(X, Y)
    label_ids, scores = model.predict_top_k(X[:3], top_k=2)
    for row in range(3):
        found = model._contributions(model._whole(), X[[row]], int(label_ids[row, 1]))
        assert found.bias + found.values.sum() == pytest.approx(scores[row, 1], abs=1e-5)
        assert found.score == pytest.approx(scores[row, 1], abs=1e-5)


def test_more_components_than_features_are_cut() -> None:
    X, Y = problem()
    assert lt.LEML(n_components=100).fit(X, Y).feature_factors_.shape == (16, 16)


def test_a_frequent_label_needs_no_feature() -> None:
    X = np.eye(4, dtype=np.float32)[np.arange(40) % 4]
    Y = np.zeros((40, 3), dtype=np.float32)
    Y[:, 2] = 1
    model = lt.LEML(n_components=2, l2=0.1).fit(X, Y)
    top = model.predict_top_k(np.zeros((1, 4), dtype=np.float32), top_k=1)  # a row without features
    assert top.label_ids[0, 0] == 2
    assert top.scores[0, 0] > 0.5


@pytest.mark.parametrize(
    ("name", "message"),
    [("feature_factors_", "must have 16 rows"), ("label_factors_", "shape"), ("seen_label_ids_", "label 99")],
)
def test_damaged_factors_are_refused(name: str, message: str) -> None:
    X, Y = problem()
    model = lt.LEML(n_components=4).fit(X, Y)
    check_loaded(model)
    if name == "seen_label_ids_":
        with_values(model, seen_label_ids_=np.append(model.seen_label_ids_[:-1], np.int32(99)))
    else:
        with_values(model, **{name: getattr(model, name)[2:]})
    with pytest.raises(ValueError, match=message):
        check_loaded(model)
