"""FastXML: an ensemble of trees over the feature space, each node split to rank its rows' labels well.

Prabhu, Varma: FastXML: A Fast, Accurate and Stable Tree-classifier for eXtreme Multi-label Learning, KDD 2014.
docs/fastxml.md has the idea in a page and the paper's symbols beside the names used here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core, _rules
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._contributions import Contributions
from longtail._matrices import Matrix, csr_from_parts
from longtail._ranges import Between, OneOf, Range
from longtail._rules import Bool, Choice, Int, Nothing, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail.execution import Array, Arrays, Params, Plan, Run, Shard
from longtail.fastxml.paths import LinearForest, sum_linear_paths

_FOREST_PARTS = (
    "tree_roots",
    "right_child",
    "biases",
    "split_indptr",
    "split_features",
    "split_weights",
    "leaf_indptr",
    "leaf_labels",
    "leaf_values",
)
_CONFIG_NAMES = (
    "max_leaf_size",
    "leaf_labels",
    "precision_loss",
    "loss_top_k",
    "normalise",
    "right_cost",
    "left_cost",
    "balanced_costs",
    "ranking_cost",
    "n_updates",
    "bias",
    "max_newton",
    "max_passes",
    "tolerance",
    "seed",
)
_NO_INDPTR = np.zeros(1, np.int64)
_NO_INDICES = np.zeros(0, np.int32)


@dataclass(kw_only=True, eq=False, repr=False)
class FastXML(XMCClassifier):
    """Rank labels by the leaves that a row reaches in an ensemble of trees.

    Each node sends its rows left or right so that both sides can rank their labels well (nDCG), then learns a sparse
    linear separator of the two sides; leaves keep the most frequent labels of their rows. Defaults are the paper's but
    for `leaf_labels`.

    Parameters
    ----------
    n_trees : int, default 50
        Trees, grown independently.
    max_leaf_size : int, default 10
        A node with more training rows than this is split further.
    leaf_labels : int, default 100
        Labels kept per leaf, the most frequent ones. The paper keeps 20; 100 are all of nearly every leaf, and worth a
        quarter of a point of P@3 and P@5 on EURLex-4K.
    split_loss : {"ndcg", "precision"}, default "ndcg"
        What the sides of a split are chosen for.
    split_top_k : int or None, default None
        Ranks that count in `split_loss`; None counts all (nDCG@L).
    separator_cost : float, default 1
        Weight of the separator's logistic loss (C_δ) for rows assigned to the right side.
    left_separator_cost : float or None, default None
        The same for rows assigned to the left side; None means the same value.
    balanced_costs : bool, default True
        Divide each side's cost by its share of the node's rows.
    ranking_cost : float, default 1
        Weight of the ranking loss (C_r); it matters from the second update of the separator on.
    n_updates : int, default 1
        How often a node's separator is optimised, sides and rankings being improved in between.
    bias : float, default 1
        Value of the constant feature; 0 leaves it out.
    max_newton, max_passes : int, default 10
        At most so many quadratic models of the logistic loss, and coordinate passes over each. On sparse rows one pass
        ranks as well and is up to a fifth faster; dense features need more.
    solver_tolerance : float, default 0.01
        The solver stops when its optimality violation has fallen to this share of the first one.
    unit_rows : bool, default False
        Scale rows to length one, in training and prediction. The paper takes rows as they are; on tf-idf text whose
        rows differ much in length unit rows are better, faster and smaller (EURLex-4K: five points of P@1).
    tree_order : {"random", "accuracy"}, default "random"
        Which trees ``predict_top_k(X, n_trees=m)`` takes: the first m grown, or the m most precise on the training set.
    n_jobs : int or None, default None
        Threads, one tree each; None means the CPUs this process may use.
    random_state : int, default 0
        Seed; the same for any `n_jobs`.

    Attributes
    ----------
    tree_depths_, tree_leaf_labels_, tree_precision_ : float64 arrays (n_trees,)
        Mean depth of a training row, mean number of distinct labels in a leaf (before the cut to `leaf_labels`), and
        precision@5 on the training rows (a share, not per cent), of each tree.
    root_objectives_ : float64 array (n_trees, n_updates)
        The objective (equation 5) at the root after each update of the separator. A root that converged earlier
        repeats its last value; a tree whose root is a leaf has zeros.

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(4, dtype=np.float32), 20, axis=0)
    >>> model = lt.FastXML(n_trees=5, n_jobs=1).fit(X, X)
    >>> model.predict_top_k(X[::20], top_k=1).label_ids.ravel()
    array([0, 1, 2, 3], dtype=int32)
    """

    n_trees: int = 50
    max_leaf_size: int = 10
    leaf_labels: int = 100
    split_loss: str = "ndcg"
    split_top_k: int | None = None
    separator_cost: float = 1.0
    left_separator_cost: float | None = None
    balanced_costs: bool = True
    ranking_cost: float = 1.0
    n_updates: int = 1
    bias: float = 1.0
    max_newton: int = 10
    max_passes: int = 10
    solver_tolerance: float = 0.01
    unit_rows: bool = False
    tree_order: str = "random"

    _rules: ClassVar = {
        "n_trees": (Int(1, 1_000_000),),
        "max_leaf_size": (Int(1, 2**31 - 1),),
        "leaf_labels": (Int(1, 2**31 - 1),),
        "split_loss": (Choice("ndcg", "precision"),),
        "split_top_k": (Int(1, 2**31 - 1), Nothing()),
        "separator_cost": (Real(0, above=True),),
        "left_separator_cost": (Real(0, above=True), Nothing()),
        "balanced_costs": (Bool(),),
        "ranking_cost": (Real(0),),
        "n_updates": (Int(1, 1000),),
        "bias": (Real(0),),
        "max_newton": (Int(1, 1_000_000),),
        "max_passes": (Int(1, 1_000_000),),
        "solver_tolerance": (Real(0),),
        "unit_rows": (Bool(),),
        "tree_order": (Choice("random", "accuracy"),),
    }
    # What was tuned for the "FastXML-T" of table 2 the paper does not say; these change the result most.
    _ranges: ClassVar[dict[str, Range]] = {
        "separator_cost": Between(0.1, 20.0, log=True),
        "max_leaf_size": Between(2, 100, log=True),
        "leaf_labels": Between(5, 100, log=True),
        "unit_rows": OneOf(False, True),
    }
    _state: ClassVar = {
        "tree_roots_": ArraySpec(np.int32, ndim=1, min=0),
        "right_child_": ArraySpec(np.int32, ndim=1, min=0),
        "biases_": ArraySpec(np.float32, ndim=1, finite=True),
        "split_indptr_": ArraySpec(np.int64, ndim=1, min=0),
        "split_features_": ArraySpec(np.int32, ndim=1, min=0),
        "split_weights_": ArraySpec(np.float32, ndim=1, finite=True),
        "leaf_indptr_": ArraySpec(np.int64, ndim=1, min=0),
        "leaf_labels_": ArraySpec(np.int32, ndim=1, min=0),
        "leaf_values_": ArraySpec(np.float32, ndim=1, finite=True, min=0),
        "tree_depths_": ArraySpec(np.float64, ndim=1, finite=True, min=0),
        "tree_leaf_labels_": ArraySpec(np.float64, ndim=1, finite=True, min=0),
        "tree_precision_": ArraySpec(np.float64, ndim=1, finite=True, min=0),
        "root_objectives_": ArraySpec(np.float64, ndim=2, finite=True),
    }

    tree_roots_: NDArray[np.int32] = field(init=False)
    right_child_: NDArray[np.int32] = field(init=False)
    biases_: NDArray[np.float32] = field(init=False)
    split_indptr_: NDArray[np.int64] = field(init=False)
    split_features_: NDArray[np.int32] = field(init=False)
    split_weights_: NDArray[np.float32] = field(init=False)
    leaf_indptr_: NDArray[np.int64] = field(init=False)
    leaf_labels_: NDArray[np.int32] = field(init=False)
    leaf_values_: NDArray[np.float32] = field(init=False)
    tree_depths_: NDArray[np.float64] = field(init=False)
    tree_leaf_labels_: NDArray[np.float64] = field(init=False)
    tree_precision_: NDArray[np.float64] = field(init=False)
    root_objectives_: NDArray[np.float64] = field(init=False)

    # ---- what a user calls ------------------------------------------------------------------------------------

    def predict_top_k(self, X: Any, top_k: int = 5, *, n_trees: int | None = None) -> TopK:
        """Rank the labels of each row.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
        top_k : int, default 5
            How many labels a row; rows with fewer candidates are padded with label -1 and score 0.
        n_trees : int, optional
            Use only so many trees, chosen by `tree_order`; None uses all.

        Returns
        -------
        TopK
            label_ids int32 (n_rows, top_k) and scores float32 (n_rows, top_k), best first.
        """
        if n_trees is None:
            return super().predict_top_k(X, top_k)
        self._check_fitted()
        _rules.check_value(type(self).__name__, "n_trees", n_trees, (Int(1, len(self.tree_roots_)),))
        trees = self._choose_trees(n_trees)
        return self._checked_top_k(X, top_k, lambda X, top_k: self._rank(X, top_k, trees))

    @property
    def balance_(self) -> float:
        """Mean depth of a training row over log2(n_rows / max_leaf_size), the formula of the paper's table 6.

        Full leaves give 1; smaller leaves more, nodes that find no split less. `leaf_balance_` is about shape alone.
        """
        self._check_fitted()
        self._check_now("max_leaf_size")
        ideal = np.log2(max(self.n_rows_ / self.max_leaf_size, 2))
        return float(self.tree_depths_.mean() / ideal)

    @property
    def leaf_balance_(self) -> float:
        """Mean depth of a training row over log2(leaves of the tree): 1 when all leaves are equally deep.

        The figures in the paper's table 6 are this one's, not those of its formula (see docs/fastxml.md).
        """
        self._check_fitted()
        n_leaves = np.add.reduceat(self.right_child_ == 0, self.tree_roots_)
        return float(np.mean(self.tree_depths_ / np.log2(np.maximum(n_leaves, 2))))

    @property
    def labels_per_leaf_(self) -> float:
        """Mean number of distinct labels in a leaf, before the cut to `leaf_labels`."""
        self._check_fitted()
        return float(self.tree_leaf_labels_.mean())

    def _check_now(self, name: str) -> None:
        """Check a parameter that may have been set after fit."""
        _rules.check_value(type(self).__name__, name, getattr(self, name), self._rules[name])

    # ---- training ---------------------------------------------------------------------------------------------

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run) -> None:
        self._set_forest(run.map(self._plan(X, Y)))

    def _plan(self, X: Matrix, Y: sp.csr_array) -> Plan:
        if self.unit_rows:
            X = with_unit_rows(X)
        arrays = feature_arrays(X) | {"label_indptr": Y.indptr, "label_ids": Y.indices}
        if (label_weights := self._label_weights(Y)) is not None:
            arrays["label_weights"] = label_weights
        left_cost = self.separator_cost if self.left_separator_cost is None else self.left_separator_cost
        params = {
            "n_features": X.shape[1],
            "n_labels": Y.shape[1],
            "max_leaf_size": int(self.max_leaf_size),
            "leaf_labels": int(self.leaf_labels),
            "precision_loss": self.split_loss == "precision",
            "loss_top_k": int(self.split_top_k or 0),
            "normalise": label_weights is None,
            "right_cost": float(self.separator_cost),
            "left_cost": float(left_cost),
            "balanced_costs": bool(self.balanced_costs),
            "ranking_cost": float(self.ranking_cost),
            "n_updates": int(self.n_updates),
            "bias": float(self.bias),
            "max_newton": int(self.max_newton),
            "max_passes": int(self.max_passes),
            "tolerance": float(self.solver_tolerance),
            "seed": int(self.random_state),
        }
        return Plan(
            owner=type(self).__name__,
            unit="trees",
            task=grow_one_tree,
            arrays=arrays,
            params=params,
            n_tasks=int(self.n_trees),
        )

    def _label_weights(self, Y: sp.csr_array) -> NDArray[np.float32] | None:
        """Weigh labels in splits and leaves; FastXML does not."""
        return None

    def _set_forest(self, shards: list[Shard]) -> None:
        """Put the trees one after the other; node ids and positions then count through all of them."""
        n_nodes = [len(shard["right_child"]) for shard in shards]
        if sum(n_nodes) > np.iinfo(np.int32).max:
            raise ValueError(f"{type(self).__name__}: the trees have more than 2147483647 nodes; grow fewer")
        roots = np.cumsum([0, *n_nodes])[:-1].astype(np.int32)
        self.tree_roots_ = roots
        self.right_child_ = np.concatenate(
            [
                np.where(shard["right_child"] > 0, shard["right_child"] + root, 0)
                for shard, root in zip(shards, roots, strict=True)
            ]
        ).astype(np.int32)
        for part in ("biases", "split_features", "split_weights", "leaf_labels", "leaf_values"):
            setattr(self, part + "_", np.concatenate([shard[part] for shard in shards]))
        self.split_indptr_ = join_indptr([shard["split_indptr"] for shard in shards])
        self.leaf_indptr_ = join_indptr([shard["leaf_indptr"] for shard in shards])
        statistics = np.stack([shard["statistics"] for shard in shards])
        self.tree_depths_, self.tree_leaf_labels_, self.tree_precision_ = np.ascontiguousarray(statistics.T)
        self.root_objectives_ = np.zeros((len(shards), self.n_updates))
        for row, shard in zip(self.root_objectives_, shards, strict=True):
            reached = shard["root_objectives"]
            if len(reached):
                row[: len(reached)] = reached
                row[len(reached) :] = reached[-1]

    # ---- prediction -------------------------------------------------------------------------------------------

    def _top_k(self, X: Matrix, top_k: int) -> TopK:
        return self._rank(X, top_k, np.arange(len(self.tree_roots_), dtype=np.int32))

    def _rank(self, X: Matrix, top_k: int, tree_ids: NDArray[np.int32]) -> TopK:
        label_ids, scores = _core.predict_forest(
            X.shape[1],
            *feature_parts(X),
            self._forest(),
            tree_ids,
            self._tail(),
            self.n_labels_,
            top_k,
            bool(self.unit_rows),
            resolve_n_jobs(self.n_jobs),
            _core.Control(),
        )
        return TopK(label_ids, scores)

    def _forest(self) -> dict[str, object]:
        return {part: getattr(self, part + "_") for part in _FOREST_PARTS}

    def _tail(self) -> dict[str, object] | None:
        """Tail classifiers that rank the trees' labels anew; FastXML has none."""
        return None

    def _choose_trees(self, n_trees: int) -> NDArray[np.int32]:
        self._check_now("tree_order")
        if self.tree_order == "accuracy":
            best = np.argsort(-self.tree_precision_, kind="stable")[:n_trees]
            return np.sort(best).astype(np.int32)
        return np.arange(n_trees, dtype=np.int32)

    def _contributions(self, x_row: Matrix, label_id: int) -> Contributions | None:
        return self._path_contributions(x_row, label_id)

    def _path_contributions(self, x_row: Matrix, label_id: int) -> Contributions:
        """Share what each decision adds among the features that take part in it; what b decides goes to the bias."""
        row = sp.csr_array(x_row)
        dense = np.zeros(self.n_features_in_, dtype=np.float32)
        dense[row.indices] = row.data
        if self.unit_rows and row.nnz:
            dense /= np.float32(np.sqrt(np.square(row.data, dtype=np.float64).sum())) or np.float32(1)
        forest = LinearForest(*(getattr(self, f"{name}_") for name in LinearForest._fields))
        sums = sum_linear_paths(forest, dense, label_id)
        return Contributions(row.indices, sums.by_feature[row.indices], sums.bias, sums.score, exact=False)

    def _check_state(self) -> None:
        _core.check_forest(self._forest(), self.n_features_in_, self.n_labels_)
        for name in ("tree_depths_", "tree_leaf_labels_", "tree_precision_", "root_objectives_"):
            if len(getattr(self, name)) != len(self.tree_roots_):
                raise ValueError(
                    f"{type(self).__name__}: {name} has {len(getattr(self, name))} entries, "
                    f"but there are {len(self.tree_roots_)} trees"
                )


def grow_one_tree(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Grow the tree numbered `task_id`."""
    config = _core.TreeConfig()
    for name in _CONFIG_NAMES:
        setattr(config, name, params[name])
    config.stream = task_id
    grown = _core.grow_tree(
        int(params["n_features"] or 0),
        arrays["indptr"],
        arrays["indices"],
        arrays["values"],
        int(params["n_labels"] or 0),
        arrays["label_indptr"],
        arrays["label_ids"],
        arrays.get("label_weights"),
        config,
        control,
    )
    return cast(Shard, grown)


def feature_parts(X: Matrix) -> tuple[Array, Array, Array]:
    """Give X as the native core takes it: CSR parts, or a dense matrix with empty indptr and indices."""
    if isinstance(X, np.ndarray):
        return _NO_INDPTR, _NO_INDICES, X
    return X.indptr, X.indices, X.data


def feature_arrays(X: Matrix) -> dict[str, Array]:
    return dict(zip(("indptr", "indices", "values"), feature_parts(X), strict=True))


def with_unit_rows(X: Matrix) -> Matrix:
    if isinstance(X, np.ndarray):
        indptr = np.arange(X.shape[0] + 1, dtype=np.int64) * X.shape[1]
        return _core.unit_rows(indptr, X.reshape(-1)).reshape(X.shape)
    return csr_from_parts(_core.unit_rows(X.indptr, X.data), X.indices, X.indptr, X.shape)


def join_indptr(parts: list[Array]) -> NDArray[np.int64]:
    offsets = np.cumsum([0, *(part[-1] for part in parts)])
    joined = [part[1:] + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *joined])
