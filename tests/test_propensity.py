"""The propensity model: its curve, its presets, its fit."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail import datasets, metrics, propensity
from longtail.propensity import PropensityModel


def test_the_default_model_gives_the_published_inverse_propensities_of_eurlex(shared_data):
    folder = shared_data("eurlex")
    _, Y = datasets.read_xmc(folder / "eurlex_train.txt.gz")
    with gzip.open(folder / "inverse_propensities.txt.gz", "rt") as lines:
        published = np.loadtxt(lines)
    np.testing.assert_allclose(1 / propensity.from_labels(Y), published, atol=5e-4, rtol=0)


def test_the_popularity_baseline_on_eurlex_scores_as_in_the_paper(shared_data):
    """Table 3 (a) of the PfastreXML paper; its random split differs from ours, hence the tolerance."""
    folder = shared_data("eurlex")
    _, train = datasets.read_xmc(folder / "eurlex_train.txt.gz")
    _, test = datasets.read_xmc(folder / "eurlex_test.txt.gz")
    most_frequent = np.argsort(-train.sum(axis=0), kind="stable")[:5]
    result = metrics.evaluate(np.tile(most_frequent, (test.shape[0], 1)), test, propensity.from_labels(train))
    assert [result[f"PSP@{k}"] for k in (1, 3, 5)] == pytest.approx([1.80, 2.20, 2.62], abs=0.1)
    assert [result[f"PSnDCG@{k}"] for k in (1, 3, 5)] == pytest.approx([1.80, 2.10, 2.36], abs=0.1)


def test_the_curve_is_that_of_the_paper():
    # A = 1, B = 1, N = e^3 rows: C = (3 - 1)·2 = 4, so p = 1 / (1 + 4 / (N_l + 1)).
    model = PropensityModel(a=1.0, b=1.0)
    n_rows = float(np.exp(3.0))
    np.testing.assert_allclose(model.from_counts([0, 1, 3, 7], n_rows), [1 / 5, 1 / 3, 1 / 2, 2 / 3])


def test_the_presets_are_those_of_the_paper():
    assert PropensityModel.preset("wikipedia") == PropensityModel(0.5, 0.4)
    assert PropensityModel.preset("amazon") == PropensityModel(0.6, 2.6)
    assert PropensityModel.preset("default") == PropensityModel(0.55, 1.5) == PropensityModel()
    np.testing.assert_array_equal(
        propensity.from_counts([3, 4], 100, preset="amazon"), PropensityModel(0.6, 2.6).from_counts([3, 4], 100)
    )


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_labels_of_any_container_are_counted(container):
    Y = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0], [1, 1, 0]])
    np.testing.assert_array_equal(propensity.from_labels(container(Y)), propensity.from_counts([4, 2, 0], 4))


@settings(max_examples=50, deadline=None)
@given(
    a=st.floats(0, 3),
    b=st.floats(1e-3, 100),
    n_rows=st.integers(1, 10**9),
    counts=st.lists(st.integers(0, 10**9), min_size=1, max_size=20),
)
def test_propensities_lie_in_0_1_and_grow_with_the_count(a, b, n_rows, counts):
    values = PropensityModel(a, b).from_counts(sorted(counts), n_rows)
    assert np.all((values > 0) & (values <= 1))
    assert np.all(np.diff(values) >= 0)


def test_fewer_than_three_rows_score_nothing_up():
    assert propensity.from_counts([0, 1, 2], 2).tolist() == [1.0, 1.0, 1.0]


def test_propensities_go_straight_into_the_metrics():
    Y = np.eye(5, dtype=int)
    result = metrics.evaluate(np.arange(5)[:, np.newaxis], Y, propensity.from_labels(Y), ks=(1,))
    assert result["PSP@1"] == 100


@pytest.mark.parametrize("truth", [PropensityModel(0.5, 0.4), PropensityModel(0.6, 2.6), PropensityModel(0.9, 8.0)])
def test_fit_finds_the_parameters_of_exact_counts(truth):
    observed = np.arange(1, 3001)
    complete = observed / truth.from_counts(observed, 1_000_000)
    fitted = propensity.fit(observed, complete, 1_000_000, labels_per_bin=1)
    assert (fitted.a, fitted.b) == pytest.approx((truth.a, truth.b), rel=1e-3)


def test_fit_finds_the_parameters_of_labels_lost_by_chance():
    """Hide labels with the paper's propensities for Wikipedia; bins of 20 labels average the noise out."""
    rng = np.random.default_rng(0)
    n_rows, truth = 1_000_000, PropensityModel.preset("wikipedia")
    expected = (20_000 / np.arange(1, 20_001) ** 0.8).clip(1)
    complete = np.round(expected / truth.from_counts(expected, n_rows)).astype(int)
    observed = rng.binomial(complete, truth.from_counts(expected, n_rows))
    fitted = propensity.fit(observed, complete, n_rows)
    counts = np.array([1, 5, 25, 125, 625])
    np.testing.assert_allclose(fitted.from_counts(counts, n_rows), truth.from_counts(counts, n_rows), rtol=0.2)


def test_fit_leaves_out_labels_that_are_never_relevant():
    observed = np.arange(1, 401)
    complete = observed / propensity.from_counts(observed, 10_000)
    with_unknown = propensity.fit(np.r_[observed, np.zeros(50)], np.r_[complete, np.zeros(50)], 10_000)
    assert with_unknown == propensity.fit(observed, complete, 10_000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PropensityModel(a=-1), "PropensityModel: a must be a number >= 0, got -1"),
        (lambda: PropensityModel(b=0), "PropensityModel: b must be a number > 0, got 0"),
        (lambda: PropensityModel.preset("wiki"), "preset must be one of wikipedia, amazon, default, got 'wiki'"),
        (lambda: propensity.from_counts([1, -2], 10), "label_counts must be finite and >= 0, got .*-2.0.* for label 1"),
        (lambda: propensity.from_counts([[1]], 10), "label_counts must be one number per label, got 2 dimensions"),
        (lambda: propensity.from_counts([1], 0), "n_rows must be an int >= 1, got 0"),
        (lambda: propensity.from_labels([1, 0]), r"Y must be a sparse or dense 0/1 matrix .* got shape \(2,\)"),
        (lambda: propensity.fit([1, 2], [1], 10), "must have the same length, got 2 and 1"),
        (lambda: propensity.fit([1, 3], [1, 2], 10), "got 2 and 3 for label 1"),
        (lambda: propensity.fit([1, 2], [1, 2], 10), "fit needs two bins .* lower labels_per_bin"),
        (lambda: propensity.fit([1, 2], [1, 2], 10, labels_per_bin=0), "labels_per_bin must be an int >= 1, got 0"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_complete_counts_follow_every_ancestor_once() -> None:
    rng = np.random.default_rng(3)
    n_labels = 12
    pairs = [(3, 1), (4, 1), (5, 3), (6, 3), (6, 4), (7, 6), (8, 9), (9, 8)]  # two parents of 6, a cycle of 8 and 9
    parents_of = {label: {parent for child, parent in pairs if child == label} for label in range(n_labels)}

    def closed(label: int) -> set[int]:
        seen, todo = {label}, [label]
        while todo:
            for parent in parents_of[todo.pop()] - seen:
                seen.add(parent)
                todo.append(parent)
        return seen

    Y = rng.random((60, n_labels)) < 0.1
    relevant = np.zeros_like(Y)
    for row, label in zip(*np.nonzero(Y), strict=True):
        relevant[row, list(closed(int(label)))] = True
    found = propensity.complete_counts(Y.astype(np.float32), pairs, min_descendants=0)
    np.testing.assert_array_equal(found, relevant.sum(axis=0))
    few = propensity.complete_counts(sp.csr_array(Y), pairs, min_descendants=2)
    n_descendants = np.array(
        [sum(label in closed(other) for other in range(n_labels)) - 1 for label in range(n_labels)]
    )
    np.testing.assert_array_equal(few, np.where(n_descendants >= 2, found, 0))


@pytest.mark.parametrize("parents", [[1, 2], [(0, 12)], [(0.5, 1.0)]])
def test_a_wrong_hierarchy_is_refused(parents: list[object]) -> None:
    with pytest.raises(ValueError, match="complete_counts: parents must be"):
        propensity.complete_counts(np.eye(12), parents)
