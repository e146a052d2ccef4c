"""Remove labels from fitted trees, and the nodes that have nothing below them any more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail.label_tree.state import LabelForest


def without_labels(forest: LabelForest, new_ids: NDArray[np.int32]) -> LabelForest:
    """Renumber labels and leave out those whose new id is -1."""
    keeps_edge, keeps_node = _kept(forest, new_ids)
    node_of_edge = np.repeat(np.arange(forest.n_nodes), np.diff(forest.child_indptr))
    node_ids = np.cumsum(keeps_node) - 1
    children = forest.child_ids[keeps_edge]
    renumbered = np.where(
        children >= 0, node_ids[np.maximum(children, 0)], ~new_ids[~np.minimum(children, -1)].astype(np.int64)
    )
    # Where an edge is in its node once the edges before it have gone.
    running = np.concatenate([[0], np.cumsum(keeps_edge)])
    places = running[:-1] - running[forest.child_indptr[node_of_edge]]

    entry_rows = _rows_of_entries(forest)
    entry_nodes = np.repeat(np.arange(forest.n_nodes), np.diff(forest.entry_begins))
    old_edges = forest.child_indptr[entry_nodes] + forest.edges
    keeps_entry = keeps_edge[old_edges]
    n_entries = np.bincount(entry_rows[keeps_entry], minlength=len(forest.feature_ids))
    keeps_row = n_entries > 0
    row_nodes = np.repeat(np.arange(forest.n_nodes), np.diff(forest.feature_indptr))[keeps_row]
    feature_indptr = _borders(np.bincount(row_nodes, minlength=forest.n_nodes)[keeps_node])
    begins = np.concatenate([[0], np.cumsum(n_entries[keeps_row])])
    n_rows = np.diff(feature_indptr)
    entry_begins = begins[feature_indptr]
    is_int8 = forest.is_int8
    return LabelForest(
        tree_roots=node_ids[forest.tree_roots[keeps_node[forest.tree_roots]]].astype(np.int32),
        child_indptr=_borders(np.bincount(node_of_edge[keeps_edge], minlength=forest.n_nodes)[keeps_node]),
        child_ids=renumbered.astype(np.int32),
        feature_indptr=feature_indptr,
        feature_ids=forest.feature_ids[keeps_row],
        row_begins=(begins[:-1] - np.repeat(entry_begins[:-1], n_rows)).astype(np.int32),
        entry_begins=entry_begins.astype(np.int64),
        edges=places[old_edges[keeps_entry]].astype(np.uint16),
        weights=forest.weights if is_int8 else forest.weights[keeps_entry],
        codes=forest.codes[keeps_entry] if is_int8 else forest.codes,
        scales=forest.scales[keeps_edge] if is_int8 else forest.scales,
        biases=forest.biases[keeps_edge],
    )


def _kept(forest: LabelForest, new_ids: NDArray[np.int32]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which edges and which nodes still lead to a label."""
    children = forest.child_ids
    keeps_edge = children < 0
    keeps_edge[keeps_edge] = new_ids[~children[keeps_edge]] >= 0
    keeps_node = np.zeros(forest.n_nodes, dtype=bool)
    # Children come after their parents, so one walk from the end sees them first.
    for node in range(forest.n_nodes - 1, -1, -1):
        if keeps_edge[forest.child_indptr[node] : forest.child_indptr[node + 1]].any():
            keeps_node[node] = True
            if (above := forest.parents[node]) >= 0:
                keeps_edge[above] = True
    return keeps_edge, keeps_node


def _rows_of_entries(forest: LabelForest) -> NDArray[np.int64]:
    """Return the row, (node, feature), that each entry belongs to."""
    row_nodes = np.repeat(np.arange(forest.n_nodes), np.diff(forest.feature_indptr))
    begins = forest.entry_begins[row_nodes] + forest.row_begins
    sizes = np.diff(np.append(begins, len(forest.edges)))
    return np.repeat(np.arange(len(forest.feature_ids)), sizes)


def _borders(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
