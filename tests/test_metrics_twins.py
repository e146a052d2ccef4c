"""Metrics against naive twins on random input, their bounds, and what must not matter."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail import metrics


def random_case(seed, n_rows=12, n_labels=7, n_ranks=5):
    """Make rankings (some padded), labels (some rows without any) and propensities."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n_rows, n_labels)) < rng.uniform(0, 0.6, size=(n_rows, 1)) * (rng.random((n_rows, 1)) < 0.9)
    top = rng.permuted(np.tile(np.arange(n_labels), (n_rows, 1)), axis=1)[:, :n_ranks]
    n_predicted = rng.integers(n_ranks - 2, n_ranks + 1, size=(n_rows, 1))
    top = np.where(np.arange(n_ranks) < n_predicted, top, -1).astype(np.int32)
    return top, Y, rng.uniform(0.05, 1.0, size=n_labels)


def perfect_ranking(Y, propensity, n_ranks):
    """Rank each row's own labels, rarest first, before all others."""
    keys = np.where(Y, propensity, 2.0)
    return np.argsort(keys, axis=1, kind="stable")[:, :n_ranks]


def naive_row(name, top, y, weight, k, beta=1.0):
    """The gain of one row by its definition in Table 1; `weight` is 1/p."""
    n_labels = max(1, int(y.sum()))
    gain, ideal_dcg = 0.0, sum(1 / np.log2(rank + 1) for rank in range(1, min(k, n_labels) + 1))
    for rank, label_id in enumerate(top[:k], start=1):
        if label_id < 0 or not y[label_id]:
            continue
        gain += (
            weight[label_id]
            * {
                "P": 1 / k,
                "nDCG": 1 / np.log2(rank + 1) / ideal_dcg,
                "DCG": 1 / np.log2(rank + 1),
                "recall": 1 / n_labels,
                "F1": (1 + beta**2) / (beta**2 * n_labels + k),
                "MRR": 1 / rank / n_labels,
                "ADG": 1 / np.log2(rank + 1) / n_labels,
            }[name]
        )
    return gain


def naive_hamming(top, Y, weight, k):
    loss = 0.0
    for ids, y in zip(top, Y, strict=True):
        predicted = np.isin(np.arange(len(y)), ids[:k]).astype(float)
        loss += np.sum(weight * (1 - 2 * predicted) * y + predicted**2)
    return 100 * loss / Y.size


# Each of these counts the labels of one ranking in Python.
MACRO = {
    "macro-precision": metrics.macro_precision_at_k,
    "macro-recall": metrics.macro_recall_at_k,
    "macro-F1": metrics.macro_f1_at_k,
    "balanced-accuracy": metrics.balanced_accuracy_at_k,
}


def naive_coverage(top, Y, k):
    occurring = set(np.nonzero(Y)[1])
    return 100 * len(occurring & set(top[:, :k].ravel())) / len(occurring) if occurring else 0.0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_rows=st.integers(1, 30), n_ranks=st.integers(2, 7))
def test_metrics_agree_with_their_naive_twins(seed, n_rows, n_ranks):
    top, Y, propensity = random_case(seed, n_rows, n_ranks=n_ranks)
    ks = tuple(range(1, n_ranks + 1))
    result = metrics.evaluate(top, Y, propensity, ks=ks)
    ones, weight = np.ones(Y.shape[1]), 1 / propensity
    ideal = perfect_ranking(Y, propensity, n_ranks)
    for k in ks:
        for name in ("P", "nDCG", "recall", "F1", "MRR", "ADG"):
            plain = np.mean([naive_row(name, ids, y, ones, k) for ids, y in zip(top, Y, strict=True)])
            assert result[f"{name}@{k}"] == pytest.approx(100 * plain, abs=1e-9)
            scored = "DCG" if name == "nDCG" else name
            found = sum(naive_row(scored, ids, y, weight, k) for ids, y in zip(top, Y, strict=True))
            best = sum(naive_row(scored, ids, y, weight, k) for ids, y in zip(ideal, Y, strict=True))
            assert result[f"PS{name}@{k}"] == pytest.approx(100 * found / best if best else 0.0, abs=1e-9)
        assert result[f"Hamming@{k}"] == pytest.approx(naive_hamming(top, Y, ones, k), abs=1e-9)
        assert result[f"PSHamming@{k}"] == pytest.approx(naive_hamming(top, Y, weight, k), abs=1e-9)
        assert result[f"coverage@{k}"] == pytest.approx(naive_coverage(top, Y, k), abs=1e-9)
        covered = metrics.coverage_at_k(top, Y, k, correct_only=True)
        assert result[f"correct-coverage@{k}"] == pytest.approx(covered, abs=1e-9)
        for name, measure in MACRO.items():
            assert result[f"{name}@{k}"] == pytest.approx(measure(top, Y, k), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_stay_between_0_and_100(seed):
    result = metrics.evaluate(*random_case(seed))
    for name, value in result.items():
        if not name.startswith("PSHamming"):  # an unbiased estimate, which may leave the range
            assert 0 <= value <= 100, name


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_perfect_ranking_scores_100(seed):
    _, Y, propensity = random_case(seed)
    Y[~Y.any(axis=1), 0] = True  # a row without labels would gain nothing and count in nDCG
    result = metrics.evaluate(perfect_ranking(Y, propensity, 5), Y, propensity)
    for k in (1, 3, 5):
        for name in ("nDCG", "PSP", "PSnDCG", "PSrecall", "PSF1", "PSMRR", "PSADG"):
            assert result[f"{name}@{k}"] == pytest.approx(100, abs=1e-9)
        assert result[f"P@{k}"] == pytest.approx(100 * np.minimum(Y.sum(axis=1), k).mean() / k)


def test_rows_without_labels_do_not_lower_a_perfect_propensity_scored_value():
    _, Y, propensity = random_case(1)
    Y[:4] = False
    result = metrics.evaluate(perfect_ranking(Y, propensity, 5), Y, propensity)
    assert result["PSP@5"] == result["PSnDCG@5"] == 100
    assert result["nDCG@5"] <= 100 * 8 / 12


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_does_not_matter(seed):
    top, Y, propensity = random_case(seed)
    order = np.random.default_rng(seed).permutation(len(top))
    assert_same(metrics.evaluate(top[order], Y[order], propensity), metrics.evaluate(top, Y, propensity))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(0, 12), max_size=4))
def test_the_split_into_batches_does_not_matter(seed, cuts):
    top, Y, propensity = random_case(seed)
    evaluator = metrics.Evaluator(propensity)
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 12], strict=True):
        evaluator.update(top[first:last], sp.csr_array(Y[first:last]))
    assert_same(evaluator.result(), metrics.evaluate(top, Y, propensity))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_names_of_labels_do_not_matter(seed):
    top, Y, propensity = random_case(seed)
    new_ids = np.random.default_rng(seed).permutation(Y.shape[1])
    renamed_top = np.where(top >= 0, new_ids[top], -1)
    renamed_y, renamed_propensity = np.empty_like(Y), np.empty_like(propensity)
    renamed_y[:, new_ids] = Y
    renamed_propensity[new_ids] = propensity
    renamed = metrics.evaluate(renamed_top, renamed_y, renamed_propensity)
    assert_same(renamed, metrics.evaluate(top, Y, propensity))


def test_the_number_of_threads_changes_no_bit():
    top, Y, propensity = random_case(0, n_rows=30_000)
    one = metrics.evaluate(top, Y, propensity, n_jobs=1)
    for n_jobs in (2, 5):
        assert metrics.evaluate(top, Y, propensity, n_jobs=n_jobs).to_dict() == one.to_dict()


def assert_same(a, b):
    """Plain metrics come from whole counts and agree to the last bit, the others up to the order of sums."""
    for name in b:
        if name.startswith("PS"):
            assert a[name] == pytest.approx(b[name], rel=1e-12, abs=1e-12), name
        else:
            assert a[name] == b[name], name
