"""Labels with the same rows are trained once, which changes nothing but the time."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail._matrices import label_columns
from longtail.dismec import equal_labels, training
from longtail.dismec.equal_labels import EqualLabels


@pytest.fixture(scope="module")
def rows_and_labels() -> tuple[sp.csr_array, sp.csr_array]:
    """Twenty labels: four of them have the rows of another label, and two have none."""
    data = lt.datasets.make_synthetic(n_rows=300, n_features=80, n_labels=20, labels_per_row=2, random_state=1)
    Y = data.Y.tocsc()
    chosen = np.arange(20)
    chosen[[3, 7, 8, 15]] = [2, 2, 0, 19]
    Y = Y[:, chosen].tolil()
    Y[:, [5, 12]] = 0
    Y = sp.csr_array(Y.tocsr())
    Y.eliminate_zeros()
    return data.X, Y


def same_model(a: lt.DiSMEC, b: lt.DiSMEC) -> bool:
    return all(
        np.array_equal(getattr(a._whole().state.index, field.name), getattr(b._whole().state.index, field.name))
        for field in dataclasses.fields(a._whole().state.index)
    )


def count_trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many labels each plan trains."""
    counts: list[int] = []
    make_plan = training.make_plan

    def counted(arrays: Any, params: Any, n_labels: int, control: Any) -> Any:
        counts.append(n_labels)
        return make_plan(arrays, params, n_labels, control)

    monkeypatch.setattr(training, "make_plan", counted)
    return counts


@pytest.mark.parametrize("weight_type", ["float32", "int8"])
@pytest.mark.parametrize("start", ["msi", "ovap++"])
def test_equal_labels_are_trained_once_and_get_the_same_weights(
    rows_and_labels: tuple[sp.csr_array, sp.csr_array], monkeypatch: pytest.MonkeyPatch, weight_type: str, start: str
) -> None:
    X, Y = rows_and_labels
    counts = count_trained(monkeypatch)
    settings = {"weight_type": weight_type, "start": start, "prune_below": 0.0}
    shared = lt.DiSMEC(**settings).fit(X, Y)
    assert counts == [15]  # 3 and 7 equal 2, 8 equals 0, 15 equals 19, 12 equals 5: five copies
    index = shared._whole().state.index
    weights = lt.dismec.index.label_major(index, 20).toarray()
    for copy, source in ((3, 2), (7, 2), (8, 0), (15, 19), (12, 5)):
        np.testing.assert_array_equal(weights[copy], weights[source])
        assert index.biases[copy] == index.biases[source]
    assert np.abs(weights[3]).sum() > 0
    starts = np.flatnonzero(np.diff(index.indptr))
    assert all(np.all(np.diff(index.label_ids[index.indptr[f] : index.indptr[f + 1]]) > 0) for f in starts)
    if start == "msi":  # statistics are of each label's own training
        each = lt.DiSMEC(**settings, keep_statistics=True).fit(X, Y)
        assert counts == [15, 20]
        assert same_model(shared, each)


def test_equal_labels_survive_checkpoints_and_threads(
    rows_and_labels: tuple[sp.csr_array, sp.csr_array], tmp_path: Path
) -> None:
    X, Y = rows_and_labels
    plain = lt.DiSMEC().fit(X, Y)
    kept = lt.DiSMEC(n_jobs=2).fit(X, Y, checkpoint=tmp_path / "parts")
    assert same_model(plain, kept)


def test_labels_whose_sums_collide_are_told_apart(
    rows_and_labels: tuple[sp.csr_array, sp.csr_array], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = rows_and_labels
    right = lt.DiSMEC(keep_statistics=True).fit(X, Y)
    monkeypatch.setattr(equal_labels, "row_sums", lambda columns: np.zeros(len(columns[0]) - 1, dtype=np.uint64))
    assert same_model(lt.DiSMEC().fit(X, Y), right)


def test_every_copy_of_an_unconverged_label_is_counted(rows_and_labels: tuple[sp.csr_array, sp.csr_array]) -> None:
    X, Y = rows_and_labels
    settings = {"max_iterations": 1, "tolerance": 1e-5}
    shared = lt.DiSMEC(**settings).fit(X, Y)
    each = lt.DiSMEC(**settings, keep_statistics=True).fit(X, Y)
    assert shared.n_unconverged_ == each.n_unconverged_ > 0


def test_few_equal_labels_are_not_shared() -> None:
    Y = sp.csr_array(np.eye(50, dtype=np.float32)[:, [*range(49), 48]])
    assert EqualLabels.worth_sharing(label_columns(Y)) is None
    Y = sp.csr_array(np.eye(50, dtype=np.float32)[:, [*range(40), *range(10)]])
    equal = EqualLabels.worth_sharing(label_columns(Y))
    assert equal is not None
    np.testing.assert_array_equal(equal.first_ids, np.arange(40))
    label_ids, places = equal.of(np.array([3, 30]))
    assert label_ids.tolist() == [3, 43, 30]
    assert places.tolist() == [0, 0, 1]


def test_an_estimate_counts_equal_labels_in_size_but_not_in_time(
    rows_and_labels: tuple[sp.csr_array, sp.csr_array],
) -> None:
    X, Y = rows_and_labels
    many = sp.csr_array(sp.hstack([Y] * 10).tocsr())
    one, ten = lt.DiSMEC().estimate(X, Y), lt.DiSMEC().estimate(X, many)
    assert ten.model_bytes > 5 * one.model_bytes
    model = lt.DiSMEC().fit(X, many)
    assert ten.model_bytes == pytest.approx(
        sum(part.nbytes for part in vars(model._whole().state.index).values() if isinstance(part, np.ndarray)), rel=0.3
    )


@pytest.mark.parametrize("weight_type", ["float32", "int8"])
def test_labels_are_sorted_block_by_block(
    rows_and_labels: tuple[sp.csr_array, sp.csr_array], monkeypatch: pytest.MonkeyPatch, weight_type: str
) -> None:
    X, Y = rows_and_labels
    settings = {"weight_type": weight_type, "prune_below": 0.0}
    each = lt.DiSMEC(**settings, keep_statistics=True).fit(X, Y)
    monkeypatch.setattr(lt.dismec.index, "weights_per_block", lambda n_features: 7)
    assert same_model(lt.DiSMEC(**settings).fit(X, Y), each)
