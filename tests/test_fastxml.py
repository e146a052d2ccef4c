"""FastXML: its solver against LIBLINEAR's, its options, its statistics, its published accuracy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

import longtail as lt
from longtail import _core
from longtail._matrices import canonical_csr, native_rows
from tests.fitted_state import check_loaded, with_values
from tests.models.make import make_labels, make_rows

Data = tuple[sp.csr_array, sp.csr_array]


def topic_data(n_rows: int, n_labels: int = 12, *, seed: int = 0) -> Data:
    """Rows of a few words each; label l goes with words 3l, 3l+1, 3l+2, and labels 2l and 2l+1 go together."""
    rng = np.random.default_rng(seed)
    n_features = 3 * n_labels + 20
    X = np.zeros((n_rows, n_features), np.float32)
    Y = np.zeros((n_rows, n_labels), np.float32)
    for row in range(n_rows):
        label_id = int(n_labels * rng.random() ** 2)
        labels = {label_id, label_id ^ 1} if rng.random() < 0.5 else {label_id}
        for label in labels:
            Y[row, label] = 1
            X[row, 3 * label + rng.integers(0, 3, 2)] = 1
        X[row, 3 * n_labels + rng.integers(0, 20, 3)] = 1
    return sp.csr_array(X), sp.csr_array(Y)


def objective(X: NDArray[np.float64], a: NDArray[np.float64], w: NDArray[np.float64]) -> float:
    margins = np.sign(a) * (X @ w)
    return float(np.abs(w).sum() + (np.abs(a) * np.logaddexp(0, -margins)).sum())


@pytest.mark.parametrize("dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize(("n_rows", "right_cost", "left_cost"), [(40, 2.0, 2.0), (300, 1.0, 3.0), (2000, 2.5, 1.7)])
def test_solver_reaches_liblinears_objective(dense: bool, n_rows: int, right_cost: float, left_cost: float) -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(n_rows)
    X = rng.random((n_rows, 60)) * (rng.random((n_rows, 60)) < 0.2)
    X = X.astype(np.float32)
    right = X[:, :5].sum(axis=1) + 0.3 * rng.standard_normal(n_rows) > 0.5
    costs = np.where(right, right_cost, -left_cost).astype(np.float32)
    csr = canonical_csr(sp.csr_array(X))
    plan = lt.FastXML(max_newton=1000, max_passes=100, solver_tolerance=1e-5)._plan(csr, csr)
    config = _core.TreeConfig(**plan.params, stream=0)
    rows = native_rows(X if dense else csr)
    weights, reached = _core.solve_l1_logistic(rows, costs, config)

    with_bias = np.hstack([X, np.ones((n_rows, 1), np.float32)]).astype(np.float64)  # penalised like any feature
    peer = LogisticRegression(
        C=1.0, l1_ratio=1, solver="liblinear", fit_intercept=False, tol=1e-8, max_iter=10_000, random_state=0
    )
    peer.fit(with_bias, right, sample_weight=np.abs(costs))
    best = objective(with_bias, costs, peer.coef_.ravel())
    assert reached == pytest.approx(objective(with_bias, costs, weights.astype(np.float64)), rel=1e-4)
    assert reached <= 1.001 * best


def test_every_tree_learns_obvious_topics() -> None:
    X, Y = topic_data(600)
    model = lt.FastXML(n_trees=10, n_jobs=1).fit(X[:500], Y[:500])
    top = model.predict_top_k(X[500:], top_k=1).label_ids.ravel()
    assert Y[500:].toarray()[np.arange(100), top].mean() > 0.95
    assert model.tree_precision_.min() > 0.2


def test_a_tree_is_the_same_with_and_without_the_columns_of_all_trees() -> None:
    X, Y = (canonical_csr(part) for part in topic_data(600))
    plan = lt.FastXML()._plan(X, Y)
    assert [name for name in plan.arrays if name.startswith("column_")]
    without = {name: part for name, part in plan.arrays.items() if not name.startswith("column_")}
    grown = [plan.task(arrays, plan.params, 3, _core.Control()) for arrays in (plan.arrays, without)]
    assert {name: part.tobytes() for name, part in grown[0].items()} == {
        name: part.tobytes() for name, part in grown[1].items()
    }


def test_a_forest_over_dense_rows_is_as_good_as_one_over_the_same_sparse_rows() -> None:
    X, Y = topic_data(600)
    sparse = lt.FastXML(n_trees=10, n_jobs=1).fit(X[:500], Y[:500]).predict_top_k(X[500:])
    dense = lt.FastXML(n_trees=10, n_jobs=1).fit(X[:500].toarray(), Y[:500]).predict_top_k(X[500:].toarray())
    good, same = (lt.metrics.precision_at_k(top, Y[500:], 1) for top in (sparse, dense))
    assert abs(good - same) < 5


def test_prediction_averages_the_leaves_that_a_row_reaches() -> None:
    X, Y = topic_data(200)
    model = lt.FastXML(n_trees=4, n_jobs=1, unit_rows=True).fit(X, Y)
    rows = X.toarray()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    expected = np.zeros((len(rows), model.n_labels_))
    for root in model.tree_roots_:
        for i, row in enumerate(rows):
            node = root
            while model.right_child_[node]:
                part = slice(model.split_indptr_[node], model.split_indptr_[node + 1])
                score = row[model.split_features_[part]] @ model.split_weights_[part] + model.biases_[node]
                node = model.right_child_[node] if score >= 0 else node + 1
            part = slice(model.leaf_indptr_[node], model.leaf_indptr_[node + 1])
            expected[i, model.leaf_labels_[part]] += model.leaf_values_[part] / len(model.tree_roots_)
    top = model.predict_top_k(X, model.n_labels_)
    scores = np.zeros_like(expected)
    rows_found, places = np.nonzero(top.label_ids >= 0)
    scores[rows_found, top.label_ids[rows_found, places]] = top.scores[rows_found, places]
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_leaves_hold_the_training_rows_label_shares() -> None:
    X, Y = topic_data(150)
    model = lt.FastXML(n_trees=1, n_jobs=1, max_leaf_size=1000).fit(X, Y)  # the root is a leaf
    shares = Y.toarray().mean(axis=0)
    np.testing.assert_allclose(model.leaf_values_, shares[model.leaf_labels_], rtol=1e-6)
    assert model.leaf_labels_.tolist() == np.flatnonzero(shares).tolist()
    cut = lt.FastXML(n_trees=1, n_jobs=1, max_leaf_size=1000, leaf_labels=3).fit(X, Y)
    assert set(cut.leaf_labels_) == set(np.argsort(-shares, kind="stable")[:3])


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 1000),
    right=st.floats(0.2, 5),
    left=st.floats(0.2, 5),
    ranking=st.floats(0.1, 20),
    loss=st.sampled_from([("ndcg", None), ("ndcg", 5), ("precision", 5)]),
)
def test_the_objective_never_rises_over_updates(
    seed: int, right: float, left: float, ranking: float, loss: tuple[str, int | None]
) -> None:
    X, Y = topic_data(120, seed=seed)
    model = lt.FastXML(
        n_trees=2,
        n_jobs=1,
        n_updates=5,
        separator_cost=right,
        left_separator_cost=left,
        ranking_cost=ranking,
        split_loss=loss[0],
        split_top_k=loss[1],
        random_state=seed,
    ).fit(X, Y)
    assert model.root_rounds_.shape == model.root_objectives_.shape
    assert model.root_rounds_.min() >= 1
    assert (np.diff(model.root_rounds_, axis=1) >= 0).all()
    falls = np.diff(model.root_objectives_, axis=1)
    assert falls.max() <= 1e-4 * np.abs(model.root_objectives_).max()


def test_dearer_errors_on_one_side_make_that_side_larger() -> None:
    X, Y = topic_data(400)
    X = X.multiply(np.random.default_rng(0).random(X.shape) < 0.6).tocsr()  # no separator is perfect
    plain = {"n_trees": 8, "n_jobs": 1, "max_leaf_size": 200, "separator_cost": 0.3, "balanced_costs": False}
    left_shares = {}
    for cost in (0.3, 0.6):
        model = lt.FastXML(**plain, left_separator_cost=cost).fit(sp.csr_array(X), Y)
        scores = []
        for root in model.tree_roots_:
            part = slice(model.split_indptr_[root], model.split_indptr_[root + 1])
            scores.append(X[:, model.split_features_[part]] @ model.split_weights_[part] + model.biases_[root])
        left_shares[cost] = np.mean(np.asarray(scores) < 0)
    assert left_shares[0.6] > left_shares[0.3] + 0.05


def test_fewer_trees_are_the_first_or_the_most_accurate_ones() -> None:
    X, Y = topic_data(400)
    model = lt.FastXML(n_trees=6, n_jobs=1).fit(X, Y)
    first = lt.FastXML(n_trees=2, n_jobs=1).fit(X, Y)
    np.testing.assert_array_equal(model.predict_top_k(X, n_trees=2).scores, first.predict_top_k(X).scores)
    model.tree_order = "accuracy"
    best = np.argsort(-model.tree_precision_, kind="stable")[:1].astype(np.int32)
    chosen = model.predict_top_k(X, n_trees=1)
    np.testing.assert_array_equal(chosen.scores, model._rank(model._whole(), X, 5, best).scores)
    with pytest.raises(ValueError, match=r"^FastXML: n_trees must be an int in \[1, 6\], got 7$"):
        model.predict_top_k(X, n_trees=7)


def test_training_precision_of_a_tree_is_that_of_its_own_predictions() -> None:
    X, Y = topic_data(300)
    model = lt.FastXML(n_trees=1, n_jobs=1, unit_rows=True).fit(X, Y)
    top = model.predict_top_k(X, 5).label_ids
    hits = (Y.toarray()[np.arange(300)[:, None], top] * (top >= 0)).sum() / (5 * 300)
    assert model.tree_precision_[0] == pytest.approx(hits, abs=0.01)


def test_trees_are_balanced_and_report_their_leaves() -> None:
    X, Y = topic_data(2000, n_labels=40)
    model = lt.FastXML(n_trees=3, n_jobs=1).fit(X, Y)
    assert 0.5 < model.balance_ < 1.15
    assert 1 <= model.labels_per_leaf_ < 40


def test_leaf_balance_is_the_depth_over_that_of_as_many_equal_leaves() -> None:
    X, Y = topic_data(2000, n_labels=40)
    model = lt.FastXML(n_trees=3, n_jobs=1).fit(X, Y)
    ratios = []
    for tree, root in enumerate(model.tree_roots_):
        nodes, n_leaves = [int(root)], 0
        while nodes:  # the left child follows its parent
            node = nodes.pop()
            right = int(model.right_child_[node])
            n_leaves += right == 0
            nodes += [node + 1, right] if right else []
        ratios.append(model.tree_depths_[tree] / np.log2(n_leaves))
    assert model.leaf_balance_ == pytest.approx(np.mean(ratios))
    assert 1.0 <= model.leaf_balance_ < 1.1


def test_leaf_balance_of_a_single_leaf_is_zero_depth() -> None:
    model = lt.FastXML(n_trees=1, max_leaf_size=50, n_jobs=1).fit(np.eye(3, dtype=np.float32), np.eye(3))
    assert model.leaf_balance_ == 0.0


def test_statistics_need_a_fitted_model() -> None:
    for name in ("balance_", "leaf_balance_", "labels_per_leaf_"):
        with pytest.raises(NotFittedError, match="FastXML"):
            getattr(lt.FastXML(), name)


def test_what_is_set_after_fit_is_checked_where_it_is_used() -> None:
    X, Y = topic_data(60)
    model = lt.FastXML(n_trees=2, n_jobs=1).fit(X, Y)
    model.max_leaf_size, model.tree_order = 0, "best"
    with pytest.raises(ValueError, match="FastXML: max_leaf_size must be an int"):
        _ = model.balance_
    with pytest.raises(ValueError, match="FastXML: tree_order must be"):
        model.predict_top_k(X, n_trees=1)


def test_some_trees_rank_within_the_same_limits_as_all() -> None:
    X, Y = topic_data(60, n_labels=8)
    model = lt.FastXML(n_trees=2, n_jobs=1).fit(X, Y)
    padded = model.predict_top_k(X, 12, n_trees=1)
    assert padded.label_ids.shape == (60, 12)
    assert (padded.label_ids[:, 8:] == -1).all()
    with pytest.raises(ValueError, match="FastXML: top_k must be"):
        model.predict_top_k(X, 2**31, n_trees=1)


def test_rows_of_the_same_labels_end_in_one_leaf() -> None:
    X = sp.csr_array(np.random.default_rng(0).random((50, 10)).astype(np.float32))
    Y = sp.csr_array(np.tile([[1, 0, 1]], (50, 1)))
    model = lt.FastXML(n_trees=2, n_jobs=1).fit(X, Y)
    assert model.right_child_.tolist() == [0, 0]  # no split has two sides
    assert model.predict_top_k(X, 3).label_ids[0].tolist() == [0, 2, -1]


@pytest.mark.parametrize("part", ["right_child_", "split_features_", "leaf_labels_", "tree_depths_", "split_indptr_"])
def test_a_damaged_forest_is_refused(part: str) -> None:
    X, Y = topic_data(100)
    model = lt.FastXML(n_trees=2, n_jobs=1).fit(X, Y)
    check_loaded(model)
    damaged = getattr(model, part).copy()
    if part == "tree_depths_":
        damaged = damaged[:1]
    else:
        damaged[-1 if part == "split_indptr_" else 0] = 10_000 if part != "right_child_" else 1
    with_values(model, **{part: damaged})
    with pytest.raises(ValueError):
        check_loaded(model)


def test_save_and_load_give_the_same_ranking(tmp_path: Path) -> None:
    X, Y = topic_data(200)
    model = lt.FastXML(n_trees=3, n_jobs=1).fit(X, Y)
    lt.save(model, tmp_path / "m")
    loaded = lt.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_top_k(X).scores, model.predict_top_k(X).scores)
    assert loaded.balance_ == model.balance_


def read(shared_data: Callable[[str], Path], name: str) -> tuple[Data, Data]:
    folder = shared_data(name)
    return tuple(lt.datasets.read_xmc(folder / f"{name}_{part}.txt.gz") for part in ("train", "test"))  # type: ignore[return-value]


def test_bibtex_precision_is_near_the_papers_with_few_trees(shared_data: Callable[[str], Path]) -> None:
    (X, Y), (X_test, Y_test) = read(shared_data, "bibtex")
    model = lt.FastXML(n_trees=12, n_jobs=2).fit(X, Y)
    top = model.predict_top_k(X_test, 5)
    found = [lt.metrics.precision_at_k(top, Y_test, k) for k in (1, 3, 5)]
    assert np.all(np.asarray(found) > [59, 35, 25]), found


def test_random_ties_depend_on_the_seed_only() -> None:
    X, Y = topic_data(300)
    models = [
        lt.FastXML(n_trees=4, rank_ties=ties, n_jobs=n_jobs).fit(X, Y)
        for ties, n_jobs in (("first", 1), ("random", 1), ("random", 3))
    ]
    first, one, three = (model._fitted_arrays() for model in models)
    for name, values in one.items():
        np.testing.assert_array_equal(values, three[name], err_msg=name)
    assert not np.array_equal(first["split_weights_"], one["split_weights_"])
    found = [float(lt.metrics.precision_at_k(model.predict_top_k(X, 1), Y, 1)) for model in models[:2]]
    assert min(found) > 80


@pytest.mark.parametrize("make", [lt.FastXML, lt.PfastreXML])
def test_numbering_features_anew_changes_no_answer(make: type[lt.FastXML], monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = make_rows(), make_labels()
    model = make(n_trees=3, n_jobs=1).fit(X, Y)
    expected = model.predict_top_k(X, 4)
    monkeypatch.setattr("longtail.fastxml.estimator._MANY_FEATURES", 0)
    found = model.predict_top_k(X, 4)
    np.testing.assert_array_equal(found.label_ids, expected.label_ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
