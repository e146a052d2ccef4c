"""Weights of rows: against repeated rows, scikit-learn's solvers and its routing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC

import longtail as lt
from tests.contract.estimators import ESTIMATORS

EXACT: dict[str, Any] = {"n_jobs": 1, "tolerance": 1e-5, "prune_below": 0.0}


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    made = lt.datasets.make_synthetic(n_rows=200, n_features=30, n_labels=5, labels_per_row=2)
    weights = np.random.default_rng(0).integers(0, 4, size=200)
    return made.X, made.Y, weights


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("start", ["msi", "zero", "ovap"])
def test_a_weight_is_a_repeated_row(data: Any, loss: str, kind: str, start: str) -> None:
    X, Y, weights = data
    X = X.toarray() if kind == "dense" else X
    rows = np.repeat(np.arange(200), weights)
    model = lt.DiSMEC(loss=loss, start=start, **EXACT).fit(X, Y, sample_weight=weights)
    repeated = lt.DiSMEC(loss=loss, start=start, **EXACT).fit(X[rows], Y[rows])
    np.testing.assert_allclose(model.coef_.toarray(), repeated.coef_.toarray(), atol=2e-3)
    np.testing.assert_allclose(model.intercept_, repeated.intercept_, atol=2e-3)
    plain = lt.DiSMEC(loss=loss, **EXACT).fit(X, Y)
    assert np.abs(model.coef_ - plain.coef_).max() > 0.02, "weights matter"


def test_weights_are_those_of_scikit_learn(data: Any) -> None:
    X, Y, _ = data
    weights = np.random.default_rng(1).random(200) * 3
    y = Y.toarray()[:, 0]
    ours = lt.DiSMEC(**EXACT).fit(X, Y, sample_weight=weights)
    theirs = LinearSVC(C=1.0, tol=1e-7, max_iter=100_000, dual=True).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_.toarray()[0], theirs.coef_[0], atol=5e-3)
    ours = lt.DiSMEC(loss="logistic", bias=0, **EXACT).fit(X, Y, sample_weight=weights)
    logistic = LogisticRegression(C=1.0, tol=1e-8, max_iter=10_000, fit_intercept=False).fit(
        X, y, sample_weight=weights
    )
    np.testing.assert_allclose(ours.coef_.toarray()[0], logistic.coef_[0], atol=5e-3)


def test_a_tree_with_weights_solves_the_weighted_problem(data: Any) -> None:
    X, Y, _ = data
    weights = (np.random.default_rng(1).random(200) * 3 + 0.1).astype(np.float32)
    # One node over all labels, trained on all rows that have one: one-vs-all by another solver.
    has_label = np.flatnonzero(np.diff(Y.indptr))
    X, Y, weights = X[has_label], Y[has_label], weights[has_label]
    exact: dict[str, Any] = {"bias": 0.5, "prune_below": 0.0, "n_jobs": 1}
    tree = lt.LabelTree(tolerance=1e-4, max_passes=5000, **exact).fit(X, Y, sample_weight=weights)
    flat = lt.DiSMEC(tolerance=1e-5, **exact).fit(X, Y, sample_weight=weights)
    margins = flat.decision_function(X)
    expected = np.exp(-(np.maximum(0, 1 - margins) ** 3))
    found = tree.decision_function(X)
    np.testing.assert_allclose(found, expected, atol=5e-3)
    plain = lt.LabelTree(tolerance=1e-4, max_passes=5000, **exact).fit(X, Y)
    assert np.abs(plain.decision_function(X) - found).max() > 0.02


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_weight_of_leml_is_a_repeated_row(data: Any, kind: str) -> None:
    X, Y, weights = data
    X = X.toarray() if kind == "dense" else X
    rows = np.repeat(np.arange(200), weights)
    model = lt.LEML(n_components=4, l2=1.0).fit(X, Y, sample_weight=weights)
    repeated = lt.LEML(n_components=4, l2=1.0).fit(X[rows], Y[rows])
    np.testing.assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(model.objectives_, repeated.objectives_, rtol=1e-4)
    plain = lt.LEML(n_components=4, l2=1.0).fit(X, Y)
    assert np.abs(model.decision_function(X) - plain.decision_function(X)).max() > 0.02


@pytest.mark.parametrize("name", ["FastXML", "PfastXML", "PfastreXML"])
def test_leaves_of_fastxml_hold_weighted_shares(name: str, data: Any) -> None:
    X, Y, weights = data
    model = ESTIMATORS[name]().set_params(max_leaf_size=1000).fit(X, Y, sample_weight=weights)  # one leaf
    expected = weights @ Y.toarray() / weights.sum()
    if name != "FastXML":  # leaves are weighted by 1/p, p by how many rows have a label
        expected /= lt.propensity.from_counts(Y[np.flatnonzero(weights)].toarray().sum(axis=0), model.n_rows_)
    forest = model._whole().state.forest
    np.testing.assert_allclose(forest.leaf_values[:5], expected[forest.leaf_labels[:5]], rtol=1e-5)
    if name == "PfastreXML":
        rows = X.toarray() / np.linalg.norm(np.hstack([X.toarray(), np.full((200, 1), model.bias)]), axis=1)[:, None]
        has = Y.toarray()[:, 2] * weights
        centres = sp.csr_array((model.centre_values_, model.centre_indices_, model.centre_indptr_), shape=(5, 30))
        np.testing.assert_allclose(centres.toarray()[2], has @ rows / has.sum(), atol=1e-6)


@pytest.mark.parametrize("name", ["FastXML", "PfastXML", "PfastreXML"])
def test_weights_of_fastxml_steer_its_splits(name: str, data: Any) -> None:
    X, Y, _ = data
    plain = ESTIMATORS[name]().fit(X, Y)
    ones = ESTIMATORS[name]().fit(X, Y, sample_weight=np.ones(200))
    np.testing.assert_array_equal(plain.decision_function(X), ones.decision_function(X))
    # Costs of rows and weights of rows are one product, as long as all are equal.
    half = ESTIMATORS[name]().set_params(separator_cost=0.5).fit(X, Y, sample_weight=np.full(200, 2.0))
    np.testing.assert_array_equal(plain._whole().state.forest.split_weights, half._whole().state.forest.split_weights)
    # Every row is there twice, with contradicting labels: the heavier one wins.
    twice, labels = sp.vstack([X, X], format="csr"), np.repeat(np.eye(5)[[1, 3]], 200, axis=0)
    for heavy in (0, 1):
        model = ESTIMATORS[name]().fit(twice, labels, sample_weight=np.repeat([3.0, 1.0][:: 1 - 2 * heavy], 200))
        assert (model.predict_top_k(X, 1).label_ids == [1, 3][heavy]).all()


@pytest.mark.parametrize("kind", ["sparse", "dense", "exact", "projected"])
@pytest.mark.parametrize("loss", ["squared_hinge", "squared"])
def test_a_weight_of_gbdt_is_a_repeated_row(data: Any, kind: str, loss: str) -> None:
    _, Y, weights = data
    # Few values, so that thresholds lie at the same places however often rows are repeated.
    values = np.random.default_rng(3).integers(0, 5, size=(200, 12)).astype(np.float32)
    X: Any = sp.csr_array(values * (values > 2)) if kind in ("sparse", "projected") else values
    params: dict[str, Any] = {"n_trees": 6, "min_leaf_size": 1, "max_depth": 4, "l2": 1.0, "loss": loss, "n_jobs": 1}
    params |= {"threshold_step": 1 if kind == "exact" else 0.004}
    params |= {"projection": "leml", "n_components": 3} if kind == "projected" else {"projection": "none"}
    rows = np.repeat(np.arange(200), weights)
    model = lt.GBDTSparse(**params).fit(X, Y, sample_weight=weights)
    repeated = lt.GBDTSparse(**params).fit(X[rows], Y[rows])
    near = 5e-3 if kind == "projected" else 1e-5  # there, values are many, and thresholds lie elsewhere
    np.testing.assert_allclose(model.training_losses_, repeated.training_losses_, rtol=near)
    if kind != "projected":  # rows without weight may fall either way where splits gain the same
        np.testing.assert_allclose(model.decision_function(X[rows]), repeated.decision_function(X[rows]), atol=1e-5)
    plain = lt.GBDTSparse(**params).fit(X, Y)
    assert np.abs(model.decision_function(X) - plain.decision_function(X)).max() > 0.02
    ones = lt.GBDTSparse(**params).fit(X, Y, sample_weight=np.ones(200))
    np.testing.assert_array_equal(ones.decision_function(X), plain.decision_function(X))


def test_weights_of_gbdt_count_in_validation(data: Any) -> None:
    X, Y, weights = data
    model = lt.GBDTSparse(n_trees=5, min_leaf_size=5, patience=2, n_jobs=1)
    doubled = clone(model).set_params(l2=10.0).fit(X, Y, sample_weight=np.full(200, 2.0))
    np.testing.assert_allclose(doubled.validation_losses_, model.fit(X, Y).validation_losses_, rtol=1e-4)
    assert not np.allclose(
        clone(model).fit(X, Y, sample_weight=weights + 0.1).validation_losses_, model.validation_losses_
    )


@pytest.mark.parametrize("name", ["DiSMEC", "LabelTree", "LEML", "FastXML", "PfastXML", "PfastreXML", "GBDTSparse"])
def test_rows_without_weight_are_not_there(name: str, data: Any) -> None:
    X, Y, _ = data
    weights = np.repeat([1.0, 0.0], 100)
    model = ESTIMATORS[name]().fit(X, Y, sample_weight=weights)
    part = ESTIMATORS[name]().fit(X[:100], Y[:100], sample_weight=np.ones(100))
    np.testing.assert_array_equal(model.decision_function(X), part.decision_function(X))
    assert model.n_rows_ == 100
    threads = ESTIMATORS[name]().set_params(n_jobs=4).fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(model.decision_function(X), threads.decision_function(X))
    calibrated = ESTIMATORS[name]().fit(X, Y, sample_weight=np.arange(200) + 1.0, calibrate=True)
    assert calibrated.predict_proba(X).shape == (200, 5)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.ones(3), ValueError, r"DiSMEC: sample_weight.shape must be \(200,\), one per row, got \(3,\)"),
        (-np.ones(200), ValueError, "must be finite numbers >= 0, and not all zero, got -1 in row 0"),
        (np.where(np.arange(200) == 7, -0.5, 1), ValueError, "got -0.5 in row 7"),
        (np.zeros(200), ValueError, "not all zero, got only zeros"),
        (np.full(200, np.nan), ValueError, "must be finite numbers .* got nan in row 0"),
        (["a"] * 200, TypeError, "must hold numbers"),
        (np.full(200, 2e9), ValueError, r"must be at most 1e\+09, got 2e\+09; divide all weights"),
    ],
)
def test_bad_weights_are_refused(data: Any, weights: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lt.DiSMEC(n_jobs=1).fit(data[0], data[1], sample_weight=weights)


def test_estimators_without_weights_do_not_take_them(data: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weight'"):
        lt.baselines.CPLST(n_jobs=1).fit(*data[:2], sample_weight=data[2])
    with pytest.raises(ValueError, match="Tagger: sample_weight must be None, because CPLST takes no weights"):
        lt.Tagger(lt.baselines.CPLST()).fit(["aa bb", "aa bb"], [["x"], ["y"]], sample_weight=[1, 2])


def test_popularity_and_blends_weigh_rows(data: Any) -> None:
    X, Y, weights = data
    rows = np.repeat(np.arange(200), weights)
    model, repeated = lt.Popularity().fit(X, Y, sample_weight=weights), lt.Popularity().fit(X[rows], Y[rows])
    np.testing.assert_array_equal(model.ranking_, repeated.ranking_)
    np.testing.assert_allclose(model.shares_, repeated.shares_, rtol=1e-6)
    blend = lt.Blend(first=lt.DiSMEC(), second=lt.LabelTree(), n_jobs=1)
    weighted = clone(blend).fit(X, Y, sample_weight=weights)
    alone = lt.DiSMEC(n_jobs=1).fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(weighted.first_.coef_.toarray(), alone.coef_.toarray())
    assert weighted.n_rows_ == np.count_nonzero(weights)
    with pytest.raises(ValueError, match="Blend: sample_weight must be None, because CPLST takes no weights"):
        lt.Blend(second=lt.baselines.CPLST(), n_jobs=1).fit(X, Y, sample_weight=weights)


def test_an_earlier_model_with_other_weights_is_not_taken_over(data: Any) -> None:
    X, Y, weights = data
    first = lt.DiSMEC(n_jobs=1).fit(X, Y, sample_weight=weights + 1)
    again = lt.DiSMEC(n_jobs=1).fit(X, Y, sample_weight=weights + 1, warm_start_from=first)
    np.testing.assert_array_equal(again.coef_.toarray(), first.coef_.toarray())
    other = lt.DiSMEC(n_jobs=1).fit(X, Y, warm_start_from=first)
    assert np.abs(other.coef_ - first.coef_).max() > 0.01


def test_a_tagger_weighs_texts() -> None:
    texts = ["same words", "same words", "other thing"] * 10
    labels = [["a"], ["b"], ["c"]] * 10
    weights = np.tile([5.0, 1.0, 1.0], 10)
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(texts, labels, sample_weight=weights)
    assert tagger.predict(["same words"]) == [["a"]]
    tagger.fit(texts, labels, sample_weight=np.tile([1.0, 5.0, 1.0], 10))
    assert tagger.predict(["same words"]) == [["b"]]


def test_weights_are_routed(data: Any) -> None:
    X, Y, weights = data
    X, Y = X.toarray(), Y.toarray().astype(int)
    expected = make_pipeline(MaxAbsScaler(), lt.DiSMEC(n_jobs=1)).fit(X, Y, dismec__sample_weight=weights)
    with pytest.raises(RuntimeError, match="enable_metadata_routing"):
        lt.DiSMEC().set_fit_request(sample_weight=True)
    with config_context(enable_metadata_routing=True):
        asking = lt.DiSMEC(n_jobs=1).set_fit_request(sample_weight=True)
        piped = make_pipeline(MaxAbsScaler(), clone(asking)).fit(X, Y, sample_weight=weights)
        np.testing.assert_array_equal(piped[-1].coef_.toarray(), expected[-1].coef_.toarray())
        renamed = lt.DiSMEC(n_jobs=1).set_fit_request(sample_weight="mass")
        assert make_pipeline(MaxAbsScaler(), renamed).fit(X, Y, mass=weights)[-1].n_labels_ == 5
        search = GridSearchCV(
            asking.set_score_request(sample_weight=False), {"cost": [0.1, 1.0]}, cv=KFold(2), refit=False
        )
        search.fit(X, Y, sample_weight=weights)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        with pytest.raises(TypeError, match="CPLST: fit does not take sample_weight"):
            lt.baselines.CPLST().set_fit_request(sample_weight=True)
        with pytest.raises(ValueError, match="sample_weight"):
            make_pipeline(MaxAbsScaler(), lt.DiSMEC(n_jobs=1)).fit(X, Y, sample_weight=weights)
    assert sp.issparse(expected[-1].coef_)
