"""Metrics on cases whose answer can be worked out by hand, and the ways to call them."""

import json
import subprocess
import sys
from math import log2

import numpy as np
import pytest
import scipy.sparse as sp

from longtail import TopK, metrics

# Row 0 has labels 0 and 2, ranked second and first. Row 1 has labels 2 and 3; only 2 is found, second. Row 2 has no
# label at all.
TOP = np.array([[2, 0, 1], [1, 2, -1], [0, 1, 2]], dtype=np.int32)
Y = np.array([[1, 0, 1, 0], [0, 0, 1, 1], [0, 0, 0, 0]])
PROPENSITY = np.array([0.5, 1.0, 0.25, 0.1])  # weights 2, 1, 4, 10


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("P@1", 100 * (1 + 0 + 0) / 3),
        ("P@3", 100 * (2 + 1 + 0) / 9),
        ("nDCG@1", 100 * (1 + 0 + 0) / 3),
        ("nDCG@3", 100 * (1 + (1 / log2(3)) / (1 + 1 / log2(3)) + 0) / 3),
        ("recall@1", 100 * (1 / 2) / 3),
        ("recall@3", 100 * (1 + 1 / 2) / 3),
        ("F1@1", 100 * (2 * 1 / (2 + 1)) / 3),
        ("F1@3", 100 * (2 * 2 / (2 + 3) + 2 * 1 / (2 + 3)) / 3),
        ("MRR@1", 100 * (1 / 2) / 3),
        ("MRR@3", 100 * ((1 + 1 / 2) / 2 + (1 / 2) / 2) / 3),
        ("ADG@3", 100 * ((1 + 1 / log2(3)) / 2 + (1 / log2(3)) / 2) / 3),
        ("Hamming@1", 100 * (1 + 3 + 1) / 12),
        ("Hamming@3", 100 * (1 + 2 + 3) / 12),
        ("coverage@1", 100 * 2 / 3),  # labels 0, 2, 3 occur; 0 and 2 are ranked first somewhere
        ("coverage@3", 100 * 2 / 3),
        ("macro-recall@1", 100 * (0 + 1 / 2 + 0) / 3),
        ("correct-coverage@1", 100 / 3),
        ("PSP@1", 100 * 4 / (4 + 10)),
        ("PSP@3", 100 * (4 + 2 + 4) / (4 + 2 + 10 + 4)),
        ("PSnDCG@1", 100 * 4 / 14),
        ("PSnDCG@3", 100 * (4 + 2 / log2(3) + 4 / log2(3)) / (4 + 2 / log2(3) + 10 + 4 / log2(3))),
        ("PSrecall@3", 100 * (6 / 2 + 4 / 2) / (6 / 2 + 14 / 2)),
        ("PSF1@3", 100 * (2 * 6 / 5 + 2 * 4 / 5) / (2 * 6 / 5 + 2 * 14 / 5)),
        ("PSMRR@3", 100 * ((4 + 2 / 2) / 2 + (4 / 2) / 2) / ((4 + 2 / 2) / 2 + (10 + 4 / 2) / 2)),
        ("PSADG@1", 100 * (4 / 2) / (4 / 2 + 10 / 2)),
        ("PSHamming@3", 100 * ((6 - 2 * 6 + 3) + (14 - 2 * 4 + 2) + 3) / 12),
    ],
)
def test_evaluate_gives_the_value_worked_out_by_hand(name, expected):
    assert metrics.evaluate(TOP, Y, PROPENSITY, ks=(1, 3))[name] == pytest.approx(expected, rel=1e-12)


def test_each_function_gives_what_evaluate_gives():
    result = metrics.evaluate(TOP, Y, PROPENSITY, ks=(2,))
    plain = {
        "P@2": metrics.precision_at_k,
        "nDCG@2": metrics.ndcg_at_k,
        "recall@2": metrics.recall_at_k,
        "F1@2": metrics.f_beta_at_k,
        "MRR@2": metrics.mrr,
        "ADG@2": metrics.adg,
        "Hamming@2": metrics.hamming_loss,
        "coverage@2": metrics.coverage_at_k,
        "macro-precision@2": metrics.macro_precision_at_k,
        "macro-recall@2": metrics.macro_recall_at_k,
        "macro-F1@2": metrics.macro_f1_at_k,
        "balanced-accuracy@2": metrics.balanced_accuracy_at_k,
    }
    scored = {
        "PSP@2": metrics.psprecision_at_k,
        "PSnDCG@2": metrics.psndcg_at_k,
        "PSrecall@2": metrics.psrecall_at_k,
        "PSF1@2": metrics.psf_beta_at_k,
        "PSMRR@2": metrics.psmrr,
        "PSADG@2": metrics.psadg,
        "PSHamming@2": metrics.pshamming_loss,
    }
    found = {name: function(TOP, Y, k=2) for name, function in plain.items()}
    found |= {name: function(TOP, Y, PROPENSITY, k=2) for name, function in scored.items()}
    found["correct-coverage@2"] = metrics.coverage_at_k(TOP, Y, k=2, correct_only=True)
    assert found == dict(result)


def test_precision_divides_by_k_where_a_row_has_fewer_labels():
    assert metrics.precision_at_k(np.array([[1, 0, 2]]), np.array([[0, 1, 0]]), k=3) == pytest.approx(100 / 3)


def test_greater_beta_moves_f_from_precision_to_recall():
    assert metrics.f_beta_at_k(TOP, Y, k=3, beta=0) == pytest.approx(metrics.precision_at_k(TOP, Y, k=3))
    assert metrics.f_beta_at_k(TOP, Y, k=3, beta=1e6) == pytest.approx(metrics.recall_at_k(TOP, Y, k=3))


def test_mrr_of_the_first_hit_ignores_the_others():
    assert metrics.mrr(TOP, Y, first_only=True) == pytest.approx(100 * (1 + 1 / 2) / 3)
    assert metrics.mrr(TOP, Y, k=1, first_only=True) == pytest.approx(100 / 3)


def test_coverage_of_correct_predictions_needs_a_hit():
    assert metrics.coverage_at_k(TOP, Y, k=1, correct_only=True) == pytest.approx(100 / 3)
    assert metrics.coverage_at_k(TOP, Y, k=3, correct_only=True) == pytest.approx(200 / 3)


def test_known_numbers_of_relevant_labels_replace_those_in_y():
    n_relevant = [4, 2, 1]
    value = metrics.psrecall_at_k(TOP, Y, PROPENSITY, k=3, n_relevant=n_relevant, normalize=False)
    assert value == pytest.approx(100 * (6 / 4 + 4 / 2) / 3)
    # Precision does not look at them, nor does any plain metric.
    with_them = metrics.evaluate(TOP, Y, PROPENSITY, ks=(3,), n_relevant=n_relevant)
    without = metrics.evaluate(TOP, Y, PROPENSITY, ks=(3,))
    changed = {name for name in without if with_them[name] != pytest.approx(without[name], rel=1e-12)}
    assert changed == {"PSrecall@3", "PSF1@3", "PSMRR@3", "PSADG@3"}


def test_unnormalised_scores_estimate_the_complete_truth_without_bias():
    """Theorem 4.1: hide labels with their propensity; the mean over many draws is the metric of the complete truth."""
    rng = np.random.default_rng(0)
    complete = rng.random((2000, 6)) < 0.5
    propensity = np.array([0.2, 0.35, 0.5, 0.65, 0.8, 1.0])
    top = rng.permuted(np.tile(np.arange(6), (2000, 1)), axis=1)[:, :3]
    observed = complete & (rng.random((2000, 6)) < propensity)
    n_relevant = complete.sum(axis=1)
    estimates = {
        metrics.precision_at_k(top, complete, 3): metrics.psprecision_at_k(
            top, observed, propensity, 3, normalize=False
        ),
        metrics.recall_at_k(top, complete, 3): metrics.psrecall_at_k(
            top, observed, propensity, 3, normalize=False, n_relevant=n_relevant
        ),
        metrics.adg(top, complete): metrics.psadg(top, observed, propensity, normalize=False, n_relevant=n_relevant),
        metrics.hamming_loss(top, complete): metrics.pshamming_loss(top, observed, propensity),
    }
    for truth, estimate in estimates.items():
        assert estimate == pytest.approx(truth, rel=0.05)
    assert metrics.precision_at_k(top, observed, 3) < 0.7 * metrics.precision_at_k(top, complete, 3)


def test_a_matrix_of_propensities_that_repeats_the_vector_changes_nothing():
    matrix = sp.csr_array(np.tile(PROPENSITY, (3, 1)))
    assert dict(metrics.evaluate(TOP, Y, matrix, ks=(1, 3))) == dict(metrics.evaluate(TOP, Y, PROPENSITY, ks=(1, 3)))
    # Entries where Y has none are not looked at, not even when they are impossible.
    values = np.where(Y, PROPENSITY, 7.0)
    assert dict(metrics.evaluate(TOP, Y, sp.coo_array(values), ks=(1,))) == dict(
        metrics.evaluate(TOP, Y, PROPENSITY, ks=(1,))
    )


@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_matrix, sp.coo_array, np.asarray, np.ndarray.tolist])
def test_y_may_be_any_container(container):
    assert dict(metrics.evaluate(TOP, container(Y), ks=(1, 3))) == dict(metrics.evaluate(TOP, Y, ks=(1, 3)))


def test_y_may_have_stored_zeros_repeats_and_unsorted_indices():
    messy = sp.csr_array(([1, 1, 0, 1, 1, 1], [2, 0, 1, 3, 2, 2], [0, 3, 6, 6]), shape=(3, 4))
    assert dict(metrics.evaluate(TOP, messy, ks=(3,))) == dict(metrics.evaluate(TOP, Y, ks=(3,)))
    assert messy.indices.tolist() == [2, 0, 1, 3, 2, 2], "the caller's matrix was changed"


def test_top_may_be_a_topk_an_array_of_any_int_type_or_sparse_scores():
    expected = dict(metrics.evaluate(TOP, Y, ks=(1, 3)))
    scores = np.array([[3, 2, 1], [2, 1, 0], [3, 2, 1]], dtype=np.float32)
    assert dict(metrics.evaluate(TopK(TOP, scores), Y, ks=(1, 3))) == expected
    assert dict(metrics.evaluate(np.asfortranarray(TOP.astype(np.int64)), Y, ks=(1, 3))) == expected
    assert dict(metrics.evaluate(TOP.astype(np.int8), Y, ks=(1, 3))) == expected
    assert metrics.precision_at_k(TOP[:, :1].astype(np.uint8), Y, k=1) == expected["P@1"]
    is_label = TOP >= 0
    matrix = sp.csr_array((scores[is_label], (np.nonzero(is_label)[0], TOP[is_label])), shape=(3, 4))
    assert dict(metrics.evaluate(matrix, Y, ks=(1, 3))) == expected
    assert metrics.mrr(matrix, Y) == metrics.mrr(TOP, Y)


def test_equal_scores_are_ranked_by_lower_label_id():
    scores = sp.csr_array(np.array([[0.5, 0.5, 0.5, 0.7]]))
    assert metrics.precision_at_k(scores, np.array([[1, 0, 0, 1]]), k=2) == 100
    assert metrics.precision_at_k(scores, np.array([[0, 0, 1, 1]]), k=2) == 50


def test_negative_scores_are_predictions_too():
    scores = sp.csr_array(np.array([[-2.0, -1.0, 0.0]]))
    assert metrics.precision_at_k(scores, np.array([[0, 1, 0]]), k=1) == 100


def test_long_rows_of_sparse_scores_do_not_widen_the_others(monkeypatch):
    monkeypatch.setattr("longtail.metrics._inputs._MAX_RANKED_ENTRIES", 8)
    rng = np.random.default_rng(3)
    scores = sp.random_array((50, 6), density=0.5, rng=rng, dtype=np.float32, format="csr")
    truth = rng.random((50, 6)) < 0.3
    blocked = metrics.evaluate(scores, truth, ks=(1, 3, 6))
    monkeypatch.undo()
    assert dict(blocked) == dict(metrics.evaluate(scores, truth, ks=(1, 3, 6)))


def test_nothing_to_find_is_worth_nothing():
    result = metrics.evaluate(np.array([[0, 1]]), np.zeros((1, 3)), np.full(3, 0.5), ks=(1,))
    assert {value for name, value in result.items() if "Hamming" not in name} == {0.0}
    assert result["Hamming@1"] == result["PSHamming@1"] == pytest.approx(100 / 3)


def test_evaluation_prints_as_a_table_and_as_json():
    result = metrics.evaluate(TOP, Y, PROPENSITY, ks=(1, 3))
    lines = str(result).splitlines()
    assert lines[0].split() == ["@1", "@3"]
    assert lines[1].split() == ["P", "33.33", "33.33"]
    assert len({len(line) for line in lines[:-1]}) == 1, "columns are not aligned"
    assert lines[-1] == "in %, over 3 rows and 4 labels"
    assert json.loads(result.to_json()) == result.to_dict()
    assert result.to_dict()["n_rows"] == 3
    assert result.to_dict()["P@1"] == result["P@1"]
    assert len(result) == 2 * 20
    with pytest.raises(KeyError, match="no metric 'P@2'"):
        result["P@2"]


def test_metrics_import_neither_scikit_learn_nor_scipy():
    code = "import sys, longtail.metrics, longtail.propensity; print(*{'sklearn', 'scipy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout.strip() == b""
