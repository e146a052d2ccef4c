"""SLEEC: the graph of label vectors, its embedding, and the votes of the nearest rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors

import longtail as lt
from longtail import _core
from longtail.baselines.label_graph import embed_graph, neighbour_graph
from longtail.baselines.sleec import vote_weights
from longtail.baselines.sparse_top_k import top_k_of_sparse
from tests.fitted_state import check_loaded, with_values


def problem() -> lt.datasets.Data:
    return lt.datasets.make_synthetic(n_rows=300, n_features=60, n_labels=20, labels_per_row=3)


def test_the_graph_holds_the_cosines_of_nearest_label_vectors() -> None:
    Y = problem().Y
    graph = neighbour_graph(Y, 12)
    expected = cosine_similarity(Y)
    dense = graph.toarray()
    np.testing.assert_allclose(dense, dense.T)
    np.testing.assert_allclose(dense[dense > 0], expected[dense > 0], rtol=1e-5)
    least = np.sort(expected, axis=1)[:, -12]
    must = (expected > least[:, None] + 1e-6) & (expected > 0)
    assert (dense[must] > 0).all(), "whatever is nearer than the twelfth is in the graph"


def test_the_embedding_has_the_inner_products_of_the_graph() -> None:
    """Of a matrix of rank 3, half of the entries are known: the embedding finds the others."""
    rng = np.random.default_rng(0)
    true = rng.normal(size=(60, 3)).astype(np.float32)
    known = np.triu(rng.random((60, 60)) < 0.5)
    graph = sp.csr_array(np.where(known | known.T, true @ true.T, 0))
    Z = embed_graph(graph, 3, 200, 0, _core.Control())
    np.testing.assert_allclose(Z @ Z.T, true @ true.T, atol=0.1)


def test_more_components_than_rows_are_zeros() -> None:
    graph = sp.csr_array(np.eye(3, dtype=np.float32))
    Z = embed_graph(graph, 5, 20, 0, _core.Control())
    assert Z.shape == (3, 5)
    np.testing.assert_allclose(Z @ Z.T, np.eye(3), atol=1e-3)


def test_scores_are_the_shares_of_the_nearest_rows_that_carry_a_label() -> None:
    data = problem()
    model = lt.SLEEC(n_components=8, n_neighbours=7, vote_power=0.0, n_jobs=1).fit(data.X, data.Y)
    assert model.tree_roots_.tolist() == [0], "all rows fit into one cluster: one learner"
    embedded = data.X @ model.regressors_ + model.intercepts_
    nearest = NearestNeighbors(n_neighbors=7, metric="cosine").fit(embedded).kneighbors(embedded)[1]
    expected = np.stack([data.Y[rows].toarray().mean(axis=0) for rows in nearest])
    label_ids, scores = model.predict_top_k(data.X, top_k=3)
    close = np.isclose(np.take_along_axis(expected, label_ids, axis=1), scores, atol=1e-5)
    assert close.mean() > 0.99, "but for rows that are equally near"


def test_votes_count_by_the_cosine_relative_to_the_nearest_row() -> None:
    data = problem()
    model = lt.SLEEC(n_components=8, n_neighbours=7, vote_power=3.0, n_jobs=1).fit(data.X, data.Y)
    embedded = data.X @ model.regressors_ + model.intercepts_
    distances, nearest = NearestNeighbors(n_neighbors=7, metric="cosine").fit(embedded).kneighbors(embedded)
    weights = ((1 - distances) / (1 - distances[:, :1])) ** 3
    expected = np.stack([w @ data.Y[rows].toarray() / w.sum() for w, rows in zip(weights, nearest, strict=True)])
    label_ids, scores = model.predict_top_k(data.X, top_k=3)
    close = np.isclose(np.take_along_axis(expected, label_ids, axis=1), scores, atol=1e-4)
    assert close.mean() > 0.99, "but for rows that are equally near"


def test_all_votes_count_alike_where_no_row_is_near() -> None:
    products = np.array([[-1, -2], [0, 0], [4, 2]], dtype=np.float32)
    np.testing.assert_array_equal(vote_weights(products, 2.0), [[1, 1], [1, 1], [1, 0.25]])


def test_learners_cluster_in_different_ways_and_are_added_up() -> None:
    data = problem()
    model = lt.SLEEC(n_learners=3, cluster_size=120, n_components=8, n_neighbours=5, vote_power=0.0).fit(data.X, data.Y)
    assert len(model.tree_roots_) == 3
    members = [model.leaf_label_ids_[begin : begin + 300] for begin in (0, 300, 600)]
    assert all(sorted(rows) == list(range(300)) for rows in members)
    assert not np.array_equal(members[0], members[1])
    scores = model.predict_top_k(data.X).scores
    np.testing.assert_allclose(scores * 15, np.round(scores * 15), atol=1e-4)
    assert lt.metrics.evaluate(model.predict_top_k(data.X), data.Y)["P@1"] > 70


def test_sparse_scores_are_ranked_with_ties_by_lower_label() -> None:
    scores = sp.csr_array(np.array([[0, 2, 1, 2], [0, 0, 0, 0], [3, 0, 0, 0]], dtype=np.float32))
    label_ids, found = top_k_of_sparse(scores, 2)
    assert label_ids.tolist() == [[1, 3], [-1, -1], [0, -1]]
    assert found.tolist() == [[2, 2], [0, 0], [3, 0]]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("tree_roots_", lambda array: array + np.int32(99), "names node 99"),
        ("regressors_", lambda array: array[1:], "regressors_ must have shape"),
        ("embeddings_", lambda array: array[1:], "embeddings_ must have shape"),
        ("row_label_ids_", lambda array: array + np.int32(20), "row names id"),
        ("leaf_label_ids_", lambda array: array + np.int32(300), "leaf names id"),
    ],
)
def test_damaged_models_are_refused(name: str, change: object, message: str) -> None:
    data = problem()
    model = lt.SLEEC(n_components=4).fit(data.X, data.Y)
    check_loaded(model)
    with_values(model, **{name: change(getattr(model, name))})  # type: ignore[operator]
    with pytest.raises(ValueError, match=message):
        check_loaded(model)
