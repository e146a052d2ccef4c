"""PD-Sparse: the dual bounds the primal from below, and both meet."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from longtail.baselines.pd_sparse import learn_pd_sparse
from longtail.baselines.shared_arrays import arrays_of
from tests.fitted_state import check_loaded, with_values


def problem(seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 12)).astype(np.float32)
    X[rng.random(X.shape) < 0.4] = 0
    scores = X @ rng.normal(size=(12, 9))
    Y = (scores > np.quantile(scores, 0.75, axis=1)[:, None]).astype(np.float32)
    Y[:3] = 0  # rows without labels
    Y[:, 4] = 0  # a label without rows
    return sp.csr_array(X), sp.csr_array(Y)


def solve(X: sp.csr_array, Y: sp.csr_array, **params: float) -> tuple[np.ndarray, np.ndarray]:
    """Return W with the biases as its last row, and the dual objectives."""
    model = lt.PDSparse(tolerance=0.0, **({"held_out": 0.0, "post_train": False} | params))  # type: ignore[arg-type]
    rows, labels = model._training_rows(X)[0], lt._matrices.checked_labels("test", Y, X.shape[0]).Y
    shard = learn_pd_sparse(arrays_of(rows, labels), model.get_params(), 0, _core.Control())
    shape = (X.shape[1], Y.shape[1])
    W = sp.csr_array((shard["weights"], shard["label_ids"], shard["indptr"]), shape=shape).toarray()
    return np.vstack([W, shard["biases"]]).astype(float), shard["objectives"]


def primal(W: np.ndarray, X: sp.csr_array, Y: sp.csr_array, l1: float, cost: float) -> float:
    scores = np.hstack([X.toarray(), np.ones((X.shape[0], 1))]) @ W
    losses = []
    for row, labels in zip(scores, Y.toarray() > 0, strict=True):
        others = ~labels & (Y.sum(axis=0) > 0)
        losses.append(max(0.0, 1 + row[others].max() - row[labels].min()) if labels.any() else 0.0)
    return float(0.5 * np.square(W).sum() + l1 * np.abs(W).sum() + cost * sum(losses))


@pytest.mark.parametrize("n_violators", [1, 4, 100])
@pytest.mark.parametrize(("l1", "cost"), [(0.0, 1.0), (0.1, 1.0), (0.5, 0.3), (0.02, 5.0)])
def test_the_dual_rises_to_the_primal(l1: float, cost: float, n_violators: int) -> None:
    X, Y = problem()
    W, duals = solve(X, Y, l1=l1, cost=cost, n_epochs=400, n_violators=n_violators)
    value = primal(W, X, Y, l1, cost)
    assert (np.diff(duals) >= -1e-4 * abs(duals[-1])).all()
    assert duals[-1] <= value * (1 + 1e-5)
    assert duals[-1] == pytest.approx(value, rel=0.03)


def test_the_second_training_keeps_the_support_and_reaches_the_minimum_without_the_penalty() -> None:
    X, Y = problem()
    first, _ = solve(X, Y, l1=2.0, n_epochs=400)
    second, _ = solve(X, Y, l1=2.0, n_epochs=400, post_train=True)
    assert 0 < (first != 0).sum() < 0.6 * first.size
    assert not second[first == 0].any()
    assert primal(second, X, Y, 0.0, 1.0) < primal(first, X, Y, 0.0, 1.0)
    # A minimum: no change of one weight of the support is better.
    least = primal(second, X, Y, 0.0, 1.0)
    for place in zip(*np.nonzero(first), strict=True):
        for step in (-0.05, 0.05):
            changed = second.copy()
            changed[place] += step
            assert primal(changed, X, Y, 0.0, 1.0) > least * 0.999


def test_with_held_out_rows_the_better_of_both_trainings_counts() -> None:
    X, Y = problem()
    one, two = (lt.PDSparse(l1=0.3, held_out=0.4, post_train=post, n_jobs=1).fit(X, Y) for post in (False, True))
    # Both hold out the same rows, the last of the first permutation, and train on the same others in the same order.
    assert one.objectives_.tolist() == two.objectives_.tolist()
    kept = sp.csr_array((one.index_weights_, one.index_label_ids_, one.index_indptr_), shape=(12, 9)).toarray() != 0
    found = sp.csr_array((two.index_weights_, two.index_label_ids_, two.index_indptr_), shape=(12, 9)).toarray() != 0
    assert not (found & ~kept).any()


def test_held_out_rows_keep_a_good_ranking_of_labels_that_cannot_be_separated() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 20)).astype(np.float32)
    Y = X @ rng.normal(size=(20, 60)) + 4 * rng.normal(size=(1500, 60)) > 4  # 13 labels per row, much noise
    full, early = (
        lt.PDSparse(unit_rows=True, held_out=held_out).fit(X[:1000], Y[:1000].astype(np.float32))
        for held_out in (0.0, 0.1)
    )
    found = [lt.metrics.evaluate(m.predict_top_k(X[1000:]), Y[1000:].astype(np.float32))["P@5"] for m in (full, early)]
    assert found[1] > found[0] + 5
    assert len(early.objectives_) < len(full.objectives_)


def test_a_greater_penalty_gives_fewer_weights() -> None:
    X, Y = problem()
    sizes = [np.count_nonzero(solve(X, Y, l1=l1)[0]) for l1 in (0.0, 0.1, 1.0)]
    assert sizes[0] > sizes[1] > sizes[2] > 0


def test_labels_are_learnt_and_as_many_are_predicted_as_there_are() -> None:
    data = lt.datasets.make_synthetic(n_rows=300, n_features=60, n_labels=20, labels_per_row=2)
    model = lt.PDSparse(l1=0.01).fit(data.X, data.Y)
    assert lt.metrics.evaluate(model.predict_top_k(data.X), data.Y)["P@1"] > 90
    assert abs(model.predict(data.X).nnz / data.Y.nnz - 1) < 0.05


def test_training_ends_when_no_margin_is_violated() -> None:
    X = np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)
    model = lt.PDSparse(l1=0.0, cost=10.0, n_epochs=500, tolerance=0.05).fit(X, X)
    assert len(model.objectives_) < 500


def test_contributions_add_up_to_the_score() -> None:
    X, Y = problem()
    model = lt.PDSparse().fit(X, Y)
    label_ids, scores = model.predict_top_k(X[:3], top_k=1)
    for row in range(3):
        found = model._contributions(model._whole(), X[[row]], int(label_ids[row, 0]))
        assert found.bias + found.values.sum() == pytest.approx(scores[row, 0], abs=1e-5)


def test_damaged_weights_are_refused() -> None:
    X, Y = problem()
    model = lt.PDSparse().fit(X, Y)
    check_loaded(model)
    with_values(model, index_label_ids_=model.index_label_ids_ + np.int32(9))
    with pytest.raises(ValueError):
        check_loaded(model)
