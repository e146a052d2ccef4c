"""The solvers of DiSMEC against the naive twin, LIBLINEAR and the paper's stopping rule."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

import longtail as lt
from longtail.dismec import training
from tests.dismec_twin import Problem, random_problem, weights_of

STARTS = ("zero", "bias", "ovap", "ovap++", "msi")


@pytest.fixture(scope="module")
def eurlex(shared_data):
    X, Y = lt.datasets.read_xmc(shared_data("eurlex/eurlex_train.txt.gz"))
    return lt.datasets.unit_rows(X), Y


@pytest.fixture(scope="module")
def bibtex(shared_data):
    X, Y = lt.datasets.read_xmc(shared_data("bibtex/bibtex_train.txt.gz"))
    return lt.datasets.unit_rows(X), Y


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("regularize_bias", [True, False])
def test_the_twins_gradient_and_hessian_agree_with_finite_differences(loss, regularize_bias):
    X, Y = random_problem(1, n_rows=40, n_features=8, n_labels=2)
    twin = Problem(X, Y[:, [0]].toarray().ravel() > 0, loss=loss, regularize_bias=regularize_bias, weight=3.0)
    random = np.random.default_rng(0)
    w, d, h = random.standard_normal(9), random.standard_normal(9), 1e-6
    slope = (twin.objective(w + h * d) - twin.objective(w - h * d)) / (2 * h)
    assert slope == pytest.approx(twin.gradient(w) @ d, rel=1e-6)
    bend = (twin.gradient(w + h * d) - twin.gradient(w - h * d)) / (2 * h)
    np.testing.assert_allclose(bend, twin.hessian(w) @ d, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cost", [0.001, 0.01])
def test_a_tolerance_below_float32_ends_where_rounding_begins(cost):
    data = lt.datasets.make_synthetic(n_rows=300, n_features=60, n_labels=20, labels_per_row=2)
    model = lt.DiSMEC(cost=cost, tolerance=1e-6, prune_below=0.0, keep_statistics=True, n_jobs=1).fit(data.X, data.Y)
    assert model.statistics_["cg_steps"].max() < 1000
    assert model.statistics_["gradient_ratio"].max() < 1e-5


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("regularize_bias", [True, False])
@pytest.mark.parametrize(
    ("loss", "solver"),
    [("squared_hinge", "auto"), ("squared_hinge", "newton"), ("logistic", "auto"), ("logistic", "newton")],
)
def test_every_label_reaches_the_twins_objective_and_the_stopping_rule(dense, regularize_bias, loss, solver):
    X, Y = random_problem(2, dense=dense)
    model = lt.DiSMEC(loss=loss, solver=solver, regularize_bias=regularize_bias, prune_below=0.0, n_jobs=1).fit(X, Y)
    assert model.n_unconverged_ == 0
    for label in range(Y.shape[1]):
        twin = Problem(X, Y[:, [label]].toarray().ravel() > 0, loss=loss, regularize_bias=regularize_bias)
        w, best = weights_of(model, label), twin.solve()
        gradient = np.linalg.norm(twin.gradient(w))
        assert gradient <= twin.tolerance() * (1 + 1e-4) + 1e-5
        # L is strongly convex with modulus 1 where the bias is regularised: L(w) - L* <= ½‖∇L‖².
        slack = 0.5 * gradient**2 if regularize_bias else 0.01 * twin.objective(best)
        assert twin.objective(w) <= twin.objective(best) + slack + 1e-4


@pytest.mark.parametrize("cost", [0.3, 1.0, 10.0])
def test_labels_of_rows_with_rare_words_reach_the_twins_objective(cost):
    # Most of a row's length is in words of few rows: labels are trained through lists of words.
    random = np.random.default_rng(3)
    frequent = (random.random((1000, 6)) < 0.5) * random.uniform(0.05, 0.15, (1000, 6))
    rare = sp.random_array((1000, 900), density=0.008, rng=random) * 0.6
    X = sp.csr_array(sp.hstack([sp.csr_array(frequent), rare])).astype(np.float32)
    Y = sp.csr_array((random.random((1000, 8)) < np.array([1, 1, 2, 2, 4, 8, 20, 60]) / 1000).astype(np.float32))
    params = {"cost": cost, "prune_below": 0.0, "n_jobs": 1}
    model = lt.DiSMEC(keep_statistics=True, **params).fit(X, Y)
    assert model.n_unconverged_ == 0
    newton = lt.DiSMEC(solver="newton", tolerance=1e-4, **params).fit(X, Y)
    told = model.statistics_
    for label in np.flatnonzero(Y.sum(axis=0)):
        twin = Problem(X, Y[:, [label]].toarray().ravel() > 0, cost=cost)
        w = weights_of(model, label)
        assert np.linalg.norm(twin.gradient(w)) <= twin.tolerance() * (1 + 1e-4) + 1e-4
        assert twin.objective(w) <= twin.objective(weights_of(newton, label)) * (1 + 1e-3)
        assert told["last_objective"][label] == pytest.approx(twin.objective(w), rel=1e-4)
        history = slice(*told["history_indptr"][label : label + 2])
        assert len(told["objectives"][history]) == told["iterations"][label] + 1
        assert abs(told["active_rows"][history][-1] - (twin.y * (twin.X @ w) < 1).sum()) <= 1
    plain = lt.DiSMEC(**params).fit(X, Y)
    assert plain.index_weights_.tobytes() == model.index_weights_.tobytes()
    assert plain.biases_.tobytes() == model.biases_.tobytes()


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_all_starts_reach_the_same_objective(start, solver):
    X, Y = random_problem(3, n_rows=500, n_labels=40)
    model = lt.DiSMEC(start=start, solver=solver, tolerance=1e-3, prune_below=0.0, n_jobs=1).fit(X, Y)
    assert model.n_unconverged_ == 0
    for label in (0, 3, 17, 39):
        twin = Problem(X, Y[:, [label]].toarray().ravel() > 0)
        best = twin.objective(twin.solve())
        assert twin.objective(weights_of(model, label)) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("cost", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("bias", [0.0, 1.0, 3.0])
def test_cost_and_bias_mean_what_they_mean_in_linear_svc(cost, bias):
    from sklearn.svm import LinearSVC

    X, Y = random_problem(4)
    model = lt.DiSMEC(cost=cost, bias=bias, tolerance=1e-5, prune_below=0.0, n_jobs=1).fit(X, Y)
    for label in (0, 5):
        positive = Y[:, [label]].toarray().ravel() > 0
        svc = LinearSVC(
            C=cost, dual=False, tol=1e-8, fit_intercept=bias > 0, intercept_scaling=bias or 1.0, max_iter=10000
        ).fit(X.astype(np.float64), positive)
        np.testing.assert_allclose(weights_of(model, label)[:-1], svc.coef_.ravel(), atol=2e-3)
        assert model.label_weights(label)[2] == pytest.approx(svc.intercept_[0] if bias else 0.0, abs=2e-3)


@pytest.mark.parametrize("name", ["eurlex", "bibtex"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_real_labels_end_within_the_rule_of_liblinear(name, loss, request):
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    X, Y = request.getfixturevalue(name)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    label_ids = np.random.default_rng(5).choice(np.flatnonzero(counts > 0), 4, replace=False)
    chosen = sp.csr_array(Y[:, label_ids])
    model = lt.DiSMEC(loss=loss, prune_below=0.0, n_jobs=1).fit(X, chosen)
    assert model.n_unconverged_ == 0
    for label in range(4):
        positive = chosen[:, [label]].toarray().ravel() > 0
        twin = Problem(X, positive, loss=loss)
        foreign = LinearSVC(dual=False) if loss == "squared_hinge" else LogisticRegression(solver="liblinear")
        foreign = foreign.set_params(tol=1e-2).fit(X, positive)
        liblinear = twin.objective(np.append(foreign.coef_.ravel(), foreign.intercept_ / foreign.intercept_scaling))
        w = weights_of(model, label)
        gradient = np.linalg.norm(twin.gradient(w))
        assert gradient <= twin.tolerance() * (1 + 1e-4)
        # Both stop early: each may be half its squared gradient above the minimum, and no more.
        assert twin.objective(w) <= liblinear + 0.5 * gradient**2 + 1e-4


def short_rows(seed: int, n_rows: int = 1500, n_features: int = 300, n_labels: int = 40):
    """Rows of one to five words of very different frequencies; labels of one to eight rows that share a word."""
    random = np.random.default_rng(seed)
    words = [np.unique((n_features * random.random(random.integers(1, 6)) ** 3).astype(int)) for _ in range(n_rows)]
    X = sp.csr_array(
        (np.ones(sum(map(len, words)), np.float32), np.concatenate(words), np.cumsum([0, *map(len, words)])),
        shape=(n_rows, n_features),
    )
    Y = np.zeros((n_rows, n_labels), dtype=np.int8)
    for label in range(n_labels):
        Y[random.choice(n_rows, 1 + label % 8, replace=False), label] = 1
    return lt.datasets.unit_rows(X), sp.csr_array(Y)


@pytest.mark.parametrize("cost", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("bias", [0.5, 1.0])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_labels_of_short_rows_reach_the_twins_objective_and_the_stopping_rule(cost, bias, loss):
    X, Y = short_rows(12)
    model = lt.DiSMEC(cost=cost, bias=bias, loss=loss, prune_below=0.0, n_jobs=1).fit(X, Y)
    assert model.n_unconverged_ == 0
    for label in range(Y.shape[1]):
        twin = Problem(X, Y[:, [label]].toarray().ravel() > 0, cost=cost, bias=bias, loss=loss)
        w = weights_of(model, label)
        gradient = np.linalg.norm(twin.gradient(w))
        assert gradient <= twin.tolerance() * (1 + 1e-3) + 1e-4
        if label % 10 == 3:
            assert twin.objective(w) <= twin.objective(twin.solve()) + 0.5 * gradient**2 + 1e-4


def test_a_label_of_short_rows_does_not_see_the_others():
    X, Y = short_rows(13)
    together = lt.DiSMEC(n_jobs=2).fit(X, Y)
    for label in (0, 21, 39):
        alone = lt.DiSMEC(n_jobs=1).fit(X, sp.csr_array(Y[:, [label]]))
        for part, expected in zip(alone.label_weights(0), together.label_weights(label), strict=True):
            np.testing.assert_array_equal(part, expected)


# The Hessian of the logistic loss samples from 4,096 rows on.
@pytest.mark.parametrize(("loss", "n_rows"), [("squared_hinge", 400), ("logistic", 5000)])
def test_a_label_does_not_see_which_others_share_its_passes(loss, n_rows):
    X, Y = random_problem(6, n_rows=n_rows, n_labels=70)
    together = lt.DiSMEC(loss=loss, n_jobs=1).fit(X, Y)
    for label in (0, 33, 69):
        alone = lt.DiSMEC(loss=loss, n_jobs=1).fit(X, sp.csr_array(Y[:, [label]]))
        for part, expected in zip(alone.label_weights(0), together.label_weights(label), strict=True):
            np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_statistics_tell_how_each_label_was_trained(solver):
    X, Y = random_problem(7)
    model = lt.DiSMEC(solver=solver, keep_statistics=True, prune_below=0.0, n_jobs=1).fit(X, Y)
    told = model.statistics_
    assert told["iterations"].min() >= 1
    assert (told["seconds"] > 0).all()
    for label in range(Y.shape[1]):
        twin = Problem(X, Y[:, [label]].toarray().ravel() > 0)
        w = weights_of(model, label)
        assert told["last_objective"][label] == pytest.approx(twin.objective(w), rel=1e-4)
        ratio = np.linalg.norm(twin.gradient(w)) / np.linalg.norm(twin.gradient(0 * w))
        assert told["gradient_ratio"][label] == pytest.approx(ratio, rel=1e-2, abs=1e-6)
        history = slice(*told["history_indptr"][label : label + 2])
        z = twin.y * (twin.X @ w)
        assert abs(told["active_rows"][history][-1] - (z < 1).sum()) <= 1
        assert told["objectives"][history][-1] == pytest.approx(told["last_objective"][label])
        assert len(told["objectives"][history]) == told["iterations"][label] + 1
        assert told["objectives"][history][0] == told["first_objective"][label]
        if solver == "newton":
            assert told["step_cg_steps"][history].sum() == told["cg_steps"][label]
            assert told["step_cg_steps"][history][-1] == 0
            assert told["step_seconds"][history].sum() == pytest.approx(told["seconds"][label], rel=1e-3)
            assert (np.diff(told["objectives"][history]) <= 1e-5 * told["first_objective"][label]).all()


def test_statistics_are_right_where_more_rows_violate_than_a_round_keeps():
    X, Y = random_problem(14, n_rows=8000, n_features=300, n_labels=6)
    X, Y = X, sp.csr_array(Y[:, [3, 5]])
    params = {"cost": 0.1, "prune_below": 0.0, "keep_statistics": True, "n_jobs": 1}
    told = lt.DiSMEC(**params).fit(X, Y).statistics_
    for label in range(Y.shape[1]):
        twin = Problem(X, Y[:, [label]].toarray().ravel() > 0, cost=0.1)
        first = told["history_indptr"][label]
        n_rounds = told["iterations"][label]
        assert told["active_rows"][first : first + n_rounds + 1].max() > 2500  # some rounds leave rows unlisted
        for n_done in range(1, n_rounds):
            stopped = lt.DiSMEC(**params, max_iterations=n_done).fit(X, Y)
            w = weights_of(stopped, label)
            assert told["objectives"][first + n_done] == pytest.approx(twin.objective(w), rel=2e-3)
            n_active = (twin.y * (twin.X @ w) < 1).sum()
            assert told["active_rows"][first + n_done] == pytest.approx(n_active, rel=5e-3)


def test_a_sparse_matrix_with_most_entries_stored_is_trained_as_a_dense_one():
    X, Y = random_problem(23, dense=True)
    dense = lt.DiSMEC().fit(X, Y)
    sparse = lt.DiSMEC().fit(sp.csr_array(X), Y)
    assert dense.index_weights_.tobytes() == sparse.index_weights_.tobytes()
    assert dense.biases_.tobytes() == sparse.biases_.tobytes()


@pytest.mark.parametrize("cost", [0.1, 1.0])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_statistics_do_not_change_the_model(cost, dense, loss):
    X, Y = random_problem(15, n_rows=6000, n_features=100, n_labels=8, dense=dense)
    plain = lt.DiSMEC(cost=cost, loss=loss, n_jobs=1).fit(X, Y)
    told = lt.DiSMEC(cost=cost, loss=loss, keep_statistics=True, n_jobs=1).fit(X, Y)
    np.testing.assert_array_equal(told.index_weights_, plain.index_weights_)
    np.testing.assert_array_equal(told.biases_, plain.biases_)


@pytest.mark.parametrize("start", ["zero", "bias"])
def test_statistics_tell_the_distance_from_the_start(start):
    X, Y = random_problem(9, n_labels=20)
    params = {"start": start, "keep_statistics": True, "prune_below": 0.0, "n_jobs": 1}
    model = lt.DiSMEC(solver="newton", **params).fit(X, Y)
    for label in range(Y.shape[1]):
        moved = weights_of(model, label)
        moved[-1] += 2.0 if start == "bias" else 0.0
        assert model.statistics_["distance"][label] == pytest.approx(np.linalg.norm(moved), rel=1e-4)


@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_the_mean_separating_start_has_its_margins_at_the_means(solver):
    X, Y = random_problem(8, n_labels=3)
    model = lt.DiSMEC(solver=solver, keep_statistics=True, n_jobs=1).fit(X, Y)
    label = 2
    positive = Y[:, [label]].toarray().ravel() > 0
    twin = Problem(X, positive)
    means = np.stack([twin.X[positive].mean(axis=0), twin.X[~positive].mean(axis=0)])
    w0 = means.T @ np.linalg.solve(means @ means.T, [1.0, -2.0])
    assert model.statistics_["first_objective"][label] == pytest.approx(twin.objective(w0), rel=1e-4)


def test_degenerate_labels_are_trained_all_the_same():
    X, _ = random_problem(9, n_rows=50)
    Y = np.zeros((50, 4), dtype=np.int8)
    Y[:, 0] = 1  # every row: the two means point the same way
    Y[7, 1] = 1  # one row
    Y[1:, 2] = 1  # all but one
    model = lt.DiSMEC(prune_below=0.0, n_jobs=1).fit(X, Y)
    assert model.n_unconverged_ == 0
    for label in range(3):
        twin = Problem(X, Y[:, label] > 0)
        assert np.linalg.norm(twin.gradient(weights_of(model, label))) <= twin.tolerance() * (1 + 1e-4) + 1e-5
    assert 3 not in model.predict_top_k(X, top_k=4).label_ids


def test_rows_without_features_or_labels_are_negatives():
    X, Y = random_problem(10, n_rows=100, n_labels=5)
    X_more = sp.vstack([X, sp.csr_array((20, X.shape[1]), dtype=np.float32)]).tocsr()
    Y_more = sp.vstack([Y, sp.csr_array((20, Y.shape[1]), dtype=np.int8)]).tocsr()
    model = lt.DiSMEC(prune_below=0.0, n_jobs=1).fit(X_more, Y_more)
    twin = Problem(X_more, Y_more[:, [1]].toarray().ravel() > 0)
    assert np.linalg.norm(twin.gradient(weights_of(model, 1))) <= twin.tolerance() * (1 + 1e-4) + 1e-5


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("propensity", lambda p, _: 1 / p),
        ("unbiased", lambda p, _: 2 / p - 1),
        ("class-balanced", lambda p, n: (2 / p - 1) * 0.1 / (1 - 0.9**n)),
    ],
)
def test_propensities_weigh_the_positives(kind, factor):
    X, Y = random_problem(11)
    model = lt.DiSMEC(positive_weights=kind, prune_below=0.0, tolerance=1e-3, n_jobs=1).fit(X, Y)
    propensities = lt.propensity.from_labels(Y)
    for label in (0, 6, 11):
        twin = Problem(X, Y[:, [label]].toarray().ravel() > 0, weight=factor(propensities[label], Y[:, [label]].sum()))
        w = weights_of(model, label)
        assert np.linalg.norm(twin.gradient(w)) <= twin.tolerance(1e-3) * (1 + 1e-3) + 1e-4


@pytest.mark.slow
def test_a_label_does_not_depend_on_the_one_trained_before_it_in_the_same_lane(eurlex):
    X, Y = eurlex
    counts = np.asarray((Y != 0).sum(axis=0)).ravel()
    rare, before = np.flatnonzero(counts == 33), np.flatnonzero(counts > 33)[-64:]  # there are 64 lanes
    columns = Y.tocsc()
    alone = lt.DiSMEC(n_jobs=1, prune_below=0.0).fit(X, columns[:, rare].tocsr())
    after = lt.DiSMEC(n_jobs=1, prune_below=0.0).fit(X, columns[:, np.concatenate([before, rare])].tocsr())
    for place in range(len(rare)):
        for own, same in zip(alone.label_weights(place), after.label_weights(64 + place), strict=True):
            np.testing.assert_array_equal(own, same)


@pytest.mark.slow
def test_eurlex_is_as_accurate_as_published(eurlex, shared_data):
    X, Y = eurlex
    X_test, Y_test = lt.datasets.read_xmc(shared_data("eurlex/eurlex_test.txt.gz"))
    X_test = lt.datasets.unit_rows(X_test)
    model = lt.DiSMEC(n_jobs=2).fit(X, Y)
    assert model.n_unconverged_ == 0
    result = lt.metrics.evaluate(model.predict_top_k(X_test, top_k=5), Y_test)
    for k, least in ((1, 83.6), (3, 70.5), (5, 58.9)):
        assert result[f"P@{k}"] >= least


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("one_value", [True, False])
def test_huge_values_leave_a_model_that_can_be_saved(loss, one_value, tmp_path):
    X, Y = random_problem(3, n_rows=400, n_features=60, n_labels=12)
    X = X.copy()
    X.data[slice(7, 8) if one_value else slice(None)] *= np.float32(1e11)
    model = lt.DiSMEC(n_jobs=1, loss=loss, prune_below=0.0).fit(X, Y)
    assert np.all(np.isfinite(model.biases_))
    lt.save(model, tmp_path / "huge.model")


def test_weights_that_are_not_finite_are_an_error_of_fit(monkeypatch):
    X, Y = random_problem(3, n_rows=60, n_features=20, n_labels=4)
    train = training.train_label_range

    def overflow(*arguments):
        shard = dict(train(*arguments))
        shard["biases"] = np.where(np.arange(4) == 2, np.nan, shard["biases"]).astype(np.float32)
        return shard

    monkeypatch.setattr(training, "train_label_range", overflow)
    with pytest.raises(ValueError, match=r"DiSMEC: the weights of 1 label are not finite, .*unit_rows=True"):
        lt.DiSMEC(n_jobs=1).fit(X, Y)


@pytest.mark.parametrize("bias", [30.0, 300.0])
def test_a_bias_feature_longer_than_the_rows_does_not_loosen_the_solution(bias):
    X, Y = random_problem(4, n_rows=600, n_features=60, n_labels=8)
    X = lt.datasets.unit_rows(X)
    model = lt.DiSMEC(n_jobs=1, bias=bias, prune_below=0.0).fit(X, Y)
    tight = lt.DiSMEC(n_jobs=1, bias=bias, prune_below=0.0, solver="newton", tolerance=1e-5).fit(X, Y)
    assert model.n_unconverged_ == 0
    for label in range(Y.shape[1]):
        twin = Problem(X, Y[:, [label]].toarray().ravel() > 0, bias=bias)
        found, least = (twin.objective(weights_of(each, label)) for each in (model, tight))
        assert found <= 1.02 * least


def test_frequent_labels_end_near_the_minimum_at_high_costs(bibtex):
    X, Y = bibtex
    frequent = np.argsort(-np.asarray((Y != 0).sum(axis=0)).ravel())[:3]
    columns = Y.tocsc()[:, frequent].tocsr()
    model = lt.DiSMEC(n_jobs=1, cost=100.0, prune_below=0.0).fit(X, columns)
    assert model.n_unconverged_ == 0
    for label in range(3):
        is_positive = columns[:, [label]].toarray().ravel() > 0
        twin = Problem(X, is_positive, cost=100.0)
        liblinear = LinearSVC(C=100.0, dual=False, tol=1e-6).fit(X, is_positive)
        least = twin.objective(np.append(liblinear.coef_.ravel(), liblinear.intercept_[0]))
        assert twin.objective(weights_of(model, label)) <= 1.002 * least
