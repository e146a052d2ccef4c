"""The fitted state of LabelTree: trees over labels, with the weights of every edge."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._fitted import Facts, State

Int32s = Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
Int64s = Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]
Float32s = Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]

# Weights of a larger model are checked node by node, when a prediction first reads them, so that it loads at once.
_MAX_READ_AT_LOAD = 8 << 20


@dataclass(frozen=True, eq=False)
class LabelForest(State):
    """Trees one after another; node ids count through all of them, children come after their parents.

    The children of node n are child_ids[child_indptr[n]:child_indptr[n + 1]]: a node, or ~label_id. The weights of
    their edges are stored by feature: row r of feature_ids[feature_indptr[n]:feature_indptr[n + 1]] owns the entries
    (edge within the node, weight) from entry_begins[n] + row_begins[r] to the next row. Weights are float32, or int8
    `codes` times the scale of the edge; the arrays of the other kind are empty.
    """

    tree_roots: Int32s
    child_indptr: Int64s
    child_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1)]
    feature_indptr: Int64s
    # Not checked here: the values of these, `edges` and `weights` are most of the model.
    feature_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1)]
    row_begins: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1)]
    entry_begins: Int64s
    edges: Annotated[NDArray[np.uint16], ArraySpec(np.uint16, ndim=1)]
    weights: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1)]
    codes: Annotated[NDArray[np.int8], ArraySpec(np.int8, ndim=1)]
    scales: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True, min=0)]
    biases: Float32s

    @property
    def n_nodes(self) -> int:
        """Inner nodes of all trees."""
        return len(self.child_indptr) - 1

    @property
    def is_int8(self) -> bool:
        """Whether weights are codes; every edge then has a scale."""
        return len(self.scales) > 0

    @cached_property
    def n_leaves(self) -> int:
        """Nodes whose children are labels only."""
        return int((np.maximum.reduceat(self.child_ids, self.child_indptr[:-1]) < 0).sum())

    @cached_property
    def native(self) -> _core.LabelForest:
        """The arrays as native functions read them."""
        is_int8 = self.is_int8
        return _core.LabelForest(
            self.tree_roots,
            self.child_indptr,
            self.child_ids,
            self.feature_indptr,
            self.feature_ids,
            self.row_begins,
            self.entry_begins,
            self.edges,
            None if is_int8 else self.weights,
            self.codes if is_int8 else None,
            self.scales if is_int8 else None,
            self.biases,
        )

    @cached_property
    def parents(self) -> NDArray[np.int64]:
        """The edge above each node; -1 for roots."""
        above = np.full(self.n_nodes, -1, dtype=np.int64)
        inner = np.flatnonzero(self.child_ids >= 0)
        above[self.child_ids[inner]] = inner
        return above

    def __getstate__(self) -> dict[str, object]:
        """Leave out what is derived: native objects cannot be pickled."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def keep_labels(self, new_ids: NDArray[np.int32]) -> LabelForest:
        from longtail.label_tree.shrinking import without_labels

        return without_labels(self, new_ids)

    def check(self, owner: str, facts: Facts) -> None:
        unused = ("weights_", self.weights) if self.is_int8 else ("codes_", self.codes)
        if len(unused[1]):
            kind = "int8" if self.is_int8 else "float32"
            raise ValueError(
                f"{owner}: {unused[0]} must be empty where weights are {kind}, got {len(unused[1])} entries"
            )
        self.native.check_trees(facts.n_features_in, facts.n_labels)
        self._check_labels(owner, facts.n_labels)
        if self.edges.nbytes <= _MAX_READ_AT_LOAD:
            self.native.check_weights()

    def _check_labels(self, owner: str, n_labels: int) -> None:
        """Refuse a tree with two leaves of one label, which would be ranked twice."""
        borders = [*self.child_indptr[self.tree_roots].tolist(), len(self.child_ids)]
        for first, last in pairwise(borders):
            children = self.child_ids[first:last]
            counts = np.bincount(~children[children < 0], minlength=n_labels)
            if counts.max(initial=0) > 1:
                label_id = int(counts.argmax())
                raise ValueError(f"{owner}: label {label_id} must be in a tree once, got {counts[label_id]} times")
