"""Projections of sparse rows to a few dense columns: random, PCA, LEML."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._matrices import Matrix, canonical_csr, native_rows
from longtail.execution import Group, Run, Shard

Dense = NDArray[np.float32]


class Factors(NamedTuple):
    """The factors of LEML: X W Hᵀ approximates Y."""

    W: Dense  # (n_features, n_components)
    H: Dense  # (n_labels, n_components)
    objectives: NDArray[np.float64]  # after each half step; never increases


def project(X: Matrix, W: Dense, n_threads: int, control: _core.Control) -> Dense:
    """Return X W; the cost of a sparse row is its non-zeros, and no row depends on another."""
    return _core.multiply(native_rows(X), W, n_threads, control)


def scaled_rows(X: Matrix, scales: NDArray[np.float32]) -> Matrix:
    """Multiply each row by a number: by √w, it counts w times in a sum of squares."""
    if not sp.issparse(X):
        return np.ascontiguousarray(X * scales[:, None])
    values = X.data.astype(np.float32) * np.repeat(scales, np.diff(X.indptr))
    return sp.csr_array((values, X.indices, X.indptr), shape=X.shape)


def random_projection(n_features: int, n_components: int, seed: int) -> Dense:
    """Draw a Gaussian matrix that keeps lengths in expectation."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n_features, n_components), dtype=np.float32)
    return W / np.float32(np.sqrt(n_components))


def pca_projection(
    X: Matrix, n_components: int, seed: int, n_threads: int, control: _core.Control, n_passes: int = 4
) -> Dense:
    """Find the leading principal axes by randomised subspace iteration (Halko et al., 2011), centred without a copy."""
    both = Both(X, n_threads, control)
    means = np.asarray(X.mean(axis=0), dtype=np.float32).reshape(1, -1)
    n_drawn = min(n_components + 10, *X.shape)
    axes = np.random.default_rng(seed).standard_normal((X.shape[1], n_drawn), dtype=np.float32)
    with one_blas_thread():
        for _ in range(n_passes):
            rows, _ = np.linalg.qr(both.times(axes) - means @ axes)
            axes, _ = np.linalg.qr(both.transposed_times(rows) - means.T * rows.sum(axis=0))
        _, _, turned = np.linalg.svd(both.times(axes) - means @ axes, full_matrices=False)
    return np.ascontiguousarray((axes @ turned.T)[:, :n_components], dtype=np.float32)


def leml_projection(
    X: Matrix,
    Y: sp.csr_array,
    n_components: int,
    l2: float,
    n_iterations: int,
    seed: int,
    n_threads: int,
    control: _core.Control,
) -> Factors:
    """Minimise ‖Y - X W Hᵀ‖² + l2 (‖W‖² + ‖H‖²) in this process; `LemlSteps` does the same on the workers of a run."""
    worker = LemlWorker(X, Y, n_components, l2, seed, n_threads, control=control)
    rounds = [worker.iterate() for _ in range(n_iterations)]
    return Factors(rounds[-1].W, rounds[-1].H, np.concatenate([part.objectives for part in rounds]))


class LemlWorker:
    """Alternating minimisation for LEML (Yu et al., 2014, squared loss); holds the data and the current W.

    H has a closed form. For W, the eigenvectors V of HᵀH turn the problem into n_components independent ridge
    regressions over the same X, which conjugate gradients solve together, with one pass over X and Xᵀ per iteration.
    """

    def __init__(
        self,
        X: Matrix,
        Y: sp.csr_array,
        n_components: int,
        l2: float,
        seed: int,
        n_threads: int,
        *,
        control: _core.Control,
    ) -> None:
        if n_components > X.shape[1]:
            raise ValueError(f"at most n_features = {X.shape[1]} components are possible, got {n_components}")
        self._rows, self._labels = Both(X, n_threads, control), Both(Y, n_threads, control)
        self._squares, self._l2 = float(np.square(Y.data, dtype=np.float64).sum()), l2
        # Begin in the range of XᵀY: the directions of X that carry labels.
        drawn = np.random.default_rng(seed).standard_normal((Y.shape[1], n_components), dtype=np.float32)
        with one_blas_thread():
            W, _ = np.linalg.qr(self._rows.transposed_times(self._labels.times(drawn)))
        self._W = np.ascontiguousarray(W, dtype=np.float32)

    def resume(self, W: Dense) -> None:
        """Go on from the W of an earlier iteration."""
        self._W = np.ascontiguousarray(W)

    def iterate(self) -> Factors:
        """Solve for H, then for W; return both with the objective after each."""
        with one_blas_thread():
            rows, labels, W, l2 = self._rows, self._labels, self._W, self._l2
            Z = rows.times(W)
            gram = _gram(Z)
            mixed = labels.transposed_times(Z)
            H = _solve_ridge(gram, mixed, l2)
            before = _objective(self._squares, gram, mixed, H, W, l2)
            W = _solve_for_w(rows, labels, W, H, l2)
            Z = rows.times(W)
            after = _objective(self._squares, _gram(Z), labels.transposed_times(Z), H, W, l2)
            self._W, H = _balanced(W, H)
        return Factors(self._W, H, np.array([before, after]))


class LemlSteps:
    """The iterations of LEML as steps of a run, on one worker of its executor. Each step has all that came before."""

    def __init__(self, run: Run, X: Matrix, Y: sp.csr_array, n_components: int, l2: float, seed: int) -> None:
        self._W: Dense | None = None
        self._objectives = np.zeros(0)
        self._workers = run.workers(
            LemlWorker, lambda shape: [[X, Y, n_components, l2, seed, shape.n_threads]], self._resume
        )

    def advance(self, step_id: int) -> Shard:
        found: Factors = self._workers.ask(lambda group: group("iterate")[0], f"iteration {step_id}")
        self._W = found.W
        self._objectives = np.concatenate([self._objectives, found.objectives])
        return {"W": found.W, "H": found.H, "objectives": self._objectives}

    def restore(self, step_id: int, shard: Shard) -> None:
        self._W, self._objectives = shard["W"], shard["objectives"]

    def is_done(self) -> bool:
        return False

    def close(self) -> None:
        """End the worker."""
        self._workers.close()

    def _resume(self, group: Group) -> None:
        if self._W is not None:
            group("resume", self._W)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: sums, and so the last bits of a model, depend on the number of threads."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


class Both:
    """A matrix that is multiplied from both sides; a sparse one is transposed once."""

    def __init__(self, X: Matrix, n_threads: int, control: _core.Control) -> None:
        self._X = X
        self._transposed = canonical_csr(X.T) if sp.issparse(X) else None
        self._n_threads, self._control = n_threads, control
        squares = X.power(2) if sp.issparse(X) else np.square(X)
        self.column_squares: Dense = np.asarray(squares.sum(axis=0), dtype=np.float32).reshape(-1)

    def times(self, W: Dense) -> Dense:
        return project(self._X, np.ascontiguousarray(W, dtype=np.float32), self._n_threads, self._control)

    def transposed_times(self, S: Dense) -> Dense:
        if self._transposed is None:
            return np.asarray(self._X.T @ S, dtype=np.float32)
        S = np.ascontiguousarray(S, dtype=np.float32)
        return project(self._transposed, S, self._n_threads, self._control)


def _gram(Z: Dense) -> NDArray[np.float64]:
    return np.asarray(Z.T @ Z, dtype=np.float64)


def _solve_ridge(gram: NDArray[np.float64], mixed: Dense, l2: float) -> Dense:
    """Return H = YᵀZ (ZᵀZ + l2 I)⁻¹."""
    factor = scipy.linalg.cho_factor(gram + l2 * np.eye(len(gram)))
    return np.ascontiguousarray(scipy.linalg.cho_solve(factor, mixed.T).T, dtype=np.float32)


def _solve_for_w(rows: Both, labels: Both, W: Dense, H: Dense, l2: float, n_steps: int = 8) -> Dense:
    """Improve W by conjugate gradients on (XᵀX w_j) λ_j + l2 w_j = (XᵀYHV)_j, every column j with its own steps."""
    weights, V = np.linalg.eigh(_gram(H))
    weights = np.maximum(weights, 0).astype(np.float32)
    V = V.astype(np.float32)
    W = W @ V
    goal = rows.transposed_times(labels.times(H @ V))

    def apply(S: Dense) -> Dense:
        return np.asarray(rows.transposed_times(rows.times(S)) * weights + np.float32(l2) * S, dtype=np.float32)

    diagonal = rows.column_squares[:, None] * weights + np.float32(l2)
    W = conjugate_gradients(apply, diagonal, goal, W, n_steps)
    return np.ascontiguousarray(W @ V.T, dtype=np.float32)


def conjugate_gradients(apply: Callable[[Dense], Dense], diagonal: Dense, goal: Dense, W: Dense, n_steps: int) -> Dense:
    """Improve the solution W of apply(W) = goal in place, every column with its own step sizes.

    Jacobi preconditioning: features of very different scale (raw tf-idf) converge as fast as equal ones.
    """
    residual = goal - apply(W)
    direction = residual / diagonal
    size = np.einsum("ij,ij->j", residual, direction, dtype=np.float64)
    for _ in range(n_steps):
        applied = apply(direction)
        step = _ratio(size, np.einsum("ij,ij->j", direction, applied, dtype=np.float64))
        W += direction * step
        residual -= applied * step
        scaled = residual / diagonal
        new_size = np.einsum("ij,ij->j", residual, scaled, dtype=np.float64)
        direction = scaled + direction * _ratio(new_size, size)
        size = new_size
    return W


def _ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float32]:
    """Divide; columns that are already solved (0 / 0) stay as they are."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0).astype(np.float32)


def _balanced(W: Dense, H: Dense) -> tuple[Dense, Dense]:
    """Give each pair of columns equal norms: this keeps the product and minimises the regulariser."""
    w_norms, h_norms = np.linalg.norm(W, axis=0), np.linalg.norm(H, axis=0)
    used = (w_norms > 0) & (h_norms > 0)
    scale = np.ones_like(w_norms)
    scale[used] = np.sqrt(h_norms[used] / w_norms[used])
    return W * scale, H / scale


def _objective(squares: float, gram: NDArray[np.float64], mixed: Dense, H: Dense, W: Dense, l2: float) -> float:
    """Return ‖Y‖² - 2 ⟨YᵀZ, H⟩ + ⟨ZᵀZ, HᵀH⟩ + l2 (‖W‖² + ‖H‖²) without making Y dense."""
    fit = squares - 2 * np.vdot(mixed.astype(np.float64), H) + np.vdot(gram, _gram(H))
    return float(fit + l2 * (np.vdot(W.astype(np.float64), W) + np.vdot(H.astype(np.float64), H)))
