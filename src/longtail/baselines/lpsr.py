"""LPSR: label partitioning for sub-linear ranking (Weston, Makadia and Yee, ICML 2013)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._cancel import check_cancelled
from longtail._contributions import Contributions
from longtail._csr import csr_from_parts
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix, canonical_csr, find_sorted, with_columns
from longtail._ranges import Between
from longtail._rules import Int, Real
from longtail._topk import TopK
from longtail.baselines.cut_score import CUT_ROWS, CUT_TOP_K, cut_score
from longtail.baselines.row_tree import RowTree, check_lists, grow_row_tree
from longtail.baselines.shared_arrays import arrays_of, data_of, run_tasks
from longtail.dismec import DiSMEC
from longtail.execution import Arrays, Params, Run, Shard
from longtail.fastxml.forest import PerTree, balance

# Rows ranked at once: times the labels of a leaf.
_ROWS_PER_BLOCK = 1024
# Models with more features, most of them without a weight, are reduced to those with one.
_MANY_FEATURES = 1 << 22


@dataclass(frozen=True, eq=False)
class LinearScores(State):
    """Sparse weights by label; score = x·w + bias + row sum · sum_weight - x·background."""

    weight_begin: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]
    weight_feature_ids: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
    weights: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    biases: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    sum_weights: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    background: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> LinearScores:
        kept = new_ids >= 0
        by_label = canonical_csr(self.matrix(len(self.background))[kept])
        biases, sums = self.biases[kept], self.sum_weights[kept]
        return LinearScores(by_label.indptr, by_label.indices, by_label.data, biases, sums, self.background)

    def check(self, owner: str, facts: Facts) -> None:
        for name in ("biases", "sum_weights"):
            if len(getattr(self, name)) != facts.n_labels:
                raise ValueError(f"{owner}: {name}_ must have {facts.n_labels} entries; the file is damaged")
        if len(self.background) != facts.n_features_in:
            raise ValueError(f"{owner}: background_ must have {facts.n_features_in} entries; the file is damaged")
        check_lists(owner, "weight", self.weight_begin, self.weight_feature_ids, facts.n_labels, facts.n_features_in)
        if len(self.weights) != len(self.weight_feature_ids):
            raise ValueError(f"{owner}: weights_ and weight_feature_ids_ must have the same length")

    def matrix(self, n_features: int) -> sp.csr_array:
        """Return the weights, one row per label."""
        shape = (len(self.biases), n_features)
        return csr_from_parts(self.weights, self.weight_feature_ids, self.weight_begin, shape)


@dataclass(frozen=True, eq=False)
class Partitioned(State):
    """The base classifier, and the tree that chooses which labels it ranks."""

    base: LinearScores
    tree: RowTree
    tree_depths: PerTree

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Partitioned:
        return replace(self, base=self.base.keep_labels(new_ids), tree=self.tree.keep_labels(new_ids))

    def check(self, owner: str, facts: Facts) -> None:
        self.base.check(owner, facts)
        self.tree.check(owner, facts)
        if len(self.tree_depths) != 1:
            raise ValueError(f"{owner}: tree_depths_ must have one entry; the file is damaged")

    @property
    def n_entries(self) -> int:
        """Entries of all splits and weights."""
        return len(self.tree.split_feature_ids) + len(self.base.weight_feature_ids)

    @cached_property
    def used_features(self) -> NDArray[np.int32]:
        """Features that a split or a weight names."""
        return np.unique(np.concatenate([self.tree.split_feature_ids, self.base.weight_feature_ids]))

    @cached_property
    def compact(self) -> Partitioned:
        """The same state over the used features only, numbered from 0."""
        splits = np.searchsorted(self.used_features, self.tree.split_feature_ids).astype(np.int32)
        weights = np.searchsorted(self.used_features, self.base.weight_feature_ids).astype(np.int32)
        base = replace(self.base, weight_feature_ids=weights)
        return replace(self, base=base, tree=replace(self.tree, split_feature_ids=splits))


class PartitionedRanking(XMCClassifier):
    """Base of LPSR and LPSRNB: a tree over rows in front of a linear classifier."""

    max_leaf_size: int

    _State: ClassVar = Partitioned

    def _base_scores(self, X: Matrix, Y: sp.csr_array, run: Run) -> LinearScores:
        """Train the base classifier."""
        raise NotImplementedError

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> Partitioned:
        (shard,) = run_tasks(self, run, learn_tree, "trees", 1, arrays_of(X, Y))
        arrays = {name: np.array(array) for name, array in shard.items()}
        depths = arrays.pop("tree_depths")
        return Partitioned(self._base_scores(X, Y, run), RowTree(**arrays), depths)

    @property
    def balance_(self) -> float:
        """Mean depth of a training row over log2(n_rows / max_leaf_size), as in table 6 of the FastXML paper."""
        fitted = self._whole()
        return balance(fitted.state.tree_depths, fitted.facts.n_rows, self.max_leaf_size)

    def _top_k(self, fitted: Fitted[Partitioned], X: Matrix, top_k: int) -> TopK:
        return _rank(fitted.state, X, top_k)

    def _contributions(self, fitted: Fitted[Partitioned], x_row: Matrix, label_id: int) -> Contributions:
        """A feature adds its value times its weight: exact. A label that the row's leaf lacks has no score."""
        state, row = fitted.state, sp.csr_array(x_row)
        small, small_row = _compact(state, row)
        ((leaf, _),) = small.tree.leaves_of(small_row)
        if label_id not in state.tree.labels_of(leaf):
            return Contributions(row.indices, np.zeros(row.nnz), 0.0, 0.0, exact=True)
        base = state.base
        part = slice(int(base.weight_begin[label_id]), int(base.weight_begin[label_id + 1]))
        weights = float(base.sum_weights[label_id]) - base.background[row.indices].astype(np.float64)
        entries, found = find_sorted(row.indices, base.weight_feature_ids[part])
        weights[entries] += base.weights[part][found]
        values, bias = row.data * weights, float(base.biases[label_id])
        return Contributions(row.indices, values, bias, bias + float(values.sum()), exact=True)


def _compact(state: Partitioned, rows: sp.csr_array) -> tuple[Partitioned, sp.csr_array]:
    """Drop features that no split or weight names where they are many: arrays over all features would be too large."""
    if rows.shape[1] <= max(_MANY_FEATURES, 4 * state.n_entries):
        return state, rows
    return state.compact, with_columns(rows, state.used_features)


def _rank(state: Partitioned, X: Matrix, top_k: int) -> TopK:
    """Rank the labels of the leaves that rows reach."""
    rows = sp.csr_array(X)
    row_ids = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    row_sums = np.bincount(row_ids, weights=rows.data, minlength=rows.shape[0]).astype(np.float32)
    offsets = rows @ state.base.background
    state, rows = _compact(state, rows)
    weights = state.base.matrix(rows.shape[1])
    label_ids = np.full((rows.shape[0], top_k), -1, dtype=np.int32)
    scores = np.zeros((rows.shape[0], top_k), dtype=np.float32)
    for leaf, all_members in state.tree.leaves_of(rows):
        labels = state.tree.labels_of(leaf)
        chosen, n_kept = weights[labels], min(top_k, len(labels))
        for begin in range(0, len(all_members), _ROWS_PER_BLOCK):
            check_cancelled()
            members = all_members[begin : begin + _ROWS_PER_BLOCK]
            found = (chosen @ rows[members].T).toarray().T + state.base.biases[labels]
            found += row_sums[members, None] * state.base.sum_weights[labels]
            found = np.nan_to_num(found - offsets[members, None])  # absurd weights overflow
            order = np.argsort(-found, axis=1, kind="stable")[:, :n_kept]
            label_ids[members, :n_kept] = labels[order]
            scores[members, :n_kept] = np.take_along_axis(found, order, axis=1)
    return TopK(label_ids, scores)


def learn_tree(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Grow the tree over the training rows, and measure their mean depth."""
    X, Y = data_of(arrays)
    rows = sp.csr_array(X)
    shard = grow_row_tree(rows, Y, int(params["max_leaf_size"] or 1), int(params["random_state"] or 0), control)
    depths = np.zeros(len(shard["left_children"]), dtype=np.int64)
    for node, child in enumerate(shard["left_children"]):  # parents come first
        if child >= 0:
            depths[child : child + 2] = depths[node] + 1
    depth_sum = sum(int(depths[leaf]) * len(members) for leaf, members in RowTree(**shard).leaves_of(rows))
    return shard | {"tree_depths": np.array([depth_sum / rows.shape[0]])}


@dataclass(kw_only=True, eq=False, repr=False)
class LPSR(PartitionedRanking):
    """Rank only the labels of a row's neighbourhood, by one-vs-all classifiers.

    Hierarchical 2-means divides the training rows into leaves. A new row reaches one leaf, and the base classifier,
    `DiSMEC`, ranks the labels that the leaf's training rows carry. A baseline of the FastXML and PfastreXML papers.
    Labels of a leaf are counted, not chosen by the relaxed integer program of the LPSR paper.

    Parameters
    ----------
    max_leaf_size : int, default 1000
        Training rows per leaf; smaller leaves are quicker and lose more labels.
    cost : float, default 1.0
        Of the base classifier.
    unit_rows, n_jobs, random_state
        As everywhere; the seed starts 2-means.

    Attributes
    ----------
    weight_begin_, weight_feature_ids_, weights_, biases_ : the base classifier, by label
    left_children_, split_thresholds_, split_begin_, split_feature_ids_, split_weights_ : the tree
    leaf_begin_, leaf_label_ids_ : the labels of each leaf
    tree_depths_ : float64 array (1,), mean depth of a training row; `balance_` compares it with full leaves

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    >>> lt.LPSR(max_leaf_size=10, n_jobs=1).fit(X, X).predict_top_k(X[::10], top_k=1).label_ids.ravel()
    array([0, 1, 2], dtype=int32)
    """

    max_leaf_size: Annotated[int, Int(1), Between(50, 5000, log=True)] = 1000
    cost: Annotated[float, Real(0, above=True), Between(0.1, 20.0, log=True)] = 1.0

    _threshold: ClassVar[float] = 0.0

    def _base_scores(self, X: Matrix, Y: sp.csr_array, run: Run) -> LinearScores:
        path = None if run.checkpoint_path is None else Path(run.checkpoint_path) / "base"
        base = DiSMEC(cost=self.cost, n_jobs=self.n_jobs, random_state=self.random_state)
        base.fit(X, Y, executor=run.executor, checkpoint=path)
        if not np.isfinite(base.biases_).all():
            raise ValueError("LPSR: the base classifier overflowed float32; scale X down, or set unit_rows=True")
        by_feature = csr_from_parts(
            base.index_weights_, base.index_label_ids_, base.index_indptr_, (X.shape[1], Y.shape[1])
        )
        by_label = canonical_csr(by_feature.T)
        sums, background = np.zeros(Y.shape[1], dtype=np.float32), np.zeros(X.shape[1], dtype=np.float32)
        return LinearScores(by_label.indptr, by_label.indices, by_label.data, base.biases_, sums, background)


@dataclass(kw_only=True, eq=False, repr=False)
class LPSRNB(PartitionedRanking):
    """LPSR with multinomial naive Bayes as the base classifier, for sets where one-vs-all is too slow.

    The weight of a feature is log(1 + its sum over the label's rows / smoothing): as sparse as the label's rows. X must
    not be negative. A baseline of the FastXML paper (Table 3).

    Parameters
    ----------
    max_leaf_size : int, default 1000
        Training rows per leaf; smaller leaves are quicker and lose more labels.
    smoothing : float, default 1.0
        Added to the sum of every feature.
    unit_rows, n_jobs, random_state
        As everywhere; the seed starts 2-means.

    Attributes
    ----------
    As of `LPSR`, and sum_weights_ : float32 array (n_labels,), what one unit of a row's sum adds; background_ : float32
    array (n_features,), what is subtracted for all labels

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    >>> lt.LPSRNB(max_leaf_size=10, n_jobs=1).fit(X, X).predict_top_k(X[::10], top_k=1).label_ids.ravel()
    array([0, 1, 2], dtype=int32)
    """

    max_leaf_size: Annotated[int, Int(1), Between(50, 5000, log=True)] = 1000
    smoothing: Annotated[float, Real(0, above=True), Between(0.001, 10.0, log=True)] = 1.0

    _threshold: ClassVar[float] = 0.0

    def _base_scores(self, X: Matrix, Y: sp.csr_array, run: Run) -> LinearScores:
        return naive_bayes(X, Y, self.smoothing)

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **options: Any) -> Partitioned:
        """Also shift all scores so that training rows get as many labels >= 0 as they carry."""
        state = super()._fit(X, Y, run, **options)
        n_rows = min(CUT_ROWS, X.shape[0])
        top = _rank(state, X[:n_rows], min(CUT_TOP_K, Y.shape[1]))
        cut = cut_score(top.scores[top.label_ids >= 0], int(Y.indptr[n_rows]))
        return replace(state, base=replace(state.base, biases=state.base.biases - np.float32(cut)))

    def _training_rows(self, X: Any) -> tuple[Matrix, NDArray[Any] | None]:
        rows, names = super()._training_rows(X)
        values = rows.data if sp.issparse(rows) else rows
        if values.size and values.min() < 0:
            raise ValueError(
                f"LPSRNB: X must hold no negative values, got {values.min():g}; Negative values in data passed to "
                "naive Bayes have no meaning: use LPSR"
            )
        return rows, names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def naive_bayes(X: Matrix, Y: sp.csr_array, smoothing: float) -> LinearScores:
    """Return multinomial naive Bayes, log p(label) + Σ x_f log θ(f | label), as sparse weights by label.

    θ = (sum + smoothing) / (all sums + smoothing · n_features); log θ is split into log(1 + sum / smoothing), which is
    zero where the label's rows lack the feature, and the rest, which is the same for all features. The same of all rows
    together is subtracted: it changes no ranking, but makes the scores of different rows comparable, as an estimate of
    log p(label | x).
    """
    n_rows, n_labels = Y.shape
    sums = canonical_csr(sp.csr_array(Y.T) @ sp.csr_array(X))
    totals = np.asarray(sums.sum(axis=1, dtype=np.float64)).reshape(-1)
    counts = np.bincount(Y.indices, minlength=n_labels)
    biases = np.log(np.maximum(counts, 1) / n_rows).astype(np.float32)
    rest = np.log(smoothing / (totals + smoothing * X.shape[1])).astype(np.float32)
    weights = np.log1p(sums.data / np.float32(smoothing)).astype(np.float32)
    by_feature = np.asarray(X.sum(axis=0, dtype=np.float64)).reshape(-1) + smoothing
    background = np.log(by_feature / by_feature.sum()).astype(np.float32)
    return LinearScores(sums.indptr, sums.indices, weights, biases, rest, background)
