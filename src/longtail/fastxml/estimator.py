"""FastXML: an ensemble of trees over the feature space, each node split to rank its rows' labels well.

Prabhu, Varma: FastXML: A Fast, Accurate and Stable Tree-classifier for eXtreme Multi-label Learning, KDD 2014.
docs/fastxml.md has the idea in a page and the paper's symbols beside the names used here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core, _rules
from longtail._cancel import current_control
from longtail._contributions import Contributions
from longtail._fitted import Fitted, State
from longtail._matrices import Matrix, native_rows, with_fewer_columns
from longtail._ranges import Between, OneOf
from longtail._rules import Bool, Choice, Int, Nothing, Real
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail._weighted import WeightedClassifier
from longtail.calibration.power import Valued
from longtail.execution import Array, Arrays, Params, Plan, Run, Shard
from longtail.fastxml.forest import LinearForest, TreeEnsemble, balance, join_trees
from longtail.fastxml.paths import sum_linear_paths

# Where a model names ids beyond this one, features are numbered anew for each prediction: a row would take 256 MiB.
_MANY_FEATURES = 1 << 26
_COLUMNS = "column_"  # begins the names of X by column among the arrays of a plan


@dataclass(kw_only=True, eq=False, repr=False)
class FastXML(WeightedClassifier):
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
    rank_ties : {"first", "random"}, default "first"
        How a split orders labels of equal weight: by first appearance among the node's rows, which is faster, or at
        random as in equation 1 of the paper, with one order per node.
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
        Limits of quadratic models of the logistic loss and of coordinate passes over each. On sparse rows one pass
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
    root_rounds_ : float64 array (n_trees, n_updates)
        Rounds of rankings and sides at the root until each update of the separator (W_i of the paper's table 5); not
        saved with the model.

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(4, dtype=np.float32), 20, axis=0)
    >>> model = lt.FastXML(n_trees=5, n_jobs=1).fit(X, X)
    >>> model.predict_top_k(X[::20], top_k=1).label_ids.ravel()
    array([0, 1, 2, 3], dtype=int32)
    """

    n_trees: Annotated[int, Int(1, 1_000_000)] = 50
    max_leaf_size: Annotated[int, Int(1, 2**31 - 1), Between(2, 100, log=True)] = 10
    leaf_labels: Annotated[int, Int(1, 2**31 - 1), Between(5, 100, log=True)] = 100
    split_loss: Annotated[str, Choice("ndcg", "precision")] = "ndcg"
    split_top_k: Annotated[int | None, Int(1, 2**31 - 1), Nothing()] = None
    rank_ties: Annotated[str, Choice("first", "random")] = "first"
    separator_cost: Annotated[float, Real(0, above=True), Between(0.1, 20.0, log=True)] = 1.0
    left_separator_cost: Annotated[float | None, Real(0, above=True), Nothing()] = None
    balanced_costs: Annotated[bool, Bool()] = True
    ranking_cost: Annotated[float, Real(0)] = 1.0
    n_updates: Annotated[int, Int(1, 1000)] = 1
    bias: Annotated[float, Real(0)] = 1.0
    max_newton: Annotated[int, Int(1, 1_000_000)] = 10
    max_passes: Annotated[int, Int(1, 1_000_000)] = 10
    solver_tolerance: Annotated[float, Real(0)] = 0.01
    unit_rows: Annotated[bool, Bool(), OneOf(False, True)] = False
    tree_order: Annotated[str, Choice("random", "accuracy")] = "random"

    _State: ClassVar[type[State]] = TreeEnsemble
    _ranking_options: ClassVar[frozenset[str]] = frozenset({"n_trees"})
    _ranks_by_value: ClassVar[bool] = True
    _absent: ClassVar[dict[str, Any]] = {"rank_ties": "first"}

    # ---- what a user calls ------------------------------------------------------------------------------------

    def predict_top_k(
        self,
        X: Any,
        top_k: int = 5,
        *,
        n_trees: int | None = None,
        utility: str | None = None,
        max_loss: float | None = None,
    ) -> TopK:
        """Rank the labels of each row.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
        top_k : int, default 5
            How many labels per row; rows with fewer candidates are padded with label -1 and score 0.
        n_trees : int, optional
            Number of trees to use, chosen by `tree_order`; None uses all. Labels are then ranked by their scores, also
            if the model is calibrated: a calibration knows only what the scores of all trees mean.
        utility, max_loss
            As for every estimator; only for all trees.

        Returns
        -------
        TopK
            label_ids int32 (n_rows, top_k) and scores float32 (n_rows, top_k), best first.
        """
        if n_trees is None:
            return super().predict_top_k(X, top_k, utility=utility, max_loss=max_loss)
        self._check_now("tree_order")
        if self.calibration_ is not None and (utility not in (None, "score") or max_loss is not None):
            raise ValueError(
                f"{type(self).__name__}: utility must be None or 'score', and max_loss None, with n_trees; got "
                f"{utility!r} and {max_loss!r}: the calibration is one of all trees"
            )

        def rank(fitted: Fitted[TreeEnsemble], X: Matrix, top_k: int) -> TopK:
            trees = fitted.state
            _rules.check_value(type(self).__name__, "n_trees", n_trees, (Int(1, len(trees.forest.tree_roots)),))
            return self._rank(fitted, X, top_k, trees.choose(n_trees, self.tree_order))

        return self._checked_top_k(X, top_k, rank, utility or "score", max_loss)

    @property
    def balance_(self) -> float:
        """Mean depth of a training row over log2(n_rows / max_leaf_size), the formula of the paper's table 6.

        Full leaves give 1; smaller leaves more, nodes that find no split less. `leaf_balance_` is about shape alone.
        """
        fitted = self._whole()
        self._check_now("max_leaf_size")
        return balance(fitted.state.tree_depths, fitted.facts.n_rows, self.max_leaf_size)

    @property
    def leaf_balance_(self) -> float:
        """Mean depth of a training row over log2(leaves of the tree): 1 when all leaves are equally deep.

        The figures in the paper's table 6 are this one's, not those of its formula (see docs/results/fastxml.md).
        """
        trees = self._whole().state
        n_leaves = np.add.reduceat(trees.forest.right_child == 0, trees.forest.tree_roots)
        return float(np.mean(trees.tree_depths / np.log2(np.maximum(n_leaves, 2))))

    @property
    def labels_per_leaf_(self) -> float:
        """Mean number of distinct labels in a leaf, before the cut to `leaf_labels`."""
        return float(self._whole().state.tree_leaf_labels.mean())

    def _check_now(self, name: str) -> None:
        """Check a parameter that may have been set after fit."""
        _rules.check_value(type(self).__name__, name, getattr(self, name), self._rules[name])

    # ---- training ---------------------------------------------------------------------------------------------

    def _fit(
        self, X: Matrix, Y: sp.csr_array, run: Run, *, row_weights: NDArray[np.float32] | None = None, **_options: Any
    ) -> TreeEnsemble:
        return join_trees(type(self).__name__, run.map(self._plan(X, Y, row_weights)), self.n_updates)

    def _plan(self, X: Matrix, Y: sp.csr_array, row_weights: NDArray[np.float32] | None = None) -> Plan:
        arrays = feature_arrays(X) | column_arrays(X) | {"label_indptr": Y.indptr, "label_ids": Y.indices}
        if row_weights is not None:
            arrays["row_weights"] = row_weights
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
            "random_ties": self.rank_ties == "random",
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

    # ---- prediction -------------------------------------------------------------------------------------------

    def _top_k(self, fitted: Fitted[TreeEnsemble], X: Matrix, top_k: int) -> TopK:
        return self._rank(fitted, X, top_k, _all_trees(fitted))

    def _by_value(self, fitted: Fitted[TreeEnsemble], X: Matrix, values: _core.ValueTable, top_k: int) -> Valued:
        X, forest, _, n_features_used = self._native(fitted, X)
        return Valued(
            *_core.predict_forest_by_value(
                native_rows(X),
                forest,
                _all_trees(fitted),
                values,
                fitted.facts.n_labels,
                top_k,
                n_features_used,
                resolve_n_jobs(self.n_jobs),
                current_control(),
            )
        )

    def _rank(self, fitted: Fitted[TreeEnsemble], X: Matrix, top_k: int, tree_ids: NDArray[np.int32]) -> TopK:
        X, forest, tail, n_features_used = self._native(fitted, X)
        label_ids, scores = _core.predict_forest(
            native_rows(X),
            forest,
            tree_ids,
            tail,
            fitted.facts.n_labels,
            top_k,
            n_features_used,
            resolve_n_jobs(self.n_jobs),
            current_control(),
        )
        return TopK(label_ids, scores)

    def _native(
        self, fitted: Fitted[TreeEnsemble], X: Matrix
    ) -> tuple[Matrix, dict[str, Any], dict[str, Any] | None, int]:
        """Return rows, trees and tail classifiers as the kernels take them, and how many features they name."""
        forest, tail = fitted.state.forest.native(), self._tail(fitted.state)
        n_features_used = fitted.state.n_features_used
        if sp.issparse(X) and n_features_used > _MANY_FEATURES:
            # Each thread has room for a dense row: number only the features that there are.
            named = [forest["split_features"], *([] if tail is None else [tail["indices"]])]
            X, (forest["split_features"], *centres) = with_fewer_columns(X, named)
            if tail is not None:
                tail["indices"] = centres[0]
            n_features_used = X.shape[1]
        return X, forest, tail, n_features_used

    def _tail(self, state: Any) -> dict[str, Any] | None:
        """Tail classifiers that rank the trees' labels again; FastXML has none."""
        return None

    def _contributions(self, fitted: Fitted[TreeEnsemble], x_row: Matrix, label_id: int) -> Contributions | None:
        return path_contributions(fitted.state.forest, x_row, label_id)


def _all_trees(fitted: Fitted[TreeEnsemble]) -> NDArray[np.int32]:
    return np.arange(len(fitted.state.forest.tree_roots), dtype=np.int32)


def path_contributions(forest: LinearForest, x_row: Matrix, label_id: int) -> Contributions:
    """Share what each decision adds among the features that take part in it; what b decides goes to the bias."""
    row = sp.csr_array(x_row)
    sums = sum_linear_paths(forest, row.indices, row.data, label_id)
    return Contributions(row.indices, sums.by_feature, sums.bias, sums.score, exact=False)


def grow_one_tree(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Grow the tree numbered `task_id`."""
    config = _core.TreeConfig(**params, stream=task_id)
    grown = _core.grow_tree(
        rows_of(arrays, params),
        columns_of(arrays),
        int(params["n_labels"] or 0),
        arrays["label_indptr"],
        arrays["label_ids"],
        arrays.get("label_weights"),
        arrays.get("row_weights"),
        config,
        control,
    )
    return cast(Shard, grown)


def rows_of(arrays: Arrays, params: Params) -> _core.Rows:
    """Hand the rows of a plan to the native core: CSR parts, or a dense matrix alone."""
    if "indptr" not in arrays:
        return _core.Rows(arrays["values"])
    return _core.Rows(int(params["n_features"] or 0), arrays["indptr"], arrays["indices"], arrays["values"])


def column_arrays(X: Matrix) -> dict[str, Array]:
    """Name the parts of X by column as `columns_of` reads them: transposing X takes as long as a tenth of a tree."""
    if isinstance(X, np.ndarray):
        return {}
    columns = cast(dict[str, Array], _core.feature_columns(native_rows(X)))
    return {_COLUMNS + name: part for name, part in columns.items()}


def columns_of(arrays: Arrays) -> dict[str, object] | None:
    """Hand the columns of a plan to the native core; a dense matrix has none."""
    return {name.removeprefix(_COLUMNS): part for name, part in arrays.items() if name.startswith(_COLUMNS)} or None


def feature_arrays(X: Matrix) -> dict[str, Array]:
    """Name the parts of X as `rows_of` reads them."""
    if isinstance(X, np.ndarray):
        return {"values": X}
    return {"indptr": X.indptr, "indices": X.indices, "values": X.data}
