"""Data at the edge of what makes sense: the model must be usable, whatever it can learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from tests.fitted_state import check_loaded
from tests.label_tree.test_label_tree import FAMILY, small, topic_data


def check_usable(model: lt.LabelTree, X: object, n_labels: int, path: Path) -> lt.TopK:
    """Predict, save, load; scores are probabilities."""
    check_loaded(model)
    top = model.predict_top_k(X, top_k=min(5, n_labels))
    assert np.isfinite(top.scores).all()
    assert (top.scores >= 0).all()
    assert (top.scores <= 1).all()
    lt.save(model, path)
    np.testing.assert_array_equal(lt.load(path).predict_top_k(X, top_k=min(5, n_labels)).label_ids, top.label_ids)
    return top


@pytest.mark.parametrize("name", FAMILY)
def test_one_label(name: str, tmp_path: Path) -> None:
    X, Y = topic_data(60)
    model = FAMILY[name]().fit(X, Y[:, [0]])
    top = check_usable(model, X, 1, tmp_path / "model")
    assert (top.label_ids == 0).all()


@pytest.mark.parametrize("name", FAMILY)
def test_one_used_label_among_many(name: str, tmp_path: Path) -> None:
    X, _ = topic_data(60)
    Y = sp.csr_array((np.ones(10), (np.arange(10), np.full(10, 7))), shape=(60, 24))
    top = check_usable(FAMILY[name]().fit(X, Y), X, 24, tmp_path / "model")
    assert set(np.unique(top.label_ids)) == {-1, 7}


@pytest.mark.parametrize("name", FAMILY)
def test_all_rows_the_same(name: str, tmp_path: Path) -> None:
    X = sp.csr_array(np.tile(np.array([[1.0, 0.0, 2.0]], np.float32), (40, 1)))
    Y = sp.csr_array(np.eye(8, dtype=np.float32)[np.arange(40) % 8])
    top = check_usable(FAMILY[name]().fit(X, Y), X, 8, tmp_path / "model")
    assert (top.label_ids == top.label_ids[0]).all()
    assert (top.label_ids[0] >= 0).all()


@pytest.mark.parametrize("name", FAMILY)
def test_rows_without_features(name: str, tmp_path: Path) -> None:
    X, Y = topic_data(120)
    X = X.tolil()
    X[::3] = 0
    X = X.tocsr()
    top = check_usable(FAMILY[name]().fit(X, Y), X, 24, tmp_path / "model")
    assert (top.label_ids[:, 0] >= 0).all()
    everywhere = lt.LabelTree(max_leaf_size=4, n_jobs=1).fit(sp.csr_array((120, 5), dtype=np.float32), Y)
    check_usable(everywhere, sp.csr_array((3, 5), dtype=np.float32), 24, tmp_path / "empty")


def test_a_label_whose_rows_are_all_empty_is_in_the_tree(tmp_path: Path) -> None:
    X, Y = topic_data(120)
    X, Y = X.tolil(), Y.tolil()
    X[:10] = 0
    Y[:, 3] = 0
    Y[:10, 3] = 1
    model = small().fit(X.tocsr(), Y.tocsr())
    check_usable(model, X.tocsr(), 24, tmp_path / "model")
    assert 3 in ~model.child_ids_[model.child_ids_ < 0]


def test_rows_without_labels_are_negatives_of_all() -> None:
    X, Y = topic_data(120)
    Y = Y.tolil()
    Y[::2] = 0
    model = small().fit(X, Y.tocsr())
    assert model.n_rows_ == 120
    assert (model.predict_top_k(X).label_ids[:, 0] >= 0).all()


def test_one_row(tmp_path: Path) -> None:
    X, Y = topic_data(1)
    top = check_usable(small(n_trees=2, leaves="exact").fit(X, Y), X, 24, tmp_path / "model")
    assert set(top.label_ids[0][top.label_ids[0] >= 0]) == set(Y.indices)


def test_no_row_to_predict() -> None:
    X, Y = topic_data(60)
    top = small().fit(X, Y).predict_top_k(X[:0])
    assert top.label_ids.shape == (0, 5)


def test_one_feature() -> None:
    X = np.linspace(-1, 1, 50, dtype=np.float32)[:, None]
    model = small(unit_rows=False).fit(X, (X[:, 0] > 0).astype(int))
    assert (model.predict(X) == (X[:, 0] > 0)).mean() > 0.9


def test_added_labels_without_rows_get_no_edge() -> None:
    X, Y = topic_data(60)
    model = small().fit(X, Y)
    before = model.child_ids_
    model.add_labels(X, sp.csr_array((60, 2), dtype=np.float32))
    assert model.n_labels_ == 26
    np.testing.assert_array_equal(model.child_ids_, before)
    assert model.predict_top_k(X, top_k=26).label_ids.max() < 24
