"""A forest of trees with sparse leaves in flat arrays: join, check, follow one row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._fitted import Facts, State
from longtail.execution import Shard


@dataclass(frozen=True, eq=False)
class Forest(State):
    """Trees one after another; children count from their tree's first node, the right child follows the left."""

    tree_begin: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]  # (n_trees + 1,)
    split_features: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=-1)]  # one per node; -1 marks a leaf
    thresholds: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    left_children: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=-1)]
    leaf_begin: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]  # (n_nodes + 1,)
    leaf_label_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
    leaf_values: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Forest:
        is_kept = new_ids[self.leaf_label_ids] >= 0
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_kept, dtype=np.int64)])
        return replace(
            self,
            leaf_begin=running[self.leaf_begin],
            leaf_label_ids=new_ids[self.leaf_label_ids[is_kept]],
            leaf_values=self.leaf_values[is_kept],
        )

    @cached_property
    def used_features(self) -> NDArray[np.int32]:
        """Features that a split names."""
        return np.unique(self.split_features[self.split_features >= 0])

    @cached_property
    def compact(self) -> Forest:
        """The same trees over the used features only, numbered from 0."""
        places = np.searchsorted(self.used_features, self.split_features).astype(np.int32)
        return replace(self, split_features=np.where(self.split_features >= 0, places, np.int32(-1)))

    def native(self) -> tuple[Any, ...]:
        """Return the arrays in the order that the native functions take them."""
        return tuple(getattr(self, item.name) for item in fields(self))


@dataclass(frozen=True, eq=False)
class Boosted(State):
    """The fitted state of GBDTSparse: the forest, the projection that it works on, and how training went."""

    forest: Forest
    feature_gains: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True, min=0)]
    projection: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]  # (0, 0) without one
    training_losses: Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=1, finite=True, min=0)]
    validation_losses: Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=1, finite=True, min=0)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Boosted:
        return replace(self, forest=self.forest.keep_labels(new_ids))

    def check(self, owner: str, facts: Facts) -> None:
        n_features = facts.n_features_in
        if self.projection.size:
            if self.projection.shape[0] != n_features:
                raise ValueError(f"{owner}: projection_ has {self.projection.shape[0]} rows for {n_features} features")
            n_features = self.projection.shape[1]
        if len(self.feature_gains) != n_features:
            raise ValueError(f"{owner}: feature_gains_ has {len(self.feature_gains)} entries, not {n_features}")
        check_forest(self.forest, n_features, facts.n_labels)


class Split(NamedTuple):
    """One decision on the way to a leaf: ``value <= threshold`` goes left."""

    feature_id: int
    threshold: float
    value: float
    goes_left: bool


class TreeVote(NamedTuple):
    """What one tree adds to a label's score for a row, and why."""

    tree_id: int
    path: tuple[Split, ...]
    contribution: float


def join_trees(trees: list[Shard]) -> Forest:
    """Lay trees one after another."""
    names = ("split_features", "thresholds", "left_children", "leaf_label_ids", "leaf_values")
    parts = {name: np.concatenate([tree[name] for tree in trees]) for name in names}
    return Forest(
        tree_begin=_begins(len(tree["split_features"]) for tree in trees),
        leaf_begin=_begins(np.concatenate([np.diff(tree["leaf_begin"]) for tree in trees])),
        **parts,
    )


def add_tree(booster: _core.Booster, tree: Shard, n_threads: int, control: _core.Control) -> None:
    """Add a finished tree to the scores of a booster's rows."""
    booster.add(
        tree["split_features"],
        tree["thresholds"],
        tree["left_children"],
        tree["leaf_begin"],
        tree["leaf_label_ids"],
        tree["leaf_values"],
        n_threads,
        control,
    )


def sum_gains(trees: list[Shard], n_features: int) -> NDArray[np.float32]:
    """Sum what the splits on each feature took off the objective."""
    gains = np.zeros(n_features, dtype=np.float64)
    for tree in trees:
        inner = tree["split_features"] >= 0
        np.add.at(gains, tree["split_features"][inner], tree["gains"][inner])
    return gains.astype(np.float32)


def vote(forest: Forest, tree_id: int, row: NDArray[np.float32], label_id: int) -> TreeVote:
    """Walk one row down one tree."""
    first = node = int(forest.tree_begin[tree_id])
    path = []
    while (feature_id := int(forest.split_features[node])) >= 0:
        value, threshold = row[feature_id], forest.thresholds[node]
        goes_left = bool(value <= threshold)
        path.append(Split(feature_id, float(threshold), float(value), goes_left))
        node = first + int(forest.left_children[node]) + (not goes_left)
    leaf = slice(forest.leaf_begin[node], forest.leaf_begin[node + 1])
    listed = forest.leaf_label_ids[leaf] == label_id
    return TreeVote(tree_id, tuple(path), float(forest.leaf_values[leaf][listed].sum()))


def check_forest(forest: Forest, n_features: int, n_labels: int, owner: str = "GBDTSparse") -> None:
    """Prove that every walk ends in a leaf and every index is in range; raise ValueError otherwise."""
    n_nodes = len(forest.split_features)
    for name, wanted in (("thresholds", n_nodes), ("left_children", n_nodes), ("leaf_begin", n_nodes + 1)):
        found = len(getattr(forest, name))
        if found != wanted:
            raise ValueError(f"{owner}: {name}_ must have {wanted} entries for {n_nodes} nodes, got {found}")
    _check_begins("tree_begin_", forest.tree_begin, n_nodes, least_step=1)
    _check_begins("leaf_begin_", forest.leaf_begin, len(forest.leaf_label_ids), least_step=0)
    if len(forest.leaf_values) != len(forest.leaf_label_ids):
        raise ValueError(f"{owner}: leaf_values_ and leaf_label_ids_ must have the same length")
    if len(forest.leaf_label_ids) and forest.leaf_label_ids.max() >= n_labels:
        raise ValueError(f"{owner}: a leaf names label {forest.leaf_label_ids.max()}, but there are {n_labels} labels")
    inner = np.flatnonzero(forest.split_features >= 0)
    if len(inner) and forest.split_features[inner].max() >= n_features:
        raise ValueError(
            f"{owner}: a node splits on feature {forest.split_features[inner].max()}, but trees see {n_features}"
        )
    tree_of = np.searchsorted(forest.tree_begin, inner, side="right") - 1
    left = forest.left_children[inner] + forest.tree_begin[tree_of]
    if (left <= inner).any() or (left + 1 >= forest.tree_begin[tree_of + 1]).any():
        raise ValueError(f"{owner}: children must follow their parent within their tree")


def _begins(lengths: Iterable[int]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.fromiter(lengths, dtype=np.int64))])


def _check_begins(name: str, begins: NDArray[np.int64], last: int, *, least_step: int) -> None:
    if len(begins) < 1 or begins[0] != 0 or begins[-1] != last or (np.diff(begins) < least_step).any():
        raise ValueError(f"GBDTSparse: {name} must rise from 0 to {last}")
