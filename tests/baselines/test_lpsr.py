"""LPSR: the tree over rows, the base classifiers, and what prediction restricts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from longtail.baselines import lpsr
from longtail.baselines.lpsr import naive_bayes
from longtail.baselines.row_tree import RowTree, grow_row_tree, two_means
from tests.fitted_state import check_loaded, with_values
from tests.models.make import make_labels, make_rows


def problem() -> lt.datasets.Data:
    return lt.datasets.make_synthetic(n_rows=300, n_features=60, n_labels=20, labels_per_row=2)


def test_two_means_finds_two_clusters_that_are_far_apart() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).astype(np.float32)
    X[:15] += 20
    split = two_means(sp.csr_array(X), rng)
    assert split is not None
    is_right = X @ split[0] > split[1]
    assert is_right[:15].all() != is_right[15:].all()
    assert len(set(is_right[:15])) == len(set(is_right[15:])) == 1


def test_equal_rows_stay_together() -> None:
    X = sp.csr_array(np.ones((30, 4), dtype=np.float32))
    assert two_means(X, np.random.default_rng(0)) is None
    model = lt.LPSRNB(max_leaf_size=5).fit(X, np.eye(30, 3, dtype=int))
    assert model.left_children_.tolist() == [-1]


@pytest.mark.parametrize("max_leaf_size", [10, 100])
def test_training_rows_reach_the_leaf_that_has_their_labels(max_leaf_size: int) -> None:
    data = problem()
    tree = RowTree(**grow_row_tree(data.X, data.Y, max_leaf_size, 0, _core.Control()))
    reached = tree.leaves_of(data.X)
    assert sorted(np.concatenate([rows for _, rows in reached])) == list(range(300))
    for leaf, rows in reached:
        assert len(rows) <= max_leaf_size
        np.testing.assert_array_equal(tree.labels_of(leaf), np.unique(data.Y[rows].indices))


def test_naive_bayes_agrees_with_scikit_learn() -> None:
    """A row with several labels counts once for each of them."""
    from sklearn.naive_bayes import MultinomialNB

    data = problem()
    pairs = sp.coo_array(data.Y)
    expected = MultinomialNB(alpha=0.5).fit(data.X[pairs.row], pairs.col)
    found = naive_bayes(data.X, data.Y, 0.5)
    weights = found.matrix(60).toarray() + found.sum_weights[:, None]
    seen = expected.classes_
    np.testing.assert_allclose(weights[seen], expected.feature_log_prob_, rtol=1e-4)
    shares = np.exp(found.biases[seen] - expected.class_log_prior_)  # of the rows instead of the pairs
    np.testing.assert_allclose(shares, shares[0], rtol=1e-4)


def test_one_leaf_ranks_as_the_base_classifier_does() -> None:
    data = problem()
    found = lt.LPSR(max_leaf_size=300, n_jobs=1).fit(data.X, data.Y).predict_top_k(data.X, top_k=3)
    expected = lt.DiSMEC(n_jobs=1).fit(data.X, data.Y).predict_top_k(data.X, top_k=3)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    assert (found.label_ids == expected.label_ids).mean() > 0.99


def test_only_labels_of_the_leaf_are_ranked() -> None:
    X = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)
    Y = np.zeros((40, 4), dtype=int)
    Y[:20, :2] = Y[20:, 2:] = 1
    for model in (lt.LPSR(max_leaf_size=20), lt.LPSRNB(max_leaf_size=20)):
        label_ids = model.fit(X, Y).predict_top_k(X, top_k=4).label_ids
        assert set(label_ids[:20].ravel()) == {-1, 0, 1}
        assert set(label_ids[20:].ravel()) == {-1, 2, 3}


def test_naive_bayes_refuses_negative_values() -> None:
    with pytest.raises(ValueError, match=r"LPSRNB: X must hold no negative values, got -1;.* use LPSR"):
        lt.LPSRNB().fit([[1.0, -1.0], [0.0, 1.0]], [0, 1])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("left_children_", lambda array: array[::-1].copy(), "must follow their parents"),
        ("split_thresholds_", lambda array: array[1:], "one entry per node"),
        ("leaf_label_ids_", lambda array: array + np.int32(20), "leaf names id"),
        ("split_feature_ids_", lambda array: array + np.int32(60), "split names id"),
        ("split_weights_", lambda array: array[1:], "same length"),
        ("leaf_begin_", lambda array: array + 1, "leaf_begin_ must rise"),
        ("leaf_label_ids_", lambda array: array[::-1].copy(), "the ids of each leaf must increase"),
        ("leaf_label_ids_", lambda array: array * np.int32(0), "the ids of each leaf must increase"),
        ("left_children_", lambda array: np.where(array < 0, array, np.int32(2**31 - 1)), "must follow their parents"),
        ("biases_", lambda array: array[1:], "biases_ must have 20 entries"),
        ("weight_begin_", lambda array: array[::-1].copy(), "weight_begin_ must rise"),
    ],
)
def test_damaged_models_are_refused(name: str, change: object, message: str) -> None:
    data = problem()
    model = lt.LPSRNB(max_leaf_size=50).fit(data.X, data.Y)
    check_loaded(model)
    with_values(model, **{name: change(getattr(model, name))})  # type: ignore[operator]
    with pytest.raises(ValueError, match=message):
        check_loaded(model)


@pytest.mark.parametrize("name", ["LPSR", "LPSRNB"])
def test_absurd_weights_give_scores_all_the_same(name: str) -> None:
    model = getattr(lt, name)(max_leaf_size=30, n_jobs=1).fit(make_rows(), make_labels())
    with_values(model, weights_=np.full_like(model.weights_, 3e38), sum_weights_=np.full_like(model.biases_, 3e38))
    with np.errstate(over="ignore", invalid="ignore"):
        scores = model.predict_top_k(make_rows() * np.float32(100)).scores
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", ["LPSR", "LPSRNB"])
def test_unused_features_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows()
    model = getattr(lt, name)(max_leaf_size=30, n_jobs=1).fit(rows, make_labels())
    expected = model.predict_top_k(rows)
    monkeypatch.setattr(lpsr, "_MANY_FEATURES", 0)
    monkeypatch.setattr(lpsr.Partitioned, "n_entries", 0)
    found = model.predict_top_k(rows)
    np.testing.assert_array_equal(found.label_ids, expected.label_ids)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)


def test_balance_is_the_mean_depth_of_the_rows_over_that_of_full_leaves() -> None:
    data = problem()
    model = lt.LPSRNB(max_leaf_size=20).fit(data.X, data.Y)
    dense, depths = data.X.toarray(), []
    for row in dense:
        node = steps = 0
        while (child := model.left_children_[node]) >= 0:
            own = slice(model.split_begin_[node], model.split_begin_[node + 1])
            score = row[model.split_feature_ids_[own]] @ model.split_weights_[own]
            node = child + (score > model.split_thresholds_[node])
            steps += 1
        depths.append(steps)
    assert model.tree_depths_[0] == pytest.approx(np.mean(depths))
    assert model.balance_ == pytest.approx(np.mean(depths) / np.log2(300 / 20))
