"""The contract that every estimator keeps: what a subclass writes, and how it is fitted."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail import _core, _os, _rules
from longtail._contributions import Contributions
from longtail._declared import Collected
from longtail._estimate import Estimate, probe_by_rows
from longtail._fitted import Facts, Fitted, State
from longtail._input_rows import checked_rows, rows_to_learn
from longtail._matrices import Labels, Matrix, checked_labels, checked_weights, copied_bytes, some_rows
from longtail._predictor import Predictor
from longtail._progress import Progress
from longtail._ranges import Between, OneOf
from longtail._rules import Bool
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail._words import counted
from longtail.calibration import (
    FEWER_SHARE,
    MOST_RANKED,
    Calibration,
    Measure,
    further_fits,
    held_out_share,
    ranked_labels,
)
from longtail.execution import Executor, Run

_logger = logging.getLogger("longtail")

# Rows that fit(calibrate=True) needs.
_MIN_CALIBRATED_ROWS = 20
# Rows that a model with fewer rows must have to be compared with, and how many rows and labels per row it ranks then.
_MIN_FEWER_ROWS = 100
_N_COMPARED_ROWS = 500
_N_COMPARED = 10


@dataclass(kw_only=True, eq=False, repr=False)
class XMCClassifier(Predictor):
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

    # What a parameter may be, and where `longtail.tune` looks for good values: both from the annotations.
    _rules: ClassVar[Any] = Collected(*_rules.KINDS)
    _ranges: ClassVar[Any] = Collected(Between, OneOf, single=True)
    # Parameters that came after format 2, with the values that older models were trained with.
    _absent: ClassVar[dict[str, Any]] = {}
    # What a fitted model can do besides ranking: add labels, and correct single ones from a few rows.
    _can_add_labels: ClassVar[bool] = False
    _can_correct_labels: ClassVar[bool] = False
    # Whether `fit` calibrates, whatever it is asked.
    _always_calibrates: ClassVar[bool] = False

    # ---- what a subclass writes, besides Predictor._top_k ------------------------------------------------------------

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **options: Any) -> State:
        """Return the fitted state; `options` are arguments of the subclass's own ``fit``."""
        raise NotImplementedError

    def _contributions(self, fitted: Fitted[Any], x_row: Matrix, label_id: int) -> Contributions | None:
        """Return what each feature of one prepared row adds to the score of a label; None if unknown."""
        return None

    # ---- what a user calls -------------------------------------------------------------------------------------------

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
            three fifths of the rows (of more than 25,000 rows: on up to four fifths) and calibrated on the others, a
            third one on a quarter of its rows: that costs 0.75 to 1 times the fit in addition.
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
        top = self._ranked(fitted, rows, min(MOST_RANKED, fitted.facts.n_labels))
        Y = self._label_matrix(fitted.facts, y, rows.shape[0])
        n_labelled = int(np.count_nonzero(np.diff(Y.indptr)))
        if n_labelled < _MIN_CALIBRATED_ROWS:
            _logger.warning(
                "%s: probabilities learnt from %s with labels mean little; a thousand or more are good",
                type(self).__name__,
                counted(n_labelled, "row"),
            )
        calibration.fit(top, Y, fitted.facts.label_counts, fitted.facts.n_rows)
        self._fitted = Fitted(replace(fitted.facts, calibration=calibration), fitted.state)
        return self

    def estimate(self, X: Any, Y: Any, *, calibrate: bool = False) -> Estimate:
        """Estimate what ``fit(X, Y, calibrate=calibrate)`` will take: seconds, peak memory and model size.

        Fits on a few rows, and on twice as many until that takes half a second, to find out.

        Parameters
        ----------
        X, Y
            As for `fit`.
        calibrate : bool, default False
            Whether to count the further fits of a calibration as well.
        """
        rows, labels, _ = self._data_to_estimate(X, Y, calibrate=calibrate)
        order = np.random.default_rng(0).permutation(np.flatnonzero(np.diff(labels.indptr)))

        def fit(n_rows: int) -> int:
            part = np.sort(order[:n_rows])
            fitted = type(self)(**(self.get_params(deep=False) | {"n_jobs": 1})).fit(rows[part], labels[part])
            return sum(array.nbytes for array in fitted._fitted_arrays().values())

        n_bytes = rows.nbytes if isinstance(rows, np.ndarray) else rows.data.nbytes + rows.indices.nbytes
        found = probe_by_rows(fit, max(1, len(order)), n_bytes, resolve_n_jobs(self.n_jobs))
        return found.with_calibration(further_fits(rows.shape[0])) if calibrate else found

    # ---- for Auto and the search of parameters -----------------------------------------------------------------------

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

    # ---- inner parts -------------------------------------------------------------------------------------------------

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
        _os.require_memory(owner, X.shape[1], labels.Y.shape[1])
        if sample_weight is not None:
            weights = checked_weights(owner, sample_weight, X.shape[0])
            if not weights.all():
                kept = np.flatnonzero(weights)
                X, weights, labels = checked_rows(X[kept]), weights[kept], labels.at(kept)
            options["row_weights"] = weights
        self._check_learnable(labels.Y, calibrate=calibrate)
        with Run(
            owner, resolve_n_jobs(self.n_jobs), executor=executor, checkpoint=checkpoint, progress=progress
        ) as run:
            state = self._fit(X, labels.Y, run, **options)
        facts = self._facts_of(labels, X.shape[1], feature_names)
        if calibrate:
            inside = None if checkpoint is None else Path(checkpoint) / "calibration"
            options |= self._reused(state, labels.Y)
            calibration = self._held_out_calibration(X, labels, executor=executor, checkpoint=inside, **options)
            facts = replace(facts, calibration=calibration.for_model(facts.label_counts, facts.n_rows))
        self._fitted = Fitted(facts, state)
        return self

    def _data_to_estimate(self, X: Any, y: Any, *, calibrate: bool) -> tuple[Matrix, sp.csr_array, int]:
        """Check rows and labels as `fit` does, and prepare them; also return the bytes of what was copied for that."""
        owner = type(self).__name__
        _rules.check_params(owner, self.get_params(deep=False), self._rules)
        rows, _ = self._training_rows(X)
        Y = checked_labels(owner, y, rows.shape[0]).Y
        _os.require_memory(owner, rows.shape[1], Y.shape[1])
        self._check_learnable(Y, calibrate=calibrate)
        return rows, Y, copied_bytes(rows, X)

    def _check_learnable(self, Y: sp.csr_array, *, calibrate: bool) -> None:
        """Raise ValueError before the first fit if no row has a label, or too few have for a calibration."""
        if Y.nnz == 0:
            raise ValueError(
                f"{type(self).__name__}: y must have a label in at least one row, got none in "
                f"{counted(Y.shape[0], 'row')}"
            )
        if calibrate:
            self._check_held_out(Y)

    def _held_out_rows(self, n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return rows to hold out for the calibration, rows to train on, and the random order that both come from."""
        order = np.random.default_rng(self.random_state).permutation(n_rows)
        n_held_out = max(1, round(held_out_share(n_rows) * n_rows))
        return np.sort(order[:n_held_out]), np.sort(order[n_held_out:]), order

    def _check_held_out(self, Y: sp.csr_array) -> None:
        """Raise ValueError before the first fit if too few rows have labels for a calibration."""
        owner, n_rows = type(self).__name__, Y.shape[0]
        if n_rows < _MIN_CALIBRATED_ROWS:
            raise ValueError(
                f"{owner}: calibrate=True needs {_MIN_CALIBRATED_ROWS} rows or more, got {n_rows}; fit without it"
            )
        outside, _, _ = self._held_out_rows(n_rows)
        is_outside = np.zeros(n_rows, dtype=bool)
        is_outside[outside] = True
        entry_is_outside = np.repeat(is_outside, np.diff(Y.indptr))
        has_label = np.zeros(Y.shape[1], dtype=bool)
        has_label[Y.indices[~entry_is_outside]] = True
        if not has_label[Y.indices[entry_is_outside]].any():
            n_labelled = int(np.count_nonzero(np.diff(Y.indptr)))
            raise ValueError(
                f"{owner}: calibrate=True needs held-out rows with labels that other rows have, got none with labels "
                f"in {n_labelled} of {n_rows} rows; fit without it"
            )

    def _reused(self, state: State, Y: sp.csr_array) -> dict[str, Any]:
        """Return options of `_fit` with which fits on a part of the rows take over parts of a fit on all of them."""
        return {}

    def _held_out_calibration(
        self, X: Matrix, labels: Labels, *, executor: str | Executor | None, checkpoint: Path | None, **options: Any
    ) -> Calibration:
        """Fit the same estimator on a part of the prepared rows and calibrate it on the others.

        A quarter of the part trains another one: how the meaning of scores changes with the number of training rows.
        The part is drawn at random, not stratified: held-out rows must be to the part what new rows are to all rows.
        """
        n_rows, Y = X.shape[0], labels.Y
        outside, inside, order = self._held_out_rows(n_rows)
        n_held_out = len(outside)
        n_fewer = round(FEWER_SHARE * (n_rows - n_held_out))
        weights = options.pop("row_weights", None)

        def rank_by(row_ids: NDArray[np.int64], X_new: Matrix, top_k: int, folder: Path | None) -> tuple[TopK, Any]:
            """Fit on some rows and rank others; also return the training rows of each label."""
            how = options if weights is None else options | {"row_weights": weights[row_ids]}
            part = type(self)(**self.get_params(deep=False))
            own = labels.at(row_ids)
            with Run(type(self).__name__, resolve_n_jobs(self.n_jobs), executor=executor, checkpoint=folder) as run:
                state = part._fit(some_rows(X, row_ids), own.Y, run, **how)
            fitted = Fitted(self._facts_of(own, X.shape[1], None), state)
            top_k = min(top_k, fitted.facts.n_labels)
            return part._ranked(fitted, X_new, top_k), fitted.facts.label_counts

        X_outside, Y_outside = some_rows(X, outside), some_rows(Y, outside)
        top, counts = rank_by(inside, X_outside, ranked_labels(Y.nnz, n_rows), checkpoint)
        calibration = Calibration().fit(top, Y_outside, counts, len(inside))
        fewer = np.sort(order[n_held_out : n_held_out + n_fewer])
        if n_fewer < _MIN_FEWER_ROWS or not np.diff(Y.indptr)[fewer].any():
            return calibration
        some = np.arange(0, n_held_out, -(-n_held_out // _N_COMPARED_ROWS))
        inner = None if checkpoint is None else checkpoint / "fewer"
        by_fewer, counts = rank_by(fewer, some_rows(X_outside, some), _N_COMPARED, inner)
        return calibration.for_more_rows(by_fewer, Y_outside[some], counts, n_fewer, n_rows)

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

    def _training_rows(self, X: ArrayLike) -> tuple[Matrix, NDArray[Any] | None]:
        """Check and prepare rows to learn from; also return the names of their columns, if X has any."""
        return rows_to_learn(self, X, unit_rows=self.unit_rows)

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
