"""The numbers of a report, on data whose answer a reader can see."""

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail.report import examine
from longtail.report.labels import Shower, count

# Rows 0-3; labels 0-4. The top two of each row:
TOP = np.array([[0, 1], [0, 2], [0, 2], [0, -1]], dtype=np.int32)
TRUTH = sp.csr_array(np.array([[1, 1, 0, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 0]], dtype=np.float32))
N_TRAIN = np.array([100, 3, 7, 0, 0])


@pytest.fixture
def counts():
    return count(TOP, TRUTH, N_TRAIN, np.ones(5))


def test_true_predicted_and_found_rows_are_counted(counts):
    assert counts.n_true.tolist() == [3, 2, 0, 2, 0]
    assert counts.n_predicted.tolist() == [4, 1, 2, 0, 0]
    assert counts.n_found.tolist() == [3, 1, 0, 0, 0]


def test_never_predicted_are_the_labels_of_the_test_data_in_no_top_k(counts):
    assert counts.never_predicted().tolist() == [3]


def test_bins_group_labels_by_training_rows(counts):
    bins = counts.bins()
    assert [(group.title, group.n_labels) for group in bins if group.n_labels] == [
        ("0", 2),
        ("2–3", 1),
        ("4–7", 1),
        ("64–127", 1),
    ]
    assert sum(group.n_true for group in bins) == 7
    head = bins[-1]
    assert (head.recall, head.precision, head.coverage) == (100, 75, 100)
    assert next(group for group in bins if group.title == "2–3").recall == 50


def test_over_predicted_have_more_than_twice_the_true_rows():
    top = np.zeros((20, 1), dtype=np.int32)
    truth = sp.csr_array(np.eye(20, 2, dtype=np.float32))
    assert count(top, truth, np.array([1, 1]), np.ones(2)).over_predicted().tolist() == [0]


def test_best_and_worst_leave_out_labels_with_few_rows():
    truth = np.zeros((12, 4), dtype=np.float32)
    truth[:6, 0] = truth[6:, 1] = truth[:, 2] = 1
    truth[0, 3] = 1
    top = np.array([[0]] * 6 + [[2]] * 6, dtype=np.int32)
    best, worst = count(top, sp.csr_array(truth), np.ones(4, dtype=np.int64), np.ones(4)).best_and_worst()
    assert best.tolist() == [0]
    assert worst.tolist() == [1]


def test_examples_show_what_the_table_is_about(counts):
    texts = [f"text {i}" for i in range(4)]
    show = Shower(counts, TOP, TRUTH, list("abcde"), texts)
    assert show.findings(np.array([3]), examples="missed")[0].example in ("text 1", "text 2")
    assert show.findings(np.array([0]), examples="wrong")[0].example == "text 3"
    assert show.findings(np.array([2]), examples="found")[0].example is None
    assert Shower(counts, TOP, TRUTH, None, None).findings(np.array([1]), examples="missed")[0].example == "row 3"


def test_a_model_of_matrices_can_be_examined():
    rng = np.random.default_rng(0)
    X = rng.random((30, 4), dtype=np.float32)
    Y = (rng.random((30, 6)) < [0.9, 0.5, 0.3, 0.2, 0.1, 0.0]).astype(np.float32)
    findings = examine(lt.Popularity(n_jobs=1).fit(X, Y), X, Y, top_k=2)
    expected = lt.metrics.evaluate(lt.Popularity(n_jobs=1).fit(X, Y).predict_top_k(X, 5), Y)
    assert findings.table["P"][3] == expected["P@3"]
    assert findings.curves["P"][10] > 0
    assert findings.reliability is None
    assert findings.n_never_predicted == len({2, 3, 4} & set(np.flatnonzero(Y.sum(axis=0))))


def test_data_with_other_labels_than_the_model_is_refused():
    X, Y = np.ones((3, 2)), np.ones((3, 2))
    model = lt.Popularity(n_jobs=1).fit(X, Y)
    with pytest.raises(ValueError, match="the data has 5 labels, but Popularity was fitted with 2"):
        examine(model, X, np.ones((3, 5)))
    with pytest.raises(ValueError, match="no rows"):
        examine(model, X[:0], Y[:0])
