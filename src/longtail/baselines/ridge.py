"""Ridge regression of many targets at once, and leading eigenvectors: the linear algebra of the embedding baselines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._matrices import Matrix
from longtail.gbdt.projection import Both, Dense, conjugate_gradients

# XᵀX, or XXᵀ where there are fewer rows than features, is factorised up to this size: 8 bytes times its square, 288 MB.
# Beyond it, conjugate gradients.
_MAX_FACTORISED = 6000
_N_CG_STEPS = 50
# Relative to the diagonal: keeps the factorisation stable for repeated columns and huge values.
_FLOOR = 1e-9


class Ridge:
    """Minimises ‖T - X W - 1 bᵀ‖² + l2 ‖W‖² for any number of targets T; X is centred without a copy."""

    def __init__(self, X: Matrix, l2: float, control: _core.Control, *, max_factorised: int = _MAX_FACTORISED) -> None:
        self.rows = Both(X, 1, control)
        self.n_rows = X.shape[0]
        self.means = np.asarray(X.mean(axis=0, dtype=np.float64)).reshape(-1)
        self._l2 = l2
        self._by_rows = self.n_rows < X.shape[1]
        is_small = min(X.shape) <= max_factorised
        self._factor = _factorised(X, self.means, l2, by_rows=self._by_rows) if is_small else None

    def times(self, W: Dense) -> Dense:
        """Return the centred X times W."""
        return self.rows.times(W) - (self.means @ W).astype(np.float32)

    def transposed_times(self, T: Dense) -> Dense:
        """Return the transposed centred X times T."""
        return self.rows.transposed_times(T) - np.outer(self.means, T.sum(axis=0, dtype=np.float64)).astype(np.float32)

    def weights(self, T: Dense) -> Dense:
        """Return (XᵀX + l2)⁻¹ XᵀT = Xᵀ(XXᵀ + l2)⁻¹ T for the centred X."""
        if self._factor is not None:
            goal = T if self._by_rows else self.transposed_times(T)
            solution = scipy.linalg.cho_solve(self._factor, goal, check_finite=False)
            solution = np.ascontiguousarray(solution, dtype=np.float32)
            return self.transposed_times(solution) if self._by_rows else solution
        goal = self.transposed_times(T)
        squares = np.maximum(self.rows.column_squares - self.n_rows * self.means**2, 0)
        diagonal = (squares * (1 + _FLOOR) + self._l2).astype(np.float32)[:, None]
        start = np.zeros(goal.shape, dtype=np.float32)
        return conjugate_gradients(self._apply, diagonal, goal, start, _N_CG_STEPS)

    def regress(self, T: Dense) -> tuple[Dense, Dense]:
        """Return W and b for the targets T."""
        W = self.weights(T)
        intercepts = T.mean(axis=0, dtype=np.float64) - self.means @ W
        return W, intercepts.astype(np.float32)

    def _apply(self, W: Dense) -> Dense:
        return self.transposed_times(self.times(W)) + np.float32(self._l2) * W


def _factorised(X: Matrix, means: NDArray[np.float64], l2: float, *, by_rows: bool) -> tuple[NDArray[np.float64], bool]:
    """Factorise XᵀX + l2, or XXᵀ + l2, of the centred X."""
    wide = X.astype(np.float64)
    gram = wide @ wide.T if by_rows else wide.T @ wide
    gram = gram.toarray() if sp.issparse(gram) else gram
    if by_rows:
        shift = wide @ means
        gram -= shift[:, None] + shift
        gram += means @ means
    else:
        gram -= X.shape[0] * np.outer(means, means)
    places = np.arange(len(gram))
    gram[places, places] = np.maximum(gram[places, places], 0) * (1 + _FLOOR) + l2
    factor, is_lower = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
    return factor, is_lower


def leading_eigenvectors(
    apply: Callable[[Dense], Dense], size: int, n_vectors: int, seed: int, n_passes: int = 8
) -> tuple[NDArray[np.float64], Dense]:
    """Return the largest eigenvalues of a symmetric positive operator, and their vectors as columns.

    Subspace iteration from random vectors, all at once (Halko et al., 2011).
    """
    n_vectors = min(n_vectors, size)
    drawn = np.random.default_rng(seed).standard_normal((size, min(n_vectors + 10, size)), dtype=np.float32)
    basis, _ = np.linalg.qr(drawn)
    for _ in range(n_passes):
        basis, _ = np.linalg.qr(apply(basis))
    small = basis.T @ apply(basis)
    values, turned = np.linalg.eigh((small + small.T).astype(np.float64) / 2)
    best = np.argsort(-values, kind="stable")[:n_vectors]
    return values[best], np.ascontiguousarray(basis @ turned[:, best], dtype=np.float32)
