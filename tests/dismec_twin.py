"""The naive twin of the DiSMEC solvers: NumPy, float64, one label, no tricks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


class Problem:
    """½‖w‖² + Σ c φ(y·w·x) for one label, the bias feature appended to X."""

    def __init__(self, X, positive, *, cost=1.0, bias=1.0, loss="squared_hinge", regularize_bias=True, weight=1.0):
        self.X = sp.hstack([sp.csr_array(X).astype(np.float64), np.full((X.shape[0], 1), bias)]).tocsr()
        self.y = np.where(positive, 1.0, -1.0)
        self.c = np.where(positive, cost * weight, cost)
        self.loss = loss
        self.penalty = np.ones(self.X.shape[1])
        if not regularize_bias:
            self.penalty[-1] = 0

    def objective(self, w):
        z = self.y * (self.X @ w)
        losses = np.maximum(0, 1 - z) ** 2 if self.loss == "squared_hinge" else np.logaddexp(0, -z)
        return 0.5 * w @ (self.penalty * w) + self.c @ losses

    def gradient(self, w):
        z = self.y * (self.X @ w)
        slope = -2 * np.maximum(0, 1 - z) if self.loss == "squared_hinge" else -1 / (1 + np.exp(z))
        return self.penalty * w + self.X.T @ (self.c * self.y * slope)

    def hessian(self, w):
        z = self.y * (self.X @ w)
        curvature = 2.0 * (z < 1) if self.loss == "squared_hinge" else 1 / ((1 + np.exp(z)) * (1 + np.exp(-z)))
        return np.diag(self.penalty) + (self.X.T @ sp.diags_array(self.c * curvature) @ self.X).toarray()

    def tolerance(self, epsilon=0.01):
        """The right-hand side of eq. 12, with eq. 13."""
        n = len(self.y)
        minority = min((self.y > 0).sum(), (self.y < 0).sum())
        return epsilon * max(1, minority) / n * np.linalg.norm(self.gradient(np.zeros(self.X.shape[1])))

    def solve(self, tolerance=1e-9):
        """Newton with an exact solve and backtracking, to far below the stopping rule."""
        w = np.zeros(self.X.shape[1])
        for _ in range(200):
            g = self.gradient(w)
            if np.linalg.norm(g) <= tolerance * max(1, np.linalg.norm(self.gradient(0 * w))):
                break
            p = -np.linalg.solve(self.hessian(w) + 1e-12 * np.eye(len(w)), g)
            step = 1.0
            while self.objective(w + step * p) > self.objective(w) + 0.01 * step * (g @ p) and step > 1e-10:
                step /= 2
            w = w + step * p
        return w


def weights_of(model, label_id):
    """The weights of a fitted model as the twin writes them: n_features + 1, the bias weight last."""
    features, weights, bias = model.label_weights(label_id)
    w = np.zeros(model.n_features_in_ + 1)
    w[features] = weights
    w[-1] = bias / model.bias if model.bias else 0
    return w


def random_problem(seed, *, n_rows=300, n_features=60, n_labels=12, dense=False):
    """Rows of unit length and labels that depend on them: a few frequent, most rare."""
    random = np.random.default_rng(seed)
    X = sp.random_array((n_rows, n_features), density=0.15, rng=random, dtype=np.float32).tocsr()
    if dense:
        X = random.standard_normal((n_rows, n_features)).astype(np.float32) / np.sqrt(n_features)
    else:
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        X = sp.csr_array(sp.diags_array((1 / np.maximum(norms, 1e-9)).astype(np.float32)) @ X)
    scores = np.asarray(X @ random.standard_normal((n_features, n_labels)))
    counts = np.maximum(1, n_rows // (2 + 4 * np.arange(n_labels)))
    Y = np.zeros((n_rows, n_labels), dtype=np.int8)
    for label in range(n_labels):
        Y[np.argsort(-scores[:, label], kind="stable")[: counts[label]], label] = 1
    return X, sp.csr_array(Y)
