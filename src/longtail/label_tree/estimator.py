"""The LabelTree estimator: parameters, presets of the family, training in stages, prediction by beam search."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail import _core
from longtail._base import XMCClassifier
from longtail._cancel import current_control
from longtail._contributions import Contributions
from longtail._estimate import Estimate
from longtail._fitted import Fitted, State
from longtail._matrices import Columns, Matrix, canonical_csr, checked_labels, label_columns, native_rows
from longtail._progress import Progress
from longtail._ranges import Between, OneOf
from longtail._rules import Choice, Int, Nothing, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail.calibration import further_fits
from longtail.calibration.power import Valued
from longtail.execution import Executor, Run, Shard, StepPlan, ThreadExecutor
from longtail.label_tree import growing, shapes, training
from longtail.label_tree.estimate import probe
from longtail.label_tree.paths import path_contributions
from longtail.label_tree.shapes import Shape
from longtail.label_tree.state import LabelForest
from longtail.propensity import PropensityModel, positive_weights

# Rows per label, on average, from which on models of a calibration take over the trees of the whole fit.
_LEAST_ROWS_TO_REUSE = 50


@dataclass(kw_only=True, eq=False, repr=False)
class LabelTree(XMCClassifier):
    """Rank labels by a tree over them: each edge has a linear classifier, a beam follows the most probable paths.

    Similar labels are clustered into a tree. The classifier of an edge is trained only on the rows that reach its
    parent, so training costs the rows and words that a node touches, and prediction looks at a few nodes per level:
    both grow with the logarithm of the number of labels. Parabel, Bonsai, XR-Linear and PLT are members of this family;
    ``LabelTree.parabel()``, ``LabelTree.bonsai()`` and ``LabelTree.plt()`` have their settings. Rows of unit length
    (``unit_rows=True``) give the best results on text.

    With ``leaves="exact"`` the tree only proposes labels: the classifier of each label is also trained against the
    rows that the tree routes near it, and decides nearly as exact one-vs-all does.

    Parameters
    ----------
    n_trees : int, default 1
        Trees, whose probabilities are averaged. Three are one or two points better and cost three times as much.
    clustering : "balanced" or "k_means", default "balanced"
        "balanced" halves the labels again and again by spherical 2-means; "k_means" makes wide, shallow trees of
        clusters of any size (Bonsai).
    fan_out : int, default 64
        Largest number of children of a node, if they are not labels.
    max_leaf_size : int, default 100
        Largest number of labels below one node.
    max_depth : int or None, default None
        "k_means": levels of clusters; those of the last level keep their labels, however many.
    label_vectors : "mean" or "propensity", default "mean"
        What labels are clustered by: the mean of their rows, each of unit length; "propensity" gives more weight to
        rows with rare labels. ``fit`` also takes vectors of your own, or a whole hierarchy.
    leaves : "path" or "exact", default "path"
        "path": labels are trained against their siblings' rows. "exact": also against rows that the tree routes near
        them; slower, and more accurate where labels are few or rows are long.
    negative_beam : int or None, default None
        With exact leaves: how many leaves each row is a negative example for. None takes a quarter of them, but at
        least 10 and at most 100.
    loss : "squared_hinge" or "logistic", default "squared_hinge"
    cost : float, default 1.0
        How much the losses count against ‖w‖².
    tolerance : float, default 0.1
        A classifier is done when no projected gradient of its dual problem is larger than this.
    max_passes : int, default 200
        Rows are visited at most so often, on average. Rows of unit length need about ten visits, dense rows a hundred.
    bias : float, default 0.5
        Value of the constant feature; 0 for none. Larger values slow training down on rows of unit length.
    prune_below : float or None, default None
        Weights of smaller size are dropped from the model; None means 0.1, and 0.02 with exact leaves.
    weight_type : "float32" or "int8", default "float32"
        int8 keeps one byte per weight, scaled by edge.
    positive_weights : None, "propensity", "unbiased" or "class-balanced", default None
        Weigh the positives of each label by 1/p, or by 2/p - 1; p is the label's propensity, with `propensity_a` and
        `propensity_b` (default 0.55 and 1.5). "class-balanced" is (2/p - 1)·(1 - β)/(1 - β^N) for a label with N rows;
        β is `balance_beta` (default 0.9).
    beam_width : int or None, default None
        How many nodes per level a prediction follows; as wide as the level, it is exact. None means 10, and with exact
        leaves the same as for `negative_beam`.
    link_power : int in 1 to 3, default 3
        The probability of an edge with margin m is exp(-max(0, 1 - m)^link_power); the logistic loss has its own.
    path_weight : float or None, default None
        The score of a label is the probability of its own edge times that of the path above it to this power; None
        means 1, and 0.25 with exact leaves.
    n_jobs : int or None, default None
        Threads; None means all that may be used.
    random_state : int, default 0
        Seed of clusters and of the order of rows; the same for any `n_jobs`.

    Attributes
    ----------
    tree_roots_, child_indptr_, child_ids_ : arrays
        The trees; a label is stored as ~label_id. docs/label_tree.md draws all arrays.

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(4, dtype=np.float32), 20, axis=0)
    >>> model = lt.LabelTree(max_leaf_size=2, n_jobs=1).fit(X, X)
    >>> model.predict_top_k(X[::20], top_k=1).label_ids.ravel()
    array([0, 1, 2, 3], dtype=int32)
    """

    n_trees: Annotated[int, Int(1, 1000)] = 1
    clustering: Annotated[str, Choice("balanced", "k_means"), OneOf("balanced", "k_means")] = "balanced"
    fan_out: Annotated[int, Int(2, 65535), Between(2, 256, log=True)] = 64
    max_leaf_size: Annotated[int, Int(1, 65535), Between(20, 400, log=True)] = 100
    max_depth: Annotated[int | None, Int(1, 1000), Nothing()] = None
    label_vectors: Annotated[str, Choice("mean", "propensity")] = "mean"
    leaves: Annotated[str, Choice("path", "exact"), OneOf("path", "exact")] = "path"
    negative_beam: Annotated[int | None, Int(1, 2**31 - 1), Nothing()] = None
    loss: Annotated[str, Choice("squared_hinge", "logistic"), OneOf("squared_hinge", "logistic")] = "squared_hinge"
    cost: Annotated[float, Real(0, above=True), Between(0.1, 20.0, log=True)] = 1.0
    tolerance: Annotated[float, Real(0, above=True)] = 0.1
    max_passes: Annotated[int, Int(1, 1_000_000)] = 200
    bias: Annotated[float, Real(0)] = 0.5
    prune_below: Annotated[float | None, Real(0), Nothing()] = None
    weight_type: Annotated[str, Choice("float32", "int8")] = "float32"
    positive_weights: Annotated[
        str | None, Choice("propensity", "unbiased", "class-balanced"), Nothing(), OneOf(None, "propensity", "unbiased")
    ] = None
    propensity_a: Annotated[float, Real(0, 100)] = PropensityModel.a
    propensity_b: Annotated[float, Real(0, above=True)] = PropensityModel.b
    balance_beta: Annotated[float, Real(0, 0.9999)] = 0.9
    beam_width: Annotated[int | None, Int(1, 2**31 - 1), Nothing()] = None
    link_power: Annotated[int, Int(1, 3)] = 3
    path_weight: Annotated[float | None, Real(0), Nothing()] = None

    _State: ClassVar[type[State]] = LabelForest
    _can_add_labels: ClassVar[bool] = True
    _ranks_by_value: ClassVar[bool] = True
    _absent: ClassVar[dict[str, Any]] = {"balance_beta": 0.9}

    # ---- the family -------------------------------------------------------------------------------------------

    @classmethod
    def parabel(cls, **params: Any) -> Self:
        """Make a Parabel (Prabhu et al. 2018): three balanced binary trees with leaves of a hundred labels.

        `params` change single settings.
        """
        return cls(**_with(params, n_trees=3, fan_out=2, link_power=2))

    @classmethod
    def bonsai(cls, **params: Any) -> Self:
        """Make a Bonsai (Khandagale, Xiao and Babbar 2020): three wide, shallow, unbalanced trees.

        `params` change single settings.
        """
        return cls(**_with(params, n_trees=3, clustering="k_means", fan_out=100, max_depth=3))

    @classmethod
    def plt(cls, **params: Any) -> Self:
        """Make a probabilistic label tree (Jasinska et al. 2016): a balanced binary tree with logistic classifiers.

        `params` change single settings.
        """
        return cls(**_with(params, fan_out=2, loss="logistic"))

    # ---- training ---------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        label_vectors: Any = None,
        hierarchy: ArrayLike | None = None,
        calibrate: bool = False,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from rows and their labels; see the base class for the other parameters.

        Parameters
        ----------
        sample_weight : array (n_rows,), optional
            How much each row counts: its loss is multiplied by this. Rows with weight 0 are left out.
        label_vectors : CSR matrix or array (n_labels, any width), optional
            Cluster labels by these vectors, for example embeddings of their names, not by their rows.
        hierarchy : int array (n_labels + n_groups,), optional
            Use this tree, not clusters: the parent of each label and then of each group, numbered behind the labels;
            -1 for the root. All trees of an ensemble then have the same shape.
        """
        return self._fit_whole(
            X,
            y,
            calibrate=calibrate,
            executor=executor,
            checkpoint=checkpoint,
            progress=progress,
            sample_weight=sample_weight,
            given_vectors=label_vectors,
            hierarchy=hierarchy,
        )

    def add_labels(self, X: Any, Y_new: Any, *, progress: Progress = None) -> Self:
        """Train new labels and put them behind the old ones, which stay as they are.

        In each tree a new label joins the leaf that the tree routes most of its rows to, and is trained against the
        rows that the tree routes there. The edges above it stay as they are: after many new labels, fit again.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
            Rows to train on: those of the new labels, and others as negative examples.
        Y_new : CSR matrix or 0/1 array (n_rows, n_new_labels)
            The new labels get the ids n_labels_, n_labels_ + 1, …
        """
        fitted = self._whole()
        facts = fitted.facts
        if facts.classes is not None:
            raise ValueError(
                "LabelTree: add_labels needs a model that was fitted on a label matrix, not on 1-D classes"
            )
        rows = _sparse(self._prepared(facts, X))
        labels = checked_labels("LabelTree", Y_new, rows.shape[0])
        if labels.classes is not None:
            raise ValueError("LabelTree: Y_new must be a 0/1 matrix with one column per new label")
        columns = label_columns(labels.Y)
        forest = fitted.state
        forest.native.check_weights()
        with Run("LabelTree", resolve_n_jobs(self.n_jobs), progress=progress) as run:
            for tree in range(len(forest.tree_roots)):
                forest = growing.with_new_labels(
                    forest,
                    tree,
                    rows,
                    columns,
                    facts.n_labels,
                    self._training_params(rows.shape[1]),
                    self._positive_weights(np.diff(columns[0]), rows.shape[0]),
                    self._beam_width(forest),
                    self._link_power,
                    run,
                )
        counts = np.concatenate([facts.label_counts, np.diff(columns[0])])
        places = np.append(np.arange(facts.n_labels), np.full(len(counts) - facts.n_labels, -1))
        self._fitted = Fitted(facts.with_labels(places, counts), forest)
        return self

    def estimate(self, X: Any, Y: Any, *, calibrate: bool = False) -> Estimate:
        """Estimate what ``fit(X, Y, calibrate=calibrate)`` will take: seconds, peak memory and model size.

        Fits a few labels to find out.
        """
        rows, Y, n_copied = self._data_to_estimate(X, Y, calibrate=calibrate)
        found = probe(self, _sparse(rows), Y, resolve_n_jobs(self.n_jobs))
        found = replace(found, memory_bytes=found.memory_bytes + n_copied)
        return found.with_calibration(further_fits(rows.shape[0])) if calibrate else found

    def _fit(
        self,
        X: Matrix,
        Y: sp.csr_array,
        run: Run,
        *,
        given_vectors: Any = None,
        hierarchy: ArrayLike | None = None,
        row_weights: NDArray[np.float32] | None = None,
        grown: Shape | None = None,
        **_options: Any,
    ) -> LabelForest:
        if self.negative_beam is not None and self.leaves == "path":
            raise ValueError(
                f"LabelTree: negative_beam is for exact leaves, got {self.negative_beam} with leaves='path'; "
                "set leaves='exact', or leave negative_beam out"
            )
        X = _sparse(X)
        columns = label_columns(Y)
        arrays: dict[str, NDArray[Any]] = {**training.row_arrays(X), "y_indptr": columns[0], "y_row_ids": columns[1]}
        if (weights := self._positive_weights(np.diff(columns[0]), X.shape[0])) is not None:
            arrays["positive_weights"] = weights
        if row_weights is not None:
            arrays["row_weights"] = row_weights
        params = self._training_params(X.shape[1])
        everything = StepPlan(
            owner="LabelTree", unit="stages", arrays=arrays, params=params | self._shape_params(0), n_steps=3
        )
        with run.hold(everything.fingerprint):  # each stage works in a directory of its own
            if grown is None:
                shape = self._shape(X, Y, columns, run, given_vectors, hierarchy, row_weights)
            else:
                shape = shapes.with_labels(grown, columns[0][1:] > columns[0][:-1])
            if self.leaves == "path":
                return training.train_paths("LabelTree", run, arrays, shape, params)
            return training.train_exact(
                "LabelTree", run, X, arrays, shape, params, beam_width=self.negative_beam, link_power=self._link_power
            )

    def _reused(self, state: LabelForest, Y: sp.csr_array) -> dict[str, Any]:  # type: ignore[override]
        """Return the trees of a fit, where labels have rows enough that a held-out one hardly changes them.

        A held-out row of a rare label says where in the tree the label is: scores would seem better than they are.
        """
        if Y.nnz < _LEAST_ROWS_TO_REUSE * np.count_nonzero(np.bincount(Y.indices, minlength=1)):
            return {}
        return {"grown": Shape(state.tree_roots, state.child_indptr, state.child_ids)}

    def _shape(
        self,
        X: sp.csr_array,
        Y: sp.csr_array,
        columns: Columns,
        run: Run,
        given_vectors: Any,
        hierarchy: ArrayLike | None,
        row_weights: NDArray[np.float32] | None,
    ) -> Shape:
        counts = np.diff(columns[0])
        if hierarchy is not None:
            if given_vectors is not None:
                raise ValueError("LabelTree: give label_vectors or a hierarchy, not both")
            one = shapes.shape_of_hierarchy("LabelTree", hierarchy, counts)
            shard: Shard = {"child_indptr": one.child_indptr, "child_ids": one.child_ids}
            return shapes.join_shapes([shard] * int(self.n_trees))
        if given_vectors is not None:
            vectors = shapes.checked_vectors("LabelTree", given_vectors, counts)
        else:
            vectors = self._mean_vectors(X, Y, columns, run, row_weights)
        n_trees = int(self.n_trees)
        # Workers of a cluster have one core each; here a tree may use those that other trees leave.
        n_threads = max(1, run.n_jobs // n_trees) if isinstance(run.executor, ThreadExecutor) else 1
        params = self._shape_params(vectors.shape[1])
        plan = shapes.shape_plan("LabelTree", vectors, params, n_trees, n_threads)
        return shapes.join_shapes(run.map(plan, within="shapes"))

    def _mean_vectors(
        self,
        X: sp.csr_array,
        Y: sp.csr_array,
        columns: Columns,
        run: Run,
        row_weights: NDArray[np.float32] | None,
    ) -> sp.csr_array:
        if self.label_vectors == "propensity":
            inverse = self._inverse_propensities(np.diff(columns[0]), X.shape[0])
            rarity = np.asarray(Y @ inverse / np.maximum(np.diff(Y.indptr), 1), dtype=np.float32)
            row_weights = rarity if row_weights is None else rarity * row_weights
        return shapes.mean_vectors(X, columns, row_weights, run)

    def _training_params(self, n_features: int) -> dict[str, Any]:
        return {
            "n_features": int(n_features),
            "loss": self.loss,
            "cost": float(self.cost),
            "tolerance": float(self.tolerance),
            "max_passes": int(self.max_passes),
            "bias": float(self.bias),
            "prune_below": self._prune_below,
            "weight_type": self.weight_type,
            "seed": int(self.random_state),
        }

    def _shape_params(self, n_columns: int) -> dict[str, Any]:
        return {
            "n_columns": int(n_columns),
            "clustering": self.clustering,
            "fan_out": int(self.fan_out),
            "max_leaf_size": int(self.max_leaf_size),
            "max_depth": int(self.max_depth or 0),
            "seed": int(self.random_state),
        }

    def _positive_weights(self, counts: NDArray[np.int64], n_rows: int) -> NDArray[np.float32] | None:
        if self.positive_weights is None:
            return None
        model = PropensityModel(self.propensity_a, self.propensity_b)
        beta = float(self.balance_beta)
        return positive_weights(self.positive_weights, counts, n_rows, model=model, beta=beta)

    def _inverse_propensities(self, counts: NDArray[np.int64], n_rows: int) -> NDArray[np.float64]:
        model = PropensityModel(self.propensity_a, self.propensity_b)
        inverse: NDArray[np.float64] = 1 / model.from_counts(counts, n_rows)
        return inverse

    # ---- prediction -------------------------------------------------------------------------------------------

    @property
    def _link_power(self) -> int:
        return 0 if self.loss == "logistic" else int(self.link_power)

    @property
    def _prune_below(self) -> float:
        if self.prune_below is not None:
            return float(self.prune_below)
        return 0.1 if self.leaves == "path" else 0.02

    def _beam_width(self, forest: LabelForest) -> int:
        if self.beam_width is not None:
            return int(self.beam_width)
        return 10 if self.leaves == "path" else shapes.wide_beam(forest.n_leaves // len(forest.tree_roots))

    @property
    def _path_weight(self) -> float:
        if self.path_weight is not None:
            return float(self.path_weight)
        return 1.0 if self.leaves == "path" else 0.25

    def _top_k(self, fitted: Fitted[LabelForest], X: Matrix, top_k: int) -> TopK:
        X = _sparse(X)
        beam = self._beam_width(fitted.state), self._link_power, 1.0, self._path_weight
        return TopK(
            *_core.predict_label_tree(
                native_rows(X), fitted.state.native, *beam, top_k, self._n_threads(X), current_control()
            )
        )

    def _by_value(self, fitted: Fitted[LabelForest], X: Matrix, values: _core.ValueTable, top_k: int) -> Valued:
        X, n_labels = _sparse(X), fitted.facts.n_labels
        beam = self._beam_width(fitted.state), self._link_power, 1.0, self._path_weight
        return Valued(
            *_core.predict_label_tree_by_value(
                native_rows(X),
                fitted.state.native,
                n_labels,
                *beam,
                values,
                top_k,
                self._n_threads(X),
                current_control(),
            )
        )

    def _n_threads(self, X: Matrix) -> int:
        return min(resolve_n_jobs(self.n_jobs), max(1, int(X.shape[0]) // 64))

    def _contributions(self, fitted: Fitted[LabelForest], x_row: Matrix, label_id: int) -> Contributions:
        return path_contributions(
            fitted.state, sp.csr_array(x_row), label_id, power=self._link_power, path_weight=self._path_weight
        )


def _with(params: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    return defaults | params


def _sparse(X: Matrix) -> sp.csr_array:
    return canonical_csr(sp.csr_array(X)) if isinstance(X, np.ndarray) else X
