"""Put new labels into fitted trees: each joins the leaf that the tree routes most of its rows to."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._matrices import Columns
from longtail.execution import Params, Run, Shard
from longtail.label_tree import training
from longtail.label_tree.routing import rows_by_node
from longtail.label_tree.state import LabelForest


def with_new_labels(
    forest: LabelForest,
    tree: int,
    X: sp.csr_array,
    columns: Columns,
    first_id: int,
    params: Params,
    positive_weights: NDArray[np.float32] | None,
    beam_width: int,
    link_power: int,
    run: Run,
) -> LabelForest:
    """Train new labels, numbered from `first_id` on, in the leaves of one tree that they belong to."""
    leaves = choose_leaves(forest, tree, rows_by_node(forest, X, 1, link_power, run), columns)
    node_ids = np.unique(leaves[leaves >= 0]).astype(np.int32)
    if not len(node_ids):
        return forest
    new_labels = [np.flatnonzero(leaves == node) for node in node_ids]
    indptr, row_ids = rows_by_node(forest, X, beam_width, link_power, run)
    near = [row_ids[indptr[node] : indptr[node + 1]] for node in node_ids]
    # One small tree per leaf, whose children are its new labels.
    arrays: dict[str, NDArray[Any]] = {
        **training.row_arrays(X),
        "y_indptr": columns[0],
        "y_row_ids": columns[1],
        "child_indptr": _borders(new_labels),
        "child_ids": ~np.concatenate(new_labels).astype(np.int32),
        "node_ids": np.arange(len(node_ids), dtype=np.int32),
        "block_borders": np.array([0, len(node_ids)], dtype=np.int64),
        "extra_indptr": _borders(near),
        "extra_rows": np.concatenate(near),
    }
    if positive_weights is not None:
        arrays["positive_weights"] = positive_weights
    weight_type = "int8" if forest.is_int8 else "float32"
    shard = training.train_block(arrays, dict(params) | {"weight_type": weight_type}, 0, run.control)
    return with_new_edges(forest, node_ids, [ids + first_id for ids in new_labels], shard)


def choose_leaves(
    forest: LabelForest, tree: int, routes: tuple[NDArray[np.int64], NDArray[np.int32]], columns: Any
) -> NDArray[np.int64]:
    """Choose for each new label the leaf of a tree that most of its rows are routed to, the first one among equals.

    `routes` are the rows that each node is visited by, `columns` the rows of each new label. Labels whose rows reach
    no leaf get -1.
    """
    first, last = tree_range(forest, tree)
    node_indptr, node_rows = routes
    nodes = np.repeat(np.arange(forest.n_nodes), np.diff(node_indptr))
    inside = (nodes >= first) & (nodes < last)
    nodes, rows = nodes[inside], node_rows[inside]
    by_row = np.argsort(rows, kind="stable")
    nodes, rows = nodes[by_row], rows[by_row]
    indptr, row_ids = columns
    chosen = np.full(len(indptr) - 1, -1, dtype=np.int64)
    for label in range(len(chosen)):
        own = row_ids[indptr[label] : indptr[label + 1]]
        begins, ends = np.searchsorted(rows, own), np.searchsorted(rows, own, side="right")
        visited = np.concatenate([nodes[a:b] for a, b in zip(begins, ends, strict=True)] or [nodes[:0]])
        if len(visited):
            found, counts = np.unique(visited, return_counts=True)
            chosen[label] = found[np.argmax(counts)]
    return chosen


def tree_range(forest: LabelForest, tree: int) -> tuple[int, int]:
    """Return the first node of a tree, and the one behind its last."""
    roots = forest.tree_roots
    return int(roots[tree]), int(roots[tree + 1]) if tree + 1 < len(roots) else forest.n_nodes


def with_new_edges(forest: LabelForest, node_ids: NDArray[np.int32], label_ids: Any, shard: Shard) -> LabelForest:
    """Append edges to nodes: those of shard node i go to node_ids[i] and lead to the labels label_ids[i]."""
    values = "codes" if forest.is_int8 else "weights"
    pieces: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("child_ids", "feature_ids", "row_begins", "edges", values, "biases", "scales")
    }
    sizes = {"child_ids": np.diff(forest.child_indptr), "feature_ids": np.diff(forest.feature_indptr)}
    sizes["edges"] = np.diff(forest.entry_begins)
    position = {int(node): at for at, node in enumerate(node_ids)}
    begins = np.concatenate([[0], np.cumsum([len(ids) for ids in label_ids])])
    done = 0  # nodes before this one are copied
    for node in [*sorted(position), forest.n_nodes]:
        _copy(forest, pieces, done, node, values)
        done = node
        if node == forest.n_nodes:
            break
        at = position[node]
        own, new = _entries(forest, node, values), _shard_entries(shard, at, values)
        n_children = int(sizes["child_ids"][node])
        features = np.concatenate([own[0], new[0]])
        edges = np.concatenate([own[1], new[1] + n_children])
        order = np.lexsort((edges, features))
        found, row_begins = np.unique(features[order], return_index=True)
        old_edges = slice(int(forest.child_indptr[node]), int(forest.child_indptr[node + 1]))
        new_edges = slice(int(begins[at]), int(begins[at + 1]))
        pieces["child_ids"] += [forest.child_ids[old_edges], ~np.asarray(label_ids[at], dtype=np.int32)]
        pieces["feature_ids"].append(found.astype(np.int32))
        pieces["row_begins"].append(row_begins.astype(np.int32))
        pieces["edges"].append(edges[order].astype(np.uint16))
        pieces[values].append(np.concatenate([own[2], new[2]])[order])
        for name in ("biases", "scales") if forest.is_int8 else ("biases",):
            pieces[name] += [getattr(forest, name)[old_edges], shard[name][new_edges]]
        sizes["child_ids"][node] += len(label_ids[at])
        sizes["feature_ids"][node], sizes["edges"][node] = len(found), len(edges)
        done = node + 1
    joined = {name: np.concatenate(parts) if parts else getattr(forest, name) for name, parts in pieces.items()}
    borders = {name: np.concatenate([[0], np.cumsum(size)]).astype(np.int64) for name, size in sizes.items()}
    empty = {"weights": forest.weights} if forest.is_int8 else {"codes": forest.codes}
    return LabelForest(
        tree_roots=forest.tree_roots,
        child_indptr=borders["child_ids"],
        feature_indptr=borders["feature_ids"],
        entry_begins=borders["edges"],
        **joined,
        **empty,
    )


def _copy(forest: LabelForest, pieces: dict[str, list[NDArray[Any]]], first: int, last: int, values: str) -> None:
    edges = slice(int(forest.child_indptr[first]), int(forest.child_indptr[last]))
    rows = slice(int(forest.feature_indptr[first]), int(forest.feature_indptr[last]))
    entries = slice(int(forest.entry_begins[first]), int(forest.entry_begins[last]))
    for name in ("child_ids", "biases", "scales"):
        pieces[name].append(getattr(forest, name)[edges])
    for name in ("feature_ids", "row_begins"):
        pieces[name].append(getattr(forest, name)[rows])
    for name in ("edges", values):
        pieces[name].append(getattr(forest, name)[entries])


def _entries(forest: LabelForest, node: int, values: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rows = slice(int(forest.feature_indptr[node]), int(forest.feature_indptr[node + 1]))
    entries = slice(int(forest.entry_begins[node]), int(forest.entry_begins[node + 1]))
    n_entries = entries.stop - entries.start
    lengths = np.diff(np.append(forest.row_begins[rows], n_entries))
    features = np.repeat(forest.feature_ids[rows], lengths)
    return features, forest.edges[entries].astype(np.int64), getattr(forest, values)[entries]


def _shard_entries(shard: Shard, at: int, values: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rows = slice(int(shard["feature_indptr"][at]), int(shard["feature_indptr"][at + 1]))
    entries = slice(int(shard["entry_begins"][at]), int(shard["entry_begins"][at + 1]))
    lengths = np.diff(np.append(shard["row_begins"][rows], entries.stop - entries.start))
    features = np.repeat(shard["feature_ids"][rows], lengths)
    return features, shard["edges"][entries].astype(np.int64), shard[values][entries]


def _borders(parts: list[NDArray[Any]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
