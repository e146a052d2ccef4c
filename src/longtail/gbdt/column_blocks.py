"""Trees of GBDTSparse grown together by workers that own blocks of columns.

Every worker has all rows' labels and scores, but only its own columns of X. A level of a tree is two exchanges:

    workers: best split of each open node among their columns   -> merged: the best of all
    owners of the winning columns: which rows go left           -> merged: the union
    workers: cut the nodes, search the next level

What a threshold gains never depends on what is searched beside it and ties go to the lower feature, so the tree is the
same, to the last bit, as one booster with all columns grows. Nothing here knows how workers are reached.
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
from longtail.execution import Shard

# Call a method of every worker with the same arguments; results in the order of their blocks.
CallAll = Callable[..., Sequence[Any]]


class Splits(NamedTuple):
    """The best split of each open node; feature -1 where there is none."""

    reductions: NDArray[np.float64]
    features: NDArray[np.int32]  # counted over all blocks
    thresholds: NDArray[np.float32]
    bins: NDArray[np.int32]


class BlockWorker:
    """The booster of one block of columns. Methods take and return what may travel: numpy arrays, tuples, numbers."""

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
    ) -> None:
        self._n_threads, self._control = n_threads, _core.Control()
        rows = canonical_csr(X_block) if sp.issparse(X_block) else np.ascontiguousarray(X_block, dtype=np.float32)
        labels = (n_labels, y_indptr, y_indices)
        self._booster = _core.Booster(native_rows(rows), *labels, dict(params), first_feature, n_features)

    def begin_tree(self, tree_id: int) -> Splits | None:
        """Open a tree and return the best splits of its root, or None where it has none to try."""
        self._booster.begin_tree(tree_id, self._n_threads, self._control)
        return self._find_splits()

    def find_sides(self, splits: Splits) -> NDArray[np.uint8]:
        """Return, as packed bits, which rows go left by splits on this block's columns."""
        return np.packbits(self._booster.find_sides(*splits, self._n_threads, self._control))

    def advance(self, splits: Splits, sides: NDArray[np.uint8]) -> Splits | None:
        """Cut the open nodes and return the best splits of the next level, or None when the tree is done."""
        unpacked = np.unpackbits(sides, count=self._booster.n_sides)
        self._booster.apply_splits(*splits, unpacked, self._n_threads, self._control)
        return self._find_splits()

    def finish_tree(self) -> Shard:
        """Add the finished tree to the scores and return its arrays; all workers return the same."""
        return cast(Shard, self._booster.finish_tree(self._n_threads, self._control))

    def add_leaves(self, tree: Shard, leaf_of_row: NDArray[np.int32]) -> None:
        """Add a tree of an earlier run; `leaf_of_row` comes from a booster with all columns (`find_leaves`)."""
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


def cut_columns(n_features: int, n_blocks: int) -> list[tuple[int, int]]:
    """Cut the columns into at most n_blocks ranges (first, last) of about equal length."""
    edges = np.linspace(0, n_features, min(n_blocks, n_features) + 1).round().astype(int).tolist()
    return list(pairwise(edges))


def grow_together(call_all: CallAll, tree_id: int) -> Shard:
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
    """Return the union: a node's rows are told left from right by the one owner of its column."""
    return cast(NDArray[np.uint8], np.bitwise_or.reduce(np.stack(parts), axis=0))
