"""From checked rows to answers: rankings, decisions, probabilities, proposals."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail import _core, _rules
from longtail._dense_scores import NEEDS_CALIBRATION, check_dense_size, dense_scores, sparse_top, with_unit_sums
from longtail._fitted import Facts, Fitted
from longtail._fitted_model import FittedModel
from longtail._input_rows import rows_at, rows_to_rank
from longtail._matrices import Matrix
from longtail._rules import Choice, Int
from longtail._threads import resolve_n_jobs
from longtail._topk import DEEP_TOP_K, Tag, TopK, tags_of
from longtail.calibration.power import Valued
from longtail.decisions import Threshold, candidates_for, check_max_loss, check_utility, choose, rank_rows
from longtail.decisions.ranking import ByValue

_FIRST_TOP_K = 32
# Rankings are padded to top_k columns, so an absurd value would fill the memory.
_MAX_TOP_K = 1_000_000
# Rows times top_k, where top_k is above the number of labels: 800 MB.
_MAX_PADDED = 100_000_000


class Predictor(FittedModel):
    """Everything that a fitted estimator answers for rows, on top of one method of its own, `_top_k`."""

    n_jobs: int | None
    # Whether labels are ranked by value in one pass, by `_by_value`, and not from candidates.
    _ranks_by_value: ClassVar[bool] = False
    # predict() returns the labels whose score reaches this.
    _threshold: ClassVar[float] = 0.5

    def _top_k(self, fitted: Fitted[Any], X: Matrix, top_k: int) -> TopK:
        """Rank the labels of each row."""
        raise NotImplementedError

    def _by_value(self, fitted: Fitted[Any], X: Matrix, values: _core.ValueTable, top_k: int) -> Valued:
        """Rank the labels of each row by what they are worth at their scores; only if `_ranks_by_value`."""
        raise NotImplementedError

    def predict_top_k(
        self, X: Any, top_k: int = 5, *, utility: str | None = None, max_loss: float | None = None
    ) -> TopK:
        """Rank the labels of each row.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
        top_k : int, default 5
            How many labels per row; rows with fewer candidates are padded with label -1 and score 0. Above the number
            of labels, n_rows times top_k must be at most 100 million.
        utility : str, optional
            What the ranking is to be good for: "precision", "psp", "power:0.5", "macro-f1", "coverage" and others,
            see `longtail.decisions.rank`. Needs a calibrated model. By default a calibrated model ranks for
            "balanced", any other by its scores ("score").
        max_loss : float, optional
            The largest loss of expected precision at `top_k`, in points, that the utility may cost.

        Returns
        -------
        TopK
            label_ids int32 (n_rows, top_k) and scores float32 (n_rows, top_k), best first. With a utility, the scores
            are what was ranked by.
        """
        return self._checked_top_k(X, top_k, self._top_k, utility, max_loss)

    def predict(
        self, X: Any, *, top_k: int | None = None, utility: str | None = None, max_loss: float | None = None
    ) -> Any:
        """Decide the labels of each row, in the form that fit got: sparse in, sparse out; 1-D in, 1-D out.

        With `top_k`, rank them instead, as `predict_top_k` does: scikit-learn's Pipeline has no ``predict_top_k``, but
        hands on the arguments of ``predict``.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
        top_k : int, optional
            Return the TopK of `predict_top_k` with so many labels per row.
        utility, max_loss
            As for `predict_top_k`; only with `top_k`.
        """
        if top_k is not None:
            return self.predict_top_k(X, top_k, utility=utility, max_loss=max_loss)
        if utility is not None or max_loss is not None:
            raise ValueError(f"{type(self).__name__}: predict takes utility and max_loss only together with top_k")
        fitted = self._whole()
        X = self._prepared(fitted.facts, X)
        facts = fitted.facts
        if facts.classes is not None:
            best = self._ranked(fitted, X, 1).label_ids[:, 0]
            return facts.classes[np.maximum(best, 0)]
        Y_hat = self._labels_above(fitted, X) if facts.calibration is None else self._decided(fitted, X)
        return Y_hat.toarray() if facts.y_kind == "dense" else Y_hat

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Return the scores of all labels as a dense array, for scikit-learn's tools on small problems.

        Labels that the model does not rank for a row get the lowest score. A 1-D y with two classes gives one column:
        how much the second class is ahead.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)

        Returns
        -------
        float32 array (n_rows, n_labels), or (n_rows,) for two classes
        """
        fitted = self._whole()
        facts = fitted.facts
        rows = self._prepared(facts, X)
        check_dense_size(type(self).__name__, "decision_function", rows.shape[0], facts.n_labels, "use predict_top_k")
        top = self._ranked(fitted, rows, facts.n_labels)
        dense = dense_scores(top, facts.n_labels, fill=min(0.0, float(top.scores.min(initial=0.0))))
        if facts.classes is not None and facts.n_labels == 2:
            return np.asarray(dense[:, 1] - dense[:, 0])
        return dense

    @property
    def predict_proba(self) -> Callable[..., Any]:
        """``predict_proba(X, *, top_k=None)``: the probability of each label, if the model is calibrated.

        Without `top_k`, a dense float32 array (n_rows, n_labels) for scikit-learn's tools on small problems; labels
        that are not ranked have probability 0. With `top_k`, a CSR matrix of the same shape with the `top_k` most
        probable labels of each row, for any number of labels. For 1-D classes the probabilities of a row add up to 1.
        A model that is not calibrated has no such method.
        """
        if self._facts.calibration is None:
            raise AttributeError(f"{type(self).__name__}: {NEEDS_CALIBRATION}")
        return self._predict_proba

    def propose(
        self,
        inputs: Any,
        top_k: int | None = 5,
        *,
        threshold: Threshold = None,
        utility: str | None = None,
        max_loss: float | None = None,
        **ranking: Any,
    ) -> list[list[Tag]]:
        """Propose label ids for each row, best first: at most `top_k`, and only those that reach `threshold`.

        The threshold is one of probabilities if the model is calibrated, and of scores otherwise; "auto" takes those
        of the calibration. `utility` and `max_loss` are as for ``predict_top_k``, `ranking` are its further options.
        """
        owner = type(self).__name__
        _rules.check_value(owner, "threshold", threshold, (_rules.Nothing(), _rules.Real(), Choice("auto")))
        model = copy.copy(self)  # one fitted state for both steps, whatever another thread does
        calibration, n_labels = model._whole().facts.calibration, model.n_labels_
        check_utility(owner, utility, calibration)
        if calibration is not None and ranking.get("n_trees") is not None:
            raise ValueError(
                f"{owner}: n_trees must be None for a calibrated model, got {ranking['n_trees']!r}: probabilities are "
                "those of all trees; predict_top_k ranks by the scores of fewer"
            )
        depth = min(DEEP_TOP_K, n_labels) if top_k is None else top_k
        self._check_top_k(depth, n_labels)
        depth = min(depth, n_labels)

        def candidates(row_ids: NDArray[np.int64] | None, n_candidates: int) -> TopK:
            rows = inputs if row_ids is None else rows_at(inputs, row_ids)
            return model.predict_top_k(rows, n_candidates, utility="score", **ranking)

        found = choose(
            owner,
            candidates,
            calibration,
            depth,
            by_value=model.value_ranker(inputs),
            threshold=threshold,
            utility=utility,
            max_loss=max_loss,
            n_threads=resolve_n_jobs(self.n_jobs),
        )
        return tags_of(*found, range(n_labels))

    # ---- inner parts -------------------------------------------------------------------------------------------------

    def _predict_proba(self, X: Any, *, top_k: int | None = None) -> Any:
        fitted = self._whole()
        facts, owner = fitted.facts, type(self).__name__
        rows = self._prepared(facts, X)
        if top_k is not None:
            self._check_top_k(top_k, facts.n_labels)
            depth = candidates_for(int(top_k), facts.n_labels)
        else:
            check_dense_size(owner, "predict_proba", rows.shape[0], facts.n_labels, "pass top_k for a sparse matrix")
            depth = facts.n_labels
        label_ids, scores = self._ranked(fitted, rows, depth)
        proba = TopK(label_ids, facts.calibration.proba(label_ids, scores))
        if top_k is not None:
            return sparse_top(proba, facts.n_labels, int(top_k))
        dense = dense_scores(proba, facts.n_labels, fill=0.0)
        return dense if facts.classes is None else with_unit_sums(dense)

    def _checked_top_k(
        self,
        X: Any,
        top_k: int,
        rank: Callable[[Fitted[Any], Matrix, int], TopK],
        utility: str | None = None,
        max_loss: float | None = None,
    ) -> TopK:
        """Check X and top_k, rank, and pad to top_k columns."""
        fitted = self._whole()
        n_labels = fitted.facts.n_labels
        self._check_top_k(top_k, n_labels)
        rows = self._prepared(fitted.facts, X)
        if top_k > n_labels and rows.shape[0] * top_k > _MAX_PADDED:
            raise ValueError(
                f"{type(self).__name__}: top_k must be at most {n_labels}, the number of labels, for so many rows; got "
                f"{top_k} for {rows.shape[0]:,} rows, and padding may add up to {_MAX_PADDED:,} entries"
            )
        calibration = fitted.facts.calibration
        check_max_loss(type(self).__name__, max_loss, utility, calibration)
        utility = check_utility(type(self).__name__, utility, calibration)
        if utility == "score":
            found = self._numbers(rank(fitted, rows, min(int(top_k), n_labels)))
        else:

            def by_value(values: _core.ValueTable, top_k: int) -> Valued:
                return self._by_value(fitted, rows, values, top_k)

            found = rank_rows(
                lambda row_ids, depth: self._numbers(rank(fitted, rows if row_ids is None else rows[row_ids], depth)),
                calibration,
                utility,
                min(int(top_k), n_labels),
                by_value=by_value if self._ranks_by_value else None,
                max_loss=max_loss,
                n_threads=resolve_n_jobs(self.n_jobs),
            )
        n_missing = int(top_k) - found.label_ids.shape[1]
        if n_missing == 0:
            return found
        beside = ((0, 0), (0, n_missing))
        return TopK(np.pad(found.label_ids, beside, constant_values=-1), np.pad(found.scores, beside))

    def value_ranker(self, X: Any) -> ByValue | None:
        """Return a function that ranks the labels of these rows by value; None if the estimator needs candidates."""
        if not self._ranks_by_value:
            return None
        fitted = self._whole()

        def by_value(values: _core.ValueTable, top_k: int) -> Valued:
            rows = self._prepared(fitted.facts, X)
            return self._by_value(fitted, rows, values, min(top_k, fitted.facts.n_labels))

        return by_value

    def _ranked(self, fitted: Fitted[Any], X: Matrix, top_k: int) -> TopK:
        return self._numbers(self._top_k(fitted, X, top_k))

    def _numbers(self, top: TopK) -> TopK:
        """Refuse a ranking with NaN: products of large finite numbers can overflow in both directions."""
        is_nan = np.isnan(top.scores)
        if is_nan.any():
            owner, row = type(self).__name__, int(is_nan.any(axis=1).argmax())
            raise ValueError(
                f"{owner}: the scores of row {row} overflow float32; scale X down, or train the model again"
            )
        return top

    def _check_top_k(self, top_k: object, n_labels: int) -> None:
        _rules.check_value(type(self).__name__, "top_k", top_k, (Int(1, max(_MAX_TOP_K, n_labels)),))

    def _prepared(self, facts: Facts, X: ArrayLike) -> Matrix:
        """Check rows to rank and bring them into the form that the model was trained on."""
        return rows_to_rank(self, facts, X)

    def _decided(self, fitted: Fitted[Any], X: Matrix) -> sp.csr_array:
        """Collect every label that is probable enough for the measure of the calibration."""
        facts = fitted.facts
        label_ids, scores = self._ranked(fitted, X, candidates_for(1, facts.n_labels))
        row_ids, columns = np.nonzero(facts.calibration.decide(label_ids, scores))
        ones = np.ones(len(row_ids), dtype=facts.y_dtype)
        return sp.csr_array((ones, (row_ids, label_ids[row_ids, columns])), shape=(X.shape[0], facts.n_labels))

    def _labels_above(self, fitted: Fitted[Any], X: Matrix) -> sp.csr_array:
        """Collect every label whose score reaches the threshold; ranks deeper only where a row is full."""
        n_rows, n_labels = X.shape[0], fitted.facts.n_labels
        rows = np.arange(n_rows)
        found: list[tuple[NDArray[Any], NDArray[Any]]] = []
        top_k = min(_FIRST_TOP_K, n_labels)
        while len(rows):
            label_ids, scores = self._ranked(fitted, X[rows], top_k)
            reached = (label_ids >= 0) & (scores >= self._threshold)
            full = reached[:, -1] & (top_k < n_labels)
            row_numbers, columns = np.nonzero(reached & ~full[:, None])
            found.append((rows[row_numbers], label_ids[row_numbers, columns]))
            rows = rows[full]
            top_k = min(top_k * 4, n_labels)
        row_ids = np.concatenate([part for part, _ in found]) if found else np.empty(0, np.int64)
        label_ids = np.concatenate([part for _, part in found]) if found else np.empty(0, np.int64)
        ones = np.ones(len(row_ids), dtype=fitted.facts.y_dtype)
        return sp.csr_array((ones, (row_ids, label_ids)), shape=(n_rows, n_labels))
