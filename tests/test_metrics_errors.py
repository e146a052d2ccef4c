"""Wrong input to the metrics is refused with a message that says what to do."""

import numpy as np
import pytest
import scipy.sparse as sp

from longtail import metrics

TOP = np.array([[2, 0, 1], [1, 2, -1]])
Y = np.array([[1, 0, 1, 0], [0, 0, 1, 1]])


@pytest.mark.parametrize(
    ("top", "error", "message"),
    [
        (TOP[:1], ValueError, "top has 1 rows, but Y has 2"),
        (TOP[0], ValueError, r"top must have shape \(n_rows, k\), got 1 dimensions"),
        (TOP + 0.5, TypeError, "top must be a TopK, an int array of label ids or a sparse score matrix"),
        (TOP[:, :2], ValueError, "k must be at most the 2 predicted columns of top, got 3"),
        (TOP + 2, ValueError, r"row 0 predicts label 4, but Y has labels 0 \.\. 3"),
        (TOP - 2, ValueError, r"row 0 predicts label -2, but Y has labels 0 \.\. 3"),
        (TOP + 2**40, ValueError, r"row 0 predicts label 2147483647, but Y has labels 0 \.\. 3"),
        (np.array([[0, 1, 0], [0, 1, 2]]), ValueError, "row 0 predicts label 0 twice"),
        (np.array([[0, 1, 2], [0, -1, 2]]), ValueError, "row 1 has a label after the padding -1"),
        (sp.csr_array(np.ones((2, 5))), ValueError, "top holds scores of 5 labels, but Y has 4"),
        (sp.csr_array(np.full((2, 4), np.nan)), ValueError, "top: value 0 is NaN or infinite"),
    ],
)
def test_wrong_rankings_are_refused(top, error, message):
    with pytest.raises(error, match=message):
        metrics.precision_at_k(top, Y, k=3)


def test_short_rankings_are_measured_as_far_as_they_go():
    assert list(metrics.evaluate(TOP, Y).table["P"]) == [1, 3]
    assert list(metrics.evaluate(TOP[:, :1], Y).table["P"]) == [1]
    assert list(metrics.evaluate(sp.csr_array(np.eye(2, 4)), Y).table["P"]) == [1, 3, 5]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (Y * 2, r"Y must hold only 0 and 1, got 2; pass \(Y > 0\)"),
        (sp.csr_array(Y * 0.5), r"Y must hold only 0 and 1, got 0\.5; pass \(Y > 0\)"),
        (np.array([0, 1]), r"Y must be a sparse or dense 0/1 matrix of shape \(n_rows, n_labels\), got 1 dimensions"),
        (np.zeros((2, 0)), "Y has no labels"),
        (np.full((2, 4), np.nan), "Y must hold only 0 and 1, got nan"),
    ],
)
def test_wrong_labels_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        metrics.evaluate(TOP, labels, ks=(1,))


@pytest.mark.parametrize(
    ("propensity", "message"),
    [
        (np.full(3, 0.5), r"propensity must have one value for each of the 4 labels of Y, got shape \(3,\)"),
        ([0.5, 0.5, 0.0, 0.5], r"propensity must lie in \(0, 1\], got .*0\.0.* at 2"),
        ([0.5, np.nan, 0.5, 0.5], r"propensity must lie in \(0, 1\]"),
        ([1.0, 2.0, 30.0, 4.0], r"at 1; for inverse propensities give 1 / values"),
        (sp.csr_array(np.full((2, 3), 0.5)), r"propensity has shape \(2, 3\), but Y has shape \(2, 4\)"),
        (sp.csr_array(Y * np.array([0.5, 0.5, 0.5, 0.0])), r"propensity .*label 3 of row 1|must lie in"),
        (sp.csr_array(Y * np.array([[0.5], [1.5]])), r"propensity must lie in \(0, 1\], got .*1\.5"),
    ],
)
def test_wrong_propensities_are_refused(propensity, message):
    with pytest.raises(ValueError, match=message):
        metrics.psprecision_at_k(TOP, Y, propensity, k=1)


def test_a_missing_propensity_is_named_by_row_and_label():
    matrix = sp.csr_array(np.where(Y, 0.5, 0.0))
    matrix[1, 3] = 0.0
    matrix.eliminate_zeros()
    with pytest.raises(ValueError, match="propensity has no entry for label 3 of row 1; every label in Y needs one"):
        metrics.evaluate(TOP, Y, matrix, ks=(1,))


@pytest.mark.parametrize(("k", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("1", TypeError)])
def test_wrong_k_is_refused(k, error):
    with pytest.raises(error, match="must be an int >= 1, got"):
        metrics.precision_at_k(TOP, Y, k=k)
    with pytest.raises(error, match="each of ks must be an int >= 1, got"):
        metrics.evaluate(TOP, Y, ks=(1, k))


def test_other_wrong_parameters_are_refused():
    with pytest.raises(ValueError, match="ks must name at least one k"):
        metrics.evaluate(TOP, Y, ks=())
    with pytest.raises(ValueError, match="beta must be a number >= 0, got -1"):
        metrics.f_beta_at_k(TOP, Y, k=1, beta=-1)
    with pytest.raises(ValueError, match="n_relevant must be one int for each of the 2 rows of Y"):
        metrics.psrecall_at_k(TOP, Y, np.ones(4), k=1, n_relevant=[3])
    with pytest.raises(ValueError, match="n_relevant: row 1 must be between its 2 labels in Y and all 4, got 1"):
        metrics.psrecall_at_k(TOP, Y, np.ones(4), k=1, n_relevant=[2, 1])
    with pytest.raises(TypeError, match="a matrix of propensities belongs to rows, give its rows to update"):
        metrics.Evaluator(sp.csr_array(Y * 0.5))


def test_evaluator_refuses_batches_that_do_not_fit_together():
    evaluator = metrics.Evaluator(ks=(1,))
    with pytest.raises(ValueError, match="there are no rows to evaluate"):
        evaluator.result()
    evaluator.update(TOP, Y)
    with pytest.raises(ValueError, match="Y has 3 labels, but earlier batches had 4"):
        evaluator.update(TOP, Y[:, :3])
    with pytest.raises(ValueError, match="propensity must be given with every batch or with none"):
        evaluator.update(TOP, Y, propensity=np.ones(4))


def test_a_refused_batch_leaves_the_evaluator_as_it_was():
    evaluator = metrics.Evaluator(ks=(1, 2))
    evaluator.update(TOP, Y)
    before = evaluator.result().to_dict()
    with pytest.raises(ValueError, match="row 1 predicts label 3 twice"):
        evaluator.update(np.array([[3, 0], [3, 3]]), Y)
    assert evaluator.result().to_dict() == before
