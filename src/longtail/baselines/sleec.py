"""SLEEC: sparse local embeddings for extreme classification (Bhatia, Jain, Kar, Varma and Jain, NIPS 2015)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._cancel import current_control
from longtail._csr import csr_from_parts
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix
from longtail._os import available_memory_bytes
from longtail._ranges import Between
from longtail._rules import Int, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail._words import counted
from longtail.baselines.label_graph import embed_graph, neighbour_graph
from longtail.baselines.ridge import Ridge
from longtail.baselines.row_tree import RowTree, check_lists, grow_row_tree, join_row_trees, kept_lists
from longtail.baselines.shared_arrays import arrays_of, data_of, run_tasks
from longtail.baselines.sparse_top_k import top_k_of_sparse
from longtail.execution import Arrays, Params, Run, Shard
from longtail.gbdt.projection import Dense, one_blas_thread, project

_ROWS_PER_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class LocalEmbeddings(State):
    """Trees that cluster rows; per cluster a regression to embeddings, and the embeddings of its training rows.

    Cluster c, a leaf of some tree, has the rows c · n_features … of `regressors`, and its training rows are
    leaf_label_ids[leaf_begin[leaf] : leaf_begin[leaf + 1]] of the tree, with an embedding at each of these places.
    """

    tree: RowTree
    tree_roots: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
    regressors: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]
    intercepts: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]
    embeddings: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]
    row_begin: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]
    row_label_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> LocalEmbeddings:
        begin, label_ids = kept_lists(self.row_begin, self.row_label_ids, new_ids)
        return replace(self, row_begin=begin, row_label_ids=label_ids)

    def check(self, owner: str, facts: Facts) -> None:
        self.tree.check_items(owner, facts.n_features_in, facts.n_rows)
        check_lists(owner, "row", self.row_begin, self.row_label_ids, facts.n_rows, facts.n_labels)
        if len(self.tree_roots) and self.tree_roots.max() >= len(self.tree.left_children):
            raise ValueError(f"{owner}: tree_roots_ names node {self.tree_roots.max()}, which does not exist")
        n_clusters, n_components = int((self.tree.left_children < 0).sum()), self.intercepts.shape[1]
        for name, expected in {
            "regressors": (n_clusters * facts.n_features_in, n_components),
            "intercepts": (n_clusters, n_components),
            "embeddings": (len(self.tree.leaf_label_ids), n_components),
        }.items():
            if getattr(self, name).shape != expected:
                raise ValueError(f"{owner}: {name}_ must have shape {expected}, got {getattr(self, name).shape}")

    def neighbours(
        self, X: Matrix, n_neighbours: int, vote_power: float, n_threads: int, control: _core.Control
    ) -> sp.csr_array:
        """Return, summed over all trees, the weight of each training row that is among the nearest of a row of X."""
        n_features, n_train = X.shape[1], len(self.row_begin) - 1
        cluster_ids = np.cumsum(self.tree.left_children < 0) - 1
        rows_of, found, weights = [], [], []
        for root in self.tree_roots:
            for leaf, members in self.tree.leaves_of(sp.csr_array(X), int(root)):
                own = slice(int(self.tree.leaf_begin[leaf]), int(self.tree.leaf_begin[leaf + 1]))
                cluster = int(cluster_ids[leaf])
                W = self.regressors[cluster * n_features : (cluster + 1) * n_features]
                Z = project(X[members], np.ascontiguousarray(W), n_threads, control) + self.intercepts[cluster]
                n_kept = min(n_neighbours, own.stop - own.start)
                items = np.ascontiguousarray(unit(self.embeddings[own]).T)
                places, products = _core.dense_product_top_k(Z, items, n_kept, n_threads, control)
                rows_of.append(np.repeat(members, n_kept))
                found.append(self.tree.leaf_label_ids[own][places.reshape(-1)])
                weights.append(vote_weights(products, vote_power).reshape(-1))
        parts = (np.concatenate(weights), (np.concatenate(rows_of), np.concatenate(found)))
        return sp.csr_array(parts, shape=(X.shape[0], n_train))


def unit(Z: Dense) -> Dense:
    """Scale vectors to length one: neighbours are those with the smallest angle."""
    return np.asarray(Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12), dtype=np.float32)


def vote_weights(products: Dense, power: float) -> Dense:
    """Weigh neighbours, the nearest first, by their cosine relative to that of the nearest, to a power.

    `products` are cosines times any positive number per row. Where even the nearest has no positive one, all weigh 1.
    """
    nearest = products[:, :1]
    relative = np.maximum(products, 0) / np.where(nearest > 0, nearest, 1)
    return np.where(nearest > 0, relative**power, 1).astype(np.float32)


def learn_learner(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Cluster the rows; embed the label vectors of each cluster and regress the embeddings on X."""
    X, Y = data_of(arrays)
    n_rows = X.shape[0]
    seed = int(np.random.SeedSequence([int(params["random_state"] or 0), task_id]).generate_state(1)[0])
    itself = sp.csr_array((np.ones(n_rows, np.float32), np.arange(n_rows), np.arange(n_rows + 1)))
    tree = grow_row_tree(sp.csr_array(X), itself, int(params["cluster_size"] or 1), seed, control)
    regressors, intercepts, embeddings = [], [], []
    n_components = int(params["n_components"] or 0)
    with one_blas_thread():
        for leaf in np.flatnonzero(tree["left_children"] < 0):
            members = tree["leaf_label_ids"][tree["leaf_begin"][leaf] : tree["leaf_begin"][leaf + 1]]
            graph = neighbour_graph(Y[members], int(params["n_graph_neighbours"] or 1))
            Z = embed_graph(graph, n_components, int(params["n_iterations"] or 1), seed, control)
            W, b = Ridge(X[members], float(params["l2"] or 0), control).regress(Z)
            regressors.append(W)
            intercepts.append(b)
            embeddings.append(project(X[members], W, 1, control) + b)
    return tree | {
        "regressors": np.vstack(regressors),
        "intercepts": np.vstack(intercepts),
        "embeddings": np.vstack(embeddings),
    }


@dataclass(kw_only=True, eq=False, repr=False)
class SLEEC(XMCClassifier):
    """Rank the labels of the nearest training rows in an embedding that keeps label neighbourhoods.

    Rows are clustered. In every cluster, embeddings of the training rows are learnt whose inner products are those of
    the label vectors, for pairs of nearest label vectors only, and regressed on X. A row is embedded by the regression
    of its cluster, and the labels of its nearest training rows, by angle, vote; nearer rows count more. Several
    learners, with other clusterings, are added up. A baseline of the PfastreXML and GBDT-SPARSE papers. The regression
    is ridge regression instead of the l1-regularised one of the paper. Memory: per learner, clusters · n_features ·
    n_components floats, and n_rows · n_components.

    Parameters
    ----------
    n_learners : int, default 10
        One is enough, and trained, where all rows fit into one cluster.
    cluster_size : int, default 6000
        Training rows per cluster at most.
    n_components : int, default 100
        Dimension of the embeddings.
    n_graph_neighbours : int, default 50
        Nearest label vectors whose inner products are kept.
    n_neighbours : int, default 25
        Training rows that vote.
    vote_power : float, default 8.0
        A vote counts by the cosine of its row, relative to the nearest one, to this power; 0 counts all alike.
    n_iterations : int, default 30
        Of singular value projection, which finds the embeddings.
    l2 : float, default 1.0
        Regularisation of the regression.
    unit_rows, n_jobs, random_state
        As everywhere; the seed starts the clustering.

    Attributes
    ----------
    regressors_, intercepts_, embeddings_ : float32 arrays, by cluster
    row_begin_, row_label_ids_ : the labels of the training rows

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    >>> model = lt.SLEEC(n_components=3, n_neighbours=5, n_graph_neighbours=5, l2=0.1).fit(X, X)
    >>> model.predict_top_k(X[::10], top_k=1).label_ids.ravel()
    array([0, 1, 2], dtype=int32)
    """

    n_learners: Annotated[int, Int(1), Between(1, 20)] = 10
    cluster_size: Annotated[int, Int(2)] = 6000
    n_components: Annotated[int, Int(1), Between(20, 200, log=True)] = 100
    n_graph_neighbours: Annotated[int, Int(1), Between(10, 250, log=True)] = 50
    n_neighbours: Annotated[int, Int(1), Between(5, 100, log=True)] = 25
    vote_power: Annotated[float, Real(0, 1000)] = 8.0
    n_iterations: Annotated[int, Int(1)] = 30
    l2: Annotated[float, Real(0, above=True), Between(0.01, 100.0, log=True)] = 1.0

    _State: ClassVar = LocalEmbeddings
    # Scores are shares of the votes.
    _threshold: ClassVar[float] = 0.4

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> LocalEmbeddings:
        n_learners = self.n_learners if X.shape[0] > self.cluster_size else 1
        self._require_memory(n_learners, *X.shape)
        shards = run_tasks(self, run, learn_learner, "learners", n_learners, arrays_of(X, Y))
        joined = {name: np.concatenate([shard[name] for shard in shards]) for name in _BY_CLUSTER}
        for name, array in joined.items():
            if not np.isfinite(array).all():
                raise ValueError(f"SLEEC: {name}_ overflowed float32; scale X down, or set unit_rows=True")
        tree, roots = join_row_trees(shards)
        return LocalEmbeddings(tree=tree, tree_roots=roots, row_begin=Y.indptr, row_label_ids=Y.indices, **joined)

    def _require_memory(self, n_learners: int, n_rows: int, n_features: int) -> None:
        """Raise MemoryError if the fitted arrays, which are copied once, would not fit: before hours of training."""
        n_clusters = -(-n_rows // self.cluster_size)
        needed = 8.0 * n_learners * self.n_components * (n_clusters * n_features + n_rows)
        free = available_memory_bytes()
        if needed > free:
            raise MemoryError(
                f"SLEEC: {counted(n_learners, 'learner')} of {counted(n_clusters, 'cluster')} with "
                f"{counted(n_features, 'feature')} need at least "
                f"{needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free; set a lower n_learners or "
                "n_components, or a greater cluster_size"
            )

    def _top_k(self, fitted: Fitted[LocalEmbeddings], X: Matrix, top_k: int) -> TopK:
        state, n_threads, control = fitted.state, resolve_n_jobs(self.n_jobs), current_control()
        label_ids = np.full((X.shape[0], top_k), -1, dtype=np.int32)
        scores = np.zeros((X.shape[0], top_k), dtype=np.float32)
        ones = np.ones(len(state.row_label_ids), dtype=np.float32)
        Y = csr_from_parts(ones, state.row_label_ids, state.row_begin, (fitted.facts.n_rows, fitted.facts.n_labels))
        for begin in range(0, X.shape[0], _ROWS_PER_BLOCK):
            block = slice(begin, begin + _ROWS_PER_BLOCK)
            weights = state.neighbours(X[block], self.n_neighbours, float(self.vote_power), n_threads, control)
            votes = sp.csr_array(weights @ Y)
            votes.data /= np.repeat(weights.sum(axis=1), np.diff(votes.indptr)).astype(np.float32)
            label_ids[block], scores[block] = top_k_of_sparse(votes, top_k)
        return TopK(label_ids, scores)


_BY_CLUSTER = ("regressors", "intercepts", "embeddings")
