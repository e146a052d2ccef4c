"""MLRF and MLRF-nDCG: scores of splits against their definitions, and trees against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import ndcg_score as sklearn_ndcg

import longtail as lt
from longtail import _core
from longtail._base import XMCClassifier
from longtail.baselines.random_tree import candidates, gini_score, grow_random_tree, ndcg_score
from tests.fitted_state import check_loaded, with_values


def problem() -> lt.datasets.Data:
    return lt.datasets.make_synthetic(n_rows=300, n_features=40, n_labels=15, labels_per_row=2)


def side_score(Y: np.ndarray, criterion: str) -> float:
    """Score one side of a split by the definition."""
    if criterion == "gini":
        shares = Y.sum(axis=0) / max(Y.sum(), 1)
        return float(-Y.sum() * (1 - np.square(shares).sum()))
    n_labels = Y.sum(axis=1)
    gains = np.array([1 / sum(1 / np.log2(1 + rank) for rank in range(1, int(n) + 1)) if n else 0 for n in n_labels])
    ranking = np.argsort(-(Y * gains[:, None]).sum(axis=0), kind="stable")
    ranks = np.empty(len(ranking))
    ranks[ranking] = np.arange(len(ranking))
    with_labels = Y[n_labels > 0]
    return float(sum(sklearn_ndcg([row], [-ranks]) for row in with_labels))


@pytest.mark.parametrize("criterion", ["gini", "ndcg"])
@pytest.mark.parametrize("is_binary", [True, False])
def test_the_root_takes_the_best_of_all_splits(criterion: str, is_binary: bool) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 5)).astype(np.float32)
    X[X < 0] = 0
    X = (X > 0).astype(np.float32) if is_binary else X
    Y = ((X @ rng.normal(size=(5, 6)) + rng.normal(size=(24, 6))) > 1.2).astype(np.float32)
    expected = max(
        side_score(Y[X[:, feature] <= threshold], criterion) + side_score(Y[X[:, feature] > threshold], criterion)
        for feature in range(5)
        for threshold in np.unique(X[:, feature])[:-1]
    )
    tree = grow_random_tree(
        sp.csr_array(X),
        sp.csr_array(Y),
        np.arange(24),
        criterion=criterion,
        n_tried=5,
        n_thresholds=23,
        max_leaf_size=1,
        leaf_top_k=6,
        rng=rng,
        control=_core.Control(),
    )
    goes_left = X[:, tree["split_features"][0]] <= tree["thresholds"][0]
    found = side_score(Y[goes_left], criterion) + side_score(Y[~goes_left], criterion)
    assert found == pytest.approx(expected, abs=1e-4)


def test_scores_of_columns_are_those_of_single_sides() -> None:
    rng = np.random.default_rng(0)
    sums = rng.integers(0, 5, size=(7, 4)).astype(np.float32)
    for column, (gini, ndcg) in enumerate(zip(gini_score(sums), ndcg_score(sums), strict=True)):
        c = sums[:, column]
        assert gini == pytest.approx((c**2).sum() / c.sum())
        assert ndcg == pytest.approx(sum(value / np.log2(2 + i) for i, value in enumerate(sorted(c, reverse=True))))


def test_candidates_divide_the_rows_and_separate_zeros() -> None:
    values = np.array([[0, 5, 1], [0, 5, 2], [0, 5, 3], [7, 5, 4]], dtype=np.float32)
    which, thresholds = candidates(values, 3)
    pairs = list(zip(which.tolist(), thresholds.tolist(), strict=True))
    assert (0, 3.5) in pairs
    assert 1 not in which, "a constant column has no split"
    assert {threshold for column, threshold in pairs if column == 2} == {1.5, 2.5, 3.5}


@pytest.mark.parametrize("model", [lt.MLRF(n_trees=10), lt.MLRFnDCG(n_trees=10)])
def test_labels_are_learnt_and_scores_are_shares(model: XMCClassifier) -> None:
    data = problem()
    top = model.fit(data.X, data.Y).predict_top_k(data.X)
    assert lt.metrics.evaluate(top, data.Y)["P@1"] > 80
    assert top.scores.max() <= 1.0001


def test_leaves_hold_the_shares_of_their_rows() -> None:
    data = problem()
    model = lt.MLRF(n_trees=1, max_leaf_size=300).fit(data.X, data.Y)
    rows = np.random.default_rng([0, 0]).integers(300, size=300)
    expected = data.Y[rows].toarray().mean(axis=0)
    found = np.zeros(15)
    found[model.leaf_label_ids_] = model.leaf_values_
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_damaged_trees_are_refused() -> None:
    data = problem()
    model = lt.MLRF(n_trees=2).fit(data.X, data.Y)
    check_loaded(model)
    with_values(model, leaf_label_ids_=model.leaf_label_ids_ + np.int32(15))
    with pytest.raises(ValueError, match="MLRF"):
        check_loaded(model)


def test_balance_is_the_mean_depth_of_the_rows_over_that_of_full_leaves() -> None:
    data = problem()
    model = lt.MLRF(n_trees=3, max_leaf_size=10, n_jobs=1).fit(data.X, data.Y)
    dense = data.X.toarray()
    for tree, depth in enumerate(model.tree_depths_):
        begin = model.tree_begin_[tree]
        depths = []
        for row in np.random.default_rng([0, tree]).integers(300, size=300):  # the bootstrap sample
            node = steps = 0
            while (feature := model.split_features_[begin + node]) >= 0:
                node = model.left_children_[begin + node] + (dense[row, feature] > model.thresholds_[begin + node])
                steps += 1
            depths.append(steps)
        assert depth == pytest.approx(np.mean(depths))
    assert model.balance_ == pytest.approx(model.tree_depths_.mean() / np.log2(300 / 10))
    wrong = with_values(model, tree_depths_=model.tree_depths_[:2])
    with pytest.raises(ValueError, match="tree_depths_ must have one entry per tree"):
        check_loaded(wrong)
