"""Train the edges of label trees: blocks of nodes as tasks, shards in, one forest out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail.execution import Arrays, Params, Plan, Run, Shard
from longtail.label_tree.routing import rows_by_node
from longtail.label_tree.shapes import Shape, wide_beam
from longtail.label_tree.state import LabelForest

# A task is the same nodes whatever n_jobs is; so many tasks keep a cluster busy and cost nothing on one machine.
_MAX_BLOCKS = 128


def row_arrays(X: sp.csr_array) -> dict[str, NDArray[Any]]:
    """Name the parts of X."""
    return {"x_indptr": X.indptr, "x_indices": X.indices, "x_values": X.data}


def train_paths(owner: str, run: Run, arrays: Arrays, shape: Shape, params: Params) -> LabelForest:
    """Train each edge on the rows that reach its parent."""
    node_ids = np.arange(shape.n_nodes, dtype=np.int32)
    shards = train_nodes(owner, run, arrays, shape, node_ids, params, "nodes")
    return join_nodes(shape, shards, node_ids, int8=params["weight_type"] == "int8")


def train_exact(
    owner: str,
    run: Run,
    X: sp.csr_array,
    arrays: Arrays,
    shape: Shape,
    params: Params,
    *,
    beam_width: int | None,
    link_power: int,
) -> LabelForest:
    """Train inner nodes first; then the labels of each leaf, also against the rows that a wide beam leads there."""
    int8 = params["weight_type"] == "int8"
    upper, leaves = _upper_and_leaves(shape)
    shards = train_nodes(owner, run, arrays, shape, upper, params, "nodes")
    if len(upper):
        copies = [dict(shard) for shard in shards]  # join_nodes empties them
        above = join_nodes(shape, copies, upper, int8=int8)
        width = wide_beam(len(leaves) // len(shape.tree_roots)) if beam_width is None else int(beam_width)
        routes = rows_by_node(above, X, width, link_power, run)
        arrays = dict(arrays) | _negatives(routes, shape.n_nodes, leaves)
    shards = shards + train_nodes(owner, run, arrays, shape, leaves, params, "leaves")
    return join_nodes(shape, shards, np.concatenate([upper, leaves]), int8=int8)


def train_nodes(
    owner: str,
    run: Run,
    arrays: Arrays,
    shape: Shape,
    node_ids: NDArray[np.int32],
    params: Params,
    directory: str,
) -> list[Shard]:
    """Train the edges of some nodes, in blocks of about equal work; shards are in the order of `node_ids`."""
    if not len(node_ids):
        return []
    work = node_work(shape, np.diff(arrays["y_indptr"]))[node_ids]
    steps = np.floor(np.cumsum(work) * (_MAX_BLOCKS / max(float(work.sum()), 1.0))).astype(np.int64)
    borders = np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1, [len(node_ids)]]).astype(np.int64)
    plan = Plan(
        owner=owner,
        unit="nodes",
        task=train_block,
        arrays=dict(arrays)
        | {
            "child_indptr": shape.child_indptr,
            "child_ids": shape.child_ids,
            "node_ids": node_ids,
            "block_borders": borders,
        },
        params=params,
        n_tasks=len(borders) - 1,
        n_units=len(node_ids),
    )
    return run.map(plan, within=directory)


def train_block(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Train the edges of one block of nodes."""
    first, last = (int(border) for border in arrays["block_borders"][task_id : task_id + 2])
    extra_indptr, extra_rows = None, None
    if "extra_indptr" in arrays:
        borders = arrays["extra_indptr"][first : last + 1]
        extra_rows = arrays["extra_rows"][borders[0] : borders[-1]]
        extra_indptr = borders - borders[0]
    trained = _core.train_label_tree(
        _core.Rows(int(_number(params, "n_features")), arrays["x_indptr"], arrays["x_indices"], arrays["x_values"]),
        arrays["y_indptr"],
        arrays["y_row_ids"],
        arrays.get("positive_weights"),
        arrays.get("row_weights"),
        arrays["child_indptr"],
        arrays["child_ids"],
        arrays["node_ids"][first:last],
        extra_indptr,
        extra_rows,
        _core.LabelTreeConfig(
            loss=str(params["loss"]),
            cost=_number(params, "cost"),
            tolerance=_number(params, "tolerance"),
            max_passes=int(_number(params, "max_passes")),
            bias=_number(params, "bias"),
            prune_below=_number(params, "prune_below"),
        ),
        int(_number(params, "seed")),
        1,
        control,
    )
    shard = cast(Shard, trained)
    if not (np.isfinite(shard["biases"]).all() and np.isfinite(shard["weights"]).all()):
        raise ValueError("LabelTree: the weights overflowed float32; scale X down, or set unit_rows=True")
    if params["weight_type"] == "int8":
        n_children = np.diff(arrays["child_indptr"])[arrays["node_ids"][first:last]]
        shard = _rounded(shard, n_children)
    return shard


def node_work(shape: Shape, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Estimate each node's work: the label entries below it, once per sixteen children."""
    n_children = np.diff(shape.child_indptr)
    entries = np.zeros(shape.n_nodes)
    per_edge = np.where(shape.child_ids < 0, counts[np.maximum(~shape.child_ids, 0)], 0).astype(np.float64)
    borders = shape.child_indptr.tolist()
    parent_edges = np.full(shape.n_nodes, -1, dtype=np.int64)
    inner = np.flatnonzero(shape.child_ids >= 0)
    parent_edges[shape.child_ids[inner]] = inner
    for node in range(shape.n_nodes - 1, -1, -1):
        entries[node] = per_edge[borders[node] : borders[node + 1]].sum()
        if parent_edges[node] >= 0:
            per_edge[parent_edges[node]] = entries[node]
    work: NDArray[np.float64] = entries * -(-n_children // 16)
    return work


def join_nodes(shape: Shape, shards: Sequence[Shard], node_ids: NDArray[np.int32], *, int8: bool) -> LabelForest:
    """Put the weights of all nodes in order; nodes that are not among `node_ids` get none."""
    n_features = _sizes(shards, "feature_indptr")
    n_entries = _sizes(shards, "entry_begins")
    n_children = np.diff(shape.child_indptr)
    kinds: dict[str, tuple[NDArray[np.int64], type[np.generic]]] = {
        "feature_ids": (n_features, np.int32),
        "row_begins": (n_features, np.int32),
        "edges": (n_entries, np.uint16),
        "weights": (n_entries, np.float32),
        "codes": (n_entries, np.int8),
        "scales": (n_children[node_ids], np.float32),
        "biases": (n_children[node_ids], np.float32),
    }
    is_sorted = bool((np.diff(node_ids) > 0).all())
    joined: dict[str, NDArray[Any]] = {}
    for name, (sizes, dtype) in kinds.items():
        if name in (("weights",) if int8 else ("codes", "scales")):
            joined[name] = np.empty(0, dtype)
            continue
        parts = np.concatenate([shard.pop(name) for shard in shards]) if shards else np.empty(0, dtype)
        joined[name] = parts if is_sorted else parts[_places_by_node(node_ids, sizes)]
    if len(node_ids) < shape.n_nodes:  # nodes without weights still have edges
        places = _edges_of(shape, np.sort(node_ids))
        for name in ("biases", "scales"):
            if len(joined[name]):
                joined[name] = _spread(joined[name], places, len(shape.child_ids))
    per_node = np.zeros((2, shape.n_nodes), dtype=np.int64)
    per_node[0, node_ids], per_node[1, node_ids] = n_features, n_entries
    borders = np.zeros((2, shape.n_nodes + 1), dtype=np.int64)
    np.cumsum(per_node, axis=1, out=borders[:, 1:])
    return LabelForest(
        *shape, feature_indptr=np.ascontiguousarray(borders[0]), entry_begins=np.ascontiguousarray(borders[1]), **joined
    )


def _upper_and_leaves(shape: Shape) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Divide the nodes into those with a node among their children, and those with labels only."""
    has_nodes = np.maximum.reduceat(shape.child_ids, shape.child_indptr[:-1]) >= 0
    return np.flatnonzero(has_nodes).astype(np.int32), np.flatnonzero(~has_nodes).astype(np.int32)


def _negatives(
    routes: tuple[NDArray[np.int64], NDArray[np.int32]], n_nodes: int, leaves: NDArray[np.int32]
) -> dict[str, NDArray[Any]]:
    """Return for each leaf the rows whose beam visits it."""
    indptr, row_ids = routes
    is_leaf = np.zeros(n_nodes, dtype=bool)
    is_leaf[leaves] = True
    sizes = np.diff(indptr)
    if not is_leaf.all():  # nodes with labels and inner children as well are trained already
        row_ids = row_ids[np.repeat(is_leaf, sizes)]
    return {"extra_indptr": np.concatenate([[0], np.cumsum(sizes[leaves])]).astype(np.int64), "extra_rows": row_ids}


def _sizes(shards: Sequence[Shard], name: str) -> NDArray[np.int64]:
    """Return the sizes of all nodes' parts, shard after shard."""
    return np.concatenate([np.diff(shard[name]) for shard in shards] or [np.empty(0, np.int64)])


def _places_by_node(node_ids: NDArray[np.int32], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the entries of each node are, nodes in increasing order."""
    order = np.argsort(node_ids, kind="stable")
    begins = np.cumsum(sizes) - sizes
    taken = sizes[order]
    ends = np.cumsum(taken)
    places: NDArray[np.int64] = np.repeat(begins[order] - (ends - taken), taken) + np.arange(
        ends[-1] if len(ends) else 0
    )
    return places


def _edges_of(shape: Shape, node_ids: NDArray[np.int32]) -> NDArray[np.int64]:
    sizes = np.diff(shape.child_indptr)[node_ids]
    ends = np.cumsum(sizes)
    places: NDArray[np.int64] = np.repeat(shape.child_indptr[node_ids] - (ends - sizes), sizes) + np.arange(ends[-1])
    return places


def _spread(values: NDArray[Any], places: NDArray[np.int64], size: int) -> NDArray[Any]:
    out = np.zeros(size, dtype=values.dtype)
    out[places] = values
    return out


def _rounded(shard: Shard, n_children: NDArray[np.int64]) -> Shard:
    """Round the weights of each edge to int8 codes and a scale."""
    n_entries = np.diff(shard["entry_begins"])
    n_edges = len(shard["biases"])
    # Edges count through the block: each node's begin where those of the one before end.
    first_edges = np.cumsum(n_children) - n_children
    edges = np.repeat(first_edges, n_entries) + shard["edges"]
    scales = np.zeros(n_edges, dtype=np.float32)
    np.maximum.at(scales, edges, np.abs(shard["weights"]))
    scales /= np.float32(127)
    safe = np.where(scales > 0, scales, np.float32(1))
    shard["codes"] = np.rint(shard.pop("weights") / safe[edges]).astype(np.int8)
    shard["scales"] = scales
    return shard


def _number(params: Params, name: str) -> float:
    value = params[name]
    assert isinstance(value, int | float)  # the estimator's rules have seen it
    return float(value)
