"""The contract that every estimator keeps: validation, containers, runs, predictions."""

from __future__ import annotations

import copy
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeGuard, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail import _core, _rules
from longtail._contributions import Contributions
from longtail._declared import Collected
from longtail._dense_scores import NEEDS_CALIBRATION, check_dense_size, dense_scores, sparse_top, with_unit_sums
from longtail._estimator import Estimator
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import (
    Labels,
    Matrix,
    canonical_csr,
    check_magnitude,
    checked_labels,
    checked_weights,
    with_unit_rows,
    without_stored_zeros,
)
from longtail._progress import Progress
from longtail._ranges import Between, OneOf
from longtail._rules import Bool, Choice, Int
from longtail._threads import resolve_n_jobs
from longtail._topk import Tag, TopK, tags_of
from longtail._version import __version__
from longtail._words import counted
from longtail.calibration import Calibration, Measure
from longtail.decisions import Threshold, candidates_for, check_utility, choose, rank_rows
from longtail.execution import Executor, Run

_FIRST_TOP_K = 32
# How deep rankings go where the caller sets no limit.
_DEEP_TOP_K = 100
# Rankings are padded to top_k columns, so an absurd value would fill the memory.
_MAX_TOP_K = 1_000_000
# The share of rows that fit(calibrate=True) holds out, and how many rows it needs.
_HELD_OUT = 0.2
_MIN_CALIBRATED_ROWS = 20


@dataclass(kw_only=True, eq=False, repr=False)
class XMCClassifier(Estimator):
    """Base of all estimators.

    A subclass is a keyword-only dataclass. Each parameter is one annotated line: type, rules, search range, default.
    `_State` names the class of its fitted state; `_fit` returns one, `_top_k` ranks rows with one. `fit` stores the
    state with a single assignment after everything else has succeeded, and every prediction reads it once: an
    interrupted fit changes nothing, and a thread that predicts while another fits uses the old model or the new one.
    """

    # Scale rows to length one, in training and in prediction. The choice is kept in the model.
    unit_rows: Annotated[bool, Bool()] = False
    n_jobs: Annotated[int | None, _rules.N_JOBS] = None
    random_state: Annotated[int, _rules.SEED] = 0

    _State: ClassVar[type[State]] = State
    # What a parameter may be, and where `longtail.tune` looks for good values: both from the annotations.
    _rules: ClassVar[Any] = Collected(*_rules.KINDS)
    _ranges: ClassVar[Any] = Collected(Between, OneOf, single=True)
    # Parameters that came after format 2, with the values that older models were trained with.
    _absent: ClassVar[dict[str, Any]] = {}
    # What a fitted model can do besides ranking: add labels, and correct single ones from a few rows.
    _can_add_labels: ClassVar[bool] = False
    _can_correct_labels: ClassVar[bool] = False
    # Options of `predict_top_k` besides those of all estimators.
    _ranking_options: ClassVar[frozenset[str]] = frozenset()
    # predict() returns the labels whose score reaches this.
    _threshold: ClassVar[float] = 0.5

    # ---- what a subclass writes -------------------------------------------------------------------------------

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **options: Any) -> State:
        """Return the fitted state; `options` are arguments of the subclass's own ``fit``."""
        raise NotImplementedError

    def _top_k(self, fitted: Fitted[Any], X: Matrix, top_k: int) -> TopK:
        """Rank the labels of each row."""
        raise NotImplementedError

    def _contributions(self, fitted: Fitted[Any], x_row: Matrix, label_id: int) -> Contributions | None:
        """Return what each feature of one prepared row adds to the score of a label; None if unknown."""
        return None

    # ---- what a user calls ------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        calibrate: bool = False,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from rows and their labels.

        If the fit fails or is interrupted, the estimator stays exactly as it was before.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
            Read as float32; any other type or layout is copied once.
        y : CSR matrix or 0/1 array (n_rows, n_labels), or 1-D classes
            Rows without labels are allowed and count as all-negative.
        calibrate : bool, default False
            Also learn probabilities, for `predict_top_k` by utility and for `predict`. A second model is trained on
            four fifths of the rows and calibrated on the others: 0.8 times the cost of the fit in addition.
        executor : "threads", "inline", "ray", "auto", "ray://host:port" or an Executor, default "threads"
            Where tasks run; "ray" and the like are those of `RayExecutor`. The model is the same, byte for byte.
        checkpoint : path, optional
            Directory that makes the run resumable: a rerun with the same data and parameters skips finished tasks.
        progress : None, "bar" or callable(done, total)
            The callable may return False to stop.

        Returns
        -------
        self
        """
        return self._fit_whole(X, y, calibrate=calibrate, executor=executor, checkpoint=checkpoint, progress=progress)

    def calibrate(self, X: Any, y: Any, *, measure: Measure = "micro_f1", floor: float | None = None) -> Self:
        """Learn from held-out rows what scores mean, for `predict_top_k` by utility and for `predict`.

        ``fit(..., calibrate=True)`` needs no held-out rows.

        Parameters
        ----------
        X, y
            Rows that `fit` has not seen, and their labels; a thousand or more are good.
        measure : "micro_f1", "macro_f1" or "precision", default "micro_f1"
            What `predict` maximises.
        floor : float, optional
            The precision to keep, for ``measure="precision"``.
        """
        calibration = Calibration(measure=measure, floor=floor)
        calibration.check_params()
        fitted = self._whole()
        rows = self._prepared(fitted.facts, X)
        top = self._ranked(fitted, rows, candidates_for(1, fitted.facts.n_labels))
        Y = self._label_matrix(fitted.facts, y, rows.shape[0])
        calibration.fit(top, Y, fitted.facts.label_counts, fitted.facts.n_rows)
        self._fitted = Fitted(replace(fitted.facts, calibration=calibration), fitted.state)
        return self

    def predict_top_k(
        self, X: Any, top_k: int = 5, *, utility: str | None = None, max_loss: float | None = None
    ) -> TopK:
        """Rank the labels of each row.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
        top_k : int, default 5
            How many labels per row; rows with fewer candidates are padded with label -1 and score 0.
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

    # ---- the protocol of models (_model.py) -------------------------------------------------------------------

    @property
    def takes_texts(self) -> bool:
        """Inputs are rows of features; a Tagger takes texts."""
        return False

    @property
    def ranking_options(self) -> frozenset[str]:
        """Names of the options of `predict_top_k` that not every estimator has."""
        return self._ranking_options

    def resolve(self, X: Any, y: Any) -> Self:
        """Return the estimator that fits these rows: this one. `Auto` chooses one."""
        return self

    def with_parts(self) -> Self:
        """Return the estimator to search parameters for: this one."""
        return self

    def checked_pairs(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check the kinds of rows and labels; returns both as matrices."""
        rows = X if sp.issparse(X) else np.asarray(X)
        return rows, checked_labels(type(self).__name__, y, rows.shape[0]).Y

    @property
    def label_names_(self) -> list[str]:
        """Labels are only numbered here; a Tagger has names."""
        return []

    @property
    def calibration_(self) -> Any:
        """What turns scores into probabilities; None if the model is not calibrated."""
        return self._facts.calibration if self.__sklearn_is_fitted__() else None

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
        depth = min(_DEEP_TOP_K, n_labels) if top_k is None else top_k
        self._check_top_k(depth, n_labels)

        def candidates(row_ids: NDArray[np.int64] | None, n_candidates: int) -> TopK:
            rows = inputs if row_ids is None else _rows_at(inputs, row_ids)
            return model.predict_top_k(rows, n_candidates, utility="score", **ranking)

        found = choose(
            owner,
            candidates,
            calibration,
            depth,
            threshold=threshold,
            utility=utility,
            max_loss=max_loss,
            n_threads=resolve_n_jobs(self.n_jobs),
        )
        return tags_of(*found, range(n_labels))

    def encode(self, labels: Any) -> tuple[sp.csr_array, int]:
        """Check a 0/1 label matrix against the labels of the model; nothing is unknown (0)."""
        Y = sp.csr_array(labels)
        n_labels = self._whole().facts.n_labels
        if Y.shape[1] != n_labels:
            raise ValueError(f"the data has {Y.shape[1]} labels, but {type(self).__name__} was fitted with {n_labels}")
        return checked_labels(type(self).__name__, Y, Y.shape[0]).Y, 0

    def card(self) -> dict[str, Any]:
        """Describe the model: JSON values for people and pages."""
        facts = self._whole().facts
        params = self.get_params(deep=False)
        counts = np.sort(facts.label_counts)
        return {
            "estimator": type(self).__name__,
            "parameters": {
                name: value if value is None or isinstance(value, bool | int | float | str) else repr(value)
                for name, value in params.items()
            },
            "n_rows": facts.n_rows,
            "n_features": facts.n_features_in,
            "n_labels": facts.n_labels,
            "label_counts": {
                "least": int(counts[0]),
                "median": float(np.median(counts)),
                "greatest": int(counts[-1]),
                "n_labels_up_to_5": int((counts <= 5).sum()),
                "labels_per_row": float(counts.sum() / facts.n_rows),
            },
            "metrics": facts.metrics or {},
            "evaluated_on": facts.evaluated_on,
            "instruction_set": facts.instruction_set,
            "versions": {"longtail": __version__, "python": platform.python_version()},
        }

    def with_threads(self, n_jobs: int | None) -> Self:
        """Return the same fitted model with another `n_jobs`; arrays are shared."""
        return copy.copy(self).set_params(n_jobs=n_jobs)

    # ---- fitted attributes ------------------------------------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """Columns of X in training."""
        return self._facts.n_features_in

    @property
    def n_labels_(self) -> int:
        """Labels the model knows."""
        return self._facts.n_labels

    @property
    def n_rows_(self) -> int:
        """Rows in training."""
        return self._facts.n_rows

    @property
    def label_counts_(self) -> NDArray[np.int64]:
        """Training rows of each label."""
        return self._facts.label_counts

    @property
    def classes_(self) -> NDArray[Any]:
        """The values of a 1-D y; the label ids if y was a matrix."""
        facts = self._facts
        return np.arange(facts.n_labels) if facts.classes is None else facts.classes

    def __getattr__(self, name: str) -> Any:
        """Read the public attributes of the fitted state."""
        fitted = self.__dict__.get("_fitted")
        if fitted is not None and name in fitted.public:
            return fitted.public[name]
        if fitted is None and hasattr(type(self), name):  # a property that needs a fitted model
            self._check_fitted()
        if name == "predict_proba":
            raise AttributeError(f"{type(self).__name__}: {NEEDS_CALIBRATION}")
        hint = "; it is not fitted yet" if fitted is None and name.endswith("_") else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.endswith("_") and not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__}: {name} is part of the fitted model and cannot be set")
        super().__setattr__(name, value)

    @property
    def _facts(self) -> Facts:
        fitted: Fitted[Any] | None = self.__dict__.get("_fitted")
        if fitted is None:
            raise AttributeError(f"{type(self).__name__} is not fitted yet")
        return fitted.facts

    def _fitted_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the model as they are saved, by public name."""
        fitted = self._whole()
        return {name: fitted.public[name] for name in (*Facts.declared().arrays, *self._State.declared().arrays)}

    # ---- shared inner parts -----------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in self.__dict__

    def _whole(self) -> Fitted[Any]:
        """Return the fitted model, or raise NotFittedError. Read once per call, so that a refit cannot mix two."""
        self._check_fitted()
        fitted: Fitted[Any] = self.__dict__["_fitted"]
        if fitted.facts.verification is not None:
            fitted.facts.verification.check()
        return fitted

    def _fit_whole(
        self,
        X: Any,
        y: Any,
        *,
        calibrate: bool,
        executor: str | Executor | None,
        checkpoint: str | os.PathLike[str] | None,
        progress: Progress,
        sample_weight: Any = None,
        **options: Any,
    ) -> Self:
        owner = type(self).__name__
        _rules.check_params(owner, self.get_params(deep=False), self._rules)
        X, feature_names = self._training_rows(X)
        labels = checked_labels(owner, y, X.shape[0])
        if sample_weight is not None:
            weights = checked_weights(owner, sample_weight, X.shape[0])
            if not weights.all():
                kept = np.flatnonzero(weights)
                X, weights, labels = _native(X[kept]), weights[kept], labels.at(kept)
            options["row_weights"] = weights
        if labels.Y.nnz == 0:
            raise ValueError(
                f"{owner}: y must have a label in at least one row, got none in {counted(X.shape[0], 'row')}"
            )
        with Run(
            owner, resolve_n_jobs(self.n_jobs), executor=executor, checkpoint=checkpoint, progress=progress
        ) as run:
            state = self._fit(X, labels.Y, run, **options)
        facts = self._facts_of(labels, X.shape[1], feature_names)
        if calibrate:
            inside = None if checkpoint is None else Path(checkpoint) / "calibration"
            calibration = self._held_out_calibration(X, labels.Y, executor=executor, checkpoint=inside, **options)
            facts = replace(facts, calibration=calibration.for_model(facts.label_counts, facts.n_rows))
        self._fitted = Fitted(facts, state)
        return self

    def _with_labels_at(self, places: NDArray[np.int64]) -> Self | None:
        """Return a copy of the model with the labels at these increasing ids only; None if it cannot remove labels."""
        fitted = self._whole()
        new_ids = np.full(fitted.facts.n_labels, -1, dtype=np.int32)
        new_ids[places] = np.arange(len(places), dtype=np.int32)
        state = fitted.state.keep_labels(new_ids)
        if state is None:
            return None
        smaller = copy.copy(self)
        smaller._fitted = Fitted(fitted.facts.with_labels(places, fitted.facts.label_counts[places]), state)
        return smaller

    def _calibrate_with(self, calibration: Calibration) -> None:
        """Take over the calibration of a model of the same kind that was trained on other rows."""
        fitted = self._whole()
        moved = calibration.for_model(fitted.facts.label_counts, fitted.facts.n_rows)
        self._fitted = Fitted(replace(fitted.facts, calibration=moved), fitted.state)

    def _held_out_calibration(self, X: Matrix, Y: sp.csr_array, **how: Any) -> Calibration:
        """Fit the same estimator on a part of the prepared rows and calibrate it on the others.

        The part is drawn at random, not stratified: held-out rows must be to the part what new rows are to all rows.
        """
        n_rows = X.shape[0]
        if n_rows < _MIN_CALIBRATED_ROWS:
            raise ValueError(
                f"{type(self).__name__}: calibrate=True needs {_MIN_CALIBRATED_ROWS} rows or more, got {n_rows}; "
                "fit without it"
            )
        order = np.random.default_rng(self.random_state).permutation(n_rows)
        n_held_out = max(1, round(_HELD_OUT * n_rows))
        inside, outside = np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
        part = type(self)(**self.get_params(deep=False))
        if (weights := how.pop("row_weights", None)) is not None:
            how["sample_weight"] = weights[inside]
        part._fit_whole(X[inside], Y[inside], calibrate=False, progress=None, **how)
        return cast(Calibration, part.calibrate(X[outside], Y[outside]).calibration_)

    def _facts_of(self, labels: Labels, n_features: int, feature_names: NDArray[Any] | None) -> Facts:
        n_rows, n_labels = labels.Y.shape
        return Facts(
            n_features_in=n_features,
            n_labels=n_labels,
            n_rows=n_rows,
            y_kind=labels.kind,
            unit_rows=bool(self.unit_rows),
            instruction_set=_core.isa,
            label_counts=np.bincount(labels.Y.indices, minlength=n_labels).astype(np.int64),
            y_dtype=labels.dtype,
            classes=labels.classes,
            feature_names_in=feature_names,
        )

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
        calibration = fitted.facts.calibration
        utility = check_utility(type(self).__name__, utility, calibration)
        if utility == "score":
            found = self._numbers(rank(fitted, rows, min(int(top_k), n_labels)))
        else:
            found = rank_rows(
                lambda row_ids, depth: self._numbers(rank(fitted, rows if row_ids is None else rows[row_ids], depth)),
                calibration,
                utility,
                min(int(top_k), n_labels),
                max_loss=max_loss,
                n_threads=resolve_n_jobs(self.n_jobs),
            )
        n_missing = int(top_k) - found.label_ids.shape[1]
        if n_missing == 0:
            return found
        beside = ((0, 0), (0, n_missing))
        return TopK(np.pad(found.label_ids, beside, constant_values=-1), np.pad(found.scores, beside))

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

    def _training_rows(self, X: ArrayLike) -> tuple[Matrix, NDArray[Any] | None]:
        """Check and prepare rows to learn from; also return the names of their columns, if X has any."""
        checked, names = self._sklearn_checked(X, None)
        rows = without_stored_zeros(_native(checked))
        check_magnitude(type(self).__name__, rows)
        return (with_unit_rows(rows) if self.unit_rows else rows), names

    def _prepared(self, facts: Facts, X: ArrayLike) -> Matrix:
        """Check rows to rank and bring them into the form that the model was trained on."""
        rows = _native(X if _is_ready(facts, X) else self._sklearn_checked(X, facts)[0])
        check_magnitude(type(self).__name__, rows)
        return with_unit_rows(rows) if facts.unit_rows else rows

    def _sklearn_checked(self, X: ArrayLike, facts: Facts | None) -> tuple[Any, NDArray[Any] | None]:
        from sklearn.utils.validation import validate_data

        # scikit-learn stores what it finds on the estimator it is given: a stand-in, so that `self` stays as it was.
        stand_in = _stand_in(self, facts)
        try:
            with np.errstate(over="ignore"):  # what overflows float32 becomes infinite and is then refused
                checked = validate_data(
                    stand_in,
                    X,
                    reset=facts is None,
                    accept_sparse="csr",
                    dtype=np.float32,
                    order="C",
                    ensure_min_samples=1 if facts is None else 0,
                )
        except ValueError as error:
            if "contains NaN" in str(error):  # scikit-learn goes on to recommend other estimators
                name = type(self).__name__
                raise ValueError(f"{name}: Input X contains NaN; fill or drop the missing values first") from None
            raise
        return checked, getattr(stand_in, "feature_names_in_", None)

    def _label_matrix(self, facts: Facts, y: Any, n_rows: int) -> sp.csr_array:
        """Check labels of other rows, and bring 1-D classes into the columns of training."""
        owner = type(self).__name__
        if facts.classes is None:
            Y = checked_labels(owner, y, n_rows).Y
            if Y.shape[1] != facts.n_labels:
                raise ValueError(f"{owner}: y must have {facts.n_labels} labels, as in training; got {Y.shape[1]}")
            return Y
        values = np.asarray(y)
        places = np.minimum(np.searchsorted(facts.classes, values), facts.n_labels - 1)
        known = np.flatnonzero(facts.classes[places] == values)
        ones = np.ones(len(known), dtype=np.float32)
        return sp.csr_array((ones, (known, places[known])), shape=(n_rows, facts.n_labels))

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


def _native(X: Any) -> Matrix:
    """Return rows in the one form that native code reads, with every index checked once."""
    if not sp.issparse(X):
        return np.ascontiguousarray(X)
    rows = canonical_csr(X)
    _core.check_csr(rows.shape[1], rows.indptr, rows.indices, rows.data, "X")
    return rows


def _rows_at(X: Any, row_ids: NDArray[np.int64]) -> Any:
    """Return some rows of whatever a user passes as rows."""
    from sklearn.utils import _safe_indexing

    return sp.csr_array(X)[row_ids] if sp.issparse(X) else _safe_indexing(X, row_ids)


def _is_ready(facts: Facts, X: Any) -> TypeGuard[Matrix]:
    """Return whether rows to rank need no conversion by scikit-learn, as a Tagger's do not."""
    if facts.feature_names_in is not None:  # names are compared, or their absence gives a warning
        return False
    if isinstance(X, sp.csr_array | sp.csr_matrix):
        return bool(X.dtype == np.float32 and X.ndim == 2 and X.shape[1] == facts.n_features_in)
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float32 and X.flags.c_contiguous:
        return X.shape[1] == facts.n_features_in and bool(np.isfinite(X).all())
    return False


def _stand_in(estimator: Estimator, facts: Facts | None) -> Any:
    """Make an object that scikit-learn's validation takes for the estimator."""
    made = type(type(estimator).__name__, (), {"__sklearn_tags__": lambda _: estimator.__sklearn_tags__()})()
    if facts is not None:
        made.n_features_in_ = facts.n_features_in
        if facts.feature_names_in is not None:
            made.feature_names_in_ = facts.feature_names_in
    return made
