"""Change the weights of some labels by a few rows, without the rows that they were trained on.

A label with weights w₀ gets w₀ + v, where v minimises

    ½ Σ_f d_f·v_f² + Σ_i cost·loss(y_i·(w₀ + v)·x_i)        over the rows whose answer is known.

Training again would minimise the same with the old rows in the sum. Near w₀ these act like a quadratic whose diagonal
is d_f = 1 + 2·cost·Σ x_f² over the old rows that were active. The model does not hold them, but it says how many rows a
label had, and the share of all weights that lie on a feature stands for the share of the rows' lengths on it. So a
frequent label, and its bias most of all, moves little, and a word that the label never saw moves freely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail.dismec.state import WeightIndex

# Old rows that were active in training: the positives and about as many negatives (the classes' dual sums are equal).
_ACTIVE_PER_POSITIVE = 2.0
_MAX_STEPS = 50
_MAX_CG_STEPS = 100
_FORCING = 0.1  # conjugate gradients stop at this share of the gradient
_TOLERANCE = 1e-4
_SMALLEST_STEP = 1e-6


@dataclass(frozen=True)
class Solver:
    """What all labels of an update share."""

    loss: str
    cost: float
    bias: float
    prune_below: float = 0.0

    def slopes(self, targets: NDArray[np.float64], margins: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return value, first and second derivative by the margin of each row's loss, times the cost."""
        z = targets * margins
        if self.loss == "logistic":
            chance = 1 / (1 + np.exp(np.clip(z, -500, 500)))
            value = np.logaddexp(0, -z)
            return self.cost * value, -self.cost * targets * chance, self.cost * chance * (1 - chance)
        gap = np.maximum(0, 1 - z)
        return self.cost * gap**2, -2 * self.cost * targets * gap, np.where(gap > 0, 2 * self.cost, 0.0)


@dataclass(frozen=True)
class Rows:
    """The rows of an update over the features that occur in them, with the constant feature behind them."""

    X: sp.csr_array
    transposed: sp.csr_array
    feature_ids: NDArray[np.int64]

    @classmethod
    def of(cls, X: sp.csr_array, bias: float) -> Rows:
        """Leave out the features that no row has."""
        feature_ids = np.unique(X.indices).astype(np.int64)
        places = np.searchsorted(feature_ids, X.indices)
        words = sp.csr_array((X.data.astype(np.float64), places, X.indptr), shape=(X.shape[0], len(feature_ids)))
        constant = sp.csr_array(np.full((X.shape[0], 1), float(bias)))
        joined = sp.csr_array(sp.hstack([words, constant], format="csr"))
        return cls(joined, sp.csr_array(joined.T.tocsr()), feature_ids)


def update_label(
    solver: Solver,
    rows: Rows,
    row_ids: NDArray[np.int64] | None,
    targets: NDArray[np.float64],
    margins: NDArray[np.float64],
    precisions: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return v of one label over the features of `rows`; the last number belongs to the constant feature.

    Parameters
    ----------
    row_ids : the rows whose answer is known; None for all
    targets : float64 (n_known_rows,), 1 or -1
    margins : float64 (n_known_rows,), their scores now
    precisions : float64 (n_features_of_rows + 1,), the d_f
    """
    X = rows.X if row_ids is None else sp.csr_array(rows.X[row_ids])
    transposed = rows.transposed if row_ids is None else sp.csr_array(X.T.tocsr())
    root = np.sqrt(precisions)  # in u = root·v the old rows count like ½‖u‖²
    u, moved = np.zeros(len(root)), margins.copy()
    value, slope, curvature = solver.slopes(targets, moved)
    objective = float(value.sum())
    for _ in range(_MAX_STEPS):
        gradient = u + (transposed @ slope) / root
        norm = float(np.linalg.norm(gradient))
        if norm <= _TOLERANCE * max(1.0, objective):
            break
        step = _conjugate_gradients(X, transposed, root, curvature, -gradient, _FORCING * norm)
        along = X @ (step / root)
        size = 1.0
        while size > _SMALLEST_STEP:
            tried = u + size * step
            there = margins + X @ (tried / root) if size == 1.0 else moved + size * along
            value, slope, curvature = solver.slopes(targets, there)
            new_objective = 0.5 * float(tried @ tried) + float(value.sum())
            if new_objective < objective:
                break
            size /= 2
        else:
            break
        u, moved, objective = tried, there, new_objective
    return u / root


def _conjugate_gradients(
    X: sp.csr_array,
    transposed: sp.csr_array,
    root: NDArray[np.float64],
    curvature: NDArray[np.float64],
    right: NDArray[np.float64],
    enough: float,
) -> NDArray[np.float64]:
    """Solve (I + R⁻¹XᵀHXR⁻¹)·s = right."""
    found, residual, direction = np.zeros(len(right)), right.copy(), right.copy()
    square = float(residual @ residual)
    for _ in range(_MAX_CG_STEPS):
        image = direction + (transposed @ (curvature * (X @ (direction / root)))) / root
        rate = square / float(direction @ image)
        found += rate * direction
        residual -= rate * image
        new_square = float(residual @ residual)
        if new_square <= enough**2:
            break
        direction = residual + (new_square / square) * direction
        square = new_square
    return found


@dataclass(frozen=True)
class Corrections:
    """Rows, and what is known about some labels of each."""

    X: sp.csr_array
    label_ids: NDArray[np.int64]
    right: sp.csc_array
    wrong: sp.csc_array
    is_complete: NDArray[np.bool_]

    @classmethod
    def checked(
        cls, X: sp.csr_array, label_ids: NDArray[np.int64], right: Any, wrong: Any, complete: ArrayLike | bool
    ) -> Corrections:
        """Check that everything has the same shape."""
        shape = (X.shape[0], len(label_ids))
        known = []
        for name, given in (("right", right), ("wrong", wrong)):
            matrix = sp.csc_array(shape, dtype=np.float32) if given is None else sp.csc_array(given, dtype=np.float32)
            if matrix.shape != shape:
                raise ValueError(f"DiSMEC: {name} must have shape {shape}, got {matrix.shape}")
            matrix.eliminate_zeros()
            known.append(matrix)
        if (known[0].multiply(known[1])).nnz:
            raise ValueError("DiSMEC: right and wrong must not both have a label of a row")
        return cls(X, label_ids, known[0], known[1], np.broadcast_to(np.asarray(complete, dtype=bool), (shape[0],)))

    @property
    def n_right(self) -> NDArray[np.int64]:
        """Rows that have each label."""
        return np.asarray(np.diff(self.right.indptr), dtype=np.int64)

    def known_rows(self, place: int, *, is_new: bool) -> tuple[NDArray[np.int64] | None, NDArray[np.float64]]:
        """Return the rows that say something about a label (None: all), and 1 or -1 for each."""
        targets = np.full(self.X.shape[0], -1.0)
        right = self.right.indices[self.right.indptr[place] : self.right.indptr[place + 1]]
        targets[right] = 1
        if is_new or self.is_complete.all():
            return None, targets
        is_known = self.is_complete.copy()
        is_known[right] = True
        is_known[self.wrong.indices[self.wrong.indptr[place] : self.wrong.indptr[place + 1]]] = True
        row_ids = np.flatnonzero(is_known)
        return row_ids, targets[row_ids]


def correct(
    solver: Solver, index: WeightIndex, label_counts: NDArray[np.int64], n_rows: int, corrections: Corrections
) -> WeightIndex:
    """Return the index with the weights of the corrected labels changed."""
    rows, label_ids = Rows.of(corrections.X, solver.bias), corrections.label_ids
    n_old = len(label_counts)
    old = _columns_of(index, label_ids, n_old)
    # A label that no row has is trained to the margin -1.
    biases = np.full(len(label_ids), -1.0 if solver.bias else 0.0)
    biases[label_ids < n_old] = index.biases[label_ids[label_ids < n_old]]
    shares = feature_shares(index)
    by_word = sp.csr_array(old[:, rows.feature_ids])
    parts: list[sp.csr_array] = []
    for place, label_id in enumerate(label_ids.tolist()):
        is_new = label_id >= n_old or label_counts[label_id] == 0
        row_ids, targets = corrections.known_rows(place, is_new=is_new)
        weights = by_word[[place]].toarray().ravel().astype(np.float64)
        margins = rows.X @ np.append(weights, biases[place] / solver.bias if solver.bias else 0.0)
        # Any row may speak against a new label: as many are taken to be active as there were.
        n_active = float(n_rows) if is_new else _ACTIVE_PER_POSITIVE * float(label_counts[label_id])
        scale = precisions(shares, rows, n_active, solver)
        known = margins if row_ids is None else margins[row_ids]
        change = update_label(solver, rows, row_ids, targets, known, scale)
        biases[place] += change[-1] * solver.bias
        parts.append(_with_change(old[[place]], rows.feature_ids, weights, change[:-1], solver.prune_below))
    columns = sp.csr_array(sp.vstack(parts, format="csr")) if parts else old
    return replace_columns(index, label_ids, columns, biases.astype(np.float32))


def _columns_of(index: WeightIndex, label_ids: NDArray[np.int64], n_labels: int) -> sp.csr_array:
    """Return the weights of some labels, float32 (n_chosen, n_features); labels that are not there have none."""
    n_features = len(index.indptr) - 1
    place_of = np.full(max(n_labels, 1), -1, dtype=np.int64)
    known = label_ids < n_labels
    place_of[label_ids[known]] = np.flatnonzero(known)
    entries = np.flatnonzero(place_of[index.label_ids] >= 0)
    features = np.searchsorted(index.indptr, entries, side="right") - 1
    rows = place_of[index.label_ids[entries]]
    return sp.csr_array((index.weights_at(entries), (rows, features)), shape=(len(label_ids), n_features))


def _with_change(
    column: sp.csr_array,
    feature_ids: NDArray[np.int64],
    weights: NDArray[np.float64],
    change: NDArray[np.float64],
    prune_below: float,
) -> sp.csr_array:
    """Replace the weights that changed; those that became small are dropped."""
    moved = np.flatnonzero(change)
    changed = (weights[moved] + change[moved]).astype(np.float32)
    stays = ~np.isin(column.indices, feature_ids[moved])
    large = np.abs(changed) >= prune_below
    indices = np.concatenate([column.indices[stays], feature_ids[moved][large]])
    values = np.concatenate([column.data[stays], changed[large]])
    order = np.argsort(indices, kind="stable")
    indptr = np.array([0, len(indices)])
    return sp.csr_array((values[order], indices[order], indptr), shape=column.shape)


def feature_shares(index: WeightIndex) -> NDArray[np.float64]:
    """Return the share of all weights that lie on each feature."""
    sizes = np.diff(index.indptr).astype(np.float64)
    return np.asarray(sizes / max(1.0, sizes.sum()))


def precisions(shares: NDArray[np.float64], rows: Rows, n_active: float, solver: Solver) -> NDArray[np.float64]:
    """Return d_f for the features of `rows` and the constant feature; see the module."""
    return 1 + 2 * solver.cost * n_active * np.append(shares[rows.feature_ids], solver.bias**2)


def replace_columns(
    index: WeightIndex, label_ids: NDArray[np.int64], columns: sp.csr_array, biases: NDArray[np.float32]
) -> WeightIndex:
    """Put the weights `columns` (n_changed_labels, n_features) in the place of those labels; all others stay.

    `label_ids` increase; ids from the number of labels of the index on are new labels.
    """
    n_features = len(index.indptr) - 1
    n_old, n_labels = len(index.biases), max(len(index.biases), int(label_ids.max(initial=-1)) + 1)
    is_changed = np.zeros(n_labels, dtype=bool)
    is_changed[label_ids] = True
    kept = ~is_changed[index.label_ids]
    sizes = np.diff(index.indptr)
    features = np.repeat(np.arange(n_features, dtype=np.int64), sizes)[kept]
    kept_ids = index.label_ids[kept]
    by_feature = columns.tocsc()
    by_feature.sort_indices()
    new_features = np.repeat(np.arange(n_features, dtype=np.int64), np.diff(by_feature.indptr))
    new_ids = label_ids[by_feature.indices].astype(np.int32)
    places = np.searchsorted(features * n_labels + kept_ids, new_features * n_labels + new_ids)
    indptr = np.zeros(n_features + 1, dtype=np.int64)
    counts = np.bincount(features, minlength=n_features) + np.bincount(new_features, minlength=n_features)
    np.cumsum(counts, out=indptr[1:])
    all_biases = np.concatenate([index.biases, np.zeros(n_labels - n_old, np.float32)])
    all_biases[label_ids] = biases
    weights, codes, scales = index.weights, index.codes, index.scales
    if index.is_int8:
        scales = np.concatenate([scales, np.zeros(n_labels - n_old, np.float32)])
        largest = np.zeros(len(label_ids), dtype=np.float32)
        np.maximum.at(largest, by_feature.indices, np.abs(by_feature.data))
        scales[label_ids] = largest / np.float32(127)
        step = scales[new_ids]
        new_codes = np.rint(by_feature.data / np.where(step > 0, step, 1)).astype(np.int8)
        codes = np.insert(codes[kept], places, new_codes)
    else:
        weights = np.insert(weights[kept], places, by_feature.data.astype(np.float32))
    return WeightIndex(indptr, np.insert(kept_ids, places, new_ids), weights, codes, scales, all_biases)


def insert_features(index: WeightIndex, places: NDArray[np.int64]) -> WeightIndex:
    """Insert features without weights before the features at `places`; every stored weight stays where it is."""
    return WeightIndex(
        np.insert(index.indptr, places, index.indptr[places]),
        index.label_ids,
        index.weights,
        index.codes,
        index.scales,
        index.biases,
    )
