"""DiSMEC as a model: bytes that do not depend on threads, growing, shrinking, warm starts, prediction."""

from __future__ import annotations

import mmap
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from longtail.decisions import parse_utility
from longtail.dismec import index as dismec_index
from longtail.dismec import training
from longtail.dismec.index import merge_shards
from longtail.dismec.rounding import Steps
from longtail.dismec.similar_labels import label_tree
from tests.dismec_twin import random_problem
from tests.fitted_state import check_loaded, with_values


@pytest.fixture(scope="module")
def data():
    return random_problem(21, n_rows=400, n_features=80, n_labels=30)


def assert_same_label(model, label, other, other_label):
    for part, expected in zip(model.label_weights(label), other.label_weights(other_label), strict=True):
        np.testing.assert_array_equal(part, expected)


def dense_scores(model, X):
    W = np.zeros((model.n_features_in_, model.n_labels_))
    biases = np.zeros(model.n_labels_)
    for label in range(model.n_labels_):
        features, weights, biases[label] = model.label_weights(label)
        W[features, label] = weights
    return np.asarray(X @ W) + biases


@pytest.mark.parametrize("start", ["msi", "ovap++"])
def test_any_number_of_threads_gives_the_same_bytes(data, start, monkeypatch):
    monkeypatch.setattr(training, "LABELS_PER_TASK", 7)
    one, four = (lt.DiSMEC(n_jobs=n, start=start).fit(*data) for n in (1, 4))
    for name in lt.DiSMEC._State.declared().arrays:
        np.testing.assert_array_equal(getattr(one, name), getattr(four, name))


@pytest.mark.parametrize("n_labels", [1, 383, 384, 583, 3993, 10_000])
def test_tasks_cover_all_labels_and_the_last_ones_are_small(n_labels):
    sizes = np.diff(training.task_bounds(n_labels))
    assert sizes.sum() == n_labels
    assert sizes.max() <= training.LABELS_PER_TASK
    assert sizes[-1] <= max(383, n_labels // 4)  # one and a half times the least
    assert len(sizes) == 1 or sizes.min() >= 128


def test_a_checkpointed_run_resumes_and_maps_its_weights(data, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "LABELS_PER_TASK", 10)

    def stop_early(done, total):
        return done < 10

    with pytest.raises(lt.Stopped):
        lt.DiSMEC(n_jobs=1).fit(*data, checkpoint=tmp_path / "run", progress=stop_early)
    resumed = lt.DiSMEC(n_jobs=1).fit(*data, checkpoint=tmp_path / "run")
    assert isinstance(resumed.index_weights_.base.obj, mmap.mmap), "a model may be larger than memory"
    whole = lt.DiSMEC(n_jobs=1).fit(*data)
    for name in lt.DiSMEC._State.declared().arrays:
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    np.testing.assert_array_equal(resumed.predict_top_k(data[0]).label_ids, whole.predict_top_k(data[0]).label_ids)


def test_added_labels_leave_the_others_byte_identical(data):
    X, Y = data
    model = lt.DiSMEC(n_jobs=1).fit(X, sp.csr_array(Y[:, :20]))
    before = lt.DiSMEC(n_jobs=1).fit(X, sp.csr_array(Y[:, :20]))
    model.add_labels(X, sp.csr_array(Y[:, 20:]))
    assert model.n_labels_ == 30
    for label in range(20):
        assert_same_label(model, label, before, label)
    whole = lt.DiSMEC(n_jobs=1).fit(X, Y)
    for label in range(20, 30):
        assert_same_label(model, label, whole, label)
    for name in lt.DiSMEC._State.declared().arrays:
        np.testing.assert_array_equal(getattr(model, name), getattr(whole, name))


def test_removed_labels_are_never_predicted_and_the_others_stay(data):
    X, Y = data
    model, before = lt.DiSMEC(n_jobs=1).fit(X, Y), lt.DiSMEC(n_jobs=1).fit(X, Y)
    model.remove_labels([0, 7])
    top = model.predict_top_k(X, top_k=30)
    assert not np.isin([0, 7], top.label_ids).any()
    for label in set(range(30)) - {0, 7}:
        assert_same_label(model, label, before, label)
    check_loaded(model)
    with pytest.raises(ValueError, match=r"label_ids must be ints in \[0, 30\)"):
        model.remove_labels([30])


def test_a_second_fit_on_the_same_data_trains_nothing(data, monkeypatch):
    X, Y = data
    first = lt.DiSMEC(n_jobs=1).fit(X, Y)
    calls = []
    monkeypatch.setattr(training, "make_plan", lambda *args: calls.append(args))
    second = lt.DiSMEC(n_jobs=1).fit(X, Y, warm_start_from=first)
    assert not calls
    for name in lt.DiSMEC._State.declared().arrays:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_a_warm_start_trains_only_the_labels_that_changed(data):
    X, Y = data
    first = lt.DiSMEC(n_jobs=1).fit(X, Y)
    changed = Y.tolil()
    changed[3, 5] = 1 - changed[3, 5]
    more = sp.hstack([sp.csr_array(changed), Y[:, :2]]).tocsr()  # label 5 differs, labels 30 and 31 are new
    model = lt.DiSMEC(n_jobs=1, keep_statistics=True).fit(X, more, warm_start_from=first)
    assert set(np.flatnonzero(model.statistics_["iterations"])) == {5, 30, 31}
    cold = lt.DiSMEC(n_jobs=1).fit(X, more)
    for label in set(range(32)) - {5}:
        assert_same_label(model, label, cold, label)
    np.testing.assert_allclose(dense_scores(model, X)[:, 5], dense_scores(cold, X)[:, 5], atol=0.05)
    assert model.label_weights(5)[2] == pytest.approx(cold.label_weights(5)[2], abs=0.05)


def test_a_warm_start_on_more_rows_saves_work(data):
    X, Y = random_problem(22, n_rows=1200, n_features=80, n_labels=30)
    first = lt.DiSMEC(n_jobs=1).fit(X[:1150], Y[:1150])
    warm = lt.DiSMEC(n_jobs=1, keep_statistics=True).fit(X, Y, warm_start_from=first)
    cold = lt.DiSMEC(n_jobs=1, keep_statistics=True).fit(X, Y)
    assert warm.n_unconverged_ == 0
    assert warm.statistics_["cg_steps"].sum() < cold.statistics_["cg_steps"].sum()
    assert warm.statistics_["last_objective"].sum() == pytest.approx(cold.statistics_["last_objective"].sum(), rel=2e-3)


def test_a_warm_start_needs_the_same_features(data):
    X, Y = data
    first = lt.DiSMEC(n_jobs=1).fit(X, Y)
    with pytest.raises(ValueError, match="was fitted with 80 features, but X has 40"):
        lt.DiSMEC(n_jobs=1).fit(X[:, :40], Y, warm_start_from=first)


@pytest.mark.parametrize("weight_type", ["float32", "int8"])
@pytest.mark.parametrize("dense", [False, True])
def test_the_top_labels_are_those_of_all_scores(data, weight_type, dense):
    X, Y = data
    model = lt.DiSMEC(weight_type=weight_type, n_jobs=1).fit(X, Y)
    rows = X.toarray() if dense else X
    top = model.predict_top_k(rows, top_k=7)
    scores = dense_scores(model, X)
    expected = np.sort(scores, axis=1)[:, ::-1][:, :7]
    np.testing.assert_allclose(top.scores, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(scores, top.label_ids, axis=1), expected, rtol=1e-4, atol=1e-5)


def test_single_rows_threads_and_batches_agree(data):
    X, Y = data
    model = lt.DiSMEC(n_jobs=3).fit(X, Y)
    batch = model.predict_top_k(X, top_k=5)
    for row in (0, 17, 399):
        alone = model.predict_top_k(X[[row]], top_k=5)
        np.testing.assert_array_equal(alone.label_ids[0], batch.label_ids[row])
        np.testing.assert_array_equal(alone.scores[0], batch.scores[row])


def test_int8_weights_change_the_ranking_little_and_save_three_bytes(data):
    X, Y = data
    exact = lt.DiSMEC(n_jobs=1).fit(X, Y)
    coded = lt.DiSMEC(n_jobs=1, weight_type="int8").fit(X, Y)
    assert coded.index_codes_.nbytes * 4 == exact.index_weights_.nbytes
    assert len(coded.index_weights_) == np.ceil(0.05 * np.diff(exact.coef_.indptr)).sum()
    same = exact.predict_top_k(X, 1).label_ids == coded.predict_top_k(X, 1).label_ids
    assert same.mean() > 0.99
    # A mean error would shift all scores of a label against those of the others.
    lost = X @ (exact.coef_ - coded.coef_).T + (exact.intercept_ - coded.intercept_)
    assert np.abs(np.asarray(lost).mean(axis=0)).max() < 1e-5


def test_int8_keeps_the_largest_weights_of_a_label_and_rounds_the_others():
    random = np.random.default_rng(11)
    weights = random.standard_t(2, size=300).astype(np.float32)
    indptr = np.array([0, 1, 1, 61, 300])  # one weight, none, and many
    steps = Steps.of(indptr, weights)
    places = np.repeat(np.arange(4), np.diff(indptr))
    rounded = steps.round(weights, places)
    np.testing.assert_array_equal(rounded.values[rounded.is_exact], weights[rounded.is_exact])
    np.testing.assert_array_equal(rounded.codes[rounded.is_exact], 0)
    for label, n_exact in enumerate((1, 0, 3, 12)):
        own = slice(indptr[label], indptr[label + 1])
        largest = np.argsort(-np.abs(weights[own]))[:n_exact]
        np.testing.assert_array_equal(np.flatnonzero(rounded.is_exact[own]), np.sort(largest))
        coded = ~rounded.is_exact[own]
        np.testing.assert_allclose(
            rounded.values[own][coded], steps.scales[label] * rounded.codes[own][coded], rtol=1e-6
        )
        lost = np.abs(weights[own] - rounded.values[own])
        assert lost.max(initial=0) <= 0.5001 * steps.scales[label]
    assert np.abs(rounded.codes).max() == 127
    assert (steps.scales > 0).tolist() == [True, False, True, True]


def test_int8_weights_that_round_to_zero_are_left_out():
    W = np.zeros((50, 2), dtype=np.float32)
    W[:, 0] = np.linspace(0.01, 1, 50)
    W[7] = 1e-4
    model = fitted_with(W, np.zeros(2, dtype=np.float32), "int8")
    features, weights, _ = model.label_weights(0)
    assert 7 not in features
    assert len(features) == 49
    np.testing.assert_allclose(weights, W[features, 0], atol=0.5 / 127)


def test_int8_models_without_exact_weights_still_work(data):
    X, Y = data
    model = lt.DiSMEC(n_jobs=1, weight_type="int8").fit(X, Y)
    none = np.zeros(0, dtype=np.float32)
    codes = np.where(model.index_codes_ == 0, np.int8(3), model.index_codes_)
    codes[5] = 0  # a weight of zero, as in models of format 2
    older = with_values(lt.DiSMEC(n_jobs=1, weight_type="int8").fit(X, Y), index_weights_=none, index_codes_=codes)
    check_loaded(older)
    np.testing.assert_allclose(
        older.predict_top_k(X, top_k=30).scores, np.sort(dense_scores(older, X), axis=1)[:, ::-1], rtol=1e-4, atol=1e-5
    )
    # Labels trained today stand beside the older ones.
    before = dense_scores(older, X)
    older.add_labels(X, Y[:, :2])
    assert len(older.index_weights_)
    np.testing.assert_array_equal(dense_scores(older, X)[:, :30], before)
    few, many = older.predict_top_k(X[:2], top_k=32), older.predict_top_k(X, top_k=32)
    np.testing.assert_array_equal(few.scores, many.scores[:2])


@pytest.mark.parametrize("weight_type", ["float32", "int8"])
def test_a_saved_model_predicts_the_same(data, tmp_path, weight_type):
    X, Y = data
    model = lt.DiSMEC(weight_type=weight_type, n_jobs=1).fit(X, Y)
    lt.save(model, tmp_path / "model")
    loaded = lt.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_top_k(X).scores, model.predict_top_k(X).scores)


@pytest.mark.parametrize("weight_type", ["float32", "int8"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])  # of the labels that use a feature: listed, mixed and masked
def test_rows_predicted_one_by_one_and_in_blocks_agree_to_the_last_bit_and_with_a_product(share, weight_type):
    random = np.random.default_rng(5)
    n_features, n_labels = 40, 203
    W = random.standard_normal((n_features, n_labels)) * (random.random((n_features, n_labels)) < share)
    X = sp.csr_array(random.standard_normal((600, n_features)) * (random.random((600, n_features)) < 0.4), dtype="f4")
    model = fitted_with(W.astype(np.float32), random.standard_normal(n_labels).astype(np.float32), weight_type)
    model.remove_labels([11, 202])
    for rows in (X, X.toarray()):
        blocks = model.predict_top_k(rows, top_k=7)
        single = [model.predict_top_k(rows[[i]], top_k=7) for i in range(60)]
        np.testing.assert_array_equal(blocks.label_ids[:60], np.vstack([top.label_ids for top in single]))
        np.testing.assert_array_equal(blocks.scores[:60], np.vstack([top.scores for top in single]))
        scores = dense_scores(model, X.astype(np.float64))
        scores[:, [11, 202]] = -np.inf
        np.testing.assert_allclose(blocks.scores, -np.sort(-scores, axis=1)[:, :7], rtol=1e-4, atol=1e-4)
        chosen = np.take_along_axis(scores, blocks.label_ids.astype(np.int64), axis=1)
        np.testing.assert_allclose(chosen, blocks.scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weight_type", ["float32", "int8"])
@pytest.mark.parametrize("utility", ["precision", "balanced", "psp", "power:3"])
def test_utilities_rank_all_labels_in_one_pass(weight_type, utility):
    random = np.random.default_rng(5)
    n_features, n_labels = 40, 203
    W = random.standard_normal((n_features, n_labels)) * (random.random((n_features, n_labels)) < 0.3)
    X = sp.csr_array(random.standard_normal((600, n_features)) * (random.random((600, n_features)) < 0.4), dtype="f4")
    model = fitted_with(W.astype(np.float32), random.standard_normal(n_labels).astype(np.float32), weight_type)
    held_out = model.predict_top_k(X, top_k=n_labels, utility="score")
    chance = 1 / (1 + np.exp(3 - held_out.scores / 2))
    drawn = random.random(chance.shape) < chance
    Y = sp.csr_array((np.ones(drawn.sum()), (np.nonzero(drawn)[0], held_out.label_ids[drawn])), shape=(600, n_labels))
    model.calibrate(X, Y)
    model.remove_labels([11, 202])
    calibration = model.calibration_
    calibration._fitted = replace(calibration._fitted, balanced_power=0.2, balanced_share=0.5)
    power = calibration.balanced_power_ if utility == "balanced" else parse_utility(utility).power
    scores = model.predict_top_k(X, top_k=n_labels, utility="score")
    share = calibration.balanced_share_ if utility == "balanced" else 1.0
    expected = calibration.rank_by_power(scores, power, 7, share=share)
    for rows in (X, X.toarray()):
        blocks = model.predict_top_k(rows, top_k=7, utility=utility)
        np.testing.assert_array_equal(blocks.label_ids, expected.label_ids)
        np.testing.assert_allclose(blocks.scores, expected.values, rtol=1e-6)
        for row in (0, 5, 599):
            single = model.predict_top_k(rows[[row]], top_k=7, utility=utility)
            np.testing.assert_array_equal(single.label_ids[0], expected.label_ids[row])
            np.testing.assert_array_equal(single.scores[0], blocks.scores[row])
    proposed = model.propose(X[:3], 7, utility=utility)
    at_places = np.take_along_axis(scores.scores, expected.places, axis=1)
    assert [[tag.label for tag in tags] for tags in proposed] == expected.label_ids[:3].tolist()
    assert [[tag.score for tag in tags] for tags in proposed] == at_places[:3].tolist()


def test_masks_follow_the_index_when_labels_come_and_go():
    random = np.random.default_rng(6)
    X = random.standard_normal((300, 12)).astype(np.float32)
    Y = (random.random((300, 20)) < 0.2).astype(np.int8)
    model = lt.DiSMEC(n_jobs=1).fit(X, Y)
    model.predict_top_k(X[:1])  # makes the masks of twenty labels
    model.add_labels(X, Y[:, :3])
    few, many = model.predict_top_k(X[:5], top_k=23), model.predict_top_k(X, top_k=23)
    np.testing.assert_array_equal(few.label_ids, many.label_ids[:5])
    np.testing.assert_array_equal(few.scores, many.scores[:5])


def fitted_with(W, biases, weight_type):
    """Give a model these weights: n_features × n_labels."""
    X = np.zeros((2, W.shape[0]), dtype=np.float32)
    X[0, 0] = 1
    model = lt.DiSMEC(n_jobs=1, weight_type=weight_type).fit(X, np.eye(2, W.shape[1], dtype=np.int8))
    by_label = sp.csr_array(W.T)
    shard = {"weights": by_label.data, "feature_ids": by_label.indices, "indptr": by_label.indptr.astype(np.int64)}
    shard["biases"] = biases
    labels = [np.arange(W.shape[1])]
    index = merge_shards([shard], labels, *W.shape, int8=weight_type == "int8")
    with_values(model, label_counts_=np.ones(W.shape[1], dtype=np.int64), **index.public)
    check_loaded(model)
    return model


def test_the_label_tree_is_the_minimum_spanning_tree():
    random = np.random.default_rng(3)
    Y = sp.csr_array((random.random((60, 25)) < 0.15).astype(np.int8))
    Y = sp.hstack([Y, Y[:, :3], sp.csr_array((60, 1), dtype=np.int8)]).tocsr()  # equal labels, and an empty one
    order, parents = label_tree(Y)
    assert sorted(order) == list(range(29))
    assert all(parent < place for place, parent in enumerate(parents))
    columns = np.column_stack([Y.toarray(), np.zeros(60, dtype=int)])  # the root is the all-negative label
    distance = (columns[:, :, None] != columns[:, None, :]).sum(axis=0)
    length = sum(distance[order[place], order[parent] if parent >= 0 else 29] for place, parent in enumerate(parents))
    # Prim, naively
    inside, best = {29}, 0
    while len(inside) < 30:
        step, label = min((distance[a, b], b) for a in inside for b in range(30) if b not in inside)
        inside.add(label)
        best += step
    assert length == best


@pytest.mark.parametrize("number", [np.float32, np.float64, np.int64])
def test_parameters_may_be_numbers_of_numpy(data, number):
    model = lt.DiSMEC(n_jobs=1, cost=number(2), bias=number(1)).fit(*data)
    same = lt.DiSMEC(n_jobs=1, cost=2, bias=1).fit(*data)
    np.testing.assert_array_equal(model.index_weights_, same.index_weights_)


def test_merging_shards_takes_little_memory_and_any_block_size(monkeypatch):
    random = np.random.default_rng(5)
    W = sp.random_array((300, 2000), density=0.5, rng=random, dtype=np.float32).tocsr()
    shard = {"weights": W.data, "feature_ids": W.indices, "indptr": W.indptr.astype(np.int64)}
    shard["biases"] = np.zeros(300, dtype=np.float32)
    tracemalloc.start()
    index = merge_shards([shard], [np.arange(300)], 2000, 300, int8=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n_own = sum(part.nbytes for part in index.public.values())
    assert peak <= n_own + dismec_index.BYTES_PER_MERGED_WEIGHT * dismec_index.weights_per_block(2000) + (1 << 20)
    for int8 in (False, True):
        whole = merge_shards([shard], [np.arange(300)], 2000, 300, int8=int8)
        with monkeypatch.context() as patch:
            patch.setattr(dismec_index, "weights_per_block", lambda n_features: 700)
            parts = merge_shards([shard], [np.arange(300)], 2000, 300, int8=int8)
        threads = merge_shards([shard], [np.arange(300)], 2000, 300, int8=int8, n_threads=3)
        for name, values in whole.public.items():
            np.testing.assert_array_equal(parts.public[name], values)
            np.testing.assert_array_equal(threads.public[name], values)


@pytest.mark.parametrize(
    ("features", "message"), [([0, 3], "below the number"), ([0, -1], "below the number"), ([2, 2], "more weights")]
)
def test_weights_are_placed_inside_the_index_only(features, message):
    places = (np.zeros(2, np.int32), np.zeros(2, np.float32))
    cursor = np.array([0, 1, 1])
    with pytest.raises(ValueError, match=message):
        _core.place_weights(
            np.array(features, np.int32),
            np.arange(2, dtype=np.int32),
            np.ones(2, np.float32),
            cursor,
            *places,
            2,
            _core.Control(),
        )


def test_auto_starts_at_zero_only_where_msi_does_not_pay(data):
    X, _ = data
    model = lt.DiSMEC(start="auto")
    indptr = np.array([0, 200])
    assert model._chosen_start(X, indptr) == "msi"
    assert model._chosen_start(X.toarray(), indptr) == "zero"
    assert model._chosen_start(X.toarray(), np.array([0, 2])) == "msi"


def test_loaded_weights_that_lead_outside_are_refused(data):
    model = lt.DiSMEC(n_jobs=1).fit(*data)
    label_ids = model.index_label_ids_.copy()
    label_ids[0] = 30
    with_values(model, index_label_ids_=label_ids)
    with pytest.raises(ValueError, match="label_ids must be labels"):
        check_loaded(model)


def test_labels_that_did_not_converge_are_logged_once(data, caplog):
    X, Y = data
    hasty = {"n_jobs": 1, "max_iterations": 1, "tolerance": 1e-6, "solver": "newton"}
    model = lt.DiSMEC(**hasty).fit(X, Y, calibrate=True)
    way_out = "did not converge; raise max_iterations (now 1) or tolerance (now 1e-06)"
    assert caplog.messages == [f"DiSMEC: {model.n_unconverged_} of 30 labels {way_out}"]
    caplog.clear()
    first = lt.DiSMEC(n_jobs=1).fit(X, sp.csr_array(Y[:, :20]))
    assert (first.n_unconverged_, caplog.messages) == (0, [])
    first.set_params(**hasty).add_labels(X, sp.csr_array(Y[:, 20:]))
    assert first.n_unconverged_ > 0
    assert caplog.messages == [f"DiSMEC: {first.n_unconverged_} of 10 labels {way_out}"]


def test_pruning_that_leaves_no_weight_is_logged(data, caplog):
    X, Y = data
    message = "DiSMEC: prune_below=100 removed all weights; set prune_below=0"
    assert lt.DiSMEC(n_jobs=1, prune_below=100).fit(X, Y).coef_.nnz == 0
    lt.DiSMEC(n_jobs=1, prune_below=100, unit_rows=True).fit(X.toarray(), Y)
    assert caplog.messages == [f"{message} or scale the rows (unit_rows=True)", message]
    caplog.clear()
    lt.DiSMEC(n_jobs=1).fit(sp.csr_array(X.shape, dtype=np.float32), Y)
    assert not caplog.messages, "there was nothing to prune"


def test_rows_far_too_long_for_the_cost_are_logged(data, caplog):
    X, Y = data
    long_rows = lt.datasets.unit_rows(X) * np.float32(40)
    for rows in (long_rows, long_rows.toarray()):
        lt.DiSMEC(n_jobs=1, max_iterations=1000).fit(rows, Y)
    message = "DiSMEC: rows are long for cost=1 (median length 40): training may take very long"
    assert [text[: len(message)] for text in caplog.messages if "long" in text] == [message] * 2
    caplog.clear()
    lt.DiSMEC(n_jobs=1, unit_rows=True).fit(long_rows, Y)
    assert not caplog.messages


def test_a_warm_start_from_something_else_is_refused(data):
    with pytest.raises(TypeError, match="DiSMEC: warm_start_from must be a fitted DiSMEC or None, got 3"):
        lt.DiSMEC(n_jobs=1).fit(*data, warm_start_from=3)


@pytest.mark.parametrize("label_id", [-1, 30, 999])
def test_weights_of_a_label_that_does_not_exist_are_refused(data, label_id):
    model = lt.DiSMEC(n_jobs=1).fit(*data)
    with pytest.raises(ValueError, match=rf"DiSMEC: label_id must be an int .*29.*, got {label_id}"):
        model.label_weights(label_id)


@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_added_labels_have_statistics_too(data, solver):
    X, Y = data
    params = {"n_jobs": 1, "keep_statistics": True, "solver": solver}
    whole = lt.DiSMEC(**params).fit(X, Y).statistics_
    grown = lt.DiSMEC(**params).fit(X, sp.csr_array(Y[:, :20])).add_labels(X, sp.csr_array(Y[:, 20:])).statistics_
    assert set(grown) == set(whole)
    for name in ("iterations", "converged", "last_objective", "history_indptr", "objectives", "active_rows"):
        np.testing.assert_allclose(grown[name], whole[name], rtol=1e-6)
