"""Grow trees of GBDTSparse with workers that each own a block of columns.

Every worker has the labels and scores of all rows, but only its own columns of X. A level of a tree takes two
exchanges:

    workers: best split of each open node among their columns   -> merged: the best of all
    owners of the winning columns: which rows go left           -> merged: the union
    workers: split the nodes, search the next level

The gain of a threshold does not depend on the other columns of the block, and ties go to the lower feature. So the tree
is the same, to the last bit, as the one that a single booster with all columns grows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._matrices import Matrix, canonical_csr, native_rows
from longtail.execution import Group, GroupShape, Run, Shard
from longtail.gbdt.forest import add_tree


class Splits(NamedTuple):
    """The best split of each open node; feature -1 where there is none."""

    reductions: NDArray[np.float64]
    features: NDArray[np.int32]  # counted over all blocks
    thresholds: NDArray[np.float32]
    bins: NDArray[np.int32]


class BlockWorker:
    """The booster of one block of columns. Methods take and return arrays, tuples and numbers."""

    def __init__(
        self,
        X_block: Matrix,
        first_feature: int,
        n_features: int,
        y_indptr: NDArray[np.int64],
        y_indices: NDArray[np.int32],
        n_labels: int,
        params: Mapping[str, object],
        n_threads: int = 1,
        row_weights: NDArray[np.float32] | None = None,
        *,
        control: _core.Control | None = None,
    ) -> None:
        self._n_threads, self._control = n_threads, control or _core.Control()
        labels = (y_indptr, y_indices, n_labels)
        self._booster = make_booster(X_block, *labels, params, first_feature, n_features, row_weights)

    def grow(self, tree_id: int) -> Shard:
        """Grow a tree alone: for a worker that owns all columns."""
        return cast(Shard, self._booster.grow(tree_id, self._n_threads, self._control))

    def begin_tree(self, tree_id: int) -> Splits | None:
        """Begin a tree and return the best splits of its root, or None if there is nothing to split."""
        self._booster.begin_tree(tree_id, self._n_threads, self._control)
        return self._find_splits()

    def find_sides(self, splits: Splits) -> NDArray[np.uint8]:
        """Return, as packed bits, which rows go left by splits on this block's columns."""
        return np.packbits(self._booster.find_sides(*splits, self._n_threads, self._control))

    def advance(self, splits: Splits, sides: NDArray[np.uint8]) -> Splits | None:
        """Split the open nodes and return the best splits of the next level, or None when the tree is done."""
        unpacked = np.unpackbits(sides, count=self._booster.n_sides)
        self._booster.apply_splits(*splits, unpacked, self._n_threads, self._control)
        return self._find_splits()

    def finish_tree(self) -> Shard:
        """Add the finished tree to the scores and return its arrays; all workers return the same."""
        return cast(Shard, self._booster.finish_tree(self._n_threads, self._control))

    def add_tree(self, tree: Shard) -> None:
        """Add a tree of an earlier run to the scores: for a worker that owns all columns."""
        add_tree(self._booster, tree, self._n_threads, self._control)

    def add_leaves(self, tree: Shard, leaf_of_row: NDArray[np.int32]) -> None:
        """Add a tree of an earlier run to the scores; only a booster with all columns can find the leaf of each row."""
        self._booster.add_leaves(
            tree["split_features"],
            tree["thresholds"],
            tree["left_children"],
            tree["leaf_begin"],
            tree["leaf_label_ids"],
            tree["leaf_values"],
            leaf_of_row,
            self._n_threads,
            self._control,
        )

    def loss(self) -> float:
        """Return the loss summed over all rows and labels; all workers return the same."""
        return self._booster.loss(self._n_threads, self._control)

    def _find_splits(self) -> Splits | None:
        if not self._booster.is_growing:
            return None
        found = cast(Shard, self._booster.find_splits(self._n_threads, self._control))
        return Splits(**found)


class TreeWorkers:
    """Grows trees one after another on the workers of a run. After a worker was lost, new ones get the trees so far."""

    def __init__(
        self,
        run: Run,
        X: Matrix,
        Y: sp.csr_array,
        params: Mapping[str, object],
        row_weights: NDArray[np.float32] | None = None,
    ) -> None:
        self._run, self._X, self._Y, self._params, self._row_weights = run, X, Y, params, row_weights
        self._trees: list[Shard] = []
        self._n_known = 0  # trees that the current group has added to its scores
        self._workers = run.workers(BlockWorker, self._cut, self._forget)

    def grow(self, tree_id: int) -> Shard:
        """Grow the next tree; return its arrays, and as "loss" the mean training loss per row with it."""

        def grow_on(group: Group) -> Shard:
            self._catch_up(group)
            tree = group("grow", tree_id)[0] if len(group) == 1 else grow_together(group, tree_id)
            loss = group("loss")[0] / total_weight(self._row_weights, self._X.shape[0])
            return {**tree, "loss": np.array([loss])}

        tree = self._workers.ask(grow_on, f"tree {tree_id}")
        self._trees.append(tree)
        self._n_known += 1
        return tree

    def add(self, tree: Shard) -> None:
        """Add a tree of an earlier run."""
        self._trees.append(tree)

    def close(self) -> None:
        """End the workers."""
        self._workers.close()

    def _cut(self, shape: GroupShape) -> list[list[Any]]:
        """Return the arguments of each worker: its columns, and all labels."""
        n_features = self._X.shape[1]
        arguments = []
        for first, last in cut_columns(n_features, shape.n_workers):
            block = self._X if last - first == n_features else self._X[:, first:last]
            block = block if sp.issparse(block) else np.ascontiguousarray(block)
            labels = (self._Y.indptr, self._Y.indices, self._Y.shape[1])
            rest = (dict(self._params), shape.n_threads, self._row_weights)
            arguments.append([block, first, n_features, *labels, *rest])
        return arguments

    def _forget(self, _group: Group) -> None:
        self._n_known = 0

    def _catch_up(self, group: Group) -> None:
        missing = self._trees[self._n_known :]
        if not missing:
            return
        if len(group) == 1:
            for tree in missing:
                group("add_tree", tree)
        else:
            labels = (self._Y.indptr, self._Y.indices, self._Y.shape[1])
            booster = make_booster(self._X, *labels, self._params)
            for tree in missing:
                parts = (tree["split_features"], tree["thresholds"], tree["left_children"])
                leaf_of_row = booster.find_leaves(*parts, self._run.n_jobs, self._run.control)
                group("add_leaves", tree, leaf_of_row)
        self._n_known = len(self._trees)


def make_booster(
    X: Matrix,
    y_indptr: NDArray[np.int64],
    y_indices: NDArray[np.int32],
    n_labels: int,
    params: Mapping[str, object],
    first_feature: int = 0,
    n_features: int | None = None,
    row_weights: NDArray[np.float32] | None = None,
) -> _core.Booster:
    """Make a booster of the columns in X, the first of which is `first_feature` of `n_features`: all by default."""
    rows = canonical_csr(X) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float32)
    n_features = X.shape[1] if n_features is None else n_features
    return _core.Booster(
        native_rows(rows), n_labels, y_indptr, y_indices, dict(params), first_feature, n_features, row_weights
    )


def total_weight(row_weights: NDArray[np.float32] | None, n_rows: int) -> float:
    """Return what a loss is divided by for a mean per row."""
    return float(n_rows) if row_weights is None else float(row_weights.sum(dtype=np.float64))


def cut_columns(n_features: int, n_blocks: int) -> list[tuple[int, int]]:
    """Cut the columns into at most n_blocks ranges (first, last) of about equal length."""
    edges = np.linspace(0, n_features, min(n_blocks, n_features) + 1).round().astype(int).tolist()
    return list(pairwise(edges))


def grow_together(call_all: Callable[..., Sequence[Any]], tree_id: int) -> Shard:
    """Grow one tree with all workers and return its arrays."""
    found = call_all("begin_tree", tree_id)
    while found[0] is not None:
        splits = merge_splits(found)
        sides = merge_sides(call_all("find_sides", splits))
        found = call_all("advance", splits, sides)
    return cast(Shard, call_all("finish_tree")[0])


def merge_splits(parts: Sequence[Splits]) -> Splits:
    """Return the best split of each node; equal ones go to the first block, which has the lower features."""
    best = np.argmax(np.stack([part.reductions for part in parts]), axis=0)
    nodes = np.arange(len(best))
    return Splits(*(np.ascontiguousarray(np.stack(field)[best, nodes]) for field in zip(*parts, strict=True)))


def merge_sides(parts: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Return the union: the rows of a node are marked by the one worker that owns its column."""
    return cast(NDArray[np.uint8], np.bitwise_or.reduce(np.stack(parts), axis=0))
