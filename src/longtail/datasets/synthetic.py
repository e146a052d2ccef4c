"""Synthetic data with a known answer: rows are sums of their labels' prototypes, plus noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longtail._rules import SEED, Bool, Int, Real, Rule, check_params
from longtail.datasets._csr import build_csr, build_labels

if TYPE_CHECKING:
    from longtail.datasets._csr import Csr

# Rows and labels are made in blocks, each from its own random stream: memory stays bounded, and the first rows of a
# larger set with the same labels are those of a smaller one.
_ROWS_PER_BLOCK = 2048
_LABELS_PER_BLOCK = 65536
_PROTOTYPES, _ROWS = 0, 1  # which stream
_MAX_DRAWS = 16

_RULES: dict[str, tuple[Rule, ...]] = {
    "n_rows": (Int(0),),
    "n_features": (Int(1, 2**31 - 1),),
    "n_labels": (Int(1, 2**31 - 1),),
    "labels_per_row": (Real(1),),
    "features_per_label": (Int(1),),
    "zipf_exponent": (Real(0),),
    "noise": (Real(0),),
    "dense": (Bool(),),
    "random_state": SEED,
}


@dataclass(frozen=True)
class Synthetic:
    """Rows, their labels, and the prototypes they were made of."""

    X: Csr | NDArray[np.float32] = field(repr=False)
    Y: Csr = field(repr=False)
    prototypes: Csr | NDArray[np.float32] = field(repr=False)


def make_synthetic(
    n_rows: int = 1000,
    n_features: int = 1000,
    n_labels: int = 100,
    labels_per_row: float = 3.0,
    *,
    features_per_label: int = 20,
    zipf_exponent: float = 1.0,
    noise: float = 0.1,
    dense: bool = False,
    random_state: int = 0,
) -> Synthetic:
    """Make a data set whose right answer is known.

    Every label has a prototype of length 1, a sparse one with `features_per_label` random features (or a dense one with
    a random direction). A row draws its labels, label ``l`` with a chance in proportion to
    ``(l + 1) ** -zipf_exponent``, and is the sum of their prototypes, each weighted between 0.5 and 1.5, plus noise.
    With little noise, and as long as the features suffice to tell the labels apart, ranking labels by
    ``X @ prototypes.T`` is nearly perfect: any method can be measured against that.

    Parameters
    ----------
    n_rows, n_features, n_labels : int
    labels_per_row : float, default 3.0
        On average; each row has at least one. The numbers are 1 + Poisson.
    features_per_label : int, default 20
        Non-zeros of a prototype; not used when `dense`.
    zipf_exponent : float, default 1.0
        0 makes all labels equally frequent; larger values make the tail longer.
    noise : float, default 0.1
        Sparse: wrong features added, as a share of those a row should have. Dense: length of a Gaussian vector
        added, as a share of the row's length.
    dense : bool, default False
        Make X and the prototypes dense arrays.
    random_state : int, default 0
        Same seed, same data.

    Returns
    -------
    data : Synthetic
        ``X`` (csr_array or ndarray, float32, n_rows × n_features), ``Y`` (csr_array of ones, n_rows × n_labels) and
        ``prototypes`` (like X, n_labels × n_features). A million labels and rows take less than 3 GB while being made.

    Examples
    --------
    >>> import numpy as np
    >>> import longtail as lt
    >>> data = lt.datasets.make_synthetic(200, 5000, 50, labels_per_row=1, noise=0.0)
    >>> scores = (data.X @ data.prototypes.T).toarray()
    >>> bool(np.all(data.Y[np.arange(200), scores.argmax(axis=1)] == 1))
    True
    """
    check_params("make_synthetic", {name: value for name, value in locals().items() if name in _RULES}, _RULES)
    prototypes = (
        _dense_prototypes(n_labels, n_features, random_state)
        if dense
        else _sparse_prototypes(n_labels, n_features, features_per_label, random_state)
    )
    chances = np.cumsum((1.0 + np.arange(n_labels)) ** -zipf_exponent)
    chances /= chances[-1]
    label_blocks: list[Csr] = []
    feature_blocks: list[Any] = []
    for block, first_row in enumerate(range(0, n_rows, _ROWS_PER_BLOCK)):
        # The whole block is drawn, then cut: so its rows do not depend on n_rows.
        stream = _stream(random_state, _ROWS, block)
        Y = _draw_labels(stream, chances, labels_per_row)
        X = _add_noise(stream, _weighted(stream, Y) @ prototypes, noise)
        n_wanted = min(_ROWS_PER_BLOCK, n_rows - first_row)
        label_blocks.append(Y[:n_wanted])
        feature_blocks.append(X[:n_wanted])
    return Synthetic(
        np.concatenate([np.zeros((0, n_features), np.float32), *feature_blocks])
        if dense
        else _stack(feature_blocks, n_features),
        _stack(label_blocks, n_labels),
        prototypes,
    )


def _stream(random_state: int, purpose: int, block: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(random_state, spawn_key=(purpose, block)))


def _blocks_of_labels(n_labels: int, random_state: int) -> Iterator[tuple[int, np.random.Generator]]:
    for block, first_label in enumerate(range(0, n_labels, _LABELS_PER_BLOCK)):
        yield min(_LABELS_PER_BLOCK, n_labels - first_label), _stream(random_state, _PROTOTYPES, block)


def _dense_prototypes(n_labels: int, n_features: int, random_state: int) -> NDArray[np.float32]:
    parts = []
    for n_block, stream in _blocks_of_labels(n_labels, random_state):
        directions = stream.standard_normal((n_block, n_features), dtype=np.float32)
        parts.append(directions / np.linalg.norm(directions, axis=1, keepdims=True))
    return np.concatenate(parts)


def _sparse_prototypes(n_labels: int, n_features: int, features_per_label: int, random_state: int) -> Csr:
    parts: list[Csr] = []
    n_drawn = min(features_per_label, n_features)
    for n_block, stream in _blocks_of_labels(n_labels, random_state):
        feature_ids = stream.integers(0, n_features, (n_block, n_drawn))
        feature_ids.sort(axis=1)
        is_first = np.ones(feature_ids.shape, dtype=bool)  # drawn twice, kept once
        is_first[:, 1:] = feature_ids[:, 1:] != feature_ids[:, :-1]
        values = stream.uniform(0.5, 1.5, feature_ids.shape) * is_first
        values /= np.sqrt((values * values).sum(axis=1, keepdims=True))
        indptr = np.concatenate([[0], np.cumsum(is_first.sum(axis=1))])
        ids = feature_ids[is_first].astype(np.int32)
        parts.append(build_csr((n_block, n_features), indptr, ids, values[is_first].astype(np.float32)))
    return _stack(parts, n_features)


def _draw_labels(stream: np.random.Generator, chances: NDArray[np.float64], labels_per_row: float) -> Csr:
    """Draw a block of rows without repeats in a row: as one draws one label after the other and skips the known."""
    n_labels = len(chances)
    n_wanted = np.minimum(1 + stream.poisson(labels_per_row - 1, _ROWS_PER_BLOCK), n_labels)
    keys = np.zeros(0, dtype=np.int64)  # row * n_labels + label, rows in order, labels in the order drawn
    for _ in range(_MAX_DRAWS):
        n_missing = n_wanted - np.bincount(keys // n_labels, minlength=_ROWS_PER_BLOCK)
        if not n_missing.any():
            break
        rows = np.repeat(np.arange(_ROWS_PER_BLOCK), np.where(n_missing > 0, n_missing + n_missing // 2 + 1, 0))
        drawn = np.searchsorted(chances, stream.random(len(rows)), side="right").clip(max=n_labels - 1)
        keys = _first_distinct(np.concatenate([keys, rows * n_labels + drawn]), n_labels, n_wanted)
    else:
        # Rows that want rare labels, or nearly all, get the most frequent ones they lack: of the first n_wanted labels
        # they lack enough.
        rows = np.repeat(np.arange(_ROWS_PER_BLOCK), n_wanted)
        most_frequent = np.arange(len(rows)) - np.repeat(np.cumsum(n_wanted) - n_wanted, n_wanted)
        keys = _first_distinct(np.concatenate([keys, rows * n_labels + most_frequent]), n_labels, n_wanted)
    keys.sort()
    indptr = np.concatenate([[0], np.cumsum(n_wanted)])
    return build_labels((_ROWS_PER_BLOCK, n_labels), indptr, (keys % n_labels).astype(np.int32))


def _first_distinct(keys: NDArray[np.int64], n_labels: int, n_wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keep of each row the first n_wanted distinct labels, in the order drawn."""
    _, first_at = np.unique(keys, return_index=True)
    first_at.sort()
    keys = keys[first_at]
    rows = keys // n_labels
    order = np.argsort(rows, kind="stable")
    n_before = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(n_wanted)))])
    keys, rows = keys[order], rows[order]
    kept: NDArray[np.int64] = keys[np.arange(len(keys)) - n_before[rows] < n_wanted[rows]]
    return kept


def _weighted(stream: np.random.Generator, Y: Csr) -> Csr:
    return build_csr(Y.shape, Y.indptr, Y.indices, stream.uniform(0.5, 1.5, Y.nnz).astype(np.float32))


def _add_noise(stream: np.random.Generator, X: Any, noise: float) -> Any:
    if isinstance(X, np.ndarray):
        lengths = np.linalg.norm(X, axis=1, keepdims=True) * np.float32(noise / np.sqrt(X.shape[1]))
        return X + stream.standard_normal(X.shape, dtype=np.float32) * lengths
    n_noise = np.rint(noise * np.diff(X.indptr)).astype(np.int64)
    feature_ids = stream.integers(0, X.shape[1], n_noise.sum(), dtype=np.int32)
    typical = np.abs(X.data).mean() if X.nnz else 0.0
    values = (stream.uniform(0.5, 1.5, len(feature_ids)) * typical).astype(np.float32)
    from scipy.sparse import csr_array

    # The sum also sorts indices and adds up duplicates, in the product as in the noise.
    X = X + csr_array((values, feature_ids, np.concatenate([[0], np.cumsum(n_noise)])), shape=X.shape)
    X.sum_duplicates()
    return X


def _stack(blocks: list[Csr], n_columns: int) -> Csr:
    """Put blocks below each other; a block is freed when it is copied, so that all are in memory only once."""
    n_rows = sum(block.shape[0] for block in blocks)
    n_entries = sum(block.nnz for block in blocks)
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    indices = np.empty(n_entries, dtype=np.int32)
    values = np.empty(n_entries, dtype=np.float32)
    row = entry = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        last_row, last_entry = row + block.shape[0], entry + block.nnz
        indptr[row + 1 : last_row + 1] = block.indptr[1:].astype(np.int64) + entry
        indices[entry:last_entry] = block.indices
        values[entry:last_entry] = block.data
        row, entry = last_row, last_entry
    return build_csr((n_rows, n_columns), indptr, indices, values)
