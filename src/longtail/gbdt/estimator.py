"""GBDT-SPARSE: boosted trees whose leaves name only a few labels (Si et al., ICML 2017)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._contributions import Contributions
from longtail._matrices import Matrix, canonical_csr, labels_from
from longtail._progress import Progress
from longtail._ranges import Between, Range
from longtail._rules import Choice, Int, Nothing, Real, check_value
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail._tree_paths import LEAST_SHARE
from longtail.execution import Arrays, Checkpoint, Executor, RayExecutor, Run, Shard, fingerprint
from longtail.gbdt.forest import Forest, Split, TreeVote, add_tree, check_forest, join_trees, sum_gains, vote
from longtail.gbdt.on_cluster import ClusterBlocks
from longtail.gbdt.paths import sum_paths
from longtail.gbdt.projection import leml_projection, pca_projection, project, random_projection

__all__ = ["GBDTSparse", "Split", "TreeVote"]

# A sparse X with more than this share of entries set is worked on as a dense one.
_DENSE_SHARE = 0.3


@dataclass(kw_only=True, eq=False, repr=False)
class GBDTSparse(XMCClassifier):
    """Boost trees with sparse leaves: small models and fast predictions for many labels.

    Each tree fits the gradients of all labels at once. A leaf keeps the `leaf_top_k` labels with the largest sums
    (an L0 constraint, solved exactly: eq. 19 of the paper), so gradients, leaves and predictions stay sparse. Trees
    want dense features; sparse rows are first projected to `n_components` columns.

    Parameters
    ----------
    n_trees : int, default 150
        Trees to grow; fewer when `patience` ends the run.
    leaf_top_k : int or None, default 20
        Labels a leaf keeps (the paper's k). None keeps all: the vanilla booster.
    split_labels : int or None, default 64
        Labels the split search looks at in a node: those that can reach the largest sums, never fewer than
        `leaf_top_k`. None looks at all, as the paper does; it is slower and was not more accurate on any data we have.
    max_depth : int, default 10
    min_leaf_size : int, default 100
        Rows each side of a split must have.
    l2 : float, default 5.0
        The paper's λ: a leaf's value is its sum divided by (rows + l2).
    shrinkage : float, default 0.1
        Every tree's leaves are multiplied by this.
    loss : {"squared_hinge", "squared"}, default "squared_hinge"
        The hinge (eq. 9) forgives scores above 1 of a row's labels and below 0 of the others.
    threshold_step : float, default 0.05
        Thresholds are tried at every this share of a node's sorted values, from 0.004 up; 1 tries every value.
    row_share, feature_share : float, default 1.0
        Share of the rows and of the (projected) features that each tree sees, drawn per tree.
    projection : {"auto", "leml", "pca", "random", "none"}, default "auto"
        How sparse rows become dense. LEML learns the projection from the labels. "auto" takes LEML for sparse X and
        nothing for dense X (or CSR with more than 30 % of its entries set).
    n_components : int, default 100
        Columns of the projection.
    projection_l2 : float, default 10.0
        The regulariser of LEML.
    patience : int or None, default None
        Stop after this many trees without a smaller validation loss and keep the best number of trees.
    validation_share : float, default 0.1
        Share of the rows that is held out when `patience` is set and fit gets no ``validation``.
    n_jobs, random_state
        As everywhere; the model does not depend on n_jobs.

    Attributes
    ----------
    tree_begin_ : int64 array (n_trees + 1,), first node of each tree
    split_features_, thresholds_, left_children_ : one entry a node; -1 marks leaves, the right child follows the left
    leaf_begin_ : int64 array (n_nodes + 1,), where each node's labels begin
    leaf_label_ids_, leaf_values_ : what leaves add to the scores
    feature_gains_ : float32 array, what the splits on each (projected) feature took off the objective
    projection_ : float32 array (n_features, n_components), or (0, 0) without projection
    training_losses_, validation_losses_ : float64 arrays, mean loss a row after each tree

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.array([[0.0], [0.1], [0.9], [1.0]])
    >>> Y = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])
    >>> model = lt.GBDTSparse(n_trees=20, min_leaf_size=1, l2=0.0, shrinkage=0.5).fit(X, Y)
    >>> model.predict_top_k([[0.95]], top_k=1).label_ids
    array([[1]], dtype=int32)
    """

    n_trees: int = 150
    leaf_top_k: int | None = 20
    split_labels: int | None = 64
    max_depth: int = 10
    min_leaf_size: int = 100
    l2: float = 5.0
    shrinkage: float = 0.1
    loss: str = "squared_hinge"
    threshold_step: float = 0.05
    row_share: float = 1.0
    feature_share: float = 1.0
    projection: str = "auto"
    n_components: int = 100
    projection_l2: float = 10.0
    patience: int | None = None
    validation_share: float = 0.1

    _rules: ClassVar = {
        "n_trees": (Int(1),),
        "leaf_top_k": (Int(1, 2**31 - 1), Nothing()),
        "split_labels": (Int(1, 2**31 - 1), Nothing()),
        "max_depth": (Int(0, 60),),
        "min_leaf_size": (Int(1),),
        "l2": (Real(0),),
        "shrinkage": (Real(0, 1, above=True),),
        "loss": (Choice("squared_hinge", "squared"),),
        "threshold_step": (Real(0.004, 0.5), Real(1, 1)),
        "row_share": (Real(0, 1, above=True),),
        "feature_share": (Real(0, 1, above=True),),
        "projection": (Choice("auto", "leml", "pca", "random", "none"),),
        "n_components": (Int(1),),
        "projection_l2": (Real(0, above=True),),
        "patience": (Int(1), Nothing()),
        "validation_share": (Real(0, 0.9, above=True),),
    }
    _ranges: ClassVar[dict[str, Range]] = {
        "leaf_top_k": Between(5, 100, log=True),
        "max_depth": Between(4, 14),
        "min_leaf_size": Between(2, 200, log=True),
        "l2": Between(0.1, 50.0, log=True),
        "shrinkage": Between(0.03, 0.5, log=True),
        "n_components": Between(30, 300, log=True),
    }
    _state: ClassVar[dict[str, ArraySpec]] = {
        "tree_begin_": ArraySpec(np.int64, ndim=1, min=0),
        "split_features_": ArraySpec(np.int32, ndim=1, min=-1),
        "thresholds_": ArraySpec(np.float32, ndim=1, finite=True),
        "left_children_": ArraySpec(np.int32, ndim=1, min=-1),
        "leaf_begin_": ArraySpec(np.int64, ndim=1, min=0),
        "leaf_label_ids_": ArraySpec(np.int32, ndim=1, min=0),
        "leaf_values_": ArraySpec(np.float32, ndim=1, finite=True),
        "feature_gains_": ArraySpec(np.float32, ndim=1, finite=True, min=0),
        "projection_": ArraySpec(np.float32, ndim=2, finite=True),
        "training_losses_": ArraySpec(np.float64, ndim=1, finite=True, min=0),
        "validation_losses_": ArraySpec(np.float64, ndim=1, finite=True, min=0),
    }
    tree_begin_: NDArray[np.int64] = field(init=False)
    split_features_: NDArray[np.int32] = field(init=False)
    thresholds_: NDArray[np.float32] = field(init=False)
    left_children_: NDArray[np.int32] = field(init=False)
    leaf_begin_: NDArray[np.int64] = field(init=False)
    leaf_label_ids_: NDArray[np.int32] = field(init=False)
    leaf_values_: NDArray[np.float32] = field(init=False)
    feature_gains_: NDArray[np.float32] = field(init=False)
    projection_: NDArray[np.float32] = field(init=False)
    training_losses_: NDArray[np.float64] = field(init=False)
    validation_losses_: NDArray[np.float64] = field(init=False)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
        validation: tuple[Any, Any] | None = None,
    ) -> Self:
        """Learn from rows and their labels.

        As for every estimator (trees follow one another; on Ray, workers that own columns grow each together), and:

        Parameters
        ----------
        validation : (X, Y), optional
            Rows and their 0/1 label matrix for early stopping; without it, `patience` holds rows out of X.

        Returns
        -------
        self
        """
        if validation is not None and self.patience is None:
            raise ValueError("GBDTSparse: validation is given, but patience is None; set patience, e.g. to 10")
        self._given_validation = validation
        try:
            return super().fit(X, y, executor=executor, checkpoint=checkpoint, progress=progress)
        finally:
            del self._given_validation

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run) -> None:
        X, Y, X_held, Y_held = self._hold_out(X, Y)
        arrays = {**_named("X", X), "Y.indptr": Y.indptr, "Y.indices": Y.indices}
        if X_held is not None and Y_held is not None:
            arrays |= {**_named("X_held", X_held), "Y_held.indptr": Y_held.indptr, "Y_held.indices": Y_held.indices}
        params = {name: value for name, value in self.get_params(deep=False).items() if name != "n_jobs"}
        shards = _Shards(
            run.open_checkpoint(fingerprint("GBDTSparse", arrays, params)) if run.checkpoint_path is not None else None
        )

        def work() -> None:
            self.projection_ = shards.load_or_make(0, lambda: self._learn_projection(X, Y, run))["projection"]
            n_held = 0 if X_held is None else X_held.shape[0]
            held = self._booster(self._dense(X_held, run), Y_held) if n_held else None
            self._boost(self._dense(X, run), Y, held, n_held, shards, run)

        try:
            run.call(work, "trees", self.n_trees)
        except _core.Cancelled:
            raise KeyboardInterrupt from None
        run.report("trees", self.n_trees, self.n_trees)

    def _hold_out(self, X: Matrix, Y: sp.csr_array) -> tuple[Matrix, sp.csr_array, Matrix | None, sp.csr_array | None]:
        """Return the rows to learn from and, for early stopping, those to validate on."""
        if self.patience is None:
            return X, Y, None, None
        if self._given_validation is not None:
            X_held, y_held = self._given_validation
            X_held = self._validated(X_held, reset=False)
            Y_held = labels_from("GBDTSparse: validation", y_held, X_held.shape[0]).Y
            if Y_held.shape[1] != Y.shape[1]:
                raise ValueError(
                    f"GBDTSparse: validation must have {Y.shape[1]} labels like y, got {Y_held.shape[1]}; "
                    "pass 0/1 matrices with one column a label"
                )
            return X, Y, X_held, Y_held
        n_rows = X.shape[0]
        n_held = max(1, round(self.validation_share * n_rows))
        if n_held >= n_rows:
            raise ValueError(f"GBDTSparse: patience needs at least 2 rows to hold one out, got n_samples = {n_rows}")
        shuffled = np.random.default_rng(self.random_state).permutation(n_rows)
        held, kept = np.sort(shuffled[:n_held]), np.sort(shuffled[n_held:])
        return _rows_of(X, kept), _rows_of(Y, kept), _rows_of(X, held), _rows_of(Y, held)

    def _learn_projection(self, X: Matrix, Y: sp.csr_array, run: Run) -> Shard:
        kind = self.projection
        if kind == "auto":
            kind = "leml" if sp.issparse(X) and _share_set(X) <= _DENSE_SHARE else "none"
        n_components = min(self.n_components, X.shape[1])
        if kind == "none":
            W = np.zeros((0, 0), dtype=np.float32)
        elif kind == "random":
            W = random_projection(X.shape[1], n_components, self.random_state)
        elif kind == "pca":
            n_components = min(n_components, X.shape[0])
            W = pca_projection(X, n_components, self.random_state, run.n_jobs, run.control)
        else:
            factors = leml_projection(
                X, Y, n_components, self.projection_l2, 5, self.random_state, run.n_jobs, run.control
            )
            W = factors.W
        return {"projection": W}

    def _dense(self, X: Matrix, run: Run) -> Matrix:
        """Return the rows as the trees see them."""
        if self.projection_.size:
            return project(X, self.projection_, run.n_jobs, run.control)
        if sp.issparse(X) and (self.threshold_step == 1 or _share_set(X) > _DENSE_SHARE):
            return np.asarray(X.toarray(), dtype=np.float32)
        return X

    def _native_params(self) -> dict[str, object]:
        return {
            "loss": self.loss,
            "leaf_top_k": 0 if self.leaf_top_k is None else self.leaf_top_k,
            "split_labels": 0 if self.split_labels is None else self.split_labels,
            "l2": float(self.l2),
            "max_depth": self.max_depth,
            "min_leaf_size": self.min_leaf_size,
            "threshold_step": float(self.threshold_step),
            "shrinkage": float(self.shrinkage),
            "row_share": float(self.row_share),
            "feature_share": float(self.feature_share),
            "seed": self.random_state,
        }

    def _booster(self, X: Matrix, Y: sp.csr_array) -> _core.Booster:
        params = self._native_params()
        if sp.issparse(X):
            return _core.Booster(X.shape[1], X.indptr, X.indices, X.data, Y.shape[1], Y.indptr, Y.indices, params)
        return _core.Booster(X, Y.shape[1], Y.indptr, Y.indices, params)

    def _boost(
        self, X: Matrix, Y: sp.csr_array, held: _core.Booster | None, n_held: int, shards: _Shards, run: Run
    ) -> None:
        booster = self._booster(X, Y)
        blocks: ClusterBlocks | None = None
        if isinstance(run.executor, RayExecutor):
            blocks = ClusterBlocks(run.executor, run, X, Y, self._native_params(), booster)
        trees: list[Shard] = []
        held_losses: list[float] = []
        quiet = _core.Control()  # the validation rows' own trees are no progress

        def grow(tree_id: int) -> Shard:
            if blocks is None:
                tree = cast(Shard, booster.grow(tree_id, run.n_jobs, run.control))
            else:
                tree = blocks.grow(tree_id, trees)
                add_tree(booster, tree, run.n_jobs, run.control)
            loss = booster.loss(run.n_jobs, run.control) / X.shape[0]
            return {**tree, "loss": np.array([loss])}

        for tree_id in range(self.n_trees):
            tree = shards.load(tree_id + 1)
            if tree is None:
                tree = shards.store(tree_id + 1, grow(tree_id))
            else:
                add_tree(booster, tree, run.n_jobs, run.control)
            trees.append(tree)
            if held is None:
                continue
            add_tree(held, tree, run.n_jobs, quiet)
            held_losses.append(held.loss(run.n_jobs, quiet) / n_held)
            if len(trees) - 1 - int(np.argmin(held_losses)) >= (self.patience or 0):
                break
        if blocks is not None:
            blocks.close()
        if held is not None:
            trees = trees[: int(np.argmin(held_losses)) + 1]
        self.validation_losses_ = np.array(held_losses, dtype=np.float64)
        self.training_losses_ = np.concatenate([tree["loss"] for tree in trees])
        for name, array in join_trees(trees)._asdict().items():
            setattr(self, f"{name}_", array)
        self.feature_gains_ = sum_gains(trees, X.shape[1])

    def _top_k(self, X: Matrix, top_k: int) -> TopK:
        n_threads, control = resolve_n_jobs(self.n_jobs), _core.Control()
        if self.projection_.size:
            X = project(X, self.projection_, n_threads, control)
        rest = (self.n_labels_, *self._forest(), top_k, n_threads, control)
        if sp.issparse(X):
            return TopK(*_core.gbdt_top_k_sparse(X.shape[1], X.indptr, X.indices, X.data, *rest))
        return TopK(*_core.gbdt_top_k(X, *rest))

    def _forest(self) -> Forest:
        return Forest(*(getattr(self, f"{name}_") for name in Forest._fields))

    @property
    def feature_importances_(self) -> NDArray[np.float32]:
        """Shares of the total gain, float32 (n_features,).

        With a projection, the gain of a projected column is divided over the features by the size of their weights.
        """
        check_is_fitted(self)
        gains = self.feature_gains_.astype(np.float64)
        if self.projection_.size:
            sizes = np.abs(self.projection_)
            gains = sizes @ (gains / np.maximum(sizes.sum(axis=0), np.finfo(np.float32).tiny))
        total = gains.sum()
        return (gains / total if total > 0 else gains).astype(np.float32)

    def explain_row(self, X: Any, label_id: int) -> list[TreeVote]:
        """Say what each tree adds to one label's score for one row, and by which decisions.

        Parameters
        ----------
        X : CSR matrix or array (1, n_features)
        label_id : int

        Returns
        -------
        list of TreeVote
            One a tree, in order; contributions sum to the score. With a projection, feature ids are its columns.
        """
        check_is_fitted(self)
        check_value("GBDTSparse", "label_id", label_id, (Int(0, self.n_labels_ - 1),))
        X = self._validated(X, reset=False)
        if X.shape[0] != 1:
            raise ValueError(f"GBDTSparse: explain_row takes one row, got {X.shape[0]}")
        if self.projection_.size:
            X = project(X, self.projection_, 1, _core.Control())
        row = X.toarray()[0] if sp.issparse(X) else X[0]
        forest = self._forest()
        return [vote(forest, tree_id, row, label_id) for tree_id in range(len(self.tree_begin_) - 1)]

    def _contributions(self, x_row: Matrix, label_id: int) -> Contributions:
        """Add up what decisions give; a decision on a projected column is shared by the features that make it up.

        What decisions owe to features that the row does not have goes to the bias.
        """
        row = sp.csr_array(x_row)
        feature_ids, values = row.indices, row.data
        if not self.projection_.size:
            dense = np.zeros(self.n_features_in_, dtype=np.float32)
            dense[feature_ids] = values
            sums = sum_paths(self._forest(), dense, label_id)
            used = sums.by_feature[feature_ids]
            return Contributions(feature_ids, used, sums.score - float(used.sum()), sums.score, exact=False)
        # As in prediction: the column decides, so it must be the same to the last bit.
        columns = project(canonical_csr(row), self.projection_, 1, _core.Control())[0]
        sums = sum_paths(self._forest(), columns, label_id)
        parts = self.projection_[feature_ids] * values[:, None]
        sizes = np.maximum(np.abs(columns), LEAST_SHARE * np.abs(parts).sum(axis=0))
        weights = np.sign(columns) * sums.by_feature / np.where(sizes > 0, sizes, 1)
        shared = parts.astype(np.float64) @ weights
        return Contributions(feature_ids, shared, sums.score - float(shared.sum()), sums.score, exact=False)

    def _check_state(self) -> None:
        if self.projection_.size and self.projection_.shape[0] != self.n_features_in_:
            raise ValueError(
                f"GBDTSparse: projection_ has {self.projection_.shape[0]} rows for {self.n_features_in_} features"
            )
        n_features = self.projection_.shape[1] if self.projection_.size else self.n_features_in_
        if len(self.feature_gains_) != n_features:
            raise ValueError(f"GBDTSparse: feature_gains_ has {len(self.feature_gains_)} entries, not {n_features}")
        check_forest(self._forest(), n_features, self.n_labels_)


class _Shards:
    """The finished parts of a run, on disk when there is a checkpoint."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint

    def load(self, task_id: int) -> Shard | None:
        return None if self._checkpoint is None else self._checkpoint.load(task_id)

    def store(self, task_id: int, shard: Shard) -> Shard:
        return shard if self._checkpoint is None else self._checkpoint.store(task_id, shard)

    def load_or_make(self, task_id: int, make: Any) -> Shard:
        found = self.load(task_id)
        return self.store(task_id, make()) if found is None else found


def _named(name: str, X: Matrix) -> Arrays:
    if sp.issparse(X):
        return {f"{name}.indptr": X.indptr, f"{name}.indices": X.indices, f"{name}.values": X.data}
    return {name: X}


def _rows_of(X: Matrix, rows: NDArray[np.int64]) -> Matrix:
    return canonical_csr(X[rows]) if sp.issparse(X) else np.ascontiguousarray(X[rows])


def _share_set(X: sp.csr_array) -> float:
    return int(X.nnz) / max(1, int(X.shape[0]) * int(X.shape[1]))
