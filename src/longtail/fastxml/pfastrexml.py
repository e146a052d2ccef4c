"""PfastXML and PfastreXML: FastXML that counts rare labels for what they are worth.

Jain, Prabhu, Varma: Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking & Other Missing Label
Applications, KDD 2016. docs/pfastrexml.md has the idea in a page and the paper's symbols beside the names used here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._contributions import Contributions
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix, find_sorted
from longtail._rules import Choice, Int, Real
from longtail.execution import Arrays, Params, Plan, Run, Shard
from longtail.fastxml.estimator import FastXML, grow_one_tree, path_contributions, rows_of
from longtail.fastxml.forest import TreeEnsemble, join_indptr, join_trees
from longtail.propensity import PropensityModel

_LABELS_PER_TASK = 256
_MLE_STEPS = 100


@dataclass(frozen=True, eq=False)
class Centres(State):
    """The mean row of each label as CSR (n_labels, n_features), with its bias coordinate and squared length."""

    indptr: Annotated[NDArray[np.int64], "centre_indptr_", ArraySpec(np.int64, ndim=1, min=0)]
    indices: Annotated[NDArray[np.int32], "centre_indices_", ArraySpec(np.int32, ndim=1, min=0)]
    values: Annotated[NDArray[np.float32], "centre_values_", ArraySpec(np.float32, ndim=1, finite=True)]
    biases: Annotated[NDArray[np.float32], "centre_biases_", ArraySpec(np.float32, ndim=1, finite=True)]
    norms: Annotated[NDArray[np.float32], "centre_norms_", ArraySpec(np.float32, ndim=1, finite=True, min=0)]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Centres:
        is_kept = new_ids >= 0
        sizes = np.diff(self.indptr)
        entries = np.repeat(is_kept, sizes)
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[is_kept])])
        return Centres(indptr, self.indices[entries], self.values[entries], self.biases[is_kept], self.norms[is_kept])

    def check(self, owner: str, facts: Facts) -> None:
        _core.check_csr(facts.n_features_in, self.indptr, self.indices, self.values, f"{owner}: centres")
        n_labels = facts.n_labels
        for name, n_entries in (("indptr", n_labels + 1), ("biases", n_labels), ("norms", n_labels)):
            found = len(getattr(self, name))
            if found != n_entries:
                raise ValueError(f"{owner}: centre_{name}_ must have {n_entries} entries, got {found}")


@dataclass(frozen=True, eq=False)
class TreesAndCentres(TreeEnsemble):
    """The state of PfastreXML: trees that propose labels, centres that rank them again."""

    centres: Centres

    @cached_property
    def n_features_used(self) -> int:
        """As for the trees, over their splits and the centres."""
        splits, centres = self.forest.split_features, self.centres.indices
        return max(int(splits.max(initial=-1)), int(centres.max(initial=-1))) + 1

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Self:
        return replace(super().keep_labels(new_ids), centres=self.centres.keep_labels(new_ids))

    def check(self, owner: str, facts: Facts) -> None:
        super().check(owner, facts)
        self.centres.check(owner, facts)


@dataclass(kw_only=True, eq=False, repr=False)
class PfastXML(FastXML):
    """FastXML with propensities: labels weigh 1/p in splits and leaves.

    Rare labels are often missing from the truth. Dividing by the propensity p, the chance that a relevant label was
    annotated, makes the ranking loss unbiased and rewards rare labels; see `longtail.propensity`.

    Parameters
    ----------
    propensity_a, propensity_b : float, default 0.55 and 1.5
        The propensity model's parameters A and B; Wikipedia has 0.5 and 0.4, Amazon 0.6 and 2.6.

    All parameters of `FastXML` are there too. The gain of a split is not normalised by row (equation 4).

    Attributes
    ----------
    Those of `FastXML`. Leaf values, and so scores, are shares times 1/p: they may exceed one. ``predict``
    decides by the shares themselves.

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(4, dtype=np.float32), 20, axis=0)
    >>> lt.PfastXML(n_trees=5, n_jobs=1).fit(X, X).predict_top_k(X[::20], top_k=1).label_ids.ravel()
    array([0, 1, 2, 3], dtype=int32)
    """

    propensity_a: Annotated[float, Real(0, 100)] = PropensityModel.a
    propensity_b: Annotated[float, Real(0, above=True)] = PropensityModel.b

    def _label_weights(self, Y: sp.csr_array) -> NDArray[np.float32]:
        return (1 / self._propensities(Y)).astype(np.float32)

    def _propensities(self, Y: sp.csr_array) -> NDArray[np.float64]:
        return self._propensities_of(np.bincount(Y.indices, minlength=Y.shape[1]), Y.shape[0])

    def _propensities_of(self, label_counts: NDArray[np.int64], n_rows: int) -> NDArray[np.float64]:
        # The model is meant for N > e rows; below, C would be negative and a "propensity" above one.
        return PropensityModel(self.propensity_a, self.propensity_b).from_counts(label_counts, max(n_rows, 3))

    def _labels_above(self, fitted: Fitted[TreeEnsemble], X: Matrix) -> sp.csr_array:
        """Decide by the labels' plain shares, as FastXML does: weighted ones may exceed one for rare labels."""
        trees, facts = fitted.state, fitted.facts
        propensities = self._propensities_of(facts.label_counts, facts.n_rows)
        values = (trees.forest.leaf_values * propensities[trees.forest.leaf_labels]).astype(np.float32)
        plain = replace(trees, forest=replace(trees.forest, leaf_values=values))
        return FastXML(n_jobs=self.n_jobs)._labels_above(Fitted(facts, plain), X)


@dataclass(kw_only=True, eq=False, repr=False)
class PfastreXML(PfastXML):
    """PfastXML whose best labels are re-ranked by classifiers made for the tail.

    Each label has a centre, the mean of its rows, and P(label | x) = 1 / (1 + exp(gamma d²)) with the row's distance d
    from it. Labels that the trees propose are ranked by alpha · log P_trees + (1 - alpha) · log P_centre (equation 8).

    Parameters
    ----------
    alpha : float in [0, 1], default 0.8
        The trees' part in the score.
    gamma : float, default 30
        How fast a label's probability falls with the squared distance. Smaller values favour precision, larger ones
        rare labels.
    tail : {"centroid", "mle"}, default "centroid"
        Plain means of the labels' rows (equation 7), or centres that maximise the likelihood of the observed labels
        (equation 6), by gradient ascent from there; slower, and seldom better.
    n_candidates : int, default 1000
        Number of labels per row, the best of the trees, that are re-ranked.

    All parameters of `PfastXML` are there too. `bias` is part of the rows that are compared with the centres.

    Attributes
    ----------
    centre_indptr_, centre_indices_, centre_values_ : the centres as CSR (n_labels, n_features)
    centre_biases_, centre_norms_ : float32 arrays (n_labels,), their bias coordinate and squared length

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(4, dtype=np.float32), 20, axis=0)
    >>> lt.PfastreXML(n_trees=5, n_jobs=1).fit(X, X).predict_top_k(X[::20], top_k=1).label_ids.ravel()
    array([0, 1, 2, 3], dtype=int32)
    """

    alpha: Annotated[float, Real(0, 1)] = 0.8
    gamma: Annotated[float, Real(0)] = 30.0
    tail: Annotated[str, Choice("centroid", "mle")] = "centroid"
    n_candidates: Annotated[int, Int(1, 2**31 - 1)] = 1000

    _State: ClassVar[type[State]] = TreesAndCentres
    _ranks_by_value: ClassVar[bool] = False  # a score costs a distance: only those of the best are computed

    def _fit(
        self, X: Matrix, Y: sp.csr_array, run: Run, *, row_weights: NDArray[np.float32] | None = None, **_options: Any
    ) -> TreesAndCentres:
        shards = run.map(self._plan(X, Y, row_weights))
        trees = join_trees("PfastreXML", shards[: self.n_trees], self.n_updates)
        return TreesAndCentres(
            **{item.name: getattr(trees, item.name) for item in fields(trees)},
            centres=join_centres(shards[self.n_trees :]),
        )

    def _plan(self, X: Matrix, Y: sp.csr_array, row_weights: NDArray[np.float32] | None = None) -> Plan:
        """Trees first, then ranges of labels: one plan, because a checkpoint belongs to one plan."""
        trees = super()._plan(X, Y, row_weights)
        rows_of_labels = sp.csc_array(Y)
        arrays = {
            "row_indptr": rows_of_labels.indptr.astype(np.int64),
            "row_ids": rows_of_labels.indices.astype(np.int32),
            "propensities": self._propensities(Y).astype(np.float32),
        }
        params = {
            "n_trees": int(self.n_trees),
            "gamma": float(self.gamma) if self.tail == "mle" else 0.0,  # centroids can be resumed with another
            "max_steps": _MLE_STEPS if self.tail == "mle" else 0,
        }
        return replace(
            trees,
            unit="trees and label ranges",
            task=grow_or_learn,
            arrays={**trees.arrays, **arrays},
            params={**trees.params, **params},
            n_tasks=trees.n_tasks + max(1, -(-Y.shape[1] // _LABELS_PER_TASK)),
        )

    def _tail(self, state: TreesAndCentres) -> dict[str, Any]:
        for name in ("alpha", "gamma", "n_candidates"):  # these may be set on a fitted model
            self._check_now(name)
        centres = state.centres
        return {
            "indptr": centres.indptr,
            "indices": centres.indices,
            "values": centres.values,
            "biases": centres.biases,
            "squared_norms": centres.norms,
            "bias": float(self.bias),
            "gamma": float(self.gamma),
            "alpha": float(self.alpha),
            "n_candidates": int(self.n_candidates),
        }

    def _contributions(self, fitted: Fitted[Any], x_row: Matrix, label_id: int) -> Contributions:
        """Share the score as its slope at this row does: the trees' part by their paths, the centre's by x·μ."""
        centres = fitted.state.centres
        trees = path_contributions(fitted.state.forest, x_row, label_id)
        if trees.score <= 0:  # the trees do not propose the label
            return trees._replace(values=np.zeros(len(trees.values)), bias=0.0, score=0.0)
        row = sp.csr_array(x_row)
        scale = 1 / np.sqrt(np.square(row.data, dtype=np.float64).sum() + self.bias**2 or 1)
        part = slice(int(centres.indptr[label_id]), int(centres.indptr[label_id + 1]))
        centre = np.zeros(row.nnz)
        entries, found = find_sorted(row.indices, centres.indices[part])
        centre[entries] = centres.values[part][found]
        shared = scale * row.data * centre
        dot = shared.sum() + scale * self.bias * float(centres.biases[label_id])
        exponent = self.gamma * max(0.0, 1 - 2 * dot + float(centres.norms[label_id]))
        score = self.alpha * np.log(trees.score) - (1 - self.alpha) * np.logaddexp(0, exponent)
        slope = (1 - self.alpha) * self.gamma * 2 / (1 + np.exp(-exponent))
        values = self.alpha * trees.values / trees.score + slope * shared
        return Contributions(row.indices, values, float(score - values.sum()), float(score), exact=False)


def join_centres(shards: list[Shard]) -> Centres:
    """Put the centres of label ranges one after the other."""
    return Centres(
        indptr=join_indptr([shard["indptr"] for shard in shards]),
        indices=np.concatenate([shard["indices"] for shard in shards]),
        values=np.concatenate([shard["values"] for shard in shards]),
        biases=np.concatenate([shard["biases"] for shard in shards]),
        norms=np.concatenate([shard["squared_norms"] for shard in shards]),
    )


def grow_or_learn(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Grow a tree, or learn the centres of one range of labels."""
    n_trees = int(params["n_trees"] or 0)
    if task_id < n_trees:
        return grow_one_tree(arrays, params, task_id, control)
    first = (task_id - n_trees) * _LABELS_PER_TASK
    centres = _core.learn_tail(
        rows_of(arrays, params),
        arrays["row_indptr"],
        arrays["row_ids"],
        arrays["propensities"],
        arrays.get("row_weights"),
        first,
        min(first + _LABELS_PER_TASK, int(params["n_labels"] or 0)),
        float(params["bias"] or 0),
        float(params["gamma"] or 0),
        int(params["max_steps"] or 0),
        control,
    )
    return cast(Shard, centres)
