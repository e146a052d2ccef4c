"""The shape of label trees: clusters of label vectors, or a hierarchy that the user gives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, update_wrapper
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail import _core
from longtail._csr import csr_from_parts
from longtail._matrices import Columns, canonical_csr, native_rows, with_unit_rows
from longtail.execution import Arrays, Params, Plan, Run, Shard
from longtail.execution.plan import TaskFunction

# Streams of different trees: far enough apart that trees of neighbouring seeds differ.
_SEED_STEP = 0x9E3779B1


class Shape(NamedTuple):
    """Nodes of all trees: the children of each, and the first node of every tree."""

    tree_roots: NDArray[np.int32]
    child_indptr: NDArray[np.int64]
    child_ids: NDArray[np.int32]

    @property
    def n_nodes(self) -> int:
        return len(self.child_indptr) - 1


def wide_beam(n_leaves: int) -> int:
    """Return how many leaves exact labels are trained near and proposed from."""
    return min(max(n_leaves // 4, 10), 100)


def shape_plan(owner: str, vectors: sp.csr_array, params: Params, n_trees: int, n_threads: int) -> Plan:
    """Plan one task per tree; each may use some threads."""
    arrays = {"indptr": vectors.indptr, "indices": vectors.indices, "values": vectors.data}
    # A checkpoint knows the task by the function's name: the number of threads changes no result.
    task = cast(TaskFunction, update_wrapper(partial(grow_one_shape, n_threads=n_threads), grow_one_shape))
    return Plan(owner=owner, unit="trees", task=task, arrays=arrays, params=params, n_tasks=n_trees)


def grow_one_shape(
    arrays: Arrays, params: Params, task_id: int, control: _core.Control, *, n_threads: int = 1
) -> Shard:
    """Cluster the labels into tree number `task_id`."""
    label_ids = np.flatnonzero(np.diff(arrays["indptr"])).astype(np.int32)
    child_indptr, child_ids = _core.grow_label_tree(
        _core.Rows(int(params["n_columns"] or 0), arrays["indptr"], arrays["indices"], arrays["values"]),
        label_ids,
        str(params["clustering"]),
        int(params["fan_out"] or 0),
        int(params["max_leaf_size"] or 0),
        int(params["max_depth"] or 0),
        (int(params["seed"] or 0) + task_id * _SEED_STEP) % 2**63,
        n_threads,
        control,
    )
    return {"child_indptr": child_indptr, "child_ids": child_ids}


def join_shapes(shards: Sequence[Shard]) -> Shape:
    """Put trees one after another and renumber their nodes."""
    roots: list[int] = []
    indptr, ids = [np.zeros(1, np.int64)], []
    n_nodes = n_edges = 0
    for shard in shards:
        roots.append(n_nodes)
        children = shard["child_ids"]
        ids.append(np.where(children >= 0, children + n_nodes, children).astype(np.int32))
        indptr.append(shard["child_indptr"][1:] + n_edges)
        n_nodes += len(shard["child_indptr"]) - 1
        n_edges += len(children)
    return Shape(np.array(roots, dtype=np.int32), np.concatenate(indptr), np.concatenate(ids))


def with_labels(shape: Shape, is_kept: NDArray[np.bool_]) -> Shape:
    """Leave out all other labels, and the nodes that no label is below any more; trees keep their roots."""
    child_ids, borders = shape.child_ids, shape.child_indptr
    stays = np.where(child_ids < 0, is_kept[np.maximum(~child_ids, 0)], False)
    if stays[child_ids < 0].all():
        return shape
    is_root = np.zeros(shape.n_nodes, dtype=bool)
    is_root[shape.tree_roots] = True
    node_stays = is_root.copy()
    edge_of_node = np.full(shape.n_nodes, -1, dtype=np.int64)
    edge_of_node[child_ids[child_ids >= 0]] = np.flatnonzero(child_ids >= 0)
    for node in range(shape.n_nodes - 1, -1, -1):  # children come after their parents
        if stays[borders[node] : borders[node + 1]].any() and not is_root[node]:
            stays[edge_of_node[node]] = node_stays[node] = True
    numbers = (np.cumsum(node_stays) - 1).astype(np.int32)
    renumbered = np.where(child_ids >= 0, numbers[np.maximum(child_ids, 0)], child_ids).astype(np.int32)
    kept_before = np.concatenate([[0], np.cumsum(stays)])
    sizes = np.diff(kept_before[borders])[node_stays]
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Shape(numbers[shape.tree_roots], indptr, renumbered[stays])


def mean_vectors(X: sp.csr_array, columns: Columns, row_weights: NDArray[np.float32] | None, run: Run) -> sp.csr_array:
    """Return the mean of each label's rows, of unit length; labels without rows have none."""
    indptr, indices, values = _core.label_vectors(native_rows(X), *columns, row_weights, run.n_jobs, run.control)
    counts = np.diff(columns[0])
    return keep_used(csr_from_parts(values, indices, indptr, (len(counts), X.shape[1])), counts > 0)


def checked_vectors(owner: str, vectors: Any, counts: NDArray[np.int64]) -> sp.csr_array:
    """Check label vectors that the user gives; those of labels without rows are dropped."""
    given = sp.csr_array(vectors)
    if given.shape[0] != len(counts):
        raise ValueError(f"{owner}: label_vectors must have one row per label, got {given.shape[0]} for {len(counts)}")
    rows = canonical_csr(given.astype(np.float32))
    if not np.isfinite(rows.data).all():
        raise ValueError(f"{owner}: label_vectors must be finite; fill or drop the missing values first")
    _core.check_csr(rows.shape[1], rows.indptr, rows.indices, rows.data, "label_vectors")
    return with_unit_rows(keep_used(rows, counts > 0))


def keep_used(vectors: sp.csr_array, is_used: NDArray[np.bool_]) -> sp.csr_array:
    """Drop the vectors of unused labels; used labels without any entry get one, so that a tree holds them."""
    sizes = np.diff(vectors.indptr)
    if not (is_used & (sizes == 0)).any() and not (~is_used & (sizes > 0)).any():
        return vectors
    kept = sp.csr_array(sp.diags_array(is_used.astype(np.float32)) @ vectors)
    kept.eliminate_zeros()
    empty = np.flatnonzero(is_used & (np.diff(kept.indptr) == 0))
    if len(empty):
        filler = sp.csr_array(
            (np.full(len(empty), 1e-30, np.float32), (empty, np.zeros(len(empty), np.int64))), shape=kept.shape
        )
        kept = kept + filler
    return canonical_csr(kept)


def shape_of_hierarchy(owner: str, parents: ArrayLike, counts: NDArray[np.int64]) -> Shape:
    """Turn parents (labels first, then groups; -1 for the root) into a tree over the labels that have rows."""
    n_labels = len(counts)
    given = np.asarray(parents)
    if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) <= n_labels:
        raise ValueError(
            f"{owner}: hierarchy must be a 1-D int array with the parent of each of {n_labels} labels and then of each "
            f"group, got shape {given.shape} of {given.dtype}"
        )
    above = given.astype(np.int64)
    roots = np.flatnonzero(above < 0)
    if len(roots) != 1 or roots[0] < n_labels:
        raise ValueError(f"{owner}: hierarchy must have exactly one root (-1) among the groups, got {len(roots)}")
    if (above >= len(above)).any() or ((above >= 0) & (above < n_labels)).any():
        raise ValueError(f"{owner}: hierarchy must name groups, {n_labels} to {len(above) - 1}, as parents")
    return _breadth_first(owner, above, int(roots[0]), counts)


def _breadth_first(owner: str, above: NDArray[np.int64], root: int, counts: NDArray[np.int64]) -> Shape:
    n_labels = len(counts)
    by_parent = np.argsort(above, kind="stable")
    borders = np.searchsorted(above[by_parent], np.arange(len(above) + 1))
    order, seen = [root], 1
    for group in order:  # grows while it is walked
        below = by_parent[borders[group] : borders[group + 1]]
        order += below[below >= n_labels].tolist()
        seen += len(below)
    if seen != len(above):
        raise ValueError(f"{owner}: hierarchy must lead from every label and group to the root; it has a cycle")
    is_used = np.concatenate([counts > 0, np.zeros(len(above) - n_labels, dtype=bool)])
    for group in reversed(order):
        is_used[group] = is_used[by_parent[borders[group] : borders[group + 1]]].any()
    kept = [group for group in order if is_used[group]]
    numbers = np.zeros(len(above), dtype=np.int64)
    numbers[kept] = np.arange(len(kept))
    child_ids: list[NDArray[np.int64]] = []
    for group in kept:
        below = by_parent[borders[group] : borders[group + 1]]
        below = below[is_used[below]]
        if len(below) > 65535:
            raise ValueError(f"{owner}: a group of the hierarchy may have 65535 children, got {len(below)}; divide it")
        child_ids.append(np.where(below < n_labels, ~below, numbers[below]))
    indptr = np.cumsum([0, *(len(part) for part in child_ids)]).astype(np.int64)
    return Shape(np.zeros(1, np.int32), indptr, np.concatenate(child_ids).astype(np.int32))
