"""Change the weights of some labels by a few rows, without the rows that they were trained on.

A label with weights w₀ gets w₀ + v, where v minimises

    ½ Σ_f d_f·v_f² + Σ_i cost·(q_i·loss(s_i) + (1 − q_i)·loss(−s_i)),        s_i = (w₀ + v)·x_i

over the rows of the corrections. q_i is 1 where the label is right and 0 where it is wrong. Where nobody said so, it
is the share that makes the loss least at the score w₀·x_i: such a row speaks for what the model says already. Without
it, only right labels would be known in many texts, and every corrected label would become too probable. Where a right
label would have been named with chance c, its silence says something: that share q becomes (1 − c)·q / (1 − c·q).

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

from longtail.dismec.rounding import Steps
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

    def slopes(self, shares: NDArray[np.float64], margins: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Return value, first and second derivative by the margin of each row's loss, times the cost."""
        if self.loss == "logistic":
            chance = _logistic(margins)
            value = np.logaddexp(0, margins) - shares * margins
            return self.cost * value, self.cost * (chance - shares), self.cost * chance * (1 - chance)
        below, above = np.maximum(0, 1 - margins), np.maximum(0, 1 + margins)
        value = shares * below**2 + (1 - shares) * above**2
        slope = (1 - shares) * above - shares * below
        curvature = shares * (below > 0) + (1 - shares) * (above > 0)
        return self.cost * value, 2 * self.cost * slope, 2 * self.cost * curvature

    def shares_at(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of right answers for which the loss is least at these scores."""
        return _logistic(margins) if self.loss == "logistic" else np.clip((1 + margins) / 2, 0, 1)


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
    shares: NDArray[np.float64],
    margins: NDArray[np.float64],
    precisions: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return v of one label over the features of `rows`; the last number belongs to the constant feature.

    Parameters
    ----------
    shares : float64 (n_rows,) in [0, 1], the q_i
    margins : float64 (n_rows,), their scores now
    precisions : float64 (n_features_of_rows + 1,), the d_f
    """
    X, transposed = rows.X, rows.transposed
    root = np.sqrt(precisions)  # in u = root·v the old rows count like ½‖u‖²
    u, moved = np.zeros(len(root)), margins.copy()
    value, slope, curvature = solver.slopes(shares, moved)
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
            value, slope, curvature = solver.slopes(shares, there)
            new_objective = 0.5 * float(tried @ tried) + float(value.sum())
            if new_objective < objective:
                break
            size /= 2
        else:
            break
        u, moved, objective = tried, there, new_objective
    return u / root


def _logistic(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * margins)))


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
    complete: NDArray[np.float64]

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
        shares = np.asarray(complete, dtype=np.float64)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(f"DiSMEC: complete must be in [0, 1], got {complete!r}")
        return cls(X, label_ids, known[0], known[1], np.broadcast_to(shares, (shape[0],)))

    @property
    def n_right(self) -> NDArray[np.int64]:
        """Rows that have each label."""
        return np.asarray(np.diff(self.right.indptr), dtype=np.int64)

    def shares(self, place: int, otherwise: NDArray[np.float64], *, is_new: bool) -> NDArray[np.float64]:
        """Return 1 for rows that have a label, 0 for those that have not, and what `otherwise` becomes elsewhere."""
        named = np.where(is_new, 1.0, self.complete)
        left = (1 - named) * otherwise
        found = left / np.where(left > 0, 1 - named * otherwise, 1.0)
        found[self.wrong.indices[self.wrong.indptr[place] : self.wrong.indptr[place + 1]]] = 0
        found[self.right.indices[self.right.indptr[place] : self.right.indptr[place + 1]]] = 1
        return found


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
        weights = by_word[[place]].toarray().ravel().astype(np.float64)
        margins = rows.X @ np.append(weights, biases[place] / solver.bias if solver.bias else 0.0)
        # Any row may speak against a new label: as many are taken to be active as there were.
        n_active = float(n_rows) if is_new else _ACTIVE_PER_POSITIVE * float(label_counts[label_id])
        scale = precisions(shares, rows, n_active, solver)
        answers = corrections.shares(place, solver.shares_at(margins), is_new=is_new)
        change = update_label(solver, rows, answers, margins, scale)
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
    new_weights = by_feature.data.astype(np.float32)
    scales, new_codes = index.scales, index.codes[:0]
    if index.is_int8:
        steps = Steps.of(columns.indptr, columns.data.astype(np.float32))
        rounded = steps.round(new_weights, by_feature.indices)
        is_kept = rounded.is_kept
        new_features, new_ids, new_codes = new_features[is_kept], new_ids[is_kept], rounded.codes[is_kept]
        new_weights = np.where(rounded.is_exact, new_weights, np.float32(0))[is_kept]
        scales = np.concatenate([scales, np.zeros(n_labels - n_old, np.float32)])
        scales[label_ids] = steps.scales
    places = np.searchsorted(features * n_labels + kept_ids, new_features * n_labels + new_ids)
    indptr = np.zeros(n_features + 1, dtype=np.int64)
    counts = np.bincount(features, minlength=n_features) + np.bincount(new_features, minlength=n_features)
    np.cumsum(counts, out=indptr[1:])
    all_biases = np.concatenate([index.biases, np.zeros(n_labels - n_old, np.float32)])
    all_biases[label_ids] = biases
    weights = np.insert(index.unpacked()[kept], places, new_weights)
    codes = np.insert(index.codes[kept], places, new_codes) if index.is_int8 else index.codes
    return WeightIndex.packed(indptr, np.insert(kept_ids, places, new_ids), weights, codes, scales, all_biases)


def changed_labels(
    before: WeightIndex, after: WeightIndex, label_ids: NDArray[np.int64], places: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return those labels whose weights are other bits in `after`, which has new features at `places`."""
    is_asked = np.zeros(max(len(before.biases), len(after.biases)), dtype=bool)
    is_asked[label_ids] = True
    features = np.arange(len(before.indptr) - 1)
    old = _entries(before, features + np.searchsorted(places, features, side="right"), is_asked)
    new = _entries(after, np.arange(len(after.indptr) - 1), is_asked)
    is_changed = before.biases[label_ids].view(np.int32) != after.biases[label_ids].view(np.int32)
    if before.is_int8:
        is_changed |= before.scales[label_ids].view(np.int32) != after.scales[label_ids].view(np.int32)
    if not all(np.array_equal(np.asarray(one), np.asarray(other)) for one, other in zip(old, new, strict=True)):
        entries = [set(zip(*(part.tolist() for part in parts), strict=True)) for parts in (old, new)]
        is_changed |= np.isin(label_ids, [label_id for label_id, _, _ in entries[0] ^ entries[1]])
    return np.asarray(label_ids[is_changed])


def _entries(
    index: WeightIndex, features: NDArray[np.int64], is_asked: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[Any]]:
    """Return label, feature and bits of each weight of some labels, in the order of the index."""
    kept = is_asked[index.label_ids]
    bits = index.unpacked().view(np.int32).astype(np.int64)
    if index.is_int8:
        bits = bits * 256 + index.codes
    return index.label_ids[kept], np.repeat(features, np.diff(index.indptr))[kept], bits[kept]


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
