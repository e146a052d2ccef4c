"""The fitted state of FastXML: trees in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._fitted import Facts, State
from longtail.execution import Array, Shard

Int32s = Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
Int64s = Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]
Float32s = Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
PerTree = Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=1, finite=True, min=0)]


@dataclass(frozen=True, eq=False)
class LinearForest(State):
    """Trees one after another; node ids count through all of them. A node sends a row right if w·x + b >= 0.

    The left child is the next node; a right child of 0 marks a leaf.
    """

    tree_roots: Int32s
    right_child: Int32s
    biases: Float32s
    split_indptr: Int64s
    split_features: Int32s
    split_weights: Float32s
    leaf_indptr: Int64s
    leaf_labels: Int32s
    # Prediction takes a label with the sum 0 for one that it has not met yet.
    leaf_values: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True, min=1e-38)]

    def native(self) -> dict[str, Any]:
        """Return the arrays by name, as the native functions take them."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def keep_labels(self, new_ids: NDArray[np.int32]) -> LinearForest:
        is_kept = new_ids[self.leaf_labels] >= 0
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_kept, dtype=np.int64)])
        return replace(
            self,
            leaf_indptr=running[self.leaf_indptr],
            leaf_labels=new_ids[self.leaf_labels[is_kept]],
            leaf_values=self.leaf_values[is_kept],
        )

    def check(self, owner: str, facts: Facts) -> None:
        _core.check_forest(self.native(), facts.n_features_in, facts.n_labels)


@dataclass(frozen=True, eq=False)
class TreeEnsemble(State):
    """A forest and the statistics of its trees, which the paper's tables are made of."""

    forest: LinearForest
    tree_depths: PerTree
    tree_leaf_labels: PerTree
    tree_precision: PerTree
    root_objectives: Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=2, finite=True)]
    root_rounds: NDArray[np.float64] | None = field(default=None, kw_only=True)

    @cached_property
    def n_features_used(self) -> int:
        """One more than the largest feature that a row is looked up for: what prediction needs memory for."""
        return int(self.forest.split_features.max(initial=-1)) + 1

    def choose(self, n_trees: int, order: str) -> NDArray[np.int32]:
        """Return the ids of the first trees, or of the most precise ones."""
        if order == "accuracy":
            best = np.argsort(-self.tree_precision, kind="stable")[:n_trees]
            return np.sort(best).astype(np.int32)
        return np.arange(n_trees, dtype=np.int32)

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Self:
        return replace(self, forest=self.forest.keep_labels(new_ids))

    def check(self, owner: str, facts: Facts) -> None:
        self.forest.check(owner, facts)
        n_trees = len(self.forest.tree_roots)
        for name in ("tree_depths", "tree_leaf_labels", "tree_precision", "root_objectives"):
            n_entries = len(getattr(self, name))
            if n_entries != n_trees:
                raise ValueError(f"{owner}: {name}_ has {n_entries} entries, but there are {n_trees} trees")


def balance(tree_depths: NDArray[np.float64], n_rows: int, max_leaf_size: int) -> float:
    """Return the mean depth of a training row over that in trees with full leaves, log2(n_rows / max_leaf_size)."""
    return float(tree_depths.mean() / np.log2(max(n_rows / max_leaf_size, 2)))


def join_trees(owner: str, shards: Sequence[Shard], n_updates: int) -> TreeEnsemble:
    """Put trees one after the other; node ids and positions then count through all of them."""
    n_nodes = [len(shard["right_child"]) for shard in shards]
    if sum(n_nodes) > np.iinfo(np.int32).max:
        raise ValueError(f"{owner}: the trees have more than 2147483647 nodes; grow fewer trees or larger leaves")
    roots = np.cumsum([0, *n_nodes])[:-1].astype(np.int32)
    right_child = [
        np.where(shard["right_child"] > 0, shard["right_child"] + root, 0)
        for shard, root in zip(shards, roots, strict=True)
    ]
    names = ("biases", "split_features", "split_weights", "leaf_labels", "leaf_values")
    forest = LinearForest(
        tree_roots=roots,
        right_child=np.concatenate(right_child).astype(np.int32),
        split_indptr=join_indptr([shard["split_indptr"] for shard in shards]),
        leaf_indptr=join_indptr([shard["leaf_indptr"] for shard in shards]),
        **{name: np.concatenate([shard[name] for shard in shards]) for name in names},
    )
    depths, leaf_labels, precision = np.ascontiguousarray(np.stack([shard["statistics"] for shard in shards]).T)
    objectives, rounds = (_by_update(shards, name, n_updates) for name in ("root_objectives", "root_rounds"))
    return TreeEnsemble(forest, depths, leaf_labels, precision, objectives, root_rounds=rounds)


def _by_update(shards: Sequence[Shard], name: str, n_updates: int) -> NDArray[np.float64]:
    """Lay out what the roots report after each update; one that converged earlier repeats its last value."""
    found = np.zeros((len(shards), n_updates))
    for row, shard in zip(found, shards, strict=True):
        reached = shard[name]
        if len(reached):
            row[: len(reached)] = reached
            row[len(reached) :] = reached[-1]
    return found


def join_indptr(parts: Sequence[Array]) -> NDArray[np.int64]:
    """Concatenate CSR row pointers, each counting on from the one before."""
    offsets = np.cumsum([0, *(part[-1] for part in parts)])
    joined = [part[1:] + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *joined])
