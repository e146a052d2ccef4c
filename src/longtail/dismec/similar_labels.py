"""OvAP++: which label begins with which other label's weights (Fang et al. 2019; msi-dismec, section 2)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree


def label_tree(Y: sp.csr_array) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Order labels along the minimum spanning tree of their Hamming distances, the all-negative label as root.

    Returns
    -------
    label_order : int32 (n_labels,)
        The labels in depth-first order, so that a range of places holds mostly whole branches.
    label_parents : int32 (n_labels,)
        For each place in the order the place of its parent, -1 for children of the root.
    """
    n_labels = Y.shape[1]
    counts = np.bincount(Y.indices, minlength=n_labels)
    pattern = sp.csr_array((np.ones(Y.nnz, np.int32), Y.indices, Y.indptr), shape=Y.shape)
    together = sp.coo_array(sp.triu(pattern.T @ pattern, k=1))
    rows, columns = (part.astype(np.int64) for part in together.coords)
    distances = counts[rows] + counts[columns] - 2 * together.data
    # Two labels that share no row are never nearer to each other than both are to the root, and a useful edge must
    # be shorter than the longer of the two edges to the root.
    useful = distances < np.maximum(counts[rows], counts[columns])
    root = n_labels
    sources = np.concatenate([rows[useful], np.full(n_labels, root)])
    targets = np.concatenate([columns[useful], np.arange(n_labels)])
    # csgraph reads 0 as "no edge": equal labels (distance 0) and empty labels get the least distance there is.
    lengths = np.maximum(np.concatenate([distances[useful], counts]).astype(np.float64), 1e-3)
    graph = sp.coo_array((lengths, (sources, targets)), shape=(n_labels + 1, n_labels + 1)).tocsr()
    tree = minimum_spanning_tree(sp.csr_matrix(graph))
    neighbours = sp.csr_array(tree + tree.T)
    neighbours.sort_indices()

    order: list[int] = []
    parents: list[int] = []
    place = np.full(n_labels + 1, -1, dtype=np.int64)
    waiting = [(root, -1)]
    while waiting:
        label, parent = waiting.pop()
        if label != root:
            place[label] = len(order)
            order.append(label)
            parents.append(-1 if parent == root else int(place[parent]))
        children = neighbours.indices[neighbours.indptr[label] : neighbours.indptr[label + 1]]
        waiting.extend((int(child), label) for child in children[::-1] if child != parent)
    return np.array(order, dtype=np.int32), np.array(parents, dtype=np.int32)
