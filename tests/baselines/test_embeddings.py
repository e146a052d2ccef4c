"""CPLST, CS and ML-CSSP against dense textbook formulas on small problems."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from longtail._base import XMCClassifier
from longtail.baselines.compressed_sensing import recover
from longtail.baselines.ml_cssp import draw_labels, pseudo_inverse_times
from longtail.baselines.ridge import Ridge, leading_eigenvectors
from tests.fitted_state import check_loaded, with_values


def problem(seed: int = 0) -> tuple[np.ndarray, sp.csr_array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 15)).astype(np.float32)
    X[rng.random(X.shape) < 0.5] = 0
    scores = X @ rng.normal(size=(15, 3)) @ rng.normal(size=(3, 20))
    Y = (scores > np.quantile(scores, 0.85, axis=1)[:, None]).astype(np.float32)
    Y[:, 7] = 0  # a label without positives
    return X, sp.csr_array(Y)


def all_scores(model: XMCClassifier, X: np.ndarray) -> np.ndarray:
    """Return the scores of all labels; NaN where a label is not ranked."""
    label_ids, scores = model.predict_top_k(X, top_k=20)
    dense = np.full((len(X), 20), np.nan)
    rows, columns = np.nonzero(label_ids >= 0)
    dense[rows, label_ids[rows, columns]] = scores[rows, columns]
    return dense


@pytest.mark.parametrize("max_factorised", [100, 0], ids=["factorised", "conjugate gradients"])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize("n_rows", [8, None], ids=["fewer rows than features", "more rows than features"])
def test_ridge_agrees_with_scikit_learn(max_factorised: int, is_sparse: bool, n_rows: int | None) -> None:
    from sklearn.linear_model import Ridge as Expected

    X, Y = problem()
    X, Y = X[:n_rows] + 3, Y[:n_rows]  # so that centring matters
    rows = sp.csr_array(X) if is_sparse else X
    W, intercepts = Ridge(rows, 0.7, _core.Control(), max_factorised=max_factorised).regress(Y.toarray())
    expected = Expected(alpha=0.7).fit(X, Y.toarray())
    np.testing.assert_allclose(W, expected.coef_.T, atol=1e-3)
    np.testing.assert_allclose(intercepts, expected.intercept_, atol=1e-3)


def test_leading_eigenvectors_agree_with_a_dense_decomposition() -> None:
    rng = np.random.default_rng(0)
    turned, _ = np.linalg.qr(rng.normal(size=(60, 60)))
    matrix = (turned * 0.8 ** np.arange(60)) @ turned.T
    values, vectors = leading_eigenvectors(lambda S: (matrix @ S).astype(np.float32), 60, 5, 0)
    np.testing.assert_allclose(values, 0.8 ** np.arange(5), rtol=1e-3)
    np.testing.assert_allclose(vectors @ vectors.T, turned[:, :5] @ turned[:, :5].T, atol=1e-2)


@pytest.mark.parametrize("n_components", [3, 19])
def test_cplst_agrees_with_the_dense_formulas_of_its_paper(n_components: int) -> None:
    X, Y = problem()
    l2 = 0.5
    model = lt.CPLST(n_components=n_components, l2=l2).fit(X, Y)
    Z = Y.toarray() - Y.toarray().mean(axis=0)
    centred = X - X.mean(axis=0)
    inverse = np.linalg.inv(centred.T @ centred + l2 * np.eye(15))
    _, _, Vt = np.linalg.svd(Z.T @ centred @ inverse @ centred.T @ Z)
    V = Vt[:n_components].T
    expected = centred @ inverse @ centred.T @ Z @ V @ V.T + Y.toarray().mean(axis=0)
    expected[:, Y.sum(axis=0) == 0] = np.nan
    np.testing.assert_allclose(all_scores(model, X), expected, atol=0.01)


def test_ml_cssp_regresses_the_drawn_labels_and_maps_them_to_all() -> None:
    from sklearn.linear_model import Ridge as Expected

    X, Y = problem()
    model = lt.MLCSSP(n_components=6, l2=0.5).fit(X, Y)
    seen = Y.toarray()[:, Y.sum(axis=0) > 0]
    drawn = draw_labels(sp.csr_array(seen), 6, 0, _core.Control())
    assert len(set(drawn)) == 6
    C = seen[:, drawn]
    expected = Expected(alpha=0.5).fit(X, C).predict(X) @ np.linalg.pinv(C) @ seen
    np.testing.assert_allclose(all_scores(model, X)[:, Y.sum(axis=0) > 0], expected, atol=0.01)


def test_ml_cssp_with_all_labels_is_ridge_regression() -> None:
    _, Y = problem()
    seen = sp.csr_array(Y.toarray()[:, Y.sum(axis=0) > 0])
    np.testing.assert_allclose(pseudo_inverse_times(seen, seen), np.eye(seen.shape[1]), atol=1e-3)


def test_ml_cssp_prefers_labels_with_leverage() -> None:
    """Two frequent independent labels, and many copies of a rare one: rank 2 is in the frequent ones."""
    Y = np.zeros((100, 20), dtype=np.float32)
    Y[:50, 0] = Y[25:75, 1] = 1
    Y[99, 2:] = 1
    drawn = [set(draw_labels(sp.csr_array(Y), 2, seed, _core.Control())) for seed in range(20)]
    assert sum({0, 1} == pair for pair in drawn) >= 15


def test_matching_pursuit_recovers_sparse_vectors() -> None:
    rng = np.random.default_rng(0)
    codes = rng.standard_normal((60, 100)).astype(np.float32)
    codes /= np.linalg.norm(codes, axis=0)
    truth = np.zeros((30, 100), dtype=np.float32)
    for row in truth:
        row[rng.choice(100, 4, replace=False)] = rng.uniform(0.5, 1.5, 4)
    places, coefficients = recover(truth @ codes.T, codes, 6, 1, _core.Control())
    found = np.zeros_like(truth)
    rows, columns = np.nonzero(places >= 0)
    found[rows, places[rows, columns]] = coefficients[rows, columns]
    np.testing.assert_allclose(found, truth, atol=1e-3)


def test_matching_pursuit_agrees_with_scikit_learn() -> None:
    from sklearn.linear_model import orthogonal_mp

    rng = np.random.default_rng(1)
    codes = rng.standard_normal((40, 80)).astype(np.float32)
    codes /= np.linalg.norm(codes, axis=0)
    Z = np.abs(rng.standard_normal((20, 80))).astype(np.float32) @ codes.T
    places, coefficients = recover(Z, codes, 3, 1, _core.Control())
    n_same = 0
    for row in range(20):
        expected = orthogonal_mp(codes.astype(float), Z[row].astype(float), n_nonzero_coefs=3)
        if (expected >= 0).all():  # theirs may also take a code that speaks against a label
            n_same += 1
            np.testing.assert_allclose(coefficients[row], expected[places[row]], atol=1e-3)
    assert n_same >= 3


def test_cs_ranks_at_most_as_many_labels_as_it_recovers() -> None:
    X, Y = problem()
    label_ids, scores = lt.CS(n_components=40, n_steps=3, l2=0.1).fit(X, Y).predict_top_k(X, top_k=6)
    assert (label_ids[:, 3:] == -1).all()
    assert (np.diff(scores[:, :3], axis=1) <= 0).all()


@pytest.mark.parametrize("model", [lt.CPLST(n_components=8), lt.CS(n_components=80), lt.MLCSSP(n_components=15)])
def test_low_rank_labels_are_learnt(model: XMCClassifier) -> None:
    X, Y = problem()
    top = model.set_params(l2=0.1).fit(X, Y).predict_top_k(X, top_k=1)
    assert np.mean([Y[row, label_id] for row, label_id in enumerate(top.label_ids[:, 0])]) > 0.8


@pytest.mark.parametrize("model", [lt.CPLST(n_components=4), lt.MLCSSP(n_components=4)])
def test_contributions_add_up_to_the_score(model: XMCClassifier) -> None:
    X, Y = problem()
    label_ids, scores = model.fit(X, Y).predict_top_k(X[:3], top_k=2)
    for row in range(3):
        found = model._contributions(model._whole(), X[[row]], int(label_ids[row, 1]))
        assert found is not None
        assert found.bias + found.values.sum() == pytest.approx(scores[row, 1], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("feature_factors_", r"feature_factors_ must have shape \(15, 5\)"),
        ("label_factors_", r"label_factors_ must have shape"),
        ("seen_label_ids_", "label 99 does not exist"),
    ],
)
def test_damaged_factors_are_refused(name: str, message: str) -> None:
    X, Y = problem()
    model = lt.CPLST(n_components=4).fit(X, Y)
    check_loaded(model)
    if name == "seen_label_ids_":
        with_values(model, seen_label_ids_=np.append(model.seen_label_ids_[:-1], np.int32(99)))
    else:
        with_values(model, **{name: getattr(model, name)[1:]})
    with pytest.raises(ValueError, match=message):
        check_loaded(model)
