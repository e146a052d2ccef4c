"""GBDT-SPARSE: boosted trees whose leaves name only a few labels (Si et al., ICML 2017)."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._base import XMCClassifier
from longtail._cancel import current_control
from longtail._contributions import Contributions
from longtail._fitted import Fitted
from longtail._matrices import Matrix, canonical_csr, checked_labels, native_rows
from longtail._progress import Progress
from longtail._ranges import Between
from longtail._rules import Choice, Int, Nothing, Real, check_value
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail._tree_paths import LEAST_SHARE
from longtail.execution import Executor, Run, StepPlan
from longtail.gbdt.boosting import Boosting, LabelledRows
from longtail.gbdt.forest import Boosted, Split, TreeVote, join_trees, sum_gains, vote
from longtail.gbdt.paths import sum_paths
from longtail.gbdt.projection import LemlSteps, pca_projection, project, random_projection, scaled_rows

__all__ = ["GBDTSparse", "Split", "TreeVote"]

# X with more than this share of its entries set is treated as dense, whatever its container.
_DENSE_SHARE = 0.3
_PROJECTION_ITERATIONS = 5


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
        How sparse rows become dense. LEML learns the projection from the labels. "auto" takes LEML for X with at most
        30 % of its entries set, in a CSR matrix or in an array alike, and nothing for other X.
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
    split_features_, thresholds_, left_children_ : one entry per node; -1 marks leaves, the right child follows the left
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

    n_trees: Annotated[int, Int(1)] = 150
    leaf_top_k: Annotated[int | None, Int(1, 2**31 - 1), Nothing(), Between(5, 100, log=True)] = 20
    split_labels: Annotated[int | None, Int(1, 2**31 - 1), Nothing()] = 64
    max_depth: Annotated[int, Int(0, 60), Between(4, 14)] = 10
    min_leaf_size: Annotated[int, Int(1), Between(2, 200, log=True)] = 100
    l2: Annotated[float, Real(0), Between(0.1, 50.0, log=True)] = 5.0
    shrinkage: Annotated[float, Real(0, 1, above=True), Between(0.03, 0.5, log=True)] = 0.1
    loss: Annotated[str, Choice("squared_hinge", "squared")] = "squared_hinge"
    threshold_step: Annotated[float, Real(0.004, 0.5), Real(1, 1)] = 0.05
    row_share: Annotated[float, Real(0, 1, above=True)] = 1.0
    feature_share: Annotated[float, Real(0, 1, above=True)] = 1.0
    projection: Annotated[str, Choice("auto", "leml", "pca", "random", "none")] = "auto"
    n_components: Annotated[int, Int(1), Between(30, 300, log=True)] = 100
    projection_l2: Annotated[float, Real(0, above=True)] = 10.0
    patience: Annotated[int | None, Int(1), Nothing()] = None
    validation_share: Annotated[float, Real(0, 0.9, above=True)] = 0.1

    _State: ClassVar = Boosted

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        calibrate: bool = False,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
        validation: tuple[Any, Any] | None = None,
    ) -> Self:
        """Learn from rows and their labels.

        As for every estimator (on a cluster, workers that own columns grow each tree together), and:

        Parameters
        ----------
        sample_weight : array (n_rows,), optional
            How much each row counts: its loss is multiplied by this. Leaf sizes still count rows.
        validation : (X, Y), optional
            Rows and their 0/1 label matrix for early stopping; without it, `patience` holds rows out of X.

        Returns
        -------
        self
        """
        if validation is not None and self.patience is None:
            raise ValueError("GBDTSparse: validation is given, but patience is None; set patience, e.g. to 10")
        return self._fit_whole(
            X,
            y,
            sample_weight=sample_weight,
            calibrate=calibrate,
            executor=executor,
            checkpoint=checkpoint,
            progress=progress,
            validation=validation,
        )

    def _fit(  # type: ignore[override]
        self,
        X: Matrix,
        Y: sp.csr_array,
        run: Run,
        *,
        validation: tuple[Any, Any] | None = None,
        row_weights: NDArray[np.float32] | None = None,
    ) -> Boosted:
        if self.projection != "none" and isinstance(X, np.ndarray) and _share_set(X) <= _DENSE_SHARE:
            X = canonical_csr(X)  # what is learnt must not depend on the container of the rows
        train, held = self._hold_out(LabelledRows(X, Y, row_weights), validation)
        arrays = _named("", train) if held is None else _named("", train) | _named("held_", held)
        params = {name: value for name, value in self.get_params(deep=False).items() if name != "n_jobs"}
        plan = StepPlan(owner="GBDTSparse", unit="trees", arrays=arrays, params=params, n_steps=self.n_trees)
        boosting = Boosting(
            run,
            train,
            held,
            self._native_params(),
            self.patience or 0,
            lambda: self._learn_projection(train, run),
            lambda X, projection: self._dense(X, projection, run),
        )
        trees = run.steps(plan, boosting)
        if held is not None:
            trees = trees[: boosting.n_best()]
        projection = np.array(trees[0]["projection"])
        forest = join_trees(trees)
        if self.max_depth > 0 and not len(forest.used_features) and _differ(train.Y):
            warnings.warn(
                "GBDTSparse: no tree has a split, so all rows get the same labels; got "
                f"{train.X.shape[0]} training rows and min_leaf_size={self.min_leaf_size}; "
                "give more rows, or a smaller min_leaf_size",
                stacklevel=2,
            )
        return Boosted(
            forest=forest,
            feature_gains=sum_gains(trees, projection.shape[1] if projection.size else X.shape[1]),
            projection=projection,
            training_losses=np.concatenate([tree["loss"] for tree in trees]),
            validation_losses=np.array(boosting.held_losses, dtype=np.float64),
        )

    def _hold_out(
        self, rows: LabelledRows, validation: tuple[Any, Any] | None
    ) -> tuple[LabelledRows, LabelledRows | None]:
        """Return the rows to learn from and, for early stopping, those to validate on."""
        if self.patience is None:
            return rows, None
        X, Y, weights = rows
        if validation is not None:
            X_held, _ = self._training_rows(validation[0])
            if X_held.shape[1] != X.shape[1]:
                raise ValueError(
                    f"GBDTSparse: validation must have {X.shape[1]} features like X, got {X_held.shape[1]}"
                )
            Y_held = checked_labels("GBDTSparse: validation", validation[1], X_held.shape[0]).Y
            if Y_held.shape[1] != Y.shape[1]:
                raise ValueError(
                    f"GBDTSparse: validation must have {Y.shape[1]} labels like y, got {Y_held.shape[1]}; "
                    "pass 0/1 matrices with one column per label"
                )
            return rows, LabelledRows(X_held, Y_held) if X_held.shape[0] else None
        n_rows = X.shape[0]
        n_held = max(1, round(self.validation_share * n_rows))
        if n_held >= n_rows:
            raise ValueError(f"GBDTSparse: patience needs at least 2 rows to hold one out, got n_samples = {n_rows}")
        shuffled = np.random.default_rng(self.random_state).permutation(n_rows)
        held, kept = np.sort(shuffled[:n_held]), np.sort(shuffled[n_held:])
        train, validated = (
            LabelledRows(_rows_of(X, part), _rows_of(Y, part), None if weights is None else weights[part])
            for part in (kept, held)
        )
        return train, validated

    def _learn_projection(self, rows: LabelledRows, run: Run) -> NDArray[np.float32]:
        X, Y, weights = rows
        kind = self.projection
        if kind == "auto":
            kind = "leml" if sp.issparse(X) and _share_set(X) <= _DENSE_SHARE else "none"
        n_components = min(self.n_components, X.shape[1])
        if kind == "none":
            return np.zeros((0, 0), dtype=np.float32)
        if kind == "random":
            return random_projection(X.shape[1], n_components, self.random_state)
        if kind == "pca":
            return pca_projection(X, min(n_components, X.shape[0]), self.random_state, run.n_jobs, run.control)
        if weights is not None:
            X, Y = scaled_rows(X, np.sqrt(weights)), scaled_rows(Y, np.sqrt(weights))
        steps = LemlSteps(run, X, Y, n_components, self.projection_l2, self.random_state)
        shards = [steps.advance(step_id) for step_id in range(_PROJECTION_ITERATIONS)]
        steps.close()  # its CPUs are for the trees now
        projection: NDArray[np.float32] = shards[-1]["W"]
        return projection

    def _dense(self, X: Matrix, projection: NDArray[np.float32], run: Run) -> Matrix:
        """Return the rows as the trees see them."""
        if projection.size:
            return project(X, projection, run.n_jobs, run.control)
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

    def _top_k(self, fitted: Fitted[Boosted], X: Matrix, top_k: int) -> TopK:
        n_threads, control = resolve_n_jobs(self.n_jobs), current_control()
        if fitted.state.projection.size:
            X = project(X, fitted.state.projection, n_threads, control)
        rest: tuple[Any, ...] = (fitted.facts.n_labels, *fitted.state.forest.native(), top_k, n_threads, control)
        return TopK(*_core.gbdt_top_k(native_rows(X), *rest))

    @property
    def feature_importances_(self) -> NDArray[np.float32]:
        """Shares of the total gain, float32 (n_features,).

        With a projection, the gain of a projected column is divided over the features by the size of their weights.
        """
        state: Boosted = self._whole().state
        gains = state.feature_gains.astype(np.float64)
        if state.projection.size:
            sizes = np.abs(state.projection)
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
        fitted = self._whole()
        state = fitted.state
        check_value("GBDTSparse", "label_id", label_id, (Int(0, fitted.facts.n_labels - 1),))
        X = self._prepared(fitted.facts, X)
        if X.shape[0] != 1:
            raise ValueError(f"GBDTSparse: explain_row takes one row, got {X.shape[0]}")
        if state.projection.size:
            X = project(X, state.projection, 1, current_control())
        row = X.toarray()[0] if sp.issparse(X) else X[0]
        return [vote(state.forest, tree_id, row, label_id) for tree_id in range(len(state.forest.tree_begin) - 1)]

    def _contributions(self, fitted: Fitted[Boosted], x_row: Matrix, label_id: int) -> Contributions:
        """Add up what decisions give; a decision on a projected column is shared by the features that make it up.

        What decisions owe to features that the row does not have goes to the bias.
        """
        forest, projection = fitted.state.forest, fitted.state.projection
        row = sp.csr_array(x_row)
        feature_ids, values = row.indices, row.data
        if not projection.size:
            dense = np.zeros(fitted.facts.n_features_in, dtype=np.float32)
            dense[feature_ids] = values
            sums = sum_paths(forest, dense, label_id)
            used = sums.by_feature[feature_ids]
            return Contributions(feature_ids, used, sums.score - float(used.sum()), sums.score, exact=False)
        # As in prediction: the column decides, so it must be the same to the last bit.
        columns = project(canonical_csr(row), projection, 1, current_control())[0]
        sums = sum_paths(forest, columns, label_id)
        parts = projection[feature_ids] * values[:, None]
        sizes = np.maximum(np.abs(columns), LEAST_SHARE * np.abs(parts).sum(axis=0))
        weights = np.sign(columns) * sums.by_feature / np.where(sizes > 0, sizes, 1)
        shared = parts.astype(np.float64) @ weights
        return Contributions(feature_ids, shared, sums.score - float(shared.sum()), sums.score, exact=False)


def _differ(Y: sp.csr_array) -> bool:
    """Return whether some rows have a label that others do not have."""
    counts = np.bincount(Y.indices)
    return bool(((counts > 0) & (counts < Y.shape[0])).any())


def _named(prefix: str, rows: LabelledRows) -> dict[str, NDArray[Any]]:
    X, Y, weights = rows
    labels = {f"{prefix}Y.indptr": Y.indptr, f"{prefix}Y.indices": Y.indices}
    if weights is not None:
        labels[f"{prefix}row_weights"] = weights
    if sp.issparse(X):
        return {f"{prefix}X.indptr": X.indptr, f"{prefix}X.indices": X.indices, f"{prefix}X.values": X.data, **labels}
    return {f"{prefix}X": X, **labels}


def _rows_of(X: Matrix, rows: NDArray[np.int64]) -> Matrix:
    return canonical_csr(X[rows]) if sp.issparse(X) else np.ascontiguousarray(X[rows])


def _share_set(X: Matrix) -> float:
    n_set = int(X.nnz) if sp.issparse(X) else int(np.count_nonzero(X))
    return n_set / max(1, int(X.shape[0]) * int(X.shape[1]))
