"""Damaged models: small ones are refused when they are loaded, large ones at the latest when a node is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import longtail as lt
from longtail.label_tree import state
from tests.label_tree.test_label_tree import small, topic_data

# An array, the place of the value, the damaged value. All of these are values that a load need not read.
WEIGHTS = [
    ("feature_ids_", 0, -1),
    ("feature_ids_", 0, 10**6),
    ("feature_ids_", 1, 0),
    ("row_begins_", 0, 3),
    ("row_begins_", 1, -7),
    ("row_begins_", 1, 10**9),
    ("edges_", 0, 999),
    ("weights_", 0, np.nan),
    ("weights_", 3, np.inf),
]


def damaged(path: Path, name: str, at: int, value: float) -> Path:
    """Save a model and change one value of a file; who can do that can also write the checksums."""
    X, Y = topic_data()
    lt.save(small().fit(X, Y), path)
    array = np.load(path / f"{name}.npy")
    array[at] = value
    np.save(path / f"{name}.npy", array)
    return path


@pytest.mark.parametrize(("name", "at", "value"), WEIGHTS)
def test_a_small_model_is_refused_when_it_is_loaded(tmp_path: Path, name: str, at: int, value: float) -> None:
    with pytest.raises(ValueError, match="damaged"):
        lt.load(damaged(tmp_path / "model", name, at, value), verify=False)


@pytest.mark.parametrize(("name", "at", "value"), WEIGHTS)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_large_model_is_refused_when_its_weights_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, at: int, value: float, n_jobs: int
) -> None:
    monkeypatch.setattr(state, "_MAX_READ_AT_LOAD", -1)
    X, Y = topic_data()
    model = lt.load(damaged(tmp_path / "model", name, at, value), verify=False).with_threads(n_jobs)
    for _ in range(2):  # a node that was refused is checked again
        with pytest.raises(ValueError, match="damaged"):
            model.predict_top_k(X)
    with pytest.raises(ValueError, match="damaged"):
        model.add_labels(X, Y)  # type: ignore[attr-defined]


def test_an_explanation_checks_the_weights_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(state, "_MAX_READ_AT_LOAD", -1)
    texts, labels = ["web server", "web browser", "mail server", "text editor"] * 10, [["a"], ["b"], ["c"], ["d"]] * 10
    lt.save(lt.Tagger(lt.LabelTree(max_leaf_size=2, n_jobs=1)).fit(texts, labels), tmp_path / "model")
    (place,) = tmp_path.rglob("row_begins_.npy")
    array = np.load(place)
    array[1] = -3
    np.save(place, array)
    with pytest.raises(ValueError, match="damaged"):
        lt.load(tmp_path / "model", verify=False).explain("a web server", "a")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("child_ids_", 0, 0),
        ("child_ids_", -1, -10_000),
        ("tree_roots_", 0, 1),
        ("child_indptr_", 1, 0),
        ("feature_indptr_", 1, 10**9),
        ("feature_ids_", -1, 10**6),
        ("entry_begins_", -1, 10**12),
        ("biases_", 0, np.nan),
    ],
)
def test_trees_are_checked_at_load_whatever_the_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, at: int, value: float
) -> None:
    monkeypatch.setattr(state, "_MAX_READ_AT_LOAD", -1)
    with pytest.raises(ValueError, match="damaged"):
        lt.load(damaged(tmp_path / "model", name, at, value), verify=False)


def test_a_whole_large_model_predicts_as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(state, "_MAX_READ_AT_LOAD", -1)
    X, Y = topic_data()
    model = small(weight_type="int8").fit(X, Y)
    lt.save(model, tmp_path / "model")
    loaded, expected = lt.load(tmp_path / "model").predict_top_k(X), model.predict_top_k(X)
    np.testing.assert_array_equal(loaded.label_ids, expected.label_ids)
    np.testing.assert_array_equal(loaded.scores, expected.scores)
