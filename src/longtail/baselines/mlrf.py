"""MLRF: the multi-label random forest (Agrawal, Gupta, Prabhu and Varma, WWW 2013), and its nDCG variant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._base import XMCClassifier
from longtail._cancel import current_control
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix, canonical_csr, native_rows, with_columns
from longtail._ranges import Between
from longtail._rules import Bool, Int, Nothing
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail.baselines.shared_arrays import arrays_of, data_of, run_tasks
from longtail.execution import Arrays, Params, Run, Shard
from longtail.fastxml.forest import PerTree, balance
from longtail.gbdt.forest import Forest, check_forest, join_trees

# Rows with more features, most of them in no split, are reduced to those with one.
_MANY_FEATURES = 1 << 22


@dataclass(frozen=True, eq=False)
class RandomForest(State):
    """The trees; a leaf holds the shares of its rows that carry each label."""

    forest: Forest
    tree_depths: PerTree

    def keep_labels(self, new_ids: NDArray[np.int32]) -> RandomForest:
        return replace(self, forest=self.forest.keep_labels(new_ids))

    def check(self, owner: str, facts: Facts) -> None:
        check_forest(self.forest, facts.n_features_in, facts.n_labels, owner)
        if len(self.tree_depths) != len(self.forest.tree_begin) - 1:
            raise ValueError(f"{owner}: tree_depths_ must have one entry per tree; the file is damaged")


def learn_gini_tree(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Grow one tree of MLRF."""
    return _grow(arrays, params, task_id, control, criterion="gini")


def learn_ndcg_tree(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Grow one tree of MLRF-nDCG."""
    return _grow(arrays, params, task_id, control, criterion="ndcg")


def _grow(arrays: Arrays, params: Params, task_id: int, control: _core.Control, *, criterion: str) -> Shard:
    X, Y = data_of(arrays)
    n_rows, n_features = X.shape
    X = canonical_csr(X)
    used = None
    if n_features > max(_MANY_FEATURES, X.nnz):  # the kernel takes memory for all features
        used = np.unique(X.indices)
        X = with_columns(X, used)
    rng = np.random.default_rng([int(params["random_state"] or 0), task_id])
    features, thresholds, children, leaf_begin, label_ids, values, mean_depth = _core.grow_random_tree(
        X.shape[1],
        X.indptr,
        X.indices,
        X.data,
        Y.shape[1],
        Y.indptr,
        Y.indices,
        rng.integers(n_rows, size=n_rows) if params["bootstrap"] else np.arange(n_rows),
        criterion == "ndcg",
        int(params["n_features_tried"] or max(1, round(np.sqrt(n_features)))),
        int(params["n_thresholds"] or 1),
        int(params["max_leaf_size"] or 1),
        int(params["leaf_top_k"] or 1),
        int(rng.integers(2**63)),
        control,
    )
    if used is not None:
        features = np.where(features >= 0, used[features], np.int32(-1))
    return {
        "split_features": features,
        "thresholds": thresholds,
        "left_children": children,
        "leaf_begin": leaf_begin,
        "leaf_label_ids": label_ids,
        "leaf_values": values,
        "tree_depths": np.array([mean_depth]),
    }


@dataclass(kw_only=True, eq=False, repr=False)
class LabelForest(XMCClassifier):
    """Base of MLRF and MLRFnDCG."""

    n_trees: Annotated[int, Int(1), Between(10, 200, log=True)] = 50
    max_leaf_size: Annotated[int, Int(1), Between(1, 50, log=True)] = 10
    bootstrap: Annotated[bool, Bool()] = False
    n_features_tried: Annotated[int | None, Int(1), Nothing()] = None
    n_thresholds: Annotated[int, Int(1, 255)] = 4
    leaf_top_k: Annotated[int, Int(1)] = 100

    _State: ClassVar = RandomForest
    _learn: ClassVar[Any]
    # Scores are shares of the rows in a leaf.
    _threshold: ClassVar[float] = 0.4

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> RandomForest:
        shards = run_tasks(self, run, type(self)._learn, "trees", self.n_trees, arrays_of(X, Y))
        forest = join_trees(shards)
        np.divide(forest.leaf_values, np.float32(self.n_trees), out=forest.leaf_values)
        return RandomForest(forest, np.concatenate([shard["tree_depths"] for shard in shards]))

    @property
    def balance_(self) -> float:
        """Mean depth of a training row over log2(n_rows / max_leaf_size), as in table 6 of the FastXML paper."""
        fitted = self._whole()
        return balance(fitted.state.tree_depths, fitted.facts.n_rows, self.max_leaf_size)

    def _top_k(self, fitted: Fitted[RandomForest], X: Matrix, top_k: int) -> TopK:
        forest, n_threads = fitted.state.forest, resolve_n_jobs(self.n_jobs)
        if sp.issparse(X) and X.shape[1] > max(_MANY_FEATURES, 4 * len(forest.split_features)):
            # The kernel takes memory for all features, which a file may claim without naming them.
            X, forest = with_columns(X, forest.used_features), forest.compact
        rest = (fitted.facts.n_labels, *forest.native(), top_k, n_threads, current_control())
        return TopK(*_core.gbdt_top_k(native_rows(X), *rest))


@dataclass(kw_only=True, eq=False, repr=False)
class MLRF(LabelForest):
    """A random forest whose splits minimise the Gini index of the labels.

    A node tries thresholds on a random choice of the features that its rows have, and takes the split with the least
    Gini index of the label distributions of its two sides. A leaf keeps the shares of its rows that carry each label;
    the forest averages them. Only the stored entries of X and Y are visited: scikit-learn's trees would need a dense
    array of rows times labels. A baseline of the FastXML paper (Table 2). Memory: 8 bytes per label and leaf.

    Parameters
    ----------
    n_trees : int, default 50
    max_leaf_size : int, default 10
        Nodes with at most this many rows become leaves.
    bootstrap : bool, default False
        Grow every tree on as many rows drawn with replacement, instead of on all rows.
    n_features_tried : int or None, default None
        Features per node; None takes the square root of their number.
    n_thresholds : int, default 4
        Thresholds per feature, at quantiles of the node's values.
    leaf_top_k : int, default 100
        Labels that a leaf keeps.
    unit_rows, n_jobs, random_state
        As everywhere; the seed draws rows and features.

    Attributes
    ----------
    tree_begin_, split_features_, thresholds_, left_children_ : the trees; x <= threshold goes left
    leaf_begin_, leaf_label_ids_, leaf_values_ : labels of each leaf with their shares, divided by the number of trees
    tree_depths_ : float64 array (n_trees,), mean depth of a training row; `balance_` compares it with full leaves

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    >>> lt.MLRF(n_trees=5, n_jobs=1).fit(X, X).predict_top_k(X[::10], top_k=1).label_ids.ravel()
    array([0, 1, 2], dtype=int32)
    """

    _learn: ClassVar = staticmethod(learn_gini_tree)


@dataclass(kw_only=True, eq=False, repr=False)
class MLRFnDCG(LabelForest):
    """MLRF whose splits maximise nDCG, the objective of FastXML, instead of minimising the Gini index.

    A side ranks its labels by their sums of 1 / ideal DCG over its rows; the split with the greatest sum of nDCG of
    all rows is taken. A baseline of the FastXML paper (Table 7). Parameters and attributes are those of `MLRF`.

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    >>> lt.MLRFnDCG(n_trees=5, n_jobs=1).fit(X, X).predict_top_k(X[::10], top_k=1).label_ids.ravel()
    array([0, 1, 2], dtype=int32)
    """

    _learn: ClassVar = staticmethod(learn_ndcg_tree)
