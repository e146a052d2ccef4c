"""MLRF and MLRF-nDCG: scores of splits against their definitions, and trees against brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import ndcg_score as sklearn_ndcg

import longtail as lt
from longtail import _core
from longtail._base import XMCClassifier
from longtail._matrices import canonical_csr
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
    discounts = np.empty(len(ranking))
    discounts[ranking] = 1 / np.log2(2 + np.arange(len(ranking)))
    return float((Y @ discounts * gains).sum())


def test_the_score_of_a_side_is_the_sum_of_its_ndcg() -> None:
    Y = (np.random.default_rng(0).random((9, 6)) < 0.4).astype(np.float32)
    gains = np.array([1 / sum(1 / np.log2(1 + rank) for rank in range(1, int(n) + 1)) for n in Y.sum(axis=1)])
    ranking = np.argsort(-(Y * gains[:, None]).sum(axis=0), kind="stable")
    scores = np.empty(6)
    scores[ranking] = -np.arange(6)
    assert side_score(Y, "ndcg") == pytest.approx(sum(sklearn_ndcg([row], [scores]) for row in Y))


def grow(X: np.ndarray, Y: np.ndarray, **settings: Any) -> dict[str, Any]:
    """Grow a tree by the kernel, with all features in every node."""
    rows, labels = canonical_csr(X), canonical_csr(Y)
    chosen = {"criterion": "gini", "n_tried": X.shape[1], "n_thresholds": 255, "max_leaf_size": 1, "leaf_top_k": 100}
    chosen |= {"row_ids": np.arange(len(X))} | settings
    *arrays, _ = _core.grow_random_tree(
        X.shape[1],
        rows.indptr,
        rows.indices,
        rows.data,
        Y.shape[1],
        labels.indptr,
        labels.indices,
        chosen["row_ids"],
        chosen["criterion"] == "ndcg",
        chosen["n_tried"],
        chosen["n_thresholds"],
        chosen["max_leaf_size"],
        chosen["leaf_top_k"],
        0,
        _core.Control(),
    )
    names = ("split_features", "thresholds", "left_children", "leaf_begin", "leaf_label_ids", "leaf_values")
    return dict(zip(names, arrays, strict=True))


def best_split(X: np.ndarray, Y: np.ndarray, criterion: str) -> float | None:
    """Try every feature and every value; None if nothing divides the rows."""
    scores = [
        side_score(Y[X[:, feature] <= value], criterion) + side_score(Y[X[:, feature] > value], criterion)
        for feature in range(X.shape[1])
        for value in np.unique(X[:, feature])[:-1]
    ]
    return max(scores, default=None)


@pytest.mark.parametrize("criterion", ["gini", "ndcg"])
@pytest.mark.parametrize("kind", ["binary", "sparse", "signed", "dense"])
@pytest.mark.parametrize("seed", [3, 4])
def test_every_node_takes_the_best_of_all_splits(criterion: str, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(24, 5)).astype(np.float32)
    if kind != "dense":
        X[(X < 0) if kind != "signed" else (np.abs(X) < 0.5)] = 0
    X = (X > 0).astype(np.float32) if kind == "binary" else np.round(X, 1)
    Y = ((X @ rng.normal(size=(5, 6)) + rng.normal(size=(24, 6))) > 1.2).astype(np.float32)
    row_ids = rng.integers(24, size=30)
    tree = grow(X, Y, criterion=criterion, row_ids=row_ids, max_leaf_size=2)
    waiting, n_splits = {0: row_ids}, 0
    for node, feature in enumerate(tree["split_features"]):
        rows = waiting.pop(node)
        is_pure = len(np.unique(Y[rows], axis=0)) == 1
        expected = None if len(rows) <= 2 or is_pure else best_split(X[rows], Y[rows], criterion)
        if feature < 0:
            assert expected is None
            own = slice(tree["leaf_begin"][node], tree["leaf_begin"][node + 1])
            shares = np.zeros(6)
            shares[tree["leaf_label_ids"][own]] = tree["leaf_values"][own]
            np.testing.assert_allclose(shares, Y[rows].mean(axis=0), atol=1e-6)
            continue
        n_splits += 1
        goes_left = X[rows, feature] <= tree["thresholds"][node]
        assert 0 < goes_left.sum() < len(rows)
        found = side_score(Y[rows[goes_left]], criterion) + side_score(Y[rows[~goes_left]], criterion)
        assert found == pytest.approx(expected, abs=1e-4)
        child = tree["left_children"][node]
        waiting |= {child: rows[goes_left], child + 1: rows[~goes_left]}
    assert n_splits > 2
    assert not waiting


def test_thresholds_are_half_way_between_quantiles_and_the_next_value() -> None:
    values = np.array([1, 2, 3, 4, 5, 6, 7, 8], dtype=np.float32)[:, None]
    for n_left, threshold in enumerate([1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5], start=1):
        Y = (np.arange(8)[:, None] >= n_left) == [False, True]
        tree = grow(values, Y.astype(np.float32))
        assert tree["thresholds"][0] == threshold
        # One quantile, the median, and the least value, which divides zeros from the others in sparse columns.
        coarse = grow(values, Y.astype(np.float32), n_thresholds=1)
        assert coarse["thresholds"][0] in (1.5, 5.5)


def test_a_feature_that_is_the_same_in_all_rows_has_no_split() -> None:
    X, Y = np.full((4, 1), 5, dtype=np.float32), np.eye(4, dtype=np.float32)
    assert grow(X, Y)["split_features"].tolist() == [-1]


def test_a_leaf_keeps_its_most_frequent_labels() -> None:
    Y = np.array([[1, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0]], dtype=np.float32)
    tree = grow(np.zeros((3, 1), np.float32), Y, leaf_top_k=3)
    assert tree["leaf_label_ids"].tolist() == [0, 1, 3]
    np.testing.assert_allclose(tree["leaf_values"], [1 / 3, 1, 2 / 3])


def test_features_beyond_what_the_kernel_holds_are_renumbered() -> None:
    data = problem()
    wide = sp.csr_array((data.X.data, data.X.indices * 500_000, data.X.indptr), shape=(300, 20_000_000))
    narrow_model, wide_model = (lt.MLRF(n_trees=2, n_jobs=1, n_features_tried=6) for _ in range(2))
    narrow_model.fit(data.X, data.Y)
    wide_model.fit(wide, data.Y)
    expected = np.where(narrow_model.split_features_ < 0, -1, narrow_model.split_features_.astype(np.int64) * 500_000)
    np.testing.assert_array_equal(wide_model.split_features_, expected)


@pytest.mark.parametrize("model", [lt.MLRF(n_trees=10), lt.MLRFnDCG(n_trees=10)])
def test_labels_are_learnt_and_scores_are_shares(model: XMCClassifier) -> None:
    data = problem()
    top = model.fit(data.X, data.Y).predict_top_k(data.X)
    assert lt.metrics.evaluate(top, data.Y)["P@1"] > 80
    assert top.scores.max() <= 1.0001


def test_leaves_hold_the_shares_of_their_rows() -> None:
    data = problem()
    model = lt.MLRF(n_trees=1, max_leaf_size=300, bootstrap=True).fit(data.X, data.Y)
    rows = np.random.default_rng([0, 0]).integers(300, size=300)
    expected = data.Y[rows].toarray().mean(axis=0)
    found = np.zeros(15)
    found[model.leaf_label_ids_] = model.leaf_values_
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_trees_are_grown_on_all_rows_unless_rows_are_drawn() -> None:
    data = problem()
    model = lt.MLRF(n_trees=2, max_leaf_size=300).fit(data.X, data.Y)
    ones, halves = model.leaf_values_[:15].sum() * 2, data.Y.toarray().mean(axis=0).sum()
    assert ones == pytest.approx(halves, rel=1e-5)


def test_damaged_trees_are_refused() -> None:
    data = problem()
    model = lt.MLRF(n_trees=2).fit(data.X, data.Y)
    check_loaded(model)
    with_values(model, leaf_label_ids_=model.leaf_label_ids_ + np.int32(15))
    with pytest.raises(ValueError, match="MLRF"):
        check_loaded(model)


def test_balance_is_the_mean_depth_of_the_rows_over_that_of_full_leaves() -> None:
    data = problem()
    model = lt.MLRF(n_trees=3, max_leaf_size=10, bootstrap=True, n_jobs=1).fit(data.X, data.Y)
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
