"""GBDTSparse: what it claims beyond the contract suite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import longtail as lt
from longtail import _core
from longtail._matrices import canonical_csr
from longtail.gbdt.column_blocks import BlockWorker, cut_columns, grow_together, make_booster
from longtail.gbdt.forest import add_tree
from tests.fitted_state import check_loaded, with_values


def clusters(n_rows: int = 600, n_labels: int = 12, seed: int = 0) -> tuple[np.ndarray, sp.csr_array]:
    """Rows in six clumps along two features; clump c has labels 2c and 2c + 1, a few labels are noise."""
    rng = np.random.default_rng(seed)
    clump = rng.integers(6, size=n_rows)
    X = np.column_stack([clump + rng.normal(scale=0.1, size=n_rows), rng.normal(size=(n_rows, 3))])
    Y = np.zeros((n_rows, n_labels), dtype=np.float32)
    Y[np.arange(n_rows), 2 * clump] = 1
    Y[np.arange(n_rows), 2 * clump + 1] = 1
    Y[rng.random(Y.shape) < 0.02] = 1
    return X.astype(np.float32), sp.csr_array(Y)


def precision_at_1(top: lt.TopK, Y: sp.csr_array) -> float:
    dense = Y.toarray()
    return float(np.mean([dense[row, label_id] for row, label_id in enumerate(top.label_ids[:, 0])]))


def small(**params: Any) -> lt.GBDTSparse:
    return lt.GBDTSparse(
        **{"n_trees": 20, "min_leaf_size": 20, "shrinkage": 0.3, "leaf_top_k": 4, "n_jobs": 1} | params
    )


def test_obvious_clusters_are_learnt_and_the_deciding_feature_is_named() -> None:
    X, Y = clusters()
    model = small().fit(X, Y)
    X_new, Y_new = clusters(seed=1)
    assert precision_at_1(model.predict_top_k(X_new), Y_new) > 0.97
    assert model.feature_importances_.argmax() == 0
    assert model.feature_importances_.sum() == pytest.approx(1, abs=1e-5)


def test_too_few_rows_for_any_split_are_said_to_be() -> None:
    X, Y = clusters(n_rows=30)
    with pytest.warns(UserWarning, match="no tree has a split, .* got 30 training rows and min_leaf_size=20; give"):
        model = small().fit(X, Y)
    assert len(np.unique(model.predict_top_k(X).label_ids, axis=0)) == 1


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from(["squared", "squared_hinge"]),
    shrinkage=st.floats(0.05, 1.0),
    leaf_top_k=st.sampled_from([1, 3, 7, None]),
    l2=st.floats(0, 10),
)
def test_training_loss_never_increases(
    seed: int, loss: str, shrinkage: float, leaf_top_k: int | None, l2: float
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 4)).round(1)
    Y = sp.csr_array((rng.random((50, 9)) < 0.2).astype(np.float32))
    model = lt.GBDTSparse(
        n_trees=12, min_leaf_size=3, loss=loss, shrinkage=shrinkage, leaf_top_k=leaf_top_k, l2=l2, n_jobs=1
    ).fit(X, Y)
    losses = np.concatenate([[Y.nnz / 50], model.training_losses_])
    assert (np.diff(losses) <= 1e-5 * losses[0]).all()


def test_gradients_stay_within_the_bound_of_the_paper() -> None:
    X, Y = clusters()
    n_own = np.diff(Y.indptr)
    params = {
        "loss": "squared",
        "leaf_top_k": 3,
        "split_labels": 0,
        "l2": 5.0,
        "max_depth": 10,
        "min_leaf_size": 10,
        "threshold_step": 0.05,
        "shrinkage": 0.1,
        "row_share": 1.0,
        "feature_share": 1.0,
        "seed": 0,
    }
    Y.indptr = Y.indptr.astype(np.int64)
    booster = _core.Booster(_core.Rows(X), Y.shape[1], Y.indptr, Y.indices.astype(np.int32), params)
    for n_trees in range(1, 8):
        booster.grow(n_trees - 1, 1, _core.Control())
        assert (booster.gradient_sizes() <= n_trees * 3 + n_own).all()


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", ["dense", "sparse", "exact", "vanilla"])
def test_blocks_of_columns_grow_the_same_trees_to_the_last_bit(kind: str, n_blocks: int) -> None:
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(500, 40)) * (rng.random((500, 40)) < 0.4), 2).astype(np.float32)
    X[:, 20:30] = X[:, :10]  # equal columns in different blocks: ties must go to the lower feature
    Y = canonical_csr(sp.random(500, 60, density=0.1, random_state=1, format="csr"))
    model = small(row_share=0.7, feature_share=0.8, leaf_top_k=None if kind == "vanilla" else 4, min_leaf_size=5)
    model.set_params(threshold_step=1.0 if kind == "exact" else 0.05)
    data = canonical_csr(sp.csr_array(X)) if kind == "sparse" else X
    whole = make_booster(data, Y.indptr, Y.indices, 60, model._native_params())
    control = _core.Control()
    workers = [
        BlockWorker(data[:, a:b], a, 40, Y.indptr, Y.indices, 60, model._native_params())
        for a, b in cut_columns(40, n_blocks)
    ]

    def call_all(method: str, *arguments: Any) -> list[Any]:
        return [getattr(worker, method)(*arguments) for worker in workers]

    for tree_id in range(5):
        tree = whole.grow(tree_id, 1, control)
        together = grow_together(call_all, tree_id)
        assert {name: array.tobytes() for name, array in tree.items()} == {
            name: array.tobytes() for name, array in together.items()
        }
        assert call_all("loss") == [whole.loss(1, control)] * n_blocks
    leaf_of_row = whole.find_leaves(tree["split_features"], tree["thresholds"], tree["left_children"], 1, control)
    add_tree(whole, tree, 1, control)
    call_all("add_leaves", together, leaf_of_row)
    assert call_all("loss") == [whole.loss(1, control)] * n_blocks
    if n_blocks > 1:
        with pytest.raises(ValueError, match="only a booster with all columns"):
            workers[0]._booster.find_leaves(
                tree["split_features"], tree["thresholds"], tree["left_children"], 1, control
            )


def test_leaves_list_at_most_leaf_top_k_labels_and_all_of_them_when_vanilla() -> None:
    X, Y = clusters()
    sparse, vanilla = small(leaf_top_k=2).fit(X, Y), small(leaf_top_k=None).fit(X, Y)
    assert np.diff(sparse.leaf_begin_).max() == 2
    assert np.diff(vanilla.leaf_begin_).max() > 4
    assert vanilla.training_losses_[-1] <= sparse.training_losses_[-1]


def test_looking_at_a_part_of_the_labels_finds_the_same_clusters() -> None:
    X, Y = clusters()
    some, all_labels = small(split_labels=6).fit(X, Y), small(split_labels=None).fit(X, Y)
    assert some.thresholds_.tobytes() != all_labels.thresholds_.tobytes()
    assert precision_at_1(some.predict_top_k(X), Y) > 0.97
    enough = small(split_labels=12).fit(X, Y)
    assert enough.thresholds_.tobytes() == all_labels.thresholds_.tobytes()


def test_exact_thresholds_fit_the_training_rows_at_least_as_well() -> None:
    X, Y = clusters(n_rows=200)
    one_split = {"n_trees": 1, "max_depth": 1, "min_leaf_size": 1}
    coarse = small(threshold_step=0.25, **one_split).fit(X, Y)
    exact = small(threshold_step=1, **one_split).fit(X, Y)
    assert exact.training_losses_[0] <= coarse.training_losses_[0]


def test_a_model_without_a_split_ranks_by_frequency() -> None:
    X, Y = clusters(n_rows=50)
    model = small(max_depth=0, leaf_top_k=None, n_trees=1).fit(X, Y)
    expected = lt.Popularity().fit(X, Y).predict_top_k(X[:1], top_k=3).label_ids
    np.testing.assert_array_equal(model.predict_top_k(X[:1], top_k=3).label_ids, expected)


def test_explanation_sums_to_the_score() -> None:
    X, Y = clusters()
    model = small().fit(X, Y)
    label_ids, scores = model.predict_top_k(X[:5], top_k=4)
    for row in range(5):
        for label_id, score in zip(label_ids[row], scores[row], strict=True):
            votes = model.explain_row(X[[row]], int(label_id))
            assert [vote.tree_id for vote in votes] == list(range(20))
            assert sum(vote.contribution for vote in votes) == pytest.approx(score, abs=1e-5)
            for split in votes[0].path:
                assert split.value == X[row, split.feature_id]
                assert split.goes_left == (split.value <= split.threshold)


def test_explanation_refuses_what_it_cannot_explain() -> None:
    X, Y = clusters(n_rows=60)
    model = small(n_trees=1).fit(X, Y)
    with pytest.raises(ValueError, match=r"GBDTSparse: label_id must be an int in \[0, 11\], got 12"):
        model.explain_row(X[:1], 12)
    with pytest.raises(ValueError, match="explain_row takes one row, got 2"):
        model.explain_row(X[:2], 0)


@pytest.mark.parametrize("share", ["row_share", "feature_share"])
def test_subsampling_changes_the_trees_and_still_learns(share: str) -> None:
    X, Y = clusters()
    whole, part = small().fit(X, Y), small(**{share: 0.5}).fit(X, Y)
    assert whole.thresholds_.tobytes() != part.thresholds_.tobytes()
    assert precision_at_1(part.predict_top_k(X), Y) > 0.9


def test_early_stopping_keeps_the_number_of_trees_with_the_least_validation_loss() -> None:
    X, Y = clusters(n_rows=150)
    held = clusters(n_rows=150, seed=5)
    model = small(n_trees=300, min_leaf_size=5, patience=5).fit(X, Y, validation=held)
    n_trees = len(model.tree_begin_) - 1
    assert n_trees == model.validation_losses_.argmin() + 1
    assert len(model.validation_losses_) == n_trees + 5 < 300
    inner = small(n_trees=300, min_leaf_size=5, patience=5).fit(X, Y)
    assert len(inner.tree_begin_) - 1 < 300
    assert small().fit(X, Y).validation_losses_.size == 0


def test_validation_is_checked() -> None:
    X, Y = clusters(n_rows=60)
    with pytest.raises(ValueError, match="patience is None; set patience"):
        small().fit(X, Y, validation=(X, Y))
    with pytest.raises(ValueError, match="validation must have 12 labels like y, got 5"):
        small(patience=2).fit(X, Y, validation=(X, Y[:, :5]))


def sparse_words(seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Rows with a few of 300 words, each word belongs to one of ten topics, a topic is a label."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(10, size=800)
    X = sp.lil_array((800, 300), dtype=np.float32)
    for row, own in enumerate(topic):
        X[row, rng.choice(30, size=6, replace=False) * 10 + own] = rng.random(6) + 0.5
        X[row, rng.choice(300, size=4, replace=False)] = 0.5
    Y = np.zeros((800, 10), dtype=np.float32)
    Y[np.arange(800), topic] = 1
    return sp.csr_array(X), sp.csr_array(Y)


def test_learnt_projections_beat_random_ones_on_sparse_words() -> None:
    (X, Y), (X_new, Y_new) = sparse_words(0), sparse_words(1)
    found = {}
    for projection in ("leml", "pca", "random"):
        model = small(projection=projection, n_components=10, n_trees=30).fit(X, Y)
        assert model.projection_.shape == (300, 10)
        assert model.feature_importances_.shape == (300,)
        found[projection] = precision_at_1(model.predict_top_k(X_new), Y_new)
    assert found["leml"] >= found["pca"] >= found["random"]
    assert found["leml"] > 0.9


def test_auto_projects_rows_with_few_entries_and_leaves_dense_ones_alone() -> None:
    X, Y = sparse_words(0)
    assert small(n_trees=2, n_components=7).fit(X, Y).projection_.shape == (300, 7)
    assert small(n_trees=2).fit(X.toarray() + 1, Y).projection_.size == 0
    assert small(n_trees=2, projection="none").fit(X, Y).projection_.size == 0


@pytest.mark.parametrize("projection", ["auto", "pca", "random"])
def test_the_same_rows_give_the_same_model_and_scores_in_any_container(projection: str) -> None:
    X, Y = sparse_words(0)
    params = {"projection": projection, "n_components": 6, "n_trees": 4, "patience": 2, "n_jobs": 2}
    sparse, dense = small(**params).fit(X, Y), small(**params).fit(X.toarray(), Y)
    for name, values in sparse._fitted_arrays().items():
        np.testing.assert_array_equal(values, dense._fitted_arrays()[name], err_msg=name)
    for left, right in zip(sparse.predict_top_k(X), dense.predict_top_k(X.toarray()), strict=True):
        np.testing.assert_array_equal(left, right)


def test_sparse_and_dense_rows_without_projection_give_the_same_trees() -> None:
    X, Y = sparse_words(0)
    params = {"projection": "none", "n_trees": 3, "n_jobs": 2}
    sparse, dense = small(**params).fit(X, Y), small(**params).fit(X.toarray(), Y)
    np.testing.assert_array_equal(sparse.split_features_, dense.split_features_)
    np.testing.assert_array_equal(sparse.thresholds_, dense.thresholds_)
    np.testing.assert_allclose(sparse.leaf_values_, dense.leaf_values_, atol=1e-6)


def test_pca_finds_the_axes_that_numpy_finds() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12)) @ np.diag(2.0 ** -np.arange(12)) + 3
    from longtail.gbdt.projection import pca_projection

    found = pca_projection(X.astype(np.float32), 4, 0, 1, _core.Control())
    _, _, expected = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(np.einsum("ij,ji->i", expected[:4], found)), 1, atol=1e-3)


def test_a_killed_run_resumes_from_its_finished_trees(tmp_path: Path) -> None:
    X, Y = clusters()
    expected = small().fit(X, Y)
    with pytest.raises(lt.Stopped, match="finished tasks are in"):
        small(n_trees=20).fit(X, Y, checkpoint=tmp_path / "run", progress=lambda done, total: done < 5)
    n_finished = len(list((tmp_path / "run").glob("shard-*")))
    assert n_finished >= 5
    resumed = small().fit(X, Y, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.leaf_values_, expected.leaf_values_)
    with pytest.raises(ValueError, match="belongs to a run with other parameters"):
        small(l2=1.0).fit(X, Y, checkpoint=tmp_path / "run")


CHANGES: dict[str, Callable[[lt.GBDTSparse], Any]] = {
    "children must follow": lambda m: m.left_children_.__setitem__(0, 0),
    "splits on feature 99": lambda m: m.split_features_.__setitem__(0, 99),
    "a leaf names label 12": lambda m: m.leaf_label_ids_.__setitem__(0, 12),
    "tree_begin_ must rise": lambda m: m.tree_begin_.__setitem__(1, 0),
    "leaf_begin_ must rise": lambda m: m.leaf_begin_.__setitem__(1, 10**6),
    "thresholds_ must have": lambda m: with_values(m, thresholds_=m.thresholds_[1:]),
    "leaf_values_ and leaf_label_ids_": lambda m: with_values(m, leaf_values_=m.leaf_values_[1:]),
    "projection_ has 3 rows": lambda m: with_values(m, projection_=np.ones((3, 4), np.float32)),
    "feature_gains_ has 3": lambda m: with_values(m, feature_gains_=m.feature_gains_[1:]),
}


@pytest.mark.parametrize("message", CHANGES)
def test_damaged_trees_are_refused(message: str) -> None:
    X, Y = clusters(n_rows=100)
    model = small(n_trees=2).fit(X, Y)
    check_loaded(model)
    CHANGES[message](model)
    with pytest.raises(ValueError, match=message):
        check_loaded(model)


def test_ctrl_c_stops_a_run_that_would_take_minutes(tmp_path: Path) -> None:
    script = """
import numpy as np, scipy.sparse as sp, longtail as lt
rng = np.random.default_rng(0)
X = rng.normal(size=(20000, 60)).astype(np.float32)
Y = sp.random_array((20000, 3000), density=0.01, format="csr", rng=rng)
Y.data[:] = 1
print("ready", flush=True)
try:
    lt.GBDTSparse(n_trees=10000, min_leaf_size=20, n_jobs=2).fit(X, Y)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert output == "stopped\n"
