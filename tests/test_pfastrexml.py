"""PfastXML and PfastreXML: propensities in splits and leaves, tail classifiers, re-ranking, against naive twins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

import longtail as lt
from longtail.tagging.explanations import contributions_of
from tests.fitted_state import check_loaded, with_values
from tests.test_fastxml import topic_data

Floats = NDArray[np.float64]


def with_bias(X: sp.csr_array, bias: float = 1.0, *, unit_rows: bool = False) -> Floats:
    """Rows as the tail classifiers see them: the bias is one more coordinate, and the whole has length one."""
    rows = X.toarray().astype(np.float64)
    if unit_rows:
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.hstack([rows, np.full((len(rows), 1), bias)])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def centres_of(model: lt.PfastreXML) -> Floats:
    shape = (model.n_labels_, model.n_features_in_)
    centres = sp.csr_array((model.centre_values_, model.centre_indices_, model.centre_indptr_), shape)
    return np.hstack([centres.toarray(), model.centre_biases_[:, None]]).astype(np.float64)


def dense_scores(top: lt.TopK, n_labels: int) -> Floats:
    """Scores by label; nan where a label is not proposed."""
    scores = np.full((len(top.label_ids), n_labels), np.nan)
    rows, places = np.nonzero(top.label_ids >= 0)
    scores[rows, top.label_ids[rows, places]] = top.scores[rows, places]
    return scores


def test_leaves_hold_shares_divided_by_propensities() -> None:
    X, Y = topic_data(150)
    model = lt.PfastXML(n_trees=1, n_jobs=1, max_leaf_size=1000, leaf_labels=4).fit(X, Y)  # the root is a leaf
    weighted = Y.toarray().mean(axis=0) / lt.propensity.from_labels(Y)
    assert model.leaf_labels_.tolist() == sorted(np.argsort(-weighted, kind="stable")[:4].tolist())
    np.testing.assert_allclose(model.leaf_values_, weighted[model.leaf_labels_], rtol=1e-6)


def test_propensities_bring_rare_labels_to_the_top() -> None:
    X, Y = topic_data(800, n_labels=30)
    X = sp.csr_array(X.multiply(np.random.default_rng(1).random(X.shape) < 0.6))  # labels are hard to tell apart
    p = lt.propensity.from_labels(Y[:600])
    plain, scored = (
        lt.metrics.evaluate(cls(n_trees=20, n_jobs=2).fit(X[:600], Y[:600]).predict_top_k(X[600:]), Y[600:], p)["PSP@1"]
        for cls in (lt.FastXML, lt.PfastXML)
    )
    assert scored > plain


def test_predict_decides_by_shares_not_by_weighted_shares() -> None:
    X, Y = topic_data(300)
    for cls in (lt.PfastXML, lt.PfastreXML):
        model = cls(n_trees=10, n_jobs=1).fit(X, Y)
        assert abs(model.predict(X).toarray() - Y.toarray()).mean() < 0.03


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("unit_rows", [False, True])
def test_centres_are_the_means_of_unit_rows_with_the_bias(dense: bool, unit_rows: bool) -> None:
    X, Y = topic_data(300, n_labels=20)
    X *= np.float32(3)
    model = lt.PfastreXML(n_trees=1, n_jobs=1, bias=0.5, unit_rows=unit_rows).fit(X.toarray() if dense else X, Y)
    rows, labels = with_bias(X, 0.5, unit_rows=unit_rows), Y.toarray()
    expected = labels.T @ rows / np.maximum(labels.sum(axis=0), 1)[:, None]
    np.testing.assert_allclose(centres_of(model), expected, atol=1e-6)
    np.testing.assert_allclose(model.centre_norms_, np.square(expected).sum(axis=1), atol=1e-6)


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("unit_rows", [False, True])
@pytest.mark.parametrize(("alpha", "gamma"), [(0.8, 30), (0.3, 2), (1, 30), (0, 10)])
def test_labels_are_ranked_by_trees_and_centres_together(
    dense: bool, unit_rows: bool, alpha: float, gamma: float
) -> None:
    X, Y = topic_data(200)
    X *= np.float32(2)
    given: Any = X.toarray() if dense else X
    trees = lt.PfastXML(n_trees=5, n_jobs=1, unit_rows=unit_rows).fit(given, Y)
    model = lt.PfastreXML(n_trees=5, n_jobs=1, alpha=alpha, gamma=gamma, unit_rows=unit_rows).fit(given, Y)
    n_labels = model.n_labels_
    shares = dense_scores(trees.predict_top_k(given, n_labels), n_labels)
    rows = with_bias(X, unit_rows=unit_rows)
    squared = np.square(rows[:, None, :] - centres_of(model)[None]).sum(axis=2)
    expected = alpha * np.log(shares) - (1 - alpha) * np.log1p(np.exp(gamma * squared))  # equation 8
    found = dense_scores(model.predict_top_k(given, n_labels), n_labels)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_alpha_gamma_and_candidates_can_be_changed_after_training() -> None:
    X, Y = topic_data(200)
    model = lt.PfastreXML(n_trees=5, n_jobs=1).fit(X, Y)
    again = lt.PfastreXML(n_trees=5, n_jobs=1, alpha=0.5, gamma=5.0).fit(X, Y)
    model.alpha, model.gamma = 0.5, 5.0
    np.testing.assert_array_equal(model.predict_top_k(X).scores, again.predict_top_k(X).scores)
    model.n_candidates = 2
    assert (model.predict_top_k(X, 5).label_ids[:, 2:] == -1).all()
    trees = lt.PfastXML(n_trees=5, n_jobs=1).fit(X, Y).predict_top_k(X, 2).label_ids
    np.testing.assert_array_equal(np.sort(model.predict_top_k(X, 2).label_ids), np.sort(trees))


def log_likelihood(centre: Floats, rows: Floats, observed: NDArray[np.bool_], p: float, gamma: float) -> float:
    """Equation 6 for one label."""
    chance = p / (1 + np.exp(gamma * np.square(rows - centre).sum(axis=1)))
    return float(np.log(np.where(observed, chance, 1 - chance)).sum())


@pytest.mark.parametrize(("name", "value"), [("alpha", 2), ("gamma", float("nan")), ("n_candidates", 0)])
def test_what_is_changed_after_training_is_checked_in_prediction(name: str, value: float) -> None:
    X, Y = topic_data(40)
    model = lt.PfastreXML(n_trees=2, n_jobs=1).fit(X, Y)
    setattr(model, name, value)
    with pytest.raises(ValueError, match=f"PfastreXML: {name} must be"):
        model.predict_top_k(X[:1])


@pytest.mark.parametrize("gamma", [1.0, 4.0])
def test_mle_centres_come_close_to_the_maximum_of_the_likelihood(gamma: float) -> None:
    X, Y = topic_data(120, n_labels=4)
    rows, labels = with_bias(X), Y.toarray() > 0
    p = lt.propensity.from_labels(Y)
    means, learnt = (
        centres_of(lt.PfastreXML(n_trees=1, n_jobs=1, gamma=gamma, tail=tail).fit(X, Y)) for tail in ("centroid", "mle")
    )
    for label_id in range(4):
        arguments = (rows, labels[:, label_id], p[label_id], gamma)
        best = -minimize(lambda c, *args: -log_likelihood(c, *args), means[label_id], args=arguments).fun
        start, reached = (log_likelihood(centres[label_id], *arguments) for centres in (means, learnt))
        assert best - reached < 0.05 * (best - start)


def test_mle_centres_are_the_same_for_dense_rows() -> None:
    X, Y = topic_data(150, n_labels=6)
    sparse, dense = (
        centres_of(lt.PfastreXML(n_trees=1, n_jobs=1, gamma=3.0, tail="mle").fit(given, Y))
        for given in (X, X.toarray())
    )
    np.testing.assert_allclose(sparse, dense, atol=1e-5)


@pytest.mark.parametrize("tail", ["centroid", "mle"])
def test_same_bytes_for_any_number_of_threads_over_many_label_ranges(tail: str) -> None:
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.random((60, 20)) * (rng.random((60, 20)) < 0.3), dtype=np.float32)
    Y = sp.csr_array(rng.random((60, 700)) < 0.01, dtype=np.float32)  # three ranges
    one, four = (lt.PfastreXML(n_trees=4, n_jobs=n, tail=tail).fit(X, Y) for n in (1, 4))
    for name in one._fitted_arrays():
        assert getattr(one, name).tobytes() == getattr(four, name).tobytes(), name
    assert len(one.centre_norms_) == 700


def test_save_and_load_give_the_same_ranking(tmp_path: Path) -> None:
    X, Y = topic_data(200)
    for cls in (lt.PfastXML, lt.PfastreXML):
        model = cls(n_trees=3, n_jobs=1).fit(X, Y)
        lt.save(model, tmp_path / cls.__name__)
        loaded = lt.load(tmp_path / cls.__name__)
        np.testing.assert_array_equal(loaded.predict_top_k(X).scores, model.predict_top_k(X).scores)
        np.testing.assert_array_equal(loaded.predict(X).toarray(), model.predict(X).toarray())


@pytest.mark.parametrize("part", ["centre_indptr_", "centre_indices_", "centre_values_", "centre_biases_"])
def test_damaged_centres_are_refused(part: str) -> None:
    X, Y = topic_data(100)
    model = lt.PfastreXML(n_trees=1, n_jobs=1).fit(X, Y)
    check_loaded(model)
    damaged = getattr(model, part)[:-1].copy()
    if part == "centre_indices_":
        damaged = getattr(model, part).copy()
        damaged[0] = 10_000
    with_values(model, **{part: damaged})
    with pytest.raises(ValueError):
        check_loaded(model)


def test_rows_and_labels_without_entries_are_accepted() -> None:
    X, Y = topic_data(100)
    X, Y = X.toarray(), Y.toarray()
    X[:5] = 0
    Y[10:15] = 0
    Y[:, 3] = 0
    for bias in (0.0, 1.0):
        model = lt.PfastreXML(n_trees=3, n_jobs=1, bias=bias, tail="mle").fit(sp.csr_array(X), sp.csr_array(Y))
        top = model.predict_top_k(sp.csr_array(X), 12)
        assert np.isfinite(top.scores).all()
        assert not (top.label_ids == 3).any()


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("alpha", 1.5, "a number in"),
        ("gamma", -1, "a number >= 0"),
        ("tail", "sgd", "centroid"),
        ("n_candidates", 0, "an int"),
        ("propensity_a", -1, r"a number in \[0, 100\]"),
        ("propensity_b", 0, "a number > 0"),
    ],
)
def test_wrong_values_are_refused_by_name(name: str, value: object, rule: str) -> None:
    X, Y = topic_data(20)
    with pytest.raises(ValueError, match=f"^PfastreXML: {name} must be .*{rule}.*, got {value!r}$"):
        lt.PfastreXML(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("unit_rows", [False, True])
def test_an_explanation_adds_up_to_the_score_and_names_the_labels_words(unit_rows: bool) -> None:
    X, Y = topic_data(400)
    model = lt.PfastreXML(n_trees=10, n_jobs=1, unit_rows=unit_rows).fit(X, Y)
    for row in range(20):
        x = sp.csr_array(X[[row]])
        top = model.predict_top_k(x, 12)
        label_id = int(top.label_ids[0, 0])
        found = contributions_of(model, x, label_id)
        assert found.score == pytest.approx(float(top.scores[0, 0]), abs=1e-4)
        assert found.bias + found.values.sum() == pytest.approx(found.score, abs=1e-4)
        assert found.feature_ids[np.argmax(found.values)] // 3 == label_id
    absent = next(label_id for label_id in range(12) if label_id not in top.label_ids)
    assert contributions_of(model, x, absent).score == 0


def test_a_checkpoint_of_centroids_serves_any_gamma(tmp_path: Path) -> None:
    X, Y = np.eye(6, dtype=np.float32), np.eye(6)
    lt.PfastreXML(n_trees=2, n_jobs=1, gamma=30).fit(X, Y, checkpoint=tmp_path / "run")
    model = lt.PfastreXML(n_trees=2, n_jobs=1, gamma=5).fit(X, Y, checkpoint=tmp_path / "run")
    assert model.gamma == 5
    lt.PfastreXML(n_trees=2, n_jobs=1, tail="mle", gamma=30).fit(X, Y, checkpoint=tmp_path / "mle")
    with pytest.raises(ValueError, match="checkpoint"):  # there gamma decides what is learned
        lt.PfastreXML(n_trees=2, n_jobs=1, tail="mle", gamma=5).fit(X, Y, checkpoint=tmp_path / "mle")
