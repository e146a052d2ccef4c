"""A binary tree over rows by hierarchical 2-means, with the labels that each leaf has seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._fitted import Facts, State
from longtail.execution import Shard

_MAX_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class RowTree(State):
    """Nodes in the order of their depth. A row goes right where x·w > threshold; w is sparse, one CSR row per node."""

    left_children: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=-1)]  # -1 marks a leaf
    split_thresholds: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    split_begin: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]
    split_feature_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
    split_weights: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    leaf_begin: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]
    leaf_label_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> RowTree:
        begin, label_ids = kept_lists(self.leaf_begin, self.leaf_label_ids, new_ids)
        return replace(self, leaf_begin=begin, leaf_label_ids=label_ids)

    def check(self, owner: str, facts: Facts) -> None:
        self.check_items(owner, facts.n_features_in, facts.n_labels)

    def check_items(self, owner: str, n_features: int, n_items: int) -> None:
        """Refuse trees that are damaged; leaves hold labels, or other items."""
        n_nodes = len(self.left_children)
        if n_nodes == 0 or len(self.split_thresholds) != n_nodes:
            raise ValueError(f"{owner}: split_thresholds_ must have one entry per node; the file is damaged")
        check_lists(owner, "split", self.split_begin, self.split_feature_ids, n_nodes, n_features)
        check_lists(owner, "leaf", self.leaf_begin, self.leaf_label_ids, n_nodes, n_items)
        if len(self.split_weights) != len(self.split_feature_ids):
            raise ValueError(f"{owner}: split_weights_ and split_feature_ids_ must have the same length")
        inner = np.flatnonzero(self.left_children >= 0)
        children = self.left_children[inner]
        if (children <= inner).any() or (children >= n_nodes - 1).any():
            raise ValueError(f"{owner}: left_children_ must follow their parents; the file is damaged")

    def leaves_of(self, X: sp.csr_array, root: int = 0) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the leaves that rows reach, each with its rows."""
        found = []
        waiting = [(root, np.arange(X.shape[0]))]
        while waiting:
            node, rows = waiting.pop()
            child = int(self.left_children[node])
            if not len(rows):
                continue
            if child < 0:
                found.append((node, rows))
                continue
            own = slice(self.split_begin[node], self.split_begin[node + 1])
            w = np.zeros(X.shape[1], dtype=np.float32)
            w[self.split_feature_ids[own]] = self.split_weights[own]
            goes_right = X[rows] @ w > self.split_thresholds[node]
            waiting += [(child, rows[~goes_right]), (child + 1, rows[goes_right])]
        return found

    def labels_of(self, leaf: int) -> NDArray[np.int32]:
        """Return the active labels of a leaf, increasing."""
        return self.leaf_label_ids[self.leaf_begin[leaf] : self.leaf_begin[leaf + 1]]


def join_row_trees(shards: list[Shard]) -> tuple[RowTree, NDArray[np.int32]]:
    """Lay trees one after another; also returns their roots."""
    sizes = [len(shard["left_children"]) for shard in shards]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int32)
    plain = ("split_thresholds", "split_feature_ids", "split_weights", "leaf_label_ids")
    parts = {name: np.concatenate([shard[name] for shard in shards]) for name in plain}
    for name in ("split_begin", "leaf_begin"):
        lengths = np.concatenate([np.diff(shard[name]) for shard in shards])
        parts[name] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    children = [shard["left_children"] for shard in shards]
    moved = [np.where(ids >= 0, ids + root, np.int32(-1)) for ids, root in zip(children, roots, strict=True)]
    return RowTree(left_children=np.concatenate(moved).astype(np.int32), **parts), roots


def check_lists(
    owner: str, name: str, begin: NDArray[np.int64], ids: NDArray[np.int32], n_lists: int, n_ids: int
) -> None:
    """Refuse lists of increasing ids, laid one after another, with wrong borders or ids."""
    is_good = len(begin) == n_lists + 1 and begin[0] == 0 and begin[-1] == len(ids) and (np.diff(begin) >= 0).all()
    if not is_good:
        raise ValueError(f"{owner}: {name}_begin_ must rise from 0 to the number of entries; the file is damaged")
    if len(ids) and ids.max() >= n_ids:
        raise ValueError(f"{owner}: {name} names id {ids.max()}, but there are {n_ids}")
    is_first = np.zeros(len(ids) + 1, dtype=bool)
    is_first[begin] = True
    if (np.diff(ids) <= 0)[~is_first[1:-1]].any():
        raise ValueError(f"{owner}: the ids of each {name} must increase; the file is damaged")


def kept_lists(
    begin: NDArray[np.int64], ids: NDArray[np.int32], new_ids: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Renumber the ids of lists that are laid one after another, without those whose new id is -1."""
    found = new_ids[ids]
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(found >= 0, dtype=np.int64)])
    return running[begin], found[found >= 0]


def grow_row_tree(X: sp.csr_array, Y: sp.csr_array, max_leaf_size: int, seed: int, control: _core.Control) -> Shard:
    """Halve the rows by 2-means until at most `max_leaf_size` are together, or until they are all equal."""
    rng = np.random.default_rng(seed)
    left_children: list[int] = []
    splits: list[tuple[NDArray[np.float64], float] | None] = []
    leaf_labels: list[NDArray[np.int32]] = []
    waiting = [np.arange(X.shape[0])]
    for rows in waiting:  # grows meanwhile: breadth first
        if control.cancelled:
            raise _core.Cancelled("stopped")
        split = two_means(X[rows], rng) if len(rows) > max_leaf_size else None
        splits.append(split)
        if split is None:
            left_children.append(-1)
            leaf_labels.append(np.unique(Y[rows].indices))
            continue
        # As prediction computes it, so that training rows reach the leaves that they define.
        goes_right = X[rows] @ split[0].astype(np.float32) > np.float32(split[1])
        left_children.append(len(waiting))
        leaf_labels.append(np.empty(0, np.int32))
        waiting += [rows[~goes_right], rows[goes_right]]
    weights = [np.empty(0) if split is None else split[0] for split in splits]
    feature_ids = [np.flatnonzero(w) for w in weights]
    split_weights = [w[ids] for w, ids in zip(weights, feature_ids, strict=True)]
    return {
        "left_children": np.array(left_children, dtype=np.int32),
        "split_thresholds": np.array([0 if split is None else split[1] for split in splits], dtype=np.float32),
        "split_begin": _begins(feature_ids),
        "split_feature_ids": np.concatenate(feature_ids).astype(np.int32),
        "split_weights": np.concatenate(split_weights).astype(np.float32),
        "leaf_begin": _begins(leaf_labels),
        "leaf_label_ids": np.concatenate(leaf_labels).astype(np.int32),
    }


def two_means(X: sp.csr_array, rng: np.random.Generator) -> tuple[NDArray[np.float64], float] | None:
    """Cluster rows into two; return w and the threshold of x·w that divides them, None if all rows are equal."""
    n_rows = X.shape[0]
    squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).reshape(-1)
    first = X[[int(rng.integers(n_rows))]].toarray()[0].astype(np.float64)
    # As in k-means++: the second centre is drawn by its squared distance to the first.
    distances = np.maximum(squares - 2 * (X @ first) + first @ first, 0)
    distances[distances <= 1e-6 * squares.max()] = 0
    if distances.sum() == 0:
        return None
    second = X[[int(rng.choice(n_rows, p=distances / distances.sum()))]].toarray()[0].astype(np.float64)
    split, is_right = _separator(first, second), np.zeros(n_rows, dtype=bool)
    for _ in range(_MAX_ROUNDS):
        now_right = X @ split[0].astype(np.float32) > np.float32(split[1])
        if not now_right.any() or now_right.all():
            return None  # rounding: equal but for the last bits
        if (now_right == is_right).all():
            break
        is_right = now_right
        split = _separator(*(_mean_row(X, side) for side in (~is_right, is_right)))
    now_right = X @ split[0].astype(np.float32) > np.float32(split[1])
    return split if now_right.any() and not now_right.all() else None


def _separator(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the plane half-way between two centres."""
    return second - first, float(second @ second - first @ first) / 2


def _mean_row(X: sp.csr_array, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.asarray((chosen.astype(np.float64) / chosen.sum()) @ X).reshape(-1)


def _begins(lists: list[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64)
