"""Objectives of frequent labels against LIBLINEAR's minimum."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import longtail as lt


def frequent_problem(seed: int):
    """Make unit sparse rows and one label of half of them, which no plane separates."""
    random = np.random.default_rng(seed)
    X = sp.random_array((600, 120), density=0.1, rng=random, dtype=np.float32, format="csr")
    X = lt.datasets.unit_rows(X)
    is_positive = X @ random.standard_normal(120) + 0.3 * random.standard_normal(600) > 0.0
    return X, is_positive


def objective(X, is_positive, weights, bias, loss, cost) -> float:
    margins = np.where(is_positive, 1.0, -1.0) * (X.astype(np.float64) @ weights + bias)
    losses = np.maximum(0.0, 1.0 - margins) ** 2 if loss == "squared_hinge" else np.logaddexp(0.0, -margins)
    return 0.5 * float(weights @ weights + bias * bias) + cost * float(losses.sum())


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("cost", [1.0, 10.0])
@pytest.mark.parametrize("seed", range(4))
def test_newton_steps_end_near_the_minimum_of_frequent_labels(loss, cost, seed):
    X, is_positive = frequent_problem(seed)
    Y = sp.csr_array(is_positive[:, None].astype(np.int8))
    model = lt.DiSMEC(loss=loss, cost=cost, start="zero", prune_below=0.0, n_jobs=1).fit(X, Y)
    weights = np.zeros(X.shape[1])
    feature_ids, values, bias = model.label_weights(0)
    weights[feature_ids] = values
    if loss == "squared_hinge":
        twin = LinearSVC(dual=False, C=cost, tol=1e-6, max_iter=10_000)
    else:
        twin = LogisticRegression(solver="liblinear", C=cost, tol=1e-6, max_iter=10_000)
    twin.fit(X, is_positive)
    least = objective(X, is_positive, twin.coef_.ravel(), float(twin.intercept_[0]), loss, cost)
    assert model.n_unconverged_ == 0
    assert objective(X, is_positive, weights, bias, loss, cost) <= (1 + 1e-4) * least
